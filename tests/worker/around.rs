//! Functions around the handlers of a worker.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell::worker::Ended::{self, Buried, Done, Failed, Released, Undecodable};
use tubewell::worker::{AsyncJob, AsyncNext, Handled, Job, Next, Worker};
use tubewell::{Backoff, Error, FIFOTTL, Failure, Outcome, TaskState, TubeOptions};

use super::executor::with_timeout;
use super::support::*;

/// What has happened, in its order.
type Trace = Arc<Mutex<Vec<String>>>;

fn note(trace: &Trace, what: impl Into<String>) {
    trace.lock().unwrap().push(what.into());
}

fn is_panic(handled: &Handled) -> bool {
    handled.failure().is_some_and(|failure| failure.group() == "panic")
}

fn must_not_run(_: &Job) {
    panic!("the handler runs");
}

impl Form {
    /// Adds a function around the handlers that calls `before` first, which may end the job, and then `after`.
    fn around(
        self,
        worker: Worker,
        before: impl Fn(&Job) -> Option<Handled> + Send + Sync + 'static,
        after: impl Fn(&Job, Handled) -> Handled + Send + Sync + 'static,
    ) -> Worker {
        if self == Form::Threads {
            return worker.around(move |job, next: Next<'_>| match before(job) {
                Some(handled) => handled,
                None => after(job, next.run()),
            });
        }
        let (before, after) = (Arc::new(before), Arc::new(after));
        worker.around_async(move |job: AsyncJob, next: AsyncNext| {
            let (before, after) = (before.clone(), after.clone());
            async move {
                let job = job.into_blocking();
                match before(&job) {
                    Some(handled) => handled,
                    None => after(&job, next.run().await),
                }
            }
        })
    }
}

#[test]
fn first_function_is_the_outermost_one() {
    in_every_form(|form| {
        let case = Case::new();
        case.put("x");
        let trace = Trace::default();
        let mut worker = Worker::new(&case.store).limit(1);
        for name in ["outer", "inner"] {
            let (begins, ends) = (trace.clone(), trace.clone());
            let before = move |job: &Job| {
                note(&begins, format!("{name} begins {}", job.body().escape_ascii()));
                None
            };
            let after = move |_: &Job, handled: Handled| {
                note(&ends, format!("{name} ends"));
                handled
            };
            worker = form.around(worker, before, after);
        }
        let handled = trace.clone();
        let worker = form.on(worker, &case.tube, move |_: &Job| note(&handled, "handler"));
        assert_eq!(form.start(worker).wait().unwrap().done, 1);
        let expected = ["outer begins x", "inner begins x", "handler", "inner ends", "outer ends"];
        assert_eq!(*trace.lock().unwrap(), expected);
    });
}

#[test]
fn function_that_does_not_go_on_ends_the_job_without_its_handler() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let wait = |job: &Job| Some(Handled::of(job, Outcome::snooze(Duration::from_secs(9))));
        let worker = form.around(Worker::new(&case.store).limit(1), wait, |_, handled| handled);
        let worker = form.on(worker, &case.tube, must_not_run);
        assert_eq!(form.start(worker).wait().unwrap().snoozed, 1);
        assert_eq!(case.state(id), Some(TaskState::Delayed));
    });
}

#[test]
fn function_sees_how_its_handler_has_ended_and_may_replace_it() {
    in_every_form(|form| {
        let case = Case::new();
        for body in ["done", "result", "fail", "bury", "panic", "undecodable"] {
            case.put(&format!("\"{body}\""));
        }
        case.put("no text");
        let seen = Trace::default();
        let (trace, (reports, watch)) = (seen.clone(), reports());
        let after = move |job: &Job, handled: Handled| {
            let group = handled.failure().map(|failure| failure.group().to_owned());
            note(&trace, format!("{} {}", handled.is_done(), group.as_deref().unwrap_or("-")));
            if is_panic(&handled) {
                Handled::of(job, Outcome::release_in(Duration::from_secs(9)))
            } else {
                handled
            }
        };
        let worker = Worker::new(&case.store).backoff(Backoff::none()).limit(7).watch(watch);
        let worker = form.around(worker, |_| None, after);
        let handle = |job: &Job<String>| match &**job.value() {
            "result" => Outcome::result("x"),
            "fail" => Outcome::fail_in(Duration::from_secs(9), Failure::new("busy", "")),
            "bury" => Outcome::bury(Failure::new("bad", "")),
            "panic" => panic!("too much"),
            _ => Outcome::done(),
        };
        form.start(form.on(worker, &case.tube.typed(), handle)).wait().unwrap();
        let expected = [
            "true -",
            "true -",
            "false busy",
            "false bad",
            "false panic",
            "true -",
            "false undecodable",
        ];
        assert_eq!(*seen.lock().unwrap(), expected);
        let ends: Vec<Ended> = reports.lock().unwrap().iter().map(|it| ended(it).1).collect();
        assert_eq!(ends, [Done, Done, Failed, Buried, Released, Done, Undecodable]);
    });
}

#[test]
fn panic_of_a_function_fails_the_attempt_and_is_seen_outside() {
    in_every_form(|form| {
        let case = Case::new();
        case.put("x");
        let seen = Trace::default();
        let (trace, (reports, watch)) = (seen.clone(), reports());
        let after = move |_: &Job, handled: Handled| {
            note(&trace, if is_panic(&handled) { "panic" } else { "no panic" });
            handled
        };
        let worker = Worker::new(&case.store).backoff(Backoff::none()).limit(1).watch(watch);
        let worker = form.around(worker, |_| None, after);
        let worker = form.around(worker, |_| panic!("no span"), |_, handled| handled);
        form.start(form.on(worker, &case.tube, |_: &Job| ())).wait().unwrap();
        assert_eq!(*seen.lock().unwrap(), ["panic"]);
        let (_, end, _, failure) = ended(&reports.lock().unwrap()[0]);
        assert_eq!((end, failure), (Ended::Panicked, Some(("panic".into(), "no span".into()))));
    });
}

/// The function has the calls of a job, and what it returns decides, as with a handler.
#[test]
fn error_of_a_function_fails_the_attempt_in_its_group() {
    #[derive(Debug, thiserror::Error)]
    #[error("no connection is left")]
    struct PoolIsEmpty;

    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let refuse = |job: &Job| {
            job.progress_text("waits for a connection").unwrap();
            Some(Handled::of(job, Err::<(), _>(PoolIsEmpty)))
        };
        let worker = form.around(Worker::new(&case.store).limit(1), refuse, |_, handled| handled);
        let worker = form.on(worker, &case.tube, |_: &Job| ());
        assert_eq!(form.start(worker).wait().unwrap().failed, 1);
        let failure = case.tube.query().task(id).unwrap().info.failure.unwrap();
        assert_eq!((&*failure.group, &*failure.message), ("PoolIsEmpty", "no connection is left"));
    });
}

/// Handlers on threads have the functions for threads, and those that are futures have theirs.
#[test]
fn functions_are_around_the_handlers_of_their_form_only() {
    let case = Case::new();
    let other = case.another("other");
    case.put("x");
    other.put("x").unwrap();
    let seen = Trace::default();
    let (blocking, futures) = (seen.clone(), seen.clone());
    let worker = Worker::new(&case.store)
        .on(&case.tube, |_: &Job| ())
        .on_async(&other, |_: AsyncJob| async {})
        .around(move |job, next| {
            note(&blocking, format!("thread {}", job.tube()));
            next.run()
        })
        .around_async(move |job, next| {
            note(&futures, format!("future {}", job.tube()));
            next.run()
        });
    assert_eq!(worker.run_until_idle().unwrap().done, 2);
    assert_eq!(*seen.lock().unwrap(), ["thread case", "future other"]);
}

/// What an attempt is forgiven for is no failure, whether the handler or a function has met it.
#[test]
fn sleep_of_a_handler_or_a_function_is_no_failure() {
    in_every_form(|form| {
        for in_function in [false, true] {
            let case = Case::new();
            let id = case.put("x");
            let seen = Trace::default();
            let trace = seen.clone();
            let sleep = |job: &Job| job.sleep("pause", secs(9));
            let before = move |job: &Job| in_function.then(|| Handled::of(job, sleep(job)));
            let after = move |_: &Job, handled: Handled| {
                note(&trace, format!("{:?}", handled.failure()));
                handled
            };
            let worker = form.around(Worker::new(&case.store).limit(1), |_| None, after);
            let worker = form.around(worker, before, |_, handled| handled);
            let tally = form.start(form.on(worker, &case.tube, sleep)).wait().unwrap();
            assert_eq!(tally.suspended, 1);
            assert_eq!(*seen.lock().unwrap(), ["None"]);
            let info = case.tube.query().task(id).unwrap().info;
            assert_eq!((info.state, info.attempts), (TaskState::Delayed, 0));
        }
    });
}

/// The task is snoozed, as after a handler that returns for the stop.
#[test]
fn function_that_returns_for_the_stop_uses_up_no_attempt() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let id = case.put("x");
        let worker = Worker::new(&case.store);
        let stopper = worker.stopper();
        let wait = move |job: &Job| {
            stopper.stop();
            Some(Handled::of(job, job.check()))
        };
        let worker = form.around(worker, wait, |_, handled| handled);
        let tally = form.start(form.on(worker, &case.tube, must_not_run)).wait().unwrap();
        assert_eq!(tally.snoozed, 1);
        assert_eq!(case.state(id), Some(TaskState::Ready));
    });
}

#[test]
fn failure_group_of_the_worker_names_the_errors_of_functions() {
    let case = Case::new();
    let id = case.put("x");
    let worker = Worker::new(&case.store)
        .on(&case.tube, must_not_run)
        .around(|job, _| Handled::of(job, Err::<(), _>("no connection")))
        .failure_group(|_| Some("pool".into()));
    assert_eq!(worker.run_until_idle().unwrap().failed, 1);
    assert_eq!(case.tube.query().task(id).unwrap().info.failure.unwrap().group, "pool");
}

/// A function and its handler are one future, which ends with the time of the job.
#[test]
fn function_is_dropped_with_its_handler_when_their_time_has_elapsed() {
    with_timeout(|| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        case.put("x");
        let (send, begun) = shared_channel();
        let (dropped, was_dropped) = shared_channel();
        let function = move |_: AsyncJob, next: AsyncNext| {
            let at_the_end = SendOnDrop(dropped.clone());
            async move {
                let handled = next.run().await;
                drop(at_the_end);
                handled
            }
        };
        let handler = move |_: AsyncJob| {
            send.lock().unwrap().send(()).unwrap();
            std::future::pending::<()>()
        };
        let worker = Worker::new(&case.store)
            .on_async(&case.tube, handler)
            .around_async(function)
            .max_runtime(secs(30))
            .limit(1)
            .start()
            .unwrap();
        begun.recv().unwrap();
        case.clock.advance(secs(30));
        was_dropped.recv().unwrap();
        assert_eq!(lost(worker.wait().unwrap()), 1);
    });
}

/// Tells that it was dropped.
struct SendOnDrop(Arc<Mutex<std::sync::mpsc::Sender<()>>>);

impl Drop for SendOnDrop {
    fn drop(&mut self) {
        self.0.lock().unwrap().send(()).unwrap();
    }
}

#[test]
fn functions_that_would_never_be_called_are_refused() {
    let case = Case::new();
    let refused = |worker: Worker, what: &str| {
        let error = worker.start().err();
        assert!(
            matches!(&error, Some(Error::Invalid { what: why }) if why.contains(what)),
            "{error:?}"
        );
    };
    let worker = || Worker::new(&case.store);
    refused(
        worker().on_async(&case.tube, |_: AsyncJob| async {}).around(|_, next| next.run()),
        "no handler of on",
    );
    refused(
        worker().on(&case.tube, |_: &Job| ()).around_async(|_, next| next.run()),
        "no handler of on_async",
    );
}
