//! Calls by id whose answers come later.

use std::time::{Duration, UNIX_EPOCH};

use tubewell::{
    AsyncClaim, AsyncTube, Error, FIFO, FIFOTTL, Failure, Filter, Outcome, Put, Receipt, Result,
    TaskState, Ticket, TubeOptions,
};

use super::executor::eventually_ready;
use super::support::{SmallBuffer, ms, timed_store, wait_all, with_timeout};
use crate::options::only;

fn held(tube: &AsyncTube, id: u64) -> AsyncClaim {
    tube.claimed(id).wait().unwrap()
}

/// The answer of a deferred call, which may be refused at once or by its ticket.
fn answer<T>(ticket: Ticket<T>) -> Result<()> {
    ticket.wait().map(drop)
}

#[test]
fn touch_extends_the_claim_of_the_session() {
    let (store, clock) = timed_store();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let deferred = tube.to_async();
    let id = tube.put(Put::new("x").ttr(ms(10))).unwrap().id;
    assert_eq!(answer(deferred.claimed(id)), Err(Error::NotTaken { id }));
    let _ = tube.try_take().unwrap().unwrap().detach();
    assert_eq!(held(&deferred, id).touch(Duration::ZERO).wait(), Ok(None));
    assert_eq!(held(&deferred, id).touch(ms(5)).wait().unwrap().unwrap().state, TaskState::Taken);
    clock.advance(ms(14));
    tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
}

#[test]
fn attempts_are_reported_by_id() {
    let (store, _clock) = timed_store();
    let options = TubeOptions::new().max_attempts(2);
    let tube = store.create_tube("work", options.driver(FIFOTTL)).unwrap();
    let deferred = tube.to_async();
    let timeout = Failure::new("timeout", "no answer");
    let taken = || tube.try_take().unwrap().unwrap().detach().info.id;
    let id = tube.put("x").unwrap().id;
    assert_eq!(answer(deferred.claimed(id)), Err(Error::NotTaken { id }));
    taken();
    let nameless = answer(held(&deferred, id).fail(Failure::new("", "no answer")));
    assert!(matches!(nameless, Err(Error::Invalid { .. })), "{nameless:?}");
    let state = |ticket: Ticket<Receipt>| ticket.wait().unwrap().state;
    assert_eq!(state(held(&deferred, id).end(Outcome::snooze(Duration::ZERO))), TaskState::Ready);
    taken();
    assert_eq!(state(held(&deferred, id).fail(timeout.clone())), TaskState::Ready);
    taken();
    assert_eq!(
        state(held(&deferred, id).end(Outcome::fail_in(ms(5), timeout.clone()))),
        TaskState::Buried
    );
    tube.admin().kick(Filter::new().limit(1)).unwrap();
    taken();
    assert_eq!(
        state(held(&deferred, id).end(Outcome::fail_in(Duration::ZERO, timeout.clone()))),
        TaskState::Ready
    );
    taken();
    assert_eq!(state(held(&deferred, id).bury(timeout.clone())), TaskState::Buried);
    assert_eq!(tube.query().task(id).unwrap().info.group.as_deref(), Some("timeout"));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// It takes two steps, the first of which is made by the call.
#[test]
fn kick_begins_with_its_call_and_ends_with_its_ticket() {
    let (store, _clock) = timed_store();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    for receipt in tube.put_many((0..600).map(|n| n.to_string())).unwrap() {
        tube.to_async().admin().bury(receipt.id, None).wait().unwrap();
    }
    let deferred = tube.to_async();
    assert_eq!(deferred.admin().kick(Filter::new().limit(10)).wait(), Ok(10));
    let ticket = deferred.admin().kick(Filter::new());
    store.flush().unwrap();
    assert_eq!(tube.statistics().unwrap().tasks.ready, 522);
    assert_eq!(ticket.wait(), Ok(590));
    assert_eq!(deferred.admin().kick(Filter::new()).wait(), Ok(0));
    assert_eq!(tube.statistics().unwrap().tasks.ready, 600);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

#[test]
fn truncate_takes_effect_with_its_flush() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        small.tube.put_many(["a", "b"]).unwrap();
        let deferred = small.tube.to_async().refuse_when_full();
        let ticket = small.disk.block_flush_of(|| deferred.admin().truncate());
        assert!(!ticket.is_done());
        small.disk.unblock_flushes();
        ticket.wait().unwrap();
        assert_eq!(small.tube.statistics().unwrap().tasks.total, 0);
        small.assert_verified();
    });
}

/// No task can be taken once the pause is decided, and it is stored with its ticket.
#[test]
fn pause_and_alter_take_effect_before_their_flush() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let (tube, disk) = (&small.tube, &small.disk);
        tube.put_many(["a", "b"]).unwrap();
        let deferred = tube.to_async().refuse_when_full();
        let mut ticket = disk.block_flush_of(|| deferred.admin().pause());
        assert!(!ticket.is_done() && tube.try_take().unwrap().is_none());
        disk.unblock_flushes();
        ticket.wait().unwrap();
        ticket = disk.block_flush_of(|| deferred.admin().unpause());
        let _ = tube.try_take().unwrap().unwrap().detach();
        disk.unblock_flushes();
        ticket.wait().unwrap();
        let options = tube.info().unwrap().options().max_taken(1);
        ticket = disk.block_flush_of(|| deferred.admin().alter(only(options)));
        assert!(!ticket.is_done() && tube.try_take().unwrap().is_none());
        disk.unblock_flushes();
        ticket.wait().unwrap();
        deferred.admin().pause_for(ms(3_600_000)).wait().unwrap();
        let info = tube.info().unwrap();
        assert!(info.paused && info.max_taken == Some(1));
        small.assert_verified();
    });
}

#[test]
fn calls_are_refused_while_the_write_buffer_is_full() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        let id = small.tube.put("x").unwrap().id;
        let tickets = small.fill();
        let deferred = small.tube.to_async().refuse_when_full();
        let refused = [
            deferred.put("x").wait().map(drop),
            deferred.put_many(["x"]).wait().map(drop),
            deferred.admin().bury(id, None).wait().map(drop),
            deferred.admin().kick(Filter::new().limit(1)).wait().map(drop),
            deferred.delete(id).wait().map(drop),
            deferred.admin().truncate().wait().map(drop),
            deferred.admin().pause().wait().map(drop),
            deferred.admin().pause_for(ms(1)).wait().map(drop),
            deferred.admin().pause_until(UNIX_EPOCH).wait().map(drop),
            deferred.admin().unpause().wait().map(drop),
            deferred.admin().alter(only(TubeOptions::new())).wait().map(drop),
            deferred.admin().pause_sub_queue("x", ms(1)).wait().map(drop),
            deferred.admin().unpause_sub_queue("x").wait().map(drop),
        ];
        assert!(refused.iter().all(|answer| *answer == Err(Error::Overloaded)), "{refused:?}");
        small.disk.unblock_flushes();
        wait_all(tickets);
        small.assert_verified();
    });
}

/// The store is open: an error that says otherwise would end a caller for good.
#[test]
fn future_that_is_polled_again_says_that_its_answer_was_returned() {
    let (store, _clock) = timed_store();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFO)).unwrap();
    let mut ticket = tube.to_async().put("x");
    eventually_ready(&mut ticket).unwrap();
    let again = eventually_ready(&mut ticket);
    assert!(matches!(again, Err(Error::Invalid { .. })), "{again:?}");
    let waited = ticket.wait();
    assert!(matches!(waited, Err(Error::Invalid { .. })), "{waited:?}");

    tube.put("y").unwrap();
    let mut take = tube.to_async().take_timeout(Duration::MAX);
    let claim = eventually_ready(&mut take).unwrap().unwrap();
    let again = eventually_ready(&mut take);
    assert!(matches!(again, Err(Error::Invalid { .. })), "{again:?}");
    assert_eq!(tube.statistics().unwrap().tasks.taken, 1);
    drop(claim);
}
