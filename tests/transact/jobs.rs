//! Jobs of workers whose handlers end their claims in a transaction.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell::worker::{Job, Report, Tally, Worker};
use tubewell::{Error, Failure, Outcome, Result, Store, TaskState, TubeOptions};

use super::support::{serve, served};

/// Works one task with this handler. Returns the counts, and the reported ends.
fn work(
    store: &Store,
    handler: impl Fn(&Store, &Job) -> Result<()> + Send + Sync + 'static,
) -> (Tally, Vec<(TaskState, Option<Failure>)>) {
    let jobs = store.tube("jobs").unwrap();
    jobs.put("ann").unwrap();
    let ends = Arc::new(Mutex::new(Vec::new()));
    let (of, seen) = (store.clone(), ends.clone());
    let watch = move |report: &Report| {
        if let Report::Ended { state, failure, .. } = report {
            seen.lock().unwrap().push((*state, failure.clone()));
        }
    };
    let worker = Worker::new(store).on(&jobs, move |job: &Job| handler(&of, job)).watch(watch);
    let tally = worker.limit(1).run_until_idle().unwrap();
    assert_eq!(tally.jobs(), 1);
    let ends = ends.lock().unwrap().drain(..).collect();
    (tally, ends)
}

fn end(store: &Store, job: &Job, outcome: Outcome) -> Result<()> {
    store.transact(|tx| {
        serve(tx, &job.value().text())?;
        tx.end(job, outcome)
    })
}

#[test]
fn job_is_counted_as_the_outcome_of_its_transaction_whatever_its_handler_returns() {
    let store = Store::in_memory().unwrap();
    let done = |store: &Store, job: &Job| end(store, job, Outcome::done());
    let (tally, ends) = work(&store, done);
    assert_eq!((tally.done, ends), (1, vec![(TaskState::Done, None)]));

    let then_fails = |store: &Store, job: &Job| {
        end(store, job, Outcome::done())?;
        Err(Error::Closed)
    };
    let (tally, ends) = work(&store, then_fails);
    assert_eq!((tally.done, ends), (1, vec![(TaskState::Done, None)]));
    assert_eq!(served(&store, "ann"), 2);
}

/// All rows and all ends are one commit.
#[test]
fn batch_may_end_in_one_transaction() {
    let store = Store::in_memory().unwrap();
    let jobs = store.tube("jobs").unwrap();
    jobs.put_many(["ann", "ann", "later"]).unwrap();
    let of = store.clone();
    let serve_all = move |jobs: &[Job]| -> Result<()> {
        of.transact(|tx| -> Result<()> {
            for job in jobs.iter().filter(|job| job.body() == b"ann") {
                serve(tx, "ann")?;
                tx.end(job, Outcome::done())?;
            }
            Ok(())
        })?;
        Err(Error::Overloaded)
    };
    let worker = Worker::new(&store).on_batch(&jobs, 3, Duration::MAX, serve_all);
    let tally = worker.limit(3).run_until_idle().unwrap();
    assert_eq!((tally.done, tally.failed, served(&store, "ann")), (2, 1, 2));
    assert_eq!(jobs.statistics().unwrap().tasks.total, 1);
}

#[test]
fn failure_that_a_transaction_ends_a_job_with_is_reported() {
    let store = Store::in_memory().unwrap();
    store.open_tube("jobs", TubeOptions::new().max_attempts(1)).unwrap();
    let fails = |store: &Store, job: &Job| end(store, job, Outcome::fail(Failure::new("no", "x")));
    let (tally, ends) = work(&store, fails);
    assert_eq!(tally.failed, 1);
    let (state, failure) = ends.into_iter().next().unwrap();
    assert_eq!((state, failure.unwrap().group()), (TaskState::Buried, "no"));
}

#[test]
fn job_whose_transaction_was_taken_back_ends_as_its_handler_says() {
    let store = Store::in_memory().unwrap();
    let taken_back = |store: &Store, job: &Job| {
        let failed = store.transact(|tx| -> Result<()> {
            serve(tx, &job.value().text())?;
            tx.end(job, Outcome::done())?;
            Err(Error::Overloaded)
        });
        assert_eq!(failed, Err(Error::Overloaded));
        Err(Error::Closed)
    };
    let (tally, ends) = work(&store, taken_back);
    assert_eq!((tally.failed, ends[0].0), (1, TaskState::Delayed));
    assert_eq!(served(&store, "ann"), 0);
}
