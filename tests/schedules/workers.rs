//! Workers: stops beside tasks that arrive and jobs that end, panics, and claims that are lost.
//!
//! Every scenario ends with all threads: one that stayed parked would be a deadlock.

use std::panic::resume_unwind;
use std::sync::Arc;

use shuttle::future::block_on;
use shuttle::sync::Mutex;
use shuttle::sync::mpsc::channel;
use shuttle::thread;
use tubewell::worker::{AsyncJob, Job, Worker};
use tubewell::{Error, FIFO, FIFOTTL, Outcome, Store, TaskState, Tube, TubeOptions};

use crate::explore::{explore, explore_few};
use crate::support::{
    Flag, NO_TIMEOUT, manual_clock_store, ms, spawn_with, sweeper_store, tube, verify_and_close,
};

/// A tube whose tasks have one attempt, so that a test sees whether one was counted.
fn strict_tube(store: &Store) -> Tube {
    store.create_tube(FIFOTTL, TubeOptions::new().max_attempts(1).driver(FIFOTTL)).unwrap()
}

/// The tasks of a tube that are done, and that are ready.
fn done_and_ready(tube: &Tube) -> (u64, u64) {
    let tasks = tube.statistics().unwrap().tasks;
    assert_eq!((tasks.taken, tasks.buried, tasks.delayed), (0, 0, 0));
    (tasks.done, tasks.ready)
}

#[test]
fn task_that_arrives_beside_a_stop_is_done_or_stays_ready() {
    explore("task_that_arrives_beside_a_stop_is_done_or_stays_ready", || {
        let (store, _) = manual_clock_store();
        let tube = strict_tube(&store);
        let worker = Worker::new(&store).on(&tube, |_: &Job| ()).concurrency(2);
        let worker = worker.start().unwrap();
        let puts = spawn_with(&tube, |tube| {
            tube.put("x").unwrap();
            tube.put("y").unwrap();
        });
        assert_eq!(worker.stop(NO_TIMEOUT).unwrap(), []);
        let tally = worker.wait().unwrap();
        puts.join().unwrap();
        assert_eq!((tally.done, tally.jobs()), (tally.done, tally.done));
        assert_eq!(done_and_ready(&tube), (tally.done, 2 - tally.done));
        // A task that was assigned and given back has lost no attempt.
        let again = Worker::new(&store).on(&tube, |_: &Job| ()).run_until_idle().unwrap();
        assert_eq!(again.done, 2 - tally.done);
        verify_and_close(&store);
    });
}

#[test]
fn task_that_arrives_beside_the_stop_of_a_future_is_done_or_stays_ready() {
    explore("task_that_arrives_beside_the_stop_of_a_future_is_done_or_stays_ready", || {
        let (store, _) = manual_clock_store();
        let tube = strict_tube(&store);
        let worker = Worker::new(&store).on_async(&tube, |_: AsyncJob| async {}).concurrency(2);
        let stopper = worker.stopper();
        let future = worker.run_async();
        let runs = thread::spawn(move || block_on(future).unwrap());
        let puts = spawn_with(&tube, |tube| {
            tube.put("x").unwrap();
            tube.put("y").unwrap();
        });
        stopper.stop();
        let tally = runs.join().unwrap();
        puts.join().unwrap();
        assert_eq!(done_and_ready(&tube), (tally.done, 2 - tally.done));
        verify_and_close(&store);
    });
}

/// Two lanes add to one batch, which is full, gathers, or is given back.
#[test]
fn task_of_a_batch_beside_a_stop_is_done_or_stays_ready() {
    explore("task_of_a_batch_beside_a_stop_is_done_or_stays_ready", || {
        let (store, _) = manual_clock_store();
        let tube = strict_tube(&store);
        let worker = Worker::new(&store).on_batch(&tube, 2, NO_TIMEOUT, |jobs: &[Job]| {
            assert_eq!(jobs.len(), 2);
        });
        let worker = worker.concurrency(2).start().unwrap();
        let puts = spawn_with(&tube, |tube| {
            tube.put("x").unwrap();
            tube.put("y").unwrap();
        });
        assert_eq!(worker.stop(NO_TIMEOUT).unwrap(), []);
        let tally = worker.wait().unwrap();
        puts.join().unwrap();
        assert_eq!(tally.done, tally.jobs());
        assert_eq!(done_and_ready(&tube), (tally.done, 2 - tally.done));
        let attempts: Vec<_> = (0..2).filter_map(|id| tube.query().task(id).ok()).collect();
        assert!(attempts.iter().all(|task| task.info.attempts_left == Some(1)));
        verify_and_close(&store);
    });
}

/// The lanes of a worker wake each other when a batch is full.
#[test]
fn batch_of_two_lanes_runs_once_it_is_full() {
    explore("batch_of_two_lanes_runs_once_it_is_full", || {
        let (store, _) = manual_clock_store();
        let tube = strict_tube(&store);
        let worker = Worker::new(&store).on_batch(&tube, 2, NO_TIMEOUT, |jobs: &[Job]| {
            assert_eq!(jobs.len(), 2);
        });
        let worker = worker.concurrency(2).start().unwrap();
        let puts = spawn_with(&tube, |tube| {
            tube.put("x").unwrap();
            tube.put("y").unwrap();
        });
        puts.join().unwrap();
        assert!(tube.wait_drained(NO_TIMEOUT).unwrap());
        assert_eq!(worker.stop(NO_TIMEOUT).unwrap(), []);
        assert_eq!(worker.wait().unwrap().done, 2);
        verify_and_close(&store);
    });
}

/// Each job is either done or left, and the task of one that is left has its attempt back.
#[test]
fn job_that_ends_beside_a_stop_without_time_is_done_or_left() {
    explore("job_that_ends_beside_a_stop_without_time_is_done_or_left", || {
        let (store, _) = manual_clock_store();
        let tube = strict_tube(&store);
        tube.put("x").unwrap();
        let worker = Worker::new(&store).on(&tube, |_: &Job| ()).concurrency(2);
        let worker = worker.start().unwrap();
        let left = worker.stop(ms(0)).unwrap();
        // A job whose end is being stored is not waited for, and not left.
        let tally = worker.wait().unwrap();
        assert_eq!((tally.left, tally.lost), (left.len() as u64, 0));
        assert_eq!(tally.done + tally.left, tally.jobs());
        drop(worker);
        assert_eq!(done_and_ready(&tube), (tally.done, 1 - tally.done));
        if tally.done == 0 {
            assert_eq!(tube.query().task(0).unwrap().info.attempts_left, Some(1));
        }
        verify_and_close(&store);
    });
}

/// A stop without time waits for no function that the worker reports to, and misses no wake-up of a
/// lane that begins or ends to report.
#[test]
fn stop_without_time_beside_a_report_returns() {
    explore("stop_without_time_beside_a_report_returns", || {
        let (store, _) = manual_clock_store();
        let tube = strict_tube(&store);
        tube.put("x").unwrap();
        let (open, is_open) = channel::<()>();
        let is_open = Mutex::new(is_open);
        let worker = Worker::new(&store).on(&tube, |_: &Job| ()).concurrency(2);
        let worker = worker
            .watch(move |_| assert!(is_open.lock().unwrap().recv().is_err()))
            .start()
            .unwrap();
        let left = worker.stop(ms(0)).unwrap();
        drop(open);
        let tally = worker.wait().unwrap();
        assert_eq!((tally.left, tally.lost), (left.len() as u64, 0));
        drop(worker);
        assert_eq!(done_and_ready(&tube), (tally.done, 1 - tally.done));
        verify_and_close(&store);
    });
}

#[test]
fn concurrent_stops_and_the_limit_leave_no_thread() {
    explore("concurrent_stops_and_the_limit_leave_no_thread", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        tube.put_many(["x", "y"]).unwrap();
        let worker = Worker::new(&store).on(&tube, |_: &Job| ()).concurrency(2).limit(1);
        let worker = Arc::new(worker.start().unwrap());
        let stops = worker.clone();
        let stops = thread::spawn(move || stops.stop(NO_TIMEOUT).unwrap().len());
        let waits = worker.clone();
        let waits = thread::spawn(move || waits.wait().unwrap().jobs());
        drop(worker);
        assert_eq!(stops.join().unwrap(), 0);
        let jobs = waits.join().unwrap();
        assert!(jobs <= 1);
        assert_eq!(done_and_ready(&tube), (jobs, 2 - jobs));
        verify_and_close(&store);
    });
}

#[test]
fn panic_of_a_handler_leaves_the_worker_running() {
    explore("panic_of_a_handler_leaves_the_worker_running", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let puts = spawn_with(&tube, |tube| tube.put_many(["x", "y"]).unwrap().len());
        let handle = |job: &Job| {
            if job.attempt() == 1 {
                // Without the hook, which prints.
                resume_unwind(Box::new("panic"));
            }
        };
        let worker = Worker::new(&store).on(&tube, handle).concurrency(2).limit(4);
        let tally = worker.start().unwrap().wait().unwrap();
        assert_eq!((tally.panicked, tally.done), (2, 2));
        puts.join().unwrap();
        assert_eq!(done_and_ready(&tube), (2, 0));
        verify_and_close(&store);
    });
}

#[test]
fn job_that_waits_for_its_end_is_woken_by_a_deletion_or_by_the_stop() {
    explore("job_that_waits_for_its_end_is_woken_by_a_deletion_or_by_the_stop", || {
        let (store, _) = manual_clock_store();
        let tube = strict_tube(&store);
        let id = tube.put("x").unwrap().id;
        let wait = |job: &Job| {
            assert!(job.wait_cancelled(NO_TIMEOUT));
            job.check()
        };
        let worker = Worker::new(&store).on(&tube, wait).start().unwrap();
        let deletes = spawn_with(&tube, move |tube| tube.delete(id).is_ok());
        let stops =
            thread::spawn(move || (worker.stop(NO_TIMEOUT).unwrap(), worker.wait().unwrap()));
        let (left, tally) = stops.join().unwrap();
        assert!(deletes.join().unwrap() && left.is_empty());
        // It was deleted before it was taken, while its job ran, or after that.
        assert_eq!((tally.lost + tally.snoozed, tally.jobs()), (tally.jobs(), tally.jobs()));
        assert_eq!(done_and_ready(&tube).1, 0);
        verify_and_close(&store);
    });
}

#[test]
fn future_that_waits_for_the_end_of_its_job_is_woken() {
    explore("future_that_waits_for_the_end_of_its_job_is_woken", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        let id = tube.put("x").unwrap().id;
        let wait = |job: AsyncJob| async move {
            job.cancelled().await;
            assert!(!job.is_current().await.unwrap());
        };
        let future = Worker::new(&store).on_async(&tube, wait).limit(1).run_async();
        let runs = thread::spawn(move || block_on(future).unwrap());
        let revokes = spawn_with(&tube, move |tube| {
            while tube.admin().revoke(id) != Ok(1) {
                thread::yield_now();
            }
        });
        assert_eq!(runs.join().unwrap().lost, 1);
        revokes.join().unwrap();
        assert_eq!(tube.query().task(id).unwrap().info.state, TaskState::Ready);
        verify_and_close(&store);
    });
}

/// The sweeper ends the claim, and its thread wakes the job.
#[test]
fn job_that_waits_is_woken_when_its_claim_expires() {
    explore_few("job_that_waits_is_woken_when_its_claim_expires", || {
        let store = sweeper_store();
        let tube = tube(&store, FIFOTTL);
        tube.put("x").unwrap();
        let wait = |job: &Job| {
            assert!(job.wait_cancelled(NO_TIMEOUT) && !job.is_current().unwrap());
        };
        let worker = Worker::new(&store).on(&tube, wait).max_runtime(ms(10)).limit(1);
        let worker = worker.start().unwrap();
        while worker.running().is_empty() {
            thread::yield_now();
        }
        // The claim may not be held for the time yet: let it pass again.
        while worker.tally().timed_out == 0 {
            tubewell::explored::pass(ms(10));
            thread::yield_now();
        }
        assert_eq!(worker.wait().unwrap().timed_out, 1);
        verify_and_close(&store);
    });
}

#[test]
fn worker_that_ends_when_idle_does_every_task_of_its_jobs() {
    explore("worker_that_ends_when_idle_does_every_task_of_its_jobs", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        tube.put("2").unwrap();
        let to = tube.clone();
        let split = move |job: &Job| match job.body() {
            b"2" => to.put_many(["1", "1"]).map(drop),
            _ if job.attempt() == 1 => Err(Error::Overloaded),
            _ => Ok(()),
        };
        let tally = Worker::new(&store).on(&tube, split).concurrency(2).run_until_idle().unwrap();
        assert_eq!((tally.done, tally.failed), (3, 2));
        assert_eq!(done_and_ready(&tube), (3, 0));
        verify_and_close(&store);
    });
}

#[test]
fn worker_ends_beside_the_close_of_its_store() {
    explore("worker_ends_beside_the_close_of_its_store", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        tube.put_many(["x", "y"]).unwrap();
        let worker = Worker::new(&store).on(&tube, |_: &Job| Outcome::done()).concurrency(2);
        let worker = worker.start().unwrap();
        let closes = thread::spawn(move || store.close());
        let tally = worker.wait().unwrap();
        closes.join().unwrap().unwrap();
        assert_eq!(tally.done + tally.not_stored, tally.jobs());
    });
}

/// A job that begins afterwards was left: its task is not its own any more.
#[test]
fn no_job_begins_after_a_stop_has_returned() {
    explore("no_job_begins_after_a_stop_has_returned", || {
        let (store, _) = manual_clock_store();
        let tube = tube(&store, FIFO);
        tube.put_many(["x", "y"]).unwrap();
        let has_returned = Flag::default();
        let returned = has_returned.clone();
        let work = move |job: &Job| {
            let is_late = returned.is_up();
            assert!(!is_late || !job.is_current().unwrap(), "a job has begun after the stop");
        };
        let worker = Worker::new(&store).on(&tube, work).concurrency(2).start().unwrap();
        let left = worker.stop(ms(0)).unwrap().len() as u64;
        has_returned.raise();
        let tally = worker.wait().unwrap();
        drop(worker);
        assert_eq!((tally.done + left, tally.panicked), (tally.jobs(), 0));
        verify_and_close(&store);
    });
}

/// The other lane waits for a task when the worker is stopped, and must not get this one.
#[test]
fn task_of_a_job_that_was_left_is_ready_when_the_stop_returns() {
    explore("task_of_a_job_that_was_left_is_ready_when_the_stop_returns", || {
        let (store, _) = manual_clock_store();
        let tube = strict_tube(&store);
        let id = tube.put("x").unwrap().id;
        let go = Flag::default();
        let may_go = go.clone();
        let hang = move |_: &Job| {
            while !may_go.is_up() {
                thread::yield_now();
            }
        };
        let worker = Worker::new(&store).on(&tube, hang).concurrency(2).start().unwrap();
        while worker.running().is_empty() {
            thread::yield_now();
        }
        assert_eq!(worker.stop(ms(0)).unwrap().len(), 1);
        let info = tube.query().task(id).unwrap().info;
        assert_eq!((info.state, info.attempts_left), (TaskState::Ready, Some(1)));
        go.raise();
        drop(worker);
        verify_and_close(&store);
    });
}
