//! Batches: handlers of many jobs at a time, and the batch of a tube that gathers.
//!
//! A batch belongs to the lane that has opened it. The other lanes add the tasks that they take from its tube, so that
//! a tube has one batch that gathers, whatever the concurrency.

use std::future::Future;
use std::mem::take;
use std::sync::Arc;
use std::time::Duration;

use super::how::{HandlerFuture, How};
use super::job::{AsyncJob, Job, JobCore};
use crate::base::signal::Signal;
use crate::base::sync::Mutex;
use crate::values::body::Coder;
use crate::{Error, IntoOutcome, Mode, Result};

/// The most jobs of a batch.
const MOST: usize = 10_000;

/// A handler of batches with the types taken away.
pub(super) struct Batch {
    most: usize,
    pub(super) within: Duration,
    pub(super) handler: BatchHandler,
    /// The batch that gathers, which has room.
    open: Mutex<Option<Arc<Gathering>>>,
}

/// It decodes the bodies of the tasks first. How it has ended is the end of all jobs that have chosen none.
pub(super) enum BatchHandler {
    Blocking(Box<BlockingBatch>),
    Async(Box<AsyncBatch>),
}

type BlockingBatch = dyn Fn(&[Arc<JobCore>]) -> How + Send + Sync;
type AsyncBatch = dyn Fn(Vec<Arc<JobCore>>) -> HandlerFuture + Send + Sync;

#[derive(Default)]
struct Gathering {
    jobs: Mutex<Vec<Arc<JobCore>>>,
    full: Arc<Signal>,
}

impl Gathering {
    /// Adds a task. Returns whether the batch is full now.
    fn push(&self, job: Arc<JobCore>, most: usize) -> bool {
        let mut jobs = self.jobs.lock();
        jobs.push(job);
        jobs.len() >= most
    }
}

impl Batch {
    pub(super) fn new(most: usize, within: Duration, handler: BatchHandler) -> Batch {
        Batch { most, within, handler, open: Mutex::default() }
    }

    /// Refuses a number of jobs that a batch cannot have.
    pub(super) fn check(&self) -> Result<()> {
        if (1..=MOST).contains(&self.most) {
            return Ok(());
        }
        Err(Error::invalid(format!("a batch has 1 to {MOST} jobs, not {}", self.most)))
    }

    /// Adds a task to the batch that gathers. Returns the batch if there was none, and its first task has opened it.
    /// `given_back` gets its tasks if it is dropped.
    pub(super) fn add<'a>(
        &'a self,
        job: Arc<JobCore>,
        given_back: &'a Mutex<Vec<Arc<JobCore>>>,
    ) -> Option<Open<'a>> {
        let mut open = self.open.lock();
        let is_first = open.is_none();
        let gathering = open.get_or_insert_default().clone();
        let is_full = gathering.push(job, self.most);
        if is_full {
            *open = None;
        }
        drop(open);
        if is_full {
            gathering.full.raise();
        }
        is_first.then(|| Open { batch: self, gathering, given_back })
    }

    /// No lane adds to this batch from now on.
    fn close(&self, gathering: &Arc<Gathering>) {
        let mut open = self.open.lock();
        if open.as_ref().is_some_and(|open| Arc::ptr_eq(open, gathering)) {
            *open = None;
        }
    }
}

/// A batch, for the lane that has opened it. Dropping it gives its tasks back.
pub(super) struct Open<'a> {
    batch: &'a Batch,
    gathering: Arc<Gathering>,
    given_back: &'a Mutex<Vec<Arc<JobCore>>>,
}

impl Open<'_> {
    /// How many tasks it has room for.
    pub(super) fn room(&self) -> usize {
        self.batch.most.saturating_sub(self.gathering.jobs.lock().len())
    }

    /// Is raised when it is full.
    pub(super) fn full(&self) -> &Arc<Signal> {
        &self.gathering.full
    }

    /// Adds a task that its own lane has taken. Returns whether it had room.
    pub(super) fn add(&self, job: Arc<JobCore>) -> bool {
        // Other lanes add to a batch that has room only, and see here that it has none.
        let mut open = self.batch.open.lock();
        if self.room() == 0 {
            return false;
        }
        if self.gathering.push(job, self.batch.most) {
            *open = None;
        }
        true
    }

    /// Its jobs, in the order in which their tasks came. No lane adds any from now on.
    pub(super) fn close(self) -> Vec<Arc<JobCore>> {
        self.batch.close(&self.gathering);
        take(&mut *self.gathering.jobs.lock())
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        self.batch.close(&self.gathering);
        let mut jobs = take(&mut *self.gathering.jobs.lock());
        self.given_back.lock().append(&mut jobs);
    }
}

impl BatchHandler {
    /// A handler on a thread, for values that this coder decodes.
    pub(super) fn blocking<T: Send + Sync + 'static, R: IntoOutcome>(
        coder: Coder<T>,
        handler: impl Fn(&[Job<T>]) -> R + Send + Sync + 'static,
    ) -> BatchHandler {
        BatchHandler::Blocking(Box::new(move |cores| {
            let jobs = decode_all(cores, &coder);
            match cores.first().filter(|_| !jobs.is_empty()) {
                Some(core) => How::returned(handler(&jobs), core.groups()),
                None => How::Done,
            }
        }))
    }

    /// A handler that is a future.
    pub(super) fn future<T: Send + Sync + 'static, F>(
        coder: Coder<T>,
        handler: impl Fn(Vec<AsyncJob<T>>) -> F + Send + Sync + 'static,
    ) -> BatchHandler
    where
        F: Future<Output: IntoOutcome> + Send + 'static,
    {
        let handler = Arc::new(handler);
        BatchHandler::Async(Box::new(move |cores| {
            let (handler, coder) = (handler.clone(), coder.clone());
            Box::pin(async move {
                let jobs = decode_all(&cores, &coder);
                let Some(core) = cores.first().filter(|_| !jobs.is_empty()) else {
                    return How::Done;
                };
                How::returned(handler(jobs).await, core.groups())
            })
        }))
    }

    pub(super) fn is_async(&self) -> bool {
        matches!(self, BatchHandler::Async(_))
    }
}

/// The jobs whose bodies are values of `T`. The other ones have chosen their end.
fn decode_all<T, M: Mode>(cores: &[Arc<JobCore>], coder: &Coder<T>) -> Vec<Job<T, M>> {
    let decode = |core: &Arc<JobCore>| match core.decode(coder) {
        Ok(decoded) => Some(Job::new(core.clone(), decoded, coder.clone())),
        Err(error) => {
            core.choose(How::undecodable(&error));
            None
        }
    };
    // A task of another kind has chosen its end.
    cores.iter().filter(|core| !core.has_chosen()).filter_map(decode).collect()
}
