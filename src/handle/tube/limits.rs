//! Pauses of sub-queues.

use std::time::Duration;

use super::{Admin, Query};
use crate::Mode;
use crate::base::micros::micros_ceil;
use crate::core::list::{PauseSubQueue, PausedSubQueues};
use crate::values::limit::PausedSubQueue;

impl<T, M: Mode> Admin<'_, T, M> {
    /// Pauses a sub-queue for this time: no task of it can be taken. The pause that it has is replaced,
    /// whether it would end later or earlier. A time of zero ends it.
    ///
    /// Everything else goes on: puts, acks and the other verbs of claims, delays and ttls. Claims stay. The
    /// empty name is that of the tasks without a sub-queue. The sub-queue need not have tasks.
    ///
    /// The time is measured on the timeline of the store, as delays are: it goes on while the machine is
    /// suspended and while the store is closed. It is rounded up to microseconds; `Duration::MAX` is
    /// without a limit. The end of a pause needs no call, and wakes the store only if a take waits.
    ///
    /// Once this returns, the sub-queue is paused after a killed process and a power cut too. The call
    /// blocks for a flush, whatever the durability of the tube. An open reads all
    /// pauses.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) if the driver has no sub-queues;
    /// [`Invalid`](crate::Error::Invalid) for a name of more than 255 bytes. Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; the sub-queue is paused, and
    /// perhaps not if the process ends before the storage works again.
    ///
    /// # Example: a host that answers "429 Too Many Requests"
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Put, Store, TubeOptions, UTUBE};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let pages = store.open_tube("pages", TubeOptions::new().driver(UTUBE))?;
    /// pages.put(Put::new("/").sub_queue("example.org"))?;
    /// let retry_after = Duration::from_secs(120);
    /// pages.admin().pause_sub_queue("example.org", retry_after)?;
    /// assert_eq!(pages.query().paused_sub_queues()?[0].resumes_in, Some(retry_after));
    /// assert!(pages.try_take()?.is_none());
    /// clock.advance(retry_after);
    /// assert!(pages.try_take()?.is_some());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "snooze")]
    pub fn pause_sub_queue(&self, name: &str, time: Duration) -> M::Answer<()> {
        self.tube.make(PauseSubQueue { name: name.into(), time: micros_ceil(time) })
    }

    /// Ends the pause of a sub-queue. Waiting takers get its tasks in the order in which they came. A
    /// sub-queue that is not paused does not change.
    ///
    /// Once this returns, the sub-queue is not paused after a killed process and a power cut either. The
    /// call blocks for a flush.
    ///
    /// # Errors
    /// Those of [`pause_sub_queue`](crate::Admin::pause_sub_queue), with the opposite effect.
    ///
    /// # Example
    /// ```
    /// # use std::time::Duration;
    /// # use tubewell::{Store, TubeOptions, UTUBE};
    /// # let store = Store::in_memory()?;
    /// # let tube = store.open_tube("pages", TubeOptions::new().driver(UTUBE))?;
    /// tube.admin().pause_sub_queue("example.org", Duration::MAX)?;
    /// tube.admin().unpause_sub_queue("example.org")?;
    /// assert!(tube.query().paused_sub_queues()?.is_empty());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "resume")]
    pub fn unpause_sub_queue(&self, name: &str) -> M::Answer<()> {
        self.tube.make(PauseSubQueue { name: name.into(), time: 0 })
    }
}

impl<T, M: Mode> Query<'_, T, M> {
    /// The paused sub-queues, by name. Reads memory and does not block.
    ///
    /// # Errors
    /// Those of every call.
    pub fn paused_sub_queues(&self) -> M::Answer<Vec<PausedSubQueue>> {
        self.tube.make(PausedSubQueues {})
    }
}
