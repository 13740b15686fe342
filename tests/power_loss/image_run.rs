//! The run of a store on a crash image, with a log that a second crash can cut off.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Durability, Error, FIFO, Failure, LIMFIFOTTL, ManualClock, Receipt, Result, Store, TaskState,
    TubeOptions,
};

use crate::attempts::{End, FAILED};
use crate::check::read_contents;
use crate::disk::{Disk, Op};
use crate::history::{Expectation, History, Step};
use crate::state::{Contents, Kind, NEVER, Survival, Task};

/// The tube created for the put if the image has no suitable one.
const SPARE: &str = "spare";

/// The run on an image that passed all checks.
pub struct ImageRun {
    /// The contents found.
    pub contents: Arc<Contents>,
    /// The disk's log: recovery, a few calls, and a clean close.
    pub log: Vec<Op>,
    /// The disk's position when the open returned.
    pub opened: usize,
    pub before: Expectation,
    pub history: History,
}

impl ImageRun {
    /// What a crash after this many operations of the disk may leave.
    pub fn expect(&self, position: usize) -> Expectation {
        if position < self.opened {
            return self.before.clone();
        }
        let mut after = self.history.expect(position);
        after.id = after.id.max(self.before.id);
        after.opened_at = after.opened_at.max(self.before.opened_at);
        after
    }
}

/// A store opened on an image, with the expected contents.
pub struct RecoveredStore<'a> {
    pub disk: &'a Disk,
    pub store: &'a Store,
    pub clock: &'a ManualClock,
    pub expected: &'a Expectation,
    pub contents: &'a Arc<Contents>,
    pub commits: u64,
}

impl RecoveredStore<'_> {
    /// Puts a task in a tube that does not flush, if there is one, and a task in a flushed tube. May
    /// advance the clock. Returns the steps.
    pub fn put_after_recovery(&self, advance_clock: bool) -> Result<Result<History, String>> {
        let mut contents = Contents { now: self.expected.now, ..Contents::clone(self.contents) };
        let mut steps = vec![self.step("open image", 0, &contents)];
        let levels = [|survival| survival != Survival::FromAnswer, |it| it == Survival::FromAnswer];
        for level in levels {
            let fits = |kind: &Kind| {
                let survival = kind.survival(Durability::Flush);
                level(survival) && !kind.temporary && kind.driver != LIMFIFOTTL
            };
            let fit = self.contents.tubes.iter().find(|(_, kind)| fits(kind));
            let (name, kind) = match fit {
                Some((name, kind)) => (*name, kind.clone()),
                None if level(Survival::FromAnswer) => {
                    (SPARE, self.create_spare_tube(&mut contents, &mut steps)?)
                }
                None => continue,
            };
            let issued = self.disk.position();
            let put = self.store.find_tube(name)?.put("afterwards")?;
            if let Err(problem) = self.check_receipt(put, steps.last()) {
                return Ok(Err(problem));
            }
            let task = Task::plain(name, &kind, b"afterwards", self.expected.now);
            contents.tasks.insert(put.id, Arc::new(task));
            let mut step = self.step("put after recovery", issued, &contents);
            if !level(Survival::FromAnswer) {
                step.durable_from = None;
            }
            steps.push(Step { commit: Some(put.commit), id: Some(put.id), ..step });
        }
        if let Err(problem) = self.resume_parked_claim(&mut contents, &mut steps)? {
            return Ok(Err(problem));
        }
        if let Err(problem) = self.fail_an_attempt(&mut contents, &mut steps)? {
            return Ok(Err(problem));
        }
        self.resolve_and_forget(&mut contents, &mut steps)?;
        if advance_clock && let Err(problem) = self.advance_clock(&mut contents, &mut steps)? {
            return Ok(Err(problem));
        }
        let tokens = self.expected.tokens.clone();
        // The open has flushed what it has found: a receipt may name that commit.
        let receipts = vec![(0, self.store.admin().counters().unwrap().opened_at)];
        Ok(Ok(History { steps, purges: true, tokens, receipts }))
    }

    /// Checks that no other token than those of parked claims is accepted. Resumes the first of these
    /// claims, and acks it.
    fn resume_parked_claim(
        &self,
        contents: &mut Contents,
        steps: &mut Vec<Step>,
    ) -> Result<Result<(), String>> {
        for token in &self.expected.tokens {
            let task = contents.tasks.get(&token.id());
            let parked = task.and_then(|task| task.parked.as_ref());
            if parked.is_some_and(|parked| parked.token == *token) {
                continue;
            }
            match self.store.resume_claim(token) {
                Err(Error::NotTaken { .. } | Error::TubeNotFound { .. }) => {}
                resumed => return Ok(Err(format!("{token:?}: {resumed:?}"))),
            }
        }
        let now = self.expected.now;
        let found = contents.tasks.iter().find_map(|(id, task)| {
            let parked = task.parked.as_ref().filter(|_| task.next_change() > now)?;
            Some((*id, task.clone(), parked.token.clone()))
        });
        let Some((id, task, token)) = found else { return Ok(Ok(())) };
        let issued = self.disk.position();
        let claim = self.store.resume_claim(&token)?;
        if *claim.body() != *task.body {
            return Ok(Err(format!("{claim:?}, not of {task:?}")));
        }
        let receipt = claim.ack()?;
        contents.finish(id, None);
        let mut step = self.step("ack of a parked claim", issued, contents);
        if contents.tubes[task.tube].survival(Durability::Flush) != Survival::FromAnswer {
            step.durable_from = None;
        }
        steps.push(Step { commit: Some(receipt.commit), ..step });
        Ok(Ok(()))
    }

    /// Takes a task with a limited number of attempts, and fails.
    fn fail_an_attempt(
        &self,
        contents: &mut Contents,
        steps: &mut Vec<Step>,
    ) -> Result<Result<(), String>> {
        let limited = contents.tubes.iter().find(|(_, kind)| kind.limit.is_some());
        let is_overdue = contents.tasks.values().any(|t| t.next_change() <= self.expected.now);
        let Some((name, kind)) = limited.filter(|_| !is_overdue) else { return Ok(Ok(())) };
        let (name, kind) = (*name, kind.clone());
        let issued = self.disk.position();
        let Some(claim) = self.store.find_tube(name)?.try_take()? else { return Ok(Ok(())) };
        let task = contents.tasks.get(&claim.id()).cloned();
        contents.count_take(claim.id());
        let counted = task.and_then(|task| task.limit.map(|limit| (task.attempts + 1, limit)));
        let left = claim.attempts_left().unwrap_or_default();
        if counted != Some((claim.attempt(), claim.attempt() + left)) {
            return Ok(Err(format!("{claim:?}, {counted:?}")));
        }
        let mut step = self.step("take after recovery", issued, contents);
        if !kind.counts_flushed() {
            step.durable_from = None;
        }
        steps.push(step);
        let issued = self.disk.position();
        let receipt = claim.fail(Failure::new(FAILED, "after recovery"))?;
        contents.end_attempt(receipt.id, End::Failed, None);
        let mut step = self.step("fail after recovery", issued, contents);
        if kind.survival(Durability::Flush) != Survival::FromAnswer {
            step.durable_from = None;
        }
        steps.push(Step { commit: Some(receipt.commit), ..step });
        Ok(Ok(()))
    }

    fn create_spare_tube(
        &self,
        contents: &mut Contents,
        steps: &mut Vec<Step>,
    ) -> Result<Arc<Kind>> {
        let kind = Arc::new(Kind::plain(FIFO));
        let issued = self.disk.position();
        self.store.create_tube(SPARE, TubeOptions::new().driver(FIFO))?;
        contents.tubes.insert(SPARE, kind.clone());
        steps.push(self.step("create spare tube", issued, contents));
        Ok(kind)
    }

    /// Ids and commits must be above those that were returned before the power cut.
    fn check_receipt(&self, put: Receipt, before: Option<&Step>) -> Result<(), String> {
        let last = before.and_then(|step| step.id).max(self.expected.id);
        if let Some(last) = last.filter(|last| put.id <= *last) {
            return Err(format!("id {} was used before; the last one was {last}", put.id));
        }
        if self.contents.tasks.last_key_value().is_some_and(|(id, _)| put.id <= *id) {
            return Err(format!("id {} is not above those of stored tasks", put.id));
        }
        if put.commit <= self.commits {
            return Err(format!("commit {} does not follow {}", put.commit, self.commits));
        }
        Ok(())
    }

    /// Advances the clock, so that overdue tasks and those that fall due change their state.
    fn advance_clock(
        &self,
        contents: &mut Contents,
        steps: &mut Vec<Step>,
    ) -> Result<Result<(), String>> {
        let by = Duration::from_secs(20);
        let issued = self.disk.position();
        self.clock.advance(by);
        let now = self.expected.now + micros(by);
        let deferred_step = |what, contents: &Contents| Step {
            durable_from: None,
            now,
            ..self.step(what, issued, contents)
        };
        steps.push(deferred_step("advance", contents));
        while contents.apply_next_due(self.expected.now, now) {
            steps.push(deferred_step("due", contents));
        }
        let found = read_contents(self.store, usize::MAX)?;
        let difference = contents.difference(&found, now);
        Ok(difference
            .map_or(Ok(()), |problem| Err(format!("after the clock has advanced: {problem}"))))
    }

    pub fn step(&self, what: &'static str, issued: usize, contents: &Contents) -> Step {
        Step {
            what,
            issued,
            answered: Some(self.disk.position()),
            durable_from: Some(self.disk.position()),
            flush_by: None,
            commit: None,
            id: None,
            now: self.expected.now,
            contents: Arc::new(contents.clone()),
        }
    }
}

impl Task {
    /// A task that was put with default options.
    pub fn plain(tube: &'static str, kind: &Kind, body: &[u8], now: u64) -> Task {
        let time = |time: Option<Duration>| time.map_or(NEVER, micros);
        Task {
            tube,
            state: TaskState::Ready,
            priority: kind.priority,
            sub_queue: None,
            key: None,
            tags: &[],
            body: body.into(),
            expires_at: now.saturating_add(time(kind.ttl)),
            ready_at: 0,
            not_before: None,
            ttr: time(kind.ttr.or(kind.ttl)),
            parked: None,
            limit: kind.limit.map(|limit| limit.attempts),
            attempts: 0,
            is_counted: false,
            failure: None,
            group: None,
            result: None,
            ended: 0,
            kept_until: NEVER,
            logged: None,
        }
    }
}

/// The duration in whole microseconds.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}
