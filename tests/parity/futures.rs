//! Futures of single calls: they return what the blocking calls return, and block no thread.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use tubewell::{
    Claim, Error, FIFO, FIFOTTL, Filter, LIMFIFOTTL, Put, Store, TaskState, Ticket, TubeOptions,
    UTUBETTL,
};

use super::support::{
    Disk, SmallBuffer, WakeCount, block_on, eventually_ready, ms, poll_pending, timed_store,
    wait_all, wait_until, with_timeout,
};
use crate::jobs::refused_moves::Panics;
use crate::stores::{self, ManualClock};

const NO_TIMEOUT: Duration = Duration::MAX;

/// Polls a future, which must be pending. Returns a closure that waits for its result.
fn begin<T: 'static>(mut call: Ticket<T>) -> Box<dyn FnOnce()> {
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
        tube.admin().bury(id, None).unwrap();
        let tickets = small.fill();
        let options = || TubeOptions::new().temporary(true);
        let calls: Vec<Box<dyn FnOnce()>> = vec![
            begin(tube.to_async().put_timeout("x", NO_TIMEOUT)),
            begin(tube.to_async().admin().kick(Filter::new().limit(10))),
            begin(store.to_async().create_tube("a", options().driver(FIFO))),
            begin(store.to_async().create_tube("b", options().driver(FIFO))),
            begin(store.to_async().drop_tube("a")),
            begin(store.to_async().flush()),
            begin(store.to_async().admin().capacity()),
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

/// Changes stand in line, in the order of their calls. A read that was never polled has not begun.
#[test]
fn dropped_ticket_leaves_its_change_in_line() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let tickets = small.fill();
        let jobs = small.tube.to_async();
        let create = small.store.to_async().create_tube("new", TubeOptions::new().driver(FIFO));
        let mut polled = jobs.put("polled and dropped");
        poll_pending(&mut polled, Waker::noop());
        let waited = jobs.put("waited for");
        drop((create, polled, jobs.put("dropped"), jobs.take_timeout(NO_TIMEOUT)));
        let last = jobs.put("last");
        assert!(!waited.is_done() && !last.is_done());
        small.disk.unblock_flushes();
        let before = tickets.len() as u64;
        wait_all(tickets);
        let ids = [waited, last].map(|ticket| ticket.wait().unwrap().id);
        assert_eq!(ids, [before + 1, before + 3]);
        let tasks = small.tube.statistics().unwrap().tasks;
        assert_eq!((tasks.ready, tasks.taken), (before + 4, 0));
        small.store.find_tube("new").unwrap();
        small.assert_verified();
    });
}

/// Both puts find their tube full once they have space in the write buffer. One caller has gone by then.
#[test]
fn dropped_ticket_in_line_ends_the_wait_that_its_change_begins() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let options = TubeOptions::new().capacity(1);
        let one = small.store.create_tube("one", options.driver(LIMFIFOTTL)).unwrap();
        let first = one.put("first").unwrap().id;
        let tickets = small.fill();
        let puts = one.to_async();
        drop(puts.put_timeout("nobody waits", NO_TIMEOUT));
        let mut waiting = puts.put_timeout("somebody waits", NO_TIMEOUT);
        poll_pending(&mut waiting, Waker::noop());
        small.disk.unblock_flushes();
        wait_all(tickets);
        wait_until(|| one.info().unwrap().waiting_puts == 1);
        one.delete(first).unwrap();
        let second = block_on(waiting).unwrap().id;
        assert_eq!(one.query().task(second).unwrap().body, "somebody waits");
        small.assert_verified();
    });
}

/// Far more changes than the write buffer has rows, and than are made under one hold of the lock. Nobody waits
/// for any but the last.
#[test]
fn long_line_is_made_in_the_order_of_its_calls() {
    const CALLS: u64 = 1_000;
    with_timeout(|| {
        let small = SmallBuffer::new();
        let tickets = small.fill();
        let before = tickets.len() as u64;
        let jobs = small.tube.to_async();
        let mut last = jobs.put("0");
        for n in 1..CALLS {
            last = jobs.put(n.to_string());
        }
        small.disk.unblock_flushes();
        wait_all(tickets);
        assert_eq!(block_on(last).unwrap().id, before + CALLS - 1);
        let bodies = small.tube.query().tasks(TaskState::Ready, None, 2_000).unwrap().items;
        let bodies = bodies.iter().skip(usize::try_from(before).unwrap());
        assert!(bodies.enumerate().all(|(n, task)| task.body.text() == n.to_string()));
        small.assert_verified();
    });
}

/// The write buffer is full of bytes long before it is full of rows, and no change waits for a flush.
#[test]
fn line_of_large_bodies_in_memory_ends() {
    with_timeout(|| {
        let options = Store::options().max_pending(10_000, 1 << 16);
        let store = stores::serve(options.open_in_memory().unwrap());
        let options = TubeOptions::new().temporary(true);
        let jobs = store.create_tube("work", options.driver(FIFO)).unwrap().to_async();
        let tickets: Vec<_> = (0..200).map(|_| jobs.put(vec![b'x'; 4096])).collect();
        wait_all(tickets);
        assert_eq!(jobs.statistics().wait().unwrap().tasks.ready, 200);
    });
}

/// A producer keeps the line full. A thread that blocks for space gets some, and so does the sweeper.
#[test]
fn line_leaves_space_to_blocked_threads_and_to_the_sweeper() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let timed = small.store.create_tube("timed", TubeOptions::new()).unwrap();
        let is_over = AtomicBool::new(false);
        thread::scope(|scope| {
            let producer = scope.spawn(|| {
                let jobs = small.tube.to_async();
                let mut window = VecDeque::new();
                while !is_over.load(Ordering::SeqCst) {
                    window.push_back(jobs.put("x"));
                    if window.len() > 100 {
                        window.pop_front().unwrap().wait().unwrap();
                    }
                }
                wait_all(window);
            });
            let taken = (0..10).map(|_| {
                let id = timed.put(Put::new("soon").delay(ms(1)))?.id;
                let claim = timed.take_timeout(NO_TIMEOUT)?.expect("it waits without a limit");
                let taken = claim.id();
                claim.ack().map(|_| taken == id)
            });
            let taken = taken.collect::<Result<Vec<bool>, Error>>();
            is_over.store(true, Ordering::SeqCst);
            producer.join().unwrap();
            assert_eq!(taken, Ok(vec![true; 10]));
        });
    });
}

/// The driver panics in the thread that carries out the call, which goes on.
#[test]
fn panic_of_a_driver_in_line_is_the_answer_of_its_call() {
    with_timeout(|| {
        let disk = std::sync::Arc::new(Disk::default());
        let options = Store::options().max_pending(20, 1 << 20).driver(Panics);
        let store = stores::serve(disk.open(options));
        let tube = store.create_tube("work", TubeOptions::new().driver("panics")).unwrap();
        let jobs = tube.to_async();
        let mut tickets = vec![disk.block_flush_of(|| jobs.put("in flight"))];
        while tickets.last().unwrap().refusal().is_none() {
            tickets.push(jobs.clone().refuse_when_full().put("pending"));
        }
        tickets.pop();
        let panics = jobs.put("panic");
        let next = jobs.put("next");
        disk.unblock_flushes();
        wait_all(tickets);
        assert!(matches!(panics.wait(), Err(Error::OutcomeUnknown { .. })));
        next.wait().unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

/// The ticket and all handles of the session go before the call is made.
#[test]
fn session_lasts_until_its_call_in_line_is_made() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let id = small.tube.put("x").unwrap().id;
        let session = small.store.session("").unwrap();
        let own = session.tube(&small.tube).unwrap();
        let _ = own.claim(id).unwrap().detach();
        let tickets = small.fill();
        drop(own.to_async().claimed(id).wait().unwrap().ack());
        drop((own, session));
        small.disk.unblock_flushes();
        wait_all(tickets);
        small.store.flush().unwrap();
        assert_eq!(small.tube.statistics().unwrap().tasks.done, 1);
        small.assert_verified();
    });
}

/// A refusal waits for the flush of the change that has caused it, and is an answer then.
#[test]
fn ticket_of_a_refusal_that_has_waited_is_done() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let jobs = small.tube.to_async();
        let put = || jobs.put(Put::new("x").key("k"));
        let first = small.disk.block_flush_of(put);
        let second = put();
        assert!(!second.is_done() && second.refusal().is_none());
        small.disk.unblock_flushes();
        first.wait().unwrap();
        wait_until(|| second.is_done());
        assert!(matches!(second.wait(), Err(Error::KeyInUse { .. })));
    });
}

/// A close carries out what stands in line.
#[test]
fn close_leaves_no_change_in_line() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let tickets = small.fill();
        let in_line = small.tube.to_async().put("in line");
        drop(small.tube.to_async().put("in line, too"));
        thread::scope(|scope| {
            let closer = scope.spawn(|| small.store.close());
            wait_until(|| small.tube.try_take().err() == Some(Error::Closed));
            small.disk.unblock_flushes();
            closer.join().unwrap().unwrap();
        });
        let count = tickets.len() as u64 + 2;
        wait_all(tickets);
        assert!(in_line.is_done());
        in_line.wait().unwrap();
        let store = small.disk.open(tubewell::Store::options());
        assert_eq!(store.find_tube("work").unwrap().statistics().unwrap().tasks.ready, count);
    });
}

#[test]
fn future_dropped_after_its_decision_takes_effect() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let create = || small.store.to_async().create_tube("new", TubeOptions::new().driver(FIFO));
        drop(small.disk.block_flush_of(create));
        small.disk.unblock_flushes();
        small.store.flush().unwrap();
        small.store.find_tube("new").unwrap();
        small.assert_verified();
    });
}

#[test]
fn flush_resolves_after_the_flush() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let commit = small.store.flush().unwrap();
        assert_eq!(
            block_on(small.store.to_async().flush()),
            Ok(commit),
            "nothing was to be flushed"
        );
        let mut flush = small.store.to_async().flush();
        let put = small.disk.block_flush_of(|| {
            let put = small.tube.to_async().put("x");
            poll_pending(&mut flush, Waker::noop());
            put
        });
        let mut next = small.store.to_async().flush();
        poll_pending(&mut next, Waker::noop());
        small.disk.unblock_flushes();
        let flushed = block_on(flush).unwrap();
        put.wait().unwrap();
        assert!(flushed > commit);
        assert_eq!(block_on(next), Ok(flushed), "the flush in flight has all changes");
        stores::close(&small.store);
        assert_eq!(block_on(small.store.to_async().flush()), Err(Error::Closed));
    });
}

#[test]
fn failed_flush_resolves_to_outcome_unknown() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        small.disk.fail_flushes(true);
        let put = small.tube.to_async().put_timeout("x", NO_TIMEOUT);
        assert!(matches!(block_on(put), Err(Error::OutcomeUnknown { .. })));
        let flush = block_on(small.store.to_async().flush());
        assert!(matches!(flush, Err(Error::Unavailable { .. })), "{flush:?}");
        small.disk.fail_flushes(false);
    });
}

#[test]
fn peek_waits_for_the_flush_of_a_change() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let id = small.tube.put("x").unwrap().id;
        assert_eq!(block_on(small.tube.to_async().query().task(id)).unwrap().body, b"x");
        assert_eq!(
            block_on(small.tube.to_async().query().task(99)),
            Err(Error::NotFound { id: 99 })
        );
        let deferred = small.tube.to_async();
        let delete = small.disk.block_flush_of(|| deferred.delete(id));
        let mut peek = small.tube.to_async().query().task(id);
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
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        for receipt in tube.put_many((0..BURIED).map(|n| n.to_string())).unwrap() {
            drop(tube.to_async().admin().bury(receipt.id, None));
        }
        let before = store.flush().unwrap();
        assert_eq!(block_on(tube.to_async().admin().kick(Filter::new().limit(600))), Ok(600));
        assert_eq!(store.flush().unwrap(), before + 2);
        assert_eq!(block_on(tube.to_async().admin().kick(Filter::new())), Ok(500));
        assert_eq!(block_on(tube.to_async().admin().kick(Filter::new())), Ok(0));
        assert_eq!(tube.statistics().unwrap().tasks.ready, BURIED);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

#[test]
fn create_and_drop_return_what_the_blocking_calls_return() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let options = TubeOptions::new;
        let jobs = block_on(store.to_async().create_tube("jobs", options().driver(FIFO))).unwrap();
        let again =
            block_on(store.to_async().create_tube("jobs", options().driver(FIFO))).map(drop);
        assert_eq!(again, Err(Error::TubeExists { name: "jobs".into() }));
        let session = store.session("").unwrap();
        let same = store.to_async().open_tube("jobs", options().driver(FIFO));
        assert_eq!(block_on(same).unwrap().name(), "jobs");
        let own = session.to_async().tube(&jobs).unwrap();
        assert_eq!((own.session(), own.name()), (session.id(), jobs.name()));
        jobs.put("x").wait().unwrap();
        let claim = own.try_take().wait().unwrap().unwrap();
        let busy = block_on(store.to_async().drop_tube("jobs"));
        assert!(matches!(busy, Err(Error::TubeBusy { .. })));
        claim.ack().wait().unwrap();
        block_on(store.to_async().drop_tube("jobs")).unwrap();
        assert!(matches!(jobs.put("x").wait(), Err(Error::TubeDropped { .. })));
        let gone = block_on(store.to_async().drop_tube("jobs"));
        assert_eq!(gone, Err(Error::TubeNotFound { name: "jobs".into(), similar: None }));
    });
}

#[test]
fn take_many_waits_for_the_first_task_only() {
    with_timeout(|| {
        let (store, clock) = timed_store();
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        assert_eq!(block_on(tube.to_async().take_many(0, NO_TIMEOUT)).unwrap().len(), 0);
        let mut late = tube.to_async().take_many(10, ms(5));
        poll_pending(&mut late, Waker::noop());
        clock.advance(ms(5));
        assert_eq!(block_on(late).unwrap().len(), 0);
        let mut take = tube.to_async().take_many(600, NO_TIMEOUT);
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
        let mut dropped = tube.to_async().take_many(2, NO_TIMEOUT);
        poll_pending(&mut dropped, Waker::noop());
        drop(first);
        drop(dropped);
        wait_until(|| tube.statistics().unwrap().tasks.ready == 500);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
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
            let tube = store.create_tube("work", TubeOptions::new().driver(driver)).unwrap();
            tube.put_many((0..EXPIRED).map(|_| Put::new("expired").ttl(ms(1000)))).unwrap();
            tube.put("alive").unwrap();
            stores::close(&store);
            let later = ManualClock::at(wall + ms(2000));
            let store = stores::open_with(&path, Store::options().clock(later));
            let tube = store.find_tube("work").unwrap();
            let claim = block_on(tube.to_async().take_timeout(NO_TIMEOUT)).unwrap().unwrap();
            assert_eq!(claim.body(), b"alive");
            let calls = tube.statistics().unwrap().calls;
            assert!(calls.ttl >= EXPIRED / 2, "{} tasks expired", calls.ttl);
            claim.ack().wait().unwrap();
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        }
    });
}

#[test]
fn futures_may_be_sent_to_other_threads() {
    with_timeout(|| {
        let (store, _clock) = timed_store();
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        let puts = (0..4).map(|n| tube.to_async().put_timeout(format!("{n}"), NO_TIMEOUT));
        let threads: Vec<_> = puts.map(|put| thread::spawn(|| block_on(put).unwrap())).collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap().state, TaskState::Ready);
        }
        assert_eq!(
            eventually_ready(&mut tube.to_async().admin().kick(Filter::new().limit(1))),
            Ok(0)
        );
    });
}
