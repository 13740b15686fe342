//! Tasks wait for their moment of the wall clock while it is set or not trusted, over a suspend, a
//! restart and a kill of their store, and during an outage.

#![allow(clippy::unchecked_time_subtraction, reason = "constants of the tests")]

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Error, FIFOTTL, Put, Store, TaskState, TubeOptions};

use super::blocking_disk::Disk;
use super::executor::with_timeout;
use super::files::{after_a_kill, create, create_with, draft};
use super::not_before::{HOUR, MICRO, START, at};
use super::support::*;
use crate::stores::{self, ManualClock};

#[test]
fn task_follows_a_wall_clock_that_is_set() {
    for_each_driver(TIMED, |case| {
        let delayed = case.add(case.draft("delayed").delay(HOUR));
        let id = case.put_at(HOUR);
        case.set_wall(HOUR - MICRO);
        assert_eq!(case.info(id).due_in, Some(MICRO));
        assert!(case.waits(id));
        case.clock.advance(MICRO);
        assert_eq!(case.state(id), Some(TaskState::Ready));
        assert!(case.waits(delayed));

        // Set forward past the moment, and back.
        let [forward, back] = [case.put_at(2 * HOUR), case.put_at(3 * HOUR)];
        case.set_wall(2 * HOUR);
        assert_eq!(case.state(forward), Some(TaskState::Ready));
        case.set_wall(secs(0));
        assert_eq!(case.state(forward), Some(TaskState::Ready), "a ready task stays ready");
        case.clock.advance(3 * HOUR - MICRO);
        assert!(case.waits(back));
        case.clock.advance(MICRO);
        assert_eq!(case.state(back), Some(TaskState::Ready));
        assert_eq!(case.tasks(), counts([("ready", 4), ("total", 4)]));
    });
}

/// The sweeper has not noticed it yet.
#[test]
fn take_follows_a_wall_clock_that_was_set() {
    for_each_driver(TIMED, |case| {
        let id = case.put_at(HOUR);
        assert_eq!(case.take(), None);
        case.clock.set_wall(START + HOUR);
        assert_eq!(case.take(), Some(id));
        // By its id, too.
        let other = case.put_at(2 * HOUR);
        case.clock.set_wall(START + 2 * HOUR);
        case.tube.claim(other).unwrap().ack().unwrap();
    });
}

#[test]
fn task_is_ready_after_a_suspend_past_its_moment() {
    for_each_driver(TIMED, |case| {
        let id = case.put_at(HOUR);
        case.clock.suspend(HOUR - MICRO);
        assert!(case.waits(id));
        case.clock.suspend(MICRO);
        assert_eq!(case.take(), Some(id));
    });
}

#[test]
fn moment_outlives_a_restart_and_a_clock_that_is_set_meanwhile() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (mut store, tube) = create(&file, driver);
        let id = tube.put(draft(driver, "x").not_before(at(5 * HOUR))).unwrap().id;
        drop(tube);
        // Set forward, far back, and forward to the moment.
        for wall in [START + 4 * HOUR, Duration::ZERO, START + 5 * HOUR - MICRO] {
            assert_sound(&store);
            stores::close(&store);
            file.clock.set_wall(wall);
            store = file.open();
            file.clock.advance(ZERO);
            assert_eq!(state(&store.find_tube("case").unwrap(), id), Some(TaskState::Delayed));
        }
        file.clock.advance(MICRO);
        assert_eq!(take(&store.find_tube("case").unwrap()), Some(id));
        assert_sound(&store);
    }
}

#[test]
fn wall_clock_that_is_not_trusted_is_not_followed() {
    const YEAR: Duration = secs(365 * 86_400);
    for_each_driver(TIMED, |case| {
        let id = case.put_at(HOUR);
        case.set_wall(2 * YEAR);
        assert!(case.waits(id));
        case.clock.advance(HOUR - MICRO);
        assert!(case.waits(id));
        case.clock.advance(MICRO);
        assert_eq!(case.take(), Some(id), "the time that was trusted goes on");
    });
}

#[test]
fn ttl_elapses_while_the_store_is_closed() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let put = |ttl| draft(driver, "x").not_before(at(HOUR)).ttl(ttl);
        let [short, long] = [put(HOUR), put(3 * HOUR)].map(|put| tube.put(put).unwrap().id);
        drop(tube);
        let store = file.reopen_after(store, 2 * HOUR);
        store.admin().catch_up().unwrap();
        let tube = store.find_tube("case").unwrap();
        assert_eq!(state(&tube, short), None);
        assert_eq!(tube.query().task(long).unwrap().info.ttl_left, Some(2 * HOUR));
        assert_eq!(take(&tube), Some(long));
        assert_sound(&store);
    }
}

#[test]
fn claim_that_ends_with_its_store_leaves_the_task_to_its_moment() {
    for driver in TIMED {
        for limit in [None, Some(3)] {
            let file = StoreFile::new();
            let mut options = TubeOptions::new();
            if let Some(limit) = limit {
                options = options.max_attempts(limit);
            }
            let (store, tube) = create_with(&file, driver, options);
            let id = tube.put(draft(driver, "x").not_before(at(ZERO))).unwrap().id;
            assert_eq!(take(&tube), Some(id));
            let (killed, copy) = after_a_kill(&file);
            stores::close(&copy);
            file.clock.set_wall(START - HOUR);
            let copy = stores::open_with(killed.path(), Store::options().clock(&file.clock));
            assert_sound(&copy);
            drop(tube);
            let store = file.reopen(store);
            assert_eq!(state(&store.find_tube("case").unwrap(), id), Some(TaskState::Delayed));
            file.clock.advance(HOUR);
            assert_eq!(take(&store.find_tube("case").unwrap()), Some(id));
            assert_sound(&store);
        }
    }
}

#[test]
fn moment_that_comes_during_an_outage_is_kept_after_it() {
    with_timeout(|| {
        let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
        let store = stores::serve(disk.open(Store::options().clock(&clock)));
        let tube = store.create_tube("case", TubeOptions::new().driver(FIFOTTL)).unwrap();
        let puts = [secs(5), secs(9), HOUR].map(|since| Put::new("x").not_before(at(since)));
        tube.put_many(puts).unwrap();
        disk.fail_flushes(true);
        let unknown = tube.put("unknown");
        assert!(matches!(unknown, Err(Error::OutcomeUnknown { .. })), "{unknown:?}");
        clock.advance(secs(6));
        assert_eq!(store.statistics().unwrap()["case"].tasks.delayed, 3, "nothing is decided");
        disk.fail_flushes(false);
        clock.advance(secs(60));
        let states = [0, 1, 2].map(|id| state(&tube, id).unwrap());
        assert_eq!(states, [TaskState::Ready, TaskState::Ready, TaskState::Delayed]);
        assert_sound(&store);
    });
}
