//! Handlers that fail, and tasks whose attempts nothing limits.

use std::time::Duration;

use tubewell::worker::{Job, Worker};
use tubewell::{
    Backoff, Error, FIFO, FIFOTTL, Failure, LIMFIFOTTL, Outcome, TaskState, TubeOptions,
};

use super::support::*;

const MICRO: Duration = Duration::from_micros(1);

/// Works until nothing is ready, with a handler that always fails. Returns how often it was called.
fn failures(case: &Case, configure: impl FnOnce(Worker) -> Worker) -> u64 {
    let fail = |_: &Job| Err::<(), _>("it never works");
    configure(Worker::new(&case.store).on(&case.tube, fail)).run_until_idle().unwrap().failed
}

#[test]
fn handler_that_always_fails_is_not_called_again_at_once() {
    let case = Case::new();
    let id = case.put("hopeless");
    let run = || failures(&case, |worker| worker);
    assert_eq!(run(), 1);
    for delay in [1, 2, 4, 8] {
        assert_eq!(case.state(id), Some(TaskState::Delayed));
        case.clock.advance(secs(delay).checked_sub(MICRO).unwrap());
        assert_eq!(run(), 0);
        case.clock.advance(MICRO);
        assert_eq!(run(), 1);
    }
}

#[test]
fn handler_that_always_fails_is_called_25_times() {
    let case = Case::new();
    let id = case.put("hopeless");
    let mut calls = 0;
    while case.state(id) != Some(TaskState::Buried) {
        calls += failures(&case, |worker| worker);
        case.clock.advance(secs(3600));
    }
    assert_eq!(calls, 25);
    let failure = case.tube.query().task(id).unwrap().info.failure.unwrap();
    assert_eq!((&*failure.message, failure.attempt), ("it never works", 25));
}

/// A worker that held their tasks for a backoff would run fewer jobs.
#[test]
fn tubes_without_delays_have_the_limit_of_attempts_only() {
    let case = Case::with(FIFO, TubeOptions::new());
    let id = case.put("hopeless");
    assert_eq!(failures(&case, |worker| worker), 25);
    assert_eq!(case.state(id), Some(TaskState::Buried));
}

#[test]
fn options_of_a_tube_and_delays_of_an_attempt_come_first() {
    let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(30));
    let id = case.put("hopeless");
    assert_eq!(failures(&case, |worker| worker.max_attempts(2)), 30);
    assert_eq!(case.state(id), Some(TaskState::Buried));

    let later = case.another("later");
    later.put("later").unwrap();
    let fail = |_: &Job| Outcome::fail_in(secs(60), Failure::new("busy", "503"));
    let run = || Worker::new(&case.store).on(&later, fail).run_until_idle().unwrap().failed;
    assert_eq!(run(), 1);
    case.clock.advance(secs(59));
    assert_eq!(run(), 0);
    case.clock.advance(secs(1));
    assert_eq!(run(), 1);
}

/// The worker fails the attempt when the store refuses what the handler has returned.
#[test]
fn outcome_that_is_always_refused_is_not_tried_again_at_once() {
    let case = Case::new();
    let id = case.put("advances");
    let full = case.store.create_tube("full", TubeOptions::new().driver(LIMFIFOTTL).capacity(1));
    let full = full.unwrap();
    full.put("its only task").unwrap();
    let advance = move |_: &Job| Outcome::advance(&full, "next");
    let worker = Worker::new(&case.store).on(&case.tube, advance);
    assert_eq!(worker.run_until_idle().unwrap().failed, 1);
    assert_eq!(case.state(id), Some(TaskState::Delayed));
}

#[test]
fn backoff_of_a_tube_without_a_limit_is_that_of_its_25_attempts() {
    let case = Case::with(FIFOTTL, TubeOptions::new().backoff(Backoff::constant(secs(5))));
    let id = case.put("hopeless");
    for _ in 0..25 {
        assert_ne!(case.state(id), Some(TaskState::Buried));
        assert_eq!(failures(&case, |worker| worker), 1);
        case.clock.advance(secs(5));
    }
    assert_eq!(case.state(id), Some(TaskState::Buried));
}

#[test]
fn attempts_and_backoffs_that_no_tube_takes_are_refused() {
    let case = Case::new();
    let worker = || Worker::new(&case.store).on(&case.tube, |_: &Job| ());
    for worker in
        [worker().max_attempts(0), worker().backoff(Backoff::exponential(secs(1)).factor(0.5))]
    {
        assert!(matches!(worker.start(), Err(Error::Invalid { .. })));
    }
}
