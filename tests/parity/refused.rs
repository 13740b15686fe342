//! Deferred calls of a claim: they do what the blocking calls do, check this claim, and give it
//! back if they are refused.

use std::error::Error as _;
use std::time::Duration;

use tubewell::{
    Claim, Error, FIFO, FIFOTTL, Put, Receipt, Refused, Result, Store, TaskState, Ticket, Tube,
    TubeOptions, WhenFull,
};

use super::support::{Disk, SmallBuffer, ms, timed_store, wait_all, wait_until, with_timeout};
use crate::stores;

type EndingCall = fn(Claim, WhenFull) -> Result<Ticket<Receipt>, Refused>;

/// The deferred calls that end a claim, and the state of the task after each.
const ENDING: [(EndingCall, TaskState); 4] = [
    (Claim::ack_deferred, TaskState::Done),
    (Claim::bury_deferred, TaskState::Buried),
    (|claim, when_full| claim.release_deferred(Duration::ZERO, when_full), TaskState::Ready),
    (|claim, when_full| claim.release_deferred(ms(1000), when_full), TaskState::Delayed),
];

fn timed_tube(store: &Store) -> Tube {
    store.create_tube("timed", FIFOTTL, TubeOptions::new()).unwrap()
}

fn take(tube: &Tube) -> Claim {
    tube.try_take().unwrap().unwrap()
}

#[test]
fn deferred_call_of_a_claim_ends_it() {
    for (call, state) in ENDING {
        let (store, _clock) = timed_store();
        let tube = timed_tube(&store);
        let id = tube.put("x").unwrap().id;
        let ticket = call(take(&tube), WhenFull::Block).unwrap();
        assert_eq!(tube.ack(id), Err(Error::NotTaken { id }));
        let receipt = ticket.wait().unwrap();
        assert_eq!((receipt.id, receipt.state), (id, state));
        let tasks = tube.statistics().unwrap().tasks;
        let counts = [tasks.done, tasks.buried, tasks.ready, tasks.delayed];
        assert_eq!((tasks.taken, counts.iter().sum::<u64>()), (0, 1));
        assert_eq!(store.verify().unwrap(), [""; 0]);
    }
}

#[test]
fn touch_deferred_extends_the_claim() {
    let (store, clock) = timed_store();
    let tube = timed_tube(&store);
    let id = tube.put(Put::new("x").ttr(ms(100))).unwrap().id;
    let claim = take(&tube);
    assert_eq!(claim.touch_deferred(Duration::ZERO, WhenFull::Block).unwrap().wait(), Ok(None));
    let ticket = claim.touch_deferred(ms(50), WhenFull::Block).unwrap();
    assert_eq!(ticket.wait().unwrap().unwrap().state, TaskState::Taken);
    clock.advance(ms(149));
    assert_eq!(tube.peek(id).unwrap().info.ttr, Some(ms(150)));
    claim.ack_deferred(WhenFull::Block).unwrap().wait().unwrap();
}

/// The same session takes the task again. The deferred calls of the first claim must not end the
/// second.
#[test]
fn deferred_call_of_an_expired_claim_does_not_end_the_next_claim() {
    for (call, _) in ENDING {
        let (store, clock) = timed_store();
        let tube = timed_tube(&store);
        let id = tube.put(Put::new("x").ttr(ms(10))).unwrap().id;
        let first = take(&tube);
        clock.advance(ms(10));
        let second = take(&tube);
        let touched = first.touch_deferred(ms(5), WhenFull::Block).map(drop);
        assert_eq!(touched, Err(Error::NotTaken { id }));
        let refused = call(first, WhenFull::Block).unwrap_err();
        assert_eq!(refused.error(), &Error::NotTaken { id });
        // The handle comes back. Its claim has ended, so dropping it releases nothing.
        drop(refused.into_claim());
        assert_eq!(tube.statistics().unwrap().tasks.taken, 1);
        second.ack().unwrap();
        assert_eq!(store.verify().unwrap(), [""; 0]);
    }
}

#[test]
fn overloaded_call_gives_the_claim_back() {
    for (call, _) in ENDING.into_iter().take(2) {
        with_timeout(move || {
            let small = SmallBuffer::new();
            let claim = small.put_and_take();
            let (id, epoch) = (claim.id(), claim.epoch());
            let tickets = small.fill();
            let refused = call(claim, WhenFull::Refuse).unwrap_err();
            assert_eq!(refused.error(), &Error::Overloaded);
            assert_eq!(refused.to_string(), Error::Overloaded.to_string());
            assert!(refused.source().is_none());
            assert_eq!((refused.claim().id(), refused.claim().epoch()), (id, epoch));
            let (claim, error) = refused.into_parts();
            assert_eq!(error, Error::Overloaded);
            assert_eq!(small.tube.statistics().unwrap().tasks.taken, 1, "the claim was dropped");
            small.disk.unblock_flushes();
            wait_all(tickets);
            call(claim, WhenFull::Block).unwrap().wait().unwrap();
            small.assert_verified();
        });
    }
}

#[test]
fn deferred_ack_claim_gives_the_claim_back() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let claim = small.put_and_take();
        let tickets = small.fill();
        let refused = claim.ack_deferred(WhenFull::Refuse).unwrap_err();
        let touched = refused.claim().touch_deferred(ms(1), WhenFull::Refuse).map(drop);
        assert_eq!(touched, Err(Error::Overloaded));
        small.disk.unblock_flushes();
        wait_all(tickets);
        refused.into_claim().ack_deferred(WhenFull::Block).unwrap().wait().unwrap();
    });
}

#[test]
fn dropping_a_refusal_releases_the_task() {
    fn ack(claim: Claim) -> Result<Receipt> {
        claim.ack_deferred(WhenFull::Refuse)?.wait()
    }
    with_timeout(|| {
        let small = SmallBuffer::new();
        let (first, second) = (small.put_and_take(), small.put_and_take());
        let tickets = small.fill();
        drop(first.ack_deferred(WhenFull::Refuse).unwrap_err());
        assert_eq!(small.tube.statistics().unwrap().tasks.taken, 1);
        assert_eq!(ack(second), Err(Error::Overloaded));
        assert_eq!(small.tube.statistics().unwrap().tasks.taken, 0);
        small.disk.unblock_flushes();
        wait_all(tickets);
        small.assert_verified();
    });
}

/// A blocking release with a delay drops the claim, as documented. The deferred one gives it back.
#[test]
fn unsupported_delay_gives_the_claim_back() {
    let (store, _clock) = timed_store();
    let tube = store.create_tube("plain", FIFO, TubeOptions::new()).unwrap();
    tube.put("x").unwrap();
    let refused = take(&tube).release_deferred(ms(1), WhenFull::Block).unwrap_err();
    assert!(matches!(refused.error(), Error::Unsupported { .. }));
    assert_eq!(tube.statistics().unwrap().tasks.taken, 1);
    refused.into_claim().release_deferred(Duration::ZERO, WhenFull::Block).unwrap().wait().unwrap();
    assert!(matches!(take(&tube).release(ms(1)), Err(Error::Unsupported { .. })));
    assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
}

#[test]
fn call_refused_during_an_outage_succeeds_after_it() {
    with_timeout(|| {
        let disk = std::sync::Arc::new(Disk::default());
        let store = stores::serve(disk.open(Store::options()));
        let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
        tube.put_many(["a", "b"]).unwrap();
        let claim = take(&tube);
        disk.fail_flushes(true);
        assert!(matches!(tube.put("lost"), Err(Error::OutcomeUnknown { .. })));
        let mut refused = claim.ack_deferred(WhenFull::Block).unwrap_err();
        assert!(matches!(refused.error(), Error::Unavailable { .. }), "{refused:?}");
        disk.fail_flushes(false);
        wait_until(|| store.flush().is_ok());
        let ticket = loop {
            match refused.into_claim().ack_deferred(WhenFull::Block) {
                Ok(ticket) => break ticket,
                Err(again) => refused = again,
            }
        };
        ticket.wait().unwrap();
        assert_eq!(tube.statistics().unwrap().tasks.done, 1);
        assert_eq!(store.verify().unwrap(), [""; 0]);
    });
}

#[test]
fn call_on_a_closed_store_gives_the_handle_back() {
    let (store, _clock) = timed_store();
    let tube = timed_tube(&store);
    tube.put("x").unwrap();
    let claim = take(&tube);
    store.close().unwrap();
    let refused = claim.bury_deferred(WhenFull::Block).unwrap_err();
    assert_eq!(refused.error(), &Error::Closed);
    assert_eq!(refused.into_claim().body(), b"x");
}

#[test]
fn ack_many_deferred_acks_all_or_gives_all_back() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        small.tube.put_many(["a", "b", "c"]).unwrap();
        let claims = small.tube.take_many(3, None).unwrap();
        let tickets = small.fill();
        let refused = Claim::ack_many_deferred(claims, WhenFull::Refuse).unwrap_err();
        assert_eq!(refused.error(), &Error::Overloaded);
        let mut claims = refused.into_claim();
        assert_eq!((claims.len(), small.tube.statistics().unwrap().tasks.taken), (3, 3));
        small.disk.unblock_flushes();
        wait_all(tickets);

        let other = SmallBuffer::new();
        claims.push(other.put_and_take());
        let refused = Claim::ack_many_deferred(claims, WhenFull::Block).unwrap_err();
        assert!(matches!(refused.error(), Error::Invalid { .. }));
        let mut claims = refused.into_claim();
        claims.pop().unwrap().ack().unwrap();
        // One of the claims has ended. The others are acked.
        small.tube.delete(claims[1].id()).unwrap();
        let id = claims[1].id();
        let acked = Claim::ack_many_deferred(claims, WhenFull::Block).unwrap().wait().unwrap();
        assert!(acked[0].is_ok() && acked[2].is_ok());
        assert_eq!(acked[1], Err(Error::NotTaken { id }));
        assert_eq!(
            Claim::ack_many_deferred(Vec::<Claim>::new(), WhenFull::Block).unwrap().wait(),
            Ok(vec![])
        );
        small.assert_verified();
    });
}
