//! Storage calls fail: one call, or every call from the N-th on. The store must return correct
//! results, wake waiting takers, lose no acknowledged change, and resume when the storage works.
//!
//! The method is that of `SQLite` (sqlite.org/testing.html, "I/O Error Testing"): the N-th call
//! fails, for N = 1, 2, … until a run ends without a failure. A run makes a few hundred calls to
//! the queue. Short runs try a sample of all N, long ones (`TUBEWELL_TESTS=soak`) every N.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod answers;
mod attempts;
mod disk;
mod edits;
mod ends;
#[allow(dead_code, reason = "other test targets use the rest")]
#[path = "../common/executor.rs"]
mod executor;
mod expected;
mod failing_call;
#[path = "../common/faults.rs"]
mod faults;
#[path = "../common/faulty_disk.rs"]
mod faulty_disk;
mod gates;
mod history;
mod keys;
mod limits;
mod many;
mod metrics;
mod metrics_of_claims;
mod movement;
mod new_body;
#[path = "../common/options.rs"]
mod options;
mod page_cache;
mod parents;
mod scenario;
mod schedules;
#[path = "../common/size.rs"]
mod size;
mod steps;
mod support;
mod two_tubes;
mod verbs;
mod worked_jobs;
mod written;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use disk::Disk;
use executor::HANGS_AFTER;
use faults::{Fault, Kind, Plan};
use scenario::{End, run};
use size::amount;
use tubewell::{FIFO, ManualClock, Put, Store, TaskState, TubeOptions, UTUBETTL};

const KINDS: [Kind; 6] =
    [Kind::Any, Kind::Read, Kind::Write, Kind::Sync, Kind::SetLen, Kind::Close];

/// The step from one N to the next: this one, twice as far in a quick run, or 1 to try every N in a long run.
fn sampled(step: usize) -> usize {
    amount(if step > 4 { 2 * step } else { step }, step, 1)
}

/// Runs the scenario once for each call that fails, kind by kind. Returns the number of runs.
fn fail_each_call(fault: Fault, lasting: bool, end: End, step: u64) -> u64 {
    let mut runs = 0;
    for kind in KINDS {
        // A run makes few calls of these kinds.
        let step = match kind {
            Kind::SetLen | Kind::Close => 1,
            Kind::Sync => step.div_ceil(12),
            _ => step,
        };
        let mut nth = 1 + runs % step;
        loop {
            let plan = Plan { kind, nth, fault, lasting };
            let failed = run_with_timeout(plan, end, runs % 4 == 0);
            runs += 1;
            if !failed {
                break;
            }
            nth += step;
        }
    }
    println!("{fault:?}, {}, {end:?}: {runs} runs", if lasting { "lasting" } else { "once" });
    runs
}

/// One run of the scenario. Returns whether a call failed in it.
fn run_with_timeout(plan: Plan, end: End, with_copies: bool) -> bool {
    let disk = Disk::new(Some(plan));
    let run_disk = disk.clone();
    with_timeout(format!("{plan:?} until {end:?}"), move || run(&run_disk, end, with_copies));
    disk.has_failed()
}

/// Calls `run`, which must end in time, in a thread of its own.
fn with_timeout<T: Send + 'static>(what: String, run: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, is_done) = mpsc::channel();
    let thread = std::thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(run));
        let _ = done.send(());
        outcome
    });
    if is_done.recv_timeout(HANGS_AFTER).is_err() {
        eprintln!("{what}: the run hangs");
        std::process::abort();
    }
    thread.join().unwrap().unwrap_or_else(|_| panic!("{what}: the run failed, see the panic above"))
}

#[test]
fn scenario_passes_without_failures() {
    let disk = Disk::new(None);
    run(&disk, End::InPlace, true);
    assert!(!disk.has_failed());
}

#[test]
fn store_recovers_in_place_after_one_failed_call() {
    for fault in Fault::ALL {
        let runs = fail_each_call(fault, false, End::InPlace, amount(311, 79, 1));
        assert!(runs > amount(15, 25, 25), "{runs} runs");
    }
}

#[test]
fn store_recovers_in_place_after_lasting_failure() {
    for fault in Fault::ALL {
        let runs = fail_each_call(fault, true, End::InPlace, amount(617, 157, 1));
        assert!(runs > amount(12, 20, 20), "{runs} runs");
    }
}

#[test]
fn close_during_failure_loses_no_acknowledged_change() {
    for lasting in [false, true] {
        let runs = fail_each_call(Fault::Device, lasting, End::Closed, amount(587, 146, 1));
        assert!(runs > amount(12, 20, 20), "{runs} runs");
    }
}

#[test]
fn failed_repair_at_open_loses_no_task() {
    let disk = Disk::new(None);
    let store = Store::options().open_on(disk.storage()).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let put = |n: u32| tube.put(format!("{n} {}", "x".repeat(2000))).unwrap();
    let mut kept: Vec<u64> = (0..40).map(put).map(|receipt| receipt.id).collect();
    for id in kept.split_off(30) {
        tube.delete(id).unwrap();
    }
    for kind in [Kind::Any, Kind::Write, Kind::Sync] {
        for (fault, lasting) in [(Fault::Device, true), (Fault::Short, false), (Fault::Full, true)]
        {
            let open = |nth| open_after_power_cut(&disk, Plan { kind, nth, fault, lasting }, &kept);
            let tries = (1..100_000).step_by(sampled(if kind == Kind::Any { 5 } else { 1 }));
            assert!(tries.take_while(|nth| open(*nth)).count() > 0);
        }
    }
}

/// Opens the flushed bytes of a disk while calls fail, then again without failures. Returns whether
/// a call failed.
fn open_after_power_cut(disk: &Arc<Disk>, plan: Plan, kept: &[u64]) -> bool {
    let copy = disk.after_power_cut();
    copy.fail(plan);
    if let Ok(store) = Store::options().open_on(copy.storage()) {
        let _ = store.close();
    }
    let failed = copy.has_failed();
    copy.repair();
    let store = Store::options().open_on(copy.storage()).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0], "{plan:?}");
    let page = store.find_tube("work").unwrap().query().list(TaskState::Ready, None, 100).unwrap();
    assert!(page.items.iter().map(|task| task.id).eq(kept.iter().copied()), "{plan:?}");
    failed
}

/// After a failed flush the page cache has pages that never reached the disk. A store that is
/// opened next must not rely on them: a later power cut would lose them.
#[test]
fn reopen_after_failed_flush_ignores_unflushed_pages() {
    let plan = |nth| Plan { kind: Kind::Sync, nth, fault: Fault::Device, lasting: true };
    let failing = |nth: &u64| run_with_timeout(plan(*nth), End::Closed, nth % 8 == 1);
    let runs = (1..100_000).step_by(amount(5, 1, 1)).take_while(failing).count();
    assert!(runs > amount(4, 20, 20), "{runs} runs");
}

/// The sweeper must retry a due whose task it could not read.
#[test]
fn delayed_task_becomes_ready_after_a_read_error() {
    let disk = Disk::new(None);
    let store = Store::options().clock(ManualClock::new()).open_on(disk.storage()).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(UTUBETTL)).unwrap();
    let minute = Duration::from_secs(60);
    for n in 0..300 {
        let put = Put::new("x".repeat(500)).sub_queue(format!("{n}"));
        tube.put(if n == 150 { put.delay(minute) } else { put.delay(minute * 60) }).unwrap();
    }
    store.close().unwrap();
    let fails = |nth: u64| {
        let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
        let options = Store::options().clock(&clock).cache_size(0);
        let store = options.open_on(disk.storage()).unwrap();
        disk.fail(Plan { kind: Kind::Read, nth, fault: Fault::Device, lasting: false });
        clock.advance(minute + Duration::from_secs(30));
        let failed = disk.has_failed();
        disk.repair();
        let taken = store.find_tube("work").unwrap().try_take().unwrap();
        assert_eq!(taken.map(|claim| claim.id()), Some(150), "read {nth} failed");
        failed
    };
    assert!((1..100_000).take_while(|nth| fails(*nth)).count() > 3);
}

/// Tasks taken before the failure must not stay taken without a claim until the session ends.
#[test]
fn failed_take_many_releases_the_tasks_already_taken() {
    const TASKS: usize = 100;
    let fails = |driver: &str, nth: u64| {
        let (disk, clock) = (Disk::new(None), ManualClock::new());
        let open = || Store::options().clock(&clock).cache_size(0).open_on(disk.storage()).unwrap();
        let store = open();
        let tube = store.create_tube("work", TubeOptions::new().driver(driver)).unwrap();
        let with_sub_queue = |put: Put, n| if driver == FIFO { put } else { put.sub_queue(n) };
        let put = |n: usize| with_sub_queue(Put::new("x".repeat(500).into()), n.to_string());
        tube.put_many((0..TASKS).map(put)).unwrap();
        store.close().unwrap();
        let store = open();
        let tube = store.find_tube("work").unwrap();
        disk.fail(Plan { kind: Kind::Read, nth, fault: Fault::Device, lasting: false });
        let taken = tube.take_many(TASKS, Duration::ZERO).map(|claims| claims.len());
        let failed = disk.has_failed();
        disk.repair();
        match taken {
            Ok(taken) => assert_eq!(taken, TASKS),
            Err(error) => assert!(failed, "{error}"),
        }
        clock.advance(Duration::from_secs(30));
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!((tasks.taken, tasks.ready), (0, TASKS as u64), "{driver}, read {nth} failed");
        failed
    };
    for driver in [FIFO, UTUBETTL] {
        let tries = (1..100_000).step_by(7).take_while(|nth| fails(driver, *nth)).count();
        println!("{driver}: {tries} tries");
        assert!(tries > 5);
    }
}

/// A read error during the page walk is an error, not a finding about the file.
#[test]
fn verify_returns_read_errors_as_errors_not_as_findings() {
    let fails = |nth: u64, fault: Fault| {
        let (disk, clock) = (Disk::new(None), ManualClock::new());
        let store = Store::options().clock(&clock).open_on(disk.storage()).unwrap();
        store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap().put("x").unwrap();
        // The next verify has no commit to make first, after which it would check the pages again.
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        disk.fail(Plan { kind: Kind::Read, nth, fault, lasting: false });
        let verified = store.admin().verify();
        let failed = disk.has_failed();
        disk.repair();
        match verified {
            Ok(findings) => assert_eq!(findings, [""; 0], "read {nth} failed"),
            Err(error) => assert!(failed, "{error}"),
        }
        clock.advance(Duration::from_secs(30));
        assert_eq!(store.admin().verify().unwrap(), [""; 0], "after read {nth} failed");
        failed
    };
    for fault in Fault::ALL {
        let tries = (1..100_000).take_while(|nth| fails(*nth, fault)).count();
        println!("{fault:?}: {tries} tries");
        assert!(tries > 5);
    }
}

/// An idle store shrinks a drained file; the disk fails during the shrink.
#[test]
fn failed_shrink_loses_no_task_and_is_retried() {
    let disk = Disk::new(None);
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_on(disk.storage()).unwrap();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let puts = tube.put_many((0..60).map(|n| vec![n; 100_000])).unwrap();
    let ids: Vec<u64> = puts.into_iter().map(|receipt| receipt.id).collect();
    for id in &ids[..57] {
        tube.delete(*id).unwrap();
    }
    let mut runs = 0;
    let steps = amount([29, 19, 5, 1], [7, 5, 1, 1], [1; 4]);
    for (kind, step) in [Kind::Read, Kind::Write, Kind::Sync, Kind::SetLen].into_iter().zip(steps) {
        for fault in Fault::ALL {
            for lasting in [false, true] {
                let fails = |nth| shrink(&disk, Plan { kind, nth, fault, lasting }, &ids[57..]);
                runs += (1..100_000).step_by(step).take_while(|nth| fails(*nth)).count();
            }
        }
    }
    println!("{runs} runs");
    assert!(runs > amount(15, 60, 60), "{runs} runs");
}

/// An idle period on the flushed bytes of a disk while calls fail. Returns whether a call failed.
fn shrink(disk: &Arc<Disk>, plan: Plan, kept: &[u64]) -> bool {
    let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
    let store = Store::options().clock(&clock).open_on(disk.storage()).unwrap();
    let before = disk.len();
    let tube = store.find_tube("work").unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    let last = tube.put("last").unwrap().id;
    disk.fail(plan);
    clock.advance(Duration::from_secs(6));
    let failed = disk.has_failed();
    disk.repair();
    let ready_ids = |store: &Store| {
        assert_eq!(store.admin().verify().unwrap(), [""; 0], "{plan:?}");
        let page =
            store.find_tube("work").unwrap().query().list(TaskState::Ready, None, 100).unwrap();
        page.items.iter().map(|task| task.id).collect::<Vec<u64>>()
    };
    let reopened = Store::options().open_on(disk.after_power_cut().storage()).unwrap();
    assert_eq!(ready_ids(&reopened), [kept, &[last]].concat(), "{plan:?}");
    clock.advance(Duration::from_secs(30));
    claim.ack().unwrap();
    assert_eq!(ready_ids(&store), [&kept[1..], &[last]].concat(), "{plan:?}");
    clock.advance(Duration::from_secs(6));
    assert!(disk.len() < before / 4 + (1 << 20), "{plan:?}: {} bytes of {before}", disk.len());
    failed
}
