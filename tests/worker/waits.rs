//! Jobs that wait for the end of their claims, or for the stop of their workers.

use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::thread;
use std::time::Duration;

use tubewell::worker::{AsyncJob, Job, Worker};
use tubewell::{FIFO, FIFOTTL, Result, Store, Tube, TubeOptions};

use super::executor::{block_on, poll_pending, wait_until, with_timeout};
use super::support::*;
use crate::stores::{self, ManualClock};

/// A call that ends the claim on a task, from outside.
type End = fn(&Case, u64);

const ENDS: [(&str, End); 6] = [
    ("delete", |case, id| assert_eq!(case.tube.delete(id).unwrap().id, id)),
    ("revoke", |case, id| assert_eq!(case.tube.admin().revoke(id), Ok(1))),
    ("move", |case, id| {
        assert_eq!(case.tube.admin().move_to(&case.another("other"), id), Ok(1));
    }),
    ("truncate", |case, _| case.tube.admin().truncate().unwrap()),
    ("expiry", |case, _| case.clock.advance(secs(60))),
    ("session", |case, id| {
        let owner = case.tube.query().owner(id).unwrap().unwrap();
        case.store.resume_session(owner.session).unwrap().end().unwrap();
    }),
];

/// A worker in this form whose first job reports progress, waits until it is cancelled, and then
/// tells whether it is lost.
fn waiting_job(
    form: Form,
    worker: Worker,
    tube: &Tube,
) -> (Running, std::sync::mpsc::Receiver<bool>) {
    let (tell, told) = channel();
    let tell = Arc::new(Mutex::new(tell));
    let worker = if form == Form::Threads {
        worker.on(tube, move |job: &Job| {
            let _ = job.progress(0, 1);
            assert!(job.wait_cancelled(Duration::MAX));
            tell.lock().unwrap().send(!job.is_current().unwrap()).unwrap();
            job.check()
        })
    } else {
        worker.on_async(tube, move |job: AsyncJob| {
            let tell = tell.clone();
            async move {
                let _ = job.progress(0, 1).await;
                job.cancelled().await;
                let is_current = job.is_current().await.unwrap();
                tell.lock().unwrap().send(!is_current).unwrap();
                job.check().await
            }
        })
    };
    (form.start(worker), told)
}

/// Q327
#[test]
fn job_that_waits_is_woken_when_its_claim_ends() {
    in_every_form(|form| {
        for (name, end) in ENDS {
            let case = Case::with(FIFOTTL, TubeOptions::new().max_runtime(secs(60)));
            let id = case.put("x");
            let (worker, told) = waiting_job(form, Worker::new(&case.store), &case.tube);
            wait_until(|| case.tube.statistics().unwrap().tasks.taken == 1);
            // Those of other tasks do not wake it.
            let other = case.another("beside");
            other.put("y").unwrap();
            other.try_take().unwrap().unwrap().ack().unwrap();
            assert!(told.try_recv().is_err());
            let _ = case.tube.admin().pause();
            end(&case, id);
            assert_eq!(told.recv(), Ok(true), "{name}");
            let ended = worker.stop();
            assert!(ended.is_err() || lost(ended.unwrap()) == 1, "{name}");
        }
    });
}

#[test]
fn job_that_waits_is_woken_when_its_worker_stops() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let (worker, told) = waiting_job(form, Worker::new(&case.store), &case.tube);
        // A stop before the job has begun gives the task back.
        wait_until(|| case.tube.query().task(id).unwrap().info.progress.is_some());
        let tally = worker.stop().unwrap();
        assert_eq!((told.recv(), tally.snoozed), (Ok(false), 1));
        assert_eq!(case.tube.statistics().unwrap().tasks.ready, 1);
    });
}

#[test]
fn job_that_waits_is_woken_when_the_store_is_closed() {
    in_every_form(|form| {
        let store = stores::in_memory();
        let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        tube.put("x").unwrap();
        let (worker, told) = waiting_job(form, Worker::new(&store), &tube);
        wait_until(|| tube.statistics().unwrap().tasks.taken == 1);
        stores::close(&store);
        assert_eq!(told.recv(), Ok(true));
        worker.wait().unwrap();
    });
}

#[test]
fn wait_ends_with_its_time_or_immediately_if_the_job_is_lost() {
    with_timeout(|| {
        let case = Case::new();
        case.put("x");
        let tube = case.tube.clone();
        let wait = move |job: &Job| {
            assert!(!job.wait_cancelled(Duration::ZERO));
            assert!(!job.wait_cancelled(Duration::from_millis(2)));
            let mut dropped = job.cancelled();
            poll_pending(&mut dropped, Waker::noop());
            drop(dropped);
            tube.delete(job.id()).unwrap();
            assert!(job.wait_cancelled(Duration::ZERO) && job.wait_cancelled(Duration::MAX));
            block_on(job.cancelled());
        };
        let tally = Worker::new(&case.store).on(&case.tube, wait).run_until_idle().unwrap();
        assert_eq!(tally.lost, 1);
    });
}

/// The waits of many jobs, each of which several threads wait for.
#[test]
fn every_waiter_of_a_job_is_woken() {
    with_timeout(|| {
        let case = Case::new();
        let ids: Vec<u64> = (0..8).map(|n| case.put(&format!("{n}"))).collect();
        let wait = |job: &Job| -> Result<()> {
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| job.wait_cancelled(Duration::MAX));
                }
            });
            job.check()
        };
        let worker = Worker::new(&case.store).on(&case.tube, wait).concurrency(8);
        let worker = worker.start().unwrap();
        wait_until(|| worker.running().len() == 8);
        for id in &ids[..4] {
            case.tube.delete(*id).unwrap();
        }
        wait_until(|| worker.tally().lost == 4);
        assert_eq!(worker.stop(Duration::MAX).unwrap(), []);
        assert_eq!((worker.tally().lost, worker.tally().snoozed), (4, 4));
    });
}

/// A claim that is only overdue has not ended.
#[test]
fn overdue_claim_wakes_its_job_when_the_reclaim_delay_has_elapsed() {
    with_timeout(|| {
        let clock = ManualClock::new();
        let store = stores::in_memory_with(Store::options().clock(&clock));
        let options = TubeOptions::new().max_runtime(secs(10)).reclaim_delay(secs(5));
        let tube = store.create_tube("case", options.driver(FIFOTTL)).unwrap();
        tube.put("x").unwrap();
        let (tell, told) = channel();
        let tell = Mutex::new(tell);
        let wait = move |job: &Job| {
            let cancelled = job.wait_cancelled(Duration::MAX);
            tell.lock().unwrap().send(cancelled).unwrap();
        };
        let worker = Worker::new(&store).on(&tube, wait).limit(1).start().unwrap();
        wait_until(|| worker.running().len() == 1);
        clock.advance(secs(14));
        assert!(told.try_recv().is_err());
        clock.advance(secs(1));
        assert_eq!(told.recv(), Ok(true));
        assert_eq!(lost(worker.wait().unwrap()), 1);
    });
}
