//! Ends of claims that have a result.

use crate::core::list::Ack;
use crate::{Claim, Mode, Receipt};

impl<T, M: Mode> Claim<T, M> {
    /// Finishes the task with a result. As [`ack`](Claim::ack).
    ///
    /// Callers that [wait](crate::Tube::wait_done) for the end of the task get the result. In a tube
    /// that [keeps](crate::TubeOptions::keep_done) what is done, the result is stored with the task
    /// in the same commit, and survives what the ack survives: [`Tube::outcome`](crate::Tube::outcome)
    /// returns it. Other tubes do not store it. A result has any bytes, as a body has.
    ///
    /// # Errors
    /// Those of [`ack`](Claim::ack), with the same state after each. [`Invalid`](crate::Error::Invalid):
    /// the result is larger than a body may be ([`max_body`](crate::StoreOptions::max_body));
    /// [`DiskFull`](crate::Error::DiskFull); the task is released.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Ending, FIFO, Keep, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().keep_done(Keep::new().count(1000));
    /// let sums = store.create_tube("sums", FIFO, options)?;
    /// let id = sums.put("2 + 2")?.id;
    /// sums.try_take()?.unwrap().ack_with("4")?;
    /// let result = Some(b"4".to_vec());
    /// assert_eq!(sums.outcome(id)?, Some(Ending::Done { result }));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "complete")]
    #[doc(alias = "result")]
    pub fn ack_with(self, result: impl Into<Vec<u8>>) -> M::Answer<Receipt> {
        self.held.end::<M, _>(Ok(Ack { result: Some(result.into()) }))
    }
}
