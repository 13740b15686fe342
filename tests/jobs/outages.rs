//! A store that is closed, and a storage that fails.

use std::sync::Arc;
use std::time::Duration;

use tubewell::driver::FIFO;
use tubewell::{Error, Store, TaskState, TubeOptions};

use super::blocking_disk::Disk;
use super::executor::with_timeout;
use super::files::create;
use super::support::*;
use crate::stores::{self, ManualClock};

/// T007
#[test]
fn calls_on_closed_store_return_closed() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        tube.put("x").unwrap();
        assert_eq!(tube.query().task(0).unwrap().info.state, TaskState::Ready);
        stores::close(&store);
        assert_eq!(tube.query().task(0).err(), Some(Error::Closed));
        assert_eq!(tube.query().list(TaskState::Ready, None, 10).err(), Some(Error::Closed));
        assert_eq!(tube.statistics().err(), Some(Error::Closed));
        assert_eq!(tube.try_take().err(), Some(Error::Closed));
        assert_eq!(tube.put("y").err(), Some(Error::Closed));
        assert_eq!(tube.delete(0).err(), Some(Error::Closed));
        drop((store, tube));
        let store = file.open();
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tasks(&tube), counts([("ready", 1), ("total", 1)]));
        assert_sound(&store);
    }
}

/// T022
/// Difference: a put whose flush has failed is applied once the storage works, and its error says
/// that. Puts during the failure are not applied.
#[test]
fn put_during_storage_failure_returns_error_and_adds_no_task() {
    with_timeout(|| {
        let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
        let store = stores::serve(disk.open(Store::options().clock(&clock)));
        let tube = store.create_tube("case", TubeOptions::default().driver(FIFO)).unwrap();
        disk.fail_flushes(true);
        let first = tube.put("first").err();
        assert!(matches!(first, Some(Error::OutcomeUnknown { .. })), "{first:?}");
        for _ in 0..3 {
            let refused = tube.put("refused").err();
            assert!(matches!(refused, Some(Error::Unavailable { .. })), "{refused:?}");
        }
        let during = store.statistics().unwrap()["case"];
        assert_eq!((during.tasks.total, during.calls.put), (0, 0));

        disk.fail_flushes(false);
        clock.advance(secs(60));
        assert_eq!(tasks(&tube), counts([("ready", 1), ("total", 1)]));
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!(claim.body(), b"first");
        claim.ack().unwrap();
        assert_eq!(tube.try_take().unwrap().map(|claim| claim.id()), None);
        assert_sound(&store);
    });
}

/// A claim is in memory: whether it stands is known, and its handle can give the task back.
#[test]
fn claims_are_seen_and_dropped_during_storage_failure() {
    with_timeout(|| {
        let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
        let store = stores::serve(disk.open(Store::options().clock(&clock)));
        let tube = store.create_tube("case", TubeOptions::default().driver(FIFO)).unwrap();
        tube.put_many(["a", "b"]).unwrap();
        let [kept, dropped] = tube.take_many(2, Duration::MAX).unwrap().try_into().unwrap();
        disk.fail_flushes(true);
        let failed = tube.put("c").err();
        assert!(matches!(failed, Some(Error::OutcomeUnknown { .. })), "{failed:?}");
        assert!(kept.is_current().unwrap() && kept.owner().unwrap().is_some());
        drop(dropped);
        assert_eq!(store.statistics().unwrap()["case"].tasks.taken, 1);

        disk.fail_flushes(false);
        clock.advance(secs(60));
        kept.ack().unwrap();
        assert_eq!(tasks(&tube), counts([("done", 1), ("ready", 2), ("total", 2)]));
        assert_sound(&store);
    });
}
