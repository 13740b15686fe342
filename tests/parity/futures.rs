//! Futures of single calls: they return what the blocking calls return, and block no thread.

use std::task::Waker;
use std::thread;
use std::time::Duration;

use tubewell::{
    CallFuture, Claim, Error, FIFO, FIFOTTL, Put, Store, TaskState, TubeOptions, UTUBETTL, WhenFull,
};

use super::support::{
    SmallBuffer, WakeCount, block_on, eventually_ready, ms, poll_pending, timed_store, wait_all,
    wait_until, with_timeout,
};
use crate::stores::{self, ManualClock};

const NO_TIMEOUT: Option<Duration> = None;

/// Polls a future, which must be pending. Returns a closure that waits for its result.
fn begin<T: 'static>(mut call: CallFuture<T>) -> Box<dyn FnOnce()> {
    poll_pending(&mut call, Waker::noop());
    Box::new(move || drop(block_on(call)))
}

/// Each future is polled while the write buffer is full and its flush blocked. A poll that blocked
/// would never return.
#[test]
fn no_future_blocks_while_the_write_buffer_is_full() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let SmallBuffer { disk, store, tube } = &small;
        let id = tube.put("buried").unwrap().id;
        tube.bury(id).unwrap();
        let session = store.session();
        let tickets = small.fill();
        let options = || TubeOptions::new().temporary(true);
        let calls: Vec<Box<dyn FnOnce()>> = vec![
            begin(tube.put_wait_async("x", NO_TIMEOUT)),
            begin(tube.kick_async(10)),
            begin(tube.deferred(WhenFull::Refuse).capacity_async()),
            begin(store.create_tube_async("a", FIFO, options())),
            begin(session.create_tube_async("b", FIFO, options())),
            begin(store.drop_tube_async("a")),
            begin(store.flush_async()),
            begin(store.capacity_async()),
        ];
        disk.unblock_flushes();
        for finish in calls {
            finish();
        }
        wait_all(tickets);
        let names: Vec<String> = store.tubes().unwrap().into_iter().map(|info| info.name).collect();
        assert_eq!(names, ["b", "work"]);
        assert_eq!(tube.statistics().unwrap().tasks.buried, 0);
        small.assert_verified();
    });
}

#[test]
fn future_dropped_before_its_decision_changes_nothing() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let tickets = small.fill();
        let mut create = small.store.create_tube_async("new", FIFO, TubeOptions::new());
        let mut put = small.tube.put_wait_async("new", NO_TIMEOUT);
        poll_pending(&mut create, Waker::noop());
        poll_pending(&mut put, Waker::noop());
        drop((create, put));
        drop(small.tube.kick_async(1));
        small.disk.unblock_flushes();
        let count = tickets.len() as u64;
        wait_all(tickets);
        assert_eq!(small.tube.statistics().unwrap().tasks.total, count);
        assert_eq!(small.store.tubes().unwrap().len(), 1);
        small.assert_verified();
    });
}

#[test]
fn future_dropped_after_its_decision_takes_effect() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let mut create = small.store.create_tube_async("new", FIFO, TubeOptions::new());
        small.disk.block_flush_of(|| poll_pending(&mut create, Waker::noop()));
        drop(create);
        small.disk.unblock_flushes();
        small.store.flush().unwrap();
        small.store.tube("new").unwrap();
        small.assert_verified();
    });
}

#[test]
fn flush_resolves_after_the_flush() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let commit = small.store.flush().unwrap();
        assert_eq!(block_on(small.store.flush_async()), Ok(commit), "nothing was to be flushed");
        let mut flush = small.store.flush_async();
        let put = small.disk.block_flush_of(|| {
            let put = small.tube.deferred(WhenFull::Block).put("x").unwrap();
            poll_pending(&mut flush, Waker::noop());
            put
        });
        let mut next = small.store.flush_async();
        poll_pending(&mut next, Waker::noop());
        small.disk.unblock_flushes();
        let flushed = block_on(flush).unwrap();
        put.wait().unwrap();
        assert!(flushed > commit);
        assert_eq!(block_on(next), Ok(flushed), "the flush in flight has all changes");
        stores::close(&small.store);
        assert_eq!(block_on(small.store.flush_async()), Err(Error::Closed));
    });
}

#[test]
fn failed_flush_resolves_to_outcome_unknown() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        small.disk.fail_flushes(true);
        let put = small.tube.put_wait_async("x", NO_TIMEOUT);
        assert!(matches!(block_on(put), Err(Error::OutcomeUnknown { .. })));
        let flush = block_on(small.store.flush_async());
        assert!(matches!(flush, Err(Error::Unavailable { .. })), "{flush:?}");
        small.disk.fail_flushes(false);
    });
}

#[test]
fn peek_waits_for_the_flush_of_a_change() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let id = small.tube.put("x").unwrap().id;
        assert_eq!(block_on(small.tube.peek_async(id)).unwrap().body, b"x");
        assert_eq!(block_on(small.tube.peek_async(99)), Err(Error::NotFound { id: 99 }));
        let deferred = small.tube.deferred(WhenFull::Block);
        let delete = small.disk.block_flush_of(|| deferred.delete(id).unwrap());
        let mut peek = small.tube.peek_async(id);
        let wakes = WakeCount::default();
        poll_pending(&mut peek, &wakes.waker());
        small.disk.unblock_flushes();
        delete.wait().unwrap();
        assert_eq!(block_on(peek), Err(Error::NotFound { id }));
    });
}

#[test]
fn kick_makes_all_tasks_ready_in_several_commits() {
    const BURIED: u64 = 1100;
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
        for receipt in tube.put_many((0..BURIED).map(|n| n.to_string())).unwrap() {
            drop(tube.deferred(WhenFull::Block).bury(receipt.id).unwrap());
        }
        let before = store.flush().unwrap();
        assert_eq!(block_on(tube.kick_async(600)), Ok(600));
        assert_eq!(store.flush().unwrap(), before + 2);
        assert_eq!(block_on(tube.kick_async(u64::MAX)), Ok(500));
        assert_eq!(block_on(tube.kick_async(u64::MAX)), Ok(0));
        assert_eq!(tube.statistics().unwrap().tasks.ready, BURIED);
        assert_eq!(store.verify().unwrap(), [""; 0]);
    });
}

#[test]
fn create_and_drop_return_what_the_blocking_calls_return() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let options = TubeOptions::new;
        let jobs = block_on(store.create_tube_async("jobs", FIFO, options())).unwrap();
        let again = block_on(store.create_tube_async("jobs", FIFO, options())).map(drop);
        assert_eq!(again, Err(Error::TubeExists { name: "jobs".into() }));
        let session = store.session();
        let own = block_on(session.create_tube_async("jobs", FIFO, options().if_not_exists(true)));
        let own = own.unwrap();
        assert_eq!((own.session(), own.name()), (session.id(), jobs.name()));
        jobs.put("x").unwrap();
        let claim = own.try_take().unwrap().unwrap();
        let busy = block_on(store.drop_tube_async("jobs"));
        assert!(matches!(busy, Err(Error::TubeBusy { .. })));
        claim.ack().unwrap();
        block_on(store.drop_tube_async("jobs")).unwrap();
        assert!(matches!(jobs.put("x"), Err(Error::TubeDropped { .. })));
        let gone = block_on(store.drop_tube_async("jobs"));
        assert_eq!(gone, Err(Error::TubeNotFound { name: "jobs".into(), similar: None }));
    });
}

#[test]
fn take_many_waits_for_the_first_task_only() {
    with_timeout(|| {
        let (store, clock) = timed_store();
        let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
        assert_eq!(block_on(tube.take_many_async(0, NO_TIMEOUT)).unwrap().len(), 0);
        let mut late = tube.take_many_async(10, ms(5));
        poll_pending(&mut late, Waker::noop());
        clock.advance(ms(5));
        assert_eq!(block_on(late).unwrap().len(), 0);
        let mut take = tube.take_many_async(600, NO_TIMEOUT);
        poll_pending(&mut take, Waker::noop());
        let ids: Vec<u64> = tube
            .put_many((0..500).map(|n| n.to_string()))
            .unwrap()
            .into_iter()
            .map(|receipt| receipt.id)
            .collect();
        let claims = block_on(take).unwrap();
        assert_eq!(claims.iter().map(Claim::id).collect::<Vec<_>>(), ids);
        drop(claims);
        // A dropped future releases the task that was assigned to it.
        let first = tube.take_many(500, Duration::ZERO).unwrap();
        let mut dropped = tube.take_many_async(2, NO_TIMEOUT);
        poll_pending(&mut dropped, Waker::noop());
        drop(first);
        drop(dropped);
        wait_until(|| tube.statistics().unwrap().tasks.ready == 500);
        assert_eq!(store.verify().unwrap(), [""; 0]);
    });
}

/// More expired tasks than one commit should hold, before the sweeper has removed them: the take
/// waits for the commit without blocking its thread.
#[test]
fn take_does_not_block_while_expired_tasks_wait_for_their_commit() {
    const EXPIRED: u64 = 3000;
    with_timeout(|| {
        for driver in [FIFOTTL, UTUBETTL] {
            let dir = tempfile::tempdir().unwrap();
            let path = dir.path().join("store");
            let wall = Duration::from_secs(1_800_000_000);
            let store = stores::open_with(&path, Store::options().clock(ManualClock::at(wall)));
            let tube = store.create_tube("work", driver, TubeOptions::new()).unwrap();
            tube.put_many((0..EXPIRED).map(|_| Put::new("expired").ttl(ms(1000)))).unwrap();
            tube.put("alive").unwrap();
            stores::close(&store);
            let later = ManualClock::at(wall + ms(2000));
            let store = stores::open_with(&path, Store::options().clock(later));
            let tube = store.tube("work").unwrap();
            let claim = block_on(tube.take_async(NO_TIMEOUT)).unwrap().unwrap();
            assert_eq!(claim.body(), b"alive");
            let calls = tube.statistics().unwrap().calls;
            assert!(calls.ttl >= EXPIRED / 2, "{} tasks expired", calls.ttl);
            claim.ack().unwrap();
            assert_eq!(store.verify().unwrap(), [""; 0]);
        }
    });
}

#[test]
fn futures_may_be_sent_to_other_threads() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
        let puts = (0..4).map(|n| tube.put_wait_async(format!("{n}"), NO_TIMEOUT));
        let threads: Vec<_> = puts.map(|put| thread::spawn(|| block_on(put).unwrap())).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap().state, TaskState::Ready);
        }
        assert_eq!(eventually_ready(&mut tube.kick_async(1)), Ok(0));
    });
}
