//! Calls by id whose answers come later.

use std::time::{Duration, UNIX_EPOCH};

use tubewell::{
    Error, FIFO, FIFOTTL, Failure, Put, Receipt, Result, TaskState, Ticket, TubeOptions,
};

use super::executor::eventually_ready;
use super::support::{SmallBuffer, ms, timed_store, wait_all, with_timeout};

/// The answer of a deferred call, which may be refused at once or by its ticket.
fn answer<T>(ticket: Ticket<T>) -> Result<()> {
    ticket.wait().map(drop)
}

#[test]
fn ack_many_returns_one_result_for_each_id() {
    let (store, _clock) = timed_store();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    tube.put_many(["a", "b"]).unwrap();
    let ids: Vec<u64> = tube
        .take_many(2, Duration::MAX)
        .unwrap()
        .into_iter()
        .map(|claim| claim.detach().info.id)
        .collect();
    let ticket = tube.to_async().ack_many(&[ids[0], 99, ids[1]]);
    let acked = ticket.wait().unwrap();
    assert!(acked[0].is_ok() && acked[2].is_ok());
    assert_eq!(acked[1], Err(Error::NotTaken { id: 99 }));
    assert_eq!(tube.statistics().unwrap().tasks.done, 2);
}

#[test]
fn touch_extends_the_claim_of_the_session() {
    let (store, clock) = timed_store();
    let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
    let deferred = tube.to_async();
    let id = tube.put(Put::new("x").ttr(ms(10))).unwrap().id;
    assert_eq!(answer(deferred.touch(id, ms(5))), Err(Error::NotTaken { id }));
    let _ = tube.try_take().unwrap().unwrap().detach();
    assert_eq!(deferred.touch(id, Duration::ZERO).wait(), Ok(None));
    assert_eq!(deferred.touch(id, ms(5)).wait().unwrap().unwrap().state, TaskState::Taken);
    clock.advance(ms(14));
    tube.ack(id).unwrap();
}

#[test]
fn attempts_are_reported_by_id() {
    let (store, _clock) = timed_store();
    let options = TubeOptions::new().max_attempts(2);
    let tube = store.create_tube("work", FIFOTTL, options).unwrap();
    let deferred = tube.to_async();
    let timeout = Failure::new("timeout", "no answer");
    let taken = || tube.try_take().unwrap().unwrap().detach().info.id;
    let id = tube.put("x").unwrap().id;
    assert_eq!(answer(deferred.fail(id, &timeout)), Err(Error::NotTaken { id }));
    taken();
    let nameless = answer(deferred.fail(id, &Failure::new("", "no answer")));
    assert!(matches!(nameless, Err(Error::Invalid { .. })), "{nameless:?}");
    let state = |ticket: Ticket<Receipt>| ticket.wait().unwrap().state;
    assert_eq!(state(deferred.snooze(id, Duration::ZERO)), TaskState::Ready);
    taken();
    assert_eq!(state(deferred.fail(id, &timeout)), TaskState::Ready);
    taken();
    assert_eq!(state(deferred.fail_in(id, ms(5), &timeout)), TaskState::Buried);
    tube.kick(1).unwrap();
    taken();
    assert_eq!(state(deferred.fail_in(id, Duration::ZERO, &timeout)), TaskState::Ready);
    taken();
    assert_eq!(state(deferred.bury_with(id, &timeout)), TaskState::Buried);
    assert_eq!(tube.peek(id).unwrap().info.group.as_deref(), Some("timeout"));
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

/// It takes two steps, the first of which is made by the call.
#[test]
fn kick_begins_with_its_call_and_ends_with_its_ticket() {
    let (store, _clock) = timed_store();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    for receipt in tube.put_many((0..600).map(|n| n.to_string())).unwrap() {
        tube.to_async().bury(receipt.id).wait().unwrap();
    }
    let deferred = tube.to_async();
    assert_eq!(deferred.kick(10).wait(), Ok(10));
    let ticket = deferred.kick(u64::MAX);
    store.flush().unwrap();
    assert_eq!(tube.statistics().unwrap().tasks.ready, 522);
    assert_eq!(ticket.wait(), Ok(590));
    assert_eq!(deferred.kick(u64::MAX).wait(), Ok(0));
    assert_eq!(tube.statistics().unwrap().tasks.ready, 600);
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn truncate_takes_effect_with_its_flush() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        small.tube.put_many(["a", "b"]).unwrap();
        let deferred = small.tube.to_async().refuse_when_full();
        let ticket = small.disk.block_flush_of(|| deferred.truncate());
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
        let mut ticket = disk.block_flush_of(|| deferred.pause());
        assert!(!ticket.is_done() && tube.try_take().unwrap().is_none());
        disk.unblock_flushes();
        ticket.wait().unwrap();
        ticket = disk.block_flush_of(|| deferred.unpause());
        let _ = tube.try_take().unwrap().unwrap().detach();
        disk.unblock_flushes();
        ticket.wait().unwrap();
        let options = tube.info().unwrap().options().max_taken(1);
        ticket = disk.block_flush_of(|| deferred.alter(options));
        assert!(!ticket.is_done() && tube.try_take().unwrap().is_none());
        disk.unblock_flushes();
        ticket.wait().unwrap();
        deferred.pause_for(ms(3_600_000)).wait().unwrap();
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
            deferred.ack(id).wait().map(drop),
            deferred.ack_many(&[id]).wait().map(drop),
            deferred.release(id, ms(1)).wait().map(drop),
            deferred.touch(id, ms(1)).wait().map(drop),
            deferred.bury(id).wait().map(drop),
            deferred.kick(1).wait().map(drop),
            deferred.delete(id).wait().map(drop),
            deferred.truncate().wait().map(drop),
            deferred.pause().wait().map(drop),
            deferred.pause_for(ms(1)).wait().map(drop),
            deferred.pause_until(UNIX_EPOCH).wait().map(drop),
            deferred.unpause().wait().map(drop),
            deferred.alter(TubeOptions::new()).wait().map(drop),
            deferred.pause_sub_queue("x", ms(1)).wait().map(drop),
            deferred.unpause_sub_queue("x").wait().map(drop),
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
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
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
