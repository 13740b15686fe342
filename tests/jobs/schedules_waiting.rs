//! Runs of schedules that are due and wait for space in a full tube.

use std::time::Duration;

use tubewell::{FIFO, LIMFIFOTTL, Reschedule, TubeOptions};

use super::files::create_with;
use super::not_before::{HOUR, at};
use super::schedules::{MINUTE, every, only_schedule, work};
use super::support::*;

fn full() -> TubeOptions {
    TubeOptions::new().capacity(1)
}

impl Case {
    /// The numbers of the runs that were put and skipped, the moment of the next one in seconds since
    /// the beginning, and how long until then.
    fn waiting_run(&self) -> ((u64, u64), Duration, Duration) {
        let stored = self.only_schedule();
        let next = stored.next.duration_since(at(ZERO)).unwrap();
        ((stored.runs, stored.skipped), next, stored.due_in)
    }
}

/// The schedule waits for further ids first, for a minute.
#[test]
fn run_of_a_restored_schedule_waits_in_a_full_tube() {
    for fits in [false, true] {
        for_each_driver_with(&[LIMFIFOTTL], full(), |case| {
            case.put("fills it");
            case.clock.advance(HOUR);
            case.schedule(every(HOUR).starting(at(secs(600))).restored(17, 4, 2));
            case.clock.advance(MINUTE);
            assert_eq!(case.waiting_run(), ((4, 2), secs(600), secs(1)));
            if fits {
                assert_eq!(case.work(), [""]);
            }
            case.clock.advance(secs(1));
            let counts = if fits { (5, 2) } else { (4, 3) };
            assert_eq!(case.only_schedule().runs + case.only_schedule().skipped, 7);
            assert_eq!((case.waiting_run().0, case.waiting_run().1), (counts, HOUR + secs(600)));
        });
    }
}

/// Also one whose moment passed long ago, as that of a schedule that has stood still.
#[test]
fn newest_of_the_missed_runs_waits_in_a_full_tube() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, LIMFIFOTTL, full());
    tube.put("fills it").unwrap();
    tube.schedule(every(MINUTE)).unwrap();
    file.clock.advance(ZERO);
    assert_eq!(only_schedule(&tube).due_in, secs(1));
    drop(tube);
    let store = file.reopen_after(store, HOUR);
    file.clock.advance(ZERO);
    let tube = store.tube("case").unwrap();
    let waits = only_schedule(&tube);
    assert_eq!((waits.runs, waits.skipped, waits.next), (0, 0, at(HOUR)), "a newer one waits");
    assert_eq!(waits.due_in, secs(1));
    drop(tube);
    let store = file.reopen(store);
    let tube = store.tube("case").unwrap();
    assert_eq!(only_schedule(&tube), waits, "it goes on waiting after a close");
    assert_eq!(work(&tube), [""]);
    file.clock.advance(secs(1));
    assert_eq!(work(&tube), ["R-1"]);
    assert_sound(&store);
}

#[test]
fn waiting_run_keeps_its_moment_when_the_interval_is_changed() {
    for_each_driver_with(&[LIMFIFOTTL], full(), |case| {
        case.schedule(every(MINUTE));
        case.advance(0);
        case.clock.advance(MINUTE);
        assert_eq!(case.waiting_run(), ((1, 0), MINUTE, secs(1)), "the first run fills the tube");
        case.advance(300);
        case.tube.reschedule("R", Reschedule::new().every(HOUR)).unwrap();
        assert_eq!(case.waiting_run(), ((1, 0), MINUTE, ms(700)));
        case.tube.schedule(every(HOUR * 2)).unwrap();
        assert_eq!(case.waiting_run(), ((1, 0), MINUTE, ms(700)));
        assert_eq!(case.work(), ["R-1"]);
        case.advance(700);
        assert_eq!(case.work(), ["R-2"]);
        assert_eq!(case.waiting_run().1, MINUTE + HOUR * 2);
    });
}

/// The first call of an application that starts again changes the interval.
#[test]
fn missed_run_is_not_lost_when_the_interval_is_changed() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, TubeOptions::new());
    tube.schedule(every(MINUTE)).unwrap();
    file.clock.advance(ZERO);
    assert_eq!(work(&tube), ["R-1"]);
    drop(tube);
    let store = file.reopen_after(store, HOUR);
    let tube = store.tube("case").unwrap();
    tube.schedule(every(HOUR * 9)).unwrap();
    file.clock.advance(ZERO);
    assert_eq!(work(&tube), ["R-2"]);
    assert_sound(&store);
}

/// A run that waits is that of an expression, whatever the next one says.
#[cfg(feature = "cron")]
#[test]
fn waiting_run_keeps_its_moment_when_the_expression_is_changed() {
    let daily =
        |hour: u64| tubewell::Schedule::cron(format!("0 {hour} * * *"), "UTC").key("R").put("run");
    for_each_driver_with(&[LIMFIFOTTL], full(), |case| {
        case.put("fills it");
        case.schedule(daily(1));
        case.clock.advance(HOUR);
        assert_eq!(case.waiting_run(), ((0, 0), HOUR, secs(1)));
        case.advance(300);
        case.tube.schedule(daily(9)).unwrap();
        assert_eq!(case.waiting_run(), ((0, 0), HOUR, ms(700)));
        assert_eq!(case.work(), [""]);
        case.advance(700);
        assert_eq!(case.work(), ["R-1"]);
        assert_eq!(case.waiting_run().1, HOUR * 9);
        // As an import stores it: the moment of the run that waited is none of the expression.
        case.tube.unschedule("R").unwrap();
        case.schedule(daily(9).starting(at(HOUR)).restored(None, 3, 1));
        assert_eq!((case.waiting_run().0, case.waiting_run().1), ((3, 1), HOUR));
        case.advance(0);
        let run = case.tube.try_take().unwrap().unwrap();
        assert_eq!(run.key(), Some("R-4"));
        assert_eq!(case.info(run.id()).spawned_by.unwrap().moment, at(HOUR));
    });
}
