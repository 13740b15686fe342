//! Retries: which errors are tried again, when, and what becomes of the tasks of a worker that
//! died.

use std::time::Duration;

use tubewell::worker::{Job, Worker};
use tubewell::{Backoff, ClaimToken, FIFO, FIFOTTL, Failure, Outcome, TaskState, TubeOptions};

use super::support::*;
use crate::stores;

/// The errors of a handler.
#[derive(Debug, thiserror::Error)]
enum PageError {
    #[error("no answer")]
    Timeout,
    #[error("not found")]
    NotFound,
}

/// Fails the attempt for the listed error, so that the tube retries it; buries the task for others.
fn retry_timeouts(job: &Job) -> Outcome {
    let fetched = match job.body() {
        b"slow" => Err(PageError::Timeout),
        b"gone" => Err(PageError::NotFound),
        _ => Ok(()),
    };
    match fetched {
        Ok(()) => Outcome::done(),
        Err(error @ PageError::Timeout) => {
            Outcome::fail(Failure::new("timeout", error.to_string()))
        }
        Err(error) => Outcome::bury(Failure::of(&error)),
    }
}

/// Q329
/// Difference: the handler says which errors are retried, and the tube how often.
#[test]
fn listed_errors_are_retried_until_the_attempts_are_used_up() {
    in_every_form(|form| {
        let case = Case::with(FIFO, TubeOptions::new().max_attempts(3));
        let ids = ["fine", "slow", "gone"].map(|body| case.put(body));
        let (tally, _) = form.work(&case, &case.tube, 5, retry_timeouts);
        assert_eq!((tally.done, tally.failed, tally.buried), (1, 3, 1));
        let failure = |id| case.tube.query().task(id).unwrap().info.failure.unwrap();
        assert_eq!(case.state(ids[0]), None);
        let slow = failure(ids[1]);
        assert_eq!((&*slow.group, &*slow.message, slow.attempt), ("timeout", "no answer", 3));
        let gone = failure(ids[2]);
        assert_eq!(
            (&*gone.group, &*gone.message, gone.attempt),
            ("PageError::NotFound", "not found", 1)
        );
        assert_eq!(case.tube.statistics().unwrap().tasks.buried, 2);
    });
}

/// Q330
#[test]
fn failed_jobs_are_retried_with_the_backoff_of_their_tube() {
    let second = Duration::from_secs(1);
    for (backoff, delays) in [
        (Backoff::constant(2 * second), [2, 2, 2]),
        (Backoff::exponential(10 * second).factor(10.0), [10, 100, 1000]),
        (Backoff::exponential(10 * second).factor(3.0), [10, 30, 90]),
    ] {
        let case = Case::with(FIFOTTL, TubeOptions::new().backoff(backoff));
        case.tube.put_many(["one", "two"]).unwrap();
        let run = || {
            let fail = |_: &Job| Err::<(), _>(PageError::Timeout);
            Worker::new(&case.store).on(&case.tube, fail).run_until_idle().unwrap().failed
        };
        assert_eq!(run(), 2);
        for delay in delays {
            case.clock.advance(secs(delay - 1));
            assert_eq!(run(), 0);
            case.clock.advance(second);
            assert_eq!(run(), 2);
        }
    }
}

/// Q331
/// Difference: the attempts of a task count all errors together; a delay can follow from the error.
#[test]
fn error_can_say_when_to_come_back() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(2));
        let id = case.put("busy");
        let come_back = |job: &Job| {
            let failure = Failure::new("busy", "503");
            Outcome::fail_in(secs(30) * job.attempt(), failure)
        };
        form.work(&case, &case.tube, 1, come_back);
        case.clock.advance(secs(29));
        assert_eq!(case.state(id), Some(TaskState::Delayed));
        case.clock.advance(secs(1));
        form.work(&case, &case.tube, 1, come_back);
        assert_eq!(case.state(id), Some(TaskState::Buried));
    });
}

/// Q333
/// Difference: the claims of a worker end with it. Its tasks are ready again in their old places,
/// so the next worker gets them before younger ones.
#[test]
fn tasks_of_a_worker_that_died_come_first() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue");
    let store = stores::open(&path);
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let ids = tube.put_many(["old", "young"]).unwrap();
    let leave = |_: &Job| Outcome::detach();
    let worker = Worker::new(&store).on(&tube, leave).limit(1).start().unwrap();
    assert_eq!(worker.wait().unwrap().detached, 1);
    assert_eq!(tube.query().task(ids[0].id).unwrap().info.state, TaskState::Taken);
    // The claim ends with the process.
    stores::close(&store);
    drop((worker, tube, store));
    let store = stores::open(&path);
    let tube = store.find_tube("case").unwrap();
    let (send, receive) = shared_channel();
    let tell = move |job: &Job| send.lock().unwrap().send(job.id()).unwrap();
    Worker::new(&store).on(&tube, tell).run_until_idle().unwrap();
    assert_eq!(receive.iter().collect::<Vec<u64>>(), [ids[0].id, ids[1].id]);
}

/// B024 B026
/// Difference: a runner that starts resumes the claims that an earlier one has parked, by their
/// tokens. It need not ask whether a process is there.
#[test]
fn runner_resumes_the_tasks_of_child_processes_that_outlived_the_last_runner() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue");
    let store = stores::open(&path);
    let tube = store.create_tube("films", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put_many(["one", "two", "three"]).unwrap();
    let (send, tokens) = shared_channel();
    let start_child = move |job: &Job| {
        send.lock().unwrap().send(job.park(secs(3600))?.to_string()).unwrap();
        Ok::<_, tubewell::Error>(Outcome::detach())
    };
    let worker = Worker::new(&store).on(&tube, start_child).limit(2);
    assert_eq!(worker.run_until_idle().unwrap().detached, 2);
    stores::close(&store);
    drop((tube, store));

    let store = stores::open(&path);
    let tube = store.find_tube("films").unwrap();
    let tokens: Vec<ClaimToken> = tokens.iter().map(|token| token.parse().unwrap()).collect();
    let worker = || Worker::new(&store).on(&tube, |_: &Job| ()).run_until_idle().unwrap();
    assert_eq!((tokens.len(), worker().done), (2, 1));
    // One child process is done, and one has died.
    store.resume_claim(&tokens[0]).unwrap().ack().unwrap();
    drop(store.resume_claim(&tokens[1]).unwrap());
    assert_eq!(worker().done, 1);
    assert_eq!(tube.statistics().unwrap().tasks.total, 0);
}
