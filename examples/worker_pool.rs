//! Graceful shutdown of a worker: jobs that run may end, no new job begins, and no task is lost.
//!
//! `cargo run --example worker_pool`. The first worker stops in the middle of its work. A second one
//! opens the store again and does the rest.

use std::path::Path;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;

use tubewell::worker::WorkerHandle;
use tubewell::{Job, Store, Worker};

const TASKS: u64 = 60;
/// How long a stop waits for the jobs that run.
const STOP: Duration = Duration::from_secs(30);

/// Adds the bytes of a body.
fn add(job: &Job, finished: &Sender<u64>) -> tubewell::Result<()> {
    let mut sum = 0;
    for part in job.body().chunks(16) {
        job.check()?; // an error if the worker stops: the task is ready again
        sum += part.iter().map(|byte| u64::from(*byte)).sum::<u64>();
    }
    // The receiver may have been dropped; the task is done anyway.
    let _ = finished.send(sum);
    Ok(())
}

/// Four threads that wait for tasks.
fn start(path: &Path, finished: &Sender<u64>) -> tubewell::Result<(Store, WorkerHandle)> {
    let store = Store::open(path)?;
    let finished = finished.clone();
    let adds = move |job: &Job| add(job, &finished);
    let worker = Worker::new(&store).on(&store.tube("jobs")?, adds).concurrency(4).start()?;
    Ok((store, worker))
}

fn wait_for(count: u64, finished: &Receiver<u64>) -> Result<(), RecvTimeoutError> {
    (0..count).try_for_each(|_| finished.recv_timeout(Duration::from_secs(30)).map(|_| ()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("pool.tubewell");

    let (finished, done) = mpsc::channel();
    let (store, worker) = start(&path, &finished)?;
    let jobs = store.find_tube("jobs")?;
    jobs.put_many((0..TASKS).map(|number| vec![1; 100 + usize::try_from(number).unwrap_or(0)]))?;
    wait_for(TASKS / 3, &done)?;
    let unfinished = worker.stop(STOP)?;
    let first = worker.wait()?.done;
    store.close()?;
    println!("stopped after {first} of {TASKS} tasks");

    let (store, worker) = start(&path, &finished)?;
    let jobs = store.find_tube("jobs")?;
    jobs.wait_drained(STOP)?;
    let left = jobs.statistics()?.tasks.total;
    worker.stop(STOP)?;
    let second = worker.wait()?.done;
    store.close()?;
    println!("the second worker did the other {second}, {left} are left");
    if !unfinished.is_empty() || left != 0 || first + second != TASKS {
        return Err("a task was lost or done twice".into());
    }
    Ok(())
}
