//! Stops of workers that are futures, and of those that are dropped: no attempt is used up.

use std::sync::mpsc::Receiver;
use std::task::Waker;
use std::thread;
use std::time::Duration;

use tubewell::worker::{AsyncJob, Stopper, Worker, WorkerFuture};
use tubewell::{Error, FIFOTTL, TaskState, TubeOptions};

use super::executor::{
    HANGS_AFTER, block_on, eventually_ready, poll_pending, wait_until, with_timeout,
};
use super::gate::Gate;
use super::support::*;

/// A worker whose only job waits for a gate, and has its last attempt.
struct Hanging {
    case: Case,
    id: u64,
    worker: WorkerFuture,
    stopper: Stopper,
    gate: Gate,
    /// How the store answers the call that the job makes once the gate is open.
    later: Receiver<tubewell::Result<()>>,
}

/// `is_spawned`: the handler runs on a thread of its own.
fn hanging(is_spawned: bool, stop_timeout: Duration) -> Hanging {
    let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
    let (id, gate) = (case.put("hangs"), Gate::default());
    let ((begun, has_begun), (tell, later)) = (shared_channel(), shared_channel());
    let wait = gate.clone();
    let hang = move |job: AsyncJob| {
        let (begun, tell, wait) = (begun.clone(), tell.clone(), wait.clone());
        async move {
            begun.lock().unwrap().send(()).unwrap();
            wait.opened().await;
            let answer = job.progress(1, 1).await;
            let _ = tell.lock().unwrap().send(answer);
        }
    };
    let mut worker = Worker::new(&case.store).on_async(&case.tube, hang).concurrency(2);
    if is_spawned {
        worker = worker.spawn_with(|handler| {
            thread::spawn(move || block_on(handler));
        });
    }
    let stopper = worker.stopper();
    let mut worker = worker.run_async().stop_timeout(stop_timeout);
    wait_until(|| {
        poll_pending(&mut worker, Waker::noop());
        has_begun.try_recv().is_ok()
    });
    Hanging { case, id, worker, stopper, gate, later }
}

fn assert_given_back(case: &Case, id: u64) {
    let info = case.tube.query().task(id).unwrap().info;
    assert_eq!((info.state, info.attempts_left), (TaskState::Ready, Some(1)));
}

#[test]
fn dropped_future_uses_up_no_attempt() {
    for (is_spawned, is_stopped) in [(false, false), (false, true), (true, false), (true, true)] {
        with_timeout(move || {
            let Hanging { case, id, worker, stopper, gate, later } =
                hanging(is_spawned, Duration::MAX);
            if is_stopped {
                stopper.stop();
            }
            drop(worker);
            assert_given_back(&case, id);
            gate.open();
            let lost = if is_spawned { Ok(Err(Error::NotTaken { id })) } else { Err(()) };
            assert_eq!(later.recv().map_err(drop), lost);
        });
    }
}

#[test]
fn handler_that_its_runtime_drops_while_the_worker_stops_uses_up_no_attempt() {
    with_timeout(|| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let id = case.put("x");
        let worker = Worker::new(&case.store).on_async(&case.tube, |_: AsyncJob| async {});
        let stopper = worker.stopper();
        let worker = worker.spawn_with(move |handler| {
            stopper.stop();
            drop(handler);
        });
        let tally = block_on(worker.run_async()).unwrap();
        assert_eq!((tally.snoozed, tally.jobs()), (1, 1));
        assert_given_back(&case, id);
    });
}

#[test]
fn stopped_future_with_a_limit_resolves_then_and_gives_back_what_still_runs() {
    for is_spawned in [false, true] {
        for limit in [Duration::ZERO, Duration::from_millis(1)] {
            with_timeout(move || {
                let Hanging { case, id, mut worker, stopper, gate, later } =
                    hanging(is_spawned, limit);
                stopper.stop();
                let tally = eventually_ready(&mut worker).unwrap();
                assert_eq!((tally.left, tally.jobs()), (1, 1));
                assert_given_back(&case, id);
                drop(worker);
                gate.open();
                let lost = if is_spawned { Ok(Err(Error::NotTaken { id })) } else { Err(()) };
                assert_eq!(later.recv().map_err(drop), lost);
            });
        }
    }
}

#[test]
fn stopped_future_with_a_limit_resolves_as_soon_as_its_jobs_have_ended() {
    for is_spawned in [false, true] {
        with_timeout(move || {
            let Hanging { case, id, mut worker, stopper, gate, .. } =
                hanging(is_spawned, HANGS_AFTER * 2);
            stopper.stop();
            poll_pending(&mut worker, Waker::noop());
            gate.open();
            let tally = eventually_ready(&mut worker).unwrap();
            assert_eq!((tally.done, tally.jobs()), (1, 1));
            assert_eq!(case.state(id), None);
        });
    }
}

#[test]
fn limit_of_a_stop_is_none_of_a_worker_that_no_caller_stops() {
    with_timeout(|| {
        let Hanging { case, id, mut worker, gate, .. } = hanging(false, Duration::ZERO);
        poll_pending(&mut worker, Waker::noop());
        gate.open();
        wait_until(|| {
            poll_pending(&mut worker, Waker::noop());
            case.state(id).is_none()
        });
    });
}
