//! Suspend while a store is open.

use std::time::Duration;

use tubewell::{EventKind, Filter, Put};

use crate::support::{DAY, HOUR, MICRO, START, StoreFile};

#[test]
fn deadlines_in_suspend_are_processed_in_order_at_resume() {
    let file = StoreFile::new();
    let run = file.open();
    run.put("second", |put| put.delay(2 * HOUR));
    run.put("first", |put| put.delay(HOUR));
    run.put("expiring", |put| put.ttl(Duration::from_secs(5400)));
    run.put("later", |put| put.delay(3 * HOUR));
    let events = run.store.events(Filter::new(), 100).unwrap();
    file.clock.suspend(2 * HOUR);
    let delivered: Vec<_> =
        std::iter::from_fn(|| events.try_recv()).map(|event| (event.id, event.kind)).collect();
    let expected =
        [(1, EventKind::Delay), (2, EventKind::Delete), (2, EventKind::Ttl), (0, EventKind::Delay)];
    assert_eq!(delivered, expected);
    assert_eq!(run.timeline(), START + 2 * HOUR);
    assert_eq!(run.take_all(), ["second", "first"]);
    run.close();
}

#[test]
fn suspend_does_not_count_for_claims_and_session_grace() {
    let file = StoreFile::new();
    let run = file.open_with(file.options().session_grace(HOUR));
    run.put("taken", |put| put.ttr(HOUR));
    run.put("of other session", |put| put.ttr(2 * HOUR));
    let claim = run.tube.try_take().unwrap().unwrap();
    let session = run.store.session("").unwrap();
    let other_session = session.tube(&run.tube).unwrap();
    let _ = other_session.try_take().unwrap().unwrap().detach();
    drop((other_session, session));
    file.clock.advance(HOUR / 2);
    file.clock.suspend(30 * DAY);
    assert_eq!(run.ready_and_delayed(), (0, 0));
    file.clock.advance(HOUR / 2 - MICRO);
    assert_eq!(run.ready_and_delayed(), (0, 0));
    claim.ack().unwrap();
    file.clock.advance(MICRO);
    assert_eq!(run.take_all(), ["of other session"]);
    run.close();
}

/// The ttl counts suspended time, also for a taken task. The holder gets `NotTaken`.
#[test]
fn ttl_of_taken_task_elapses_in_suspend() {
    let file = StoreFile::new();
    let run = file.open();
    run.put("expiring", |put| put.ttl(HOUR).ttr(2 * HOUR));
    let claim = run.tube.try_take().unwrap().unwrap();
    file.clock.suspend(HOUR);
    assert!(matches!(claim.ack(), Err(tubewell::Error::NotTaken { .. })));
    assert_eq!(run.ready_and_delayed(), (0, 0));
    run.close();
}

#[test]
fn timeline_follows_wall_clock_through_suspends() {
    let file = StoreFile::new();
    let mut expected = START;
    for step in 1_u32..50 {
        let run = file.open();
        let (awake, asleep) = (MICRO * step * 7919, MICRO * step * 104_729);
        let id = run.tube.put(Put::new("x").delay(awake + asleep)).unwrap().id;
        file.clock.advance(awake);
        file.clock.suspend(asleep - MICRO);
        assert_eq!(run.tube.query().task(id).unwrap().info.due_in, Some(MICRO));
        file.clock.suspend(MICRO);
        assert_eq!(run.take_all(), ["x"]);
        expected += awake + asleep;
        assert_eq!(run.timeline(), expected);
        assert_eq!(run.store.admin().clock_report().unwrap().wall, expected);
        run.close();
    }
}
