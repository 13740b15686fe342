//! Wakers: of futures and of tickets.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Wake, Waker};
use std::thread;
use std::time::Duration;

use tubewell::{
    Error, FIFOTTL, LIMFIFOTTL, ManualClock, Put, Receipt, Store, Ticket, Tube, TubeOptions,
    WhenFull,
};

use super::support::{Disk, in_time, store, tube, until, wait_with, waker};

fn put_later(tube: &Tube) -> Ticket<Receipt> {
    tube.deferred(WhenFull::Block).put("later").unwrap()
}

/// A ticket whose flush is held up, waited for with a waker that does this, and one more that will
/// share the next commit, which the writer thread is asked to lead before it wakes anybody.
fn held_up(
    disk: &Disk,
    tube: &Tube,
    what: impl Fn() + Send + Sync + 'static,
) -> [Ticket<Receipt>; 2] {
    let mut first = disk.hold_up(|| put_later(tube));
    wait_with(&mut first, &waker(what));
    [first, put_later(tube)]
}

#[test]
fn a_waker_that_panics_keeps_no_answer_from_the_others() {
    in_time(|| {
        let (disk, _store, tube) = store();
        let lead = disk.hold_up(|| put_later(&tube));
        let (mut first, mut second) = (put_later(&tube), put_later(&tube));
        wait_with(&mut first, &waker(|| panic!("a waker with a defect")));
        let woken = Arc::new(AtomicBool::new(false));
        let wakes = woken.clone();
        wait_with(&mut second, &waker(move || wakes.store(true, Ordering::SeqCst)));
        disk.let_go();
        lead.wait().unwrap();
        until(|| woken.load(Ordering::SeqCst));
        assert!(first.is_done() && second.wait().is_ok());
        tube.put("the store goes on").unwrap();
    });
}

#[test]
fn nor_a_task_from_the_next_in_line() {
    in_time(|| {
        let (_disk, store, tube) = store();
        let mut first = tube.take_async(None);
        wait_with(&mut first, &waker(|| panic!("a waker with a defect")));
        thread::scope(|scope| {
            let second = scope.spawn(|| tube.take(None).unwrap().unwrap().id());
            until(|| store.tubes()[0].waiting == 2);
            let put = tube.put_many(["for the first", "for the second"]).unwrap();
            assert_eq!(second.join().unwrap(), put[1].id);
        });
        drop(first);
        assert_eq!(tube.statistics().unwrap().tasks.ready, 2);
        assert_eq!(store.verify().unwrap(), [""; 0]);
    });
}

#[test]
fn a_waker_may_close_the_store() {
    in_time(|| {
        let (disk, store, tube) = store();
        let closed = Arc::new(Mutex::new(None));
        let (answer, to_close) = (closed.clone(), store.clone());
        let tickets = held_up(&disk, &tube, move || {
            *answer.lock().unwrap() = Some(to_close.close());
        });
        disk.let_go();
        for ticket in tickets {
            ticket.wait().unwrap();
        }
        until(|| closed.lock().unwrap().is_some());
        assert_eq!(*closed.lock().unwrap(), Some(Ok(())));
        assert!(disk.is_closed.load(Ordering::SeqCst));
        assert_eq!(tube.put("too late"), Err(Error::Closed));
    });
}

/// The writer thread wakes it, and was asked to lead the very commit that it waits for.
#[test]
fn a_waker_may_wait_for_a_commit() {
    let waits: [fn(&Store, &Tube); 3] = [
        |_, tube| assert!(tube.put("at once").is_ok()),
        |store, _| assert!(store.flush().is_ok()),
        |_, tube| assert!(put_later(tube).wait().is_ok()),
    ];
    for wait in waits {
        in_time(move || {
            let (disk, store, tube) = store();
            let done = Arc::new(AtomicBool::new(false));
            let (is_done, handles) = (done.clone(), (store.clone(), tube.clone()));
            let tickets = held_up(&disk, &tube, move || {
                wait(&handles.0, &handles.1);
                is_done.store(true, Ordering::SeqCst);
            });
            disk.let_go();
            until(|| done.load(Ordering::SeqCst));
            for ticket in tickets {
                ticket.wait().unwrap();
            }
        });
    }
}

/// The truncate lets a put in, whose task goes to the future; its own commit is still to be led.
#[test]
fn so_may_one_that_a_call_wakes_which_is_about_to_commit() {
    in_time(|| {
        let (_disk, store, log) = store();
        let options = TubeOptions::new().temporary(true).capacity(1);
        let full = store.create_tube("full", LIMFIFOTTL, options).unwrap();
        full.put("taken").unwrap();
        let _taken = full.try_take().unwrap().unwrap();
        let mut take = full.take_async(None);
        let to_log = log.clone();
        wait_with(&mut take, &waker(move || assert!(to_log.put("woken").is_ok())));
        thread::scope(|scope| {
            let putter = scope.spawn(|| full.put_wait("waits for room", None).unwrap());
            until(|| store.tubes().iter().any(|tube| tube.waiting_puts == 1));
            full.truncate().unwrap();
            putter.join().unwrap();
        });
        assert_eq!(log.statistics().unwrap().tasks.ready, 1);
    });
}

/// The second delay ends when that the first has ended is to be flushed.
#[test]
fn so_may_one_that_a_clock_wakes_which_is_moved_by_hand() {
    in_time(|| {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let log = tube(&store, "log");
        let delayed = store.create_tube("delayed", FIFOTTL, TubeOptions::new()).unwrap();
        for millis in [1000, 1050] {
            delayed.put(Put::new("later").delay(Duration::from_millis(millis))).unwrap();
        }
        let mut takes = [delayed.take_async(None), delayed.take_async(None)];
        let to_log = log.clone();
        let woken = waker(move || assert!(to_log.put("woken").is_ok()));
        for (take, waker) in takes.iter_mut().zip([Waker::noop(), &woken]) {
            wait_with(take, waker);
        }
        clock.advance(Duration::from_secs(2));
        assert_eq!(log.statistics().unwrap().tasks.ready, 1);
    });
}

/// The last handle of a task that is gone, say: what it owned may do anything.
struct PutsWhenDropped(Tube);

impl Wake for PutsWhenDropped {
    fn wake(self: Arc<Self>) {}
}

impl Drop for PutsWhenDropped {
    fn drop(&mut self) {
        self.0.put("for whoever waits").unwrap();
    }
}

#[test]
fn a_waker_that_another_one_takes_the_place_of_may_call_the_store_when_it_is_dropped() {
    in_time(|| {
        let (_disk, _store, tube) = store();
        let mut take = tube.take_async(None);
        wait_with(&mut take, &Arc::new(PutsWhenDropped(tube.clone())).into());
        wait_with(&mut take, Waker::noop());
        drop(take);
        assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
    });
}

/// The first closes on a thread that the second waits for, and the other way round.
#[test]
fn two_may_close_the_store_and_one_of_them_is_a_waker() {
    for _ in 0..20 {
        in_time(|| {
            let (disk, store, tube) = store();
            let (to_close, seen) = (store.clone(), disk.clone());
            let tickets = held_up(&disk, &tube, move || {
                until(|| seen.is_closed.load(Ordering::SeqCst));
                to_close.close().unwrap();
            });
            thread::scope(|scope| {
                let closes = scope.spawn(|| store.close());
                disk.let_go();
                closes.join().unwrap().unwrap();
            });
            drop(tickets);
        });
    }
}

#[test]
fn whoever_closes_a_store_that_another_is_closing_finds_it_closed() {
    in_time(|| {
        let (disk, store, tube) = store();
        let last = disk.hold_up(|| put_later(&tube));
        thread::scope(|scope| {
            let close = || {
                store.close().unwrap();
                assert!(disk.is_closed.load(Ordering::SeqCst));
            };
            let closers = [scope.spawn(close), scope.spawn(close)];
            until(|| tube.try_take().err() == Some(Error::Closed));
            disk.let_go();
            for closer in closers {
                closer.join().unwrap();
            }
        });
        last.wait().unwrap();
    });
}
