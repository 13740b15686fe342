//! Schedules that leave a run out while the last one is not over.

#![allow(clippy::unchecked_time_subtraction, reason = "constants of the tests")]

use tubewell::{FIFO, FIFOTTL, Keep, Outcome, Overlap, Schedule, TubeOptions};

use super::files::{create, draft};
use super::not_before::at;
use super::schedules::{MINUTE, every, only_schedule, work};
use super::support::*;

#[test]
fn overlapping_run_is_left_out_until_the_last_one_is_over() {
    let keep = TubeOptions::new().keep_done(Keep::new());
    for_each_driver_with(ALL, keep, |case| {
        case.schedule(every(MINUTE).overlap(Overlap::Skip), "run");
        case.advance(0);
        case.clock.advance(MINUTE);
        let first = case.tube.try_take().unwrap().unwrap();
        case.clock.advance(MINUTE);
        let stored = case.only_schedule();
        assert_eq!((stored.runs, stored.skipped, stored.next), (1, 2, at(MINUTE * 3)));
        first.ack().unwrap();
        case.clock.advance(MINUTE);
        // The first one is done and kept, with its key.
        let second = case.tube.try_take().unwrap().unwrap();
        assert_eq!(second.key(), Some("R-2"));
        second.bury(None).unwrap();
        case.clock.advance(MINUTE);
        assert_eq!(case.work(), ["R-3"], "a buried run is over");
    });
}

#[test]
fn run_in_another_tube_still_overlaps() {
    for_each_driver(&[FIFO, FIFOTTL], |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        case.schedule(every(MINUTE).overlap(Overlap::Skip), "run");
        case.advance(0);
        case.tube.try_take().unwrap().unwrap().end(Outcome::advance(&other, "further")).unwrap();
        case.clock.advance(MINUTE);
        assert_eq!((case.only_schedule().runs, case.only_schedule().skipped), (1, 1));
        assert_eq!(work(&other), ["R-1"]);
        case.clock.advance(MINUTE);
        assert_eq!(case.work(), ["R-2"]);
    });
}

#[test]
fn run_without_a_key_in_another_tube_still_overlaps() {
    for_each_driver(ALL, |case| {
        let new_tube = |name| case.store.create_tube(name, TubeOptions::new().driver(case.driver));
        let others = ["a", "b", "c"].map(|name| new_tube(name).unwrap());
        let key_holder = case.add(case.draft("has the key").key("R-1"));
        let id = case.schedule(every(MINUTE).overlap(Overlap::Skip), "run");
        case.advance(0);
        let run = case.only_schedule().last.unwrap();
        assert_eq!(case.info(run).key, None);
        assert_eq!(case.tube.admin().move_to(&others[1], run), Ok(1));
        // Whether another task has the key or not, and also if it is taken.
        case.clock.advance(MINUTE);
        case.tube.delete(key_holder).unwrap();
        case.clock.advance(MINUTE);
        let claim = others[1].try_take().unwrap().unwrap();
        case.clock.advance(MINUTE);
        assert_eq!((case.only_schedule().runs, case.only_schedule().skipped), (1, 3));
        claim.ack().unwrap();
        case.clock.advance(MINUTE);
        assert_eq!((case.only_schedule().id, case.work()), (id, vec!["R-2".to_owned()]));
    });
}

/// The runs of a schedule stay in the tube that it leaves.
#[test]
fn run_without_a_key_in_the_tube_that_its_schedule_has_left_still_overlaps() {
    for_each_driver(&[FIFO, FIFOTTL], |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let key_holder = case.add(case.draft("has the key").key("R-1"));
        case.schedule(every(MINUTE).overlap(Overlap::Skip), "run");
        case.advance(0);
        let run = case.only_schedule().last.unwrap();
        assert_eq!(case.info(run).key, None);
        other.schedules().change(Schedule::of("R").times(9)).unwrap();
        case.tube.delete(key_holder).unwrap();
        case.clock.advance(MINUTE);
        assert_eq!((only_schedule(&other).runs, only_schedule(&other).skipped), (1, 1));
        case.tube.claim(run).unwrap().ack().unwrap();
        case.clock.advance(MINUTE);
        assert_eq!((only_schedule(&other).runs, work(&other)), (2, vec!["R-2".to_owned()]));
    });
}

/// Which tubes have tasks that have moved is in memory only.
#[test]
fn run_without_a_key_that_was_moved_before_an_open_still_overlaps() {
    for driver in [FIFO, FIFOTTL] {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let other = store.create_tube("other", TubeOptions::new().driver(driver)).unwrap();
        tube.put(draft(driver, "has the key").key("R-1")).unwrap();
        tube.schedule(every(MINUTE).overlap(Overlap::Skip), "run").unwrap();
        file.clock.advance(ZERO);
        let run = only_schedule(&tube).last.unwrap();
        assert_eq!(tube.admin().move_to(&other, run), Ok(1));
        drop((tube, other));
        let store = file.reopen(store);
        let [tube, other] = ["case", "other"].map(|name| store.find_tube(name).unwrap());
        for skipped in [1, 2] {
            file.clock.advance(MINUTE);
            assert_eq!((only_schedule(&tube).runs, only_schedule(&tube).skipped), (1, skipped));
        }
        other.claim(run).unwrap().ack().unwrap();
        file.clock.advance(MINUTE);
        assert_eq!(work(&tube), ["R-1", "R-2"]);
        assert_sound(&store);
    }
}
