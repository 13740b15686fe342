//! A wall clock that was wrong for a while and is right again: nothing waits until the clock has
//! caught up with where it once was.

use std::time::Duration;

use tubewell::Put;

use crate::support::{DAY, HOUR, MICRO, Run, START, StoreFile, YEAR};

const MINUTE: Duration = Duration::from_secs(60);

/// By how much the clock is wrong.
const WRONG_BY: [Duration; 4] = [MINUTE, HOUR, Duration::from_secs(2 * 86_400), YEAR];

/// How the store is used while the clock is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Use {
    /// It is open all the time.
    Owner,
    /// It is opened once.
    Command,
    /// It is closed.
    Closed,
}

/// A clock that is wrong for five minutes, and then right again.
pub struct WrongClock {
    by: Duration,
    is_ahead: bool,
    used: Use,
}

impl WrongClock {
    /// Clocks that are ahead and behind, of a store that is open, used by a command, and closed.
    pub fn all() -> impl Iterator<Item = WrongClock> {
        let uses = [Use::Owner, Use::Command, Use::Closed];
        let clocks = WRONG_BY.into_iter().flat_map(|by| [(by, true), (by, false)]);
        clocks.flat_map(move |(by, is_ahead)| uses.map(|used| WrongClock { by, is_ahead, used }))
    }

    /// Opens a store two years after the start, has `prepare` use it, and lets the clock be wrong for
    /// five minutes. The store is closed afterwards.
    pub fn pass(&self, prepare: impl FnOnce(&Run)) -> StoreFile {
        let WrongClock { by, is_ahead, used } = *self;
        println!("{by:?} {}, {used:?}", if is_ahead { "ahead" } else { "behind" });
        let file = StoreFile::new();
        file.advance(YEAR * 2);
        let run = file.open();
        prepare(&run);
        let right = || START + file.clock.now();
        let set_wrong = || {
            file.clock.set_wall(if is_ahead { right() + by } else { right().saturating_sub(by) });
            file.advance(Duration::ZERO);
        };
        match used {
            Use::Owner => {
                set_wrong();
                file.advance(MINUTE * 5);
                file.clock.set_wall(right());
                file.advance(Duration::ZERO);
                run.close();
            }
            Use::Command => {
                run.close();
                set_wrong();
                file.open().close();
                file.advance(MINUTE * 5);
                file.open().close();
                file.clock.set_wall(right());
            }
            Use::Closed => {
                run.close();
                set_wrong();
                file.advance(MINUTE * 5);
                file.clock.set_wall(right());
            }
        }
        file
    }
}

/// Only single commands use the store once the clock is right.
#[test]
fn delays_ttls_and_pauses_go_on_after_a_wrong_clock() {
    for wrong in WrongClock::all() {
        let file = wrong.pass(|run| _ = run.put("old", |put| put.delay(YEAR * 9)));
        let run = file.open();
        run.put("delayed", |put| put.delay(MINUTE * 10));
        run.put("expiring", |put| put.ttl(MINUTE * 10));
        run.close();
        file.advance(MINUTE * 10 - MICRO);
        let run = file.open();
        assert_eq!(run.ready_and_delayed(), (1, 2));
        run.tube.admin().pause_for(MINUTE * 10).unwrap();
        run.close();
        // Once the clock has caught up with the timeline, this goes by the clock again.
        file.advance(MICRO + MINUTE);
        let run = file.open();
        assert_eq!(run.ready_and_delayed(), (1, 1));
        assert_eq!(run.take_all(), [""; 0], "paused");
        run.close();
        file.advance(MINUTE * 10);
        let run = file.open();
        assert_eq!(run.take_all(), ["delayed"]);
        run.close();
    }
}

/// The interval of a schedule is kept from then on, whether the store is open or closed.
#[test]
fn interval_goes_on_after_a_wrong_clock() {
    for wrong in WrongClock::all() {
        let file = wrong.pass(|run| _ = run.tube.schedule(every_ten_minutes(), "run").unwrap());
        let run = file.open();
        let runs = |run: &Run| run.tube.schedules().list(None, 1).unwrap().items[0].runs;
        let last = runs(&run);
        run.close();
        for further in 1..=3 {
            file.advance(MINUTE * 10);
            let run = file.open();
            assert_eq!(runs(&run), last + further);
            run.close();
        }
    }
}

/// An import into another store reads it by the wall clock.
#[test]
fn salvage_gives_the_next_run_of_an_interval_by_the_clock_as_it_is() {
    let file = StoreFile::new();
    file.advance(DAY * 2);
    let run = file.open();
    run.tube.schedule(every_ten_minutes(), "run").unwrap();
    file.advance(Duration::ZERO);
    run.close();
    file.clock.set_wall(START);
    file.open().close();
    let mut found = Vec::new();
    let salvaged = file.options().salvage(file.path(), |salvaged| {
        if let tubewell::expert::Salvaged::Schedule { schedule, .. } = salvaged {
            found.push((schedule.next, schedule.due_in));
        }
        Ok::<(), tubewell::Error>(())
    });
    salvaged.unwrap();
    assert_eq!(found, [(std::time::UNIX_EPOCH + START + MINUTE * 10, MINUTE * 10)]);
}

fn every_ten_minutes() -> tubewell::Schedule {
    tubewell::Schedule::every("R", MINUTE * 10)
}

/// The first open after the clock was set back counts no time, and says so; those after it count all.
#[test]
fn clock_report_says_that_the_clock_was_set_back() {
    let file = StoreFile::new();
    file.advance(DAY * 9);
    file.open().close();
    file.clock.set_wall(START + DAY);
    let run = file.open();
    let report = run.store.admin().clock_report().unwrap();
    assert_eq!((report.timeline, report.set_back), (START + DAY * 9, Some(DAY * 8)));
    assert_eq!(report.untrusted, None);
    run.close();
    file.advance(HOUR);
    let run = file.open();
    let report = run.store.admin().clock_report().unwrap();
    assert_eq!((report.timeline, report.set_back), (START + DAY * 9 + HOUR, None));
    // Set right again: the timeline is that of the clock.
    run.close();
    file.clock.set_wall(START + DAY * 10);
    let run = file.open();
    let report = run.store.admin().clock_report().unwrap();
    assert_eq!((report.timeline, report.set_back), (START + DAY * 10, None));
    run.close();
}

/// A clock that is set too far ahead while the store is open is not followed, and the report says so.
#[test]
fn clock_report_says_that_an_open_store_does_not_trust_the_clock() {
    let file = StoreFile::new();
    let run = file.open();
    file.clock.set_wall(START + YEAR + MICRO);
    assert_eq!(run.untrusted(), Some(START + YEAR + MICRO));
    file.clock.set_wall(START + YEAR);
    assert_eq!(run.untrusted(), None);
    run.close();
}

#[cfg(feature = "cron")]
mod cron {
    use tubewell::{Missed, Schedule};

    use super::*;

    fn cron(expression: &str) -> Schedule {
        Schedule::cron("R", expression, "UTC")
    }

    fn runs(run: &Run) -> u64 {
        run.tube.schedules().list(None, 1).unwrap().items[0].runs
    }

    /// When the next run is, on the wall clock.
    fn next(run: &Run) -> Duration {
        let next = run.tube.schedules().list(None, 1).unwrap().items[0].next;
        next.duration_since(std::time::UNIX_EPOCH).unwrap()
    }

    /// The clock is right again five minutes after midnight.
    #[test]
    fn recurrence_goes_on_from_the_clock_as_it_is() {
        for (expression, period) in [("*/10 * * * *", MINUTE * 10), ("0 */2 * * *", HOUR * 2)] {
            for wrong in WrongClock::all() {
                let file =
                    wrong.pass(|run| _ = run.tube.schedule(cron(expression), "run").unwrap());
                let run = file.open();
                let last = runs(&run);
                let midnight = START + YEAR * 2;
                assert_eq!(next(&run), midnight + period, "{expression}");
                run.close();
                // Single commands, and an owner.
                file.advance(period);
                let run = file.open();
                assert_eq!(runs(&run), last + 1, "{expression}");
                file.advance(period);
                assert_eq!(runs(&run), last + 2, "{expression}");
                run.close();
            }
        }
    }

    /// The run of nine o'clock is not repeated up to three hours before.
    #[test]
    fn run_at_a_fixed_time_is_not_repeated_for_a_clock_that_was_a_little_ahead() {
        for (until_nine, ahead, repeated) in [
            (MINUTE, MINUTE, false),
            (MINUTE, HOUR * 5, false),
            (HOUR * 3, HOUR * 3, false),
            (HOUR * 3 + MINUTE, HOUR * 5, true),
            (MINUTE, DAY * 2, true),
        ] {
            let file = StoreFile::new();
            file.advance(HOUR * 9 - until_nine);
            let run = file.open();
            run.tube.schedule(cron("0 9 * * *"), "run").unwrap();
            let right = START + file.clock.now();
            file.clock.set_wall(right + ahead);
            file.advance(Duration::ZERO);
            let before = runs(&run);
            file.clock.set_wall(right);
            file.advance(until_nine);
            let repeats = u64::from(repeated);
            assert_eq!((before, runs(&run)), (1, 1 + repeats), "{until_nine:?}, {ahead:?}");
            file.advance(DAY);
            assert_eq!(runs(&run), 2 + repeats, "{until_nine:?}, {ahead:?}");
            run.close();
        }
    }

    /// The clock shows 1970 for a while. The runs of 56 years are not made up for.
    #[test]
    fn runs_before_a_clock_that_was_behind_are_not_made_up_for() {
        for wrong in [Duration::ZERO, START - DAY * 40] {
            let file = StoreFile::new();
            let run = file.open();
            run.tube.schedule(cron("0 * * * *").missed(Missed::All), "run").unwrap();
            file.advance(HOUR * 10);
            assert_eq!(runs(&run), 10);
            let set = file.clock.now();
            file.clock.set_wall(wrong);
            file.advance(HOUR);
            assert_eq!(runs(&run), 11, "as the clock is");
            file.advance(HOUR);
            file.clock.set_wall(START + set + HOUR * 5);
            file.advance(Duration::ZERO);
            // Those of the hours that no clock has shown.
            assert_eq!(runs(&run), 12 + 5);
            file.advance(HOUR);
            assert_eq!(runs(&run), 13 + 5);
            run.close();
        }
    }

    #[test]
    fn schedule_begins_at_its_moment_although_the_clock_was_set_back() {
        let file = StoreFile::new();
        let run = file.open();
        let begin = std::time::UNIX_EPOCH + START + DAY * 3 + MINUTE;
        run.tube.schedule(cron("0 9 * * *").starting(begin), "run").unwrap();
        let first = START + DAY * 3 + HOUR * 9;
        assert_eq!(next(&run), first);
        file.advance(DAY);
        file.clock.set_wall(START - DAY * 2);
        file.advance(Duration::ZERO);
        assert_eq!((runs(&run), next(&run)), (0, first));
        run.tube.schedules().change(Schedule::of("R").starting(begin - DAY)).unwrap();
        file.clock.set_wall(START - DAY * 4);
        file.advance(Duration::ZERO);
        assert_eq!((runs(&run), next(&run)), (0, first - DAY));
        run.close();
    }

    /// An application stores its schedules at each start.
    #[test]
    fn schedule_that_was_stored_under_a_wrong_clock_follows_the_right_one() {
        for store_again in [false, true] {
            let file = StoreFile::new();
            file.clock.set_wall(START + DAY * 2 + HOUR);
            let run = file.open();
            run.tube.schedule(cron("0 9 * * *"), "run").unwrap();
            run.close();
            file.clock.set_wall(START + HOUR);
            let run = file.open();
            if store_again {
                run.tube.schedule(cron("0 9 * * *"), "run").unwrap();
            }
            assert_eq!(next(&run), START + HOUR * 9);
            file.advance(HOUR * 8);
            assert_eq!(runs(&run), 1);
            run.close();
        }
    }

    /// A round over all schedules goes on where it was, also if tubes are dropped meanwhile.
    #[test]
    fn all_schedules_of_all_tubes_follow_the_clock() {
        let file = StoreFile::new();
        let run = file.open();
        let options = tubewell::TubeOptions::new;
        let tubes: Vec<_> = (0..40)
            .map(|n| {
                run.store
                    .create_tube(&format!("tube {n}"), options().driver(tubewell::FIFO))
                    .unwrap()
            })
            .collect();
        for (n, tube) in tubes.iter().enumerate().filter(|(n, _)| n % 4 < 2) {
            for of_tube in 0..=n % 4 * 9 {
                let schedule = Schedule::cron(format!("{n}-{of_tube}"), "0 * * * *", "UTC");
                tube.schedule(schedule, Put::new("run")).unwrap();
            }
        }
        file.clock.set_wall(START + DAY);
        file.advance(Duration::ZERO);
        file.clock.set_wall(START + MINUTE);
        file.advance(Duration::ZERO);
        for tube in tubes {
            for schedule in tube.schedules().list(None, 99).unwrap().items {
                assert_eq!(schedule.next, std::time::UNIX_EPOCH + START + HOUR);
            }
        }
        run.close();
    }
}
