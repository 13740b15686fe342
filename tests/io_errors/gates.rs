//! Calls that pause or alter a tube, on a disk that fails: the tube is as before or as after the
//! call, in memory and in the file.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{FIFOTTL, ManualClock, Put, Rate, Result, Store, TubeInfo, TubeOptions, WhenFull};

use crate::disk::Disk;
use crate::faults::{Fault, Kind, Plan};
use crate::sampled;
use crate::support::{Outcome, RETRY_TIME, open};

const FAULTS: [(Fault, bool); 4] =
    [(Fault::Device, false), (Fault::Device, true), (Fault::Short, false), (Fault::Full, true)];

/// Longer than a run takes.
const HOUR: Duration = Duration::from_secs(3600);

type Call = fn(&Store) -> Result<()>;

/// The calls on a tube that is open, and on one that is paused.
const CALLS: [(&str, &str, Call); 6] = [
    ("pause", "open", |store| store.tube("open")?.pause()),
    ("pause for a time", "open", |store| store.tube("open")?.pause_for(HOUR)),
    ("unpause", "paused", |store| store.tube("paused")?.unpause()),
    ("alter", "open", |store| store.tube("open")?.alter(altered())),
    ("create or alter", "paused", |store| {
        store.create_tube("paused", FIFOTTL, altered().or_alter(true)).map(drop)
    }),
    ("deferred alter", "open", |store| {
        store.tube("open")?.deferred(WhenFull::Block).alter(altered())?.wait()
    }),
];

fn altered() -> TubeOptions {
    let rate = Rate::per(1000, Duration::from_secs(1));
    TubeOptions::new().max_taken(2).rate(rate).max_attempts(3).ttr(HOUR)
}

/// The disk of a closed store with two tubes, one of which is paused.
fn disk() -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    for name in ["open", "paused"] {
        let tube = store.create_tube(name, FIFOTTL, TubeOptions::new().max_taken(5)).unwrap();
        tube.put_many((0..4).map(|_| Put::new(vec![b'x'; 700]))).unwrap();
    }
    store.tube("paused").unwrap().pause_for(HOUR).unwrap();
    store.close().unwrap();
    disk
}

/// The description of a tube, without what goes on with the clock.
fn info(store: &Store, name: &str) -> TubeInfo {
    assert_eq!(store.verify().unwrap(), [""; 0]);
    let mut info = store.tube(name).unwrap().info().unwrap();
    info.resumes_in = info.resumes_in.map(|_| HOUR);
    info
}

/// Makes the call while calls of the disk fail. Returns whether one has failed.
fn fails(disk: &Arc<Disk>, plan: Plan, (name, call): (&str, Call), all: &[TubeInfo; 2]) -> bool {
    let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
    let store = open(&disk, &clock);
    disk.fail(plan);
    let called = call(&store);
    let is_refused = Outcome::of(&called) == Outcome::Refused;
    let check = |store: &Store, may_be_before: bool, may_be_after: bool| {
        let found = info(store, name);
        let is_allowed = may_be_before && found == all[0] || may_be_after && found == all[1];
        assert!(is_allowed, "{plan:?}: {called:?}, {found:?}");
    };
    for disk in [disk.after_kill(), disk.after_power_cut()] {
        check(&open(&disk, &ManualClock::new()), called.is_err(), !is_refused);
    }
    let failed = disk.has_failed();
    assert!(failed || called.is_ok(), "{plan:?}: {called:?}");
    disk.repair();
    clock.advance(RETRY_TIME);
    store.flush().unwrap();
    check(&store, is_refused, !is_refused);
    if is_refused {
        call(&store).unwrap();
        check(&store, false, true);
    }
    // The gates are those of the description.
    let tube = store.tube(name).unwrap();
    assert_eq!(tube.try_take().unwrap().is_none(), all[1].paused);
    store.close().unwrap();
    for disk in [disk.clone(), disk.after_power_cut()] {
        check(&open(&disk, &ManualClock::new()), false, true);
    }
    failed
}

#[test]
fn failed_change_of_a_gate_is_made_wholly_or_not_at_all() {
    let (disk, mut runs) = (disk(), 0);
    for (what, name, call) in CALLS {
        let store = open(&disk.after_power_cut(), &ManualClock::new());
        let before = info(&store, name);
        call(&store).unwrap();
        let all = [before, info(&store, name)];
        assert_ne!(all[0], all[1]);
        for kind in [Kind::Read, Kind::Write, Kind::Sync] {
            for (fault, lasting) in FAULTS.into_iter().skip(runs % sampled(2)).step_by(sampled(2)) {
                let plan = |nth| Plan { kind, nth, fault, lasting };
                let fails = |nth: &u64| fails(&disk, plan(*nth), (name, call), &all);
                let count = (1..100_000).take_while(fails).count();
                println!("{what}, {kind:?} {fault:?} {lasting}: {count} runs");
                runs += count;
            }
        }
    }
    assert!(runs > 12, "{runs} runs");
}

/// The disk fails while takes wait at a shut gate: they end with the failure, and the gate holds
/// afterwards.
#[test]
fn take_that_waits_at_a_gate_ends_with_a_failure_of_the_disk() {
    let disk = disk().after_power_cut();
    let clock = ManualClock::new();
    let store = open(&disk, &clock);
    let tube = store.tube("paused").unwrap();
    let mut take = std::pin::pin!(tube.take_async(None));
    let mut poll = || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        take.as_mut().poll(&mut context)
    };
    assert!(poll().is_pending());
    disk.fail(Plan { kind: Kind::Write, nth: 1, fault: Fault::Device, lasting: true });
    Outcome::of(&store.tube("open").unwrap().put("x"));
    let std::task::Poll::Ready(Err(error)) = poll() else { panic!("it still waits") };
    crate::support::assert_is_storage_error(&error);
    disk.repair();
    clock.advance(RETRY_TIME);
    store.flush().unwrap();
    assert!(tube.try_take().unwrap().is_none());
    assert_eq!(store.verify().unwrap(), [""; 0]);
    clock.advance(HOUR);
    assert!(tube.try_take().unwrap().is_some());
}
