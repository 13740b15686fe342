//! Jobs on a full disk: an attempt that the store cannot serve does not count, and an end is repeated.

use std::error::Error as StdError;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tubewell::worker::{Ended, Job, Report, Worker};
use tubewell::{
    Ending, Error, FIFO, FIFOTTL, Failure, Keep, Outcome, Store, TaskState, Tube, TubeOptions,
};

use super::executor::wait_until;
use super::small_disk::Disk;
use super::support::*;
use crate::stores::{self, ManualClock};

const MIB: u64 = 1 << 20;
/// Larger than what a full disk leaves inside the file.
const LARGE: usize = 1 << 20;

type Handled = Result<(), Box<dyn StdError + Send + Sync>>;

/// A store whose disk is full, with a task, and another tube.
fn full_disk(driver: &str, options: TubeOptions) -> (Case, Arc<Disk>, Tube) {
    let (disk, clock) = (Disk::with_capacity(4 * MIB), ManualClock::new());
    let of_store = Store::options().cache_size(1 << 20).disk_reserve(MIB / 4).clock(&clock);
    let store = stores::serve(of_store.open_on(Disk::storage(&disk)).unwrap());
    let tube = store.create_tube("case", options.driver(driver)).unwrap();
    let other = store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("job").unwrap();
    let body = "x".repeat(3000);
    let refused = std::iter::repeat_with(|| other.put(body.as_str())).find_map(Result::err);
    assert!(matches!(refused, Some(Error::DiskFull { .. })), "{refused:?}");
    (Case { store, clock, tube }, disk, other)
}

fn large(job: &Job) -> Result<String, Error> {
    job.step("large", || Ok("x".repeat(LARGE)))
}

#[derive(Debug)]
struct PutFailed(Error);

impl fmt::Display for PutFailed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the put has failed")
    }
}

impl StdError for PutFailed {
    fn source(&self) -> Option<&(dyn StdError + 'static)> {
        Some(&self.0)
    }
}

fn is_disk_full(report: &Report) -> bool {
    matches!(report, Report::Error(Error::DiskFull { .. }))
}

#[test]
fn attempt_that_fails_because_the_disk_is_full_does_not_count() {
    in_every_form(|form| {
        let (case, disk, other) = full_disk(FIFOTTL, TubeOptions::new().max_attempts(1));
        let handler = move |job: &Job| -> Handled {
            match job.takes() {
                // The type of the error is lost, as it is with anyhow.
                1 => large(job).map_err(|error| error.to_string())?,
                2 => return Err(PutFailed(other.put(vec![1; LARGE]).unwrap_err()).into()),
                3 => job.spawn("child", &other, vec![1; LARGE])?.to_string(),
                _ => large(job)?,
            };
            Ok(())
        };
        for takes in 1..=4 {
            let (tally, reports) = form.work(&case, &case.tube, 1, handler.clone());
            assert_eq!(tally.snoozed, 1, "{takes}: {reports:?}");
            assert!(reports.iter().any(is_disk_full), "{takes}: {reports:?}");
            let ends = reports.iter().filter(|report| !is_disk_full(report)).map(ended);
            assert_eq!(ends.collect::<Vec<_>>(), [(0, Ended::Snoozed, TaskState::Delayed, None)]);
            let info = case.tube.query().task(0).unwrap().info;
            assert_eq!((info.attempts, info.takes, info.due_in), (0, takes, Some(secs(5))));
            case.clock.advance(secs(5));
        }
        disk.add_space(32 * MIB);
        assert_eq!(form.work(&case, &case.tube, 1, handler).0.done, 1);
    });
}

#[test]
fn job_that_goes_on_after_a_full_disk_and_fails_has_used_its_attempt() {
    in_every_form(|form| {
        let (case, _disk, _) = full_disk(FIFOTTL, TubeOptions::new().max_attempts(1));
        let (tally, _) = form.work(&case, &case.tube, 1, |job: &Job| {
            assert!(matches!(large(job), Err(Error::DiskFull { .. })));
            job.step("small", || Ok::<_, Error>(1)).unwrap();
            Err::<(), _>(Failure::new("own", "message"))
        });
        assert_eq!((tally.failed, case.state(0)), (1, Some(TaskState::Buried)));
    });
}

/// A tube without delays has the task ready again, so the worker pauses.
#[test]
fn worker_of_a_tube_without_delays_pauses_while_the_disk_is_full() {
    in_every_form(|form| {
        let (case, disk, _) = full_disk(FIFO, TubeOptions::new().max_attempts(1));
        let (reports, watch) = reports();
        let worker = Worker::new(&case.store).watch(watch);
        let worker = form.on(worker, &case.tube, |job: &Job| large(job).map(drop));
        let worker = form.start(worker);
        wait_until(|| reports.lock().unwrap().iter().filter(|it| is_disk_full(it)).count() == 2);
        disk.add_space(32 * MIB);
        wait_until(|| case.state(0).is_none());
        let tally = worker.stop().unwrap();
        let pauses = reports.lock().unwrap().iter().filter(|it| is_disk_full(it)).count() as u64;
        assert_eq!((tally.snoozed, tally.done, tally.jobs()), (pauses, 1, pauses + 1));
    });
}

#[test]
fn end_that_meets_a_full_disk_is_repeated_while_the_claim_is_held() {
    in_every_form(|form| {
        let options = TubeOptions::new().max_attempts(1).keep_done(Keep::new().count(1));
        let (case, disk, _) = full_disk(FIFO, options);
        let (reports, watch) = reports();
        let calls = Arc::<AtomicUsize>::default();
        let counted = calls.clone();
        let worker = form.on(Worker::new(&case.store).watch(watch), &case.tube, move |_: &Job| {
            counted.fetch_add(1, Ordering::SeqCst);
            Outcome::result(vec![1; LARGE])
        });
        let worker = form.start(worker);
        wait_until(|| reports.lock().unwrap().len() == 2);
        assert!(reports.lock().unwrap().iter().all(is_disk_full), "{reports:?}");
        assert_eq!(case.state(0), Some(TaskState::Taken));
        disk.add_space(32 * MIB);
        wait_until(|| case.state(0) != Some(TaskState::Taken));
        let tally = worker.stop().unwrap();
        assert_eq!((tally.done, tally.jobs(), calls.load(Ordering::SeqCst)), (1, 1, 1));
        match case.tube.ending(0).unwrap() {
            Some(Ending::Done { result: Some(result) }) => assert_eq!(result.len(), LARGE),
            other => panic!("{other:?}"),
        }
    });
}
