//! Schedules: the sweeper puts their runs while callers change them, remove them or close the store.

use shuttle::thread;
use tubewell::explored::pass;
use tubewell::{Error, FIFO, Schedule, ScheduleInfo, Store, TaskState, Tube};

use crate::disk::Disk;
use crate::explore::explore_few;
use crate::support::{
    NO_TIMEOUT, is_closed, ms, spawn_with, sweeper_store, tube, verify_and_close,
};

/// A tube with a schedule whose first run is over. The next one is due in a second.
fn scheduled(store: &Store) -> Tube {
    let tube = tube(store, FIFO);
    tube.schedule(Schedule::every("R", ms(1000)), "run").unwrap();
    assert_eq!(take_run(&tube), "R-1");
    tube
}

/// Waits for the next run and acks it. Returns its key.
fn take_run(tube: &Tube) -> String {
    let claim =
        tube.take_timeout(NO_TIMEOUT).unwrap().expect("a take without a timeout returns a task");
    let key = claim.key().unwrap().to_owned();
    claim.ack().unwrap();
    key
}

/// The schedules of the tube, and the keys of the runs that are ready. They are read by two calls, and the
/// sweeper may put a run between them.
fn stored(tube: &Tube) -> (Vec<ScheduleInfo>, Vec<String>) {
    let schedules = || tube.schedules().list(None, 10).unwrap().items;
    loop {
        let before = schedules();
        let runs = tube.query().list(TaskState::Ready, None, 10).unwrap().items;
        let after = schedules();
        let runs_of = |all: &[ScheduleInfo]| all.iter().map(|info| info.runs).collect::<Vec<_>>();
        if runs_of(&before) == runs_of(&after) {
            return (after, runs.into_iter().map(|task| task.key.unwrap()).collect());
        }
    }
}

#[test]
fn schedule_that_is_removed_beside_its_run_puts_this_run_or_none() {
    explore_few("schedule_that_is_removed_beside_its_run_puts_this_run_or_none", || {
        let store = sweeper_store();
        let tube = scheduled(&store);
        let removes = spawn_with(&tube, |tube| tube.schedules().remove("R").map(drop));
        pass(ms(1000));
        removes.join().unwrap().unwrap();
        let (schedules, runs) = stored(&tube);
        assert!(schedules.is_empty() && (runs.is_empty() || runs == ["R-2"]), "{runs:?}");
        pass(ms(5000));
        assert_eq!(stored(&tube).1, runs, "a schedule that is gone puts nothing");
        assert!(matches!(tube.schedules().remove("R"), Err(Error::KeyNotFound { .. })));
        verify_and_close(&store);
    });
}

#[test]
fn schedule_that_is_changed_beside_its_run_goes_on_with_the_next_number() {
    explore_few("schedule_that_is_changed_beside_its_run_goes_on_with_the_next_number", || {
        let store = sweeper_store();
        let tube = scheduled(&store);
        let changes = spawn_with(&tube, |tube| {
            tube.schedules().change(Schedule::every("R", ms(60_000))).map(drop)
        });
        pass(ms(1000));
        changes.join().unwrap().unwrap();
        let (schedules, runs) = stored(&tube);
        assert_eq!(schedules[0].runs, 1 + runs.len() as u64);
        assert!(runs.is_empty() || runs == ["R-2"], "{runs:?}");
        // The sweeper sleeps until the next run, whichever of both was first.
        pass(ms(60_000));
        assert_eq!(take_run(&tube), "R-2");
        if !runs.is_empty() {
            assert_eq!(take_run(&tube), "R-3");
        }
        verify_and_close(&store);
    });
}

#[test]
fn close_beside_a_run_stores_it_with_its_number_or_not_at_all() {
    explore_few("close_beside_a_run_stores_it_with_its_number_or_not_at_all", || {
        let disk = Disk::new();
        let store = disk.open();
        let tube = scheduled(&store);
        let closes = {
            let store = store.clone();
            thread::spawn(move || store.close())
        };
        let changes = spawn_with(&tube, |tube| tube.schedules().change_task("R", "new"));
        pass(ms(1000));
        closes.join().unwrap().unwrap();
        let changed = changes.join().unwrap();
        assert!(changed.is_ok() || is_closed(&changed));
        let store = disk.open_with_manual_clock();
        let (schedules, runs) = stored(&store.tube(FIFO).unwrap());
        assert_eq!(schedules[0].runs, 1 + runs.len() as u64, "{runs:?}");
        verify_and_close(&store);
    });
}
