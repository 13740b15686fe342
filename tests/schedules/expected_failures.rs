//! Scenarios that must fail, to show that the explorer detects failures.

use std::panic::catch_unwind;

use shuttle::thread;
use tubewell::{FIFO, Put, explored::pass};

use crate::explore::explore;
use crate::support::{manual_clock_store, ms, sweeper_store, taker, tube, verify_and_close};

/// The panic message of a scenario that must fail.
fn failure_of(test: &'static str, scenario: fn()) -> String {
    let panic = catch_unwind(move || explore(test, scenario)).expect_err("no schedule failed");
    let text = panic.downcast_ref::<String>().cloned();
    text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

#[test]
fn never_served_take_is_reported_as_deadlock() {
    let message = failure_of("never_served_take_is_reported_as_deadlock", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        drop(taker(&tube).join().unwrap());
    });
    assert!(message.contains("deadlock"), "{message}");
}

#[test]
fn take_of_task_not_yet_due_is_reported_as_deadlock() {
    let message = failure_of("take_of_task_not_yet_due_is_reported_as_deadlock", || {
        let store = sweeper_store();
        let tube = tube(&store, tubewell::FIFOTTL);
        let taker = taker(&tube);
        tube.put(Put::new("late").delay(ms(1000))).unwrap();
        pass(ms(999));
        drop(taker.join().unwrap());
    });
    assert!(message.contains("deadlock"), "{message}");
}

#[test]
fn answer_of_only_some_schedules_is_found() {
    let message = failure_of("answer_of_only_some_schedules_is_found", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let putter = thread::spawn({
            let tube = tube.clone();
            move || tube.put("x").unwrap()
        });
        let found = tube.try_take().unwrap().is_some();
        putter.join().unwrap();
        verify_and_close(&store);
        assert!(!found, "the put was faster");
    });
    assert!(message.contains("the put was faster"), "{message}");
}
