//! The reference model: the answer that every call on the queue must return.
//!
//! One [`Model`] is one store over all its runs. It is written from the specification and shares
//! no code with the library. It has plain maps and linear scans, and no index, file or thread. Each
//! verb takes effect immediately, serves the waiters, and returns.
//!
//! * Time is in microseconds. Only [`Model::advance`] and [`Model::reopen`] move it. The wall clock
//!   goes with it, and [`Model::set_wall`] sets it.
//! * Tubes, tasks, sessions, claims and waits have numbers that grow and are never reused. A test
//!   that compares the model with a library maps these numbers to the library's ids.
//! * All types are `Clone`, so that a test can advance several clones in different orders.
//!
//! The specification leaves open in which order several items are processed that fall due at the
//! same time. [`TieBreak`] selects the order. A library is correct if any order leads to its state.

#![allow(dead_code, reason = "each test uses its own part of the model")]

mod attempts;
mod edits;
mod gates;
mod history;
mod keys;
mod labels;
mod limits;
mod moments;
mod movement;
mod outcomes;
mod parents;
mod park;
mod put;
mod restore;
mod schedules;
mod sessions;
mod spawn;
mod take;
mod time;
mod tokens;
mod types;
mod verbs;
mod watches;

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};

pub use attempts::Failure;
pub use edits::Update;
pub use history::{Entry, History};
pub use moments::SAME_CLOCK;
pub use movement::Finish;
use parents::Ended;
use put::PutWait;
pub use restore::{Restored, RestoredState};
pub use schedules::{Missed, Recur, RestoredRuns, SpawnedBy, Terms};
use take::Wait;
pub use time::TieBreak;
pub use types::*;
pub use watches::Ending;
use watches::Watch;

/// The time at which a store is created. What is put back from another one may have ended before.
pub const START: Micros = 1 << 40;

#[derive(Clone, Debug)]
pub struct Model {
    now: Micros,
    /// What the wall clock shows.
    wall: Micros,
    /// How far ahead of the time the moments are that are shown.
    shown_ahead: Cell<i64>,
    /// How long a session survives after its last handle is dropped.
    grace: Micros,
    tubes: BTreeMap<TubeNo, Tube>,
    tasks: BTreeMap<TaskNo, Task>,
    /// The existing sessions, each with the end of its grace if its last handle was dropped.
    sessions: BTreeMap<SessionNo, Option<Micros>>,
    /// The labels of all sessions that were given one.
    labels: BTreeMap<SessionNo, String>,
    /// Waiting takes in order of arrival, until their answer is fetched.
    waits: BTreeMap<WaitNo, Wait>,
    /// Puts that wait for space, in order of arrival, until their answer is fetched.
    put_waits: BTreeMap<WaitNo, PutWait>,
    /// Callers that wait for the end of a task.
    watches: BTreeMap<WaitNo, Watch>,
    /// How many tasks of these sub-queues may be taken in the tubes that share limits.
    limits: BTreeMap<String, u64>,
    /// The puts that are remembered by their tokens: their tasks, and until when.
    tokens: BTreeMap<(TubeNo, String), (TaskNo, Micros)>,
    /// The parents whose end their children are still to be told.
    ended_parents: BTreeMap<TaskNo, Ended>,
    /// The tasks that have got their ids since they were last asked for.
    new_tasks: Vec<TaskNo>,
    /// Until when no run gets an id, since ids were restored.
    ids_restored_until: Option<Micros>,
    /// The last number given to a tube, task, session, claim or wait.
    last: u64,
    events: Vec<Event>,
    transitions: BTreeSet<Transition>,
    /// Those of tasks with a limited number of attempts.
    limited_transitions: BTreeSet<Transition>,
    /// What became of restored tasks with keys.
    restored_keys: BTreeSet<&'static str>,
    /// What became of puts whose tokens were known.
    met_tokens: BTreeSet<&'static str>,
}

impl Model {
    pub fn new(grace: Micros) -> Model {
        Model {
            now: START,
            wall: START,
            shown_ahead: Cell::new(0),
            grace,
            tubes: BTreeMap::new(),
            tasks: BTreeMap::new(),
            sessions: BTreeMap::new(),
            labels: BTreeMap::new(),
            waits: BTreeMap::new(),
            put_waits: BTreeMap::new(),
            watches: BTreeMap::new(),
            limits: BTreeMap::new(),
            tokens: BTreeMap::new(),
            ended_parents: BTreeMap::new(),
            new_tasks: Vec::new(),
            ids_restored_until: None,
            last: 0,
            events: Vec::new(),
            transitions: BTreeSet::new(),
            limited_transitions: BTreeSet::new(),
            restored_keys: BTreeSet::new(),
            met_tokens: BTreeSet::new(),
        }
    }

    pub fn now(&self) -> Micros {
        self.now
    }

    /// All transitions that have happened.
    pub fn transitions(&self) -> &BTreeSet<Transition> {
        &self.transitions
    }

    /// All transitions of tasks with a limited number of attempts.
    pub fn limited_transitions(&self) -> &BTreeSet<Transition> {
        &self.limited_transitions
    }

    /// The events since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        std::mem::take(&mut self.events)
    }

    fn next_number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    // ---- tubes

    pub fn create_tube(
        &mut self,
        name: &str,
        driver: Driver,
        options: &Options,
        opens: bool,
    ) -> Answer<TubeNo> {
        if let Some((no, tube)) = self.tubes.iter().find(|(_, tube)| tube.name == name) {
            return match (opens, tube.driver == driver && tube.options.same(options)) {
                (false, _) => Err(Refusal::TubeExists),
                (true, false) => Err(Refusal::TubeDiffers),
                (true, true) => Ok(*no),
            };
        }
        check_options(driver, options)?;
        let no = self.next_number();
        self.tubes.insert(no, Tube::new(name.to_owned(), driver, options.clone()));
        Ok(no)
    }

    pub fn drop_tube(&mut self, tube: TubeNo) -> Answer<()> {
        self.tube(tube)?;
        let waiting = self.waiting(tube) + self.waiting_puts(tube);
        if self.count(tube, State::Taken) > 0 || waiting > 0 {
            return Err(Refusal::TubeBusy);
        }
        self.remove_all(tube, Cause::TubeDropped);
        self.forget_tokens(tube);
        self.tubes.remove(&tube);
        Ok(())
    }

    pub fn truncate(&mut self, tube: TubeNo) -> Answer<()> {
        self.tube(tube)?;
        self.remove_all(tube, Cause::Truncated);
        self.forget_tokens(tube);
        self.serve();
        Ok(())
    }

    fn remove_all(&mut self, tube: TubeNo, cause: Cause) {
        for id in self.ids(tube) {
            self.remove(id, cause);
        }
    }

    pub fn tubes(&self) -> &BTreeMap<TubeNo, Tube> {
        &self.tubes
    }

    pub fn tube(&self, tube: TubeNo) -> Answer<&Tube> {
        self.tubes.get(&tube).ok_or(Refusal::TubeDropped)
    }

    /// The tasks of a tube, with those that are done and kept, and with its schedules.
    pub fn tasks(&self, tube: TubeNo) -> impl Iterator<Item = (TaskNo, &Task)> {
        self.tasks.iter().filter(move |(_, task)| task.tube == tube).map(|(id, task)| (*id, task))
    }

    /// The tasks of a tube that are not over.
    pub fn live_tasks(&self, tube: TubeNo) -> impl Iterator<Item = (TaskNo, &Task)> {
        let is_live = |task: &Task| !matches!(task.stage(), Stage::Kept | Stage::Recurring);
        self.tasks(tube).filter(move |(_, task)| is_live(task))
    }

    fn ids(&self, tube: TubeNo) -> Vec<TaskNo> {
        self.tasks(tube).map(|(id, _)| id).collect()
    }

    pub fn count(&self, tube: TubeNo, state: State) -> u64 {
        self.tasks(tube).filter(|(_, task)| task.state() == state).count() as u64
    }

    /// How many claims of a tube are overdue.
    pub fn overdue(&self, tube: TubeNo) -> u64 {
        let is_overdue =
            |task: &Task| matches!(&task.status, Status::Taken(claim) if claim.is_overdue);
        self.tasks(tube).filter(|(_, task)| is_overdue(task)).count() as u64
    }

    /// How often `verb` happened in a tube since the store was opened.
    pub fn calls(&self, tube: TubeNo, verb: Verb) -> u64 {
        let calls = self.tubes.get(&tube).map(|tube| &tube.calls);
        calls.and_then(|calls| calls.get(&verb)).copied().unwrap_or(0)
    }

    /// How many tasks have ended since the store was opened, with a call or at their time.
    pub fn done(&self, tube: TubeNo) -> u64 {
        self.tubes.get(&tube).map_or(0, |tube| tube.done)
    }

    // ---- changing and counting

    fn change(&mut self, id: TaskNo, cause: Cause, status: Status) {
        let task = self.task(id);
        let from = task.stage();
        let before = std::mem::replace(&mut task.status, status);
        let to = task.stage();
        self.note_claim_end(id, from, to);
        self.note_change(id, cause, Some(&before));
        self.record_transition(id, Some(from), cause, to);
    }

    fn remove(&mut self, id: TaskNo, cause: Cause) {
        self.note_claim_end(id, self.tasks[&id].stage(), Stage::Done);
        self.record_transition(id, Some(self.tasks[&id].stage()), cause, Stage::Done);
        self.leave_children(id);
        self.tasks.remove(&id);
        self.answer_removed(id, cause);
    }

    fn record_transition(&mut self, id: TaskNo, from: Option<Stage>, cause: Cause, to: Stage) {
        let driver = self.tubes[&self.tasks[&id].tube].driver;
        self.transitions.insert((driver, from, cause, to));
        if self.attempts_left(&self.tasks[&id]).is_some() {
            self.limited_transitions.insert((driver, from, cause, to));
        }
        if let Some(verb) = cause.counted_as() {
            self.count_call(id, verb, from, to.state());
            let is_live = |it: Stage| !matches!(it.state(), State::Done | State::Recurring);
            let ends = to.state() == State::Done && from.is_some_and(is_live);
            self.tubes.entry(self.tasks[&id].tube).and_modify(|it| it.done += u64::from(ends));
        }
    }

    fn count_call(&mut self, id: TaskNo, verb: Verb, from: Option<Stage>, state: State) {
        let tube = self.tasks[&id].tube;
        let arrives = from.is_none() && matches!(verb, Verb::Advance | Verb::Move);
        let counted = if arrives { Verb::Arrive } else { verb };
        let count = |tube: &mut Tube| *tube.calls.entry(counted).or_default() += 1;
        self.tubes.entry(tube).and_modify(count);
        self.events.push(Event { tube, task: id, verb, state });
    }

    #[expect(clippy::expect_used, reason = "an inconsistent model is a defect of the test")]
    fn task(&mut self, id: TaskNo) -> &mut Task {
        self.tasks.get_mut(&id).expect("the task exists")
    }
}

/// Refuses options that the driver does not have.
fn check_options(driver: Driver, options: &Options) -> Answer<()> {
    let timed = options.ttl.is_some() || options.ttr.is_some() || options.priority.is_some();
    let timed = timed || options.max_runtime.is_some();
    let timed = timed || options.backoff.is_some() || options.reclaim_delay > 0;
    let sub_queued = options.sub_queue_limit.is_some()
        || options.sub_queue_rate.is_some()
        || options.sub_queue_cooldown.is_some()
        || options.shared_limits;
    if (sub_queued && !driver.sub_queued())
        || (timed && !driver.timed())
        || (options.capacity.is_some() && !driver.bounded())
    {
        return Err(Refusal::Unsupported);
    }
    Ok(())
}
