//! The tubes of a worker, and their handlers with the types taken away.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use super::batch::Batch;
use super::how::{HandlerFuture, How};
use super::job::{AsyncJob, Job, JobCore};
use super::timeout::RunLimit;
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
    pub(super) limit: RunLimit,
    /// A take has found that the tube was dropped.
    pub(super) is_dropped: AtomicBool,
}

pub(super) enum Handler {
    Job(JobHandler),
    /// The only handler of its tube.
    Batch(Box<Batch>),
}

/// A handler with the types taken away. It decodes the body of the task first.
pub(super) enum JobHandler {
    Blocking(Box<BlockingHandler>),
    Async(Arc<AsyncHandler>),
}

pub(super) type BlockingHandler = dyn Fn(Arc<JobCore>) -> How + Send + Sync;
pub(super) type AsyncHandler = dyn Fn(Arc<JobCore>) -> HandlerFuture + Send + Sync;

impl JobHandler {
    /// A handler on a thread, for values that this coder decodes.
    pub(super) fn blocking<T: Send + Sync + 'static, R: IntoOutcome>(
        coder: Coder<T>,
        handler: impl Fn(&Job<T>) -> R + Send + Sync + 'static,
    ) -> JobHandler {
        let handle = move |core: Arc<JobCore>| match core.decode(&coder) {
            Ok(decoded) => {
                let groups = core.groups().clone();
                let outcome = handler(&Job::new(core, decoded, coder.clone()));
                How::returned(outcome, &groups)
            }
            Err(error) => How::undecodable(&error),
        };
        JobHandler::Blocking(Box::new(handle))
    }

    /// A handler that is a future.
    pub(super) fn future<T: Send + Sync + 'static, F>(
        coder: Coder<T>,
        handler: impl Fn(AsyncJob<T>) -> F + Send + Sync + 'static,
    ) -> JobHandler
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
        JobHandler::Async(Arc::new(handle))
    }
}

impl Handler {
    fn is_async(&self) -> bool {
        match self {
            Handler::Job(handler) => matches!(handler, JobHandler::Async(_)),
            Handler::Batch(batch) => batch.handler.is_async(),
        }
    }
}

impl Registered {
    pub(super) fn new(tube: Tube) -> Registered {
        Registered {
            tube,
            handlers: Vec::new(),
            is_timed: false,
            limit: RunLimit::default(),
            is_dropped: AtomicBool::new(false),
        }
    }

    pub(super) fn add(&mut self, kind: Option<Arc<str>>, handler: Handler) {
        self.handlers.push((kind, handler));
    }

    /// Refuses two handlers for the same tasks, and a batch that its tube cannot have.
    pub(super) fn check_handlers(&self) -> Result<()> {
        if let Some(batch) = self.batch() {
            batch.check()?;
            if self.handlers.len() > 1 {
                return Err(Error::invalid(format!(
                    "tube {:?} has a handler of batches and another one in one worker; a batch gets all tasks of \
                     its tube, so give it a tube of its own",
                    self.tube.name()
                )));
            }
        }
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

    /// The handler of batches, if the tube has one.
    pub(super) fn batch(&self) -> Option<&Batch> {
        self.handlers.iter().find_map(|(_, handler)| match handler {
            Handler::Batch(batch) => Some(&**batch),
            Handler::Job(_) => None,
        })
    }

    /// Whether one of the handlers is a future.
    fn has_async(&self) -> bool {
        self.handlers.iter().any(|(_, handler)| handler.is_async())
    }

    /// Whether one of the handlers blocks.
    pub(super) fn has_blocking(&self) -> bool {
        self.handlers.iter().any(|(_, handler)| !handler.is_async())
    }

    /// Whether a function around the handlers of single jobs is called, for those that are futures or those that
    /// block.
    pub(super) fn has_single(&self, is_async: bool) -> bool {
        self.batch().is_none() && if is_async { self.has_async() } else { self.has_blocking() }
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
        self.limit.of_worker = max_runtime;
        if self.has_async() && self.is_timed {
            self.limit.of_tube = self.info(is_blocking).await?.max_runtime;
        }
        Ok(())
    }

    /// How long a job may run: as the worker says, and its task, or else the tube now.
    pub(super) async fn limit_now(&self, job: &JobCore, is_blocking: bool) -> RunLimit {
        if job.own_limit().is_some() || !self.is_timed {
            return self.limit.of(job);
        }
        let now = match self.info(is_blocking).await {
            Ok(info) => RunLimit { of_tube: info.max_runtime, ..self.limit },
            Err(_) => self.limit,
        };
        now.of(job)
    }

    /// Asks the store for the options of the tube.
    pub(super) async fn info(&self, is_blocking: bool) -> Result<TubeInfo> {
        if is_blocking { self.tube.info() } else { self.tube.to_async().info().await }
    }

    pub(super) fn is_dropped(&self) -> bool {
        self.is_dropped.load(Ordering::SeqCst)
    }
}
