//! Waits for the interrupt of a job, on a thread or as a future.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use super::Job;
use crate::Mode;
use crate::base::park::block_on_for;
use crate::base::signal::SignalWait;

impl<T, M: Mode> Job<T, M> {
    /// Waits until the job should return: its claim has [ended](crate::Claim::is_current), or the worker
    /// [stops](Job::is_stopping). For any runtime or none; nothing is polled.
    ///
    /// Dropping the future ends the wait. Return an error after it, or `?` of
    /// [`check`](Job::check), so that the attempt does not count as done.
    ///
    /// # Example: a download that ends with the worker
    /// ```
    /// use std::future::Future;
    /// use tubewell::Result;
    /// use tubewell::worker::AsyncJob;
    ///
    /// async fn fetch(job: AsyncJob<String>) -> Result<()> {
    ///     // With tokio: `tokio::select! { page = page => .., () = job.cancelled() => .. }`
    ///     match first(download(job.value()), job.cancelled()).await {
    ///         Some(page) => drop(page),
    ///         None => job.check().await?,
    ///     }
    ///     Ok(())
    /// }
    /// # async fn download(_: &str) -> Vec<u8> { Vec::new() }
    /// # async fn first<A>(a: impl Future<Output = A>, _: impl Future<Output = ()>) -> Option<A> {
    /// #     Some(a.await)
    /// # }
    /// ```
    pub fn cancelled(&self) -> Cancelled {
        let ended = self.core.claim_end();
        Cancelled {
            ended: ended.as_ref().map(SignalWait::new),
            stop: SignalWait::new(&self.core.stop),
        }
    }
}

impl<T> Job<T> {
    /// Blocks until the job should return, as [`cancelled`](Job::cancelled), and at most for
    /// `timeout`, on the clock of the machine; `Duration::MAX` is no limit. Returns whether the
    /// job should return. Nothing is polled.
    ///
    /// # Example: a child process that ends with the job
    /// ```
    /// use std::process::Command;
    /// use std::time::Duration;
    /// use tubewell::Outcome;
    /// use tubewell::worker::Job;
    ///
    /// fn run(job: &Job) -> Result<Outcome, Box<dyn std::error::Error + Send + Sync>> {
    ///     let mut child = Command::new("ffmpeg").spawn()?;
    ///     while child.try_wait()?.is_none() {
    ///         if job.wait_cancelled(Duration::from_secs(1)) {
    ///             child.kill()?;
    ///         }
    ///     }
    ///     job.check()?;
    ///     Ok(Outcome::done())
    /// }
    /// ```
    #[must_use]
    pub fn wait_cancelled(&self, timeout: Duration) -> bool {
        block_on_for(self.cancelled(), timeout).is_some()
    }
}

/// The future of a wait for the end of a job's claim, or for the stop of its worker; from
/// [`Job::cancelled`].
#[must_use = "a future does nothing until it is polled"]
pub struct Cancelled {
    /// `None` if the claim has ended already.
    ended: Option<SignalWait>,
    stop: SignalWait,
}

impl Future for Cancelled {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let Some(ended) = &mut self.ended else { return Poll::Ready(()) };
        let (ended, stop) = (ended.poll(context.waker()), self.stop.poll(context.waker()));
        if ended.is_ready() || stop.is_ready() { Poll::Ready(()) } else { Poll::Pending }
    }
}

impl fmt::Debug for Cancelled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cancelled").finish_non_exhaustive()
    }
}
