//! The run of a store on a crash image, with a log that a second crash can cut off.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Durability, FIFO, LIMFIFOTTL, ManualClock, Result, State, Store, TubeOptions};

use crate::check::read_contents;
use crate::disk::{Disk, Op};
use crate::history::{Expectation, History, Step};
use crate::state::{Contents, Kind, NEVER, Task};

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
    /// Puts one task, may advance the clock, and returns the steps.
    pub fn put_after_recovery(&self, advance_clock: bool) -> Result<Result<History, String>> {
        let mut contents = Contents::clone(self.contents);
        let mut steps = vec![self.step("open image", 0, &contents)];
        let fits = |kind: &Kind| kind.flushes(Durability::Flush) && kind.driver != LIMFIFOTTL;
        let fit = self.contents.tubes.iter().find(|(_, kind)| fits(kind));
        let (name, kind) = match fit {
            Some((name, kind)) => (*name, kind.clone()),
            None => (SPARE, Arc::new(Kind::plain(FIFO))),
        };
        if fit.is_none() {
            let issued = self.disk.position();
            self.store.create_tube(SPARE, FIFO, TubeOptions::new())?;
            contents.tubes.insert(SPARE, kind.clone());
            steps.push(self.step("create spare tube", issued, &contents));
        }
        let issued = self.disk.position();
        let put = self.store.tube(name)?.put("afterwards")?;
        if let Some(last) = self.expected.id.filter(|last| put.id <= *last) {
            return Ok(Err(format!("id {} was used before; the last one was {last}", put.id)));
        }
        if self.contents.tasks.last_key_value().is_some_and(|(id, _)| put.id <= *id) {
            return Ok(Err(format!("id {} is not above those of stored tasks", put.id)));
        }
        if put.commit <= self.commits {
            return Ok(Err(format!("commit {} does not follow {}", put.commit, self.commits)));
        }
        let task = Task::plain(name, &kind, b"afterwards", self.expected.now);
        contents.tasks.insert(put.id, Arc::new(task));
        let step = self.step("put after recovery", issued, &contents);
        steps.push(Step { commit: Some(put.commit), id: Some(put.id), ..step });
        if advance_clock && let Err(problem) = self.advance_clock(&mut contents, &mut steps)? {
            return Ok(Err(problem));
        }
        Ok(Ok(History { steps, purges: true }))
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
            durable: false,
            now,
            ..self.step(what, issued, contents)
        };
        steps.push(deferred_step("advance", contents));
        while contents.apply_next_due(now) {
            steps.push(deferred_step("due", contents));
        }
        let found = read_contents(self.store, usize::MAX)?;
        let difference = contents.difference(&found, now);
        Ok(difference
            .map_or(Ok(()), |problem| Err(format!("after the clock has advanced: {problem}"))))
    }

    fn step(&self, what: &'static str, issued: usize, contents: &Contents) -> Step {
        Step {
            what,
            issued,
            answered: Some(self.disk.position()),
            durable: true,
            commit: None,
            id: None,
            now: self.expected.now,
            contents: Arc::new(contents.clone()),
        }
    }
}

impl Kind {
    /// A tube with default options.
    fn plain(driver: &'static str) -> Kind {
        let (ttl, ttr, durability) = (None, None, None);
        Kind { driver, temporary: false, durability, ttl, ttr, pri: 0, capacity: 0 }
    }
}

impl Task {
    /// A task that was put with default options.
    pub fn plain(tube: &'static str, kind: &Kind, body: &[u8], now: u64) -> Task {
        let time = |time: Option<Duration>| time.map_or(NEVER, micros);
        Task {
            tube,
            state: State::Ready,
            pri: kind.pri,
            sub_queue: None,
            body: body.into(),
            expires_at: now.saturating_add(time(kind.ttl)),
            ready_at: 0,
            ttr: time(kind.ttr.or(kind.ttl)),
        }
    }
}

/// The duration in whole microseconds.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}
