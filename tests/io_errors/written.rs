//! Written tubes on a disk that fails: in the write of a record, in the flush that follows later,
//! and while the journal is moved into the database.
//!
//! While the process lives, the store keeps every change that it accepted. What was acknowledged is
//! in the file, whatever fails: a kill loses none of it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Durability, Error, FIFO, ManualClock, Result, Store, StoreOptions, TaskState, Tube, TubeOptions,
};

use crate::disk::Disk;
use crate::faults::{Fault, Kind, Plan};
use crate::support::{NEVER, Outcome, RETRY_TIME};
use crate::with_timeout;

const FLUSH_WITHIN: Duration = Duration::from_millis(50);

fn outcome<T>(result: Result<T>) -> Outcome {
    match result {
        Ok(_) => Outcome::Done,
        Err(Error::OutcomeUnknown { .. }) => Outcome::Unknown,
        Err(Error::Unavailable { .. } | Error::DiskFull { .. } | Error::Io { .. }) => {
            Outcome::Refused
        }
        Err(other) => panic!("{other:?}"),
    }
}

/// A written tube, and the tasks that it must have.
struct WrittenTube {
    tube: Tube,
    puts: u32,
    /// What the store has accepted.
    accepted: BTreeSet<String>,
    /// What a kill may or may not have kept: the outcomes that are not known.
    unknown: BTreeSet<String>,
}

impl WrittenTube {
    fn create(store: &Store, flush_within: Duration) -> WrittenTube {
        let options = TubeOptions::new().durability(Durability::Write { flush_within });
        let tube = store.create_tube("written", options.driver(FIFO)).unwrap();
        WrittenTube { tube, puts: 0, accepted: BTreeSet::new(), unknown: BTreeSet::new() }
    }

    fn put(&mut self, length: usize) -> Outcome {
        self.puts += 1;
        let label = self.puts.to_string();
        let outcome = outcome(self.tube.put(format!("{label}.{}", "x".repeat(length))));
        if outcome == Outcome::Unknown {
            self.unknown.insert(label.clone());
        }
        if outcome != Outcome::Refused {
            self.accepted.insert(label);
        }
        outcome
    }

    /// Takes the first task and acks it.
    fn ack(&mut self) -> Outcome {
        let claim = match self.tube.try_take() {
            Ok(claim) => claim.unwrap(),
            Err(error) => return outcome(Err::<(), _>(error)),
        };
        let label = label(claim.body());
        let outcome = outcome(claim.ack());
        if outcome == Outcome::Unknown {
            self.unknown.insert(label.clone());
        }
        if outcome != Outcome::Refused {
            assert!(self.accepted.remove(&label), "{label}");
        }
        outcome
    }

    /// Asserts that a store has every accepted change.
    #[track_caller]
    fn check(&self, store: &Store) {
        assert_eq!(labels(store), self.accepted);
    }

    /// Asserts that a kill at this moment loses no acknowledged change.
    #[track_caller]
    fn check_after_kill(&self, disk: &Arc<Disk>) {
        let found = labels(&open(&disk.after_kill(), &ManualClock::new()));
        let differs = found.symmetric_difference(&self.accepted);
        let lost: Vec<&String> = differs.filter(|label| !self.unknown.contains(*label)).collect();
        assert!(lost.is_empty(), "{lost:?} of {found:?}");
    }

    /// Asserts that a store which has recovered has everything, and that it is flushed.
    #[track_caller]
    fn check_recovered(&self, disk: &Arc<Disk>, store: Store) {
        self.check(&store);
        self.check(&open(&disk.after_power_cut(), &ManualClock::new()));
        store.close().unwrap();
        for disk in [disk.clone(), disk.after_power_cut()] {
            self.check(&open(&disk, &ManualClock::new()));
        }
    }
}

fn options(clock: &ManualClock) -> StoreOptions {
    Store::options().clock(clock).cache_size(1 << 16)
}

fn open(disk: &Arc<Disk>, clock: &ManualClock) -> Store {
    options(clock).open_on(disk.storage()).unwrap()
}

fn label(body: &[u8]) -> String {
    std::str::from_utf8(body).unwrap().split('.').next().unwrap().to_owned()
}

fn labels(store: &Store) -> BTreeSet<String> {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tube = store.find_tube("written").unwrap();
    let page = tube.query().list(TaskState::Ready, None, 10_000).unwrap();
    page.items.iter().map(|task| label(&tube.query().task(task.id).unwrap().body)).collect()
}

#[test]
fn failed_write_leaves_one_unknown_outcome_and_loses_no_written_change() {
    let fails = |plan: Plan| {
        let (disk, clock) = (Disk::new(None), ManualClock::new());
        let store = open(&disk, &clock);
        let mut tube = WrittenTube::create(&store, NEVER);
        tube.put(20);
        disk.fail(plan);
        let mut calls: Vec<Outcome> = Vec::new();
        for length in [20, 3000, 20, 5000, 20] {
            calls.extend([tube.put(length), tube.put(length), tube.ack()]);
        }
        let failed = disk.has_failed();
        let unknown = calls.iter().filter(|outcome| **outcome == Outcome::Unknown).count();
        // A write that finds the disk full is repeated in the space of the ballast.
        let may_pass = plan.fault == Fault::Full && !plan.lasting;
        let is_expected = unknown == usize::from(failed) || may_pass && unknown == 0;
        assert!(is_expected, "{plan:?}: {calls:?}");
        if failed && plan.lasting {
            assert_eq!(outcome(tube.tube.put("later")), Outcome::Refused, "{plan:?}: {calls:?}");
        }
        tube.check_after_kill(&disk);
        disk.repair();
        clock.advance(RETRY_TIME);
        tube.check_recovered(&disk, store);
        failed
    };
    for fault in Fault::ALL {
        for lasting in [false, true] {
            let plan = |nth| Plan { kind: Kind::Write, nth, fault, lasting };
            let tries = (1..100_000).take_while(|nth| fails(plan(*nth))).count();
            assert!(tries > 10, "{tries} tries");
        }
    }
}

/// The flush fails after the calls have returned.
#[test]
fn failed_later_flush_loses_no_written_change() {
    let fails = |plan: Plan| {
        let (disk, clock) = (Disk::new(None), ManualClock::new());
        let store = open(&disk, &clock);
        let mut tube = WrittenTube::create(&store, FLUSH_WITHIN);
        tube.put(20);
        disk.fail(plan);
        let mut calls: Vec<Outcome> = Vec::new();
        for _ in 0..4 {
            calls.extend([tube.put(20), tube.put(3000), tube.ack()]);
            tube.check_after_kill(&disk);
            clock.advance(FLUSH_WITHIN);
        }
        let failed = disk.has_failed();
        if failed && plan.lasting {
            assert_eq!(outcome(tube.tube.put("later")), Outcome::Refused, "{plan:?}: {calls:?}");
            let flushed = store.flush();
            assert!(matches!(flushed, Err(Error::Unavailable { .. })), "{plan:?}: {flushed:?}");
        }
        tube.check_after_kill(&disk);
        disk.repair();
        clock.advance(RETRY_TIME);
        tube.check_recovered(&disk, store);
        failed
    };
    for lasting in [false, true] {
        let plan = |nth| Plan { kind: Kind::Sync, nth, fault: Fault::Device, lasting };
        let tries = (1..100_000).take_while(|nth| fails(plan(*nth))).count();
        assert!(tries > 3, "{tries} tries");
    }
}

/// Makes calls that fill the journal twice, and waits for the disk when the store does. Returns how
/// often a call was refused.
fn fill_journal(tube: &mut WrittenTube, mut wait: impl FnMut(&WrittenTube)) -> u32 {
    let mut refused = 0;
    for number in 0..130 {
        while tube.put(18_000) == Outcome::Refused {
            refused += 1;
            wait(tube);
        }
        while number >= 4 && tube.ack() == Outcome::Refused {
            refused += 1;
            wait(tube);
        }
    }
    refused
}

/// On the clock of a test, the checkpoint runs on the thread of a caller.
#[test]
fn failed_checkpoint_loses_no_written_change() {
    let fails = |plan: Plan| {
        let (disk, clock) = (Disk::new(None), ManualClock::new());
        let store = open(&disk, &clock);
        let mut tube = WrittenTube::create(&store, NEVER);
        disk.fail_beside_journal(plan);
        let mut waits = 0;
        fill_journal(&mut tube, |tube| {
            waits += 1;
            if waits == 3 {
                tube.check_after_kill(&disk);
                disk.repair();
            }
            clock.advance(RETRY_TIME);
        });
        let failed = disk.has_failed();
        if failed && plan.lasting && plan.kind != Kind::Read && waits == 0 {
            assert_eq!(outcome(tube.tube.put("later")), Outcome::Refused, "{plan:?}");
        }
        tube.check_after_kill(&disk);
        disk.repair();
        clock.advance(RETRY_TIME);
        store.flush().unwrap();
        tube.check_recovered(&disk, store);
        failed
    };
    let mut runs = 0;
    for (kind, step) in [(Kind::Write, 9), (Kind::Sync, 1), (Kind::SetLen, 1), (Kind::Read, 9)] {
        for (fault, lasting) in [(Fault::Device, true), (Fault::Short, false), (Fault::Full, true)]
        {
            let plan = |nth| Plan { kind, nth, fault, lasting };
            let nths = (1..100_000).step_by(step).take(5);
            runs += nths.take_while(|nth| fails(plan(*nth))).count();
        }
    }
    println!("{runs} runs");
    assert!(runs > 15, "{runs} runs");
}

/// The checkpoint runs beside the calls.
#[test]
fn failed_checkpoint_beside_calls_loses_no_written_change() {
    let fails = |plan: Plan| {
        let disk = Disk::new(None);
        let store = Store::options().open_on(disk.storage()).unwrap();
        let mut tube = WrittenTube::create(&store, FLUSH_WITHIN);
        disk.fail_beside_journal(plan);
        let refused = fill_journal(&mut tube, |_| std::thread::yield_now());
        let failed = disk.has_failed();
        disk.repair();
        println!("{plan:?}: {refused} refused calls");
        while store.flush().is_err() {
            std::thread::yield_now();
        }
        tube.check_recovered(&disk, store);
        failed
    };
    for (kind, nths) in [(Kind::Write, [1, 7, 20]), (Kind::Sync, [1, 3, 5])] {
        for nth in nths {
            let plan = Plan { kind, nth, fault: Fault::Device, lasting: false };
            assert!(with_timeout(format!("{plan:?}"), move || fails(plan)), "{plan:?}");
        }
    }
}
