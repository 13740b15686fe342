//! How many jobs a worker does, how many at a time, and how long each.

use std::sync::Arc;
use std::sync::Barrier;

use tubewell::worker::{Job, Report, Worker};
use tubewell::{FIFO, FIFOTTL, Outcome, Put, TaskState, TubeOptions};

use super::executor::{wait_until, with_timeout};
use super::support::*;

/// T059
#[test]
fn worker_ends_after_exactly_so_many_jobs() {
    in_every_form(|form| {
        for (limit, concurrency) in [(0, 1), (0, 4), (1, 4), (5, 1), (5, 3), (7, 20)] {
            let case = Case::new();
            case.tube.put_many((0..10).map(|n| format!("{n}"))).unwrap();
            let worker = form.on(Worker::new(&case.store), &case.tube, |_: &Job| ());
            let worker = worker.limit(limit).concurrency(concurrency);
            let tally = form.start(worker).wait().unwrap();
            assert_eq!((tally.done, tally.jobs()), (limit, limit));
            let tasks = case.tube.statistics().unwrap().tasks;
            assert_eq!((tasks.ready, tasks.done), (10 - limit, limit));
        }
    });
}

/// T059
/// Difference: every job counts, also one that failed.
#[test]
fn failed_jobs_count_for_the_limit() {
    in_every_form(|form| {
        let case = Case::new();
        case.put("x");
        let (tally, _) = form.work(&case, &case.tube, 5, |_: &Job| Err::<(), _>("no".to_owned()));
        assert_eq!(tally.failed, 5);
    });
}

#[test]
fn worker_runs_as_many_jobs_at_a_time_as_it_may() {
    for form in [Form::Threads, Form::Spawned] {
        with_timeout(move || {
            let case = Case::new();
            case.tube.put_many((0..12).map(|n| format!("{n}"))).unwrap();
            // Returns only if four handlers run at the same time.
            let barrier = Arc::new(Barrier::new(4));
            let wait = move |_: &Job| {
                barrier.wait();
            };
            let worker = form.on(Worker::new(&case.store), &case.tube, wait);
            let tally = form.start(worker.concurrency(4).limit(12)).wait().unwrap();
            assert_eq!(tally.done, 12);
        });
    }
}

#[test]
fn worker_that_ends_when_idle_does_the_tasks_that_its_jobs_put() {
    with_timeout(|| {
        for concurrency in [1, 2, 5] {
            let case = Case::new();
            let numbers = case.tube.typed::<u32>();
            numbers.put(40).unwrap();
            case.tube.put(Put::new("later").delay(secs(60))).unwrap();
            let tube = numbers.clone();
            let split = move |job: &Job<u32>| {
                let number = *job.value();
                if number > 1 {
                    tube.put_many([number / 2, number - number / 2])?;
                }
                Ok::<(), tubewell::Error>(())
            };
            let worker = Worker::new(&case.store).on(&numbers, split).concurrency(concurrency);
            let tally = worker.run_until_idle().unwrap();
            assert_eq!((tally.done, tally.jobs()), (79, 79));
            assert_eq!(case.tube.statistics().unwrap().tasks.delayed, 1);
        }
    });
}

#[test]
fn worker_that_ends_when_idle_waits_for_tasks_that_its_jobs_give_back() {
    with_timeout(|| {
        let case = Case::new();
        case.tube.put_many(["a", "b"]).unwrap();
        let retry = |job: &Job| match job.attempt() {
            1..4 => Outcome::release_in(secs(0)),
            _ => Outcome::done(),
        };
        let worker = Worker::new(&case.store).on(&case.tube, retry).concurrency(3);
        let tally = worker.run_until_idle().unwrap();
        assert_eq!((tally.released, tally.done), (6, 2));
    });
}

#[test]
fn worker_that_ends_when_idle_ends_at_its_limit_and_without_tasks() {
    with_timeout(|| {
        let case = Case::new();
        for (limit, concurrency, done) in [(3, 1, 3), (3, 2, 3), (100, 5, 4), (9, 3, 0), (0, 2, 0)]
        {
            if done == 3 {
                case.tube.put_many((0..5).map(|n| format!("{n}"))).unwrap();
            }
            let worker = Worker::new(&case.store).on(&case.tube, |_: &Job| ());
            let worker = worker.concurrency(concurrency).limit(limit);
            let tally = worker.run_until_idle().unwrap();
            assert_eq!(tally.done, done, "limit {limit}, concurrency {concurrency}: {tally:?}");
        }
        assert_eq!(case.tube.statistics().unwrap().tasks.total, 0);
    });
}

/// Q332 T069
/// Difference: without a keep-alive, which would hide a job that hangs.
#[test]
fn task_is_held_without_a_limit_while_its_job_runs() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().ttr(secs(60)));
        case.put("x");
        let clock = case.clock.clone();
        let (tally, _) = form.work(&case, &case.tube, 1, move |job: &Job| {
            clock.advance(secs(86_400));
            assert!(job.is_current().unwrap());
        });
        assert_eq!(tally.done, 1);
    });
}

/// Q332
/// Difference: the claim expires as by the ttr. A thread cannot be ended, so its job runs on.
#[test]
fn job_times_out_after_the_longest_time_that_it_may_run() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(2));
        let id = case.put("x");
        let clock = case.clock.clone();
        let (reports, watch) = reports();
        let hang = move |job: &Job| {
            clock.advance(secs(9));
            assert!(job.is_current().unwrap());
            clock.advance(secs(1));
            assert!(!job.is_current().unwrap());
            Outcome::done()
        };
        let worker = form.on(Worker::new(&case.store), &case.tube, hang).watch(watch);
        let tally = form.start(worker.max_runtime(secs(10)).limit(2)).wait().unwrap();
        assert_eq!((tally.timed_out, tally.done), (2, 0));
        assert!(reports.lock().unwrap().iter().all(|report| matches!(
            report,
            Report::TimedOut { ran, .. } if *ran == secs(10)
        )));
        let info = case.tube.query().task(id).unwrap().info;
        let failure = info.failure.unwrap();
        assert_eq!((info.state, &*failure.group), (TaskState::Buried, "expired"));
        assert_eq!(failure.message, "its max_runtime elapsed in attempt 2, the last one");
    });
}

/// Q332
#[test]
fn longest_time_needs_a_driver_whose_claims_expire() {
    let case = Case::with(FIFO, TubeOptions::new());
    let worker = || Worker::new(&case.store).on(&case.tube, |_: &Job| ()).max_runtime(secs(1));
    assert!(matches!(worker().start(), Err(tubewell::Error::Unsupported { .. })));
    assert!(matches!(worker().run_until_idle(), Err(tubewell::Error::Unsupported { .. })));
    assert_eq!(case.store.owners().unwrap().len(), 0);
}

#[test]
fn ended_worker_leaves_no_session() {
    in_every_form(|form| {
        let case = Case::new();
        case.put("x");
        form.work(&case, &case.tube, 1, |_: &Job| Outcome::detach());
        wait_until(|| case.store.owners().unwrap().is_empty());
        assert_eq!(case.tube.statistics().unwrap().tasks.ready, 1);
    });
}
