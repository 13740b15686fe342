//! Schedules: tasks that put others, their runs, instead of becoming ready.
//!
//! A schedule has a key, by which it is changed and removed. Its runs are counted, and the number of
//! a run is a part of its key. The moments of the runs follow each other after an interval.

use super::labels;
use super::moments::SAME_CLOCK;
use super::{
    After, Answer, Cause, Draft, Micros, Model, NEVER, OnKey, Refusal, Stage, State, Status, Task,
    TaskNo, TubeNo, Verb,
};

/// How long a run waits that does not fit into its tube.
const RETRY: Micros = 1_000_000;
/// How late a run may be if no missed runs are made up for.
const LATE: Micros = 60_000_000;
/// How long after the restore of an id a run might take an id that is still to be restored.
const RESTORE_TIME: Micros = 60_000_000;
const MIN_INTERVAL: Micros = 1000;
const KEY_MAX: usize = tubewell::MAX_KEY - 25;

/// Which of the missed runs are made up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missed {
    Latest(u32),
    All,
    Skip,
}

/// What a call says of a schedule. What is `None` stays as it is.
#[derive(Clone, Debug, Default)]
#[allow(clippy::option_option, reason = "the outer one: whether it changes")]
pub struct Terms {
    pub every: Option<Micros>,
    /// The moment of the wall clock at which the runs begin.
    pub starting: Option<Micros>,
    pub times: Option<Option<u64>>,
    pub missed: Option<Missed>,
    pub within: Option<Option<Micros>>,
    pub skips_overlap: Option<bool>,
    /// The body and all options of the runs.
    pub put: Option<Draft>,
}

/// What a schedule of another store brings along. `has_id`: it has an id of its own.
#[derive(Clone, Copy, Debug)]
pub struct RestoredRuns {
    pub has_id: bool,
    pub runs: u64,
    pub skipped: u64,
}

/// What is stored of a schedule.
#[derive(Clone, Debug, PartialEq)]
pub struct Recur {
    pub every: Micros,
    /// The moment of the next run.
    pub next: Micros,
    /// When it is looked at: at that moment, or later if the run has to wait.
    pub due: Micros,
    /// The last moment whose run was put, was skipped or waits.
    pub fired: Option<Micros>,
    /// The task of the last run.
    pub last: Option<TaskNo>,
    pub runs: u64,
    pub skipped: u64,
    pub times: Option<u64>,
    pub missed: Missed,
    pub within: Option<Micros>,
    pub skips_overlap: bool,
    /// What each run puts.
    pub put: Draft,
}

/// Which run of which schedule a task is, and its moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpawnedBy {
    pub schedule: TaskNo,
    pub run: u64,
    pub moment: Micros,
}

impl Model {
    /// Stores a schedule, or brings the one that has its key in line. That one keeps its moments.
    pub fn schedule(
        &mut self,
        tube: TubeNo,
        key: &str,
        terms: &Terms,
        restored: Option<RestoredRuns>,
    ) -> Answer<(TaskNo, State)> {
        if !(1..=KEY_MAX).contains(&key.len()) {
            return Err(Refusal::Invalid);
        }
        terms.check()?;
        terms.put.as_ref().map_or(Ok(()), |put| self.check_options(tube, put))?;
        match self.by_key(key) {
            None => self.new_schedule(tube, key, terms, restored),
            Some((id, task)) if task.recur().is_some() && restored.is_none() => {
                let terms = Terms { starting: None, ..terms.clone() };
                self.change_schedule(tube, id, &terms)
            }
            Some(_) => Err(Refusal::KeyInUse),
        }
    }

    /// Changes a schedule, in whichever tube it is. It goes on in this one.
    pub fn reschedule(
        &mut self,
        tube: TubeNo,
        key: &str,
        terms: &Terms,
    ) -> Answer<(TaskNo, State)> {
        terms.check()?;
        let id = self.schedule_of_key(key)?;
        self.change_schedule(tube, id, terms)
    }

    /// Removes a schedule, in whichever tube it is. Its runs stay.
    pub fn unschedule(&mut self, key: &str) -> Answer<(TaskNo, State)> {
        let id = self.schedule_of_key(key)?;
        self.remove(id, Cause::Verb(Verb::Delete));
        Ok((id, State::Done))
    }

    /// The schedules of a tube.
    pub fn schedules(&self, tube: TubeNo) -> impl Iterator<Item = (TaskNo, &Task, &Recur)> {
        self.tasks(tube).filter_map(|(id, task)| Some((id, task, task.recur()?)))
    }

    /// A task that is no schedule.
    pub(super) fn peek_no_schedule(&self, tube: TubeNo, id: TaskNo) -> Answer<&Task> {
        let task = self.peek(tube, id)?;
        if task.recur().is_some() { Err(Refusal::NotReady) } else { Ok(task) }
    }

    /// The numbers of the tasks since the last call, in the order in which they got their ids.
    pub fn take_new_tasks(&mut self) -> Vec<TaskNo> {
        std::mem::take(&mut self.new_tasks)
    }

    fn schedule_of_key(&self, key: &str) -> Answer<TaskNo> {
        let (id, task) = self.by_key(key).ok_or(Refusal::KeyNotFound)?;
        if task.recur().is_some() { Ok(id) } else { Err(Refusal::WrongState) }
    }

    fn new_schedule(
        &mut self,
        tube: TubeNo,
        key: &str,
        terms: &Terms,
        restored: Option<RestoredRuns>,
    ) -> Answer<(TaskNo, State)> {
        let every = terms.every.ok_or(Refusal::Invalid)?;
        let next = match (terms.starting, restored) {
            // That of another store may have passed.
            (Some(next), Some(_)) => self.on_timeline(next),
            (starting, _) => self.first_moment(every, starting),
        };
        let mut recur = Recur {
            every,
            next,
            due: next,
            fired: None,
            last: None,
            runs: restored.map_or(0, |it| it.runs),
            skipped: restored.map_or(0, |it| it.skipped),
            times: None,
            missed: Missed::Latest(1),
            within: None,
            skips_overlap: false,
            put: Draft::default(),
        };
        recur.apply(terms)?;
        let (key, tags) = (Some(key.to_owned()), Vec::new());
        let mut task = self.new_task(tube, &Draft { key, tags, ..recur.put.clone() });
        (task.expires_at, task.ttr) = (NEVER, NEVER);
        task.status = Status::Recurring(Box::new(recur));
        let placed = self.insert_task(task, Cause::Verb(Verb::Schedule));
        if restored.is_some_and(|it| it.has_id) {
            self.note_restored_id();
        }
        Ok(placed)
    }

    /// Changes a schedule, and moves it to this tube if it is in another one.
    fn change_schedule(
        &mut self,
        tube: TubeNo,
        id: TaskNo,
        terms: &Terms,
    ) -> Answer<(TaskNo, State)> {
        let old = self.tasks[&id].clone();
        let Some(recur) = old.recur() else { return Err(Refusal::WrongState) };
        self.check_common_commit(old.tube, tube)?;
        let mut changed = recur.clone();
        changed.every = terms.every.unwrap_or(recur.every);
        changed.next = match (terms.starting, recur.fired) {
            (Some(_), _) => self.first_moment(changed.every, terms.starting),
            // A run that is due keeps its moment.
            (None, Some(fired)) if changed.every != recur.every && recur.next > self.now => {
                fired.saturating_add(changed.every)
            }
            (None, _) => recur.next,
        };
        if changed.next != recur.next {
            changed.due = changed.next;
            changed.fired = changed.fired.filter(|fired| *fired != changed.next);
        }
        changed.apply(terms)?;
        let put = changed.put.clone();
        if !self.tubes[&tube].driver.supports(&put) {
            return Err(Refusal::Unsupported);
        }
        // Runs without a priority of their own have that of the tube as it is then. The schedule shows
        // the one at its last change.
        let new = self.new_task(tube, &put);
        let priority = if terms.put.is_some() { new.priority } else { old.priority };
        let status = Status::Recurring(Box::new(changed));
        let task = Task { tube, priority, status, ..old.clone() };
        let (sub_queue, max_attempts, max_runtime) =
            (new.sub_queue, new.max_attempts, new.max_runtime);
        let task = Task { data: put.data, sub_queue, max_attempts, max_runtime, ..task };
        if (old.tube, old.priority, &old.status) == (tube, priority, &task.status) {
            return Ok((id, State::Recurring));
        }
        if old.tube == tube {
            self.change(id, Cause::Verb(Verb::Schedule), task.status.clone());
            *self.task(id) = task;
        } else {
            self.leave(id, Verb::Move);
            *self.task(id) = task;
            self.arrive(id, Verb::Move);
        }
        Ok((id, State::Recurring))
    }

    // ---- runs

    /// Puts the next run of a schedule that is due, or leaves it out.
    pub(super) fn run_schedule(&mut self, id: TaskNo) {
        let (task, now) = (self.tasks[&id].clone(), self.now);
        let Some(old) = task.recur() else { return };
        let mut recur = old.clone();
        if let Some(until) = self.ids_restored_until.filter(|until| *until > now) {
            recur.due = until;
            return self.move_on(id, recur);
        }
        let (moment, next) = recur.next_run(now);
        let Some(moment) = moment else {
            (recur.next, recur.due) = (next, next);
            return self.move_on(id, recur);
        };
        let has_waited = recur.fired == Some(moment);
        let is_left_out = recur.skips_overlap && self.is_last_run_open(id, &task, &recur);
        let is_full = self.waiting_puts(task.tube) > 0 || !self.has_capacity(task.tube, 1);
        if is_full && !is_left_out && !has_waited {
            (recur.next, recur.due) = (moment, now.saturating_add(RETRY));
            recur.fired = Some(moment);
            return self.move_on(id, recur);
        }
        (recur.next, recur.due, recur.fired) = (next, next, Some(moment));
        if is_left_out || is_full {
            recur.skipped += 1;
            return self.move_on(id, recur);
        }
        recur.runs += 1;
        let key = key_of_run(&task, recur.runs).filter(|key| self.by_key(key).is_none());
        let mut run = self.new_task(task.tube, &Draft { key, ..recur.put.clone() });
        run.spawned_by = Some(SpawnedBy { schedule: id, run: recur.runs, moment });
        let (run, _) = self.insert_task(run, Cause::Verb(Verb::Spawn));
        recur.last = Some(run);
        self.move_on(id, recur);
    }

    /// Stores what has become of a schedule. It ends after its last run.
    fn move_on(&mut self, id: TaskNo, recur: Recur) {
        let ends = recur.next == NEVER || recur.times.is_some_and(|times| recur.runs >= times);
        self.task(id).status = Status::Recurring(Box::new(recur));
        if ends {
            self.remove(id, Cause::ScheduleEnded);
        }
    }

    /// Whether the task of the last run is not over, in whichever tube it is. That of a restored
    /// schedule is known by its key.
    fn is_last_run_open(&self, id: TaskNo, schedule: &Task, recur: &Recur) -> bool {
        let last = recur.last.and_then(|last| self.tasks.get(&last));
        let by_key = || Some(self.by_key(&key_of_run(schedule, recur.runs)?)?.1);
        last.or_else(by_key).is_some_and(|task| {
            let is_expired = task.expires_at <= self.now && task.ttl_from.is_none();
            let is_over = matches!(task.stage(), Stage::Buried | Stage::Kept) || is_expired;
            task.spawned_by.is_some_and(|run| run.schedule == id) && !is_over
        })
    }

    /// An id was restored: others may follow.
    pub(super) fn note_restored_id(&mut self) {
        self.ids_restored_until = Some(self.now.saturating_add(RESTORE_TIME));
    }

    // ---- moments

    /// The first moment from now on, of runs that begin now or at a moment of the wall clock.
    fn first_moment(&self, every: Micros, starting: Option<Micros>) -> Micros {
        let start = starting.map_or(self.now, |moment| self.on_timeline(moment));
        let passed = self.now.saturating_sub(start).div_ceil(every);
        start.saturating_add(passed.saturating_mul(every))
    }

    /// The time of a moment of the wall clock, as the clocks are now.
    fn on_timeline(&self, moment: Micros) -> Micros {
        let is_same = self.wall.abs_diff(self.now) < SAME_CLOCK;
        if is_same { moment } else { self.time_of(moment) }
    }
}

impl Terms {
    /// Refuses what no schedule can have.
    fn check(&self) -> Answer<()> {
        let is_missed = match self.missed {
            Some(Missed::Latest(runs)) => (1..=100).contains(&runs),
            Some(Missed::All | Missed::Skip) | None => true,
        };
        let is_put = self.put.as_ref().is_none_or(|put| {
            let after = put.after != After::default();
            let is_keyed = put.key.is_some() || put.on_key != OnKey::Reject || put.token.is_some();
            !is_keyed && put.not_before.is_none() && !after
        });
        let is_every = self.every.is_none_or(|every| every >= MIN_INTERVAL);
        let is_possible = is_missed && is_put && is_every && self.times != Some(Some(0));
        if is_possible { Ok(()) } else { Err(Refusal::Invalid) }
    }
}

impl Recur {
    /// Changes all but the moments. Refuses a schedule that would have no further run.
    fn apply(&mut self, terms: &Terms) -> Answer<()> {
        let terms = terms.clone();
        self.times = terms.times.unwrap_or(self.times);
        let has_ended = terms.times.is_some() && self.times.is_some_and(|it| it <= self.runs);
        if has_ended || self.next == NEVER {
            return Err(Refusal::Invalid);
        }
        self.missed = terms.missed.unwrap_or(self.missed);
        self.within = terms.within.unwrap_or(self.within);
        self.skips_overlap = terms.skips_overlap.unwrap_or(self.skips_overlap);
        let put = terms.put.unwrap_or_else(|| self.put.clone());
        self.put = Draft {
            tags: labels::with_tags(&[], &put.tags),
            sub_queue: put.sub_queue.filter(|name| !name.is_empty()),
            ..put
        };
        Ok(())
    }

    /// The moment whose run is to be put, if any that is due is not too late, and the one after it.
    fn next_run(&self, now: Micros) -> (Option<Micros>, Micros) {
        let after = |moment: &Micros| Some(moment.saturating_add(self.every));
        let due = std::iter::successors(Some(self.next), after).take_while(|it| *it <= now);
        let due: Vec<Micros> = due.collect();
        let within = self.within.unwrap_or(NEVER);
        let (newest, within) = match self.missed {
            Missed::All => (due.len(), within),
            Missed::Latest(runs) => (runs as usize, within),
            Missed::Skip => (1, within.min(LATE)),
        };
        let mut newest = due.iter().rev().take(newest).rev();
        let run = newest.find(|moment| now - **moment <= within).copied();
        let last = run.or(due.last().copied());
        (run, last.map_or(self.next, |last| last.saturating_add(self.every)))
    }
}

impl Task {
    pub fn recur(&self) -> Option<&Recur> {
        match &self.status {
            Status::Recurring(recur) => Some(recur),
            _ => None,
        }
    }
}

fn key_of_run(schedule: &Task, run: u64) -> Option<String> {
    Some(format!("{}-{run}", schedule.key.as_ref()?))
}
