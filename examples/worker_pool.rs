//! Graceful shutdown of a worker pool: running tasks are finished, no new task starts, and no task
//! is lost.
//!
//! `cargo run --example worker_pool`. The first pool stops in the middle of its work. A second pool
//! opens the store again and does the rest.

use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, PoisonError, RwLock};
use std::thread::JoinHandle;
use std::time::Duration;

use tubewell::{Error, Store, Tube};

const WORKERS: usize = 4;
const TASKS: u64 = 60;

struct Pool {
    store: Store,
    stopping: Arc<AtomicBool>,
    /// Locked for reading while a task runs; the write lock is granted when no task runs.
    running: Arc<RwLock<()>>,
    threads: Vec<JoinHandle<tubewell::Result<()>>>,
}

impl Pool {
    fn start(path: &Path, finished: &Sender<u64>) -> tubewell::Result<(Pool, Tube)> {
        let store = Store::open(path)?;
        let tube = store.tube("jobs")?;
        let (stopping, running) = (Arc::default(), Arc::default());
        let mut pool = Pool { store, stopping, running, threads: Vec::new() };
        for _ in 0..WORKERS {
            let (tube, finished) = (tube.clone(), finished.clone());
            let (stopping, running) = (pool.stopping.clone(), pool.running.clone());
            let work = move || work_on(&tube, &stopping, &running, &finished);
            pool.threads.push(std::thread::spawn(work));
        }
        Ok((pool, tube))
    }

    /// Returns when the running tasks are done and every worker thread has ended.
    fn stop(self) -> Result<(), Box<dyn std::error::Error>> {
        self.stopping.store(true, Ordering::SeqCst);
        drop(self.running.write().unwrap_or_else(PoisonError::into_inner));
        // No task runs now. Closing ends the wait of the workers.
        self.store.close()?;
        for thread in self.threads {
            thread.join().map_err(|_| "a worker panicked")??;
        }
        Ok(())
    }
}

fn work_on(
    tube: &Tube,
    stopping: &AtomicBool,
    running: &RwLock<()>,
    finished: &Sender<u64>,
) -> tubewell::Result<()> {
    loop {
        let task = match tube.take() {
            Ok(task) => task,
            Err(Error::Closed) => return Ok(()),
            Err(error) => return Err(error),
        };
        let _running = running.read().unwrap_or_else(PoisonError::into_inner);
        if stopping.load(Ordering::SeqCst) {
            return Ok(()); // dropping the claim makes the task ready again
        }
        let answer = task.body().iter().fold(0, |sum, byte| sum + u64::from(*byte));
        task.ack()?;
        // The receiver may have been dropped; the task is done anyway.
        let _ = finished.send(answer);
    }
}

fn wait_for(count: u64, finished: &Receiver<u64>) -> Result<(), RecvTimeoutError> {
    (0..count).try_for_each(|_| finished.recv_timeout(Duration::from_secs(30)).map(|_| ()))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("pool.tubewell");

    let (finished, done) = mpsc::channel();
    let (pool, tube) = Pool::start(&path, &finished)?;
    tube.put_many((0..TASKS).map(|number| vec![1; 100 + usize::try_from(number).unwrap_or(0)]))?;
    wait_for(TASKS / 3, &done)?;
    pool.stop()?;
    let first = TASKS / 3 + u64::try_from(done.try_iter().count())?;
    println!("stopped after {first} of {TASKS} tasks");

    let (pool, tube) = Pool::start(&path, &finished)?;
    wait_for(TASKS - first, &done)?;
    let left = tube.statistics()?.tasks.total;
    pool.stop()?; // the workers wait for tasks; closing ends their wait
    println!("the second pool did the other {}, {left} are left", TASKS - first);
    if left != 0 || done.try_iter().next().is_some() {
        return Err("a task was lost or done twice".into());
    }
    Ok(())
}
