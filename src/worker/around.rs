//! Functions around the handlers of a worker, and what they go on with.
//!
//! The first function is the outermost one. A panic is caught before it reaches the function around.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use super::handled::Handled;
use super::how::{HandlerFuture, How};
use super::job::{AsyncJob, Job, JobCore};
use super::source::{AsyncHandler, BlockingHandler};
use crate::base::user_code::{catch_panic, panic_to_error};
use crate::values::body::Coder;
use crate::{Bytes, Mode};

/// A function around handlers on threads.
pub(super) type Around = Box<dyn Fn(&Job, Next<'_>) -> Handled + Send + Sync>;

/// A function around handlers that are futures.
pub(super) type AroundAsync = Box<dyn Fn(AsyncJob, AsyncNext) -> HandlerFuture + Send + Sync>;

/// What a function around a handler goes on with: the next function, or the handler. See
/// [`Worker::around`](super::Worker::around).
#[must_use = "the handler does not run unless the function goes on with it"]
pub struct Next<'a> {
    job: &'a Arc<JobCore>,
    around: &'a [Around],
    handler: &'a BlockingHandler,
}

impl<'a> Next<'a> {
    pub(super) fn new(
        job: &'a Arc<JobCore>,
        around: &'a [Around],
        handler: &'a BlockingHandler,
    ) -> Next<'a> {
        Next { job, around, handler }
    }

    /// Runs the handler, and returns how it has ended. A panic of the handler is a failure in the group `panic`
    /// then.
    pub fn run(self) -> Handled {
        let job = self.job;
        Handled::by(self.how(), job)
    }

    pub(super) fn how(self) -> How {
        let run = || match self.around.split_first() {
            Some((function, around)) => function(&view(self.job), Next { around, ..self }).how,
            None => (self.handler)(self.job.clone()),
        };
        self.job.chosen_or(panic_to_error(run).unwrap_or_else(How::panicked))
    }
}

/// As [`Next`], for [`Worker::around_async`](super::Worker::around_async).
#[must_use = "the handler does not run unless the function goes on with it"]
pub struct AsyncNext {
    job: Arc<JobCore>,
    around: Arc<[AroundAsync]>,
    /// How many of the functions have begun.
    begun: usize,
    handler: Arc<AsyncHandler>,
}

/// The future of a handler, within these functions.
pub(super) fn begin(
    job: &Arc<JobCore>,
    around: &Arc<[AroundAsync]>,
    handler: &Arc<AsyncHandler>,
) -> HandlerFuture {
    if around.is_empty() {
        return handler(job.clone());
    }
    let (job, around, handler) = (job.clone(), around.clone(), handler.clone());
    Box::pin(AsyncNext { job, around, begun: 0, handler }.how())
}

impl AsyncNext {
    /// Runs the handler, and returns how it has ended. A panic of the handler is a failure in the group `panic`
    /// then. The handler is dropped with this future.
    pub async fn run(self) -> Handled {
        let job = self.job.clone();
        Handled::by(self.how().await, &job)
    }

    async fn how(mut self) -> How {
        let job = self.job.clone();
        let begin = || {
            let around = self.around.clone();
            let Some(function) = around.get(self.begun) else { return (self.handler)(self.job) };
            self.begun += 1;
            function(view(&self.job), self)
        };
        job.chosen_or(match panic_to_error(begin) {
            Ok(future) => Caught(Some(future)).await,
            Err(why) => How::panicked(why),
        })
    }
}

impl fmt::Debug for Next<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Next").finish_non_exhaustive()
    }
}

impl fmt::Debug for AsyncNext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AsyncNext").finish_non_exhaustive()
    }
}

/// The job as a function around its handler sees it: with its body as bytes.
fn view<M: Mode>(job: &Arc<JobCore>) -> Job<Bytes, M> {
    Job::new(job.clone(), (job.claim().value().clone(), None), Coder::BYTES)
}

/// The future of a handler with its panics as values. Its drop is caught too.
pub(super) struct Caught(pub(super) Option<HandlerFuture>);

impl Future for Caught {
    type Output = How;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<How> {
        let Some(future) = &mut self.0 else { return Poll::Ready(How::Dropped) };
        match panic_to_error(|| future.as_mut().poll(context)) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(how)) => Poll::Ready(how),
            Err(why) => Poll::Ready(How::panicked(why)),
        }
    }
}

impl Drop for Caught {
    fn drop(&mut self) {
        let future = self.0.take();
        catch_panic(|| drop(future));
    }
}
