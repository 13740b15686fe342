//! Steps of jobs: those that have finished do not run again, and a job that waits needs no worker.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use tubewell::worker::{AsyncJob, Ended, Job, Worker};
use tubewell::{
    Backoff, Error, FIFOTTL, Outcome, Put, Result, Store, TaskState, Tube, TubeOptions, Update,
};

use super::support::*;
use crate::stores::{self, ManualClock};

/// The steps that have run, in order.
type Ledger = Arc<Mutex<Vec<String>>>;

/// A step that cannot fail, with the errors of a step.
#[expect(clippy::unnecessary_wraps, reason = "a step returns a result")]
fn note(ledger: &Ledger, what: &str) -> Result<String> {
    ledger.lock().unwrap().push(what.into());
    Ok(what.into())
}

#[test]
fn failed_job_goes_on_at_the_step_that_had_not_finished() {
    in_every_form(|form| {
        let case = Case::new();
        case.put("x");
        let (ledger, calls) = (Ledger::default(), AtomicU32::new(0));
        let inside = ledger.clone();
        let (tally, _) = form.work(&case, &case.tube, 3, move |job: &Job| -> Result<()> {
            let one = job.step("one", || note(&inside, "one"))?;
            assert_eq!((&*one, job.steps()?.is_empty()), ("one", false));
            if calls.fetch_add(1, Ordering::SeqCst) == 0 {
                return Err(Error::Overloaded);
            }
            job.step("two", || note(&inside, "two"))?;
            assert!(calls.load(Ordering::SeqCst) > 2, "again");
            job.step("three", || note(&inside, "three")).map(drop)
        });
        assert_eq!((tally.failed, tally.panicked, tally.done), (1, 1, 1));
        assert_eq!(*ledger.lock().unwrap(), ["one", "two", "three"]);
    });
}

#[test]
fn step_that_is_a_future_is_stored_too() {
    in_every_form(|form| {
        let case = Case::new();
        case.put("x");
        let ledger = Ledger::default();
        let inside = ledger.clone();
        let worker = Worker::new(&case.store).backoff(Backoff::none());
        let worker = worker.on_async(&case.tube, move |job: AsyncJob| {
            let ledger = inside.clone();
            async move {
                let one = job.step("one", async || note(&ledger, "one")).await?;
                assert_eq!(one, "one");
                if job.attempt() == 1 { Err(Error::Overloaded) } else { Ok(()) }
            }
        });
        form.start(worker.limit(2)).wait().unwrap();
        assert_eq!(*ledger.lock().unwrap(), ["one"]);
    });
}

/// A handler that loses the type of the error, as one with anyhow does.
type Opaque = std::result::Result<(), Box<dyn std::error::Error + Send + Sync>>;

fn opaque<T>(
    answer: Result<T>,
) -> std::result::Result<T, Box<dyn std::error::Error + Send + Sync>> {
    answer.map_err(|error| error.to_string().into())
}

#[test]
fn job_that_sleeps_is_delayed_and_begun_again_when_the_time_has_elapsed() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let id = case.put("x");
        let ledger = Ledger::default();
        let run = || {
            let ledger = ledger.clone();
            form.work(&case, &case.tube, 1, move |job: &Job| -> Opaque {
                opaque(job.step("before", || note(&ledger, "before")))?;
                opaque(job.sleep("rest", secs(60)))?;
                opaque(job.step("after", || note(&ledger, "after")))?;
                Ok(())
            })
        };
        let (tally, reports) = run();
        assert_eq!(tally.suspended, 1);
        assert_eq!(ended(&reports[0]), (id, Ended::Suspended, TaskState::Delayed, None));
        let info = case.tube.query().task(id).unwrap().info;
        assert_eq!((info.attempts_left, info.state), (Some(1), TaskState::Delayed));
        case.clock.advance(secs(59));
        // A caller makes it ready early: the rest of the time is left.
        case.tube.update(id, Update::new().delay(secs(0))).unwrap();
        assert_eq!(run().0.suspended, 1);
        case.clock.advance(secs(1));
        assert_eq!(run().0.done, 1);
        assert_eq!(*ledger.lock().unwrap(), ["before", "after"]);
    });
}

#[test]
fn job_that_returns_ok_after_an_interrupted_sleep_is_done() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let ignore = |job: &Job| {
            assert!(matches!(job.sleep("rest", secs(60)), Err(Error::Interrupted { .. })));
        };
        assert_eq!(form.work(&case, &case.tube, 1, ignore).0.done, 1);
        assert_eq!(case.state(id), None);
    });
}

/// The tasks of a job that puts others and waits for them.
fn split(job: &Job, parts: &Tube, ledger: &Ledger) -> Opaque {
    let part = |n| job.spawn(&format!("part {n}"), parts, Put::new(format!("{n}")));
    let ids = opaque((0..3).map(part).collect::<Result<Vec<u64>>>())?;
    opaque(job.join("parts", parts, &ids))?;
    opaque(job.step("join", || note(ledger, "joined")))?;
    Ok(())
}

#[test]
fn job_that_joins_waits_for_its_children_without_a_worker() {
    in_every_form(|form| {
        let case = Case::with(FIFOTTL, TubeOptions::new().max_attempts(1));
        let parts = case.another("parts");
        let id = case.put("x");
        let ledger = Ledger::default();
        let run = || {
            let (parts, ledger) = (parts.clone(), ledger.clone());
            form.work(&case, &case.tube, 1, move |job: &Job| split(job, &parts, &ledger))
        };
        let (tally, reports) = run();
        assert_eq!(tally.suspended, 1);
        assert_eq!(ended(&reports[0]), (id, Ended::Suspended, TaskState::Blocked, None));
        assert_eq!(parts.statistics().unwrap().tasks.ready, 3);
        form.work(&case, &parts, 2, |_: &Job| ());
        assert_eq!(case.state(id), Some(TaskState::Blocked));
        form.work(&case, &parts, 1, |_: &Job| ());
        assert_eq!((run().0.done, case.state(id)), (1, None));
        assert_eq!(*ledger.lock().unwrap(), ["joined"]);
        assert_eq!(parts.statistics().unwrap().calls.put, 3);
    });
}

/// The claim has ended with the join, so nothing that the handler returns can end the task.
#[test]
fn job_that_ignores_a_join_ends_nothing() {
    in_every_form(|form| {
        let case = Case::new();
        let parts = case.another("parts");
        let id = case.put("x");
        let to = parts.clone();
        let (tally, _) = form.work(&case, &case.tube, 1, move |job: &Job| {
            let part = job.spawn("part", &to, "part").unwrap();
            assert!(job.join("parts", &to, &[part]).is_err());
            assert!(!job.is_current().unwrap() && job.check().is_err());
            assert_eq!(job.progress(1, 1), Err(Error::NotTaken { id: job.id() }));
            Outcome::done()
        });
        assert_eq!((tally.suspended, case.state(id)), (1, Some(TaskState::Blocked)));
    });
}

#[test]
fn steps_as_futures_spawn_sleep_and_join() {
    in_every_form(|form| {
        let case = Case::new();
        let parts = case.another("parts");
        let id = case.put("x");
        let run = || {
            let parts = parts.clone();
            let worker = Worker::new(&case.store).on_async(&case.tube, move |job: AsyncJob| {
                let parts = parts.clone();
                async move {
                    let part = job.spawn("part", &parts, "part").await?;
                    job.sleep("rest", secs(60)).await?;
                    job.join("parts", &parts, &[part]).await
                }
            });
            form.start(worker.limit(1)).wait().unwrap()
        };
        assert_eq!((run().suspended, case.state(id)), (1, Some(TaskState::Delayed)));
        case.clock.advance(secs(60));
        assert_eq!((run().suspended, case.state(id)), (1, Some(TaskState::Blocked)));
        form.work(&case, &parts, 1, |_: &Job| ());
        assert_eq!((run().done, case.state(id)), (1, None));
    });
}

/// A stop while a job is suspended changes nothing of it.
#[test]
fn job_that_is_suspended_while_its_worker_stops_stays_suspended() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let worker = Worker::new(&case.store);
        let stopper = worker.stopper();
        let sleep = move |job: &Job| {
            stopper.stop();
            job.sleep("rest", secs(60))?;
            job.check()
        };
        let tally = form.start(form.on(worker, &case.tube, sleep)).wait().unwrap();
        assert_eq!((tally.suspended, case.state(id)), (1, Some(TaskState::Delayed)));
    });
}

/// A worker that has lost its task stores nothing, so the steps of two attempts do not mix.
#[test]
fn step_of_a_lost_job_is_refused() {
    in_every_form(|form| {
        let case = Case::new();
        let id = case.put("x");
        let tube = case.tube.clone();
        let (tally, _) = form.work(&case, &case.tube, 1, move |job: &Job| -> Result<()> {
            job.step("one", || Ok::<u8, Error>(1))?;
            let _ = tube.admin().revoke(id)?;
            let stale = job.step("two", || -> Result<u8> { panic!("it must not run") });
            assert_eq!(stale, Err(Error::NotTaken { id }));
            assert_eq!(job.sleep("rest", secs(60)), Err(Error::NotTaken { id }));
            Ok(())
        });
        assert_eq!((tally.lost, case.tube.query().steps(id).unwrap().len()), (1, 1));
    });
}

/// The whole path once: killed between the steps by a close, over a sleep and a join.
#[test]
fn job_goes_on_after_its_store_is_opened_again() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("queue");
    let (clock, ledger) = (ManualClock::new(), Ledger::default());
    let mut ends = Vec::new();
    for _ in 0..10 {
        let store = stores::open_with(&path, Store::options().clock(&clock));
        let options = || TubeOptions::new().max_attempts(2);
        let jobs = store.open_tube("jobs", options().driver(FIFOTTL)).unwrap();
        let parts = store.open_tube("parts", options().driver(FIFOTTL)).unwrap();
        if ends.is_empty() {
            jobs.put("x").unwrap();
        }
        let (to, inside) = (parts.clone(), ledger.clone());
        let work = move |job: &Job| -> Opaque {
            opaque(job.step("begin", || note(&inside, "begun")))?;
            opaque(job.sleep("rest", secs(60)))?;
            split(job, &to, &inside)
        };
        let worker = Worker::new(&store).on(&jobs, work).on(&parts, |_: &Job| ());
        let tally = worker.limit(1).run_until_idle().unwrap();
        ends.push((tally.suspended, tally.done));
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        stores::close(&store);
        clock.advance(secs(60));
    }
    assert_eq!(ends[..6], [(1, 0), (1, 0), (0, 1), (0, 1), (0, 1), (0, 1)]);
    assert_eq!(ends[6..], [(0, 0); 4]);
    assert_eq!(*ledger.lock().unwrap(), ["begun", "joined"]);
}
