//! Nothing and for ever, sums that overflow, the last moments of the line, and moments that many
//! share.

use std::time::Duration;

use tubewell::{Durability, EventKind, FIFO, FIFOTTL, ManualClock, Put, Store, TubeOptions};

use crate::support::{Bench, HOUR, MICRO};

const MAX: Duration = Duration::MAX;
/// The longest that is not for ever, in microseconds.
const LONG: Duration = Duration::from_micros(u64::MAX - 1);

/// Stores in memory whose line begins in 1970, today, and ever nearer to its end.
fn at_any_time(check: impl Fn(&ManualClock, &Store)) {
    let end = Duration::from_micros(u64::MAX);
    let today = Duration::from_secs(1_767_225_600);
    for start in [Duration::ZERO, today, end - HOUR, end - MICRO * 10, end - MICRO, end, MAX] {
        println!("the line begins at {start:?}");
        let clock = ManualClock::at(start);
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        check(&clock, &store);
        assert_eq!(store.verify().unwrap(), [""; 0]);
        store.close().unwrap();
    }
}

#[test]
fn what_has_no_end_outlives_the_end_of_time() {
    at_any_time(|clock, store| {
        let plain = store.create_tube("plain", FIFO, TubeOptions::new()).unwrap();
        let timed = store.create_tube("timed", FIFOTTL, TubeOptions::new()).unwrap();
        plain.put("plain").unwrap();
        let puts = [
            Put::new("no options"),
            Put::new("for ever").ttl(MAX).ttr(MAX),
            Put::new("both").ttl(MAX).delay(HOUR),
            Put::new("nearly").ttl(LONG).delay(LONG),
        ];
        timed.put_many(puts).unwrap();
        let held = timed.try_take().unwrap().unwrap();
        held.renew(MAX).unwrap();
        for step in [MICRO, HOUR, MAX, MAX] {
            clock.advance(step);
            clock.suspend(step);
        }
        held.renew(LONG).unwrap();
        held.touch(MAX).unwrap();
        clock.advance(MAX);
        held.ack().unwrap();
        assert_eq!(plain.try_take().unwrap().unwrap().data(), b"plain");
        assert_eq!(timed.try_take().unwrap().unwrap().data(), b"for ever");
        // Two sums that are more than the line has are for ever; the others may end before it.
        let tasks = timed.statistics().unwrap().tasks;
        assert_eq!(tasks.total, 3, "{tasks:?}");
    });
}

#[test]
fn what_ends_at_once_does_so_at_any_time() {
    at_any_time(|clock, store| {
        let tube = store.create_tube("timed", FIFOTTL, TubeOptions::new()).unwrap();
        tube.put(Put::new("dead").ttl(Duration::ZERO)).unwrap();
        tube.put(Put::new("short hold").ttr(Duration::ZERO)).unwrap();
        let held = tube.try_take().unwrap().unwrap();
        assert_eq!(held.data(), b"short hold");
        assert!(held.ack().is_err());
        clock.advance(Duration::ZERO);
        assert_eq!(tube.statistics().unwrap().tasks.total, 1);
        // A delay of nothing is none.
        tube.delete(1).unwrap();
        tube.put(Put::new("now").delay(Duration::ZERO).ttl(MAX)).unwrap();
        assert_eq!(tube.try_take().unwrap().unwrap().data(), b"now");
    });
}

#[test]
fn sums_that_overflow_are_for_ever() {
    at_any_time(|clock, store| {
        let tube = store.create_tube("timed", FIFOTTL, TubeOptions::new()).unwrap();
        let id = tube.put(Put::new("x").ttl(LONG).ttr(LONG).delay(LONG)).unwrap().id;
        let info = tube.peek(id).unwrap().info;
        assert_eq!(info.ttl_left, None);
        clock.advance(HOUR);
        let id = tube.put(Put::new("y").ttl(LONG).ttr(LONG)).unwrap().id;
        let held = loop {
            let claim = tube.try_take().unwrap().unwrap();
            if claim.id() == id {
                break claim;
            }
        };
        held.touch(LONG).unwrap();
        held.touch(MAX).unwrap();
        assert_eq!(tube.peek(id).unwrap().info.ttl_left, None);
        clock.advance(MAX);
        held.release(LONG).unwrap();
        clock.advance(MAX);
        assert_eq!(tube.statistics().unwrap().tasks.total, 2);
    });
}

#[test]
fn waits_flushes_and_grace_without_end_are_bearable() {
    let clock = ManualClock::new();
    let options = Store::options().clock(&clock).session_grace(MAX);
    let store = options.open_in_memory().unwrap();
    let lazy = TubeOptions::new().durability(Durability::Relaxed { max_delay: MAX });
    let tube = store.create_tube("lazy", FIFO, lazy).unwrap();
    tube.put("x").unwrap();
    let session = store.session();
    let id = session.id();
    let _ = session.tube("lazy").unwrap().try_take().unwrap().unwrap().detach();
    drop(session);
    clock.advance(MAX);
    let session = store.resume_session(id).unwrap();
    session.tube("lazy").unwrap().ack(0).unwrap();
    assert_eq!(store.verify().unwrap(), [""; 0]);
}

/// A store whose line has come to its end in the file still opens and works, in doubt of nothing.
#[test]
fn a_line_that_is_at_its_end_stays_there() {
    let bench = Bench::new();
    let life = bench.open();
    life.put("for ever", |put| put);
    life.end();
    bench.off(MAX);
    let end = Duration::from_micros(u64::MAX - 1);
    for lives in 0..3 {
        let life = bench.open_with(bench.options().trust_wall_clock(true));
        assert_eq!((life.line(), life.there()), (end, (1, 0)), "{lives}");
        bench.off(HOUR);
        bench.clock.set_wall(Duration::from_secs(lives));
        life.end();
    }
}

#[test]
fn of_equal_deadlines_the_older_task_is_first() {
    let bench = Bench::new();
    let life = bench.open();
    // Priorities against the order of ids, and moments that are reached in different ways.
    for n in 0..30_u32 {
        life.put("delayed", |put| put.delay(2 * HOUR).pri(30 - n));
    }
    bench.off(HOUR);
    for n in 30..60_u32 {
        life.put("delayed", |put| put.delay(HOUR).pri(60 - n));
    }
    let events = life.store.subscribe(1000);
    bench.off(HOUR);
    let told: Vec<u64> = std::iter::from_fn(|| events.try_recv()).map(|event| event.id).collect();
    assert_eq!(told, (0..60).collect::<Vec<u64>>());

    for n in 0..30_u32 {
        life.put("mortal", |put| put.ttl(2 * HOUR).pri(30 - n));
    }
    bench.off(2 * HOUR);
    let gone: Vec<u64> = std::iter::from_fn(|| events.try_recv())
        .filter(|event| event.kind == EventKind::Ttl)
        .map(|event| event.id)
        .collect();
    assert_eq!(gone, (60..90).collect::<Vec<u64>>());
    life.end();
}

#[test]
fn of_holds_that_end_together_the_older_task_is_first() {
    let bench = Bench::new();
    let life = bench.open();
    for n in 0..20_u32 {
        life.put("held", |put| put.ttr(HOUR).pri(20 - n));
    }
    let held = life.tube.take_many(20, Duration::ZERO).unwrap();
    assert_eq!(held[0].id(), 19, "the most urgent one is taken first");
    let events = life.store.subscribe(1000);
    bench.off(HOUR);
    let told: Vec<u64> = std::iter::from_fn(|| events.try_recv()).map(|event| event.id).collect();
    assert_eq!(told, (0..20).collect::<Vec<u64>>());
    drop(held);
    life.end();
}
