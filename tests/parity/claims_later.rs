//! Claims whose calls return tickets: they do what the blocking calls do, check this claim, and stand in line
//! while the write buffer is full.

use std::time::Duration;

use tubewell::{
    AsyncClaim, Claim, Error, FIFO, FIFOTTL, Outcome, Put, Receipt, Store, TaskState, Ticket, Tube,
    TubeOptions,
};

use super::support::{Disk, SmallBuffer, ms, timed_store, wait_all, wait_until, with_timeout};
use crate::options::only;
use crate::stores;

type EndingCall = fn(AsyncClaim) -> Ticket<Receipt>;

/// The calls that end a claim, and the state of the task after each.
const ENDING: [(EndingCall, TaskState); 4] = [
    (AsyncClaim::ack, TaskState::Done),
    (|claim| claim.bury(None), TaskState::Buried),
    (|claim| claim.release(), TaskState::Ready),
    (|claim| claim.release_in(ms(1000)), TaskState::Delayed),
];

fn timed_tube(store: &Store) -> Tube {
    store.create_tube("timed", TubeOptions::new().driver(FIFOTTL)).unwrap()
}

fn take(tube: &Tube) -> AsyncClaim {
    tube.try_take().unwrap().unwrap().into_async()
}

#[test]
fn call_of_a_claim_ends_it_before_its_ticket_is_answered() {
    for (call, state) in ENDING {
        let (store, _clock) = timed_store();
        let tube = timed_tube(&store);
        let id = tube.put("x").unwrap().id;
        let ticket = call(take(&tube));
        assert_eq!(tube.claimed(id).and_then(tubewell::Claim::ack), Err(Error::NotTaken { id }));
        let receipt = ticket.wait().unwrap();
        assert_eq!((receipt.id, receipt.state), (id, state));
        let tasks = tube.statistics().unwrap().tasks;
        let counts = [tasks.done, tasks.buried, tasks.ready, tasks.delayed];
        assert_eq!((tasks.taken, counts.iter().sum::<u64>()), (0, 1));
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}

#[test]
fn touch_with_a_ticket_extends_the_claim() {
    let (store, clock) = timed_store();
    let tube = timed_tube(&store);
    let id = tube.put(Put::new("x").ttr(ms(100))).unwrap().id;
    let claim = take(&tube);
    assert_eq!(claim.touch(Duration::ZERO).wait(), Ok(None));
    assert_eq!(claim.touch(ms(50)).wait().unwrap().unwrap().state, TaskState::Taken);
    clock.advance(ms(149));
    assert_eq!(tube.query().task(id).unwrap().info.ttr, Some(ms(150)));
    assert_eq!(claim.expires_in().wait(), Ok(Some(ms(1))));
    claim.renew(ms(10)).wait().unwrap();
    assert_eq!(claim.is_current().wait(), Ok(true));
    claim.ack().wait().unwrap();
}

/// The same session takes the task again. The calls of the first claim must not end the second.
#[test]
fn call_of_an_expired_claim_does_not_end_the_next_claim() {
    for (call, _) in ENDING {
        let (store, clock) = timed_store();
        let tube = timed_tube(&store);
        let id = tube.put(Put::new("x").ttr(ms(10))).unwrap().id;
        let first = take(&tube);
        clock.advance(ms(10));
        let second = take(&tube);
        assert_eq!(first.touch(ms(5)).wait(), Err(Error::NotTaken { id }));
        assert_eq!(call(first).wait(), Err(Error::NotTaken { id }));
        assert_eq!(tube.statistics().unwrap().tasks.taken, 1);
        second.ack().wait().unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }
}

/// One ticket is waited for, the other is dropped.
#[test]
fn ends_stand_in_line_while_the_write_buffer_is_full() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let claims = [(); 2].map(|()| small.put_and_take().into_async());
        let tickets = small.fill();
        let [first, second] = claims.map(AsyncClaim::ack);
        assert_eq!(small.tube.statistics().unwrap().tasks.taken, 2, "a claim was dropped");
        drop(first);
        small.disk.unblock_flushes();
        wait_all(tickets);
        second.wait().unwrap();
        assert_eq!(small.tube.statistics().unwrap().tasks.done, 2);
        small.assert_verified();
    });
}

/// The tube has no delays, which is known when the call is made. Its handle has gone by then.
#[test]
fn end_that_is_refused_in_line_releases_the_task() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let claim = small.put_and_take().into_async();
        let id = claim.id();
        let tickets = small.fill();
        let ticket = claim.release_in(ms(1));
        small.disk.unblock_flushes();
        wait_all(tickets);
        assert!(matches!(ticket.wait(), Err(Error::Unsupported { .. })));
        assert_eq!(small.tube.query().task(id).unwrap().info.state, TaskState::Ready);
        small.assert_verified();
    });
}

/// The attempt is forgiven, as if it had been accepted.
#[test]
fn snooze_that_is_refused_in_line_forgives_the_attempt() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        small.tube.admin().alter(only(TubeOptions::new().max_attempts(3))).unwrap();
        let claims = [(); 2].map(|()| small.put_and_take().into_async());
        let ids = [claims[0].id(), claims[1].id()];
        let tickets = small.fill();
        let [first, second] = claims;
        let (snoozed, released) = (first.end(Outcome::snooze(ms(1))), second.release_in(ms(1)));
        small.disk.unblock_flushes();
        wait_all(tickets);
        assert!(snoozed.wait().is_err() && released.wait().is_err());
        let left = ids.map(|id| small.tube.query().task(id).unwrap().info.attempts_left);
        assert_eq!(left, [Some(3), Some(2)]);
        small.assert_verified();
    });
}

/// Each claim is the last handle of its session.
#[test]
fn sessions_last_until_the_call_on_their_claims_is_made() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        small.tube.put_many(["a", "b"]).unwrap();
        let claims: Vec<AsyncClaim> = (0..2)
            .map(|_| {
                let own = small.store.session("").unwrap().tube(&small.tube).unwrap();
                own.try_take().unwrap().unwrap().into_async()
            })
            .collect();
        let tickets = small.fill();
        drop(Claim::end_many(claims, |_| Outcome::done()));
        small.disk.unblock_flushes();
        wait_all(tickets);
        small.store.flush().unwrap();
        assert_eq!(small.tube.statistics().unwrap().tasks.done, 2);
        small.assert_verified();
    });
}

#[test]
fn end_that_is_refused_at_once_releases_the_task() {
    let (store, _clock) = timed_store();
    let tube = store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("x").unwrap();
    assert!(matches!(take(&tube).release_in(ms(1)).wait(), Err(Error::Unsupported { .. })));
    assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
    let claim = take(&tube).into_blocking();
    assert!(matches!(claim.release_in(ms(1)), Err(Error::Unsupported { .. })));
    assert_eq!(tube.statistics().unwrap().tasks.ready, 1);
}

#[test]
fn end_that_is_refused_during_an_outage_releases_the_task() {
    with_timeout(|| {
        let disk = std::sync::Arc::new(Disk::default());
        let store = stores::serve(disk.open(Store::options()));
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
        tube.put_many(["a", "b"]).unwrap();
        let claim = take(&tube);
        disk.fail_flushes(true);
        assert!(matches!(tube.put("lost"), Err(Error::OutcomeUnknown { .. })));
        let refused = claim.ack().wait();
        assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
        disk.fail_flushes(false);
        wait_until(|| store.flush().is_ok());
        let claims = tube.take_many(3, Duration::MAX).unwrap();
        assert_eq!(claims.len(), 3);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

#[test]
fn call_on_a_closed_store_is_refused_at_once() {
    let (store, _clock) = timed_store();
    let tube = timed_tube(&store);
    tube.put("x").unwrap();
    let claim = take(&tube);
    store.close().unwrap();
    let refused = claim.bury(None);
    // The owner of a connection has not decided it.
    if !stores::are_connections() {
        assert_eq!(refused.refusal(), Some(&Error::Closed));
    }
    assert_eq!(refused.wait(), Err(Error::Closed));
}

#[test]
fn ack_many_with_a_ticket_has_one_result_for_each_claim() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        small.tube.put_many(["a", "b", "c"]).unwrap();
        let tickets = small.fill();
        let claims: Vec<AsyncClaim> =
            small.tube.to_async().take_many(3, Duration::MAX).wait().unwrap();
        // One of the claims has ended when the call is made.
        let id = claims[1].id();
        let deleted = small.tube.to_async().delete(id);
        let acked = Claim::end_many(claims, |_| Outcome::done());
        small.disk.unblock_flushes();
        wait_all(tickets);
        deleted.wait().unwrap();
        let acked = acked.wait().unwrap();
        assert!(acked[0].is_ok() && acked[2].is_ok());
        assert_eq!(acked[1], Err(Error::NotTaken { id }));
        assert_eq!(
            Claim::end_many(Vec::<AsyncClaim>::new(), |_| Outcome::done()).wait(),
            Ok(vec![])
        );

        let other = SmallBuffer::new();
        let claims = vec![small.put_and_take().into_async(), other.put_and_take().into_async()];
        assert!(matches!(
            Claim::end_many(claims, |_| Outcome::done()).wait(),
            Err(Error::Invalid { .. })
        ));
        assert_eq!(other.tube.statistics().unwrap().tasks.taken, 0);
        small.assert_verified();
    });
}
