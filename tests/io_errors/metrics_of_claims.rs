//! The numbers by day while each call of the disk fails under puts, takes, acks, failures and burials:
//! each call that was made is counted once, and a call that was refused is not counted. The failing disk has the
//! numbers after one of the calls. Once it works again, the store and the file have all of them.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Claim, Counting, Durability, FIFO, Failure, ManualClock, Result, Store, Tube, TubeOptions,
};

use crate::disk::Disk;
use crate::failing_call::fail_with_sampled_faults;
use crate::faults::{Kind, Plan};
use crate::sampled;
use crate::size::amount;
use crate::support::{NEVER, Outcome, RETRY_TIME, open};

/// The numbers are written at most this often.
const WRITE_EVERY: Duration = Duration::from_secs(10);

/// Puts, takes, acks, failures, lost, retried, and the counts of waits and of runs.
type Numbers = [u64; 8];

const PUTS: usize = 0;
const TAKES: usize = 1;
const ACKS: usize = 2;
const FAILURES: usize = 3;
const LOST: usize = 4;
const RETRIED: usize = 5;
const WAITS: usize = 6;
const RUNS: usize = 7;

#[derive(Clone, Copy)]
enum End {
    Ack,
    Fail,
    Bury,
}

fn numbers(store: &Store) -> Numbers {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let day = store.find_tube("work").unwrap().query().day(store.today().unwrap()).unwrap();
    let counters = [day.puts, day.takes, day.acks, day.failures, day.lost, day.retried];
    let [puts, takes, acks, failures, lost, retried] = counters;
    [puts, takes, acks, failures, lost, retried, day.wait.count, day.run.count]
}

/// The calls made on a failing disk, and what they count.
struct Ledger {
    tube: Tube,
    clock: ManualClock,
    /// The numbers at first and after each call.
    after: Vec<Numbers>,
    /// Which of them were written last, and which of them a power cut keeps.
    written: usize,
    kept: usize,
    /// Whether a take makes a commit.
    commits_takes: bool,
    /// How many takes returned errors. They count if they had been decided.
    not_handed_out: u64,
    is_flushed: bool,
    written_at: Option<Duration>,
    now: Duration,
}

impl Ledger {
    fn add(&mut self, counted: &[usize]) {
        let mut numbers = *self.after.last().unwrap();
        for nth in counted {
            numbers[*nth] += 1;
        }
        self.after.push(numbers);
    }

    /// A call that makes a commit.
    fn call<T>(&mut self, called: &Result<T>, counted: &[usize]) {
        let outcome = Outcome::of(called);
        if outcome == Outcome::Refused {
            return;
        }
        self.add(counted);
        self.commit();
        if outcome == Outcome::Done && self.is_flushed {
            self.kept = self.written;
        }
    }

    /// The commit of the last call writes the numbers if that is due.
    fn commit(&mut self) {
        if self.written_at.is_none_or(|at| self.now >= at + WRITE_EVERY) {
            (self.written_at, self.written) = (Some(self.now), self.after.len() - 1);
        }
    }

    fn put(&mut self) {
        let put = self.tube.put("x");
        self.call(&put, &[PUTS]);
    }

    fn take(&mut self) -> Option<Claim> {
        let taken = self.tube.try_take();
        // It may have been decided before its count could not be stored.
        self.not_handed_out += u64::from(Outcome::of(&taken) != Outcome::Done);
        let claim = taken.ok()??;
        let retried = if claim.attempt() > 1 { vec![RETRIED] } else { Vec::new() };
        self.add(&[vec![TAKES, WAITS], retried].concat());
        if self.commits_takes {
            self.commit();
            self.kept = if self.is_flushed { self.written } else { self.kept };
        }
        Some(claim)
    }

    fn take_and(&mut self, end: End) {
        let Some(claim) = self.take() else { return };
        let failure = || Failure::new("group", "why");
        match end {
            End::Ack => self.call(&claim.ack(), &[ACKS, RUNS]),
            End::Fail => self.call(&claim.fail(failure()), &[FAILURES]),
            End::Bury => self.call(&claim.bury(failure()), &[FAILURES]),
        }
    }

    /// Whether these are the numbers, beside takes that were not handed out.
    fn agrees(&self, found: &Numbers, expected: &Numbers) -> bool {
        let mut of_handed_out = *found;
        for nth in [TAKES, RETRIED, WAITS] {
            of_handed_out[nth] = expected[nth];
        }
        let further = |nth: usize| found[nth].checked_sub(expected[nth]);
        of_handed_out == *expected
            && further(TAKES) == further(WAITS)
            && further(TAKES).is_some_and(|takes| takes <= self.not_handed_out)
            && further(RETRIED) <= further(TAKES)
    }

    fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        self.now += by;
    }
}

/// The disk of a closed store with tasks and numbers.
fn disk(durability: Durability, counting: Counting) -> Arc<Disk> {
    let (disk, clock) = (Disk::new(None), ManualClock::new());
    let store = open(&disk, &clock);
    let options = TubeOptions::new().metrics(3).max_attempts(9).count_takes(counting);
    let tube = store.create_tube("work", options.durability(durability).driver(FIFO)).unwrap();
    tube.put_many(["a", "b", "c"]).unwrap();
    tube.try_take().unwrap().unwrap().ack().unwrap();
    store.close().unwrap();
    disk
}

/// Makes calls while calls of the disk fail, and compares the numbers. Returns whether one has failed.
fn run(disk: &Arc<Disk>, is_flushed: bool, counting: Counting, plan: Plan) -> bool {
    let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
    let store = open(&disk, &clock);
    let before = numbers(&store);
    disk.fail(plan);
    let mut ledger = Ledger {
        tube: store.find_tube("work").unwrap(),
        clock,
        after: vec![before],
        written: 0,
        kept: 0,
        commits_takes: counting != Counting::Lazily,
        not_handed_out: 0,
        is_flushed,
        written_at: None,
        now: Duration::ZERO,
    };
    ledger.put();
    ledger.take_and(End::Fail);
    ledger.take_and(End::Ack);
    ledger.advance(WRITE_EVERY);
    ledger.take_and(End::Bury);
    ledger.put();
    ledger.take_and(End::Ack);
    // What cannot be read is not written: a read that fails forgets the numbers since the last write.
    let kept = if plan.kind == Kind::Read { 0 } else { ledger.kept };
    let allowed = &ledger.after[kept..];
    for copy in [disk.after_kill(), disk.after_power_cut()] {
        let mut found = numbers(&open(&copy, &ManualClock::new()));
        // The open counts the claims of the process.
        found[LOST] = before[LOST];
        let is_allowed = allowed.iter().any(|expected| ledger.agrees(&found, expected));
        assert!(is_allowed, "{plan:?}: {found:?}, not of {allowed:?}");
    }
    let has_failed = disk.has_failed();
    disk.repair();
    ledger.clock.advance(RETRY_TIME);
    store.flush().unwrap();
    let all = numbers(&store);
    let expected = ledger.after.last().unwrap();
    assert!(ledger.agrees(&all, expected), "{plan:?}: {all:?}, not {expected:?}");
    store.close().unwrap();
    for disk in [disk.clone(), disk.after_power_cut()] {
        assert_eq!(numbers(&open(&disk, &ManualClock::new())), all, "{plan:?}, after a close");
    }
    has_failed
}

#[test]
fn numbers_have_each_call_once_while_the_disk_fails() {
    let mut runs = 0;
    let written = Durability::Write { flush_within: NEVER };
    for (durability, counting) in
        [(Durability::Flush, Counting::Flushed), (written, Counting::Written)]
    {
        let disk = disk(durability, counting);
        let is_flushed = durability == Durability::Flush;
        let name = format!("{durability}, {counting:?}");
        fail_with_sampled_faults(&name, sampled(4), &mut runs, |plan| {
            run(&disk, is_flushed, counting, plan)
        });
    }
    assert!(runs > amount(8, 30, 30), "{runs} runs");
}
