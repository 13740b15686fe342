//! One run: a store, those who use it, the clock and the disk, and the model beside them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{Claim, Error, ManualClock, Result, Session, State, Store, Tube};

use crate::disk::Disk;
use crate::model::{Fact, HoldNo, Micros, Model, NEVER, OWN, Seq, SessionNo, TubeNo};
use crate::plan::{Step, Verb};
use crate::rng::Rng;
use crate::waiting::Waiting;

/// A task in somebody's hands, or so they believe.
pub struct Hold {
    pub no: HoldNo,
    pub seq: Seq,
    pub id: u64,
    pub session: SessionNo,
    /// Spent by the verb that ends it; there is none once it was detached.
    pub claim: Option<Claim>,
    /// It is known by its id alone.
    pub detached: bool,
}

/// What a call came to.
pub enum Came<T> {
    Done(T),
    /// Decided; nobody knows yet whether it will last.
    Unknown,
    /// Refused as the model says.
    Refused,
    /// The storage failed; nothing changed.
    Down,
}

/// A call that the model says nothing against, and what it changes; or what it is refused with.
pub type Expected = std::result::Result<Vec<Fact>, &'static str>;

pub struct World {
    pub clock: ManualClock,
    pub disk: Arc<Disk>,
    pub store: Option<Store>,
    pub model: Model,
    pub grace: Micros,
    pub holds: Vec<Hold>,
    pub waits: Vec<Waiting>,
    pub sessions: BTreeMap<SessionNo, Session>,
    /// Handles of tubes for the store's own session: with these in hand, calls meet a storage that
    /// fails, and not the look for the tube.
    pub tubes: BTreeMap<TubeNo, Tube>,
    /// The last number given to anything.
    last: u64,
    /// No acknowledged commit has a higher number.
    pub commit: u64,
    pub trace: Vec<String>,
    pub met: BTreeMap<String, u64>,
    pub calls: u64,
}

impl World {
    pub fn new(seed: u64) -> World {
        let mut dice = Rng::new(seed ^ 0x5EED);
        let mut world = World {
            clock: ManualClock::new(),
            disk: Disk::new(),
            store: None,
            model: Model::default(),
            grace: dice.pick(&[0, 0, 300_000]),
            holds: Vec::new(),
            waits: Vec::new(),
            sessions: BTreeMap::new(),
            tubes: BTreeMap::new(),
            last: 0,
            commit: 0,
            trace: Vec::new(),
            met: BTreeMap::new(),
            calls: 0,
        };
        world.open(&mut dice);
        world
    }

    pub fn step(&mut self, step: Step) {
        let dice = &mut Rng::new(step.dice);
        self.note(format!("- {:?}", step.verb));
        match step.verb {
            Verb::Put => self.put(dice),
            Verb::PutMany => self.put_many(dice),
            Verb::Take => self.take(dice),
            Verb::TakeMany => self.take_many(dice),
            Verb::Ack => self.ack(dice),
            Verb::AckMany => self.ack_many(dice),
            Verb::AckTwice => self.ack_twice(dice),
            Verb::AckStrange => self.ack_strange(dice),
            Verb::Release => self.release(dice, Duration::ZERO),
            Verb::ReleaseLater => {
                let delay = Duration::from_millis(1 + dice.below(400));
                self.release(dice, delay);
            }
            Verb::Touch => self.touch(dice),
            Verb::Renew => self.renew(dice),
            Verb::Bury => self.bury(dice),
            Verb::Forget => self.forget(dice),
            Verb::DropClaim => self.drop_claim(dice),
            Verb::LeaveSession => self.leave_session(dice),
            Verb::EndSession => self.end_session(dice),
            Verb::Wait => self.wait(dice),
            Verb::StopWaiting => self.stop_waiting(dice),
            Verb::Burst => self.burst(dice),
            Verb::BuryById => self.bury_by_id(dice),
            Verb::Kick => self.kick(dice),
            Verb::Delete => self.delete(dice),
            Verb::Peek => self.peek(dice),
            Verb::ReleaseAll => self.release_all(dice),
            Verb::Create => self.create(dice),
            Verb::DropTube => self.drop_tube(dice),
            Verb::Truncate => self.truncate(dice),
            Verb::Flush => self.flush(),
            Verb::Verify => self.verify(),
            Verb::Pass => self.advance(Duration::from_micros(dice.below(120_000))),
            Verb::PassLong => self.advance(Duration::from_secs(1 + dice.below(40))),
            Verb::Fault => self.fault(dice),
            Verb::Fill => self.fill(),
            Verb::Mend => self.mend(),
            Verb::Crash => self.crash(dice),
            Verb::Reopen => self.reopen(dice),
        }
        self.look();
    }

    // ---- what everybody needs

    pub fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    pub fn number(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub fn note(&mut self, line: String) {
        self.trace.push(line);
    }

    pub fn meet(&mut self, what: impl Into<String>) {
        *self.met.entry(what.into()).or_default() += 1;
    }

    /// One of the tubes there are.
    pub fn some_tube(&self, dice: &mut Rng) -> Option<TubeNo> {
        let tubes: Vec<TubeNo> = self.model.names.values().copied().collect();
        (!tubes.is_empty()).then(|| dice.pick(&tubes))
    }

    /// A handle for a session; perhaps none while the storage fails.
    pub fn tube(&mut self, no: TubeNo, session: SessionNo) -> Option<Tube> {
        if let Some(tube) = self.tubes.get(&no).filter(|_| session == OWN) {
            return Some(tube.clone());
        }
        let name = self.model.tubes[&no].name.clone();
        let found = match self.sessions.get(&session) {
            Some(session) => session.tube(&name),
            None => self.store().tube(&name),
        };
        let Came::Done(tube) = self.judge("tube", Ok(Vec::new()), found) else { return None };
        if session == OWN {
            self.tubes.insert(no, tube.clone());
        }
        Some(tube)
    }

    /// Somebody who takes tasks: the store's own session or another, begun if need be.
    pub fn some_session(&mut self, dice: &mut Rng) -> SessionNo {
        let known: Vec<SessionNo> = self.sessions.keys().copied().collect();
        if dice.one_in(3) {
            return OWN;
        }
        if known.len() < 3 && dice.one_in(3) || known.is_empty() {
            let no = self.number();
            let session = self.store().session();
            self.sessions.insert(no, session);
            self.model.sessions.insert(no, None);
            return no;
        }
        dice.pick(&known)
    }

    // ---- what answers mean

    /// Judges an answer by what the model expects and by what the disk has done.
    #[track_caller]
    pub fn judge<T>(&mut self, verb: &str, expected: Expected, answer: Result<T>) -> Came<T> {
        self.calls += u64::from(verb != "tube");
        let told = answer.as_ref().map_or_else(name, |_| "done");
        self.meet(format!("{verb}: {told}"));
        self.note(format!("{verb}: {told}"));
        let failing = self.disk.tripped();
        match answer {
            Ok(answer) => {
                assert!(expected.is_ok(), "{verb} was carried out, but {expected:?}");
                Came::Done(answer)
            }
            Err(Error::OutcomeUnknown { why }) => {
                assert!(failing, "{verb} is unknown, and nothing failed: {why}");
                assert!(expected.is_ok(), "{verb} is unknown, but {expected:?}");
                Came::Unknown
            }
            Err(Error::Unavailable { .. } | Error::Io { .. }) if failing => Came::Down,
            Err(Error::DiskFull { .. }) if verb.starts_with("put") && self.disk.lacks_room() => {
                Came::Down
            }
            Err(error) => {
                assert_eq!(expected.err(), Some(name(&error)), "{verb}: {error}");
                Came::Refused
            }
        }
    }

    /// As [`World::judge`], for a call that changes what is stored.
    #[track_caller]
    pub fn change<T>(
        &mut self,
        verb: &str,
        tube: TubeNo,
        expected: Expected,
        answer: Result<T>,
    ) -> Came<T> {
        let facts = expected.clone().unwrap_or_default();
        let durable = self.model.tubes[&tube].is_durable();
        let came = self.judge(verb, expected, answer);
        if matches!(came, Came::Done(_) | Came::Unknown) {
            let call = self.model.decide(&facts);
            self.model.show(&facts);
            if durable && matches!(came, Came::Done(_)) {
                self.model.certain(call);
            }
        }
        came
    }

    /// Commit numbers grow; those that were acknowledged are never used again.
    #[track_caller]
    pub fn receipt(&mut self, tube: TubeNo, commit: u64) {
        let tube = &self.model.tubes[&tube];
        if tube.temporary {
            return;
        }
        assert!(commit >= self.commit, "commit {commit} after {}", self.commit);
        if tube.is_durable() {
            self.commit = commit;
        }
    }

    // ---- time

    /// Moves the clock on, and looks at every moment at which something changes by itself, and
    /// right before it.
    pub fn advance(&mut self, by: Duration) {
        let target = self.model.now + micros(by);
        while self.model.now < target {
            let due = self.next_due();
            let before = (due - 1).max(self.model.now);
            let next = if before > self.model.now { before } else { due }.min(target);
            self.clock.advance(Duration::from_micros(next - self.model.now));
            self.model.now = next;
            self.model.pass();
            self.look();
        }
        self.look_after_failure();
    }

    pub fn next_due(&self) -> Micros {
        let now = self.model.now;
        let waits = self.waits.iter().map(|wait| wait.until).filter(|until| *until > now);
        waits.min().unwrap_or(NEVER).min(self.model.next_due())
    }

    /// What was failing may work again: then all is as it was decided.
    fn look_after_failure(&mut self) {
        if !self.disk.tripped() || self.disk.is_armed() {
            return;
        }
        match self.store().flush() {
            Ok(_) => {
                self.note("works again".into());
                self.meet("overcome in place");
                self.disk.forgive();
                self.model.all_certain();
                self.check_all();
            }
            Err(Error::OutcomeUnknown { .. } | Error::Unavailable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Looks at everything that can be seen without a flush: who was woken, who should have been,
    /// and how many tasks there are of each kind.
    #[track_caller]
    pub fn look(&mut self) {
        self.poll_woken();
        if self.disk.tripped() {
            return;
        }
        self.check_sleepers();
        self.check_counts();
    }

    /// Nobody waits beside a task.
    #[track_caller]
    fn check_sleepers(&self) {
        for wait in &self.waits {
            for tube in &wait.tubes {
                let next = self.model.next_of(*tube);
                assert_eq!(next, None, "somebody sleeps in tube {tube} beside this task");
            }
            assert!(wait.until > self.model.now, "a wait is over, and nobody was told");
            assert!(self.model.is_alive(wait.session), "a session is over, and its waiter sleeps");
        }
    }

    #[track_caller]
    fn check_counts(&self) {
        let statistics = self.store().statistics();
        let tubes: Vec<&String> = self.model.names.keys().collect();
        assert_eq!(statistics.keys().collect::<Vec<_>>(), tubes);
        for (name, no) in &self.model.names {
            let mut expected = [0; 4];
            for (_, task, stored) in self.model.living(*no) {
                let state = state_of(task, stored);
                expected[state as usize] += 1;
            }
            let tasks = statistics[name].tasks;
            let found = [tasks.ready, tasks.taken, tasks.delayed, tasks.buried];
            let all: Vec<_> = self.model.living(*no).collect();
            assert_eq!(found, expected, "{name}: ready, taken, delayed, buried; {all:?}");
        }
    }
}

/// The state that a store shows for a task.
pub fn state_of(task: &crate::model::Task, stored: crate::model::Stored) -> State {
    use crate::model::Stand;
    match stored.stand {
        Stand::Ready if task.claim.is_some() => State::Taken,
        Stand::Ready => State::Ready,
        Stand::Delayed(_) => State::Delayed,
        Stand::Buried => State::Buried,
    }
}

/// What an error is called here.
pub fn name(error: &Error) -> &'static str {
    match error {
        Error::NotTaken { .. } => "not taken",
        Error::NotFound { .. } => "not found",
        Error::SessionEnded => "session ended",
        Error::TubeExists { .. } => "exists",
        Error::TubeBusy { .. } => "busy",
        Error::TubeDropped { .. } => "dropped",
        Error::Full { .. } => "full",
        Error::OutcomeUnknown { .. } => "unknown",
        Error::Unavailable { .. } => "unavailable",
        Error::Io { .. } => "io",
        Error::DiskFull { .. } => "disk full",
        Error::Unsupported { .. } => "unsupported",
        _ => "something else",
    }
}

pub fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap()
}
