//! Every call of a storage fails once, and for ever from then on; the store must tell the truth,
//! wake whoever waits, lose nothing, and go on by itself when the storage does.
//!
//! The method is that of `SQLite`: the N-th call fails, for N = 1, 2, … until a run gets through without
//! a failure (sqlite.org/testing.html, "I/O Error Testing"). A run here is a few hundred calls of
//! the queue. By default every few calls fail; `TUBEWELL_IO_ERRORS=all` fails each.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod books;
mod disk;
#[path = "../common/faults.rs"]
mod faults;
#[path = "../common/faulty_disk.rs"]
mod faulty_disk;
mod scenario;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, mpsc};
use std::time::Duration;

use disk::Disk;
use faults::{Fault, Kind, Plan};
use scenario::{End, run};
use tubewell::{FIFO, ManualClock, Put, State, Store, TubeOptions, UTUBETTL};

/// No run takes nearly as long as that.
const HUNG: Duration = Duration::from_secs(120);

const KINDS: [Kind; 6] =
    [Kind::Any, Kind::Read, Kind::Write, Kind::Sync, Kind::SetLen, Kind::Close];

/// Fails the calls of each kind one after the other; answers how many runs there were.
fn sweep(fault: Fault, lasting: bool, end: End, step: u64) -> u64 {
    let step =
        if std::env::var("TUBEWELL_IO_ERRORS").is_ok_and(|all| all == "all") { 1 } else { step };
    let mut runs = 0;
    for kind in KINDS {
        // Of some kinds there are few calls.
        let step = match kind {
            Kind::SetLen | Kind::Close => 1,
            Kind::Sync => step.div_ceil(12),
            _ => step,
        };
        let mut nth = 1 + runs % step;
        loop {
            let plan = Plan { kind, nth, fault, lasting };
            let tripped = guarded(plan, end);
            runs += 1;
            if !tripped {
                break;
            }
            nth += step;
        }
    }
    println!("{fault:?}, {}, {end:?}: {runs} runs", if lasting { "lasting" } else { "once" });
    runs
}

/// One run, which must end; true if anything failed in it.
fn guarded(plan: Plan, end: End) -> bool {
    let disk = Disk::with(Some(plan));
    let (tell, ended) = mpsc::channel();
    let watched = disk.clone();
    let run = std::thread::spawn(move || {
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&watched, end)));
        let _ = tell.send(());
        outcome
    });
    if ended.recv_timeout(HUNG).is_err() {
        eprintln!("{plan:?} until {end:?}: the run hangs");
        std::process::abort();
    }
    let kept = run.join().unwrap().is_ok();
    assert!(kept, "{plan:?} until {end:?} breaks a promise, see above");
    disk.tripped()
}

#[test]
fn without_a_failure_all_goes_well() {
    let disk = Disk::with(None);
    run(&disk, End::InPlace);
    assert!(!disk.tripped());
}

#[test]
fn a_call_that_fails_once_is_overcome_in_place() {
    for fault in Fault::ALL {
        assert!(sweep(fault, false, End::InPlace, 61) > 25);
    }
}

#[test]
fn a_storage_that_fails_for_a_while_is_taken_up_again_in_place() {
    for fault in Fault::ALL {
        assert!(sweep(fault, true, End::InPlace, 131) > 20);
    }
}

#[test]
fn a_store_that_is_closed_while_its_storage_fails_has_lost_nothing() {
    for lasting in [false, true] {
        assert!(sweep(Fault::Device, lasting, End::Closed, 113) > 20);
    }
}

#[test]
fn an_open_that_fails_while_it_repairs_has_lost_nothing() {
    let disk = Disk::with(None);
    let store = Store::options().open_on(disk.plug()).unwrap();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    let put = |n: u32| tube.put(format!("{n} {}", "x".repeat(2000))).unwrap();
    let mut kept: Vec<u64> = (0..40).map(put).map(|receipt| receipt.id).collect();
    for id in kept.split_off(30) {
        tube.delete(id).unwrap();
    }
    for kind in [Kind::Any, Kind::Write, Kind::Sync] {
        for (fault, lasting) in [(Fault::Device, true), (Fault::Short, false), (Fault::Full, true)]
        {
            let open = |nth| open_killed(&disk, Plan { kind, nth, fault, lasting }, &kept);
            let tries = (1..100_000).step_by(if kind == Kind::Any { 5 } else { 1 });
            assert!(tries.take_while(|nth| open(*nth)).count() > 0);
        }
    }
}

/// Opens what a kill leaves of a disk, while it fails, and then again; true if anything failed.
fn open_killed(disk: &Arc<Disk>, plan: Plan, kept: &[u64]) -> bool {
    let killed = disk.after_power_cut();
    killed.fail(plan);
    if let Ok(store) = Store::options().open_on(killed.plug()) {
        let _ = store.close();
    }
    let tripped = killed.tripped();
    killed.mend();
    let store = Store::options().open_on(killed.plug()).unwrap();
    assert_eq!(store.verify().unwrap(), [""; 0], "{plan:?}");
    let page = store.tube("work").unwrap().list(State::Ready, None, 100).unwrap();
    assert!(page.tasks.iter().map(|task| task.id).eq(kept.iter().copied()), "{plan:?}");
    tripped
}

/// A flush had failed, and the pages that it did not write counted as written. The store that was
/// opened next built upon what memory had of them; a power cut later half of it was missing.
#[test]
fn what_a_failed_flush_left_in_memory_is_not_built_upon() {
    let plan = |nth| Plan { kind: Kind::Sync, nth, fault: Fault::Device, lasting: true };
    let failed = (1..100_000).take_while(|nth| guarded(plan(*nth), End::Closed));
    assert!(failed.count() > 20);
}

/// A due whose task could not be read in that moment must be come back to.
#[test]
fn a_delay_that_ends_while_its_task_cannot_be_read_ends_when_it_can() {
    let disk = Disk::with(None);
    let store = Store::options().clock(ManualClock::new()).open_on(disk.plug()).unwrap();
    let tube = store.create_tube("work", UTUBETTL, TubeOptions::new()).unwrap();
    let minute = Duration::from_secs(60);
    for n in 0..300 {
        let put = Put::new("x".repeat(500)).sub_queue(format!("{n}"));
        tube.put(if n == 150 { put.delay(minute) } else { put.delay(minute * 60) }).unwrap();
    }
    store.close().unwrap();
    let ends = |nth: u64| {
        let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
        let options = Store::options().clock(&clock).cache_size(0);
        let store = options.open_on(disk.plug()).unwrap();
        disk.fail(Plan { kind: Kind::Read, nth, fault: Fault::Device, lasting: false });
        clock.advance(minute + Duration::from_secs(30));
        let tripped = disk.tripped();
        disk.mend();
        let taken = store.tube("work").unwrap().try_take().unwrap();
        assert_eq!(taken.map(|claim| claim.id()), Some(150), "read {nth} failed");
        tripped
    };
    assert!((1..100_000).take_while(|nth| ends(*nth)).count() > 3);
}

/// Those that it had taken already were nobody's, and taken until their session ended.
#[test]
fn a_take_of_many_that_fails_half_way_gives_all_back() {
    const TASKS: usize = 100;
    let fails = |driver: &str, nth: u64| {
        let (disk, clock) = (Disk::with(None), ManualClock::new());
        let open = || Store::options().clock(&clock).cache_size(0).open_on(disk.plug()).unwrap();
        let store = open();
        let tube = store.create_tube("work", driver, TubeOptions::new()).unwrap();
        let in_its_own = |put: Put, n| if driver == FIFO { put } else { put.sub_queue(n) };
        let put = |n: usize| in_its_own(Put::new("x".repeat(500)), n.to_string());
        tube.put_many((0..TASKS).map(put)).unwrap();
        store.close().unwrap();
        let store = open();
        let tube = store.tube("work").unwrap();
        disk.fail(Plan { kind: Kind::Read, nth, fault: Fault::Device, lasting: false });
        let taken = tube.take_many(TASKS, Duration::ZERO).map(|claims| claims.len());
        let tripped = disk.tripped();
        disk.mend();
        match taken {
            Ok(taken) => assert_eq!(taken, TASKS),
            Err(error) => assert!(tripped, "{error}"),
        }
        clock.advance(Duration::from_secs(30));
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!((tasks.taken, tasks.ready), (0, TASKS as u64), "{driver}, read {nth} failed");
        tripped
    };
    for driver in [FIFO, UTUBETTL] {
        let tries = (1..100_000).step_by(7).take_while(|nth| fails(driver, *nth)).count();
        println!("{driver}: {tries} tries");
        assert!(tries > 5);
    }
}

/// A read that failed while the pages were walked was told as damage of the file.
#[test]
fn what_a_verify_cannot_read_is_an_error_and_no_damage() {
    let fails = |nth: u64, fault: Fault| {
        let (disk, clock) = (Disk::with(None), ManualClock::new());
        let store = Store::options().clock(&clock).open_on(disk.plug()).unwrap();
        store.create_tube("work", FIFO, TubeOptions::new()).unwrap().put("x").unwrap();
        // The next one finds no commit to make first, after which it would look again.
        assert_eq!(store.verify().unwrap(), [""; 0]);
        disk.fail(Plan { kind: Kind::Read, nth, fault, lasting: false });
        let verified = store.verify();
        let tripped = disk.tripped();
        disk.mend();
        match verified {
            Ok(findings) => assert_eq!(findings, [""; 0], "read {nth} failed"),
            Err(error) => assert!(tripped, "{error}"),
        }
        clock.advance(Duration::from_secs(30));
        assert_eq!(store.verify().unwrap(), [""; 0], "after read {nth} failed");
        tripped
    };
    for fault in Fault::ALL {
        let tries = (1..100_000).take_while(|nth| fails(*nth, fault)).count();
        println!("{fault:?}: {tries} tries");
        assert!(tries > 5);
    }
}

/// A file that was drained gives its room back in a pause, and the disk fails in the middle of it.
#[test]
fn a_file_that_cannot_give_its_room_back_has_lost_nothing_and_goes_on() {
    let disk = Disk::with(None);
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_on(disk.plug()).unwrap();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    let puts = tube.put_many((0..60).map(|n| vec![n; 100_000])).unwrap();
    let ids: Vec<u64> = puts.into_iter().map(|receipt| receipt.id).collect();
    for id in &ids[..57] {
        tube.delete(*id).unwrap();
    }
    let mut runs = 0;
    for (kind, step) in [(Kind::Read, 7), (Kind::Write, 5), (Kind::Sync, 1), (Kind::SetLen, 1)] {
        for fault in Fault::ALL {
            for lasting in [false, true] {
                let fails = |nth| give_back(&disk, Plan { kind, nth, fault, lasting }, &ids[57..]);
                runs += (1..100_000).step_by(step).take_while(|nth| fails(*nth)).count();
            }
        }
    }
    println!("{runs} runs");
    assert!(runs > 60);
}

/// A pause on what a kill leaves of a disk, while it fails; true if anything failed.
fn give_back(disk: &Arc<Disk>, plan: Plan, kept: &[u64]) -> bool {
    let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
    let store = Store::options().clock(&clock).open_on(disk.plug()).unwrap();
    let before = disk.len();
    let tube = store.tube("work").unwrap();
    let held = tube.try_take().unwrap().unwrap();
    let last = tube.put("last").unwrap().id;
    disk.fail(plan);
    clock.advance(Duration::from_secs(6));
    let tripped = disk.tripped();
    disk.mend();
    let left = |store: &Store| {
        assert_eq!(store.verify().unwrap(), [""; 0], "{plan:?}");
        let page = store.tube("work").unwrap().list(State::Ready, None, 100).unwrap();
        page.tasks.iter().map(|task| task.id).collect::<Vec<u64>>()
    };
    let killed = Store::options().open_on(disk.after_power_cut().plug()).unwrap();
    assert_eq!(left(&killed), [kept, &[last]].concat(), "{plan:?}");
    clock.advance(Duration::from_secs(30));
    held.ack().unwrap();
    assert_eq!(left(&store), [&kept[1..], &[last]].concat(), "{plan:?}");
    clock.advance(Duration::from_secs(6));
    assert!(disk.len() < before / 4 + (1 << 20), "{plan:?}: {} bytes of {before}", disk.len());
    tripped
}
