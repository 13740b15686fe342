//! Waits for the ends of tasks, while outcomes are kept, forgotten, undone or not yet flushed.

use std::sync::atomic::Ordering;
use std::thread;

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::{Ending, Error, Failure, Filter, Keep, Outcome, Store, Tube, TubeOptions};

use super::executor::{wait_until, with_timeout};
use super::support::*;
use super::wait::{BURIED, DONE, Wait, end_of, ended, on_disk, wait_for};
use crate::stores;

fn done(result: &str) -> Ending {
    Ending::Done { result: Some(result.as_bytes().to_vec()) }
}

/// The group of the failure of a buried task.
fn group_of(ending: Option<Ending>) -> Option<String> {
    match ending {
        Some(Ending::Buried { failure }) => failure.map(|failure| failure.group),
        other => panic!("not buried: {other:?}"),
    }
}

fn keeping(keep: Keep) -> TubeOptions {
    TubeOptions::new().keep_done(keep)
}

fn keeping_tube(store: &Store, keep: Keep) -> Tube {
    store.create_tube("keeping", keeping(keep).driver(FIFOTTL)).unwrap()
}

/// How many callers wait for one task.
const WAITERS: usize = 100;

#[test]
fn all_waiters_of_a_task_get_its_result_however_long_it_is_kept() {
    let keeps = [Keep::new().count(0), Keep::new().count(1), Keep::new().age(ZERO), Keep::new()];
    let policies = keeps.map(keeping).into_iter().chain([TubeOptions::new()]);
    for options in policies.flat_map(|options| [options.clone(), options.temporary(true)]) {
        for_each_driver_with(ALL, options, |case| {
            for n in 0..3 {
                let id = case.put("x");
                let session = case.tube_in_new_session();
                let waits: Vec<_> = (0..WAITERS)
                    .map(|n| wait_for(if n % 2 == 0 { &case.tube } else { &session }, id))
                    .collect();
                let result = format!("result {n}");
                case.tube.try_take().unwrap().unwrap().end(Outcome::result(&*result)).unwrap();
                for wait in waits {
                    assert_eq!(wait.answer(), Ok(Some(done(&result))));
                }
            }
        });
    }
}

/// The second ack forgets the first task. Both become visible with the same flush.
#[test]
fn waiter_gets_result_of_task_that_is_forgotten_in_the_commit_of_its_end() {
    with_timeout(|| {
        let (disk, _, store, plain) = on_disk(FIFO);
        let tube = keeping_tube(&store, Keep::new().count(1));
        let ids = ["a", "b", "c"].map(|name| tube.put(name).unwrap().id);
        let claims = ids.map(|id| tube.claim(id).unwrap());
        let flush =
            disk.block_flush_of(|| plain.to_async().refuse_when_full().put("begins a flush"));
        let before = ids.map(|id| wait_for(&tube, id));
        let commits = store.admin().counters().unwrap().commits;
        let tickets = claims.map(|claim| {
            let result = format!("result {}", claim.id());
            claim.into_async().end(Outcome::result(result))
        });
        let forget = tube.to_async().refuse_when_full().admin().forget(ids[2]);
        let after = ids.map(|id| wait_for(&tube, id));
        stores::settle(&store);
        disk.unblock_flushes();
        flush.wait().unwrap();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        forget.wait().unwrap();
        assert!(store.admin().counters().unwrap().commits <= commits + 2);
        for (wait, id) in before.into_iter().chain(after).zip(ids.into_iter().chain(ids)) {
            assert_eq!(end_of(wait), Ok(Some(done(&format!("result {id}")))));
        }
        assert_eq!(ids.map(|id| ended(&tube, id)), [const { Some(Ending::Gone) }; 3]);
        assert_eq!(tube.statistics().unwrap().tasks.kept, 0);
        assert_sound(&store);
    });
}

#[test]
fn result_of_ack_whose_flush_fails_is_there_once_the_storage_works() {
    with_timeout(|| {
        for keep in [Keep::new(), Keep::new().count(0)] {
            let (disk, clock, store, _) = on_disk(FIFO);
            let tube = keeping_tube(&store, keep);
            let id = tube.put("x").unwrap().id;
            let claim = tube.try_take().unwrap().unwrap();
            let before = wait_for(&tube, id);
            disk.fail_flushes(true);
            let acked = claim.end(Outcome::result("result")).err();
            assert!(matches!(acked, Some(Error::OutcomeUnknown { .. })), "{acked:?}");
            assert!(matches!(before.answer(), Err(Error::Unavailable { .. })));
            assert!(matches!(tube.wait_done(id, NO_TIMEOUT), Err(Error::Unavailable { .. })));
            assert!(matches!(tube.ending(id), Err(Error::Unavailable { .. })));
            disk.fail_flushes(false);
            clock.advance(secs(60));
            let expected = if keep == Keep::new() { done("result") } else { Ending::Gone };
            assert_eq!(tube.wait_done(id, NO_TIMEOUT), Ok(Some(expected.clone())));
            assert_eq!(tube.ending(id), Ok(Some(expected)));
            assert_sound(&store);
        }
    });
}

/// The flush that is blocked fails. The waits end with it, whenever they began.
#[test]
fn waits_that_begin_during_a_flush_that_fails_return_errors() {
    with_timeout(|| {
        let (disk, clock, store, _) = on_disk(FIFO);
        let tube = keeping_tube(&store, Keep::new().count(1));
        let ids = ["a", "b"].map(|name| tube.put(name).unwrap().id);
        let claims = ids.map(|id| tube.claim(id).unwrap());
        let [first, second] = claims;
        let ack = disk.block_flush_of(|| first.into_async().end(Outcome::result("a")));
        let late = second.into_async().end(Outcome::result("b"));
        let waits = ids.map(|id| wait_for(&tube, id));
        disk.fail_flushes(true);
        stores::settle(&store);
        disk.unblock_flushes();
        for ticket in [ack, late] {
            let failed = ticket.wait();
            assert!(matches!(failed, Err(Error::OutcomeUnknown { .. })), "{failed:?}");
        }
        for wait in waits {
            let failed = end_of(wait);
            assert!(matches!(failed, Err(Error::Unavailable { .. })), "{failed:?}");
        }
        disk.fail_flushes(false);
        clock.advance(secs(60));
        let endings = ids.map(|id| tube.wait_done(id, NO_TIMEOUT).unwrap());
        assert_eq!(endings, [Some(Ending::Gone), Some(done("b"))]);
        assert_sound(&store);
    });
}

#[test]
fn resolve_and_forget_during_an_outage_are_refused_and_change_nothing() {
    with_timeout(|| {
        let (disk, clock, store, _) = on_disk(FIFO);
        let tube = keeping_tube(&store, Keep::new());
        let ids = ["acked", "resolved", "open", "forgotten"].map(|name| tube.put(name).unwrap().id);
        for id in [ids[0], ids[3]] {
            tube.claim(id).unwrap().end(Outcome::result("result")).unwrap();
        }
        let wait = wait_for(&tube, ids[2]);
        disk.fail_flushes(true);
        let unknown = tube.admin().resolve(ids[1], Outcome::result(b"by hand"));
        assert!(matches!(unknown, Err(Error::OutcomeUnknown { .. })), "{unknown:?}");
        assert!(matches!(wait.answer(), Err(Error::Unavailable { .. })));
        let refused = [
            tube.admin().resolve(ids[2], ()),
            tube.admin().forget(ids[0]),
            tube.admin().forget(ids[1]),
        ];
        for refused in refused {
            assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
        }
        disk.fail_flushes(false);
        clock.advance(secs(60));
        assert_eq!(tube.ending(ids[0]), Ok(Some(done("result"))));
        assert_eq!(tube.ending(ids[1]), Ok(Some(done("by hand"))));
        assert_eq!(tube.ending(ids[2]), Ok(None));
        disk.fail_flushes(true);
        let unknown = tube.admin().forget(ids[3]);
        assert!(matches!(unknown, Err(Error::OutcomeUnknown { .. })), "{unknown:?}");
        disk.fail_flushes(false);
        clock.advance(secs(60));
        assert_eq!(tube.ending(ids[3]), Ok(Some(Ending::Gone)));
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!((tasks.kept, tasks.ready), (2, 1));
        assert_sound(&store);
    });
}

/// Kept tasks fall due while the storage fails.
#[test]
fn outcomes_that_fall_due_during_an_outage_are_forgotten_after_it() {
    with_timeout(|| {
        let (disk, clock, store, plain) = on_disk(FIFO);
        let tube = keeping_tube(&store, Keep::new().age(secs(1)));
        let id = tube.put("x").unwrap().id;
        tube.try_take().unwrap().unwrap().end(Outcome::result("result")).unwrap();
        disk.fail_flushes(true);
        assert!(plain.put("x").is_err());
        clock.advance(secs(5));
        assert!(matches!(tube.ending(id), Err(Error::Unavailable { .. })));
        disk.fail_flushes(false);
        clock.advance(secs(60));
        assert_eq!(tube.ending(id), Ok(Some(Ending::Gone)));
        store.flush().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.kept, 0);
        assert_sound(&store);
    });
}

#[test]
fn close_during_the_flush_of_an_end_keeps_its_result() {
    with_timeout(|| {
        let (disk, clock, store, _) = on_disk(FIFO);
        let tube = keeping_tube(&store, Keep::new());
        let ids = ["acked", "open"].map(|name| tube.put(name).unwrap().id);
        let claim = tube.try_take().unwrap().unwrap();
        let waits = ids.map(|id| wait_for(&tube, id));
        let ack = disk.block_flush_of(|| claim.into_async().end(Outcome::result("result")));
        let [acked, open] = waits;
        thread::scope(|scope| {
            let close = scope.spawn(|| stores::close(&store));
            // The waits end when the store begins to close, and the ack is flushed.
            assert_eq!(end_of(open), Err(Error::Closed));
            disk.unblock_flushes();
            close.join().unwrap();
        });
        let acked = end_of(acked);
        assert!(matches!(acked, Ok(Some(Ending::Done { .. })) | Err(Error::Closed)), "{acked:?}");
        assert_eq!(ack.wait().map(|receipt| receipt.id), Ok(ids[0]));
        drop((tube, store));
        wait_until(|| disk.is_closed.load(Ordering::SeqCst));
        let store = stores::serve(disk.open(Store::options().clock(&clock)));
        let tube = store.find_tube("keeping").unwrap();
        assert_eq!(ended(&tube, ids[0]), Some(done("result")));
        assert_eq!(ended(&tube, ids[1]), None);
        assert_sound(&store);
    });
}

#[test]
fn waiter_and_outcome_return_the_same_failure() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let failed = case.tube.try_take().unwrap().unwrap();
        failed.fail(Failure::new("first", "m")).unwrap();
        let wait = wait_for(&case.tube, 0);
        // A bury without a failure: the last one is still known.
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(group_of(wait.answer().unwrap()).as_deref(), Some("first"));
        assert_eq!(group_of(case.tube.ending(0).unwrap()).as_deref(), Some("first"));
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        let wait = wait_for(&case.tube, 0);
        let failed = case.tube.try_take().unwrap().unwrap();
        failed.bury(Failure::new("second", "m")).unwrap();
        assert_eq!(group_of(wait.answer().unwrap()).as_deref(), Some("second"));
        assert_eq!(group_of(ended(&case.tube, 0)).as_deref(), Some("second"));
    });
}

/// All ends become visible with the same flush. Each wait ends with the first one.
#[test]
fn waiter_gets_the_first_of_several_ends_of_one_flush() {
    with_timeout(|| {
        let (disk, _, store, tube) = on_disk(FIFO);
        let deferred = tube.to_async().refuse_when_full();
        let ids = ["failed", "plain"].map(|name| tube.put(name).unwrap().id);
        let claim = tube.claim(ids[0]).unwrap();
        let flush = disk.block_flush_of(|| deferred.put("begins a flush"));
        let waits = ids.map(|id| wait_for(&tube, id));
        let failed = claim.into_async().bury(Failure::new("g", "m"));
        let mut tickets = vec![deferred.admin().bury(ids[1], None)];
        let kicked = deferred.admin().kick(Filter::new().limit(2));
        tickets.extend(ids.map(|id| deferred.admin().bury(id, None)));
        let kicked_again = deferred.admin().kick(Filter::new().limit(2));
        tickets.extend(ids.map(|id| deferred.admin().resolve(id, Outcome::result(b"result"))));
        stores::settle(&store);
        disk.unblock_flushes();
        flush.wait().unwrap();
        failed.wait().unwrap();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        assert_eq!((kicked.wait(), kicked_again.wait()), (Ok(2), Ok(2)));
        let [failed, plain] = waits.map(|wait| end_of(wait).unwrap());
        assert_eq!(group_of(failed).as_deref(), Some("g"));
        assert_eq!(plain, Some(BURIED));
        assert_eq!(ids.map(|id| ended(&tube, id)), [const { Some(Ending::Gone) }; 2]);
        assert_sound(&store);
    });
}

#[test]
fn waits_for_kept_tasks_return_immediately_also_after_reopen() {
    for driver in ALL {
        let file = StoreFile::new();
        let store = file.open();
        let tube =
            store.create_tube("case", keeping(Keep::new().age(secs(9))).driver(driver)).unwrap();
        for (id, result) in [(0, "one"), (1, "")] {
            tube.put("x").unwrap();
            tube.try_take().unwrap().unwrap().end(Outcome::result(result)).unwrap();
            assert_eq!(ended(&tube, id), Some(done(result)));
        }
        tube.put("x").unwrap();
        tube.try_take().unwrap().unwrap().ack().unwrap();
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        let endings = [0, 1, 2].map(|id| ended(&tube, id).unwrap());
        assert_eq!(endings, [done("one"), done(""), DONE]);
        assert_eq!(tube.wait_drained(ZERO), Ok(true));
        file.clock.advance(secs(9));
        assert_eq!([0, 1, 2].map(|id| ended(&tube, id)), [const { Some(Ending::Gone) }; 3]);
        assert_sound(&store);
    }
}

/// A truncate or a drop ends waits for tasks that are not over. Kept ones are gone.
#[test]
fn truncate_during_the_flush_of_kept_ends_answers_with_them() {
    with_timeout(|| {
        let (disk, _, store, _) = on_disk(FIFO);
        let tube = keeping_tube(&store, Keep::new().count(1));
        let ids = ["a", "b", "open"].map(|name| tube.put(name).unwrap().id);
        let [first, second] = [ids[0], ids[1]].map(|id| tube.claim(id).unwrap());
        let waits = ids.map(|id| wait_for(&tube, id));
        let ack = disk.block_flush_of(|| first.into_async().end(Outcome::result("a")));
        let later = second.into_async().end(Outcome::result("b"));
        thread::scope(|scope| {
            let truncate = scope.spawn(|| tube.admin().truncate());
            wait_until(|| tube.statistics().unwrap().tasks.total == 0);
            stores::settle(&store);
            disk.unblock_flushes();
            truncate.join().unwrap().unwrap();
        });
        ack.wait().unwrap();
        later.wait().unwrap();
        let endings = waits.map(|wait| end_of(wait).unwrap().unwrap());
        assert_eq!(endings, [done("a"), done("b"), Ending::Gone]);
        assert_eq!(ids.map(|id| ended(&tube, id)), [const { Some(Ending::Gone) }; 3]);
        assert_eq!(tube.statistics().unwrap().tasks.kept, 0);
        assert_sound(&store);
        store.drop_tube("keeping").unwrap();
        assert_sound(&store);
    });
}

/// A wait through another tube does not see how the task ended.
#[test]
fn wait_through_another_tube_returns_gone() {
    let store = store_in_memory();
    let tube = keeping_tube(&store, Keep::new());
    let other = store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
    let id = tube.put("x").unwrap().id;
    assert_eq!(other.wait_done(id, NO_TIMEOUT), Ok(Some(Ending::Gone)));
    let wait = Wait::begin(tube.to_async().wait_done(id, NO_TIMEOUT));
    tube.admin().resolve(id, Outcome::result(b"result")).unwrap();
    assert_eq!(wait.answer(), Ok(Some(done("result"))));
    assert_eq!(other.wait_done(id, NO_TIMEOUT), Ok(Some(Ending::Gone)));
    assert_sound(&store);
}

/// Workers return the body as the result, and the next ack forgets it.
#[test]
fn concurrent_callers_each_get_the_result_of_their_task() {
    const CALLERS: usize = 4;
    const TASKS: usize = 40;
    with_timeout(|| {
        for keep in [Keep::new().count(1), Keep::new().age(ZERO)] {
            let store = stores::in_memory();
            let tube = keeping_tube(&store, keep);
            thread::scope(|scope| {
                for caller in 0..CALLERS {
                    let tube = &tube;
                    scope.spawn(move || {
                        for task in 0..TASKS {
                            let body = format!("caller {caller}, task {task}");
                            let (_, ending) = tube.put_and_wait(&*body, NO_TIMEOUT).unwrap();
                            assert_eq!(ending, Some(done(&body)));
                        }
                    });
                }
                for _ in 0..2 {
                    scope.spawn(|| {
                        for _ in 0..CALLERS * TASKS / 2 {
                            let claim = tube.take_timeout(NO_TIMEOUT).unwrap().unwrap();
                            let result = claim.body().to_vec();
                            claim.end(Outcome::result(result)).unwrap();
                        }
                    });
                }
            });
            assert_eq!(tube.statistics().unwrap().tasks.done, (CALLERS * TASKS) as u64);
            assert_sound(&store);
        }
    });
}
