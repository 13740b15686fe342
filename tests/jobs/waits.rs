//! Waits for the end of tasks.

use std::thread;
use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::expert::Restore;
use tubewell::{Durability, Ending, Error, Failure, Filter, Store, TaskState, TubeOptions};

use super::executor::{block_on, with_timeout};
use super::support::*;
use super::wait::*;
use crate::stores::{self, ManualClock};

/// T013
#[test]
fn wait_done_returns_done_when_task_is_acked() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        let waits = [wait_for(&case.tube, id), wait_for(&case.tube_in_new_session(), id)];
        assert_eq!(case.take(), Some(id));
        waits.iter().for_each(Wait::assert_waits);
        case.tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
        for wait in waits {
            assert_eq!(wait.answer(), Ok(Some(DONE)));
        }
        assert_eq!(ended(&case.tube, id), Some(Ending::Gone));
    });
}

/// T014
#[test]
fn wait_done_returns_none_when_its_timeout_elapses() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        assert_eq!(ended(&case.tube, id), None);
        let wait = Wait::begin(case.tube.to_async().wait_done(id, secs(1)));
        let endless = Wait::begin(case.tube.to_async().wait_done(id, Duration::MAX));
        case.advance(999);
        wait.assert_waits();
        case.advance(1);
        assert_eq!(wait.answer(), Ok(None));
        endless.assert_waits();
        case.tube.delete(id).unwrap();
        assert_eq!(endless.answer(), Ok(Some(Ending::Deleted)));
    });
}

/// T014
#[test]
fn blocked_waits_return_when_their_timeout_elapses() {
    with_timeout(|| {
        let clock = ManualClock::new();
        let store = stores::in_memory_with(Store::options().clock(&clock));
        let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        let id = tube.put("x").unwrap().id;
        thread::scope(|scope| {
            let done = scope.spawn(|| tube.wait_done(id, secs(1)));
            let drained = scope.spawn(|| tube.wait_drained(secs(1)));
            let put = scope.spawn(|| tube.put_and_wait("y", secs(1)));
            while !(done.is_finished() && drained.is_finished() && put.is_finished()) {
                clock.advance(ms(100));
                thread::yield_now();
            }
            assert_eq!(done.join().unwrap(), Ok(None));
            assert_eq!(drained.join().unwrap(), Ok(false));
            let (receipt, ending) = put.join().unwrap().unwrap();
            assert_eq!((receipt.id, ending), (1, None));
        });
        assert_eq!(tube.statistics().unwrap().tasks.ready, 2);
        assert_sound(&store);
    });
}

/// A change of a tube with one task of this id, and how the task has ended with it.
type End = (fn(&Case, u64), Ending);

#[test]
fn wait_done_returns_how_the_task_ended() {
    let ends: [End; 9] = [
        (|case, _| case.tube.try_take().unwrap().unwrap().ack().map(drop).unwrap(), DONE),
        (|case, _| case.tube.try_take().unwrap().unwrap().bury(None).map(drop).unwrap(), BURIED),
        (|case, id| case.tube.admin().bury(id, None).map(drop).unwrap(), BURIED),
        (|case, id| case.tube.delete(id).map(drop).unwrap(), Ending::Deleted),
        (|case, id| assert_eq!(case.take().map(|_| case.tube.delete(id).is_ok()), Some(true)), {
            Ending::Deleted
        }),
        (
            |case, id| {
                assert!(
                    case.take().is_some()
                        && case.tube.claimed(id).and_then(tubewell::Claim::ack).is_ok()
                );
            },
            DONE,
        ),
        (|case, _| case.tube.admin().truncate().unwrap(), Ending::Gone),
        (
            |case, _| assert!(case.take().is_some() && case.tube.admin().truncate().is_ok()),
            Ending::Gone,
        ),
        (|case, _| case.store.drop_tube("case").unwrap(), Ending::Gone),
    ];
    for options in [TubeOptions::new(), TubeOptions::new().temporary(true)] {
        for (end, ending) in &ends {
            for_each_driver_with(ALL, options.clone(), |case| {
                let id = case.put("x");
                let wait = wait_for(&case.tube, id);
                end(case, id);
                assert_eq!(wait.answer(), Ok(Some(ending.clone())));
            });
        }
    }
}

#[test]
fn wait_done_returns_expired_when_the_ttl_elapses() {
    for options in [TubeOptions::new(), TubeOptions::new().temporary(true)] {
        for_each_driver_with(TIMED, options, |case| {
            let ready = case.add(case.draft("ready").ttl(secs(10)));
            let taken = case.add(case.draft("taken").ttl(secs(10)).ttr(secs(20)).priority(0));
            let late = case.add(case.draft("late").ttl(secs(10)).priority(0));
            let delayed = case.add(case.draft("delayed").ttl(secs(5)).delay(secs(5)));
            assert_eq!(case.tube.claim(taken).map(keep), Ok(taken));
            let late_claim = case.tube.claim(late).unwrap();
            let waits = [ready, taken, late, delayed].map(|id| wait_for(&case.tube, id));
            case.advance(9_999);
            waits.iter().for_each(Wait::assert_waits);
            case.advance(1);
            assert_not_taken(late_claim.ack(), late);
            for wait in waits {
                assert_eq!(wait.answer(), Ok(Some(Ending::Expired)));
            }
        });
    }
}

#[test]
fn wait_done_continues_while_the_task_is_not_over() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").delay(secs(1)).ttr(secs(10)));
        let wait = wait_for(&case.tube, id);
        case.advance(1_000);
        let mut claim = case.tube.claim(id).unwrap();
        claim.touch(secs(1)).unwrap();
        claim.renew(secs(5)).unwrap();
        claim.checkpoint("y").unwrap();
        claim.release_in(secs(1)).unwrap();
        case.advance(1_000);
        assert_eq!(case.take(), Some(id));
        assert_eq!(case.tube.admin().revoke(id), Ok(1));
        assert_eq!(case.take(), Some(id));
        case.advance(20_000);
        assert_eq!(case.state(id), Some(TaskState::Ready));
        wait.assert_waits();
        case.tube.admin().bury(id, None).unwrap();
        assert_eq!(wait.answer(), Ok(Some(BURIED)));
        case.tube.kick(id).unwrap();
        let wait = wait_for(&case.tube, id);
        case.tube.delete(id).unwrap();
        assert_eq!(wait.answer(), Ok(Some(Ending::Deleted)));
    });
}

#[test]
fn wait_done_of_ended_task_returns_immediately() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        case.tube.delete(1).unwrap();
        case.tube.admin().bury(2, None).unwrap();
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        assert_eq!(other.put("x").unwrap().id, 3);
        let endings = [0, 1, 2, 3].map(|id| ended(&case.tube, id));
        assert_eq!(endings, [Ending::Gone, Ending::Gone, BURIED, Ending::Gone].map(Some));
        for timeout in [ZERO, NO_TIMEOUT] {
            assert_not_found(case.tube.wait_done(4, timeout), 4);
            assert_not_found(block_on(case.tube.to_async().wait_done(4, timeout)), 4);
        }
        case.tube.admin().restore_many([Restore::new("buried").buried(true)]).unwrap();
        assert_eq!(ended(&case.tube, 4), Some(BURIED));
    });
}

/// The answer comes with the flush, also for a wait that begins before it. Nothing that a crash
/// could undo is answered.
#[test]
fn wait_done_returns_after_the_flush_of_the_end() {
    with_timeout(|| {
        let (disk, _, store, tube) = on_disk(FIFOTTL);
        let deferred = tube.to_async().refuse_when_full();
        let ids = ["acked", "deleted", "buried", "kicked", "deleted later"]
            .map(|name| tube.put(name).unwrap().id);
        let claim = tube.claim(ids[0]).unwrap();
        let before = ids.map(|id| wait_for(&tube, id));
        let mut tickets = vec![disk.block_flush_of(|| claim.into_async().ack())];
        tickets.push(deferred.delete(ids[1]));
        tickets.push(deferred.admin().bury(ids[2], None));
        tickets.push(deferred.admin().bury(ids[3], None));
        let kicked = deferred.admin().kick(Filter::new().limit(1));
        let meanwhile = ids.map(|id| wait_for(&tube, id));
        assert_eq!(tube.wait_done(ids[0], ZERO), Ok(None));
        before.iter().chain(&meanwhile).for_each(Wait::assert_waits);
        stores::settle(&store);
        disk.unblock_flushes();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        assert_eq!(kicked.wait(), Ok(1));
        tube.delete(ids[4]).unwrap();
        let kicked = tube.query().list(TaskState::Ready, None, 10).unwrap().items[0].id;
        for (n, (before, meanwhile)) in before.into_iter().zip(meanwhile).enumerate() {
            let ending = [DONE, Ending::Deleted, BURIED, BURIED, Ending::Deleted][n].clone();
            assert_eq!(end_of(before), Ok(Some(ending.clone())));
            // It began when the task was decided to be ready again, and saw the bury become visible.
            assert_eq!(end_of(meanwhile), Ok(Some(ending)));
        }
        assert!(ids.contains(&kicked));
        assert_sound(&store);
    });
}

#[test]
fn wait_done_returns_before_the_flush_where_changes_are_visible_before_it() {
    with_timeout(|| {
        let (disk, _, store, _) = on_disk(FIFO);
        for durability in [Durability::relaxed(), Durability::write()] {
            let options = TubeOptions::new().durability(durability);
            let tube = store.open_tube(&durability.to_string(), options.driver(FIFO)).unwrap();
            let id = tube.put("x").unwrap().id;
            let wait = wait_for(&tube, id);
            let drained = wait_drained(&tube);
            disk.block_flushes();
            tube.try_take().unwrap().unwrap().ack().unwrap();
            // In the written tube the answer comes with the write, which another thread may make.
            assert_eq!(end_of(wait), Ok(Some(DONE)));
            assert_eq!(drained.answer(), Ok(true));
            stores::settle(&store);
            disk.unblock_flushes();
        }
        assert_sound(&store);
    });
}

/// A kill before the write would take the end back.
#[test]
fn answer_about_a_task_that_has_just_ended_waits_for_its_write_in_a_written_tube() {
    with_timeout(|| {
        let (disk, _, store, _) = on_disk(FIFO);
        let options = TubeOptions::new().durability(Durability::write());
        let tube = store.create_tube("written", options.driver(FIFO)).unwrap();
        let id = tube.put("x").unwrap().id;
        let claim = tube.try_take().unwrap().unwrap();
        let ack = disk.block_write_of(|| thread::spawn(|| claim.ack().map(drop)));
        let waits = [wait_for(&tube, id), Wait::begin(tube.to_async().ending(id))];
        waits.iter().for_each(Wait::assert_waits);
        stores::settle(&store);
        disk.unblock_writes();
        for wait in waits {
            assert_eq!(end_of(wait), Ok(Some(Ending::Gone)));
        }
        ack.join().unwrap().unwrap();
        assert_sound(&store);
    });
}

#[test]
fn truncate_during_a_flush_ends_waits_with_the_end_of_their_task() {
    with_timeout(|| {
        let (disk, _, store, tube) = on_disk(FIFOTTL);
        let ids = ["acked", "touched", "ready"].map(|name| tube.put(name).unwrap().id);
        let [acked, touched] = [ids[0], ids[1]].map(|id| tube.claim(id).unwrap());
        let other = store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        let waits = ids.map(|id| wait_for(&tube, id));
        let ack = disk.block_flush_of(|| acked.into_async().ack());
        let touched = touched.into_async();
        let _touch = touched.touch(secs(1));
        // The task is of another tube, and has a change that is not yet visible.
        let of_other = wait_for(&other, ids[1]);
        thread::scope(|scope| {
            let truncate = scope.spawn(|| tube.admin().truncate());
            while tube.statistics().unwrap().tasks.total > 0 {
                thread::yield_now();
            }
            stores::settle(&store);
            disk.unblock_flushes();
            truncate.join().unwrap().unwrap();
        });
        ack.wait().unwrap();
        let endings = waits.map(|wait| end_of(wait).unwrap());
        assert_eq!(endings, [DONE, Ending::Gone, Ending::Gone].map(Some));
        assert_eq!(end_of(of_other), Ok(Some(Ending::Gone)));
        drop(touched);
        assert_sound(&store);
    });
}

#[test]
fn waits_of_end_whose_flush_fails_return_errors() {
    with_timeout(|| {
        let (disk, clock, store, tube) = on_disk(FIFO);
        let id = tube.put("x").unwrap().id;
        let (wait, drained) = (wait_for(&tube, id), wait_drained(&tube));
        let claim = tube.try_take().unwrap().unwrap();
        disk.fail_flushes(true);
        assert!(matches!(claim.ack(), Err(Error::OutcomeUnknown { .. })));
        assert!(matches!(wait.answer(), Err(Error::Unavailable { .. })));
        assert!(matches!(drained.answer(), Err(Error::Unavailable { .. })));
        assert!(matches!(tube.wait_done(id, NO_TIMEOUT), Err(Error::Unavailable { .. })));
        disk.fail_flushes(false);
        clock.advance(secs(60));
        assert_eq!(ended(&tube, id), Some(Ending::Gone), "what was decided stays decided");
        assert_eq!(tube.wait_drained(NO_TIMEOUT), Ok(true));

        let id = tube.put("y").unwrap().id;
        let wait = wait_for(&tube, id);
        disk.fail_flushes(true);
        assert!(matches!(tube.admin().truncate(), Err(Error::OutcomeUnknown { .. })));
        assert!(matches!(wait.answer(), Err(Error::OutcomeUnknown { .. })));
        disk.fail_flushes(false);
        clock.advance(secs(60));
        disk.fail_flushes(true);
        let put = tube.put_and_wait("z", NO_TIMEOUT);
        assert!(matches!(put, Err(Error::OutcomeUnknown { .. })), "{put:?}");
        disk.fail_flushes(false);
        clock.advance(secs(60));
        assert_sound(&store);
    });
}

#[test]
fn typed_tube_waits_for_the_end_of_tasks() {
    with_timeout(|| {
        let store = store_in_memory();
        let numbers =
            store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap().typed::<u64>();
        let wait = Wait::begin(numbers.to_async().put_and_wait(7, NO_TIMEOUT));
        // A tube is drained until the put is visible.
        store.flush().unwrap();
        let done = Wait::begin(numbers.to_async().wait_done(0, NO_TIMEOUT));
        let drained = Wait::begin(numbers.to_async().wait_drained(NO_TIMEOUT));
        numbers.try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!(wait.answer().unwrap().1, Some(DONE));
        assert_eq!(done.answer(), Ok(Some(DONE)));
        assert_eq!(drained.answer(), Ok(true));
        assert_eq!(numbers.put_and_wait(8, ZERO).unwrap().0.id, 1);
        assert_eq!(numbers.wait_done(1, ZERO), Ok(None));
        assert_eq!(numbers.wait_drained(ZERO), Ok(false));
        assert_sound(&store);
    });
}

#[test]
fn waiting_caller_gets_the_last_failure_of_a_task_that_is_buried_without_one() {
    let store = stores::in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let id = tube.put("work").unwrap().id;
    let claim = tube.try_take().unwrap().unwrap();
    claim.fail(Failure::new("timeout", "no answer")).unwrap();
    let wait = wait_for(&tube, id);
    tube.admin().bury(id, None).unwrap();
    let ending = wait.answer().unwrap();
    let Some(Ending::Buried { failure: Some(failure) }) = &ending else { panic!("{ending:?}") };
    assert_eq!((failure.group.as_str(), failure.message.as_str()), ("timeout", "no answer"));
    assert_sound(&store);
}
