//! Schedules whose runs were missed, or do not fit.

#![allow(clippy::unchecked_time_subtraction, reason = "constants of the tests")]

use std::task::Waker;
use std::time::{Duration, SystemTime};

use tubewell::driver::{Draft, Driver, Traits};
use tubewell::{FIFO, LIMFIFOTTL, Missed, Overlap, Put, Schedule, Store, TaskState, TubeOptions};

use super::executor::{block_on, poll_pending};
use super::files::{after_a_kill, create, create_with, draft};
use super::not_before::{HOUR, at};
use super::schedules::{MINUTE, every, only_schedule, work};
use super::support::*;
use crate::stores;

const MONTH: Duration = secs(30 * 86_400);

#[test]
fn application_that_was_closed_for_a_month_starts_with_one_run() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    tube.schedule(every(MINUTE).starting(at(secs(30))), "run").unwrap();
    drop(tube);
    let store = file.reopen_after(store, MONTH);
    file.tick();
    let tube = store.find_tube("case").unwrap();
    assert_eq!(work(&tube), ["R-1"]);
    assert_eq!(only_schedule(&tube).next, at(MONTH + secs(30)));
    file.clock.advance(MINUTE);
    assert_eq!(work(&tube), ["R-2"]);
    assert_sound(&store);
}

/// The moments of the runs that are put when a store is opened again, in order. The schedule is
/// stored when the clock starts.
fn runs_after(driver: &str, schedule: Schedule, closed_for: Duration) -> Vec<SystemTime> {
    let file = StoreFile::new();
    let (store, tube) = create(&file, driver);
    let put = draft(driver, "x");
    tube.schedule(schedule, put).unwrap();
    drop(tube);
    let store = file.reopen_after(store, closed_for);
    file.clock.advance(ZERO);
    let tube = store.find_tube("case").unwrap();
    let runs = tube.query().list(TaskState::Ready, None, 20).unwrap().items;
    let mut runs: Vec<_> = runs.into_iter().map(|run| run.spawned_by.unwrap()).collect();
    assert_eq!(runs.len() as u64, only_schedule(&tube).runs);
    runs.sort_by_key(|run| run.run);
    assert_eq!(only_schedule(&tube).skipped, 0, "missed runs do not count");
    assert!(only_schedule(&tube).next > at(closed_for));
    assert_sound(&store);
    runs.into_iter().map(|run| run.moment).collect()
}

/// Q263 Q264
#[test]
fn newest_missed_runs_or_all_are_made_up_for() {
    let cases = [
        (Missed::Latest(1), &[540][..]),
        (Missed::Latest(3), &[420, 480, 540]),
        (Missed::All, &[60, 120, 180, 240, 300, 360, 420, 480, 540]),
        (Missed::Skip, &[540]),
    ];
    for (missed, moments) in cases {
        for driver in ALL {
            let schedule = every(MINUTE).starting(at(MINUTE)).missed(missed);
            let expected: Vec<_> = moments.iter().map(|second| at(secs(*second))).collect();
            assert_eq!(runs_after(driver, schedule, secs(599)), expected, "{missed:?}");
        }
    }
}

#[test]
fn runs_that_are_too_late_are_left_out() {
    let runs =
        |schedule: Schedule, closed_for| runs_after(FIFO, schedule.starting(at(HOUR)), closed_for);
    let skip = || every(HOUR).missed(Missed::Skip);
    assert_eq!(runs(skip(), HOUR + MINUTE), [at(HOUR)]);
    assert_eq!(runs(skip(), HOUR + MINUTE + ms(1)), []);
    assert_eq!(runs(skip(), HOUR * 5 + secs(1)), [at(HOUR * 5)]);
    let within = |missed| every(HOUR).within(HOUR * 2).missed(missed);
    assert_eq!(runs(within(Missed::Latest(1)), HOUR * 9), [at(HOUR * 9)]);
    let last = [at(HOUR * 7), at(HOUR * 8), at(HOUR * 9)];
    assert_eq!(runs(within(Missed::All), HOUR * 9), last);
    assert_eq!(runs(within(Missed::Latest(5)), HOUR * 9), last);
    let short = every(HOUR).within(MINUTE);
    assert_eq!(runs(short, HOUR * 9 + MINUTE * 2), []);
}

/// One slice of the sweeper puts 64 of them.
#[test]
fn many_missed_runs_are_all_made_up_for() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    tube.schedule(every(secs(1)).starting(at(secs(1))).missed(Missed::All).times(5000), "run")
        .unwrap();
    drop(tube);
    let store = file.reopen_after(store, secs(9999));
    file.tick();
    let tube = store.find_tube("case").unwrap();
    assert_eq!(tube.statistics().unwrap().tasks.ready, 5000);
    let first = tube.query().list(TaskState::Ready, None, 1).unwrap().items;
    assert_eq!(first[0].key.as_deref(), Some("R-1"));
    assert!(store.by_key("R-5000").unwrap().is_some());
    assert_sound(&store);
}

#[test]
fn missed_runs_survive_a_kill_between_them() {
    let file = StoreFile::new();
    let (_store, tube) = create(&file, FIFO);
    tube.schedule(every(HOUR).missed(Missed::All), "run").unwrap();
    for runs in 1..=3 {
        file.clock.advance(if runs == 1 { ZERO } else { HOUR });
        let (_killed, store) = after_a_kill(&file);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(only_schedule(&tube).runs, runs);
        assert_eq!(tube.statistics().unwrap().tasks.ready, runs);
        assert_sound(&store);
    }
}

#[test]
fn run_waits_for_a_second_in_a_full_tube_and_is_left_out_then() {
    let options = TubeOptions::new().capacity(1);
    for_each_driver_with(&[LIMFIFOTTL], options, |case| {
        let first = case.put("fills it");
        case.schedule(every(HOUR), "run");
        case.advance(0);
        let waits = case.only_schedule();
        assert_eq!((waits.runs, waits.skipped, waits.due_in), (0, 0, secs(1)));
        assert_eq!(waits.next, at(ZERO));
        case.tube.delete(first).unwrap();
        case.clock.advance(secs(1));
        assert_eq!((case.only_schedule().runs, case.only_schedule().next), (1, at(HOUR)));
        // The run fills it now.
        case.clock.advance(HOUR - secs(1));
        case.clock.advance(secs(1));
        let left_out = case.only_schedule();
        assert_eq!((left_out.runs, left_out.skipped, left_out.next), (1, 1, at(HOUR * 2)));
        assert_eq!(case.work(), ["R-1"]);
        case.clock.advance(HOUR);
        assert_eq!(case.work(), ["R-2"]);
    });
}

/// A tube that one task fills.
pub fn full() -> TubeOptions {
    TubeOptions::new().capacity(1)
}

impl Case {
    /// The numbers of the runs that were put and skipped, the moment of the next one in seconds since
    /// the beginning, and how long until then.
    pub fn waiting_run(&self) -> ((u64, u64), Duration, Duration) {
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
            case.schedule(every(HOUR).starting(at(secs(600))).restored(17, 4, 2), "run");
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
    tube.schedule(every(MINUTE), "run").unwrap();
    file.clock.advance(ZERO);
    assert_eq!(only_schedule(&tube).due_in, secs(1));
    drop(tube);
    let store = file.reopen_after(store, HOUR);
    file.clock.advance(ZERO);
    let tube = store.find_tube("case").unwrap();
    let waits = only_schedule(&tube);
    assert_eq!((waits.runs, waits.skipped, waits.next), (0, 0, at(HOUR)), "a newer one waits");
    assert_eq!(waits.due_in, secs(1));
    drop(tube);
    let store = file.reopen(store);
    let tube = store.find_tube("case").unwrap();
    assert_eq!(only_schedule(&tube), waits, "it goes on waiting after a close");
    assert_eq!(work(&tube), [""]);
    file.clock.advance(secs(1));
    assert_eq!(work(&tube), ["R-1"]);
    assert_sound(&store);
}

/// The next run is due at the time until which the last one has waited.
#[test]
fn schedule_goes_on_after_a_run_that_has_waited_for_a_whole_interval() {
    for is_left_out in [false, true] {
        let file = StoreFile::new();
        let options = TubeOptions::new().capacity(1);
        let (store, tube) = create_with(&file, LIMFIFOTTL, options);
        tube.schedule(every(secs(1)).missed(Missed::All), "run").unwrap();
        file.clock.advance(ZERO);
        // The second run waits, until the third one is due.
        file.clock.advance(secs(1));
        let waits = only_schedule(&tube);
        assert_eq!((waits.runs, waits.skipped, waits.due_in), (1, 0, secs(1)));
        let store = if is_left_out {
            drop(tube);
            file.reopen_after(store, secs(3))
        } else {
            assert_eq!(work(&tube), ["R-1"]);
            file.clock.advance(secs(1));
            store
        };
        file.clock.advance(ZERO);
        let tube = store.find_tube("case").unwrap();
        let waits = only_schedule(&tube);
        assert_eq!((waits.runs, waits.skipped), if is_left_out { (1, 1) } else { (2, 0) });
        assert_eq!((waits.next, waits.due_in), (at(secs(2)), secs(1)));
        assert_eq!(work(&tube).len(), 1);
        file.clock.advance(secs(1));
        assert_eq!(only_schedule(&tube).runs, waits.runs + 1);
        assert_sound(&store);
    }
}

#[test]
fn puts_that_wait_for_space_come_before_a_run() {
    let options = TubeOptions::new().capacity(1);
    for_each_driver_with(&[LIMFIFOTTL], options, |case| {
        let first = case.put("first");
        let mut waiting = Box::pin(case.tube.to_async().put_timeout("waits", NO_TIMEOUT));
        poll_pending(&mut waiting, Waker::noop());
        case.schedule(every(HOUR), "run");
        case.advance(0);
        case.tube.delete(first).unwrap();
        case.advance(0);
        assert!(block_on(waiting).is_ok());
        case.clock.advance(secs(1));
        assert_eq!((case.only_schedule().runs, case.only_schedule().skipped), (0, 1));
    });
}

#[derive(Debug)]
struct Own;

impl Driver for Own {
    fn name(&self) -> &'static str {
        "own"
    }

    fn traits(&self) -> Traits {
        Traits { timed: true, sub_queued: false, bounded: false }
    }

    fn order(&self, draft: &Draft<'_>) -> u64 {
        draft.body.len() as u64
    }
}

#[test]
fn schedule_stands_still_without_its_driver() {
    let file = StoreFile::new();
    let store = file.open();
    stores::owner(&store).admin().register_driver(Own).unwrap();
    let tube = store.create_tube("case", TubeOptions::new().driver("own")).unwrap();
    tube.schedule(every(HOUR).missed(Missed::Latest(2)), "run").unwrap();
    drop(tube);
    let store = file.reopen_after(store, HOUR * 10);
    file.tick();
    let tube = store.find_tube("case").unwrap();
    let stands = only_schedule(&tube);
    assert_eq!((stands.runs, stands.next), (0, at(ZERO)));
    assert!(stands.stopped.unwrap().contains("own"));
    assert_eq!(tube.statistics().unwrap().tasks.total, 0);
    stores::owner(&store).admin().register_driver(Own).unwrap();
    file.tick();
    assert_eq!(only_schedule(&tube).stopped, None);
    assert_eq!(work(&tube), ["R-1", "R-2"]);
    assert_sound(&store);
}

#[test]
fn idle_schedule_wakes_nothing_before_its_moment() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    tube.schedule(every(HOUR).starting(at(HOUR)).overlap(Overlap::Skip), "run").unwrap();
    tube.schedule(Schedule::every("S", HOUR).starting(at(HOUR)), "run").unwrap();
    store.flush().unwrap();
    let commits = store.admin().counters().unwrap().commits;
    file.clock.advance(HOUR - ms(1));
    assert_eq!(store.admin().counters().unwrap().commits, commits);
    file.tick();
    assert_eq!(tube.statistics().unwrap().tasks.ready, 2);
}

/// A temporary tube has its schedules in memory.
#[test]
fn temporary_tube_has_schedules() {
    let clock = stores::ManualClock::new();
    let store = stores::in_memory_with(Store::options().clock(&clock));
    let tube = store.create_tube("case", TubeOptions::new().temporary(true).driver(FIFO)).unwrap();
    tube.schedule(every(MINUTE), Put::new("x")).unwrap();
    clock.advance(MINUTE);
    assert_eq!(work(&tube), ["R-1", "R-2"]);
    assert_sound(&store);
}
