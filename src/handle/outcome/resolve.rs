//! The end of a task that nobody has taken, by an administrator.

use super::{IntoOutcome, Outcome};
use crate::core::list::Resolve;
use crate::{Admin, Mode, Receipt};

impl<T, M: Mode> Admin<'_, T, M> {
    /// Ends a task that no session has taken, whatever its state, as [`Claim::end`](crate::Claim::end) would
    /// with the same outcome: `()`, [`Outcome::done`](crate::Outcome::done),
    /// [`Outcome::value`](crate::Outcome::value) or [`Outcome::result`](crate::Outcome::result). For work
    /// that was done by hand.
    ///
    /// Its end is [`Ending::Done`](crate::Ending::Done), and it is kept if the tube
    /// [keeps](crate::TubeOptions::keep_done) what is done. Once this returns, it survives what an
    /// ack survives. The call blocks for a flush.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound); [`NotReady`](crate::Error::NotReady): a session has
    /// taken the task ([`revoke`](crate::Admin::revoke) ends the claim), or it is done;
    /// [`Invalid`](crate::Error::Invalid): the result is larger than a body may be, or the outcome
    /// does not end the task as done; [`Codec`](crate::Error::Codec): JSON cannot hold the value;
    /// [`DiskFull`](crate::Error::DiskFull). Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; the task is done when the
    /// storage works again, or perhaps not if the process ends before that.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Outcome, Store, TaskState};
    ///
    /// let store = Store::in_memory()?;
    /// let orders = store.tube("orders")?;
    /// let id = orders.put("17 chairs")?.id;
    /// orders.admin().bury(id, None)?; // the shop does not answer
    /// let by_hand = Outcome::value(&"ordered by telephone");
    /// assert_eq!(orders.admin().resolve(id, by_hand)?.state, TaskState::Done);
    /// assert_eq!(orders.statistics()?.tasks.total, 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "complete")]
    pub fn resolve(&self, id: u64, outcome: impl IntoOutcome) -> M::Answer<Receipt> {
        let result = Outcome::from_value(outcome).into_result();
        self.tube.make_checked(result.map(|result| Resolve { id, result }))
    }
}
