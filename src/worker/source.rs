//! The tubes of a worker, and their handlers with the types taken away.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::handled::How;
use super::job::{AsyncJob, Job, JobCore};
use crate::values::body::{Coder, kind_of};
use crate::{Error, IntoOutcome, Result, Tube, TubeInfo};

/// A tube and its handlers.
pub(super) struct Registered {
    pub(super) tube: Tube,
    /// The handlers, each with the kind of its tasks. One without a kind gets the tasks that no other one gets.
    handlers: Vec<(Option<Arc<str>>, Handler)>,
    /// Its driver has delays. Known once the worker has begun.
    pub(super) is_timed: bool,
    /// How long a job may run, as the worker says; with a handler that is a future also as the tube has said when
    /// the worker began.
    pub(super) limit: Option<Duration>,
    /// A take has found that the tube was dropped.
    pub(super) is_dropped: AtomicBool,
}

pub(super) type HandlerFuture = Pin<Box<dyn Future<Output = How> + Send>>;

/// A handler with the types taken away. It decodes the body of the task first.
pub(super) enum Handler {
    Blocking(Box<BlockingHandler>),
    Async(Arc<AsyncHandler>),
}

pub(super) type BlockingHandler = dyn Fn(Arc<JobCore>) -> How + Send + Sync;
pub(super) type AsyncHandler = dyn Fn(Arc<JobCore>) -> HandlerFuture + Send + Sync;

impl Handler {
    /// A handler on a thread, for values that this coder decodes.
    pub(super) fn blocking<T: Send + Sync + 'static, R: IntoOutcome>(
        coder: Coder<T>,
        handler: impl Fn(&Job<T>) -> R + Send + Sync + 'static,
    ) -> Handler {
        let handle = move |core: Arc<JobCore>| match core.decode(&coder) {
            Ok(decoded) => {
                let groups = core.groups().clone();
                let outcome = handler(&Job::new(core, decoded, coder.clone()));
                How::returned(outcome, &groups)
            }
            Err(error) => How::undecodable(&error),
        };
        Handler::Blocking(Box::new(handle))
    }

    /// A handler that is a future.
    pub(super) fn future<T: Send + Sync + 'static, F>(
        coder: Coder<T>,
        handler: impl Fn(AsyncJob<T>) -> F + Send + Sync + 'static,
    ) -> Handler
    where
        F: Future<Output: IntoOutcome> + Send + 'static,
    {
        let handler = Arc::new(handler);
        let handle = move |core: Arc<JobCore>| -> HandlerFuture {
            let (handler, coder) = (handler.clone(), coder.clone());
            Box::pin(async move {
                let groups = core.groups().clone();
                let future = match core.decode(&coder) {
                    Ok(decoded) => handler(Job::new(core, decoded, coder)),
                    Err(error) => return How::undecodable(&error),
                };
                How::returned(future.await, &groups)
            })
        };
        Handler::Async(Arc::new(handle))
    }

    fn is_async(&self) -> bool {
        matches!(self, Handler::Async(_))
    }
}

impl Registered {
    pub(super) fn new(tube: Tube) -> Registered {
        let is_dropped = AtomicBool::new(false);
        Registered { tube, handlers: Vec::new(), is_timed: false, limit: None, is_dropped }
    }

    pub(super) fn add(&mut self, kind: Option<Arc<str>>, handler: Handler) {
        self.handlers.push((kind, handler));
    }

    /// Refuses two handlers for the same tasks.
    pub(super) fn check_handlers(&self) -> Result<()> {
        for (place, (kind, _)) in self.handlers.iter().enumerate() {
            if self.handlers[..place].iter().any(|(other, _)| other == kind) {
                let of_kind =
                    kind.as_ref().map_or(String::new(), |kind| format!(" for the kind {kind:?}"));
                return Err(Error::invalid(format!(
                    "tube {:?} has two handlers{of_kind} in one worker; leave one out",
                    self.tube.name()
                )));
            }
        }
        Ok(())
    }

    /// The handler of a task with this body, or how a job without a handler ends.
    pub(super) fn handler(&self, body: &[u8]) -> Result<&Handler, How> {
        if let [(None, handler)] = &self.handlers[..] {
            return Ok(handler);
        }
        let kind = kind_of(body);
        let of =
            |wanted: Option<&str>| self.handlers.iter().find(|(kind, _)| kind.as_deref() == wanted);
        let found = kind.as_deref().and_then(|kind| of(Some(kind))).or_else(|| of(None));
        found.map(|(_, handler)| handler).ok_or_else(|| How::of_unknown_kind(kind.as_deref()))
    }

    /// Whether one of the handlers is a future.
    pub(super) fn has_async(&self) -> bool {
        self.handlers.iter().any(|(_, handler)| handler.is_async())
    }

    /// Whether one of the handlers blocks.
    pub(super) fn has_blocking(&self) -> bool {
        self.handlers.iter().any(|(_, handler)| !handler.is_async())
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
        if self.has_async() {
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
