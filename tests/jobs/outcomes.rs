//! Outcomes: results, tasks that are kept after their end, failure groups.

use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL, UTUBE};
use tubewell::expert::{LastFailure, Restore};
use tubewell::{
    Ending, Error, EventKind, Failure, Filter, Keep, Outcome, Put, Store, TaskState, Tube,
    TubeOptions,
};

use super::executor::with_timeout;
use super::support::*;
use super::wait::{Wait, end_of, on_disk, wait_for};
use crate::stores;

fn open(file: &StoreFile) -> Store {
    stores::open_with(file.path(), Store::options().clock(&file.clock))
}

fn keeping(count: u64) -> TubeOptions {
    TubeOptions::new().keep_done(Keep::new().count(count))
}

/// What `outcome` returns for a task that was acked with this result.
#[allow(clippy::unnecessary_wraps, reason = "compared with an option")]
fn done(result: Option<&str>) -> Option<Ending> {
    Some(Ending::Done { result: result.map(|result| result.as_bytes().to_vec()) })
}

fn ack_next(tube: &Tube, result: &str) -> u64 {
    tube.try_take().unwrap().unwrap().end(Outcome::result(result)).unwrap().id
}

fn fail_next(tube: &Tube, group: &str) -> u64 {
    let claim = tube.try_take().unwrap().unwrap();
    claim.bury(Failure::new(group, "it did not work")).unwrap().id
}

fn ids(page: &tubewell::Page<tubewell::TaskInfo>) -> Vec<u64> {
    page.items.iter().map(|task| task.id).collect()
}

fn kept(tube: &Tube) -> u64 {
    tube.statistics().unwrap().tasks.kept
}

#[test]
fn outcome_is_kept_over_a_reopen_with_its_body_and_its_result() {
    for driver in [FIFO, UTUBE] {
        let file = StoreFile::new();
        let store = open(&file);
        let tube = store.create_tube("case", keeping(10).driver(driver)).unwrap();
        let large = vec![b'x'; 5000];
        tube.put_many(["small", "plain"]).unwrap();
        tube.put(large.clone()).unwrap();
        assert_eq!(tube.ending(0), Ok(None));
        ack_next(&tube, "first");
        tube.try_take().unwrap().unwrap().ack().unwrap();
        ack_next(&tube, str::from_utf8(&large).unwrap());
        stores::close(&store);
        let store = open(&file);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tube.ending(0), Ok(done(Some("first"))));
        assert_eq!(tube.ending(1), Ok(done(None)));
        assert_eq!(tube.ending(2), Ok(Some(Ending::Done { result: Some(large.clone()) })));
        assert_eq!(tube.ending(3), Err(Error::NotFound { id: 3 }));
        assert_eq!(tube.query().task(2).unwrap().body, large);
        assert_eq!(state(&tube, 1), Some(TaskState::Done));
        assert_eq!(ids(&tube.query().list(TaskState::Done, None, 10).unwrap()), [0, 1, 2]);
        let counts = tube.statistics().unwrap().tasks;
        assert_eq!((counts.kept, counts.total, counts.done), (3, 0, 0));
        assert!(tube.try_take().unwrap().is_none());
        assert_sound(&store);
    }
}

#[test]
fn oldest_outcome_is_forgotten_when_there_are_more_than_are_kept() {
    let file = StoreFile::new();
    let store = open(&file);
    let tube = store.create_tube("case", keeping(3).driver(FIFO)).unwrap();
    tube.put_many(["x"; 6]).unwrap();
    for _ in 0..6 {
        ack_next(&tube, "ok");
        file.clock.advance(secs(1));
        assert_sound(&store);
    }
    assert_eq!(ids(&tube.query().list(TaskState::Done, None, 10).unwrap()), [3, 4, 5]);
    assert_eq!(tube.ending(2), Ok(Some(Ending::Gone)));
    let statistics = tube.statistics().unwrap();
    assert_eq!((statistics.tasks.kept, statistics.tasks.done, statistics.calls.forget), (3, 6, 3));
    assert_sound(&store);
}

#[test]
fn outcome_is_forgotten_after_its_time_also_while_the_store_is_closed() {
    let file = StoreFile::new();
    let store = open(&file);
    let options = TubeOptions::new().keep_done(Keep::new().age(secs(60)));
    let tube = store.create_tube("case", options.driver(FIFO)).unwrap();
    tube.put_many(["a", "b"]).unwrap();
    ack_next(&tube, "ok");
    assert_eq!(tube.query().task(0).unwrap().info.ttl_left, Some(secs(60)));
    file.clock.advance(secs(30));
    ack_next(&tube, "ok");
    file.clock.advance(secs(30));
    assert_eq!(tube.ending(0), Ok(Some(Ending::Gone)));
    assert_eq!(tube.ending(1), Ok(done(Some("ok"))));
    stores::close(&store);
    file.clock.advance(secs(30));
    let store = open(&file);
    file.clock.advance(Duration::ZERO);
    let tube = store.find_tube("case").unwrap();
    assert_eq!(tube.ending(1), Ok(Some(Ending::Gone)));
    assert_eq!(kept(&tube), 0);
    assert_sound(&store);
}

#[test]
fn kept_task_takes_no_place_and_its_ttl_has_ended() {
    let file = StoreFile::new();
    let store = open(&file);
    let tube =
        store.create_tube("case", keeping(9).capacity(1).driver(tubewell::LIMFIFOTTL)).unwrap();
    for _ in 0..3 {
        tube.put(Put::new("x").ttl(secs(5))).unwrap();
        ack_next(&tube, "ok");
    }
    file.clock.advance(secs(60));
    assert_eq!(kept(&tube), 3);
    assert_eq!(tube.query().task(0).unwrap().info.ttl_left, None);
    assert!(matches!(tube.claim(0), Err(Error::NotReady { state: TaskState::Done, .. })));
    assert!(matches!(
        tube.admin().bury(0, None),
        Err(Error::NotReady { state: TaskState::Done, .. })
    ));
    assert_eq!(tube.kick(0), Err(Error::NotBuried { id: 0 }));
    tube.delete(0).unwrap();
    assert_eq!((kept(&tube), tube.ending(0)), (2, Ok(Some(Ending::Gone))));
    tube.admin().truncate().unwrap();
    assert_eq!(kept(&tube), 0);
    assert_sound(&store);
}

#[test]
fn resolve_ends_a_task_that_nobody_has_taken() {
    for (options, is_kept) in [(TubeOptions::new(), false), (keeping(10), true)] {
        let file = StoreFile::new();
        let store = open(&file);
        let tube = store.create_tube("case", options.driver(FIFOTTL)).unwrap();
        tube.put_many(["taken", "ready", "buried"]).unwrap();
        tube.put(Put::new("delayed").delay(secs(9))).unwrap();
        let claim = tube.try_take().unwrap().unwrap();
        tube.admin().bury(2, None).unwrap();
        let refused = tube.admin().resolve(0, ());
        assert!(
            matches!(refused, Err(Error::NotReady { state: TaskState::Taken, .. })),
            "{refused:?}"
        );
        for id in 1..=3 {
            let receipt = tube.admin().resolve(id, Outcome::result(b"by hand")).unwrap();
            assert_eq!((receipt.id, receipt.state), (id, TaskState::Done));
            let expected = if is_kept { done(Some("by hand")) } else { Some(Ending::Gone) };
            assert_eq!(tube.ending(id), Ok(expected));
            let again = tube.admin().resolve(id, ());
            assert_eq!(
                matches!(again, Err(Error::NotReady { state: TaskState::Done, .. })),
                is_kept
            );
        }
        assert!(tube.try_take().unwrap().is_none());
        file.clock.advance(secs(10));
        claim.ack().unwrap();
        let statistics = tube.statistics().unwrap();
        assert_eq!((statistics.calls.resolve, statistics.tasks.total), (3, 0));
        assert_sound(&store);
    }
}

#[test]
fn forget_removes_only_what_is_done() {
    let file = StoreFile::new();
    let store = open(&file);
    let tube = store.create_tube("case", keeping(10).driver(FIFO)).unwrap();
    tube.put_many(["taken", "ready", "buried", "done"]).unwrap();
    let claims = tube.take_many(4, Duration::ZERO).unwrap();
    let [taken, ready, buried, acked] = <[_; 4]>::try_from(claims).unwrap();
    drop(ready);
    buried.bury(None).unwrap();
    acked.end(Outcome::result("x")).unwrap();
    for (id, state) in [(0, TaskState::Taken), (1, TaskState::Ready), (2, TaskState::Buried)] {
        assert_eq!(tube.admin().forget(id), Err(Error::NotDone { id, state }));
    }
    assert_eq!(tube.admin().forget(3).unwrap().state, TaskState::Done);
    assert_eq!(tube.admin().forget(3), Err(Error::NotFound { id: 3 }));
    taken.ack().unwrap();
    tube.to_async().admin().forget(0).wait().unwrap();
    assert_eq!(kept(&tube), 0);
    assert_sound(&store);
}

#[test]
fn failure_groups_are_counted_and_listed_newest_first() {
    let file = StoreFile::new();
    let store = open(&file);
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put_many(["x"; 8]).unwrap();
    for group in ["timeout", "crash", "timeout", "timeout", "crash"] {
        fail_next(&tube, group);
        file.clock.advance(secs(1));
    }
    tube.try_take().unwrap().unwrap().bury(None).unwrap();
    let groups = |tube: &Tube| -> Vec<(String, u64)> {
        tube.query().groups().unwrap().into_iter().map(|group| (group.name, group.count)).collect()
    };
    assert_eq!(groups(&tube), [("crash".into(), 2), ("timeout".into(), 3)]);
    let page = tube.query().list(Filter::new().group("timeout").newest_first(), None, 2).unwrap();
    assert_eq!(ids(&page), [3, 2]);
    assert_eq!(page.items[0].failure.as_ref().unwrap().message, "it did not work");
    let page =
        tube.query().list(Filter::new().group("timeout").newest_first(), page.next, 2).unwrap();
    assert_eq!((ids(&page), page.next), (vec![0], None));
    assert_eq!(
        ids(&tube.query().list(Filter::new().group("unknown").newest_first(), None, 2).unwrap()),
        [] as [u64; 0]
    );
    let ready = tube.query().list(TaskState::Ready, None, 1).unwrap().next;
    assert!(matches!(
        tube.query().list(Filter::new().group("timeout").newest_first(), ready, 2),
        Err(Error::Invalid { .. })
    ));
    tube.kick(2).unwrap();
    tube.delete(3).unwrap();
    tube.admin().resolve(1, ()).unwrap();
    assert_eq!(groups(&tube), [("crash".into(), 1), ("timeout".into(), 1)]);
    stores::close(&store);
    let store = open(&file);
    let tube = store.find_tube("case").unwrap();
    assert_eq!(groups(&tube), [("crash".into(), 1), ("timeout".into(), 1)]);
    assert_eq!(
        ids(&tube.query().list(Filter::new().group("timeout").newest_first(), None, 9).unwrap()),
        [0]
    );
    assert_sound(&store);
}

#[test]
fn buried_tasks_are_forgotten_by_count_and_by_age() {
    let file = StoreFile::new();
    let store = open(&file);
    let options = TubeOptions::new().keep_buried(Keep::new().count(2).age(secs(10)));
    let tube = store.create_tube("case", options.driver(FIFO)).unwrap();
    tube.put_many(["x"; 5]).unwrap();
    let last = tube.claim(4).unwrap();
    // Not in the order of their ids: the oldest one is the one that was buried first.
    last.bury(None).unwrap();
    file.clock.advance(secs(1));
    for group in ["a", "b", "a"] {
        fail_next(&tube, group);
        file.clock.advance(secs(1));
        assert_sound(&store);
    }
    assert_eq!(ids(&tube.query().list(TaskState::Buried, None, 9).unwrap()), [1, 2]);
    assert_eq!(tube.ending(4), Ok(Some(Ending::Gone)));
    assert_eq!(tube.query().groups().unwrap().iter().map(|group| group.count).sum::<u64>(), 2);
    tube.admin().kick(Filter::new().limit(1)).unwrap();
    assert_eq!(state(&tube, 1), Some(TaskState::Ready));
    file.clock.advance(secs(9));
    assert_eq!(tube.ending(2), Ok(Some(Ending::Gone)));
    assert!(tube.query().groups().unwrap().is_empty());
    let tasks = tube.statistics().unwrap().tasks;
    assert_eq!((tasks.buried, tasks.ready, tasks.total, tasks.done), (0, 2, 2, 3));
    assert_sound(&store);
}

#[test]
fn last_failure_outlives_retries_and_stays_with_success() {
    let file = StoreFile::new();
    let store = open(&file);
    let tube = store.create_tube("case", keeping(10).max_attempts(3).driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    let claim = tube.try_take().unwrap().unwrap();
    claim.fail(Failure::new("timeout", "no answer")).unwrap();
    ack_next(&tube, "ok");
    let info = tube.query().task(0).unwrap().info;
    assert_eq!(info.failure.unwrap().group, "timeout");
    assert_eq!((info.attempts, info.state), (2, TaskState::Done));
    assert!(tube.query().groups().unwrap().is_empty());
    assert_sound(&store);
}

#[test]
fn waiter_gets_the_result_also_where_nothing_is_kept() {
    let none = TubeOptions::new().keep_done(Keep::new().count(0));
    for options in [TubeOptions::new(), none, keeping(1), TubeOptions::new().temporary(true)] {
        let store = stores::in_memory();
        let tube = store.create_tube("case", options.driver(FIFO)).unwrap();
        let (receipt, ending) = std::thread::scope(|scope| {
            scope.spawn(|| tube.take().unwrap().end(Outcome::result("answer")).unwrap());
            tube.put_and_wait("question", Duration::MAX).unwrap()
        });
        assert_eq!((receipt.id, ending), (0, done(Some("answer"))));
        assert_eq!(
            kept(&tube),
            tube.query().list(TaskState::Done, None, 9).unwrap().items.len() as u64
        );
        assert_sound(&store);
    }
}

#[test]
fn waiter_gets_the_failure_of_a_buried_task() {
    let store = stores::in_memory();
    let tube = store.create_tube("case", TubeOptions::new().max_attempts(1).driver(FIFO)).unwrap();
    let (_, ending) = std::thread::scope(|scope| {
        scope.spawn(|| {
            let claim = tube.take().unwrap();
            claim.fail(Failure::new("crash", "signal 9")).unwrap()
        });
        tube.put_and_wait("work", Duration::MAX).unwrap()
    });
    let Some(Ending::Buried { failure: Some(failure) }) = ending else { panic!("{ending:?}") };
    assert_eq!((failure.group.as_str(), failure.attempt), ("crash", 1));
    assert_eq!(tube.wait_done(0, Duration::MAX).map(|ending| ending.is_some()), Ok(true));
    assert_sound(&store);
}

#[test]
fn too_large_result_is_refused_and_changes_nothing() {
    let store = stores::in_memory_with(Store::options().max_body(8));
    let tube = store.create_tube("case", keeping(1).driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    let claim = || tube.try_take().unwrap().unwrap();
    let refused = claim().into_async().end(Outcome::result("123456789")).wait();
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let refused = claim().end(Outcome::result("123456789"));
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let _ = claim().detach();
    assert!(matches!(
        tube.claimed(0).and_then(|claim| claim.end(Outcome::result("123456789"))),
        Err(Error::Invalid { .. })
    ));
    assert!(matches!(
        tube.admin().resolve(0, Outcome::result(b"123456789")),
        Err(Error::Invalid { .. })
    ));
    assert_eq!(state(&tube, 0), Some(TaskState::Taken));
    tube.claimed(0).and_then(|claim| claim.end(Outcome::result("12345678"))).unwrap();
    assert_eq!(tube.ending(0), Ok(done(Some("12345678"))));
    assert_sound(&store);
}

#[test]
fn ends_of_kept_tasks_are_delivered_as_events() {
    let store = stores::in_memory();
    let tube = store.create_tube("case", keeping(1).driver(FIFO)).unwrap();
    tube.put_many(["a", "b", "c"]).unwrap();
    let events = store.events(Filter::new(), 100).unwrap();
    ack_next(&tube, "1");
    tube.admin().resolve(1, ()).unwrap();
    ack_next(&tube, "3");
    tube.admin().forget(2).unwrap();
    stores::close(&store);
    let seen: Vec<_> = events.filter(|event| event.kind != EventKind::Take).collect();
    let seen: Vec<_> = seen.iter().map(|event| (event.id, event.kind, event.state)).collect();
    let [ack, forget, resolve] = [EventKind::Ack, EventKind::Forget, EventKind::Resolve];
    let expected = [(0, ack), (1, resolve), (0, forget), (2, ack), (1, forget), (2, forget)];
    assert_eq!(seen, expected.map(|(id, kind)| (id, kind, TaskState::Done)));
}

#[test]
fn wait_for_restored_task_returns_its_outcome_after_the_flush() {
    with_timeout(|| {
        let (disk, _clock, store, _) = on_disk(FIFO);
        let tube = store.create_tube("kept", keeping(10).driver(FIFO)).unwrap();
        let failure = LastFailure::new("crash", "signal 9", 1);
        let acked = Restore::new("x").id(1).done(Some(b"answer".to_vec()));
        let buried = Restore::new("x").id(2).buried(true).failure(failure.clone());
        let deferred = tube.to_async();
        let restored = disk.block_flush_of(|| deferred.admin().restore_many([acked, buried]));
        let waits = [1, 2].map(|id| wait_for(&tube, id));
        waits.iter().for_each(Wait::assert_waits);
        stores::settle(&store);
        disk.unblock_flushes();
        restored.wait().unwrap();
        let ends = waits.map(|wait| end_of(wait).unwrap());
        assert_eq!(ends, [done(Some("answer")), Some(Ending::Buried { failure: Some(failure) })]);
        assert_eq!(tube.wait_done(1, Duration::MAX), Ok(done(Some("answer"))));
        assert_sound(&store);
    });
}
