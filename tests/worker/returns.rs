//! The end of a task when its handler returns.

use std::error::Error as StdError;
use std::sync::atomic::{AtomicU32, Ordering};

use tubewell::worker::{Ended, Job, Report, Worker};
use tubewell::{
    Ending, Error, FIFO, Failure, Keep, LIMFIFOTTL, Outcome, Put, TaskState, TubeOptions,
};

use super::support::*;
use crate::stores;

/// Q323 T057
#[test]
fn task_is_done_when_its_handler_returns_normally() {
    in_every_form(|form| {
        let case = Case::new();
        let ids = [case.put("unit"), case.put("outcome"), case.put("result")];
        let (tally, reports) = form.work(&case, &case.tube, 3, |job: &Job| match job.body() {
            b"result" => Ok::<_, Error>(Outcome::result("4")),
            _ => Ok(Outcome::done()),
        });
        assert_eq!(tally.done, 3);
        for (id, report) in ids.into_iter().zip(&reports) {
            assert_eq!(ended(report), (id, Ended::Done, TaskState::Done, None));
            assert_eq!(case.state(id), None);
        }
        assert_eq!(case.tube.statistics().unwrap().calls.ack, 3);
    });
}

#[test]
fn result_is_kept_with_the_task() {
    in_every_form(|form| {
        let case = Case::with(FIFO, TubeOptions::new().keep_done(Keep::new().count(9)));
        let id = case.put("2 + 2");
        form.work(&case, &case.tube, 1, |_: &Job| Outcome::result("4"));
        let result = Some(b"4".to_vec());
        assert_eq!(case.tube.ending(id).unwrap(), Some(Ending::Done { result }));
    });
}

#[test]
fn outcome_decides_what_becomes_of_the_task() {
    in_every_form(|form| {
        let case = Case::new();
        let cases: [(&str, Ended, TaskState); 8] = [
            ("release", Ended::Released, TaskState::Delayed),
            ("snooze", Ended::Snoozed, TaskState::Delayed),
            ("fail", Ended::Failed, TaskState::Ready),
            ("fail in", Ended::Failed, TaskState::Delayed),
            ("bury", Ended::Buried, TaskState::Buried),
            ("advance", Ended::Advanced, TaskState::Ready),
            ("finish", Ended::Done, TaskState::Done),
            ("detached", Ended::Detached, TaskState::Taken),
        ];
        let next = case.another("next");
        for (body, end, state) in cases {
            let id = case.put(body);
            let to = next.clone();
            let (_, reports) = form.work(&case, &case.tube, 1, move |job: &Job| {
                let failure = Failure::new("group", "message");
                match job.body() {
                    b"release" => Outcome::release_in(secs(9)),
                    b"snooze" => Outcome::snooze(secs(9)),
                    b"fail" => Outcome::fail(failure),
                    b"fail in" => Outcome::fail_in(secs(9), failure),
                    b"bury" => Outcome::bury(failure),
                    b"advance" => Outcome::advance(&to, "advanced"),
                    b"finish" => Outcome::done().and_put(&to, "put"),
                    _ => Outcome::detach(),
                }
            });
            let has_failure = matches!(body, "fail" | "fail in" | "bury");
            let failure = has_failure.then(|| ("group".into(), "message".into()));
            assert_eq!(ended(&reports[0]), (id, end, state, failure), "{body}");
            match body {
                "advance" => assert_eq!(next.query().task(id).unwrap().body, b"advanced"),
                // The session of the worker has ended.
                "detached" => assert_eq!(case.state(id), Some(TaskState::Ready)),
                "finish" => assert_eq!(case.state(id), None),
                _ => assert_eq!(case.state(id), Some(state), "{body}"),
            }
            if state != TaskState::Done && body != "advance" {
                case.tube.delete(id).unwrap();
            }
        }
        assert_eq!(next.statistics().unwrap().tasks.ready, 2);
    });
}

/// Q324
#[test]
fn error_fails_the_attempt_with_the_name_of_its_type_and_its_text() {
    #[derive(Debug)]
    struct NoRoute(std::num::ParseIntError);
    impl std::fmt::Display for NoRoute {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("no route")
        }
    }
    impl StdError for NoRoute {
        fn source(&self) -> Option<&(dyn StdError + 'static)> {
            Some(&self.0)
        }
    }
    type Handler = fn(&Job) -> Result<(), Box<dyn StdError + Send + Sync>>;
    fn fail(_: &Job) -> Result<(), Box<dyn StdError + Send + Sync>> {
        Err("7x".parse::<u32>().map_err(NoRoute).unwrap_err().into())
    }
    in_every_form(|form| {
        let case = Case::with(FIFO, TubeOptions::new().max_attempts(1));
        let run = |handler: Handler, texts: (&str, &str)| {
            let id = case.put("x");
            let (tally, reports) = form.work(&case, &case.tube, 1, handler);
            let texts = Some((texts.0.to_owned(), texts.1.to_owned()));
            assert_eq!(ended(&reports[0]), (id, Ended::Failed, TaskState::Buried, texts));
            assert_eq!(tally.failed, 1);
        };
        run(fail, ("NoRoute", "no route: invalid digit found in string"));
        let handler: Handler = |_| Err(Failure::new("timeout", "no answer").into());
        run(handler, ("timeout", "no answer"));
        let groups = case.tube.query().groups().unwrap();
        assert_eq!(groups.len(), 2);
    });
    in_every_form(|form| {
        let case = Case::new();
        let group = |reports: &[Report]| ended(&reports[0]).3.unwrap();
        case.put("x");
        let typed = |_: &Job| Err::<(), _>("7x".parse::<u32>().map_err(NoRoute).unwrap_err());
        let (_, reports) = form.work(&case, &case.tube, 1, typed);
        let text = "no route: invalid digit found in string";
        assert_eq!(group(&reports), ("NoRoute".into(), text.into()));
        let text = |_: &Job| Err::<Outcome, String>("é".repeat(50_000));
        let (_, reports) = form.work(&case, &case.tube, 1, text);
        let (name, message) = group(&reports);
        assert_eq!((&*name, message.len()), ("String", 10_000));
        let failure = |_: &Job| Err::<(), _>(Failure::new("timeout", "no answer"));
        let (_, reports) = form.work(&case, &case.tube, 1, failure);
        assert_eq!(group(&reports), ("timeout".into(), "no answer".into()));
    });
}

/// Boxed errors too: not all of them are called `Error`.
#[test]
fn groups_tell_the_causes_of_failures_apart() {
    #[derive(Debug, thiserror::Error)]
    enum Page {
        #[error("status {0}")]
        Status(u16),
        #[error("not a page")]
        NotAPage,
    }
    type Boxed = Box<dyn StdError + Send + Sync>;
    fn fetch(job: &Job) -> Result<(), Boxed> {
        match job.body() {
            b"status" => Err(Page::Status(503).into()),
            b"not a page" => Err(Page::NotAPage.into()),
            b"io" => Err(std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()),
            b"closed" => Err(Error::Closed.into()),
            text => Err(format!("{text:?} is unknown").into()),
        }
    }
    in_every_form(|form| {
        let case = Case::with(FIFO, TubeOptions::new().max_attempts(1));
        let names = || -> Vec<String> {
            case.tube.query().groups().unwrap().into_iter().map(|group| group.name).collect()
        };
        let bodies = ["status", "not a page", "io", "closed", "a", "b"];
        let _ids = bodies.map(|body| case.put(body));
        form.work(&case, &case.tube, 6, fetch);
        assert_eq!(names(), ["Closed", "ConnectionReset", "Error", "NotAPage", "Status"]);
        case.tube.admin().truncate().unwrap();
        let _ids = bodies.map(|body| case.put(body));
        let named = form.on(Worker::new(&case.store), &case.tube, fetch).limit(6);
        let named = named.failure_group(|error| match error.downcast_ref()? {
            Page::Status(status) => Some(format!("status {status}")),
            Page::NotAPage => None,
        });
        form.start(named).wait().unwrap();
        assert_eq!(names(), ["Closed", "ConnectionReset", "Error", "NotAPage", "status 503"]);
    });
}

#[test]
fn failure_group_that_panics_fails_the_attempt() {
    in_every_form(|form| {
        let case = Case::with(FIFO, TubeOptions::new().max_attempts(1));
        let id = case.put("x");
        let worker = form.on(Worker::new(&case.store), &case.tube, |_: &Job| Err::<(), _>("no"));
        let worker = worker.failure_group(|_| panic!("no group")).limit(1);
        assert_eq!(form.start(worker).wait().unwrap().panicked, 1);
        assert_eq!(case.tube.query().task(id).unwrap().info.group.as_deref(), Some("panic"));
    });
}

/// Q324
#[test]
fn panic_fails_the_attempt_and_the_worker_goes_on() {
    in_every_form(|form| {
        let case = Case::new();
        let ids = [case.put("first"), case.put("second")];
        let calls = AtomicU32::new(0);
        let (tally, reports) = form.work(&case, &case.tube, 3, move |job: &Job| {
            let call = calls.fetch_add(1, Ordering::SeqCst);
            assert!(call > 0, "no more {}", String::from_utf8_lossy(job.body()));
        });
        assert_eq!((tally.panicked, tally.done), (1, 2));
        let failure = Some(("panic".into(), "no more first".into()));
        assert_eq!(ended(&reports[0]), (ids[0], Ended::Panicked, TaskState::Ready, failure));
        assert_eq!(case.tube.statistics().unwrap().tasks.total, 0);
    });
}

/// The value of the error panics when it is turned into text, and so does the drop of a job's
/// value.
#[test]
fn panic_outside_the_body_of_a_handler_fails_the_attempt() {
    #[derive(Debug)]
    struct Bomb;
    impl std::fmt::Display for Bomb {
        fn fmt(&self, _: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            panic!("no text")
        }
    }
    impl StdError for Bomb {}
    struct DropBomb;
    impl Drop for DropBomb {
        fn drop(&mut self) {
            panic!("no drop");
        }
    }
    in_every_form(|form| {
        let case = Case::new();
        case.put("x");
        let (_, reports) = form.work(&case, &case.tube, 1, |_: &Job| Err::<(), _>(Bomb));
        assert_eq!(ended(&reports[0]).3, Some(("panic".into(), "no text".into())));
        let (_, reports) = form.work(&case, &case.tube, 1, |_: &Job| drop(DropBomb));
        assert_eq!(ended(&reports[0]).3, Some(("panic".into(), "no drop".into())));
    });
}

/// Q325 T062
/// Difference: a task that no worker can read is buried, and not failed or removed.
#[test]
fn undecodable_body_is_buried_and_the_worker_goes_on() {
    in_every_form(|form| {
        let case = Case::new();
        let numbers = case.tube.typed::<u64>();
        let bad = case.put("");
        numbers.put(7).unwrap();
        let seven = |job: &Job<u64>| assert_eq!(*job.value(), 7);
        let (tally, reports) = form.work(&case, &numbers, 2, seven);
        assert_eq!((tally.undecodable, tally.done), (1, 1));
        let (id, end, state, failure) = ended(&reports[0]);
        assert_eq!((id, end, state), (bad, Ended::Undecodable, TaskState::Buried));
        assert_eq!(failure.unwrap().0, "undecodable");
        assert_eq!(case.state(bad), Some(TaskState::Buried));
    });
}

/// Q323
#[test]
fn task_that_its_handler_has_ended_is_not_ended_again() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let tube = case.tube.clone();
        let (tally, reports) = form.work(&case, &case.tube, 1, move |job: &Job| {
            assert!(job.is_current().unwrap());
            tube.delete(job.id()).unwrap();
            assert!(!job.is_current().unwrap());
            assert!(matches!(job.check(), Err(Error::Interrupted { .. })));
            assert_eq!(job.progress(1, 2), Err(Error::NotTaken { id: job.id() }));
        });
        assert_eq!((tally.lost, tally.done), (1, 0));
        assert!(matches!(&reports[..], [Report::Lost { id: lost, .. }] if *lost == id));
        let calls = case.tube.statistics().unwrap().calls;
        assert_eq!((calls.ack, calls.delete), (0, 1));
    });
}

/// A release would run the job again and again.
#[test]
fn refused_outcome_fails_the_attempt() {
    in_every_form(|form| {
        let case = Case::with(FIFO, TubeOptions::new().max_attempts(2));
        let full = case
            .store
            .create_tube("full", TubeOptions::new().capacity(1).driver(LIMFIFOTTL))
            .unwrap();
        full.put("x").unwrap();
        let id = case.put("x");
        let (tally, reports) =
            form.work(&case, &case.tube, 1, move |_: &Job| Outcome::advance(&full, "y"));
        assert_eq!(tally.failed, 1);
        let (_, end, state, failure) = ended(&reports[0]);
        assert_eq!(
            (end, state, failure.unwrap().0),
            (Ended::Failed, TaskState::Ready, "refused".into())
        );
        case.tube.delete(id).unwrap();
        // A group has 1 to 255 bytes.
        let id = case.put("x");
        form.work(&case, &case.tube, 1, |_: &Job| Err::<(), _>(Failure::new("", "no group")));
        let failure = case.tube.query().task(id).unwrap().info.failure.unwrap();
        assert_eq!(failure.group, "refused");
    });
}

#[test]
fn handler_gets_the_task_and_reports_its_progress() {
    in_every_form(|form| {
        let case = Case::new();
        let texts = case.tube.typed::<String>();
        let put = Put::new("body").key("k").tag("red").tag("big").priority(3);
        let id = texts.put(put).unwrap().id;
        let tube = case.tube.clone();
        form.work(&case, &texts, 1, move |job: &Job<String>| {
            assert_eq!((job.id(), &**job.value(), job.tube()), (id, "body", "case"));
            assert_eq!(
                (job.key(), job.tags().collect::<Vec<_>>()),
                (Some("k"), vec!["red", "big"])
            );
            assert_eq!((job.attempt(), job.takes(), job.priority()), (1, 1, 3));
            assert_eq!((job.attempts_left(), job.sub_queue()), (None, None));
            job.progress(1, 2).unwrap();
            job.progress_text("half").unwrap();
            let progress = tube.query().task(id).unwrap().info.progress.unwrap();
            assert_eq!(progress.to_string(), "1 of 2: half");
            assert!(!job.is_stopping() && job.check().is_ok());
            Ok::<_, Error>(())
        });
    });
}

#[test]
fn checkpoint_of_a_job_is_the_body_of_the_next_attempt() {
    in_every_form(|form| {
        let case = Case::new();
        case.put("0 of 3");
        form.work(&case, &case.tube, 1, |job: &Job| {
            job.checkpoint("1 of 3")?;
            assert_eq!(job.body(), b"0 of 3");
            Err::<(), Error>(Error::Overloaded)
        });
        form.work(&case, &case.tube, 1, |job: &Job| assert_eq!(job.body(), b"1 of 3"));
    });
}

/// B026
#[test]
fn parked_job_is_left_to_the_caller_with_its_token() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let (send, tokens) = shared_channel();
        let (tally, _) = form.work(&case, &case.tube, 1, move |job: &Job| {
            send.lock().unwrap().send(job.park(secs(60))).unwrap();
            // Whatever it returns.
            Err::<(), Error>(Error::Overloaded)
        });
        assert_eq!((tally.detached, case.state(id)), (1, Some(TaskState::Taken)));
        let token = tokens.recv().unwrap().unwrap();
        case.store.resume_claim(&token).unwrap().ack().unwrap();
    });
}

#[test]
fn session_of_the_worker_has_its_name() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let tube = case.tube.clone();
        let label = move |job: &Job| {
            let owner = tube.query().owner(job.id()).unwrap().unwrap();
            assert_eq!(owner.label.as_deref(), Some("encoder"));
        };
        let worker = form.on(Worker::new(&case.store).name("encoder"), &case.tube, label).limit(1);
        assert_eq!(form.start(worker).wait().unwrap().done, 1);
        assert_eq!(case.state(id), None);
    });
}

#[test]
fn task_survives_with_the_end_of_its_job() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue");
    let store = stores::open(&path);
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put_many(["done", "buried", "ready"]).unwrap();
    let handler = |job: &Job| match job.body() {
        b"done" => Outcome::done(),
        _ => Outcome::bury(Failure::new("group", "message")),
    };
    Worker::new(&store).on(&tube, handler).limit(2).run_until_idle().unwrap();
    stores::close(&store);
    drop((store, tube));
    let store = stores::open(&path);
    let tasks = store.find_tube("case").unwrap().statistics().unwrap().tasks;
    assert_eq!((tasks.ready, tasks.buried, tasks.total), (1, 1, 2));
}
