//! Wall clocks that are set while a store is open, reset while it is closed, or far ahead.

use std::time::Duration;

use crate::support::{DAY, HOUR, MICRO, Run, START, StoreFile, YEAR};

/// Puts a task with a delay of two hours and one with a ttl of two hours, and takes one with a ttr
/// of one hour.
fn put_timed_tasks(run: &Run) -> tubewell::Claim {
    run.put("taken", |put| put.ttr(HOUR));
    let claim = run.tube.try_take().unwrap().unwrap();
    run.put("delayed", |put| put.delay(2 * HOUR));
    run.put("expiring", |put| put.ttl(2 * HOUR));
    claim
}

#[test]
fn wall_clock_set_while_open_does_not_move_deadlines() {
    let walls = [START + HOUR, START - HOUR, START + 100 * YEAR, Duration::ZERO, Duration::MAX];
    for wall in walls {
        let file = StoreFile::new();
        let run = file.open();
        let claim = put_timed_tasks(&run);
        let tube = run.tube.clone();
        file.clock.set_wall(wall);
        file.advance(HOUR - MICRO);
        assert_eq!(run.ready_and_delayed(), (1, 1), "{wall:?}");
        claim.ack().unwrap();
        file.advance(HOUR);
        assert_eq!(run.ready_and_delayed(), (1, 1), "{wall:?}");
        file.advance(MICRO);
        assert_eq!(run.take_all(), ["delayed"], "{wall:?}");
        assert_eq!(tube.statistics().unwrap().tasks.total, 0);
        assert_eq!(run.timeline(), START + 2 * HOUR);
        run.close();
    }
}

#[test]
fn clock_report_returns_timeline_and_wall_clock() {
    let file = StoreFile::new();
    let run = file.open();
    assert_eq!(run.store.admin().clock_report().unwrap().wall, run.timeline());
    file.clock.set_wall(START + HOUR);
    file.advance(DAY);
    let report = run.store.admin().clock_report().unwrap();
    assert_eq!((report.timeline, report.wall), (START + DAY, START + DAY + HOUR));
    assert_eq!(report.untrusted, None);
    run.close();
}

#[test]
fn wall_clock_set_forward_takes_effect_at_next_open() {
    let file = StoreFile::new();
    let run = file.open();
    drop(put_timed_tasks(&run));
    file.clock.set_wall(START + HOUR);
    run.close();
    let run = file.open();
    assert_eq!((run.timeline(), run.ready_and_delayed()), (START + HOUR, (2, 1)));
    file.advance(HOUR);
    assert_eq!(run.take_all(), ["taken", "delayed"]);
    run.close();
}

#[test]
fn timeline_goes_on_while_closed_after_wall_clock_was_set_back() {
    let file = StoreFile::new();
    let run = file.open();
    drop(put_timed_tasks(&run));
    file.advance(HOUR);
    file.clock.set_wall(START);
    run.close();
    // The wall clock advances while the store is closed, but stays behind the timeline.
    file.advance(HOUR / 2);
    let run = file.open();
    assert_eq!((run.timeline(), run.ready_and_delayed()), (START + HOUR * 3 / 2, (2, 1)));
    file.advance(HOUR / 2 - MICRO);
    assert_eq!(run.ready_and_delayed(), (2, 1));
    file.advance(MICRO);
    assert_eq!(run.take_all(), ["taken", "delayed"]);
    run.close();
}

/// The timeline never resumes before the last commit, also after a run that was not closed. The
/// last commit here is one hour later than the one that put the task.
#[test]
fn reset_wall_clock_resumes_timeline_at_last_commit() {
    for wall in [Duration::ZERO, Duration::from_secs(1), START - YEAR, START + HOUR - MICRO] {
        let file = StoreFile::new();
        let run = file.open();
        run.put("expired", |put| put.ttl(HOUR));
        run.put("delayed", |put| put.delay(3 * HOUR));
        run.put("expiring", |put| put.ttl(3 * HOUR));
        file.advance(HOUR);
        assert_eq!(run.ready_and_delayed(), (1, 1));
        run.close();
        for n in 0..4 {
            file.clock.set_wall(wall);
            let run = file.open();
            assert_eq!(run.timeline(), START + HOUR + n * HOUR / 2, "{wall:?}");
            assert_eq!(run.untrusted(), None);
            // The expired task does not come back, and no other deadline elapses early.
            assert_eq!(run.ready_and_delayed(), (1, 1), "{wall:?}");
            file.advance(HOUR / 2);
            run.close();
        }
        file.clock.set_wall(wall);
        let run = file.open();
        assert_eq!(run.take_all(), ["delayed"], "{wall:?}");
        run.close();
    }
}

#[test]
fn time_while_closed_counts_up_to_wall_clock_limit() {
    for (closed_for, trusted) in [(YEAR, true), (YEAR + MICRO, false)] {
        let file = StoreFile::new();
        let run = file.open();
        run.put("expiring", |put| put.ttl(YEAR));
        run.put("delayed", |put| put.delay(YEAR));
        run.close();
        file.advance(closed_for);
        let run = file.open();
        assert_eq!(run.ready_and_delayed(), if trusted { (1, 0) } else { (1, 1) });
        assert_eq!(run.untrusted(), (!trusted).then_some(START + closed_for));
        let expected = if trusted { "delayed" } else { "expiring" };
        assert_eq!(run.take_all(), [expected]);
        run.close();
    }
}

#[test]
fn one_open_with_wall_clock_far_ahead_expires_nothing() {
    let file = StoreFile::new();
    let run = file.open();
    drop(put_timed_tasks(&run));
    run.close();
    file.clock.set_wall(START + 74 * YEAR);
    let run = file.open();
    assert_eq!(run.untrusted(), Some(START + 74 * YEAR));
    assert_eq!((run.timeline(), run.ready_and_delayed()), (START, (2, 1)));
    // The timeline advances meanwhile, and there are commits.
    file.advance(HOUR);
    run.put("later", |put| put.ttl(DAY));
    file.clock.set_wall(START + file.clock.now());
    run.close();
    let run = file.open();
    assert_eq!((run.timeline(), run.untrusted()), (START + HOUR, None));
    file.advance(HOUR);
    assert_eq!(run.take_all(), ["taken", "delayed", "later"]);
    run.close();
    // If the untrusted clock were still in the file, the next wrong clock would be trusted.
    file.advance(2 * DAY);
    file.clock.set_wall(START + 74 * YEAR + 3 * DAY);
    assert_eq!(file.open_and_close(), START + 2 * HOUR);
}

#[test]
fn wall_clock_far_ahead_is_trusted_after_one_day() {
    let file = StoreFile::new();
    let run = file.open();
    run.put("expiring", |put| put.ttl(YEAR));
    run.put("delayed", |put| put.delay(YEAR));
    run.close();
    // The machine is off for thirteen months.
    file.advance(YEAR + 30 * DAY);
    assert_eq!(file.open_and_close(), START);
    file.advance(HOUR);
    assert_eq!(file.open_and_close(), START, "one hour must not be enough");
    file.advance(23 * HOUR - MICRO);
    assert_eq!(file.open_and_close(), START, "one microsecond less than a day must not be enough");
    file.advance(MICRO);
    let run = file.open();
    assert_eq!((run.timeline(), run.untrusted()), (START + YEAR + 31 * DAY, None));
    assert_eq!(run.take_all(), ["delayed"]);
    run.close();
    file.advance(YEAR / 2);
    assert_eq!(file.open_and_close(), START + YEAR + 31 * DAY + YEAR / 2);
}

#[test]
fn time_open_with_untrusted_wall_clock_counts_towards_trust() {
    let file = StoreFile::new();
    file.open_and_close();
    file.advance(2 * YEAR);
    let run = file.open();
    assert!(run.untrusted().is_some());
    file.advance(3 * DAY);
    assert_eq!(run.timeline(), START + 3 * DAY);
    run.close();
    assert_eq!(file.open_and_close(), START + 2 * YEAR + 3 * DAY);
}

#[test]
fn wall_clock_restarting_at_same_wrong_time_is_never_trusted() {
    let file = StoreFile::new();
    let run = file.open();
    run.put("expiring", |put| put.ttl(YEAR));
    run.close();
    let mut timeline = START;
    for _ in 0..20 {
        file.advance(2 * DAY);
        file.clock.set_wall(START + 74 * YEAR);
        let run = file.open();
        assert_eq!(run.timeline(), timeline);
        assert_eq!(run.untrusted(), Some(START + 74 * YEAR));
        assert_eq!(run.ready_and_delayed(), (1, 0));
        file.advance(2 * DAY);
        timeline += 2 * DAY;
        run.close();
    }
}

#[test]
fn wall_clock_that_jumps_again_is_untrusted_again() {
    let walls = [START + 2 * YEAR, START + 8 * YEAR, START + 5 * YEAR, START + 30 * YEAR];
    let file = StoreFile::new();
    file.open_and_close();
    for wall in walls {
        file.advance(2 * DAY);
        file.clock.set_wall(wall);
        assert_eq!(file.open_and_close(), START, "{wall:?}");
    }
    file.advance(2 * DAY);
    assert_eq!(file.open_and_close(), START + 30 * YEAR + 2 * DAY);
}

/// Regression: a machine without a clock battery boots in 1970, and the network sets its clock
/// later. The first open after that counted the 56 years as elapsed time.
#[test]
fn store_created_before_wall_clock_was_set_expires_nothing_when_it_is_set() {
    let file = StoreFile::new();
    file.clock.set_wall(Duration::ZERO);
    let run = file.open();
    run.put("expiring", |put| put.ttl(30 * DAY));
    run.put("delayed", |put| put.delay(30 * DAY));
    file.clock.set_wall(START);
    file.advance(HOUR);
    run.close();
    let mut timeline = HOUR;
    for _ in 0..29 {
        // The machine is off for a day. The day counts from the second such open on.
        let run = file.open();
        assert_eq!((run.timeline(), run.ready_and_delayed()), (timeline, (1, 1)));
        assert!(run.untrusted().is_some());
        run.close();
        file.advance(DAY);
        timeline += DAY;
    }
    let run = file.open();
    assert_eq!((run.timeline(), run.ready_and_delayed()), (timeline, (1, 1)));
    file.advance(23 * HOUR);
    assert_eq!(run.take_all(), ["delayed"]);
    run.close();
    // The operator declares the wall clock to be right.
    let run = file.open_with(file.options().trust_wall_clock(true));
    assert_eq!(run.timeline(), START + file.clock.now());
    run.close();
}

#[test]
fn trust_wall_clock_and_wall_clock_limit_override_default() {
    let file = StoreFile::new();
    let run = file.open();
    run.put("expiring", |put| put.ttl(YEAR));
    run.close();
    file.advance(4 * YEAR);
    let run = file.open_with(file.options().wall_clock_limit(3 * YEAR));
    assert_eq!((run.ready_and_delayed(), run.untrusted()), ((1, 0), Some(START + 4 * YEAR)));
    run.close();
    let run = file.open_with(file.options().trust_wall_clock(true));
    assert_eq!((run.ready_and_delayed(), run.untrusted()), ((0, 0), None));
    assert_eq!(run.timeline(), START + 4 * YEAR);
    run.close();
    file.advance(3 * YEAR);
    let run = file.open_with(file.options().wall_clock_limit(3 * YEAR));
    assert_eq!(run.timeline(), START + 7 * YEAR);
    run.close();
    file.advance(50 * YEAR);
    let run = file.open_with(file.options().wall_clock_limit(Duration::MAX));
    assert_eq!(run.timeline(), START + 57 * YEAR);
    run.close();
}

/// The next commit writes the untrusted wall clock to the file, at the latest the one at close.
/// After a run without either, the next run distrusts the clock from the beginning.
#[test]
fn untrusted_wall_clock_adds_no_flush_at_open() {
    let file = StoreFile::new();
    file.open_and_close();
    file.advance(2 * YEAR);
    let run = file.open();
    let before = run.store.admin().counters().unwrap();
    assert_eq!(run.untrusted(), Some(START + 2 * YEAR));
    assert_eq!(run.store.admin().counters().unwrap().flushes, before.flushes);
    let flushed = run.store.flush().unwrap();
    assert_eq!(run.store.flush().unwrap(), flushed, "the second flush must have nothing to write");
    run.close();
}
