//! What has fallen due waits for the first catch-up, so that a schedule can be changed before its runs
//! are put.

use std::ops::ControlFlow;
use std::time::Duration;

use tubewell::{Missed, Put, Schedule};

use crate::support::{HOUR, StoreFile};

#[test]
fn held_due_work_begins_with_the_first_catch_up() {
    for unscheduled in [false, true] {
        let file = StoreFile::new();
        let run = file.open();
        let schedule = Schedule::every("R", HOUR).missed(Missed::All);
        run.tube.schedule(schedule, Put::new("run")).unwrap();
        run.put("delayed", |put| put.delay(HOUR));
        run.close();
        file.advance(HOUR * 199);
        let run = file.open_with(file.options().hold_due_work(true));
        file.advance(HOUR);
        assert_eq!(run.ready_and_delayed(), (0, 1));
        if unscheduled {
            run.tube.schedules().remove("R").unwrap();
        }
        let mut done = Vec::new();
        let note = |so_far| {
            done.push(so_far);
            ControlFlow::Continue(())
        };
        run.store.admin().catch_up_with(note).unwrap();
        let runs = if unscheduled { 0 } else { 201 };
        assert_eq!(run.ready_and_delayed(), (runs + 1, 0));
        assert!(done.is_sorted() && done.iter().all(|so_far| *so_far <= runs + 1), "{done:?}");
        assert_eq!(done.is_empty(), unscheduled);
        // From then on it goes on by itself.
        file.advance(HOUR);
        assert_eq!(run.ready_and_delayed().0, if unscheduled { 1 } else { 203 });
        file.advance(Duration::ZERO);
        run.close();
    }
}

#[test]
fn catch_up_that_its_callback_ends_leaves_the_rest_to_the_store() {
    let file = StoreFile::new();
    let run = file.open();
    for _ in 0..300 {
        run.put("delayed", |put| put.delay(HOUR));
    }
    run.close();
    file.advance(HOUR);
    let run = file.open_with(file.options().hold_due_work(true));
    let mut calls = 0;
    let end = |_| {
        calls += 1;
        ControlFlow::Break(())
    };
    run.store.admin().catch_up_with(end).unwrap();
    assert_eq!(calls, 1);
    let (ready, delayed) = run.ready_and_delayed();
    assert!(ready > 0 && delayed > 0, "{ready} ready and {delayed} delayed");
    file.advance(Duration::ZERO);
    assert_eq!(run.ready_and_delayed(), (300, 0));
    run.close();
}
