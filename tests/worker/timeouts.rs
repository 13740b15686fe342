//! Jobs that run for as long as they may.

use std::future::{pending, poll_fn};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::task::Poll;
use std::time::Duration;

use tubewell::worker::{AsyncJob, Job, Report, Worker};
use tubewell::{FIFOTTL, Put, TaskState, TubeOptions};

use super::executor::wait_until;
use super::support::*;
use crate::stores;

const LIMIT: Duration = secs(30);

/// Is set when it is dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// What has the limit of a job.
#[derive(Clone, Copy, PartialEq)]
enum Of {
    Worker,
    Tube,
    /// The task alone, or in a tube with another one.
    Task(Option<Duration>),
}

/// A case with this limit, a worker for it, and how its task is put.
fn limited(of: Of) -> (Case, Worker, Put<&'static str>) {
    let options = TubeOptions::new().max_attempts(1);
    let of_tube =
        if let Of::Task(of_tube) = of { of_tube } else { (of == Of::Tube).then_some(LIMIT) };
    let case = Case::with(FIFOTTL, of_tube.into_iter().fold(options, TubeOptions::max_runtime));
    let worker = Worker::new(&case.store);
    let worker = if of == Of::Worker { worker.max_runtime(LIMIT) } else { worker };
    let put = Put::new("hangs");
    (case, worker, if matches!(of, Of::Task(_)) { put.max_runtime(LIMIT) } else { put })
}

/// Whether the handler was called: the worker has limited the claim before.
fn has_begun(case: &Case, id: u64) -> bool {
    case.tube.query().task(id).is_ok_and(|task| task.info.progress.is_some())
}

fn timed_out(reports: &[Report]) -> Vec<(u64, u32, bool)> {
    let of = |report: &Report| match report {
        Report::TimedOut { id, attempt, ran, .. } => Some((*id, *attempt, *ran >= LIMIT)),
        _ => None,
    };
    reports.iter().filter_map(of).collect()
}

#[test]
fn async_handler_is_dropped_when_its_time_has_elapsed_and_its_place_is_free() {
    in_every_form(|form| {
        let of_task = [None, Some(LIMIT / 10), Some(LIMIT * 10)].map(Of::Task);
        for of in [Of::Worker, Of::Tube].into_iter().chain(of_task) {
            let (case, worker, put) = limited(of);
            let hangs = case.tube.put(put).unwrap().id;
            case.put("next");
            let is_dropped = Arc::new(AtomicBool::new(false));
            let dropped = is_dropped.clone();
            let handler = move |job: AsyncJob| {
                let dropped = dropped.clone();
                async move {
                    if job.body() == b"hangs" {
                        job.progress(0, 1).await.unwrap();
                        let _dropped = Dropped(dropped);
                        pending::<()>().await;
                    }
                }
            };
            let (reports, watch) = reports();
            let worker = worker.on_async(&case.tube, handler).limit(2).watch(watch);
            let worker = form.start(worker);
            wait_until(|| has_begun(&case, hangs));
            case.clock.advance(LIMIT);
            let tally = worker.wait().unwrap();
            assert_eq!((tally.timed_out, tally.done, tally.jobs()), (1, 1, 2));
            assert!(is_dropped.load(Ordering::SeqCst));
            assert_eq!(case.state(hangs), Some(TaskState::Buried));
            assert_eq!(timed_out(&reports.lock().unwrap()), [(hangs, 1, true)]);
        }
    });
}

#[test]
fn handler_on_a_thread_is_told_that_its_time_has_elapsed_and_counted_as_that() {
    for of in [Of::Worker, Of::Task(None), Of::Task(Some(LIMIT * 10))] {
        let (case, worker, put) = limited(of);
        let id = case.tube.put(put).unwrap().id;
        let wait = |job: &Job| {
            job.progress(0, 1).unwrap();
            assert!(job.wait_cancelled(Duration::MAX) && job.check().is_err());
        };
        let (reports, watch) = reports();
        let worker = worker.on(&case.tube, wait).limit(1).watch(watch).start().unwrap();
        wait_until(|| has_begun(&case, id));
        case.clock.advance(LIMIT);
        let tally = worker.wait().unwrap();
        assert_eq!((tally.timed_out, tally.jobs()), (1, 1));
        assert_eq!(timed_out(&reports.lock().unwrap()), [(id, 1, true)]);
    }
}

/// A worker has the shorter of both: a task cannot lengthen its limit, and can have none but that.
#[test]
fn limit_of_a_task_does_not_lengthen_that_of_the_worker() {
    in_every_form(|form| {
        for own in [LIMIT * 10, Duration::MAX] {
            let (case, worker, put) = limited(Of::Worker);
            let id = case.tube.put(put.max_runtime(own)).unwrap().id;
            let handler = |job: AsyncJob| async move {
                job.progress(0, 1).await.unwrap();
                pending::<()>().await;
            };
            let worker = form.start(worker.on_async(&case.tube, handler).limit(1));
            wait_until(|| has_begun(&case, id));
            case.clock.advance(LIMIT);
            assert_eq!(worker.wait().unwrap().timed_out, 1);
        }
    });
}

/// A task with a longer limit than its tube is not dropped at the end of that of the tube.
#[test]
fn task_with_a_longer_limit_than_its_tube_runs_on() {
    in_every_form(|form| {
        for own in [LIMIT, Duration::MAX] {
            let (case, worker, put) = limited(Of::Task(Some(LIMIT / 10)));
            let id = case.tube.put(put.max_runtime(own)).unwrap().id;
            let may_end = Arc::new(AtomicBool::new(false));
            let ends = may_end.clone();
            let handler = move |job: AsyncJob| {
                let ends = ends.clone();
                async move {
                    job.progress(0, 1).await.unwrap();
                    poll_fn(|context| {
                        context.waker().wake_by_ref();
                        if ends.load(Ordering::SeqCst) { Poll::Ready(()) } else { Poll::Pending }
                    })
                    .await;
                }
            };
            let worker = form.start(worker.on_async(&case.tube, handler).limit(1));
            wait_until(|| has_begun(&case, id));
            case.clock.advance(LIMIT.checked_sub(secs(1)).unwrap());
            may_end.store(true, Ordering::SeqCst);
            let tally = worker.wait().unwrap();
            assert_eq!((tally.done, tally.timed_out), (1, 0));
        }
    });
}

/// It may have something to undo.
#[test]
fn async_handler_of_a_deleted_task_goes_on() {
    in_every_form(|form| {
        let (case, worker, put) = limited(Of::Worker);
        let id = case.tube.put(put).unwrap().id;
        let has_gone_on = Arc::new(AtomicBool::new(false));
        let gone_on = has_gone_on.clone();
        let handler = move |job: AsyncJob| {
            let gone_on = gone_on.clone();
            async move {
                job.cancelled().await;
                gone_on.store(true, Ordering::SeqCst);
            }
        };
        let worker = form.start(worker.on_async(&case.tube, handler).limit(1));
        wait_until(|| case.state(id) == Some(TaskState::Taken));
        case.tube.delete(id).unwrap();
        let tally = worker.wait().unwrap();
        assert_eq!((tally.lost, tally.timed_out), (1, 0));
        assert!(has_gone_on.load(Ordering::SeqCst));
    });
}

/// A worker whose first job hangs.
struct Hanging {
    worker: Worker,
    has_begun: Receiver<()>,
    is_dropped: Arc<AtomicBool>,
}

/// Adds a handler whose first job hangs.
fn hanging(worker: Worker, case: &Case) -> Hanging {
    let (begun, has_begun) = shared_channel();
    let (is_dropped, is_later) = (Arc::<AtomicBool>::default(), AtomicBool::new(false));
    let dropped = is_dropped.clone();
    let worker = worker.on_async(&case.tube, move |_: AsyncJob| {
        let is_first = !is_later.swap(true, Ordering::SeqCst);
        let (begun, dropped) = (begun.clone(), dropped.clone());
        async move {
            if is_first {
                let _dropped = Dropped(dropped);
                begun.lock().unwrap().send(()).unwrap();
                pending::<()>().await;
            }
        }
    });
    Hanging { worker, has_begun, is_dropped }
}

/// Through a connection, the time that is left of a limit begins when its owner is asked for it.
fn advance_until_dropped(case: &Case, is_dropped: &AtomicBool) {
    wait_until(|| {
        case.clock.advance(secs(1));
        is_dropped.load(Ordering::SeqCst)
    });
}

/// Four requests to delete such tasks would stop a service with four places for ever.
#[test]
fn place_of_an_async_handler_is_free_at_its_limit_also_if_its_claim_has_ended_before() {
    in_every_form(|form| {
        let ends: [fn(&Case, u64) -> bool; 3] = [
            |case, id| case.tube.delete(id).is_ok(),
            |case, id| case.tube.admin().bury(id, None).is_ok(),
            |case, id| case.tube.admin().revoke(id) == Ok(1),
        ];
        let ends_of = |of: Of| ends.map(|end| (end, of));
        for (end, of) in [Of::Worker, Of::Tube, Of::Task(None)].into_iter().flat_map(ends_of) {
            let (case, worker, put) = limited(of);
            let id = case.tube.put(put).unwrap().id;
            let Hanging { worker, has_begun, is_dropped } = hanging(worker, &case);
            let (reports, watch) = reports();
            let worker = form.start(worker.limit(2).watch(watch));
            has_begun.recv().unwrap();
            case.clock.advance(LIMIT / 2);
            assert!(end(&case, id));
            case.put("next");
            advance_until_dropped(&case, &is_dropped);
            let tally = worker.wait().unwrap();
            assert_eq!((tally.timed_out, tally.done, tally.jobs()), (1, 1, 2));
            // A connection counts how long its jobs run on the clock of its own process.
            let is_aged = !stores::are_connections();
            assert_eq!(timed_out(&reports.lock().unwrap()), [(id, 1, is_aged)]);
        }
    });
}
