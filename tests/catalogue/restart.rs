//! Group L: what survives a restart and what does not.

use tubewell::driver::{Driver, FIFO, FIFOTTL, LIMFIFOTTL, Traits, UTUBE, UTUBETTL};
use tubewell::{Error, Filter, Put, Store, TaskState, TubeOptions};

use super::support::*;
use crate::stores;

/// Creates a store file with one tube.
fn create(file: &StoreFile, driver: &str) -> (Store, tubewell::Tube) {
    println!("driver {driver}");
    let store = file.open();
    let tube = store.create_tube("case", TubeOptions::default().driver(driver)).unwrap();
    (store, tube)
}

/// A task to put, in a sub-queue of its own if the driver has sub-queues.
fn draft(driver: &str, data: &str) -> Put {
    let put = Put::new(data.into());
    if SUB_QUEUED.contains(&driver) { put.sub_queue(data) } else { put }
}

/// L01
#[test]
fn restart_makes_taken_tasks_ready_and_keeps_buried_tasks() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        for data in ["a", "b", "c", "d"] {
            tube.put(draft(driver, data)).unwrap();
        }
        assert_eq!((take(&tube), take(&tube)), (Some(0), Some(1)));
        tube.admin().bury(2, None).unwrap();
        drop(tube);

        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tube.driver(), *driver);
        let expected = [TaskState::Ready, TaskState::Ready, TaskState::Buried, TaskState::Ready];
        for (id, (data, state)) in (0..).zip(["a", "b", "c", "d"].into_iter().zip(expected)) {
            let task = tube.query().task(id).unwrap();
            assert_eq!((task.info.state, &*task.body), (state, data.as_bytes()));
        }
        assert_eq!(tasks(&tube), counts([("ready", 3), ("buried", 1), ("total", 4)]));
        assert_not_taken(tube.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!((take(&tube), take(&tube), take(&tube)), (Some(0), Some(1), Some(3)));
        assert_sound(&store);
    }
}

/// L02
/// Difference: ids are not reused even if all earlier tasks are done.
#[test]
fn restart_does_not_reset_ids() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        tube.put(draft(driver, "a")).unwrap();
        tube.put(draft(driver, "b")).unwrap();
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        let third = tube.put(draft(driver, "c")).unwrap().id;
        assert!(third > 1, "id {third} was reused");
        for id in [0, 1, third] {
            assert_eq!(take(&tube), Some(id));
            tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
        }
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        let fourth = tube.put(draft(driver, "d")).unwrap().id;
        assert!(fourth > third, "id {fourth} was reused");
        assert_sound(&store);
    }
}

/// L03
#[test]
fn ttl_elapses_while_store_is_closed() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        tube.put(draft(driver, "taken").ttl(ms(500))).unwrap();
        tube.put(draft(driver, "ready").ttl(ms(500))).unwrap();
        tube.put(draft(driver, "longer").ttl(ms(1_500))).unwrap();
        assert_eq!(take(&tube), Some(0));
        drop(tube);

        let store = file.reopen_after(store, secs(1));
        let tube = store.find_tube("case").unwrap();
        assert_eq!(take(&tube), Some(2), "expired tasks must not be taken");
        assert_eq!(tube.query().task(2).unwrap().info.ttl_left, Some(ms(500)));
        file.tick();
        assert_eq!(state(&tube, 0), None);
        assert_eq!(state(&tube, 1), None);
        assert_eq!(tasks(&tube), counts([("taken", 1), ("total", 1), ("done", 2)]));
        assert_eq!(calls(&tube), counts([("take", 1), ("ttl", 2), ("delete", 2)]));
        assert_sound(&store);
    }
}

/// L04
#[test]
fn delay_elapses_while_store_is_closed() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        tube.put(draft(driver, "soon").delay(ms(500))).unwrap();
        tube.put(draft(driver, "later").delay(ms(1_500))).unwrap();
        drop(tube);

        let store = file.reopen_after(store, secs(1));
        let tube = store.find_tube("case").unwrap();
        file.tick();
        assert_eq!(state(&tube, 0), Some(TaskState::Ready));
        assert_eq!(state(&tube, 1), Some(TaskState::Delayed));
        assert_eq!(take(&tube), Some(0));
        let waiting = WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT));
        file.clock.advance(ms(499));
        assert_eq!(waiting.id(), Some(1));
        assert_sound(&store);
    }
}

/// L04
/// Difference: a take or `catch_up` processes such deadlines if the sweeper has not done so yet.
#[test]
fn task_with_elapsed_delay_is_taken_right_after_open() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let other = store.create_tube("other", TubeOptions::default().driver(driver)).unwrap();
        // More tasks are due before it than one slice of the sweeper processes.
        for n in 0..200 {
            other.put(draft(driver, &format!("{n}")).delay(ms(400))).unwrap();
        }
        let soon = tube.put(draft(driver, "soon").delay(ms(500))).unwrap().id;
        tube.put(draft(driver, "later").delay(ms(1_500))).unwrap();
        drop((tube, other));

        let store = file.reopen_after(store, secs(1));
        let tube = store.find_tube("case").unwrap();
        assert_eq!(take(&tube), Some(soon), "{driver}");
        assert_eq!(take(&tube), None);
        for _ in 0..200 {
            tube.put(draft(driver, "due").delay(ms(400))).unwrap();
        }
        drop(tube);

        let store = file.reopen_after(store, secs(1));
        store.admin().catch_up().unwrap();
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tasks(&tube), counts([("ready", 202), ("total", 202)]));
        assert_sound(&store);
    }
}

/// L04
/// Difference: a take with a zero timeout processes a bounded number of earlier deadlines only.
#[test]
fn take_with_zero_timeout_processes_limited_dues_after_open() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFOTTL);
    let backlog = store.create_tube("backlog", TubeOptions::default().driver(FIFOTTL)).unwrap();
    backlog.put_many((0..5000).map(|_| draft(FIFOTTL, "due").delay(ms(400)))).unwrap();
    let soon = tube.put(draft(FIFOTTL, "soon").delay(ms(500))).unwrap().id;
    drop((tube, backlog));

    let store = file.reopen_after(store, secs(1));
    let (tube, backlog) = (store.find_tube("case").unwrap(), store.find_tube("backlog").unwrap());
    assert_eq!(take(&tube), None);
    assert!(backlog.statistics().unwrap().tasks.delayed > 3000);
    store.admin().catch_up().unwrap();
    assert_eq!(take(&tube), Some(soon));
    assert_eq!(backlog.statistics().unwrap().tasks.ready, 5000);
    assert_sound(&store);
}

/// L05
#[test]
fn restart_ends_claims() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        tube.put(draft(driver, "x").ttr(ms(200))).unwrap();
        assert_eq!(take(&tube), Some(0));
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(state(&tube, 0), Some(TaskState::Ready));
        assert_eq!(take(&tube), Some(0));
        assert_eq!(tube.query().task(0).unwrap().info.ttr, Some(ms(200)));
        file.clock.advance(ms(200));
        assert_eq!(state(&tube, 0), Some(TaskState::Ready));
        assert_sound(&store);
    }
}

/// L06
#[test]
fn restart_frees_sub_queues_and_keeps_order() {
    for driver in [UTUBE, UTUBETTL] {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        for sub_queue in ["x", "x", "y"] {
            tube.put(Put::new("task").sub_queue(sub_queue)).unwrap();
        }
        assert_eq!(take(&tube), Some(0));
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!((take(&tube), take(&tube), take(&tube)), (Some(0), Some(2), None));
        tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(take(&tube), Some(1));
        assert_eq!(tube.query().task(1).unwrap().info.sub_queue.as_deref(), Some("x"));
        assert_sound(&store);
    }
}

/// L07, H03
#[test]
fn restart_ends_sessions() {
    let file = StoreFile::new();
    let options = || Store::options().clock(&file.clock).session_grace(secs(60));
    let store = options().open(file.path()).unwrap();
    let tube = store.create_tube("case", TubeOptions::default().driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    let id = {
        let session = store.session("").unwrap();
        assert_eq!(take(&session.tube(&tube).unwrap()), Some(0));
        session.id()
    };
    assert_eq!(state(&tube, 0), Some(TaskState::Taken));
    stores::close(&store);
    drop((tube, store));
    let store = options().open(file.path()).unwrap();
    assert_eq!(store.resume_session(id).err(), Some(Error::SessionUnknown { id }));
    assert_eq!(take(&store.find_tube("case").unwrap()), Some(0));
    assert_sound(&store);
}

/// L08
/// Difference: a tube whose driver is not registered is listed, and rejects takes until the driver
/// is registered.
#[test]
fn tube_is_unusable_until_driver_is_registered() {
    let file = StoreFile::new();
    let store = file.open();
    stores::owner(&store).admin().register_driver(PlainDriver).unwrap();
    let tube = store.create_tube("case", TubeOptions::default().driver("plain")).unwrap();
    tube.put_many(["a", "b"]).unwrap();
    assert_eq!(take(&tube), Some(0));
    drop(tube);

    let store = file.reopen(store);
    assert_eq!(store.tubes().unwrap().len(), 1);
    let refused = store.find_tube("case").and_then(|tube| tube.try_take()).err();
    assert!(
        matches!(&refused, Some(Error::DriverUnknown { name, .. }) if name == "plain"),
        "{refused:?}"
    );
    stores::owner(&store).admin().register_driver(PlainDriver).unwrap();
    let tube = store.find_tube("case").unwrap();
    assert_eq!((take(&tube), take(&tube)), (Some(0), Some(1)));
    assert_sound(&store);
}

struct PlainDriver;

impl Driver for PlainDriver {
    fn name(&self) -> &'static str {
        "plain"
    }

    fn traits(&self) -> Traits {
        Traits { timed: false, sub_queued: false, bounded: false }
    }
}

/// A driver named "kind" with these traits.
struct DriverWithTraits(Traits);

impl Driver for DriverWithTraits {
    fn name(&self) -> &'static str {
        "kind"
    }

    fn traits(&self) -> Traits {
        self.0
    }
}

/// L08
/// Difference: peek, kick and delete work meanwhile, and deadlines elapse. A driver of the same
/// name with other traits is rejected.
#[test]
fn tube_without_driver_keeps_tasks_and_deadlines() {
    let file = StoreFile::new();
    let store = file.open();
    let timed = || DriverWithTraits(Traits { timed: true, ..Traits::default() });
    stores::owner(&store).admin().register_driver(timed()).unwrap();
    let tube = store.create_tube("case", TubeOptions::default().driver("kind")).unwrap();
    tube.put(Put::new("short").ttl(secs(5))).unwrap();
    tube.put(Put::new("late").delay(secs(5))).unwrap();
    for data in ["buried", "deleted", "kept"] {
        tube.put(data).unwrap();
    }
    tube.admin().bury(2, None).unwrap();
    drop(tube);

    let store = file.reopen(store);
    let usable = || store.tubes().unwrap().iter().map(|tube| tube.usable).collect::<Vec<_>>();
    assert_eq!(usable(), [false]);
    let tube = store.find_tube("case").unwrap();
    let assert_driver_unknown = |answer: Option<Error>| {
        let named = matches!(&answer, Some(Error::DriverUnknown { name, .. }) if name == "kind");
        assert!(named, "{answer:?}");
    };
    assert_driver_unknown(tube.put("x").err());
    assert_driver_unknown(tube.put_timeout("x", secs(1)).err());
    assert_driver_unknown(tube.put_many(["x"]).err());
    assert_driver_unknown(tube.take_timeout(secs(1)).err());
    assert_driver_unknown(store.create_tube("other", TubeOptions::default().driver("kind")).err());
    file.clock.advance(secs(5));
    assert_eq!(state(&tube, 0), None, "its ttl has elapsed");
    assert_eq!(state(&tube, 1), Some(TaskState::Ready), "its delay has elapsed");
    assert_eq!(tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
    tube.delete(3).unwrap();
    assert_eq!(tube.query().task(4).unwrap().body, b"kept");
    assert_eq!(tasks(&tube), counts([("ready", 3), ("total", 3), ("done", 2)]));
    assert_sound(&store);

    let other = DriverWithTraits(Traits { sub_queued: true, ..Traits::default() });
    let refused = stores::owner(&store).admin().register_driver(other).err();
    assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
    assert_eq!(usable(), [false]);
    stores::owner(&store).admin().register_driver(timed()).unwrap();
    assert_eq!(usable(), [true]);
    assert_eq!([take(&tube), take(&tube), take(&tube)], [Some(1), Some(2), Some(4)]);
    tube.put(Put::new("new").priority(0)).unwrap();
    assert_sound(&store);
}

/// L08
#[test]
fn driver_can_be_registered_in_store_options() {
    let file = StoreFile::new();
    let open =
        || stores::open_with(file.path(), Store::options().clock(&file.clock).driver(PlainDriver));
    let store = open();
    let tube = store.create_tube("case", TubeOptions::default().driver("plain")).unwrap();
    tube.put("a").unwrap();
    stores::close(&store);
    drop((tube, store));
    let store = open();
    assert_eq!(take(&store.find_tube("case").unwrap()), Some(0));
    assert_sound(&store);
}

/// K16
#[test]
fn restart_empties_temporary_tube() {
    for driver in ALL {
        let file = StoreFile::new();
        let store = file.open();
        let temporary = TubeOptions::default().temporary(true);
        let tube = store.create_tube("temporary", temporary.driver(driver)).unwrap();
        let durable = store.create_tube("durable", TubeOptions::default().driver(driver)).unwrap();
        let lost = tube.put(draft(driver, "lost")).unwrap().id;
        let kept = durable.put(draft(driver, "kept")).unwrap().id;
        assert_ne!(lost, kept);
        assert_eq!(take(&tube), Some(lost));
        tube.claimed(lost).and_then(tubewell::Claim::release).unwrap();
        drop((tube, durable));

        let store = file.reopen(store);
        let tube = store.find_tube("temporary").unwrap();
        assert_eq!(tube.driver(), *driver);
        assert!(
            store.tubes().unwrap().iter().all(|tube| tube.temporary == (tube.name == "temporary"))
        );
        assert_eq!(tasks(&tube), counts([]));
        assert_eq!(take(&tube), None);
        let id = tube.put(draft(driver, "new")).unwrap().id;
        assert_eq!(take(&tube), Some(id));
        assert_eq!(take(&store.find_tube("durable").unwrap()), Some(kept));
        assert_sound(&store);
    }
}

/// L01, E30
#[test]
fn restart_keeps_tube_options() {
    let file = StoreFile::new();
    let store = file.open();
    let options = || TubeOptions::default().ttl(secs(20)).ttr(secs(3)).priority(7).capacity(2);
    store.create_tube("case", options().driver(LIMFIFOTTL)).unwrap();
    let store = file.reopen_after(store, secs(60));
    store.open_tube("case", options().driver(LIMFIFOTTL)).unwrap();
    let tube = store.find_tube("case").unwrap();
    let id = tube.put("a").unwrap().id;
    let info = tube.query().task(id).unwrap().info;
    assert_eq!((info.priority, info.ttl_left, info.ttr), (7, Some(secs(20)), Some(secs(3))));
    tube.put("b").unwrap();
    let full = Error::Full { tube: "case".to_owned(), capacity: 2 };
    assert_eq!(tube.put("c").err(), Some(full));
    assert_sound(&store);
}

/// L01, E15, E21
#[test]
fn restart_keeps_changes_by_touch_and_release() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        tube.put(draft(driver, "touched").priority(3).ttl(secs(10)).ttr(secs(2))).unwrap();
        tube.put(draft(driver, "released").priority(4).ttl(secs(10)).ttr(secs(20))).unwrap();
        assert_eq!((take(&tube), take(&tube)), (Some(0), Some(1)));
        tube.claimed(0).and_then(|claim| claim.touch(secs(3))).unwrap().unwrap();
        tube.claimed(1).and_then(|claim| claim.release_in(secs(5))).unwrap();
        drop(tube);
        let store = file.reopen_after(store, secs(1));
        let tube = store.find_tube("case").unwrap();
        let info = |id| {
            let info = tube.query().task(id).unwrap().info;
            (info.state, info.priority, info.ttl_left, info.ttr)
        };
        assert_eq!(info(0), (TaskState::Ready, 3, Some(secs(12)), Some(secs(5))));
        assert_eq!(info(1), (TaskState::Delayed, 4, Some(secs(14)), Some(secs(20))));
        assert_sound(&store);
    }
}

/// L01, K06
#[test]
fn restart_keeps_tasks_and_tubes_removed() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        for data in ["a", "b", "c"] {
            tube.put(draft(driver, data)).unwrap();
        }
        assert_eq!(take(&tube), Some(0));
        tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        tube.delete(1).unwrap();
        let emptied = store.create_tube("emptied", TubeOptions::default().driver(driver)).unwrap();
        emptied.put_many((0..2000).map(|n| draft(driver, &n.to_string()))).unwrap();
        emptied.admin().truncate().unwrap();
        store
            .create_tube("dropped", TubeOptions::default().driver(driver))
            .unwrap()
            .put("x")
            .unwrap();
        store.drop_tube("dropped").unwrap();
        drop((tube, emptied));

        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!((take(&tube), take(&tube)), (Some(2), None));
        let emptied = store.find_tube("emptied").unwrap();
        assert_eq!(tasks(&emptied), counts([]));
        assert_eq!(take(&emptied), None);
        let not_found = Error::TubeNotFound { name: "dropped".to_owned(), similar: None };
        assert_eq!(store.find_tube("dropped").err(), Some(not_found));
        assert_sound(&store);
    }
}

/// L01
#[test]
fn second_open_returns_in_use() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFOTTL);
    let second = Store::open(file.path()).err();
    assert!(matches!(second, Some(Error::InUse { .. })), "{second:?}");
    tube.put("x").unwrap();
    drop(tube);
    let store = file.reopen(store);
    assert_eq!(take(&store.find_tube("case").unwrap()), Some(0));
    assert_sound(&store);
}

/// L01
#[test]
fn calls_on_closed_store_return_closed() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    tube.put_many(["a", "b"]).unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    stores::close(&store);
    stores::close(&store);
    assert_eq!(tube.put("x").err(), Some(Error::Closed));
    assert_eq!(tube.try_take().err(), Some(Error::Closed));
    assert_eq!(tube.query().task(0).err(), Some(Error::Closed));
    assert_eq!(claim.ack().err(), Some(Error::Closed));
    assert_eq!(store.find_tube("case").err(), Some(Error::Closed));
    drop((tube, store));
    let store = file.open();
    let tube = store.find_tube("case").unwrap();
    assert_eq!((take(&tube), take(&tube)), (Some(0), Some(1)));
    assert_sound(&store);
}
