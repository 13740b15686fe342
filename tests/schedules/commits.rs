//! Who leads a commit, and how everyone learns its outcome.

use std::io;
use std::sync::{Arc, Mutex};

use shuttle::future::block_on;
use shuttle::thread;
use tubewell::{
    Error, FIFO, FIFOTTL, ManualClock, Put, Storage, Store, Tube, TubeOptions, WhenFull,
};

use crate::explore::explore;
use crate::stage::{FOR_EVER, Flag, end, ms, options, still, tube, with};

#[test]
fn everyone_who_puts_at_once_is_answered() {
    explore("everyone_who_puts_at_once", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let putters = ["a", "b", "c"].map(|text| {
            with(&tube, move |tube| [tube.put(text).unwrap(), tube.put(text).unwrap()])
        });
        for putter in putters {
            let [one, two] = putter.join().unwrap();
            assert!(one.commit < two.commit, "the first was acknowledged before the second");
        }
        assert_eq!(tube.statistics().unwrap().tasks.ready, 6);
        end(&store);
    });
}

/// Those who wake wake the others: nobody is left out, and the role is not lost on the way.
#[test]
fn a_crowd_that_shares_a_commit_wakes_to_the_last() {
    explore("a_crowd_that_shares_a_commit", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let crowd: Vec<_> =
            (0..8).map(|_| with(&tube, |tube| tube.put("x").unwrap().commit)).collect();
        for putter in crowd {
            assert!(putter.join().unwrap() > 0);
        }
        assert_eq!(tube.statistics().unwrap().tasks.ready, 8);
        end(&store);
    });
}

#[test]
fn every_ticket_is_answered_waited_for_awaited_or_dropped() {
    explore("every_ticket_is_answered", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let waits = with(&tube, |tube| {
            tube.deferred(WhenFull::Block).put("waited for").unwrap().wait().unwrap()
        });
        let awaits = with(&tube, |tube| {
            block_on(tube.deferred(WhenFull::Block).put("awaited").unwrap()).unwrap()
        });
        let drops =
            with(&tube, |tube| drop(tube.deferred(WhenFull::Block).put("dropped").unwrap()));
        let puts = tube.put("put").unwrap();
        drops.join().unwrap();
        let flushed = store.flush().unwrap();
        // Whoever led it: what was decided before is visible now.
        assert!(tube.statistics().unwrap().tasks.ready >= 2);
        for receipt in [puts, waits.join().unwrap(), awaits.join().unwrap()] {
            assert!(receipt.commit > 0 && receipt.commit <= store.flush().unwrap());
        }
        assert!(flushed > 0);
        assert_eq!(tube.statistics().unwrap().tasks.ready, 4);
        end(&store);
    });
}

#[test]
fn a_ticket_that_nobody_asks_for_is_flushed_by_whoever_flushes() {
    explore("a_ticket_that_nobody_asks_for", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let taker = with(&tube, |tube| tube.take(FOR_EVER).unwrap().unwrap().ack().unwrap());
        let ticket = tube.deferred(WhenFull::Block).put("x").unwrap();
        let flusher = {
            let store = store.clone();
            thread::spawn(move || store.flush().unwrap())
        };
        drop(ticket);
        let own = store.flush().unwrap();
        taker.join().unwrap();
        assert!(own > 0 && flusher.join().unwrap() > 0);
        end(&store);
    });
}

#[test]
fn a_full_lane_holds_callers_up_and_lets_all_of_them_go_on() {
    explore("a_full_lane_holds_callers_up", || {
        let store = options().max_pending(1, usize::MAX).open_in_memory().unwrap();
        let tube = tube(&store, FIFO);
        let putter = with(&tube, |tube| {
            tube.put("a").unwrap();
            tube.put("b").unwrap();
        });
        let deferring = with(&tube, |tube| {
            let deferred = tube.deferred(WhenFull::Block);
            let tickets = ["c", "d"].map(|text| deferred.put(text).unwrap());
            tickets.map(|ticket| ticket.wait().unwrap().id)
        });
        let refused = match tube.deferred(WhenFull::Refuse).put("e") {
            Ok(ticket) => ticket.wait().map(|_| 0).unwrap(),
            Err(error) => {
                assert_eq!(error, Error::Overloaded);
                1
            }
        };
        putter.join().unwrap();
        let _ = deferring.join().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.ready, 5 - refused);
        end(&store);
    });
}

/// Bytes in memory, and a switch that breaks the medium. Its lock is never waited for.
#[derive(Debug, Default)]
struct Brittle {
    bytes: Mutex<Vec<u8>>,
    broken: Flag,
}

#[derive(Debug)]
struct Plugged(Arc<Brittle>);

impl Plugged {
    fn check(&self) -> io::Result<()> {
        if self.0.broken.is_up() { Err(io::Error::other("it broke")) } else { Ok(()) }
    }
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Storage for Plugged {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.check()?;
        let bytes = self.0.bytes.lock().unwrap();
        let end = at(offset) + out.len();
        out.copy_from_slice(bytes.get(at(offset)..end).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.0.bytes.lock().unwrap().resize(at(len), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.0.bytes.lock().unwrap()[at(offset)..at(offset) + data.len()].copy_from_slice(data);
        Ok(())
    }
}

fn open(medium: &Arc<Brittle>) -> Store {
    options().open_on(Box::new(Plugged(medium.clone()))).unwrap()
}

fn failed(error: &Error) -> bool {
    matches!(error, Error::OutcomeUnknown { .. } | Error::Unavailable { .. })
}

#[test]
fn when_the_medium_breaks_everyone_is_told_and_nothing_acknowledged_is_lost() {
    explore("when_the_medium_breaks", || {
        let medium = Arc::new(Brittle::default());
        let store = open(&medium);
        let tube = tube(&store, FIFO);
        let idle = store.create_tube("idle", FIFO, TubeOptions::new()).unwrap();
        let waits = with(&idle, |idle| idle.take(FOR_EVER).map(|claim| claim.is_some()));
        let putters = ["a", "b"].map(|text| with(&tube, move |tube| tube.put(text)));
        let deferring = with(&tube, |tube| tube.deferred(WhenFull::Block).put("c")?.wait());
        medium.broken.raise();
        // Something must be written for the store to notice.
        assert!(failed(&tube.put("d").unwrap_err()));
        assert!(failed(&waits.join().unwrap().unwrap_err()));
        let mut kept: Vec<u64> = Vec::new();
        for answer in putters.map(|putter| putter.join().unwrap()) {
            match answer {
                Ok(receipt) => kept.push(receipt.id),
                Err(error) => assert!(failed(&error), "{error}"),
            }
        }
        match deferring.join().unwrap() {
            Ok(receipt) => kept.push(receipt.id),
            Err(error) => assert!(failed(&error), "{error}"),
        }
        assert!(store.close().is_err());
        drop((store, tube, idle));
        medium.broken.lower();
        let store = open(&medium);
        let tube = store.tube(FIFO).unwrap();
        for id in kept {
            tube.peek(id).unwrap();
        }
        end(&store);
    });
}

/// A store of which every look at the file may fail, that of the sweeper too; something is due in
/// it at 10 ms.
fn without_cache(medium: &Arc<Brittle>, clock: &ManualClock) -> (Store, Tube) {
    let medium = Box::new(Plugged(medium.clone()));
    let store = options().cache_size(0).clock(clock).open_on(medium).unwrap();
    let tube = tube(&store, FIFOTTL);
    tube.put(Put::new("late").delay(ms(10))).unwrap();
    (store, tube)
}

/// Puts, leading the commit if it comes first; then the sweeper meets a broken medium and stops
/// the store, while the role that was handed on may still be on its way.
fn put_and_break(tube: &Tube, medium: &Brittle, clock: &ManualClock) {
    let answer = tube.put("a");
    assert!(answer.as_ref().err().is_none_or(failed), "{answer:?}");
    medium.broken.raise();
    clock.advance(ms(10));
}

// The moments that these two stories are about come in a few schedules of a thousand: a change of
// who leads asks for a run of TUBEWELL_SCHEDULES=4000 or more.

#[test]
fn a_role_that_was_handed_over_when_the_store_fails_is_given_back() {
    explore("a_role_that_was_handed_over", || {
        let (medium, clock) = (Arc::new(Brittle::default()), ManualClock::new());
        let (store, tube) = without_cache(&medium, &clock);
        let puts = with(&tube, |tube| tube.put("b"));
        put_and_break(&tube, &medium, &clock);
        let answer = puts.join().unwrap();
        assert!(answer.as_ref().err().is_none_or(failed), "{answer:?}");
        assert!(store.close().is_err());
    });
}

#[test]
fn a_role_that_was_left_to_the_writer_when_the_store_fails_is_given_back() {
    explore("a_role_that_was_left_to_the_writer", || {
        let (medium, clock) = (Arc::new(Brittle::default()), ManualClock::new());
        let (store, tube) = without_cache(&medium, &clock);
        let defers = with(&tube, |tube| drop(tube.deferred(WhenFull::Block).put("b")));
        put_and_break(&tube, &medium, &clock);
        defers.join().unwrap();
        assert!(store.close().is_err());
    });
}
