//! The tubes of a worker, and their handlers with the types taken away.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::handled::Handled;
use super::job::{AsyncJob, Job, JobCore};
use crate::{Error, IntoOutcome, Result, Tube, TubeInfo};

/// A tube and its handler.
pub(super) struct Registered {
    pub(super) tube: Tube,
    pub(super) handler: Handler,
    /// Its driver has delays. Known once the worker has begun.
    pub(super) is_timed: bool,
    /// How long a job may run, as the worker says; for a handler that is a future also as the tube has said when
    /// the worker began.
    pub(super) limit: Option<Duration>,
    /// A take has found that the tube was dropped.
    pub(super) is_dropped: AtomicBool,
}

pub(super) type HandlerFuture = Pin<Box<dyn Future<Output = Handled> + Send>>;

/// A handler. Both decode the body of the task first.
pub(super) enum Handler {
    Blocking(Box<dyn Fn(Arc<JobCore>) -> Handled + Send + Sync>),
    Async(Box<dyn Fn(Arc<JobCore>) -> HandlerFuture + Send + Sync>),
}

impl Registered {
    pub(super) fn blocking<T: Send + Sync + 'static, R: IntoOutcome>(
        tube: &Tube<T>,
        handler: impl Fn(&Job<T>) -> R + Send + Sync + 'static,
    ) -> Registered {
        let coder = tube.coder().clone();
        let handle = move |core: Arc<JobCore>| match core.decode(&coder) {
            Ok(decoded) => {
                let groups = core.groups().clone();
                let outcome = handler(&Job::new(core, decoded, coder.clone()));
                Handled::returned(outcome, &groups)
            }
            Err(error) => Handled::Undecodable(error),
        };
        Registered::new(tube, Handler::Blocking(Box::new(handle)))
    }

    pub(super) fn future<T: Send + Sync + 'static, F>(
        tube: &Tube<T>,
        handler: impl Fn(AsyncJob<T>) -> F + Send + Sync + 'static,
    ) -> Registered
    where
        F: Future<Output: IntoOutcome> + Send + 'static,
    {
        let (handler, coder) = (Arc::new(handler), tube.coder().clone());
        let handle = move |core: Arc<JobCore>| -> HandlerFuture {
            let (handler, coder) = (handler.clone(), coder.clone());
            Box::pin(async move {
                let groups = core.groups().clone();
                let future = match core.decode(&coder) {
                    Ok(decoded) => handler(Job::new(core, decoded, coder)),
                    Err(error) => return Handled::Undecodable(error),
                };
                Handled::returned(future.await, &groups)
            })
        };
        Registered::new(tube, Handler::Async(Box::new(handle)))
    }

    fn new<T>(tube: &Tube<T>, handler: Handler) -> Registered {
        let is_dropped = AtomicBool::new(false);
        Registered { tube: tube.to_bytes(), handler, is_timed: false, limit: None, is_dropped }
    }

    /// Asks the store what the tube is. Refuses a `max_runtime` for claims that do not expire. `is_blocking`: the
    /// calls may block, and the future is ready at once.
    pub(super) async fn begin(
        &mut self,
        is_blocking: bool,
        max_runtime: Option<Duration>,
    ) -> Result<()> {
        self.is_timed = if is_blocking {
            self.tube.is_timed()?
        } else {
            self.tube.to_async().is_timed().await?
        };
        if max_runtime.is_some() && !self.is_timed {
            let driver = self.tube.driver().into();
            return Err(Error::Unsupported { what: "max_runtime".into(), driver });
        }
        self.limit = max_runtime;
        if matches!(self.handler, Handler::Async(_)) {
            self.limit = self.limit_now(is_blocking).await?;
        }
        Ok(())
    }

    /// How long a job may run, as the worker and the tube say now.
    pub(super) async fn limit_now(&self, is_blocking: bool) -> Result<Option<Duration>> {
        if !self.is_timed {
            return Ok(None);
        }
        let of_tube = self.info(is_blocking).await?.max_runtime;
        Ok(self.limit.into_iter().chain(of_tube).min())
    }

    /// Asks the store for the options of the tube.
    pub(super) async fn info(&self, is_blocking: bool) -> Result<TubeInfo> {
        if is_blocking { self.tube.info() } else { self.tube.to_async().info().await }
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::SeqCst)
    }
}
