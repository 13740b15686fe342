//! Put, and what a task shows of itself.

use std::thread;

use tubewell::driver::{LIMFIFOTTL, UTUBETTL};
use tubewell::{Put, TaskState};

use super::files::create;
use super::support::*;

/// Q002
#[test]
fn body_of_empty_json_list_is_kept_byte_for_byte() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let bodies = ["[]", "{}", "", "null", "[ ]"];
        let ids = bodies.map(|body| tube.put(body).unwrap().id);
        let read = |tube: &tubewell::Tube| ids.map(|id| tube.query().task(id).unwrap().body);
        assert_eq!(read(&tube), bodies.map(|body| body.as_bytes().to_vec()));
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(read(&tube), bodies.map(|body| body.as_bytes().to_vec()));
        for body in bodies {
            let claim = tube.try_take().unwrap().unwrap();
            assert_eq!(claim.body(), body.as_bytes());
            claim.ack().unwrap();
        }
        assert_sound(&store);
    }
}

/// Q003
#[test]
fn put_with_delay_is_delayed_until_delay_elapses() {
    for_each_driver(TIMED, |case| {
        let receipt = case.tube.put(case.draft("x").delay(secs(1))).unwrap();
        assert_eq!(receipt.state, TaskState::Delayed);
        assert_eq!(case.state(0), Some(TaskState::Delayed));
        assert_eq!(case.take(), None);
        case.advance(999);
        assert_eq!((case.state(0), case.take()), (Some(TaskState::Delayed), None));
        case.advance(1);
        assert_eq!(case.take_all(), [0]);
    });
}

/// Q006
#[test]
fn put_with_priority_stores_priority() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").priority(1));
        assert_eq!(case.info(id).priority, 1);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.priority(), 1);
        claim.ack().unwrap();
    });
}

/// T023
/// Difference: a priority is a number and a body is bytes; a task has no name besides its id.
#[test]
fn put_task_is_read_back_with_all_options() {
    for_each_driver(&[UTUBETTL], |case| {
        let put = Put::new("details").priority(3).sub_queue("s").ttl(secs(60)).ttr(secs(5));
        let id = case.add(put);
        let task = case.tube.query().task(id).unwrap();
        assert_eq!(task.body, b"details");
        assert_eq!((task.info.id, task.info.state, task.info.takes), (id, TaskState::Ready, 0));
        assert_eq!((task.info.priority, task.info.sub_queue.as_deref()), (3, Some("s")));
        assert_eq!((task.info.ttl_left, task.info.ttr), (Some(secs(60)), Some(secs(5))));
        let listed = case.tube.query().list(TaskState::Ready, None, 10).unwrap().items;
        assert_eq!(listed, [task.info]);
    });
}

/// T023
#[test]
fn put_task_is_read_back_with_default_options() {
    for_each_driver(ALL, |case| {
        let id = case.add(Put::new("x"));
        let task = case.tube.query().task(id).unwrap();
        assert_eq!(task.body, b"x");
        let expected = (id, tubewell::DEFAULT_PRIORITY, 1);
        assert_eq!((task.info.id, task.info.priority, task.info.size), expected);
    });
}

/// B027
/// Difference: the times of creation and change are those of its history, if its tube keeps one.
#[test]
fn missing_attributes_are_none() {
    for_each_driver(&[LIMFIFOTTL, UTUBETTL], |case| {
        let plain = case.info(case.add(Put::new("x")));
        assert_eq!((plain.sub_queue, plain.ttl_left, plain.ttr, plain.due_in), {
            (None, None, None, None)
        });
        let put = case.draft("x").ttl(secs(60)).ttr(secs(5)).delay(secs(1));
        let full = case.info(case.add(put));
        assert_eq!(full.sub_queue.is_some(), case.sub_queued());
        assert_eq!((full.ttl_left, full.ttr, full.due_in), {
            (Some(secs(61)), Some(secs(5)), Some(secs(1)))
        });
        assert_not_found(case.tube.query().task(99), 99);
    });
}

/// B001
/// Difference: the time of creation is in the history of a task; its ttl shows that it counts from
/// the put. Tubes are created, and a put adds none.
#[test]
fn put_adds_ready_task_at_the_end_with_one_commit() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let first = tube.put("first").unwrap().id;
        file.clock.advance(secs(12));
        let timed = TIMED.contains(driver);
        let put = if timed { Put::new("a=1").ttl(secs(60)) } else { Put::new("a=1") };

        let before = store.admin().counters().unwrap();
        let receipt = tube.put(put).unwrap();
        let after = store.admin().counters().unwrap();
        assert_eq!((after.commits, after.flushes), (before.commits + 1, before.flushes + 1));
        assert_eq!((receipt.commit, receipt.state), (after.commits, TaskState::Ready));

        let task = tube.query().task(receipt.id).unwrap();
        assert_eq!((&*task.body, task.info.state), (&b"a=1"[..], TaskState::Ready));
        assert_eq!(task.info.ttl_left, timed.then(|| secs(60)));
        let listed = tube.query().list(TaskState::Ready, None, 10).unwrap().items;
        assert!(listed.iter().map(|info| info.id).eq([first, receipt.id]));
        let [info] = <[_; 1]>::try_from(store.tubes().unwrap()).unwrap();
        assert_eq!((&*info.name, info.waiting), ("case", 0));
        assert_sound(&store);
    }
}

/// T028
#[test]
fn ids_increase_by_one_when_threads_put() {
    for_each_driver(ALL, |case| {
        let puts_ids = || (0..50).map(|_| case.put("x")).collect::<Vec<u64>>();
        let by_thread: Vec<Vec<u64>> = thread::scope(|scope| {
            let threads: Vec<_> = (0..4).map(|_| scope.spawn(puts_ids)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(by_thread.iter().all(|ids| ids.is_sorted()), "{by_thread:?}");
        let mut all = by_thread.concat();
        all.sort_unstable();
        assert_eq!(all, (0..200).collect::<Vec<u64>>());
        assert_eq!(case.tasks(), counts([("ready", 200), ("total", 200)]));
    });
}
