//! One run: a store, its users, the clock, the disk, and the model that predicts each answer.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{Claim, Error, ManualClock, Result, Session, Store, TaskState, Tube};

use crate::disk::Disk;
use crate::model::{
    ClaimNo, Edit, Level, Micros, Model, NEVER, STORE_SESSION, Seq, SessionNo, TubeNo,
};
use crate::plan::{Action, Step};
use crate::rng::Rng;
use crate::waiters::Waiter;

/// A claim that a consumer has. It may have ended meanwhile.
pub struct HeldClaim {
    pub no: ClaimNo,
    pub seq: Seq,
    pub id: u64,
    pub session: SessionNo,
    /// Consumed by the verb that ends it; `None` after a detach.
    pub claim: Option<Claim>,
    /// Whether it is detached, and is finished by id.
    pub detached: bool,
}

/// The outcome of a call.
pub enum Outcome<T> {
    Done(T),
    /// Applied; it may be lost if the process ends.
    Unknown,
    /// Refused as the model expects.
    Refused,
    /// The storage failed; nothing changed.
    StorageFailed,
}

/// The edits that a call must make, or the label of the error that it must return.
pub type Expected = std::result::Result<Vec<Edit>, &'static str>;

pub struct Simulator {
    pub clock: ManualClock,
    pub disk: Arc<Disk>,
    pub store: Option<Store>,
    pub model: Model,
    pub grace: Micros,
    pub claims: Vec<HeldClaim>,
    pub waiters: Vec<Waiter>,
    pub sessions: BTreeMap<SessionNo, Session>,
    /// Tube handles of the store's own session. They are kept, so that a storage failure hits the
    /// call and not the lookup of the tube.
    pub tubes: BTreeMap<TubeNo, Tube>,
    /// The last number used for a task, tube, claim or session.
    last_number: u64,
    /// The highest commit number that a durable change has returned.
    pub commit: u64,
    pub trace: Vec<String>,
    pub coverage: BTreeMap<String, u64>,
    pub calls: u64,
}

impl Simulator {
    pub fn new(seed: u64) -> Simulator {
        let mut rng = Rng::new(seed ^ 0x5EED);
        let mut simulator = Simulator {
            clock: ManualClock::new(),
            disk: Disk::new(),
            store: None,
            model: Model::default(),
            grace: rng.pick(&[0, 0, 300_000]),
            claims: Vec::new(),
            waiters: Vec::new(),
            sessions: BTreeMap::new(),
            tubes: BTreeMap::new(),
            last_number: 0,
            commit: 0,
            trace: Vec::new(),
            coverage: BTreeMap::new(),
            calls: 0,
        };
        simulator.open(&mut rng);
        simulator
    }

    pub fn step(&mut self, step: Step) {
        let rng = &mut Rng::new(step.seed);
        self.note(format!("- {:?}", step.action));
        match step.action {
            Action::Put => self.put(rng),
            Action::PutMany => self.put_many(rng),
            Action::Take => self.take(rng),
            Action::TakeMany => self.take_many(rng),
            Action::Ack => self.ack(rng),
            Action::AckMany => self.ack_many(rng),
            Action::AckTwice => self.ack_twice(rng),
            Action::AckUnclaimed => self.ack_unclaimed(rng),
            Action::Release => self.release(rng, Duration::ZERO),
            Action::ReleaseDelayed => {
                let delay = Duration::from_millis(1 + rng.below(400));
                self.release(rng, delay);
            }
            Action::Touch => self.touch(rng),
            Action::Renew => self.renew(rng),
            Action::Bury => self.bury(rng),
            Action::DetachClaim => self.detach_claim(rng),
            Action::DropClaim => self.drop_claim(rng),
            Action::DropSession => self.drop_session(rng),
            Action::EndSession => self.end_session(rng),
            Action::Wait => self.start_waiting(rng),
            Action::CancelWait => self.cancel_wait(rng),
            Action::Claim => self.claim(rng),
            Action::Revoke => self.revoke(rng),
            Action::Checkpoint => self.checkpoint(rng),
            Action::DeferredCalls => self.deferred_calls(rng),
            Action::BuryById => self.bury_by_id(rng),
            Action::Kick => self.kick(rng),
            Action::Delete => self.delete(rng),
            Action::Peek => self.peek(rng),
            Action::ReleaseAll => self.release_all(rng),
            Action::Create => self.create(rng),
            Action::DropTube => self.drop_tube(rng),
            Action::Truncate => self.truncate(rng),
            Action::Flush => self.flush(),
            Action::Verify => self.verify(),
            Action::Advance => self.advance(Duration::from_micros(rng.below(120_000))),
            Action::AdvanceLong => self.advance(Duration::from_secs(1 + rng.below(40))),
            Action::ArmFault => self.arm_fault(rng),
            Action::FillDisk => self.fill_disk(),
            Action::RepairDisk => self.repair_disk(),
            Action::Crash => self.crash(rng),
            Action::Reopen => self.reopen(rng),
        }
        self.check_state();
    }

    // ---- helpers

    pub fn store(&self) -> &Store {
        self.store.as_ref().unwrap()
    }

    pub fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub fn note(&mut self, line: String) {
        self.trace.push(line);
    }

    pub fn cover(&mut self, what: impl Into<String>) {
        *self.coverage.entry(what.into()).or_default() += 1;
    }

    /// One of the existing tubes.
    pub fn random_tube(&self, rng: &mut Rng) -> Option<TubeNo> {
        let tubes: Vec<TubeNo> = self.model.names.values().copied().collect();
        (!tubes.is_empty()).then(|| rng.pick(&tubes))
    }

    /// A tube handle for a session, or `None` if the storage fails.
    pub fn tube(&mut self, no: TubeNo, session: SessionNo) -> Option<Tube> {
        if let Some(tube) = self.tubes.get(&no).filter(|_| session == STORE_SESSION) {
            return Some(tube.clone());
        }
        let name = self.model.tubes[&no].name.clone();
        let found = self.store().find_tube(&name);
        let found = found.and_then(|found| match self.sessions.get(&session) {
            Some(session) => session.tube(&found),
            None => Ok(found),
        });
        let Outcome::Done(tube) = self.check_answer("tube", Ok(Vec::new()), found) else {
            return None;
        };
        if session == STORE_SESSION {
            self.tubes.insert(no, tube.clone());
        }
        Some(tube)
    }

    /// A session that takes tasks: the store's own, an existing one, or a new one.
    pub fn random_session(&mut self, rng: &mut Rng) -> SessionNo {
        let known: Vec<SessionNo> = self.sessions.keys().copied().collect();
        if rng.one_in(3) {
            return STORE_SESSION;
        }
        if known.len() < 3 && rng.one_in(3) || known.is_empty() {
            let no = self.next_number();
            let session = self.store().session("").unwrap();
            self.sessions.insert(no, session);
            self.model.sessions.insert(no, None);
            return no;
        }
        rng.pick(&known)
    }

    // ---- answers

    /// Checks an answer against the model's expectation and the faults of the disk.
    #[track_caller]
    pub fn check_answer<T>(
        &mut self,
        verb: &str,
        expected: Expected,
        answer: Result<T>,
    ) -> Outcome<T> {
        self.calls += u64::from(verb != "tube");
        let label = answer.as_ref().map_or_else(error_label, |_| "done");
        self.cover(format!("{verb}: {label}"));
        self.note(format!("{verb}: {label}"));
        let failing = self.disk.tripped();
        match answer {
            Ok(answer) => {
                assert!(expected.is_ok(), "{verb} succeeded, expected {expected:?}");
                Outcome::Done(answer)
            }
            Err(Error::OutcomeUnknown { why }) => {
                assert!(failing, "{verb}: outcome unknown without a fault: {why}");
                assert!(expected.is_ok(), "{verb}: outcome unknown, expected {expected:?}");
                Outcome::Unknown
            }
            Err(Error::Unavailable { .. } | Error::Io { .. }) if failing => Outcome::StorageFailed,
            Err(Error::DiskFull { .. }) if adds_bytes(verb) && self.disk.lacks_space() => {
                Outcome::StorageFailed
            }
            Err(error) => {
                assert_eq!(expected.err(), Some(error_label(&error)), "{verb}: {error}");
                Outcome::Refused
            }
        }
    }

    /// Like [`Simulator::check_answer`], for a call that changes stored tasks.
    #[track_caller]
    pub fn check_change<T>(
        &mut self,
        verb: &str,
        tube: TubeNo,
        expected: Expected,
        answer: Result<T>,
    ) -> Outcome<T> {
        let edits = expected.clone().unwrap_or_default();
        let outcome = self.check_answer(verb, expected, answer);
        let level = self.model.level(tube).name();
        if matches!(outcome, Outcome::Done(_) | Outcome::Unknown) {
            let call = self.model.record_call(&edits);
            self.model.make_visible(&edits);
            if matches!(outcome, Outcome::Done(_)) {
                self.cover(format!("{level} change"));
                self.model.mark_answered(call, tube);
            } else {
                self.cover(format!("{level} change of unknown outcome"));
            }
        }
        outcome
    }

    /// Checks that commit numbers never decrease. The number of a flushed change is never used
    /// again.
    #[track_caller]
    pub fn check_commit_number(&mut self, tube: TubeNo, commit: u64) {
        let level = self.model.level(tube);
        if level == Level::Temporary {
            return;
        }
        assert!(commit >= self.commit, "commit {commit} after {}", self.commit);
        if level == Level::Flushed {
            self.commit = commit;
        }
    }

    // ---- time

    /// Advances the clock and checks the store at every due time on the way, and one microsecond
    /// before it.
    pub fn advance(&mut self, by: Duration) {
        let target = self.model.now + micros(by);
        while self.model.now < target {
            let due = self.next_due();
            let before = (due - 1).max(self.model.now);
            let next = if before > self.model.now { before } else { due }.min(target);
            self.clock.advance(Duration::from_micros(next - self.model.now));
            self.model.now = next;
            self.model.expire();
            if !self.disk.tripped() {
                self.model.mark_due_flushes();
            }
            self.check_state();
        }
        self.check_after_outage();
    }

    pub fn next_due(&self) -> Micros {
        let now = self.model.now;
        let waits = self.waiters.iter().map(|waiter| waiter.until).filter(|until| *until > now);
        waits.min().unwrap_or(NEVER).min(self.model.next_due())
    }

    /// If the storage works again, all accepted calls must be in effect.
    fn check_after_outage(&mut self) {
        if !self.disk.tripped() || self.disk.is_armed() {
            return;
        }
        match self.store().flush() {
            Ok(_) => {
                self.note("storage resumed".into());
                self.cover("storage resumed");
                self.disk.clear_tripped();
                self.model.mark_all_durable();
                self.check_all();
            }
            Err(Error::OutcomeUnknown { .. } | Error::Unavailable { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    /// Checks everything that is visible without a flush: woken waiters, waiters that should have
    /// been woken, and the number of tasks in each state.
    #[track_caller]
    pub fn check_state(&mut self) {
        self.poll_woken();
        if self.disk.tripped() {
            return;
        }
        self.check_waiters();
        self.check_counts();
        self.check_claims();
    }

    /// Checks that no taker waits while a task is takeable, after its timeout, or after the end of
    /// its session.
    #[track_caller]
    fn check_waiters(&self) {
        for waiter in &self.waiters {
            for tube in &waiter.tubes {
                let next = self.model.next_task(*tube);
                assert_eq!(
                    next, None,
                    "a taker waits in tube {tube} although this task is takeable"
                );
            }
            assert!(waiter.until > self.model.now, "a wait timed out and its taker was not woken");
            assert!(
                self.model.is_alive(waiter.session),
                "a session ended and its waiting taker was not woken"
            );
        }
    }

    #[track_caller]
    fn check_counts(&self) {
        let statistics = self.store().statistics().unwrap();
        let tubes: Vec<&String> = self.model.names.keys().collect();
        assert_eq!(statistics.keys().collect::<Vec<_>>(), tubes);
        for (name, no) in &self.model.names {
            let mut expected = [0; 5];
            for (_, task, stored) in self.model.live_tasks(*no) {
                let state = state_of(task, stored);
                expected[state as usize] += 1;
            }
            let tasks = statistics[name].tasks;
            let found = [tasks.ready, tasks.taken, tasks.delayed, tasks.blocked, tasks.buried];
            let all: Vec<_> = self.model.live_tasks(*no).collect();
            assert_eq!(found, expected, "{name}: ready, taken, delayed, blocked, buried; {all:?}");
        }
    }
}

/// The state that the store reports for a task.
pub fn state_of(task: &crate::model::Task, stored: crate::model::Stored) -> TaskState {
    use crate::model::StoredState;
    match stored.state {
        StoredState::Ready if task.claim.is_some() => TaskState::Taken,
        StoredState::Ready => TaskState::Ready,
        StoredState::Delayed(_) => TaskState::Delayed,
        StoredState::Buried => TaskState::Buried,
    }
}

/// The label of an error in traces and expectations.
pub fn error_label(error: &Error) -> &'static str {
    match error {
        Error::NotTaken { .. } => "not taken",
        Error::NotFound { .. } => "not found",
        Error::NotReady { .. } => "not ready",
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
        _ => "other error",
    }
}

/// Whether a full disk may refuse this verb.
fn adds_bytes(verb: &str) -> bool {
    ["put", "checkpoint"].iter().any(|it| verb.starts_with(it))
}

pub fn micros(duration: Duration) -> Micros {
    u64::try_from(duration.as_micros()).unwrap()
}
