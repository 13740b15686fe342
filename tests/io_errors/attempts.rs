//! Tasks with a limited number of attempts on a disk that fails: in the take that is counted, and
//! in the call that ends the attempt. Each call does all or nothing, and a take that is not counted
//! is not handed out.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Backoff, Claim, Counting, Durability, FIFOTTL, Failure, ManualClock, Session, Store, TaskState,
    Tube, TubeOptions,
};

use crate::disk::Disk;
use crate::faults::{Fault, Kind, Plan};
use crate::sampled;
use crate::support::{FAULTS, Outcome, RETRY_TIME, open};

const HOUR: Duration = Duration::from_secs(3600);

/// Attempts that failed before. The next one is the last if `BUDGET` is one more.
const FAILED_BEFORE: u32 = 1;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verb {
    Fail,
    FailIn,
    Snooze,
    SnoozeLater,
    BuryWith,
    Drop,
    EndSession,
}

impl Verb {
    const ALL: [Verb; 7] = [
        Verb::Fail,
        Verb::FailIn,
        Verb::Snooze,
        Verb::SnoozeLater,
        Verb::BuryWith,
        Verb::Drop,
        Verb::EndSession,
    ];

    /// Whether the claim ends whatever fails, and the caller is not told.
    fn has_no_answer(self) -> bool {
        matches!(self, Verb::Drop | Verb::EndSession)
    }

    /// Whether only memory changes, so that a crash may forget the call.
    fn is_in_memory(self) -> bool {
        matches!(self, Verb::Snooze | Verb::Drop | Verb::EndSession)
    }
}

/// What the store shows of the task.
#[derive(Clone, Debug, PartialEq, Eq)]
struct View {
    state: TaskState,
    attempts: u32,
    /// The group of the last failure.
    group: String,
}

impl View {
    fn new(state: TaskState, attempts: u32, group: &str) -> View {
        View { state, attempts, group: group.to_owned() }
    }

    /// Of the only task.
    fn of(store: &Store) -> View {
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let info = store.find_tube("work").unwrap().query().task(0).unwrap().info;
        View::new(info.state, info.attempts, &info.failure.unwrap().group)
    }
}

/// A task that has failed before, and the call that ends its next attempt.
#[derive(Clone, Copy, Debug)]
struct Case {
    durability: Durability,
    counting: Counting,
    is_last: bool,
    verb: Verb,
}

impl Case {
    fn before() -> View {
        View::new(TaskState::Ready, FAILED_BEFORE, "before")
    }

    fn taken() -> View {
        View { state: TaskState::Taken, attempts: FAILED_BEFORE + 1, ..Case::before() }
    }

    /// After the process was killed while the task was taken.
    fn lost(self) -> View {
        if self.is_last {
            View::new(TaskState::Buried, FAILED_BEFORE + 1, "lost")
        } else {
            View { state: TaskState::Delayed, ..Case::taken() }
        }
    }

    fn after(self) -> View {
        let attempts = FAILED_BEFORE + 1;
        match self.verb {
            Verb::Snooze => Case::before(),
            Verb::SnoozeLater => View { state: TaskState::Delayed, ..Case::before() },
            Verb::BuryWith => View::new(TaskState::Buried, attempts, "now"),
            Verb::Fail | Verb::FailIn if self.is_last => {
                View::new(TaskState::Buried, attempts, "now")
            }
            Verb::Fail => View::new(TaskState::Delayed, attempts, "now"),
            Verb::FailIn => View::new(TaskState::Ready, attempts, "now"),
            Verb::Drop if self.is_last => View::new(TaskState::Buried, attempts, "released"),
            Verb::Drop => View { state: TaskState::Ready, ..Case::taken() },
            Verb::EndSession => self.lost(),
        }
    }

    /// The disk of a closed store with the task.
    fn disk(self) -> Arc<Disk> {
        let disk = Disk::new(None);
        let store = open(&disk, &ManualClock::new());
        let options = TubeOptions::new()
            .durability(self.durability)
            .max_attempts(FAILED_BEFORE + 1 + u32::from(!self.is_last))
            .count_takes(self.counting)
            .backoff(Backoff::constant(HOUR));
        let tube = store.create_tube("work", options.driver(FIFOTTL)).unwrap();
        tube.put("body").unwrap();
        let claim = tube.try_take().unwrap().unwrap();
        claim
            .end(tubewell::Outcome::fail_in(Duration::ZERO, Failure::new("before", "no answer")))
            .unwrap();
        assert_eq!(View::of(&store), Case::before());
        store.close().unwrap();
        disk
    }

    /// What a kill may leave after the take, and after the end of the attempt if it was reached.
    fn after_kill(self, taken: Outcome, ended: Option<Outcome>) -> Vec<View> {
        let is_forgettable = self.verb.is_in_memory() || self.durability == Durability::relaxed();
        let mut views = Vec::new();
        if taken != Outcome::Done {
            views.push(Case::before());
        }
        if taken != Outcome::Refused && (ended != Some(Outcome::Done) || is_forgettable) {
            views.push(self.lost());
        }
        if matches!(ended, Some(Outcome::Done | Outcome::Unknown)) {
            views.push(self.after());
        }
        views
    }

    /// As `after_kill`, after a power cut.
    fn after_power_cut(self, taken: Outcome, ended: Option<Outcome>) -> Vec<View> {
        let mut views = self.after_kill(taken, ended);
        let is_flushed = self.durability == Durability::Flush && !self.verb.is_in_memory();
        if ended != Some(Outcome::Done) || !is_flushed {
            if self.counting != Counting::Flushed {
                views.push(Case::before());
            }
            if taken != Outcome::Refused {
                views.push(self.lost());
            }
        }
        views
    }

    /// Takes the task and ends the attempt while calls fail. Returns whether a call failed.
    fn fails(self, disk: &Arc<Disk>, plan: Plan) -> bool {
        let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
        let store = open(&disk, &clock);
        let session = store.session("").unwrap();
        let tube = session.tube(&store.find_tube("work").unwrap()).unwrap();
        disk.fail(plan);
        let claim = tube.try_take();
        let taken = Outcome::of(&claim);
        self.check_crashes(&disk, taken, None, plan);
        let ended = claim.ok().map(|claim| {
            let claim = claim.unwrap();
            assert_eq!(claim.attempt(), FAILED_BEFORE + 1);
            self.end(claim, &tube, &session)
        });
        self.check_crashes(&disk, taken, ended, plan);
        let failed = disk.has_failed();
        assert!(failed || ended == Some(Outcome::Done), "{self:?}, {plan:?}: {taken:?} {ended:?}");
        disk.repair();
        clock.advance(RETRY_TIME);
        store.flush().unwrap();
        let found = View::of(&store);
        let allowed = self.after_recovery(ended, failed);
        assert!(allowed.contains(&found), "{self:?}, {plan:?}: {ended:?}, {found:?}");
        if self.is_last && found.state != TaskState::Taken && found.attempts > FAILED_BEFORE {
            assert!(
                store.find_tube("work").unwrap().try_take().unwrap().is_none(),
                "{self:?}, {plan:?}"
            );
            assert_eq!(View::of(&store).state, TaskState::Buried, "{self:?}, {plan:?}");
        }
        match ended {
            None => {
                let claim = tube.try_take().unwrap().unwrap();
                assert_eq!(claim.attempt(), FAILED_BEFORE + 1, "{self:?}, {plan:?}");
                assert_eq!(self.end(claim, &tube, &session), Outcome::Done);
                assert_eq!(View::of(&store), self.after(), "{self:?}, {plan:?}");
            }
            // The claim stands.
            Some(Outcome::Refused) => {
                assert_eq!(self.end_by_id(&tube, &session), Outcome::Done, "{self:?}, {plan:?}");
                assert_eq!(View::of(&store), self.after(), "{self:?}, {plan:?}");
            }
            Some(_) => {}
        }
        let last = View::of(&store);
        drop((tube, session));
        store.close().unwrap();
        for disk in [disk.clone(), disk.after_power_cut()] {
            let reopened = open(&disk, &ManualClock::new());
            assert_eq!(View::of(&reopened), last, "{self:?}, {plan:?}: {ended:?}");
        }
        failed
    }

    /// Ends the attempt. A handle that is dropped gets no answer.
    fn end(self, claim: Claim, tube: &Tube, session: &Session) -> Outcome {
        if self.verb == Verb::Drop {
            drop(claim);
            return Outcome::Done;
        }
        // A refused call by id leaves the claim as it is. A handle would release the task.
        let _ = claim.detach();
        self.end_by_id(tube, session)
    }

    fn end_by_id(self, tube: &Tube, session: &Session) -> Outcome {
        let failure = Failure::new("now", "no answer");
        let ended = match self.verb {
            Verb::Fail => tube.claimed(0).and_then(|claim| claim.fail(failure.clone())),
            Verb::FailIn => tube.claimed(0).and_then(|claim| {
                claim.end(tubewell::Outcome::fail_in(Duration::ZERO, failure.clone()))
            }),
            Verb::Snooze => tube
                .claimed(0)
                .and_then(|claim| claim.end(tubewell::Outcome::snooze(Duration::ZERO))),
            Verb::SnoozeLater => {
                tube.claimed(0).and_then(|claim| claim.end(tubewell::Outcome::snooze(HOUR)))
            }
            Verb::BuryWith => tube.claimed(0).and_then(|claim| claim.bury(failure.clone())),
            Verb::Drop | Verb::EndSession => return Outcome::of(&session.clone().end()),
        };
        Outcome::of(&ended)
    }

    /// What the store may show once the disk works again.
    fn after_recovery(self, ended: Option<Outcome>, failed: bool) -> Vec<View> {
        match ended {
            None => vec![Case::before()],
            Some(Outcome::Refused) => vec![Case::taken()],
            // The claim has ended, but what becomes of the task may not have been written: then it
            // is ready, with its attempt counted.
            Some(_) if failed && self.verb.has_no_answer() => {
                vec![self.after(), self.lost(), View { state: TaskState::Ready, ..Case::taken() }]
            }
            Some(_) => vec![self.after()],
        }
    }

    /// Checks what a kill and a power cut would leave now.
    fn check_crashes(self, disk: &Arc<Disk>, taken: Outcome, ended: Option<Outcome>, plan: Plan) {
        for (copy, allowed) in [
            (disk.after_kill(), self.after_kill(taken, ended)),
            (disk.after_power_cut(), self.after_power_cut(taken, ended)),
        ] {
            let found = View::of(&open(&copy, &ManualClock::new()));
            let context = format!("{self:?}, {plan:?}: {taken:?} {ended:?}");
            assert!(allowed.contains(&found), "{context}: {found:?} is none of {allowed:?}");
        }
    }
}

#[test]
fn failed_call_on_limited_task_does_all_or_nothing() {
    let durabilities = [Durability::Flush, Durability::write(), Durability::relaxed()];
    let (mut runs, mut cases) = (0, 0);
    for counting in [Counting::Written, Counting::Flushed] {
        for verb in Verb::ALL {
            for is_last in [false, true] {
                for durability in sample(durabilities, cases) {
                    let case = Case { durability, counting, is_last, verb };
                    runs += fail_each_call_of(case, cases);
                    cases += 1;
                }
            }
        }
    }
    println!("{runs} runs");
    assert!(runs > 100, "{runs} runs");
}

/// One of these, another one for each `nth`; or all, see [`sampled`].
fn sample<T: Copy, const N: usize>(all: [T; N], nth: usize) -> impl Iterator<Item = T> {
    (0..N).step_by(sampled(N)).map(move |at| all[(nth + at) % N])
}

/// Returns the number of runs in which a call failed.
fn fail_each_call_of(case: Case, nth_case: usize) -> usize {
    let disk = case.disk();
    let mut runs = 0;
    for (nth_kind, kind) in [Kind::Read, Kind::Write, Kind::Sync].into_iter().enumerate() {
        for (fault, lasting) in sample(FAULTS, nth_case + nth_kind) {
            let plan = |nth| Plan { kind, nth, fault, lasting };
            runs += (1..100_000).take_while(|nth| case.fails(&disk, plan(*nth))).count();
        }
    }
    runs
}

/// The ends of claims that no caller asks for are not refused if the storage fails.
#[test]
fn counted_attempt_is_not_forgotten_if_the_end_of_its_claim_cannot_be_written() {
    let second = Duration::from_secs(1);
    let fails = |counting: Counting, expires: bool, nth: u64| {
        let (disk, clock) = (Disk::new(None), ManualClock::new());
        let store = open(&disk, &clock);
        let options = TubeOptions::new().max_attempts(1).count_takes(counting).ttr(second);
        let tube = store.create_tube("work", options.driver(FIFOTTL)).unwrap();
        tube.put("body").unwrap();
        let other = store.create_tube("other", TubeOptions::new().driver(FIFOTTL)).unwrap();
        store.close().unwrap();
        let store = open(&disk, &clock);
        let [tube, other] = ["work", other.name()].map(|name| store.find_tube(name).unwrap());
        let claim = tube.try_take().unwrap().unwrap();
        // A commit of the database, after which the tables are opened anew.
        other.put(vec![0; 300 << 10]).unwrap();
        disk.fail(Plan { kind: Kind::Read, nth, fault: Fault::Device, lasting: true });
        if expires {
            clock.advance(second);
        }
        drop(claim);
        let failed = disk.has_failed();
        disk.repair();
        clock.advance(RETRY_TIME);
        store.flush().unwrap();
        assert!(tube.try_take().unwrap().is_none(), "{counting:?}, {expires}, read {nth}");
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let copies = [disk.after_kill(), disk.after_power_cut()];
        store.close().unwrap();
        for disk in copies.into_iter().chain([disk]) {
            let tube = open(&disk, &clock).find_tube("work").unwrap();
            assert!(tube.try_take().unwrap().is_none(), "{counting:?}, {expires}, read {nth}");
        }
        failed
    };
    for counting in [Counting::Written, Counting::Flushed] {
        for expires in [false, true] {
            let tries = (1..1000).take_while(|nth| fails(counting, expires, *nth)).count();
            assert!(tries > 0);
        }
    }
}
