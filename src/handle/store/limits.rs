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
    /// # Example: one task at a time uses the database, whichever tube it is in
    /// ```
    /// use tubewell::{Put, Store, TubeOptions, UTUBE};
    ///
    /// let store = Store::in_memory()?;
    /// let options = TubeOptions::new().driver(UTUBE).shared_limits(true);
    /// let mails = store.open_tube("mails", options.clone())?;
    /// let pages = store.open_tube("pages", options)?;
    /// store.admin().set_limit("database", 1)?;
    /// mails.put(Put::new("to: ann").sub_queue("database"))?;
    /// pages.put(Put::new("GET /").sub_queue("database"))?;
    ///
    /// let mail = mails.try_take()?.unwrap();
    /// assert!(pages.try_take()?.is_none());
    /// let limits = store.admin().limits()?;
    /// assert_eq!((limits[0].name.as_str(), limits[0].most, limits[0].taken), ("database", 1, 1));
    /// mail.ack()?;
    /// assert!(pages.try_take()?.is_some());
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
    /// Those of [`set_limit`](StoreAdmin::set_limit). After [`OutcomeUnknown`](crate::Error::OutcomeUnknown)
    /// the limit is removed, and perhaps there again if the process ends before the storage works again.
    pub fn remove_limit(&self, name: &str) -> M::Answer<()> {
        self.store.make(SetLimit { name: name.into(), most: None })
    }

    /// The limits that are set, in the order of their names, and how many tasks are taken of each now. Does
    /// not block.
    ///
    /// # Errors
    /// [`NotConnected`](crate::Error::NotConnected), [`Refused`](crate::Error::Refused): the owner of the
    /// store does not answer the connection. [`Closed`](crate::Error::Closed): the connection was closed.
    pub fn limits(&self) -> M::Answer<Vec<Limit>> {
        self.store.make(AllLimits {})
    }
}
