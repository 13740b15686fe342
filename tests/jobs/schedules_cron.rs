//! Schedules by cron expressions, with the time zones of the bundled database.

#![allow(clippy::unchecked_time_subtraction, reason = "constants of the tests")]

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::expert::Recurrence;
use tubewell::{Error, FIFO, FIFOTTL, Missed, Overlap, Schedule, Store, TaskState, TubeOptions};

use super::files::{after_a_kill, create};
use super::not_before::{HOUR, START, at};
use super::schedules::{MINUTE, only_schedule, work};
use super::support::*;
use crate::stores::{self, ManualClock};

const DAY: Duration = secs(86_400);

fn cron(expression: &str, zone: &str) -> Schedule {
    Schedule::cron("R", expression, zone)
}

/// A store in memory whose clocks begin at this second of 1970 UTC, with a tube.
fn store_at(seconds: u64) -> (ManualClock, Store, tubewell::Tube) {
    let clock = ManualClock::at(secs(seconds));
    let store = stores::in_memory_with(Store::options().clock(&clock));
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    (clock, store, tube)
}

fn moment(seconds: u64) -> SystemTime {
    UNIX_EPOCH + secs(seconds)
}

/// 2026-01-01 00:00 UTC is a Thursday, and one o'clock in Berlin.
#[test]
fn runs_are_put_at_the_moments_of_the_expression() {
    for_each_driver(ALL, |case| {
        let schedule = cron("0 9 * * 1-5", "Europe/Berlin");
        let put = case.draft("run");
        let id = case.schedule(schedule, put);
        let stored = case.only_schedule();
        assert_eq!((stored.next, stored.due_in), (at(HOUR * 8), HOUR * 8));
        let (expression, zone) = ("0 9 * * 1-5".to_owned(), "Europe/Berlin".to_owned());
        assert_eq!(stored.recurrence, Recurrence::Cron { expression, zone });
        assert_eq!(case.info(id).not_before, Some(at(HOUR * 8)));
        case.clock.advance(HOUR * 8 - ms(1));
        assert_eq!(case.work(), [""; 0]);
        case.advance(1);
        let run = case.tube.try_take().unwrap().unwrap();
        let spawned_by = case.info(run.id()).spawned_by.unwrap();
        assert_eq!((spawned_by.schedule, spawned_by.run, spawned_by.moment), (id, 1, at(HOUR * 8)));
        run.ack().unwrap();
        case.clock.advance(DAY);
        assert_eq!(case.work(), ["R-2"], "on Friday");
        case.clock.advance(DAY * 2);
        assert_eq!(case.work(), [""; 0], "not at the weekend");
        case.clock.advance(DAY);
        assert_eq!(case.work(), ["R-3"], "on Monday");
    });
}

/// The clocks of Berlin go forward at 2026-03-29 01:00 UTC, 1774746000.
#[test]
fn run_in_the_gap_of_a_day_with_23_hours_comes_once_after_it() {
    const GAP: u64 = 1_774_746_000;
    let (clock, store, tube) = store_at(GAP - 3 * 3600);
    tube.schedule(cron("30 2 * * *", "Europe/Berlin"), "run").unwrap();
    assert_eq!(only_schedule(&tube).next, moment(GAP));
    clock.advance(HOUR * 3 - ms(1));
    assert_eq!(work(&tube), [""; 0]);
    clock.advance(ms(1));
    assert_eq!(work(&tube), ["R-1"]);
    // At 02:30 of the next day, in summer time.
    assert_eq!(only_schedule(&tube).next, moment(GAP + 23 * 3600 + 1800));
    clock.advance(HOUR * 22);
    assert_eq!(work(&tube), [""; 0]);
    clock.advance(HOUR * 2);
    assert_eq!(work(&tube), ["R-2"]);
    assert_sound(&store);
}

/// Apia left out 2011-12-30, at 2011-12-30 10:00 UTC, 1325239200.
#[test]
fn schedule_goes_on_after_a_day_that_is_left_out() {
    const GAP: u64 = 1_325_239_200;
    let (clock, store, tube) = store_at(GAP - 3600);
    tube.schedule(cron("0 9 * * *", "Pacific/Apia"), "run").unwrap();
    tube.schedule(Schedule::cron("F", "0 9 * * 5", "Pacific/Apia"), "run").unwrap();
    let next = || tube.schedules().list(None, 9).unwrap().items.into_iter().map(|it| it.next);
    assert_eq!(next().collect::<Vec<_>>(), [moment(GAP); 2]);
    clock.advance(HOUR);
    assert_eq!(work(&tube), ["R-1", "F-1"]);
    let weekly = GAP + 9 * 3600 + 6 * 86_400;
    assert_eq!(next().collect::<Vec<_>>(), [moment(GAP + 9 * 3600), moment(weekly)]);
    clock.advance(HOUR * 9);
    assert_eq!(work(&tube), ["R-2"]);
    assert_sound(&store);
}

/// The clocks of Berlin go back at 2026-10-25 01:00 UTC, 1792890000.
#[test]
fn run_in_the_fold_of_a_day_with_25_hours_comes_once() {
    const FOLD: u64 = 1_792_890_000;
    let (clock, store, tube) = store_at(FOLD - 3 * 3600);
    tube.schedule(cron("30 2 * * *", "Europe/Berlin"), "run").unwrap();
    assert_eq!(only_schedule(&tube).next, moment(FOLD - 1800));
    clock.advance(HOUR * 3);
    assert_eq!(work(&tube), ["R-1"]);
    assert_eq!(only_schedule(&tube).next, moment(FOLD - 1800 + 25 * 3600));
    clock.advance(HOUR * 24);
    assert_eq!(work(&tube), [""; 0]);
    clock.advance(MINUTE * 30);
    assert_eq!(work(&tube), ["R-2"]);
    assert_sound(&store);
}

#[test]
fn runs_follow_a_wall_clock_that_is_set() {
    for_each_driver(&[FIFO, FIFOTTL], |case| {
        case.schedule(cron("0 9 * * *", "UTC"), "run");
        // Forward by eight hours: one is left.
        case.set_wall(HOUR * 8);
        assert_eq!(case.only_schedule().due_in, HOUR);
        case.clock.advance(HOUR);
        assert_eq!(case.work(), ["R-1"]);
        // Back by an hour: the run at nine o'clock is not repeated.
        case.clock.set_wall(START + HOUR * 8);
        case.clock.advance(HOUR);
        assert_eq!(case.work(), [""; 0]);
        // Back by a day and an hour: it goes on from the clock as it is.
        case.clock.set_wall(START + HOUR * 8 - DAY);
        case.advance(0);
        case.clock.advance(DAY);
        assert_eq!(case.work(), ["R-2"]);
        case.clock.advance(DAY);
        assert_eq!(case.work(), ["R-3"], "it is eight o'clock of the second day");
        case.clock.advance(HOUR);
        assert_eq!(case.work(), ["R-4"]);
        // Forward over several moments: one is made up for.
        case.set_wall(DAY * 10);
        assert_eq!(case.work(), ["R-5"]);
        assert_eq!(case.only_schedule().next, at(DAY * 10 + HOUR * 9));
    });
}

#[test]
fn missed_moments_are_made_up_for_as_the_schedule_says() {
    let cases = [
        (Missed::Latest(1), &[9][..]),
        (Missed::Latest(3), &[7, 8, 9]),
        (Missed::All, &[1, 2, 3, 4, 5, 6, 7, 8, 9]),
        (Missed::Skip, &[]),
    ];
    for (missed, hours) in cases {
        for within in [None, Some(HOUR * 2)] {
            let file = StoreFile::new();
            let (store, tube) = create(&file, FIFO);
            let schedule = cron("0 * * * *", "UTC").missed(missed);
            let schedule = within.into_iter().fold(schedule, Schedule::within);
            tube.schedule(schedule, "run").unwrap();
            drop(tube);
            let store = file.reopen_after(store, HOUR * 9 + MINUTE * 2);
            file.tick();
            let tube = store.find_tube("case").unwrap();
            let runs = tube.query().list(TaskState::Ready, None, 20).unwrap().items;
            let found: Vec<_> = runs.iter().map(|run| run.spawned_by.unwrap().moment).collect();
            let expected: Vec<_> = hours
                .iter()
                .filter(|hour| within.is_none() || **hour >= 8)
                .map(|hour| at(HOUR * *hour))
                .collect();
            assert_eq!(found, expected, "{missed:?} {within:?}");
            assert_eq!(only_schedule(&tube).next, at(HOUR * 10));
            assert_sound(&store);
        }
    }
}

#[test]
fn cron_schedules_survive_a_kill_and_end() {
    let file = StoreFile::new();
    let (_store, tube) = create(&file, FIFO);
    let schedule = cron("0 * * * *", "UTC").times(3).overlap(Overlap::Skip);
    tube.schedule(schedule, "run").unwrap();
    for run in 1..=3 {
        file.clock.advance(HOUR);
        let (_killed, store) = after_a_kill(&file);
        let killed = store.find_tube("case").unwrap();
        assert_eq!(work(&killed), [format!("R-{run}")]);
        assert_sound(&store);
        assert_eq!(work(&tube), [format!("R-{run}")]);
    }
    assert_eq!(tube.statistics().unwrap().tasks.recurring, 0);
}

#[test]
fn interval_and_expression_replace_each_other() {
    for_each_driver(ALL, |case| {
        let put = case.draft("x");
        let id = case.schedule(Schedule::every("R", HOUR), put);
        case.advance(0);
        let change = cron("30 * * * *", "UTC");
        assert_eq!(case.tube.schedules().change(change).unwrap().id, id);
        assert_eq!((case.only_schedule().next, case.only_schedule().runs), (at(MINUTE * 30), 1));
        case.clock.advance(MINUTE * 30);
        assert_eq!(case.only_schedule().runs, 2);
        case.tube.schedules().change(Schedule::every("R", MINUTE)).unwrap();
        assert_eq!(case.only_schedule().next, at(MINUTE * 31));
        case.clock.advance(MINUTE);
        assert_eq!(case.only_schedule().runs, 3);
        assert_eq!(case.info(id).not_before, None);
        let start = cron("0 0 * * *", "UTC").starting(at(DAY * 3 - MINUTE));
        case.tube.schedules().change(start).unwrap();
        assert_eq!(case.only_schedule().next, at(DAY * 3));
    });
}

#[test]
fn unknown_expressions_and_zones_change_nothing() {
    for_each_driver(&[FIFO], |case| {
        let invalid = |expression: &str, zone: &str| {
            let refused = case.tube.schedule(cron(expression, zone), "run");
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        };
        invalid("0 25 * * *", "UTC");
        invalid("* * *", "UTC");
        invalid("0 9 * * *", "Europe/Atlantis");
        invalid("0 0 30 2 *", "UTC");
        invalid(&" ".repeat(256), "UTC");
        assert_eq!(case.tube.schedules().list(None, 9).unwrap().items, []);
        case.schedule(cron("0 9 * * *", "UTC"), "run");
        let before = case.only_schedule();
        let change = cron("0 9 * * *", "Europe/Atlantis");
        assert!(case.tube.schedules().change(change).is_err());
        assert_eq!(case.only_schedule(), before);
    });
}
