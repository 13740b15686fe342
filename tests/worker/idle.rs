//! Workers that run until they are idle, and workers with a session of their caller.

use std::sync::{Arc, Mutex};
use std::thread;

use tubewell::worker::{Job, Worker};
use tubewell::{Error, FIFO, Failure, OnParent, Outcome, Put, Rate, TaskState, TubeOptions, UTUBE};

use super::executor::with_timeout;
use super::support::*;
use crate::stores;

/// Runs until idle, and moves the clock on whenever a take waits.
fn run_as_the_clock_moves(case: &Case, worker: Worker) -> u64 {
    let running = thread::spawn(move || worker.run_until_idle().unwrap().done);
    while !running.is_finished() {
        if case.tube.info().unwrap().waiting > 0 {
            case.clock.advance(secs(1));
        }
        thread::yield_now();
    }
    running.join().unwrap()
}

#[test]
fn run_until_idle_waits_for_rates() {
    with_timeout(|| {
        let rate = Rate::per(2, secs(60));
        for (driver, options) in [
            (FIFO, TubeOptions::new().rate(rate)),
            (UTUBE, TubeOptions::new().sub_queue_rate(rate)),
        ] {
            let case = Case::with(driver, options);
            for body in ["a", "b", "c", "d", "e"] {
                let put = Put::new(body);
                case.tube.put(if driver == UTUBE { put.sub_queue("q") } else { put }).unwrap();
            }
            let worker = Worker::new(&case.store).concurrency(2).on(&case.tube, |_: &Job| ());
            assert_eq!(run_as_the_clock_moves(&case, worker), 5, "{driver}");
        }
    });
}

#[test]
fn run_until_idle_waits_for_cooldowns_of_sub_queues() {
    with_timeout(|| {
        let case = Case::with(UTUBE, TubeOptions::new().sub_queue_cooldown(secs(60)));
        for body in ["a", "b", "c"] {
            case.tube.put(Put::new(body).sub_queue("q")).unwrap();
        }
        let worker = Worker::new(&case.store).concurrency(2).on(&case.tube, |_: &Job| ());
        assert_eq!(run_as_the_clock_moves(&case, worker), 3);
    });
}

#[test]
fn run_until_idle_does_not_wait_for_the_rate_of_a_paused_tube() {
    with_timeout(|| {
        let case = Case::with(FIFO, TubeOptions::new().rate(Rate::per(1, secs(60))));
        case.put("a");
        case.tube.admin().pause().unwrap();
        let worker = Worker::new(&case.store).on(&case.tube, |_: &Job| ());
        assert_eq!(worker.run_until_idle().unwrap().jobs(), 0);
    });
}

#[test]
fn run_until_idle_runs_children_that_a_buried_parent_releases() {
    with_timeout(|| {
        let case = Case::with(FIFO, TubeOptions::new().max_attempts(1));
        let parent = case.put("parent");
        let child = Put::new("child").after(&case.tube, [parent]).on_parent(OnParent::Release);
        case.tube.put_many(vec![child; 100]).unwrap();
        let run = |job: &Job| match job.body() {
            b"parent" => Err(Failure::new("bad", "it fails")),
            _ => Ok(()),
        };
        let tally = Worker::new(&case.store).on(&case.tube, run).run_until_idle().unwrap();
        assert_eq!((tally.failed, tally.done), (1, 100));
    });
}

#[test]
fn claims_of_detached_jobs_belong_to_the_session_of_the_caller() {
    with_timeout(|| {
        let case = Case::new();
        let ids = [case.put("a"), case.put("b")];
        let session = case.store.session("caller").unwrap();
        let owners = Arc::new(Mutex::new(Vec::new()));
        let detach = {
            let (owners, tube) = (owners.clone(), case.tube.clone());
            move |job: &Job| {
                owners.lock().unwrap().push(tube.query().owner(job.id()).unwrap().unwrap().label);
                Outcome::detach()
            }
        };
        let worker = Worker::new(&case.store).name("unused").session(&session);
        let tally = worker.on(&case.tube, detach).run_until_idle().unwrap();
        assert_eq!(tally.detached, 2);
        assert_eq!(*owners.lock().unwrap(), [Some("caller".into()), Some("caller".into())]);
        // The worker has ended, and the claims have not.
        assert_eq!(ids.map(|id| case.state(id)), [Some(TaskState::Taken); 2]);
        session.tube(&case.tube).unwrap().claimed(ids[0]).and_then(tubewell::Claim::ack).unwrap();
        session.end().unwrap();
        assert_eq!(ids.map(|id| case.state(id)), [None, Some(TaskState::Ready)]);
    });
}

#[test]
fn session_of_another_store_is_refused() {
    let case = Case::new();
    let other = stores::in_memory();
    let worker =
        Worker::new(&case.store).session(&other.session("").unwrap()).on(&case.tube, |_: &Job| ());
    let error = worker.run_until_idle().unwrap_err();
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
}
