//! The life that an image leads after its recovery, to be cut off in its turn.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Durability, FIFO, LIMFIFOTTL, ManualClock, Result, State, Store, TubeOptions};

use crate::check::read_contents;
use crate::disk::{Disk, Op};
use crate::history::{Expectation, History, Step};
use crate::state::{Contents, Kind, NEVER, Task};

/// A tube that an image gets if it has none that will do.
const SPARE: &str = "spare";

/// How an image fared that stood the test.
pub struct ImageRun {
    /// What it contents.
    pub contents: Arc<Contents>,
    /// The disk's log: recovery, then a little work, then a clean close.
    pub log: Vec<Op>,
    /// The position of the disk when it was open.
    pub opened: usize,
    pub before: Expectation,
    pub history: History,
}

impl ImageRun {
    /// What must be found if this life is cut off when the disk has been told so many operations.
    pub fn expect(&self, position: usize) -> Expectation {
        if position < self.opened {
            return self.before.clone();
        }
        let mut after = self.history.expect(position);
        after.id = after.id.max(self.before.id);
        after
    }
}

/// An image that has been opened and found to hold what it should.
pub struct RecoveredStore<'a> {
    pub disk: &'a Disk,
    pub store: &'a Store,
    pub clock: &'a ManualClock,
    pub expected: &'a Expectation,
    pub contents: &'a Arc<Contents>,
    pub commits: u64,
}

impl RecoveredStore<'_> {
    /// Puts one task more, and perhaps lets time pass; answers with all the steps of it.
    pub fn put_after_recovery(&self, advance_clock: bool) -> Result<Result<History, String>> {
        let mut contents = Contents::clone(self.contents);
        let mut steps = vec![self.step("an image opened", 0, &contents)];
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
            steps.push(self.step("a spare tube", issued, &contents));
        }
        let issued = self.disk.position();
        let put = self.store.tube(name)?.put("afterwards")?;
        if let Some(last) = self.expected.id.filter(|last| put.id <= *last) {
            return Ok(Err(format!("id {} was given out before: {last} was", put.id)));
        }
        if self.contents.tasks.last_key_value().is_some_and(|(id, _)| put.id <= *id) {
            return Ok(Err(format!("id {} is that of another task", put.id)));
        }
        if put.commit <= self.commits {
            return Ok(Err(format!("commit {} comes after {}", put.commit, self.commits)));
        }
        let task = Task::plain(name, &kind, b"afterwards", self.expected.now);
        contents.tasks.insert(put.id, Arc::new(task));
        let step = self.step("a put afterwards", issued, &contents);
        steps.push(Step { commit: Some(put.commit), id: Some(put.id), ..step });
        if advance_clock && let Err(problem) = self.advance_clock(&mut contents, &mut steps)? {
            return Ok(Err(problem));
        }
        Ok(Ok(History { steps, purges: true }))
    }

    /// What is overdue, and what falls due now, does.
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
        steps.push(deferred_step("time passes", contents));
        while contents.apply_next_due(now) {
            steps.push(deferred_step("a due", contents));
        }
        let found = read_contents(self.store, usize::MAX)?;
        let difference = contents.difference(&found, now);
        Ok(difference.map_or(Ok(()), |problem| Err(format!("after some time: {problem}"))))
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
    /// A tube without options.
    fn plain(driver: &'static str) -> Kind {
        let (ttl, ttr, durability) = (None, None, None);
        Kind { driver, temporary: false, durability, ttl, ttr, pri: 0, capacity: 0 }
    }
}

impl Task {
    /// A task that was put without options.
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

/// The whole microseconds of it.
pub fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap()
}
