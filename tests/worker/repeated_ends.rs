//! Ends of jobs that the store cannot take at first.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tubewell::worker::{Job, Report, Worker};
use tubewell::{Error, FIFO, Store, TaskState, Tube, TubeOptions};

use super::blocking_disk::Disk;
use super::executor::{wait_until, with_timeout};
use super::gate::Gate;
use super::support::*;
use crate::stores::{self, ManualClock};

/// A store whose storage has failed while the only job of its worker ran.
struct Outage {
    store: Store,
    tube: Tube,
    disk: Arc<Disk>,
    clock: ManualClock,
    /// How often the handler was called.
    calls: Arc<AtomicUsize>,
    reports: Reports,
}

/// Starts a worker, fails the storage, and lets the job end. Returns when its end was refused.
fn outage(form: Form) -> (Outage, Running) {
    let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
    let store = stores::serve(disk.open(Store::options().clock(&clock)));
    let tube = store.create_tube("case", TubeOptions::new().max_attempts(1).driver(FIFO)).unwrap();
    tube.put("runs").unwrap();
    let (gate, (reports, watch)) = (Gate::default(), reports());
    let calls = Arc::<AtomicUsize>::default();
    let counted = calls.clone();
    let count = move |_: &Job| {
        counted.fetch_add(1, Ordering::SeqCst);
    };
    let worker = Worker::new(&store).watch(watch);
    let worker = form.on_gated(worker, &tube, &gate, count, |_: &Job| ());
    let worker = form.start(worker);
    wait_until(|| calls.load(Ordering::SeqCst) == 1);
    disk.fail_flushes(true);
    assert!(tube.put("outcome unknown").is_err());
    gate.open();
    wait_until(|| !reports.lock().unwrap().is_empty());
    assert!(matches!(reports.lock().unwrap()[0], Report::Error(Error::Unavailable { .. })));
    assert_eq!(store.owners().unwrap().iter().map(|owner| owner.running).sum::<u64>(), 1);
    (Outage { store, tube, disk, clock, calls, reports }, worker)
}

#[test]
fn end_that_cannot_be_stored_is_repeated_until_the_storage_works() {
    in_every_form(|form| {
        let (outage, worker) = outage(form);
        outage.disk.fail_flushes(false);
        wait_until(|| {
            outage.clock.advance(secs(60));
            outage.tube.statistics().is_ok_and(|numbers| numbers.tasks.total == 0)
        });
        let tally = worker.stop().unwrap();
        assert_eq!((tally.done, tally.jobs()), (2, 2));
        assert_eq!(outage.calls.load(Ordering::SeqCst), 2, "a job was run again");
        let reports = outage.reports.lock().unwrap();
        let not_stored = |report: &&Report| matches!(report, Report::NotStored { .. });
        assert_eq!(reports.iter().filter(not_stored).count(), 0, "{reports:?}");
        assert_eq!(outage.store.admin().verify().unwrap(), [""; 0]);
    });
}

/// None of the jobs is run again, and none is lost.
#[test]
fn ends_of_a_batch_are_repeated_until_the_storage_works() {
    in_every_form(|form| {
        let (disk, clock) = (Arc::new(Disk::default()), ManualClock::new());
        let store = stores::serve(disk.open(Store::options().clock(&clock)));
        let options = TubeOptions::new().max_attempts(1).driver(FIFO);
        let tube = store.create_tube("case", options).unwrap();
        tube.put_many(["a", "b", "c"]).unwrap();
        let (gate, (reports, watch)) = (Gate::default(), reports());
        let (calls, wait) = (Arc::<AtomicUsize>::default(), gate.clone());
        let called = calls.clone();
        let handler = move |jobs: &[Job]| {
            called.fetch_add(jobs.len(), Ordering::SeqCst);
            wait.pass();
        };
        let worker = Worker::new(&store).watch(watch).limit(3);
        let worker = form.start(form.on_batch(worker, &tube, (3, Duration::MAX), handler));
        wait_until(|| calls.load(Ordering::SeqCst) == 3);
        disk.fail_flushes(true);
        assert!(tube.put("outcome unknown").is_err());
        gate.open();
        wait_until(|| !reports.lock().unwrap().is_empty());
        disk.fail_flushes(false);
        wait_until(|| {
            clock.advance(secs(60));
            tube.statistics().is_ok_and(|numbers| numbers.tasks.done == 3)
        });
        let tally = worker.wait().unwrap();
        assert_eq!((tally.done, tally.jobs(), calls.load(Ordering::SeqCst)), (3, 3, 3));
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    });
}

#[test]
fn stop_with_a_time_ends_the_repetition_of_an_end() {
    with_timeout(|| {
        let (outage, worker) = outage(Form::Threads);
        let Running::Handle(worker) = worker else { panic!("it runs on threads") };
        let refused = worker.stop(Duration::from_millis(1));
        assert!(matches!(refused, Err(Error::Unavailable { .. })), "{refused:?}");
        assert_eq!(worker.wait().unwrap().not_stored, 1);
        drop(worker);
        outage.disk.fail_flushes(false);
        outage.clock.advance(secs(60));
        wait_until(|| {
            outage.tube.query().task(0).is_ok_and(|task| task.info.state != TaskState::Taken)
        });
        assert_eq!(outage.store.admin().verify().unwrap(), [""; 0]);
    });
}

/// A program whose storage is gone can end.
#[test]
fn stop_without_a_time_repeats_an_end_for_a_few_seconds() {
    with_timeout(|| {
        let (outage, worker) = outage(Form::Threads);
        let tally = worker.stop().unwrap();
        assert_eq!((tally.not_stored, tally.jobs()), (1, 1));
        assert!(outage.reports.lock().unwrap().len() > 3, "it was not repeated");
    });
}

#[test]
fn store_that_is_closed_ends_the_repetition_of_an_end() {
    in_every_form(|form| {
        let (outage, worker) = outage(form);
        let _ = outage.store.close();
        let tally = worker.wait().unwrap();
        assert_eq!((tally.not_stored, tally.jobs()), (1, 1));
    });
}
