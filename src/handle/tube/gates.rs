//! Gates: the pause of a tube, and the change of its options.

use std::time::{Duration, SystemTime};

use super::{Admin, Tube};
use crate::base::micros::micros_ceil;
use crate::base::moment::micros_of;
use crate::core::list::{Alter, InfoOf, Pause, PauseUntil};
use crate::{Mode, TubeInfo, TubeOptions};

impl<T, M: Mode> Admin<'_, T, M> {
    /// Pauses the tube: no task of it can be taken until [`unpause`](crate::Admin::unpause). Pausing a
    /// paused tube is not an error, and removes the end of its pause.
    ///
    /// Everything else goes on: puts, acks and the other verbs of claims, peek, list, delays and ttls. Claims
    /// stay; [`revoke`](crate::Admin::revoke) ends them. Waiting takers go on waiting, in their
    /// order. [`claim`](Tube::claim) returns [`NotReady`](crate::Error::NotReady).
    ///
    /// The tube is paused when the next take begins. Once this returns, it is paused after a killed
    /// process and a power cut too. The call blocks for a flush, whatever the durability of the tube.
    ///
    /// # Errors
    /// Those of every call. Nothing changed. [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the
    /// flush failed; the tube is paused, and perhaps not if the process ends before the storage works
    /// again.
    ///
    /// # Example: stop the work for the time of an upgrade
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let mail = store.tube("mail")?;
    /// mail.admin().pause()?;
    /// mail.put("to: ann")?;
    /// assert!(mail.info()?.paused && mail.try_take()?.is_none());
    /// mail.admin().unpause()?;
    /// assert!(mail.try_take()?.is_some());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "stop")]
    pub fn pause(&self) -> M::Answer<()> {
        self.pause_for(Duration::MAX)
    }

    /// As [`pause`](crate::Admin::pause), for this time. The pause that the tube has is replaced, whether it
    /// would end later or earlier. A time of zero ends it.
    ///
    /// The time is measured on the timeline of the store, as delays are: it goes on while the machine
    /// is suspended and while the store is closed. It is rounded up to microseconds;
    /// `Duration::MAX` is without a limit. The end of a pause needs no call, and wakes the store only
    /// if a take waits.
    ///
    /// # Errors
    /// Those of [`pause`](crate::Admin::pause).
    ///
    /// # Example: a server that answers "429 Too Many Requests"
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Store};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let calls = store.tube("calls")?;
    /// calls.put("GET /")?;
    /// let retry_after = Duration::from_secs(120);
    /// calls.admin().pause_for(retry_after)?;
    /// assert_eq!(calls.info()?.resumes_in, Some(retry_after));
    /// assert!(calls.try_take()?.is_none());
    /// clock.advance(retry_after);
    /// assert!(calls.try_take()?.is_some());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "snooze")]
    pub fn pause_for(&self, time: Duration) -> M::Answer<()> {
        self.tube.make(Pause { time: micros_ceil(time) })
    }

    /// As [`pause_for`](crate::Admin::pause_for), for the time that it is now until a moment of the wall
    /// clock. A moment that has come ends the pause.
    ///
    /// The wall clock is read once, in this call: a clock that is set later does not move the end of
    /// the pause. A moment that does not fit 64 bits of microseconds since 1970 never comes.
    ///
    /// # Errors
    /// Those of [`pause`](crate::Admin::pause).
    ///
    /// # Example: a server that answers "Retry-After" with a date
    /// ```
    /// use std::time::{Duration, UNIX_EPOCH};
    /// use tubewell::{ManualClock, Store};
    ///
    /// let hour = Duration::from_secs(3600);
    /// let clock = ManualClock::at(24 * 365 * 60 * hour);
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let calls = store.tube("calls")?;
    /// let retry_after = UNIX_EPOCH + 24 * 365 * 60 * hour + 2 * hour;
    /// calls.admin().pause_until(retry_after)?;
    /// assert_eq!(calls.info()?.resumes_in, Some(2 * hour));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn pause_until(&self, moment: SystemTime) -> M::Answer<()> {
        self.tube.make(PauseUntil { moment: micros_of(moment) })
    }

    /// Ends the pause of the tube. Waiting takers get tasks in the order in which they came. A tube
    /// that is not paused does not change.
    ///
    /// Once this returns, the tube is not paused after a killed process and a power cut either. The
    /// call blocks for a flush.
    ///
    /// # Errors
    /// Those of every call. Nothing changed. [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the
    /// flush failed; the pause has ended, and perhaps not if the process ends before the storage works
    /// again.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// tube.admin().pause()?;
    /// tube.admin().unpause()?;
    /// assert!(!tube.info()?.paused);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "resume")]
    pub fn unpause(&self) -> M::Answer<()> {
        self.tube.make(Pause { time: 0 })
    }

    /// Changes the options that are named; the others stay. [`TubeOptions::set`] can name a default, so
    /// that a limit is removed. Driver, tasks, claims and the pause stay. A callback in the options is
    /// ignored.
    ///
    /// The new options hold for later calls:
    ///
    /// * ttl, ttr and priority for later puts. A larger capacity admits waiting puts; a smaller one
    ///   removes no task.
    /// * `max_taken` and `max_attempts` for later takes, of tasks that were put before too. No claim
    ///   ends. Takes before the change count as attempts, unless they were forgiven.
    /// * `max_runtime` and `reclaim_delay` for later takes, `backoff` for later ends of claims.
    /// * `keep_done` and `keep_buried` for later ends. If the tube has more tasks than a new count
    ///   allows, the surplus is removed in the background, the oldest tasks first; after a crash, the
    ///   next open continues. A new age does not apply to the tasks that are kept already.
    /// * the durability for later changes.
    ///
    /// Once this returns, the change survives a killed process and a power cut. The call blocks for a
    /// flush.
    ///
    /// # Errors
    /// [`Unsupported`](crate::Error::Unsupported) for an option that the driver does not have;
    /// [`Invalid`](crate::Error::Invalid) for a value outside its limits;
    /// [`TubeDiffers`](crate::Error::TubeDiffers): the driver that is named is another one; a tube cannot
    /// become temporary, or stop being so;
    /// [`DriverUnknown`](crate::Error::DriverUnknown). Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; the options are changed, and
    /// perhaps not if the process ends before the storage works again.
    ///
    /// # Example: allow more work at a time
    /// ```
    /// # use std::time::Duration;
    /// use tubewell::{Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let films = store.open_tube("films", TubeOptions::new().max_taken(1))?;
    /// films.put_many(["a", "b", "c"])?;
    /// films.admin().alter(TubeOptions::new().max_taken(2))?;
    /// assert_eq!(films.take_many(10, Duration::ZERO)?.len(), 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "config")]
    pub fn alter(&self, options: TubeOptions) -> M::Answer<()> {
        self.tube.make(Alter { options })
    }
}

impl<T, M: Mode> Tube<T, M> {
    /// The options of the tube, whether it is paused, and how many calls wait in it. Does not block.
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{Store, TubeOptions};
    /// # let store = Store::in_memory()?;
    /// let jobs = store.open_tube("jobs", TubeOptions::new().max_attempts(3))?;
    /// assert_eq!(jobs.info()?.max_attempts, Some(3));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn info(&self) -> M::Answer<TubeInfo> {
        self.make(InfoOf {})
    }
}
