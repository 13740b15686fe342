//! Taking tasks from a tube.

use std::time::Duration;

use super::Tube;
use crate::wait::{TakeFuture, take, take_more};
use crate::{Claim, Result};

impl Tube {
    /// Takes the next ready task: it is taken, by this handle's session, until the claim is
    /// finished, dropped or over.
    ///
    /// Waits for a task as long as this or, with `None`, for ever. Those who wait are served in order
    /// of arrival, and nobody overtakes them; [`close`](crate::Store::close) ends every wait. A take
    /// writes nothing and never waits for a flush: the claim lives in memory and ends with the
    /// process, after which the task is ready again. The body is read from the file.
    ///
    /// # Errors
    /// [`SessionEnded`](crate::Error::SessionEnded);
    /// [`DriverUnknown`](crate::Error::DriverUnknown): nothing was taken.
    /// [`Corrupt`](crate::Error::Corrupt) if the body of the task is damaged: it has been buried.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put("one")?;
    /// while let Some(claim) = tube.take(Duration::from_millis(10))? {
    ///     println!("{}", String::from_utf8_lossy(claim.data()));
    ///     claim.ack()?;
    /// }
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn take(&self, timeout: impl Into<Option<Duration>>) -> Result<Option<Claim>> {
        take(&self.handle, &[self], self.session, self.guard.clone(), timeout.into())
    }

    /// Takes the next ready task if there is one now; as [`take`](Tube::take) without a wait.
    ///
    /// # Errors
    /// As [`take`](Tube::take).
    ///
    /// # Example
    /// ```
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// assert!(tube.try_take()?.is_none());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn try_take(&self) -> Result<Option<Claim>> {
        self.take(Duration::ZERO)
    }

    /// Takes up to `max` ready tasks, in order; waits for the first one only, as
    /// [`take`](Tube::take) does. Empty when the time is over.
    ///
    /// # Errors
    /// As [`take`](Tube::take); what was taken by then is released.
    ///
    /// # Example: ten tasks, one flush
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::Claim;
    /// # use tubewell::{FIFO, Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// # tube.put_many(["a", "b", "c"])?;
    /// let claims = tube.take_many(10, Duration::from_secs(1))?;
    /// claims.iter().for_each(|claim| println!("{}", claim.id()));
    /// Claim::ack_many(claims)?;
    /// # assert_eq!(tube.statistics()?.tasks.total, 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn take_many(
        &self,
        max: usize,
        timeout: impl Into<Option<Duration>>,
    ) -> Result<Vec<Claim>> {
        let mut claims = Vec::new();
        if max > 0 {
            claims.extend(self.take(timeout)?);
        }
        if !claims.is_empty() {
            take_more(self, max, &mut claims)?;
        }
        Ok(claims)
    }

    /// As [`take`](Tube::take), as a future of no particular runtime.
    ///
    /// It stands in line from its first poll on, and its time begins then. Dropping it loses no task:
    /// one that it was handed goes back.
    ///
    /// # Errors
    /// It resolves to those of [`take`](Tube::take).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Result, Tube};
    ///
    /// async fn work(jobs: Tube) -> Result<()> {
    ///     while let Some(job) = jobs.take_async(None).await? {
    ///         println!("{} bytes", job.data().len());
    ///         job.ack()?;
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn take_async(&self, timeout: impl Into<Option<Duration>>) -> TakeFuture {
        TakeFuture::new(&self.handle, &[self], self.session, self.guard.clone(), timeout.into())
    }
}
