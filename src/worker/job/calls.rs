//! The calls of a job that wait for a flush, as futures.

use std::time::Duration;

use tubewell_drivers::Body;

use super::{Interrupt, Job, JobCore};
use crate::core::list::{Checkpoint, LogHeld, Park};
use crate::micros::micros_ceil;
use crate::{ClaimToken, Receipt, Result};

impl<T> Job<T> {
    /// As [`log`](Job::log), as a future that blocks no thread.
    ///
    /// # Errors
    /// Those of [`log`](Job::log).
    pub async fn log_async(&self, text: &str) -> Result<Receipt> {
        self.core.note(self.core.claim.held.make_async(&LogHeld { text: text.into() }).await)
    }

    /// As [`checkpoint`](Job::checkpoint), as a future that blocks no thread.
    ///
    /// # Errors
    /// Those of [`checkpoint`](Job::checkpoint).
    pub async fn checkpoint_async(&self, value: impl Into<T>) -> Result<Receipt> {
        let checkpoint = Checkpoint { body: Body::new(self.coder.encode(&value.into())?) };
        self.core.note(self.core.claim.held.make_async(&checkpoint).await)
    }

    /// As [`check`](Job::check), as a future that blocks no thread.
    ///
    /// # Errors
    /// [`Interrupted`](crate::Error::Interrupted).
    pub async fn check_async(&self) -> Result<()> {
        self.core.check(self.core.claim.held.is_current_async().await)
    }

    /// As [`park`](Job::park), as a future that blocks no thread.
    ///
    /// # Errors
    /// Those of [`park`](Job::park).
    pub async fn park_async(&self, hold: Duration) -> Result<ClaimToken> {
        let park = Park { hold: micros_ceil(hold) };
        let epoch = self.core.note(self.core.claim.held.make_async(&park).await)?;
        self.core.parked();
        Ok(self.core.claim.held.token(epoch))
    }
}

impl JobCore {
    /// The claim is parked: the job has ended.
    pub(super) fn parked(&self) {
        self.interrupt(Interrupt::Parked);
        self.keep();
    }
}
