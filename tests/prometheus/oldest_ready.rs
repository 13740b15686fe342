//! How long the oldest ready task of a tube has been ready.

use std::time::Duration;

use tubewell::{ManualClock, Put, Store, TubeOptions, UTUBE};

use crate::{SECOND, in_memory, sample};

/// As the text has it, which is what the backlog has.
fn oldest(store: &Store) -> Option<String> {
    let text = store.prometheus().unwrap();
    let shown = sample(&text, r#"tubewell_oldest_ready_seconds{tube="jobs"}"#);
    let told = store.backlog().unwrap()["jobs"].oldest_ready;
    let told = told.unwrap_or_default().as_secs_f64().to_string();
    // Nothing is shown of tasks of which none was found ready.
    assert_eq!(shown.as_deref().unwrap_or("0"), told);
    shown
}

/// A store with a tube, and tasks of these priorities, put a second after the other. One second has
/// elapsed since.
fn with_tasks(options: TubeOptions, priorities: &[u32]) -> (Store, ManualClock) {
    let (store, clock) = in_memory();
    let jobs = store.create_tube("jobs", options).unwrap();
    for priority in priorities {
        jobs.put(Put::new("x").priority(*priority)).unwrap();
        clock.advance(SECOND);
    }
    (store, clock)
}

#[test]
fn no_ready_task_is_zero_seconds() {
    let (store, clock) = with_tasks(TubeOptions::new(), &[]);
    let jobs = store.tube("jobs").unwrap();
    assert_eq!(oldest(&store).as_deref(), Some("0"));
    assert_eq!(store.backlog().unwrap()["jobs"].oldest_ready, None);
    jobs.put(Put::new("x").delay(SECOND * 100)).unwrap();
    clock.advance(SECOND);
    assert_eq!(oldest(&store).as_deref(), Some("0"));
}

/// From the file, and once a take has read the window.
#[test]
fn each_of_the_first_priorities_is_looked_at() {
    for take_first in [false, true] {
        let (store, _clock) = with_tasks(TubeOptions::new(), &[7, 5, 1, 0]);
        let jobs = store.tube("jobs").unwrap();
        let claim = take_first.then(|| jobs.try_take().unwrap().unwrap());
        assert_eq!(oldest(&store).as_deref(), Some("4"), "{take_first}");
        drop(claim);
        // A ninth priority is not looked at.
        let (store, _clock) = with_tasks(TubeOptions::new(), &[9, 8, 7, 6, 5, 4, 3, 2, 1]);
        let jobs = store.tube("jobs").unwrap();
        let _claim = take_first.then(|| jobs.try_take().unwrap().unwrap());
        let expected = if take_first { "9" } else { "8" };
        assert_eq!(oldest(&store).as_deref(), Some(expected), "{take_first}");
    }
}

#[test]
fn taken_tasks_are_passed_over() {
    let (store, _clock) = with_tasks(TubeOptions::new(), &[3; 20]);
    let jobs = store.tube("jobs").unwrap();
    let claims = jobs.take_many(12, Duration::ZERO).unwrap();
    assert_eq!(oldest(&store).as_deref(), Some("8"));
    let others = jobs.take_many(8, Duration::ZERO).unwrap();
    assert_eq!(oldest(&store).as_deref(), Some("0"));
    drop((claims, others));
    assert_eq!(oldest(&store).as_deref(), Some("20"));
}

/// Claims of chosen tasks are behind the window's cursor.
#[test]
fn rows_of_taken_tasks_are_read_up_to_a_limit() {
    let (store, _clock) = with_tasks(TubeOptions::new(), &[3; 40]);
    let jobs = store.tube("jobs").unwrap();
    let claim = |count: u64| (0..count).map(|id| jobs.claim(id).unwrap()).collect::<Vec<_>>();
    let few = claim(30);
    assert_eq!(oldest(&store).as_deref(), Some("10"));
    drop(few);
    let _many = claim(39);
    assert_eq!(oldest(&store), None);
}

#[test]
fn time_counts_from_the_put_without_metrics_and_from_ready_with_them() {
    for (metrics, expected) in [(0, "10"), (1, "2")] {
        let (store, clock) = with_tasks(TubeOptions::new().metrics(metrics), &[]);
        let jobs = store.tube("jobs").unwrap();
        jobs.put(Put::new("x").delay(SECOND * 8)).unwrap();
        clock.advance(SECOND * 8);
        clock.advance(SECOND * 2);
        assert_eq!(oldest(&store).as_deref(), Some(expected), "metrics({metrics})");
    }
}

#[test]
fn sub_queues_that_are_busy_are_left_out() {
    let (store, clock) = with_tasks(TubeOptions::new().driver(UTUBE), &[]);
    let jobs = store.tube("jobs").unwrap();
    for sub_queue in ["a", "a", "b"] {
        jobs.put(Put::new("x").sub_queue(sub_queue)).unwrap();
        clock.advance(SECOND);
    }
    assert_eq!(oldest(&store).as_deref(), Some("3"));
    let first = jobs.try_take().unwrap().unwrap();
    assert_eq!(oldest(&store).as_deref(), Some("1"));
    let second = jobs.try_take().unwrap().unwrap();
    assert_eq!(oldest(&store), None);
    drop((first, second));
    assert_eq!(oldest(&store).as_deref(), Some("3"));
}

#[test]
fn a_restart_changes_nothing() {
    let (folder, clock) = (tempfile::tempdir().unwrap(), ManualClock::new());
    let open = || Store::options().clock(&clock).open(folder.path().join("store")).unwrap();
    let store = open();
    store.tube("jobs").unwrap().put("x").unwrap();
    clock.advance(SECOND * 5);
    store.close().unwrap();
    assert_eq!(oldest(&open()).as_deref(), Some("5"));
}
