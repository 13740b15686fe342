//! Wall clocks that are set while a store is open, lost while it is closed, or far ahead.

use std::time::Duration;

use crate::support::{Bench, DAY, HOUR, Life, MICRO, START, YEAR};

/// A delay and a life of two hours, a hold of one.
fn busy(life: &Life) -> tubewell::Claim {
    life.put("held", |put| put.ttr(HOUR));
    let held = life.tube.try_take().unwrap().unwrap();
    life.put("delayed", |put| put.delay(2 * HOUR));
    life.put("mortal", |put| put.ttl(2 * HOUR));
    held
}

#[test]
fn a_clock_that_is_set_while_the_store_is_open_ends_nothing_and_stops_nothing() {
    let walls = [START + HOUR, START - HOUR, START + 100 * YEAR, Duration::ZERO, Duration::MAX];
    for wall in walls {
        let bench = Bench::new();
        let life = bench.open();
        let held = busy(&life);
        let waiting = life.tube.clone();
        bench.clock.set_wall(wall);
        bench.off(HOUR - MICRO);
        assert_eq!(life.there(), (1, 1), "{wall:?}");
        held.ack().unwrap();
        bench.off(HOUR);
        assert_eq!(life.there(), (1, 1), "{wall:?}");
        bench.off(MICRO);
        assert_eq!(life.take_all(), ["delayed"], "{wall:?}");
        assert_eq!(waiting.statistics().unwrap().tasks.total, 0);
        assert_eq!(life.line(), START + 2 * HOUR);
        life.end();
    }
}

#[test]
fn how_far_a_clock_was_set_is_told() {
    let bench = Bench::new();
    let life = bench.open();
    assert_eq!(life.store.clock_report().wall, life.line());
    bench.clock.set_wall(START + HOUR);
    bench.off(DAY);
    let report = life.store.clock_report();
    assert_eq!((report.line, report.wall), (START + DAY, START + DAY + HOUR));
    assert_eq!(report.doubted, None);
    life.end();
}

#[test]
fn a_clock_that_was_set_forward_counts_from_the_next_open() {
    let bench = Bench::new();
    let life = bench.open();
    drop(busy(&life));
    bench.clock.set_wall(START + HOUR);
    life.end();
    let life = bench.open();
    assert_eq!((life.line(), life.there()), (START + HOUR, (2, 1)));
    bench.off(HOUR);
    assert_eq!(life.take_all(), ["held", "delayed"]);
    life.end();
}

#[test]
fn a_clock_that_was_set_back_stops_the_line_while_closed_and_never_turns_it() {
    let bench = Bench::new();
    let life = bench.open();
    drop(busy(&life));
    bench.off(HOUR);
    bench.clock.set_wall(START);
    life.end();
    // It is caught up with while the store is closed.
    bench.off(HOUR / 2);
    let life = bench.open();
    assert_eq!((life.line(), life.there()), (START + HOUR, (2, 1)));
    bench.off(HOUR - MICRO);
    assert_eq!(life.there(), (2, 1));
    bench.off(MICRO);
    assert_eq!(life.take_all(), ["held", "delayed"]);
    life.end();
}

/// The floor holds at the last commit, also of a life that was not closed: here the newest commit
/// is one of an hour later than the one that put the task.
#[test]
fn a_clock_that_lost_its_battery_begins_at_the_last_commit_and_moves_on() {
    for wall in [Duration::ZERO, Duration::from_secs(1), START - YEAR, START + HOUR - MICRO] {
        let bench = Bench::new();
        let life = bench.open();
        life.put("over", |put| put.ttl(HOUR));
        life.put("delayed", |put| put.delay(3 * HOUR));
        life.put("mortal", |put| put.ttl(3 * HOUR));
        bench.off(HOUR);
        assert_eq!(life.there(), (1, 1));
        life.end();
        for lives in 0..4 {
            bench.clock.set_wall(wall);
            let life = bench.open();
            assert_eq!(life.line(), START + HOUR + lives * HOUR / 2, "{wall:?}");
            assert_eq!(life.doubted(), None);
            // What was over stays over, nothing else is over early.
            assert_eq!(life.there(), (1, 1), "{wall:?}");
            bench.off(HOUR / 2);
            life.end();
        }
        bench.clock.set_wall(wall);
        let life = bench.open();
        assert_eq!(life.take_all(), ["delayed"], "{wall:?}");
        life.end();
    }
}

#[test]
fn time_while_the_machine_was_off_counts_up_to_the_limit_to_the_microsecond() {
    for (away, ready) in [(YEAR, true), (YEAR + MICRO, false)] {
        let bench = Bench::new();
        let life = bench.open();
        life.put("mortal", |put| put.ttl(YEAR));
        life.put("delayed", |put| put.delay(YEAR));
        life.end();
        bench.off(away);
        let life = bench.open();
        assert_eq!(life.there(), if ready { (1, 0) } else { (1, 1) });
        assert_eq!(life.doubted(), (!ready).then_some(START + away));
        let expected = if ready { "delayed" } else { "mortal" };
        assert_eq!(life.take_all(), [expected]);
        life.end();
    }
}

#[test]
fn one_start_with_a_clock_far_ahead_expires_nothing_and_leaves_no_trace() {
    let bench = Bench::new();
    let life = bench.open();
    drop(busy(&life));
    life.end();
    bench.clock.set_wall(START + 74 * YEAR);
    let life = bench.open();
    assert_eq!(life.doubted(), Some(START + 74 * YEAR));
    assert_eq!((life.line(), life.there()), (START, (2, 1)));
    // Time goes on meanwhile, and commits are made.
    bench.off(HOUR);
    life.put("later", |put| put.ttl(DAY));
    bench.clock.set_wall(START + bench.clock.now());
    life.end();
    let life = bench.open();
    assert_eq!((life.line(), life.doubted()), (START + HOUR, None));
    bench.off(HOUR);
    assert_eq!(life.take_all(), ["held", "delayed", "later"]);
    life.end();
    // Had the doubt been kept, a second bad start would be believed.
    bench.off(2 * DAY);
    bench.clock.set_wall(START + 74 * YEAR + 3 * DAY);
    assert_eq!(bench.visit(), START + 2 * HOUR);
}

#[test]
fn a_clock_far_ahead_that_goes_on_soundly_is_believed_a_day_later() {
    let bench = Bench::new();
    let life = bench.open();
    life.put("mortal", |put| put.ttl(YEAR));
    life.put("delayed", |put| put.delay(YEAR));
    life.end();
    // A machine that was in a cupboard for thirteen months.
    bench.off(YEAR + 30 * DAY);
    assert_eq!(bench.visit(), START);
    bench.off(HOUR);
    assert_eq!(bench.visit(), START, "an hour is no proof");
    bench.off(23 * HOUR - MICRO);
    assert_eq!(bench.visit(), START, "a day less a microsecond is none either");
    bench.off(MICRO);
    let life = bench.open();
    assert_eq!((life.line(), life.doubted()), (START + YEAR + 31 * DAY, None));
    assert_eq!(life.take_all(), ["delayed"]);
    life.end();
    bench.off(YEAR / 2);
    assert_eq!(bench.visit(), START + YEAR + 31 * DAY + YEAR / 2);
}

#[test]
fn the_time_that_a_store_was_open_in_doubt_counts_as_proof() {
    let bench = Bench::new();
    bench.visit();
    bench.off(2 * YEAR);
    let life = bench.open();
    assert!(life.doubted().is_some());
    bench.off(3 * DAY);
    assert_eq!(life.line(), START + 3 * DAY);
    life.end();
    assert_eq!(bench.visit(), START + 2 * YEAR + 3 * DAY);
}

#[test]
fn a_clock_that_starts_at_the_same_wrong_moment_each_time_is_never_believed() {
    let bench = Bench::new();
    let life = bench.open();
    life.put("mortal", |put| put.ttl(YEAR));
    life.end();
    let mut line = START;
    for _ in 0..20 {
        bench.off(2 * DAY);
        bench.clock.set_wall(START + 74 * YEAR);
        let life = bench.open();
        assert_eq!(life.line(), line);
        assert_eq!(life.doubted(), Some(START + 74 * YEAR));
        assert_eq!(life.there(), (1, 0));
        bench.off(2 * DAY);
        line += 2 * DAY;
        life.end();
    }
}

#[test]
fn a_clock_that_jumps_again_is_doubted_again() {
    let walls = [START + 2 * YEAR, START + 8 * YEAR, START + 5 * YEAR, START + 30 * YEAR];
    let bench = Bench::new();
    bench.visit();
    for wall in walls {
        bench.off(2 * DAY);
        bench.clock.set_wall(wall);
        assert_eq!(bench.visit(), START, "{wall:?}");
    }
    bench.off(2 * DAY);
    assert_eq!(bench.visit(), START + 30 * YEAR + 2 * DAY);
}

/// A board without a battery: it starts in 1970, and the network sets its clock a little later. The
/// first open after that took the 56 years for time that had passed.
#[test]
fn a_store_that_was_made_before_the_clock_was_set_loses_nothing_when_it_is() {
    let bench = Bench::new();
    bench.clock.set_wall(Duration::ZERO);
    let life = bench.open();
    life.put("mortal", |put| put.ttl(30 * DAY));
    life.put("delayed", |put| put.delay(30 * DAY));
    bench.clock.set_wall(START);
    bench.off(HOUR);
    life.end();
    let mut line = HOUR;
    for _ in 0..29 {
        // Off for a day, which counts from the second such open on.
        let life = bench.open();
        assert_eq!((life.line(), life.there()), (line, (1, 1)));
        assert!(life.doubted().is_some());
        life.end();
        bench.off(DAY);
        line += DAY;
    }
    let life = bench.open();
    assert_eq!((life.line(), life.there()), (line, (1, 1)));
    bench.off(23 * HOUR);
    assert_eq!(life.take_all(), ["delayed"]);
    life.end();
    // Somebody says that it is right.
    let life = bench.open_with(bench.options().trust_wall_clock(true));
    assert_eq!(life.line(), START + bench.clock.now());
    life.end();
}

#[test]
fn an_operator_may_believe_any_clock_and_set_the_limit() {
    let bench = Bench::new();
    let life = bench.open();
    life.put("mortal", |put| put.ttl(YEAR));
    life.end();
    bench.off(4 * YEAR);
    let life = bench.open_with(bench.options().wall_clock_limit(3 * YEAR));
    assert_eq!((life.there(), life.doubted()), ((1, 0), Some(START + 4 * YEAR)));
    life.end();
    let life = bench.open_with(bench.options().trust_wall_clock(true));
    assert_eq!((life.there(), life.doubted()), ((0, 0), None));
    assert_eq!(life.line(), START + 4 * YEAR);
    life.end();
    bench.off(3 * YEAR);
    let life = bench.open_with(bench.options().wall_clock_limit(3 * YEAR));
    assert_eq!(life.line(), START + 7 * YEAR);
    life.end();
    bench.off(50 * YEAR);
    let life = bench.open_with(bench.options().wall_clock_limit(Duration::MAX));
    assert_eq!(life.line(), START + 57 * YEAR);
    life.end();
}

/// A doubt is told to the file by the next commit, at the latest by the one at close; a life that
/// did neither leaves none, and the next one doubts from the beginning.
#[test]
fn a_doubt_costs_no_commit_of_its_own() {
    let bench = Bench::new();
    bench.visit();
    bench.off(2 * YEAR);
    let life = bench.open();
    let before = life.store.counters();
    assert_eq!(life.doubted(), Some(START + 2 * YEAR));
    assert_eq!(life.store.counters().flushes, before.flushes);
    let flushed = life.store.flush().unwrap();
    assert_eq!(life.store.flush().unwrap(), flushed, "nothing is left to flush");
    life.end();
}
