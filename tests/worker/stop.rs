//! Stops: nothing is lost, and nothing is waited for that need not end.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, OnceLock};
use std::thread;
use std::time::Duration;

use tubewell::worker::{AsyncJob, Job, Report, Worker, WorkerHandle};
use tubewell::{Counting, Error, FIFOTTL, Outcome, Put, Store, TaskState, TubeOptions};

use super::blocking_disk::Disk;
use super::executor::{HANGS_AFTER, block_on, wait_until, with_timeout};
use super::gate::Gate;
use super::support::*;
use crate::stores::{self, ManualClock};

/// T056
#[test]
fn idle_worker_stops_and_takes_nothing_more() {
    in_every_form(|form| {
        for concurrency in [1, 8] {
            let case = Case::new();
            let worker = form.on(Worker::new(&case.store), &case.tube, |_: &Job| ());
            let worker = form.start(worker.concurrency(concurrency));
            assert_eq!(worker.stop().unwrap().jobs(), 0);
            let id = case.put("x");
            assert_eq!(case.state(id), Some(TaskState::Ready));
            assert_eq!(case.store.tubes().unwrap()[0].waiting, 0);
        }
    });
}

#[test]
fn worker_that_was_stopped_before_its_start_does_nothing() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let worker = form.on(Worker::new(&case.store), &case.tube, |_: &Job| ());
        let stopper = worker.stopper();
        stopper.stop();
        assert!(stopper.is_stopped());
        assert_eq!(form.start(worker).wait().unwrap().jobs(), 0);
        assert_eq!(case.state(id), Some(TaskState::Ready));
    });
}

#[test]
fn stop_waits_for_the_jobs_that_run() {
    in_every_form(|form| {
        let case = Case::new();
        let ids = [case.put("runs"), case.put("waits")];
        let worker = Worker::new(&case.store);
        let stopper = worker.stopper();
        let finish = move |job: &Job| {
            stopper.stop();
            assert!(job.is_stopping());
        };
        let tally = form.start(form.on(worker, &case.tube, finish)).wait().unwrap();
        assert_eq!((tally.done, tally.jobs()), (1, 1));
        assert_eq!(ids.map(|id| case.state(id)), [None, Some(TaskState::Ready)]);
    });
}

/// T060
#[test]
fn job_that_returns_early_because_of_a_stop_does_not_fail() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let id = case.put("long");
        let worker = Worker::new(&case.store);
        let stopper = worker.stopper();
        let long = move |job: &Job| -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
            job.check()?;
            stopper.stop();
            // The type of the error is lost here, as with anyhow.
            job.check().map_err(|error| error.to_string())?;
            panic!("it is not stopped");
        };
        let tally = form.start(form.on(worker, &case.tube, long)).wait().unwrap();
        assert_eq!((tally.snoozed, tally.jobs()), (1, 1));
        let info = case.tube.query().task(id).unwrap().info;
        assert_eq!((info.state, info.attempts_left), (TaskState::Ready, Some(1)));
    });
}

#[test]
fn error_that_has_nothing_to_do_with_a_stop_fails_the_attempt() {
    in_every_form(|form| {
        let case = Case::new();
        case.put("x");
        let worker = Worker::new(&case.store);
        let stopper = worker.stopper();
        let fail = move |_: &Job| {
            stopper.stop();
            Err::<(), _>("disk on fire".to_owned())
        };
        let tally = form.start(form.on(worker, &case.tube, fail)).wait().unwrap();
        assert_eq!((tally.failed, tally.snoozed), (1, 0));
    });
}

/// A worker of two threads whose first job hangs until the test lets it go.
struct Hanging {
    case: Case,
    worker: WorkerHandle,
    id: u64,
    go: std::sync::mpsc::Sender<()>,
    later: std::sync::mpsc::Receiver<tubewell::Result<()>>,
    reports: Arc<Mutex<Vec<Report>>>,
}

fn hanging() -> Hanging {
    let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
    let id = case.put("hangs");
    let (go, wait) = channel::<()>();
    let (tell, later) = channel();
    let (wait, tell) = (Mutex::new(wait), Mutex::new(tell));
    let hang = move |job: &Job| {
        let _ = wait.lock().unwrap().recv();
        let _ = tell.lock().unwrap().send(job.progress(1, 1));
        Outcome::done()
    };
    let (reports, watch) = reports();
    let worker = Worker::new(&case.store).on(&case.tube, hang).concurrency(2).watch(watch);
    let worker = worker.start().unwrap();
    wait_until(|| worker.running().len() == 1);
    Hanging { case, worker, id, go, later, reports }
}

/// T060
#[test]
fn job_that_runs_after_the_time_of_a_stop_is_left_and_its_task_is_snoozed() {
    with_timeout(|| {
        let Hanging { case, worker, id, go, later, reports } = hanging();
        case.clock.advance(secs(5));
        let left = worker.stop(Duration::ZERO).unwrap();
        assert_eq!(left.len(), 1);
        assert_eq!((&*left[0].tube, left[0].id, left[0].ran), ("case", id, secs(5)));
        let info = case.tube.query().task(id).unwrap().info;
        assert_eq!((info.state, info.attempts_left), (TaskState::Ready, Some(1)));
        assert_eq!((worker.tally().left, worker.tally().jobs()), (1, 1));
        // Nothing is left a second time, and nothing waits for the thread.
        assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
        assert_eq!(worker.wait().unwrap().left, 1);
        drop(worker);
        go.send(()).unwrap();
        assert_eq!(later.recv().unwrap(), Err(Error::NotTaken { id }));
        assert_eq!(case.state(id), Some(TaskState::Ready));
        assert_eq!(reports.lock().unwrap().len(), 0);
    });
}

#[test]
fn later_stop_without_a_limit_does_not_wait_for_jobs_that_were_left() {
    with_timeout(|| {
        let Hanging { case, worker, go, .. } = hanging();
        assert_eq!(worker.stop(Duration::from_millis(1)).unwrap().len(), 1);
        assert_eq!(worker.stop(HANGS_AFTER).unwrap(), []);
        drop((worker, go));
        wait_until(|| case.store.owners().unwrap().is_empty());
    });
}

#[test]
fn job_whose_task_is_gone_is_left_too() {
    with_timeout(|| {
        let Hanging { case, worker, id, go, later, .. } = hanging();
        case.tube.delete(id).unwrap();
        assert_eq!(worker.stop(Duration::ZERO).unwrap().len(), 1);
        drop(worker);
        drop(go);
        assert_eq!(later.recv().unwrap(), Err(Error::NotTaken { id }));
    });
}

#[test]
fn stop_returns_as_soon_as_the_last_job_has_ended() {
    with_timeout(|| {
        let Hanging { case, worker, id, go, .. } = hanging();
        let worker = Arc::new(worker);
        let stops = worker.clone();
        let stops = thread::spawn(move || stops.stop(secs(3600)).unwrap());
        go.send(()).unwrap();
        assert_eq!(stops.join().unwrap(), []);
        assert_eq!((worker.tally().done, case.state(id)), (1, None));
    });
}

#[test]
fn dropped_handle_waits_for_the_jobs_that_run() {
    with_timeout(|| {
        let case = Case::new();
        let id = case.put("x");
        let (begun, has_begun) = channel();
        let begun = Mutex::new(begun);
        let slow = move |job: &Job| {
            begun.lock().unwrap().send(()).unwrap();
            wait_until(|| job.is_stopping());
        };
        let worker = Worker::new(&case.store).on(&case.tube, slow).start().unwrap();
        has_begun.recv().unwrap();
        drop(worker);
        assert_eq!(case.state(id), None);
        assert_eq!(case.tube.statistics().unwrap().calls.ack, 1);
    });
}

#[test]
fn handler_can_stop_its_worker_and_does_not_wait_for_itself() {
    with_timeout(|| {
        for concurrency in [1, 3] {
            let case = Case::new();
            let ids = [case.put("x"), case.put("y"), case.put("z")];
            let cell: Arc<OnceLock<WorkerHandle>> = Arc::default();
            let inside = cell.clone();
            let stop = move |job: &Job| {
                wait_until(|| inside.get().is_some());
                let worker = inside.get().unwrap();
                assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
                assert!(job.is_stopping() && job.is_current().unwrap());
            };
            let worker = Worker::new(&case.store).on(&case.tube, stop).concurrency(concurrency);
            let worker = worker.limit(1).start().unwrap();
            assert!(cell.set(worker).is_ok());
            assert_eq!(cell.get().unwrap().wait().unwrap().done, 1);
            assert_eq!(ids.map(|id| case.state(id)).iter().flatten().count(), 2);
        }
    });
}

#[test]
fn handlers_that_stop_their_worker_do_not_wait_for_each_other() {
    with_timeout(|| {
        let case = Case::new();
        case.tube.put_many(["x", "y"]).unwrap();
        let cell: Arc<OnceLock<WorkerHandle>> = Arc::default();
        let (inside, running) = (cell.clone(), AtomicUsize::new(0));
        let stop = move |_: &Job| {
            running.fetch_add(1, Ordering::SeqCst);
            wait_until(|| inside.get().is_some() && running.load(Ordering::SeqCst) == 2);
            assert_eq!(inside.get().unwrap().stop(Duration::MAX).unwrap(), []);
        };
        let worker = Worker::new(&case.store).on(&case.tube, stop).concurrency(2).start().unwrap();
        assert!(cell.set(worker).is_ok());
        assert_eq!(cell.get().unwrap().wait().unwrap().done, 2);
    });
}

#[test]
fn handler_that_was_handed_out_can_stop_its_worker() {
    with_timeout(|| {
        let case = Case::new();
        case.put("x");
        let cell: Arc<OnceLock<WorkerHandle>> = Arc::default();
        let inside = cell.clone();
        let stop = move |_: AsyncJob| {
            let inside = inside.clone();
            async move {
                wait_until(|| inside.get().is_some());
                assert_eq!(inside.get().unwrap().stop(Duration::MAX).unwrap(), []);
            }
        };
        let worker = Worker::new(&case.store).on_async(&case.tube, stop);
        let worker = worker.spawn_with(|handler| {
            thread::spawn(move || block_on(handler));
        });
        let worker = worker.start().unwrap();
        assert!(cell.set(worker).is_ok());
        assert_eq!(cell.get().unwrap().wait().unwrap().done, 1);
    });
}

#[test]
fn tally_has_all_jobs_once_the_worker_has_stopped() {
    with_timeout(|| {
        let case = Case::new();
        for _ in 0..50 {
            case.tube.put_many(["a", "b", "c"]).unwrap();
            let worker = Worker::new(&case.store).on(&case.tube, |_: &Job| ()).concurrency(2);
            let worker = worker.start().unwrap();
            assert!(case.tube.wait_drained(Duration::MAX).unwrap());
            assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
            assert_eq!((worker.tally().done, worker.tally().jobs()), (3, 3));
        }
    });
}

/// Stops a worker with a job that hangs, while the take of another lane waits for the disk. Returns how
/// long the stop took.
fn stop_of_a_stuck_worker(time: Duration) -> Duration {
    let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
    let store = stores::serve(disk.open(Store::options().clock(&clock)));
    let options = TubeOptions::new().max_attempts(9).count_takes(Counting::Flushed);
    let tube = store.create_tube("case", options.driver(FIFOTTL)).unwrap();
    tube.put("runs").unwrap();
    tube.put(Put::new("taken").delay(secs(60))).unwrap();
    let gate = Gate::default();
    let wait = gate.clone();
    let worker = Worker::new(&store).on(&tube, move |_: &Job| wait.pass()).concurrency(2);
    let worker = worker.start().unwrap();
    wait_until(|| worker.running().len() == 1 && store.tubes().unwrap()[0].waiting == 1);
    // The clock may wait for the flush, too.
    let advances = disk.block_flush_of(|| thread::spawn(move || clock.advance(secs(60))));
    let (took, left) = timed(|| worker.stop(time).unwrap());
    assert_eq!(left.len(), 1);
    disk.unblock_flushes();
    advances.join().unwrap();
    gate.open();
    assert_eq!(worker.wait().unwrap().left, 1);
    drop(worker);
    let tasks = tube.statistics().unwrap().tasks;
    assert_eq!((tasks.ready, tasks.taken), (2, 0));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    took
}

/// A busy machine may delay many of the stops, but not each of them.
#[test]
fn stop_returns_at_most_100_ms_after_its_time_while_a_job_hangs_and_the_storage_blocks() {
    with_timeout(|| {
        let time = Duration::from_millis(1);
        let is_in_time = |took: Duration| took <= time + Duration::from_millis(100);
        assert!((0..100).any(|_| is_in_time(stop_of_a_stuck_worker(time))));
    });
}

#[test]
fn handler_can_drop_the_last_handle_of_its_worker() {
    with_timeout(|| {
        let case = Case::new();
        let id = case.put("x");
        let cell: Arc<Mutex<Option<WorkerHandle>>> = Arc::default();
        let inside = cell.clone();
        let stop = move |_: &Job| {
            wait_until(|| inside.lock().unwrap().is_some());
            drop(inside.lock().unwrap().take());
        };
        let worker = Worker::new(&case.store).on(&case.tube, stop).start().unwrap();
        *cell.lock().unwrap() = Some(worker);
        wait_until(|| case.state(id).is_none());
    });
}

#[test]
fn every_task_is_done_once_across_many_starts_and_stops() {
    in_every_form(|form| {
        let case = Case::new();
        let ids: Vec<u64> = (0..200).map(|n| case.put(&format!("{n}"))).collect();
        let (send, receive) = shared_channel();
        let mut done = Vec::new();
        // Every third worker is stopped before its first job. The others see one or two, so that the test ends.
        for jobs in (0..3).cycle() {
            if case.tube.statistics().unwrap().tasks.total == 0 {
                break;
            }
            let send = send.clone();
            let tell = move |job: &Job| send.lock().unwrap().send(job.id()).unwrap();
            let worker = form.on(Worker::new(&case.store), &case.tube, tell).concurrency(4);
            let worker = form.start(worker);
            let enough = ids.len().min(done.len() + jobs);
            while done.len() < enough {
                done.push(receive.recv().unwrap());
            }
            worker.stop().unwrap();
            done.extend(receive.try_iter());
        }
        done.sort_unstable();
        assert_eq!(done, ids);
    });
}
