//! Machines that sleep while a store is open.

use std::time::Duration;

use tubewell::{EventKind, Put};

use crate::support::{Bench, DAY, HOUR, MICRO, START};

#[test]
fn what_fell_due_in_a_suspend_is_done_when_it_is_over_and_in_order() {
    let bench = Bench::new();
    let life = bench.open();
    life.put("second", |put| put.delay(2 * HOUR));
    life.put("first", |put| put.delay(HOUR));
    life.put("mortal", |put| put.ttl(Duration::from_secs(5400)));
    life.put("later", |put| put.delay(3 * HOUR));
    let events = life.store.subscribe(100);
    bench.clock.suspend(2 * HOUR);
    let told: Vec<_> =
        std::iter::from_fn(|| events.try_recv()).map(|event| (event.id, event.kind)).collect();
    let expected =
        [(1, EventKind::Delay), (2, EventKind::Delete), (2, EventKind::Ttl), (0, EventKind::Delay)];
    assert_eq!(told, expected);
    assert_eq!(life.line(), START + 2 * HOUR);
    assert_eq!(life.take_all(), ["second", "first"]);
    life.end();
}

#[test]
fn a_suspend_makes_no_hold_no_wait_and_no_grace_older() {
    let bench = Bench::new();
    let life = bench.open_with(bench.options().session_grace(HOUR));
    life.put("held", |put| put.ttr(HOUR));
    life.put("theirs", |put| put.ttr(2 * HOUR));
    let held = life.tube.try_take().unwrap().unwrap();
    let session = life.store.session();
    let theirs = session.tube("work").unwrap();
    let _theirs = theirs.try_take().unwrap().unwrap().detach();
    drop((theirs, session));
    bench.clock.advance(HOUR / 2);
    bench.clock.suspend(30 * DAY);
    assert_eq!(life.there(), (0, 0));
    bench.clock.advance(HOUR / 2 - MICRO);
    assert_eq!(life.there(), (0, 0));
    held.ack().unwrap();
    bench.clock.advance(MICRO);
    assert_eq!(life.take_all(), ["theirs"]);
    life.end();
}

/// A life goes on in suspend even of a task that is held: its holder hears of it.
#[test]
fn a_task_that_is_held_dies_in_a_suspend_all_the_same() {
    let bench = Bench::new();
    let life = bench.open();
    life.put("mortal", |put| put.ttl(HOUR).ttr(2 * HOUR));
    let held = life.tube.try_take().unwrap().unwrap();
    bench.clock.suspend(HOUR);
    assert!(matches!(held.ack(), Err(tubewell::Error::NotTaken { .. })));
    assert_eq!(life.there(), (0, 0));
    life.end();
}

#[test]
fn suspends_of_many_lengths_keep_the_line_in_step_with_the_wall() {
    let bench = Bench::new();
    let mut expected = START;
    for step in 1_u32..50 {
        let life = bench.open();
        let (awake, asleep) = (MICRO * step * 7919, MICRO * step * 104_729);
        let id = life.tube.put(Put::new("x").delay(awake + asleep)).unwrap().id;
        bench.clock.advance(awake);
        bench.clock.suspend(asleep - MICRO);
        assert_eq!(life.tube.peek(id).unwrap().info.due_in, Some(MICRO));
        bench.clock.suspend(MICRO);
        assert_eq!(life.take_all(), ["x"]);
        expected += awake + asleep;
        assert_eq!(life.line(), expected);
        assert_eq!(life.store.clock_report().wall, expected);
        life.end();
    }
}
