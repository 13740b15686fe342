//! Deferred calls by id.

use std::time::{Duration, UNIX_EPOCH};

use tubewell::{
    Error, FIFO, FIFOTTL, Failure, Put, Receipt, Result, TaskState, Ticket, TubeOptions, WhenFull,
};

use super::executor::eventually_ready;
use super::support::{SmallBuffer, ms, timed_store, wait_all, with_timeout};

/// The answer of a deferred call, which may be refused at once or by its ticket.
fn answer<T>(ticket: Result<Ticket<T>>) -> Result<()> {
    ticket?.wait().map(drop)
}

#[test]
fn ack_many_returns_one_result_for_each_id() {
    let (store, _clock) = timed_store();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    tube.put_many(["a", "b"]).unwrap();
    let ids: Vec<u64> =
        tube.take_many(2, None).unwrap().into_iter().map(|claim| claim.detach().info.id).collect();
    let ticket = tube.deferred(WhenFull::Block).ack_many(&[ids[0], 99, ids[1]]).unwrap();
    let acked = ticket.wait().unwrap();
    assert!(acked[0].is_ok() && acked[2].is_ok());
    assert_eq!(acked[1], Err(Error::NotTaken { id: 99 }));
    assert_eq!(tube.statistics().unwrap().tasks.done, 2);
}

#[test]
fn touch_extends_the_claim_of_the_session() {
    let (store, clock) = timed_store();
    let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
    let deferred = tube.deferred(WhenFull::Block);
    let id = tube.put(Put::new("x").ttr(ms(10))).unwrap().id;
    assert_eq!(answer(deferred.touch(id, ms(5))), Err(Error::NotTaken { id }));
    let _ = tube.try_take().unwrap().unwrap().detach();
    assert_eq!(deferred.touch(id, Duration::ZERO).unwrap().wait(), Ok(None));
    assert_eq!(deferred.touch(id, ms(5)).unwrap().wait().unwrap().unwrap().state, TaskState::Taken);
    clock.advance(ms(14));
    tube.ack(id).unwrap();
}

#[test]
fn attempts_are_reported_by_id() {
    let (store, _clock) = timed_store();
    let options = TubeOptions::new().max_attempts(2);
    let tube = store.create_tube("work", FIFOTTL, options).unwrap();
    let deferred = tube.deferred(WhenFull::Block);
    let timeout = Failure::new("timeout", "no answer");
    let taken = || tube.try_take().unwrap().unwrap().detach().info.id;
    let id = tube.put("x").unwrap().id;
    assert_eq!(answer(deferred.fail(id, &timeout)), Err(Error::NotTaken { id }));
    taken();
    let nameless = answer(deferred.fail(id, &Failure::new("", "no answer")));
    assert!(matches!(nameless, Err(Error::Invalid { .. })), "{nameless:?}");
    let state = |ticket: Result<Ticket<Receipt>>| ticket.unwrap().wait().unwrap().state;
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

#[test]
fn kick_makes_at_most_512_tasks_ready() {
    let (store, _clock) = timed_store();
    let tube = store.create_tube("work", FIFO, TubeOptions::new()).unwrap();
    for receipt in tube.put_many((0..600).map(|n| n.to_string())).unwrap() {
        tube.deferred(WhenFull::Block).bury(receipt.id).unwrap().wait().unwrap();
    }
    let deferred = tube.deferred(WhenFull::Block);
    assert_eq!(deferred.kick(10).unwrap().wait(), Ok(10));
    assert_eq!(deferred.kick(u64::MAX).unwrap().wait(), Ok(512));
    assert_eq!(deferred.kick(u64::MAX).unwrap().wait(), Ok(78));
    assert_eq!(deferred.kick(u64::MAX).unwrap().wait(), Ok(0));
    assert_eq!(tube.statistics().unwrap().tasks.ready, 600);
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

#[test]
fn truncate_takes_effect_with_its_flush() {
    with_timeout(|| {
        let small = SmallBuffer::new();
        small.tube.put_many(["a", "b"]).unwrap();
        let deferred = small.tube.deferred(WhenFull::Refuse);
        let ticket = small.disk.block_flush_of(|| deferred.truncate().unwrap());
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
        let deferred = tube.deferred(WhenFull::Refuse);
        let mut ticket = disk.block_flush_of(|| deferred.pause().unwrap());
        assert!(!ticket.is_done() && tube.try_take().unwrap().is_none());
        disk.unblock_flushes();
        ticket.wait().unwrap();
        ticket = disk.block_flush_of(|| deferred.unpause().unwrap());
        let _ = tube.try_take().unwrap().unwrap().detach();
        disk.unblock_flushes();
        ticket.wait().unwrap();
        let options = tube.info().unwrap().options().max_taken(1);
        ticket = disk.block_flush_of(|| deferred.alter(options).unwrap());
        assert!(!ticket.is_done() && tube.try_take().unwrap().is_none());
        disk.unblock_flushes();
        ticket.wait().unwrap();
        deferred.pause_for(ms(3_600_000)).unwrap().wait().unwrap();
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
        let deferred = small.tube.deferred(WhenFull::Refuse);
        assert_eq!(deferred.when_full(), WhenFull::Refuse);
        let refused = [
            deferred.put("x").map(drop),
            deferred.put_many(["x"]).map(drop),
            deferred.ack(id).map(drop),
            deferred.ack_many(&[id]).map(drop),
            deferred.release(id, ms(1)).map(drop),
            deferred.touch(id, ms(1)).map(drop),
            deferred.bury(id).map(drop),
            deferred.kick(1).map(drop),
            deferred.delete(id).map(drop),
            deferred.truncate().map(drop),
            deferred.pause().map(drop),
            deferred.pause_for(ms(1)).map(drop),
            deferred.pause_until(UNIX_EPOCH).map(drop),
            deferred.unpause().map(drop),
            deferred.alter(TubeOptions::new()).map(drop),
            deferred.pause_sub_queue("x", ms(1)).map(drop),
            deferred.unpause_sub_queue("x").map(drop),
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
    let mut ticket = tube.deferred(WhenFull::Block).put("x").unwrap();
    eventually_ready(&mut ticket).unwrap();
    let again = eventually_ready(&mut ticket);
    assert!(matches!(again, Err(Error::Invalid { .. })), "{again:?}");
    let waited = ticket.wait();
    assert!(matches!(waited, Err(Error::Invalid { .. })), "{waited:?}");

    tube.put("y").unwrap();
    let mut take = tube.take_async(None);
    let claim = eventually_ready(&mut take).unwrap().unwrap();
    let again = eventually_ready(&mut take);
    assert!(matches!(again, Err(Error::Invalid { .. })), "{again:?}");
    assert_eq!(tube.statistics().unwrap().tasks.taken, 1);
    drop(claim);
}
