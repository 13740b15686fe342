//! The handle of a worker that runs on threads.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::lane;
use super::pool::Pool;
use super::report::{Left, Tally};
use crate::base::micros::within;
use crate::base::park::{TimeLimit, block_on};
use crate::base::sync::Mutex;
use crate::base::sync::thread::{self, JoinHandle};
use crate::{Error, Result};

/// A worker that runs on threads; from [`Worker::start`](super::Worker::start).
///
/// Dropping it stops the worker, and waits for the jobs that run, for at most 30 seconds: as
/// [`stop`](WorkerHandle::stop) with that time, whose errors are lost.
#[must_use = "a worker stops when its handle is dropped"]
pub struct WorkerHandle {
    pool: Arc<Pool>,
    /// With the numbers of their lanes.
    threads: Mutex<Vec<(usize, JoinHandle<()>)>>,
    /// How long a drop waits for the jobs.
    drop_limit: Duration,
}

/// How long the drop of a handle waits for the jobs: a job that does not see the stop must not hang
/// the program.
const DROP_LIMIT: Duration = Duration::from_secs(30);

impl WorkerHandle {
    /// Starts a thread for each lane from `first` on.
    pub(super) fn start(pool: Pool, first: usize) -> Result<WorkerHandle> {
        let pool = Arc::new(pool);
        let handle = WorkerHandle { pool, threads: Mutex::default(), drop_limit: DROP_LIMIT };
        for index in first..handle.pool.lanes.len() {
            if let Err(error) = handle.spawn(index) {
                // The lanes without a thread have ended.
                for index in (0..first).chain(index..handle.pool.lanes.len()) {
                    handle.pool.lane_has_ended(index);
                }
                return Err(Error::Io { what: format!("cannot start a thread: {error}") });
            }
        }
        Ok(handle)
    }

    fn spawn(&self, index: usize) -> std::io::Result<()> {
        let pool = self.pool.clone();
        let run = move || run_lane(&pool, index);
        let thread = thread::Builder::new().name("tubewell-worker".into()).spawn(run)?;
        self.threads.lock().push((index, thread));
        Ok(())
    }

    /// Runs a lane on this thread, until it ends.
    pub(super) fn run_lane_here(&self, index: usize) {
        run_lane(&self.pool, index);
    }

    /// Stops the worker (graceful shutdown): it takes no further task, its jobs may end, and those
    /// that still run after `timeout` are left. `Duration::MAX` waits for them without a limit. Returns the
    /// jobs that were left.
    ///
    /// A thread cannot be ended from outside. The task of a job that is left is snoozed: it is
    /// ready again and the attempt does not count. What its handler returns later is ignored, and
    /// the calls of its [`Job`](super::Job) are refused. Jobs see the stop by
    /// [`Job::check`](super::Job::check), [`Job::is_stopping`](super::Job::is_stopping) and
    /// [`Job::cancelled`](super::Job::cancelled).
    ///
    /// The call blocks until the jobs have ended, at most for `timeout` and 100 ms, on the clock of the
    /// machine. If no job runs, it returns immediately. It may be called from any thread and more than once.
    /// A handler may call `stop`. The call then waits neither for the job of this handler nor for jobs whose
    /// handlers wait in `stop` or [`wait`](WorkerHandle::wait). A job whose end could not be stored runs
    /// until it is stored, for at most 5 s. What the jobs have stored survives as their tubes say.
    ///
    /// # Errors
    /// The errors of [`Outcome::snooze`](crate::Outcome::snooze), except those of tasks whose claim has
    /// ended. The worker has stopped all the same. Tasks that were not snoozed are released when it ends.
    ///
    /// # Example
    /// ```
    /// use std::time::Duration;
    /// use tubewell::worker::{Job, Worker};
    /// use tubewell::{Result, Store};
    ///
    /// fn wait_for_the_stop(job: &Job) -> Result<()> {
    ///     loop {
    ///         job.check()?;
    ///         std::thread::yield_now();
    ///     }
    /// }
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put("work")?;
    /// let worker = Worker::new(&store).on(&jobs, wait_for_the_stop).start()?;
    /// while jobs.statistics()?.tasks.taken == 0 {
    ///     std::thread::yield_now();
    /// }
    /// assert_eq!(worker.stop(Duration::from_secs(30))?, []); // none was left
    /// assert_eq!(jobs.statistics()?.tasks.ready, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "graceful shutdown")]
    pub fn stop(&self, timeout: Duration) -> Result<Vec<Left>> {
        self.pool.handle.check_process()?;
        self.pool.stop.raise();
        if self.pool.wait_ended(&TimeLimit::new(timeout)) {
            // What a thread does after its loop, such as the drop of its variables, has no limit.
            if within(timeout).is_none() {
                self.join();
            }
            return Ok(Vec::new());
        }
        let left = self.pool.leave_jobs();
        self.pool.out_of_time.raise();
        left
    }

    /// Waits until the worker has ended: by its [limit](super::Worker::limit), by a stop, because
    /// the store was closed, or because of an error. Returns how its jobs have ended.
    ///
    /// # Errors
    /// The error that has ended the worker: [`TubeDropped`](Error::TubeDropped), when the last of its tubes
    /// was dropped; [`SessionEnded`](Error::SessionEnded); [`Stopped`](Error::Stopped);
    /// [`Refused`](Error::Refused): its connection was refused for good.
    pub fn wait(&self) -> Result<Tally> {
        self.pool.handle.check_process()?;
        self.pool.wait_ended(&TimeLimit::new(Duration::MAX));
        self.join();
        self.pool.result()
    }

    /// How many jobs have ended so far, by how they ended. Does not block.
    ///
    /// A job is counted after its end is stored. So a caller that has seen the end of a task, for instance by
    /// [`wait_done`](crate::Tube::wait_done) or [`wait_drained`](crate::Tube::wait_drained), may find the job
    /// uncounted for a moment. The counts are exact once [`stop`](WorkerHandle::stop) or
    /// [`wait`](WorkerHandle::wait) has returned.
    #[must_use]
    pub fn tally(&self) -> Tally {
        self.pool.handle.check_process().map(|()| self.pool.tally()).unwrap_or_default()
    }

    /// The jobs that run now. Does not block.
    #[must_use]
    pub fn running(&self) -> Vec<Left> {
        self.pool.handle.check_process().map(|()| self.pool.running()).unwrap_or_default()
    }

    /// Waits for the threads that have ended or are about to.
    fn join(&self) {
        let mut threads = std::mem::take(&mut *self.threads.lock());
        let (joined, kept) = threads.drain(..).partition(|(lane, _)| self.pool.can_join(*lane));
        let joined: Vec<(usize, JoinHandle<()>)> = joined;
        for (_, thread) in joined {
            // A lane catches the panics of handlers.
            let _ = thread.join();
        }
        let mut kept: Vec<(usize, JoinHandle<()>)> = kept;
        self.threads.lock().append(&mut kept);
    }
}

impl Drop for WorkerHandle {
    fn drop(&mut self) {
        match self.stop(self.drop_limit) {
            // The loops of the threads have ended.
            Ok(left) if left.is_empty() => self.join(),
            Err(Error::Forked { .. }) => {
                // The threads are those of the other process, and so is what they share.
                std::mem::forget(std::mem::take(self.threads.get_mut()));
                std::mem::forget(self.pool.clone());
            }
            _ => {}
        }
    }
}

impl fmt::Debug for WorkerHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WorkerHandle").field("tally", &self.tally()).finish_non_exhaustive()
    }
}

fn run_lane(pool: &Arc<Pool>, index: usize) {
    if let Some(lane) = pool.lanes.get(index) {
        lane.begin_thread();
    }
    block_on(lane::run(pool.clone(), index));
}

#[cfg(all(test, not(feature = "_shuttle")))]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::worker::{Job, Worker};
    use crate::{FIFO, Store, TaskState, TubeOptions};

    #[test]
    fn dropped_handle_leaves_a_job_that_does_not_see_the_stop() {
        let store = Store::in_memory().unwrap();
        let jobs = store.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
        let id = jobs.put("work").unwrap().id;
        let (begun, has_begun) = channel();
        let (open, is_open) = channel::<()>();
        let (begun, is_open) = (Mutex::new(begun), Mutex::new(is_open));
        let worker = Worker::new(&store).on(&jobs, move |_: &Job| {
            begun.lock().send(()).unwrap();
            let _ = is_open.lock().recv();
        });
        let mut worker = worker.start().unwrap();
        has_begun.recv().unwrap();
        worker.drop_limit = Duration::from_millis(1);
        drop(worker);
        let info = jobs.query().task(id).unwrap().info;
        assert_eq!((info.state, info.attempts), (TaskState::Ready, 0));
        drop(open);
    }
}
