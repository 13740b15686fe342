//! Deferred calls with which tasks go on in other tubes.

use super::claim::Refused;
use crate::core::FinishRequest;
use crate::core::list::FinishTask;
use crate::finish::put_into;
use crate::{Claim, Finish, IntoPut, Receipt, Result, Ticket, Tube, WhenFull};

impl<T> Claim<T> {
    /// As [`advance`](Claim::advance), but returns once the call is decided. The [`Ticket`] has the
    /// answer after the flush.
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with an error of [`finish`](Claim::finish) or
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    pub fn advance_deferred<U>(
        self,
        to: &Tube<U>,
        task: impl IntoPut<U>,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<Claim<T>>> {
        match to.encode(task).and_then(|put| put_into(&self.held.handle, to, put)) {
            Ok(into) => {
                let request = FinishRequest::advance(into);
                self.make_end_deferred(when_full, &FinishTask { request })
            }
            Err(error) => Err(Refused::new(self, error)),
        }
    }

    /// As [`finish`](Claim::finish), but returns once the call is decided. The [`Ticket`] has the
    /// answer after the flush.
    ///
    /// # Errors
    /// [`Refused`] gives the claim back, with an error of [`finish`](Claim::finish) or
    /// [`Overloaded`](crate::Error::Overloaded). Nothing changed.
    ///
    /// # Example: finish elsewhere if the next tube is full
    /// ```
    /// use tubewell::{Error, FIFO, Finish, LIMFIFOTTL, Store, TubeOptions, WhenFull};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// let small = store.create_tube("small", LIMFIFOTTL, TubeOptions::new().capacity(1))?;
    /// small.put("fills it")?;
    /// jobs.put("work")?;
    /// let job = jobs.try_take()?.unwrap();
    /// let finish = Finish::new().put(&small, "follows");
    /// let refused = job.finish_deferred(finish, WhenFull::Block).unwrap_err();
    /// assert!(matches!(refused.error(), Error::Full { .. }));
    /// refused.into_claim().ack()?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn finish_deferred(
        self,
        finish: Finish,
        when_full: WhenFull,
    ) -> Result<Ticket<Receipt>, Refused<Claim<T>>> {
        match finish.into_request(&self.held.handle) {
            Ok(request) => self.make_end_deferred(when_full, &FinishTask { request }),
            Err(error) => Err(Refused::new(self, error)),
        }
    }
}
