//! Stories that must fail, or the others prove nothing.

use std::panic::catch_unwind;

use shuttle::thread;
use tubewell::{FIFO, Put, explored::pass};

use crate::explore::explore;
use crate::stage::{end, ms, still, swept, taker, tube};

/// What the failure of such a story says.
fn told(test: &'static str, story: fn()) -> String {
    let failure = catch_unwind(move || explore(test, story)).expect_err("nothing was found out");
    let text = failure.downcast_ref::<String>().cloned();
    text.or_else(|| failure.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
}

#[test]
fn a_take_that_is_never_served_is_found_out() {
    let told = told("a_take_that_is_never_served", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        drop(taker(&tube).join().unwrap());
    });
    assert!(told.contains("deadlock"), "{told}");
}

#[test]
fn a_due_that_time_does_not_reach_is_found_out() {
    let told = told("a_due_that_time_does_not_reach", || {
        let store = swept();
        let tube = tube(&store, tubewell::FIFOTTL);
        let taker = taker(&tube);
        tube.put(Put::new("late").delay(ms(1000))).unwrap();
        pass(ms(999));
        drop(taker.join().unwrap());
    });
    assert!(told.contains("deadlock"), "{told}");
}

#[test]
fn an_answer_that_only_some_schedules_give_is_found_out() {
    let told = told("an_answer_that_only_some", || {
        let (store, _) = still();
        let tube = tube(&store, FIFO);
        let putter = thread::spawn({
            let tube = tube.clone();
            move || tube.put("x").unwrap()
        });
        let found = tube.try_take().unwrap().is_some();
        putter.join().unwrap();
        end(&store);
        assert!(!found, "the put was faster");
    });
    assert!(told.contains("the put was faster"), "{told}");
}
