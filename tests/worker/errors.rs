//! Errors of takes, and of the ends of jobs.

use std::sync::Arc;

use tubewell::worker::{Ended, Job, Report, Worker};
use tubewell::{Error, FIFO, FIFOTTL, Store, TaskState, TubeOptions};

use super::blocking_disk::Disk;
use super::executor::wait_until;
use super::support::*;
use crate::stores::{self, ManualClock};

/// Q326
#[test]
fn worker_goes_on_without_a_dropped_tube_until_none_is_left() {
    in_every_form(|form| {
        let case = Case::new();
        let (first, second) = (case.another("first"), case.another("second"));
        let (reports, watch) = reports();
        let store = case.store.clone();
        // A waiting take keeps its tube, so the drops come while the only job runs.
        let drop_tubes = move |job: &Job| {
            let names: &[&str] =
                if job.body() == b"one" { &["first"] } else { &["second", "case"] };
            if names.len() == 2 {
                store.find_tube("case")?.delete(job.id())?;
            }
            names.iter().try_for_each(|name| store.drop_tube(name))
        };
        let worker = Worker::new(&case.store);
        let worker = form.on(form.on(worker, &first, |_: &Job| ()), &second, |_: &Job| ());
        let worker = form.on(worker, &case.tube, drop_tubes).watch(watch);
        case.put("one");
        let worker = form.start(worker);
        wait_until(|| waiting(&case.store, "second") == 1);
        case.put("two");
        assert!(matches!(worker.wait(), Err(Error::TubeDropped { .. })));
        let reports = reports.lock().unwrap();
        let dropped = reports.iter().filter_map(|report| match report {
            Report::Error(Error::TubeDropped { name }) => Some(&**name),
            _ => None,
        });
        assert_eq!(dropped.collect::<Vec<_>>(), ["first", "second", "case"]);
    });
}

/// Q326 T063
/// Difference: a worker whose storage fails pauses, and then goes on itself.
#[test]
fn worker_goes_on_after_an_outage_of_the_storage() {
    in_every_form(|form| {
        let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
        let store = stores::serve(disk.open(Store::options().clock(&clock)));
        let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        tube.put_many(["one", "two", "three"]).unwrap();
        let (reports, watch) = reports();
        disk.fail_flushes(true);
        let worker = form.on(Worker::new(&store), &tube, |_: &Job| ()).watch(watch);
        let worker = form.start(worker);
        wait_until(|| !reports.lock().unwrap().is_empty());
        disk.fail_flushes(false);
        // Retries of the storage are on the clock of the store, pauses are not.
        wait_until(|| {
            clock.advance(secs(60));
            tube.statistics().is_ok_and(|numbers| numbers.tasks.total == 0)
        });
        let tally = worker.stop().unwrap();
        assert!(tally.not_stored >= 1 && tally.done >= 1, "{tally:?}");
        let reports = reports.lock().unwrap();
        let error = match &reports[0] {
            // Through a connection, an end with an unknown outcome is repeated first.
            Report::NotStored { end: Ended::Done, error, .. } | Report::Error(error) => error,
            report => panic!("{report:?}"),
        };
        assert!(matches!(error, Error::OutcomeUnknown { .. }), "{error:?}");
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

/// Each change of a claim tells the worker that the store is to blame.
#[test]
fn attempt_that_fails_because_a_touch_met_an_outage_does_not_count() {
    in_every_form(|form| {
        let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
        let store = stores::serve(disk.open(Store::options().clock(&clock)));
        let options = TubeOptions::new().max_attempts(1).ttl(secs(1 << 30));
        let tube = store.create_tube("case", options.driver(FIFOTTL)).unwrap();
        let id = tube.put("job").unwrap().id;
        let of_job = disk.clone();
        // The type of the error is lost, as it is with anyhow.
        let touch = move |job: &Job| -> Result<(), String> {
            of_job.fail_flushes(true);
            let touched = job.touch(secs(1)).map(drop).map_err(|error| error.to_string());
            of_job.fail_flushes(false);
            touched
        };
        let worker = form.start(form.on(Worker::new(&store), &tube, touch).limit(1));
        wait_until(|| {
            clock.advance(secs(10));
            tube.query()
                .task(id)
                .is_ok_and(|task| task.info.takes == 1 && task.info.state != TaskState::Taken)
        });
        let tally = worker.stop().unwrap();
        assert_eq!((tally.snoozed, tally.failed, tally.jobs()), (1, 0, 1), "{tally:?}");
        let info = tube.query().task(id).unwrap().info;
        assert_eq!((info.attempts, info.failure), (0, None));
    });
}

fn waiting(store: &Store, name: &str) -> u64 {
    let tubes = store.tubes().unwrap();
    tubes.iter().find(|info| *info.name == *name).map_or(0, |info| info.waiting)
}

/// T056
#[test]
fn worker_ends_when_the_store_is_closed() {
    in_every_form(|form| {
        let store = stores::in_memory();
        let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
        let (reports, watch) = reports();
        let worker = form.on(Worker::new(&store), &tube, |_: &Job| ()).concurrency(3);
        let worker = form.start(worker.watch(watch));
        wait_until(|| waiting(&store, "case") == 3);
        stores::close(&store);
        assert_eq!(worker.wait().unwrap().jobs(), 0);
        assert_eq!(reports.lock().unwrap().len(), 0);
    });
}

/// The end of the session is that of the worker.
#[test]
fn worker_ends_with_an_error_when_its_session_is_ended() {
    in_every_form(|form| {
        let case = Case::new();
        case.put("x");
        let (store, tube) = (case.store.clone(), case.tube.clone());
        let (reports, watch) = reports();
        let end_session = move |job: &Job| {
            let owner = tube.query().owner(job.id()).unwrap().unwrap();
            store.resume_session(owner.session).unwrap().end().unwrap();
        };
        let worker = form.on(Worker::new(&case.store), &case.tube, end_session).watch(watch);
        let worker = form.start(worker.concurrency(2));
        assert_eq!(worker.wait(), Err(Error::SessionEnded));
        let reports = reports.lock().unwrap();
        let errors = reports.iter().filter(|report| matches!(report, Report::Error(_))).count();
        assert_eq!(errors, 1, "{reports:?}");
        assert_eq!(case.tube.statistics().unwrap().tasks.ready, 1);
    });
}
