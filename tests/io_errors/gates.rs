//! Calls that pause or alter a tube, on a disk that fails: the tube is as before or as after the
//! call, in memory and in the file.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{FIFOTTL, ManualClock, Put, Rate, Result, Store, TubeInfo, TubeOptions};

use crate::disk::Disk;
use crate::failing_call::{FailingCall, fail_with_sampled_faults};
use crate::faults::{Fault, Kind, Plan};
use crate::options::only;
use crate::size::amount;
use crate::support::{Outcome, RETRY_TIME, open};

/// Longer than a run takes.
const HOUR: Duration = Duration::from_secs(3600);

type Call = fn(&Store) -> Result<()>;

/// The calls on a tube that is open, and on one that is paused.
const CALLS: [(&str, &str, Call); 6] = [
    ("pause", "open", |store| store.find_tube("open")?.admin().pause()),
    ("pause for a time", "open", |store| store.find_tube("open")?.admin().pause_for(HOUR)),
    ("unpause", "paused", |store| store.find_tube("paused")?.admin().unpause()),
    ("alter", "open", |store| store.find_tube("open")?.admin().alter(only(altered()))),
    ("create or alter", "paused", |store| {
        store.open_tube("paused", altered().driver(FIFOTTL)).map(drop)
    }),
    ("deferred alter", "open", |store| {
        store.find_tube("open")?.to_async().admin().alter(only(altered())).wait()
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
        let tube =
            store.create_tube(name, TubeOptions::new().max_taken(5).driver(FIFOTTL)).unwrap();
        tube.put_many((0..4).map(|_| Put::new(vec![b'x'; 700]))).unwrap();
    }
    store.find_tube("paused").unwrap().admin().pause_for(HOUR).unwrap();
    store.close().unwrap();
    disk
}

/// The description of a tube, without what goes on with the clock.
fn info(store: &Store, name: &str) -> TubeInfo {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let mut info = store.find_tube(name).unwrap().info().unwrap();
    info.resumes_in = info.resumes_in.map(|_| HOUR);
    info
}

#[test]
fn failed_change_of_a_gate_is_made_wholly_or_not_at_all() {
    let (disk, mut runs) = (disk(), 0);
    for (what, name, call) in CALLS {
        let info = |store: &Store| info(store, name);
        let call = FailingCall::new(&disk, &call, &info, true);
        let fails = |plan| {
            let mut resumed = call.resume(plan);
            resumed.repeat_if_refused();
            // The gates are those of the description.
            let tube = resumed.store.find_tube(name).unwrap();
            assert_eq!(tube.try_take().unwrap().is_none(), call.after().paused);
            drop(tube);
            resumed.close()
        };
        fail_with_sampled_faults(what, 1, &mut runs, fails);
    }
    assert!(runs > amount(3, 12, 12), "{runs} runs");
}

/// The disk fails while takes wait at a shut gate: they end with the failure, and the gate holds
/// afterwards.
#[test]
fn take_that_waits_at_a_gate_ends_with_a_failure_of_the_disk() {
    let disk = disk().after_power_cut();
    let clock = ManualClock::new();
    let store = open(&disk, &clock);
    let tube = store.find_tube("paused").unwrap();
    let mut take = std::pin::pin!(tube.to_async().take_timeout(Duration::MAX));
    let mut poll = || {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        take.as_mut().poll(&mut context)
    };
    assert!(poll().is_pending());
    disk.fail(Plan { kind: Kind::Write, nth: 1, fault: Fault::Device, lasting: true });
    Outcome::of(&store.find_tube("open").unwrap().put("x"));
    let std::task::Poll::Ready(Err(error)) = poll() else { panic!("it still waits") };
    crate::support::assert_is_storage_error(&error);
    disk.repair();
    clock.advance(RETRY_TIME);
    store.flush().unwrap();
    assert!(tube.try_take().unwrap().is_none());
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    clock.advance(HOUR);
    assert!(tube.try_take().unwrap().is_some());
}
