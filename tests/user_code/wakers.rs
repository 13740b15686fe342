//! Wakers of futures and of tickets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use tubewell::{
    Error, FIFOTTL, LIMFIFOTTL, ManualClock, Put, Receipt, Store, Ticket, Tube, TubeOptions,
};

use super::support::{
    Disk, create_tube, new_store, poll_pending, wait_until, waker_calling, with_timeout,
};

fn put_deferred(tube: &Tube) -> Ticket<Receipt> {
    tube.to_async().put("later")
}

/// Two tickets. The flush of the first is blocked, and its waker makes this call. The second is in
/// the next commit; the writer thread is asked to lead that commit before it wakes the first
/// ticket.
fn blocked_tickets(
    disk: &Disk,
    tube: &Tube,
    on_wake: impl Fn() + Send + Sync + 'static,
) -> [Ticket<Receipt>; 2] {
    let mut first = disk.block_flush_of(|| put_deferred(tube));
    poll_pending(&mut first, &waker_calling(on_wake));
    [first, put_deferred(tube)]
}

#[test]
fn panicking_waker_does_not_block_other_tickets() {
    with_timeout(|| {
        let (disk, _store, tube) = new_store();
        let blocked = disk.block_flush_of(|| put_deferred(&tube));
        let (mut first, mut second) = (put_deferred(&tube), put_deferred(&tube));
        poll_pending(&mut first, &waker_calling(|| panic!("a waker panics")));
        let woken = Arc::new(AtomicBool::new(false));
        let set_woken = woken.clone();
        poll_pending(&mut second, &waker_calling(move || set_woken.store(true, Ordering::SeqCst)));
        disk.unblock_flushes();
        blocked.wait().unwrap();
        wait_until(|| woken.load(Ordering::SeqCst));
        assert!(first.is_done() && second.wait().is_ok());
        tube.put("the store still works").unwrap();
    });
}

#[test]
fn panicking_waker_does_not_block_next_waiting_taker() {
    with_timeout(|| {
        let (_disk, store, tube) = new_store();
        let mut first = tube.to_async().take_timeout(Duration::MAX);
        poll_pending(&mut first, &waker_calling(|| panic!("a waker panics")));
        thread::scope(|scope| {
            let second = scope.spawn(|| tube.take().unwrap().id());
            wait_until(|| store.tubes().unwrap()[0].waiting == 2);
            let put = tube.put_many(["for the first", "for the second"]).unwrap();
            assert_eq!(second.join().unwrap(), put[1].id);
        });
        drop(first);
        assert_eq!(tube.statistics().unwrap().tasks.ready, 2);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

#[test]
fn ticket_waker_may_close_the_store() {
    with_timeout(|| {
        let (disk, store, tube) = new_store();
        let closed = Arc::new(Mutex::new(None));
        let (result, to_close) = (closed.clone(), store.clone());
        let tickets = blocked_tickets(&disk, &tube, move || {
            *result.lock().unwrap() = Some(to_close.close());
        });
        disk.unblock_flushes();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        wait_until(|| closed.lock().unwrap().is_some());
        assert_eq!(*closed.lock().unwrap(), Some(Ok(())));
        assert!(disk.is_closed.load(Ordering::SeqCst));
        assert_eq!(tube.put("too late"), Err(Error::Closed));
    });
}

/// The writer thread runs the waker, and was asked to lead the commit that the waker waits for.
#[test]
fn ticket_waker_may_wait_for_a_commit() {
    let calls: [fn(&Store, &Tube); 6] = [
        |store, _| assert!(store.admin().capacity().is_ok()),
        |store, _| assert!(store.by_key("none").is_ok()),
        // Whether there is none depends on the changes under way.
        |store, _| assert!(store.find(u64::MAX).is_ok()),
        |_, tube| assert!(tube.put("durable").is_ok()),
        |store, _| assert!(store.flush().is_ok()),
        |_, tube| assert!(put_deferred(tube).wait().is_ok()),
    ];
    for call in calls {
        with_timeout(move || {
            let (disk, store, tube) = new_store();
            let done = Arc::new(AtomicBool::new(false));
            let (is_done, handles) = (done.clone(), (store.clone(), tube.clone()));
            let tickets = blocked_tickets(&disk, &tube, move || {
                call(&handles.0, &handles.1);
                is_done.store(true, Ordering::SeqCst);
            });
            disk.unblock_flushes();
            wait_until(|| done.load(Ordering::SeqCst));
            for ticket in tickets {
                ticket.wait().unwrap();
            }
        });
    }
}

/// The truncate admits a waiting put, whose task goes to the future. The truncate has still to lead
/// its own commit when it wakes the future.
#[test]
fn waker_run_by_truncate_may_wait_for_a_commit() {
    with_timeout(|| {
        let (_disk, store, log) = new_store();
        let options = TubeOptions::new().temporary(true).capacity(1);
        let full = store.create_tube("full", options.driver(LIMFIFOTTL)).unwrap();
        full.put("taken").unwrap();
        let _taken = full.try_take().unwrap().unwrap();
        let mut take = full.to_async().take_timeout(Duration::MAX);
        let to_log = log.clone();
        poll_pending(&mut take, &waker_calling(move || assert!(to_log.put("woken").is_ok())));
        thread::scope(|scope| {
            let putter =
                scope.spawn(|| full.put_timeout("waits for space", Duration::MAX).unwrap());
            wait_until(|| store.tubes().unwrap().iter().any(|tube| tube.waiting_puts == 1));
            full.admin().truncate().unwrap();
            putter.join().unwrap();
        });
        assert_eq!(log.statistics().unwrap().tasks.ready, 1);
    });
}

/// The second delay elapses while the change of the first task is still to be flushed.
#[test]
fn waker_run_by_manual_clock_may_wait_for_a_commit() {
    with_timeout(|| {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let log = create_tube(&store, "log");
        let delayed = store.create_tube("delayed", TubeOptions::new().driver(FIFOTTL)).unwrap();
        for millis in [1000, 1050] {
            delayed.put(Put::new("later").delay(Duration::from_millis(millis))).unwrap();
        }
        let mut takes = [
            delayed.to_async().take_timeout(Duration::MAX),
            delayed.to_async().take_timeout(Duration::MAX),
        ];
        let to_log = log.clone();
        let putting = waker_calling(move || assert!(to_log.put("woken").is_ok()));
        for (take, waker) in takes.iter_mut().zip([Waker::noop(), &putting]) {
            poll_pending(take, waker);
        }
        clock.advance(Duration::from_secs(2));
        assert_eq!(log.statistics().unwrap().tasks.ready, 1);
    });
}

/// A waker that puts a task when it is dropped, as the last handle of an async task may do.
struct PutOnDrop(Tube);

impl Wake for PutOnDrop {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PutOnDrop {
    fn drop(&mut self) {
        self.0.put("from a dropped waker").unwrap();
    }
}

#[test]
fn replaced_waker_may_put_when_it_is_dropped() {
    with_timeout(|| {
        let (_disk, _store, tube) = new_store();
        let mut take = tube.to_async().take_timeout(Duration::MAX);
        poll_pending(&mut take, &Arc::new(PutOnDrop(tube.clone())).into());
        poll_pending(&mut take, Waker::noop());
        drop(take);
        assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
    });
}

/// The closing thread waits for the writer thread. That thread runs a waker, which waits until the
/// storage is closed and then closes the store too.
#[test]
fn waker_may_close_the_store_while_a_thread_closes_it() {
    for _ in 0..20 {
        with_timeout(|| {
            let (disk, store, tube) = new_store();
            let (to_close, waker_disk) = (store.clone(), disk.clone());
            let tickets = blocked_tickets(&disk, &tube, move || {
                wait_until(|| waker_disk.is_closed.load(Ordering::SeqCst));
                to_close.close().unwrap();
            });
            thread::scope(|scope| {
                let closer = scope.spawn(|| store.close());
                disk.unblock_flushes();
                closer.join().unwrap().unwrap();
            });
            drop(tickets);
        });
    }
}

#[test]
fn concurrent_closes_return_after_the_store_is_closed() {
    with_timeout(|| {
        let (disk, store, tube) = new_store();
        let blocked = disk.block_flush_of(|| put_deferred(&tube));
        thread::scope(|scope| {
            let close = || {
                store.close().unwrap();
                assert!(disk.is_closed.load(Ordering::SeqCst));
            };
            let closers = [scope.spawn(close), scope.spawn(close)];
            wait_until(|| tube.try_take().err() == Some(Error::Closed));
            disk.unblock_flushes();
            for closer in closers {
                closer.join().unwrap();
            }
        });
        blocked.wait().unwrap();
    });
}

/// Regression: the leader woke the takers of a commit before it had given the commit its outcome,
/// so that the wait never ended.
#[test]
fn waker_of_taker_may_wait_for_the_commit_that_put_its_task() {
    with_timeout(|| {
        let (disk, store, tube) = new_store();
        let other = create_tube(&store, "other");
        let blocked = disk.block_flush_of(|| put_deferred(&other));
        let ticket = Arc::new(Mutex::new(None::<Ticket<Receipt>>));
        let waited = Arc::new(Mutex::new(None));
        let (to_wait_for, result) = (ticket.clone(), waited.clone());
        let mut take = tube.to_async().take_timeout(Duration::MAX);
        let wait_for_ticket = move || {
            let ticket = to_wait_for.lock().unwrap().take();
            *result.lock().unwrap() = ticket.map(Ticket::wait);
        };
        poll_pending(&mut take, &waker_calling(wait_for_ticket));
        // The commit after the blocked one.
        *ticket.lock().unwrap() = Some(put_deferred(&tube));
        disk.unblock_flushes();
        blocked.wait().unwrap();
        wait_until(|| waited.lock().unwrap().is_some());
        assert!(waited.lock().unwrap().as_ref().is_some_and(Result::is_ok));
        drop(take);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}
