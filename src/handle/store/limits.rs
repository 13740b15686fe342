//! The limits that tubes share.

use super::StoreAdmin;
use crate::core::list::{AllLimits, SetLimit};
use crate::{Limit, Mode};

impl<M: Mode> StoreAdmin<'_, M> {
    /// Limits how many tasks of the sub-queues with this name may be taken at a time, in all tubes with
    /// [`shared_limits`](crate::TubeOptions::shared_limits) together. With 0, none may be taken.
    ///
    /// A limit that is lowered ends no claim: the next task is taken when fewer tasks than it are. A limit
    /// that is raised gives tasks to waiting takers immediately. The tubes and the sub-queues need not
    /// exist.
    ///
    /// Once this returns, the limit survives a killed process and a power cut. The call blocks for a
    /// flush. An open reads all limits.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid) for a name of more than 255 bytes;
    /// [`Closed`](crate::Error::Closed); [`Unavailable`](crate::Error::Unavailable). Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; the limit is set, and perhaps
    /// not if the process ends before the storage works again.
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// store.admin().set_limit("database", 2)?;
    /// let limits = store.admin().limits()?;
    /// assert_eq!((limits[0].name.as_str(), limits[0].most, limits[0].taken), ("database", 2, 0));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "throttle")]
    #[doc(alias = "semaphore")]
    pub fn set_limit(&self, name: &str, most: u32) -> M::Answer<()> {
        self.store.make(SetLimit { name: name.into(), most: Some(most) })
    }

    /// Removes a limit. The sub-queues with this name have the
    /// [`sub_queue_limit`](crate::TubeOptions::sub_queue_limit) of their tubes again. A name without a limit is
    /// not an error.
    ///
    /// Once this returns, the limit does not come back after a killed process or a power cut. The call
    /// blocks for a flush.
    ///
    /// # Errors
    /// Those of [`set_limit`](crate::expert::StoreAdmin::set_limit). After
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) the limit is removed, and perhaps there again if the process
    /// ends before the storage works again.
    pub fn remove_limit(&self, name: &str) -> M::Answer<()> {
        self.store.make(SetLimit { name: name.into(), most: None })
    }

    /// The limits that are set, by name, and how many tasks hold them. Does not block.
    ///
    /// # Errors
    /// [`NotConnected`](crate::Error::NotConnected), [`Refused`](crate::Error::Refused): the owner of the store does not
    /// answer the connection. [`Closed`](crate::Error::Closed): the connection was closed.
    pub fn limits(&self) -> M::Answer<Vec<Limit>> {
        self.store.make(AllLimits {})
    }
}
