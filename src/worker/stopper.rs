//! The stop of a worker from elsewhere.

use std::sync::Arc;

use crate::base::signal::Signal;

/// Stops a worker, from any thread. Clones stop the same worker.
///
/// It comes from [`Worker::stopper`](super::Worker::stopper), before the worker is started, so that
/// a signal handler, or another task of a runtime, can have it.
#[derive(Clone, Debug, Default)]
pub struct Stopper(Arc<Signal>);

impl Stopper {
    /// Asks the worker to stop (graceful shutdown): it takes no further task, and its jobs may end.
    /// Does not block.
    ///
    /// Jobs see it by [`Job::check`](super::Job::check) and
    /// [`Job::is_stopping`](super::Job::is_stopping). A take that waits ends, and a task that was
    /// assigned to it meanwhile is released. A stop before the start is one too.
    ///
    /// It sets no limit of time: [`WorkerHandle::stop`](super::WorkerHandle::stop) and
    /// [`WorkerFuture::stop_timeout`](super::WorkerFuture::stop_timeout) do.
    pub fn stop(&self) {
        self.0.raise();
    }

    /// Whether the worker was asked to stop.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.0.is_raised()
    }

    pub(super) fn signal(&self) -> &Arc<Signal> {
        &self.0
    }
}
