//! Restored tasks that are done: their results, their retention.

use std::time::Duration;

use tubewell::expert::{Restore, Salvaged};
use tubewell::{
    Ending, Error, EventKind, FIFO, FIFOTTL, Filter, Keep, LIMFIFOTTL, ManualClock, Outcome, Put,
    Store, StoreOptions, TaskState, Tube, TubeOptions, UTUBE,
};

use crate::{DRIVERS, assert_sound, attempts, failure, ids_in_take_order, named, secs};

/// A tube that keeps what is done.
fn keeping(store: &Store, driver: &str, keep: Keep) -> Tube {
    store.create_tube("case", TubeOptions::new().keep_done(keep).driver(driver)).unwrap()
}

#[allow(clippy::unnecessary_wraps, reason = "given to and compared with options")]
fn result(text: &str) -> Option<Vec<u8>> {
    Some(text.as_bytes().to_vec())
}

fn ids_of(tube: &Tube, state: TaskState) -> Vec<u64> {
    tube.query().list(state, None, 99).unwrap().items.iter().map(|task| task.id).collect()
}

#[test]
fn done_tasks_are_restored_with_their_results_and_failures() {
    for driver in DRIVERS {
        let dir = tempfile::tempdir().unwrap();
        let open = || Store::open(dir.path().join("store")).unwrap();
        let store = open();
        let tube = keeping(&store, driver, Keep::new());
        let events = store.events(Filter::new(), 100).unwrap();
        let large = "large ".repeat(1000);
        let receipts = tube
            .admin()
            .restore_many([
                named("plain", 4).done(None),
                named(&large, 9).done(result("two")).takes(3).forgiven(1),
                named("failed once", 2).takes(2).done(result("")).failure(failure("x", "why", 1)),
                named("ready", 7),
                named("long", 1).done(result(&large)),
            ])
            .unwrap();
        let done = |receipt: &&tubewell::Receipt| receipt.state == TaskState::Done;
        assert_eq!(receipts.iter().filter(done).count(), 4);
        let seen: Vec<_> = std::iter::from_fn(|| events.try_recv())
            .map(|event| (event.id, event.kind, event.state))
            .collect();
        assert_eq!(seen[0], (4, EventKind::Put, TaskState::Done), "{driver}");
        assert_eq!((seen.len(), seen[3].2), (5, TaskState::Ready));
        let statistics = tube.statistics().unwrap();
        let tasks = statistics.tasks;
        assert_eq!((tasks.kept, tasks.total, tasks.ready, tasks.done), (4, 1, 1, 0));
        assert_eq!(statistics.calls.put, 5);
        assert_sound(&store);
        store.close().unwrap();

        let store = open();
        let tube = store.find_tube("case").unwrap();
        let outcomes = [4, 9, 2, 1].map(|id| tube.ending(id).unwrap().unwrap());
        let results = [None, result("two"), result(""), result(&large)];
        assert_eq!(outcomes, results.map(|result| Ending::Done { result }), "{driver}");
        assert_eq!(ids_of(&tube, TaskState::Done), [1, 2, 4, 9]);
        assert_eq!(tube.query().task(9).unwrap().body, large.as_bytes());
        assert_eq!(attempts(&tube.query().task(9).unwrap().info), (3, 2, None));
        let info = tube.query().task(2).unwrap().info;
        assert_eq!((info.failure.unwrap().message.as_str(), info.ttl_left), ("why", None));
        assert_eq!(ids_in_take_order(&tube), [7]);
        tube.admin().forget(9).unwrap();
        tube.admin().truncate().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.kept, 0);
        assert_sound(&store);
    }
}

#[test]
fn restored_done_task_is_kept_for_its_ttl_or_as_long_as_its_tube_says() {
    for driver in [FIFO, FIFOTTL] {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = keeping(&store, driver, Keep::new().age(secs(100)));
        let task = |id, ttl| Restore::new(Put::new("x").ttl(ttl)).id(id).done(result("y"));
        tube.admin()
            .restore_many([
                named("the tube's", 1).done(None),
                task(2, secs(30)),
                task(3, secs(500)),
                task(4, Duration::MAX),
                task(5, Duration::ZERO),
            ])
            .unwrap();
        let left = [1, 2, 3, 4].map(|id| tube.query().task(id).unwrap().info.ttl_left);
        assert_eq!(left, [Some(secs(100)), Some(secs(30)), Some(secs(500)), None], "{driver}");
        clock.advance(Duration::ZERO);
        // In the order of their ends: 70 s ago, and now.
        assert_eq!(ids_of(&tube, TaskState::Done), [2, 1, 3, 4]);
        for (seconds, left) in [(29, 4), (1, 3), (70, 2), (400, 1), (10_000, 1)] {
            clock.advance(secs(seconds));
            assert_eq!(tube.statistics().unwrap().tasks.kept, left);
            assert_sound(&store);
        }
        assert_eq!(tube.ending(3), Ok(Some(Ending::Gone)));
    }
}

#[test]
fn restored_done_tasks_take_no_place_and_are_trimmed_to_the_newest() {
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open_in_memory().unwrap();
    let options = TubeOptions::new().capacity(2).keep_done(Keep::new().count(3).age(secs(100)));
    let tube = store.create_tube("case", options.driver(LIMFIFOTTL)).unwrap();
    let done = |id: u64| {
        let left = Put::new("x").ttl(secs(id + 1));
        Restore::new(left).id(id).done(result("y"))
    };
    let mut tasks: Vec<Restore> = (0..10).rev().map(done).collect();
    tasks.extend([named("a", 20), named("b", 21)]);
    assert_eq!(tube.admin().restore_many(tasks.clone()).unwrap().len(), 12);
    assert_eq!(ids_of(&tube, TaskState::Done), [7, 8, 9]);
    assert_eq!(tube.statistics().unwrap().calls.forget, 7);
    assert_sound(&store);
    // The tube is full, also for a put that waits.
    let full = tube.admin().restore_many([named("c", 30), done(31)]);
    assert!(matches!(full, Err(Error::Full { capacity: 2, .. })), "{full:?}");
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| tube.put_timeout("waits", Duration::MAX).unwrap().id);
        while store.tubes().unwrap()[0].waiting_puts == 0 {
            std::thread::yield_now();
        }
        tube.admin().restore_many([done(40)]).unwrap();
        let full = tube.admin().restore_many([done(41), named("c", 42)]);
        assert!(matches!(full, Err(Error::Full { .. })), "{full:?}");
        tube.delete(20).unwrap();
        assert_eq!(waits.join().unwrap(), 41);
    });
    assert_eq!(ids_of(&tube, TaskState::Done), [8, 9, 40]);
    let tasks = tube.statistics().unwrap().tasks;
    assert_eq!((tasks.kept, tasks.total, tasks.done), (3, 2, 1));
    assert_sound(&store);
}

#[test]
fn tube_that_keeps_nothing_refuses_done_tasks() {
    let store = Store::in_memory().unwrap();
    let none = TubeOptions::new().keep_done(Keep::new().count(0));
    for (name, options) in [("plain", TubeOptions::new()), ("none", none)] {
        let tube = store.create_tube(name, options.driver(FIFO)).unwrap();
        let refused =
            tube.admin().restore_many([named("x", 1), named("y", 2).done(None)]).unwrap_err();
        assert!(matches!(refused, Error::Invalid { .. }), "{refused:?}");
        let why = format!("tube {name:?} keeps no done tasks; leave the task out, or restore it");
        assert!(refused.to_string().starts_with(&why), "{refused}");
    }
    let tube = keeping(&store, FIFO, Keep::new());
    let priority = Restore::new(Put::new("x").priority(1)).done(None);
    assert!(matches!(tube.admin().restore_many([priority]), Err(Error::Unsupported { .. })));
    let delayed = Restore::new(Put::new("x").delay(secs(1))).done(None);
    for (task, why) in [
        (named("x", 1).done(None).buried(true), "cannot be buried and done"),
        (named("x", 1).done(None).group("x"), "only a buried task"),
        (delayed, "cannot be done and delayed"),
    ] {
        let text = tube.admin().restore_many([named("y", 0), task]).unwrap_err().to_string();
        assert!(text.contains(why), "{text}");
    }
    let small = Store::options().max_body(8).open_in_memory().unwrap();
    let large = keeping(&small, FIFO, Keep::new());
    let refused =
        large.admin().restore_many([named("x", 1).done(result("123456789"))]).unwrap_err();
    assert_eq!(refused.to_string(), "the result has 9 bytes, the limit is 8");
    large.admin().restore_many([named("x", 1).done(result("12345678"))]).unwrap();
    assert_eq!(tube.statistics().unwrap().tasks, tubewell::TaskCounts::default());
    assert_eq!(store.admin().next_id().unwrap(), 0);
    assert_sound(&store);
}

#[test]
fn salvaged_done_tasks_are_restored_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store");
    let clock = ManualClock::new();
    let store = Store::options().clock(&clock).open(&path).unwrap();
    let tube = keeping(&store, UTUBE, Keep::new().age(secs(100)));
    tube.put_many(["a", "b", "c"]).unwrap();
    // Not in the order of their ids.
    for (id, text) in [(2, "first"), (0, "second"), (1, "third")] {
        tube.claim(id).unwrap().end(Outcome::result(text)).unwrap();
        clock.advance(secs(10));
    }
    let infos = |tube: &Tube| [0, 1, 2].map(|id| (tube.query().task(id), tube.ending(id)));
    let before = infos(&tube);
    store.close().unwrap();
    let mut restored = Vec::new();
    let each = |what| {
        if let Salvaged::Task { task, .. } = what {
            let left = task.info.ttl_left.unwrap_or(Duration::MAX);
            let put = Put::new(task.body).ttl(left);
            let restore = Restore::new(put).id(task.info.id).put_at(task.info.put_at);
            restored.push(restore.takes(1).done(task.result));
        }
        Ok(())
    };
    StoreOptions::default().clock(&clock).salvage(&path, each).unwrap();
    let other = Store::options().clock(&clock).open_in_memory().unwrap();
    let tube = keeping(&other, UTUBE, Keep::new().age(secs(100)));
    tube.admin().restore_many(restored).unwrap();
    assert_eq!(infos(&tube), before);
    assert_eq!(ids_of(&tube, TaskState::Done), [2, 0, 1]);
    assert_sound(&other);
}
