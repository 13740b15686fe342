//! Calls that change a task that waits, whichever session uses the tube.

use super::{Admin, Tube};
use crate::core::UpdateRequest;
use crate::core::list::{CancelTask, SetPriority, UpdateTask};
use crate::{Mode, Receipt, Result, Update};

impl<T, M: Mode> Admin<'_, T, M> {
    /// Gives a task another priority, whatever its state and whichever session has taken it. 0 is
    /// the most urgent.
    ///
    /// A ready task takes its new place in the order of takes: among tasks of the same priority by its id, as
    /// if it had been put with this priority. A taken task stays taken, and has the priority when it is ready
    /// again; [`Claim::priority`](crate::Claim::priority) is still that of the take. The same priority again
    /// changes nothing, and is not an error.
    ///
    /// Once this returns, the priority survives a killed process and a power cut. The call blocks
    /// for a flush, and no take gets a ready task before that.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task;
    /// [`Unsupported`](crate::Error::Unsupported): the driver has no priorities;
    /// [`DriverUnknown`](crate::Error::DriverUnknown). Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; the task has the priority
    /// when the storage works again, or perhaps not if the process ends before that.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let pages = store.tube("pages")?;
    /// pages.put(Put::new("/a").priority(5))?;
    /// let id = pages.put(Put::new("/b").priority(5))?.id;
    /// pages.admin().set_priority(id, 0)?;
    /// assert_eq!(pages.try_take()?.unwrap().body(), b"/b");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "reprioritize")]
    pub fn set_priority(&self, id: u64, priority: u32) -> M::Answer<Receipt> {
        self.tube.make(SetPriority { id, priority })
    }
}

impl<T, M: Mode> Tube<T, M> {
    /// Changes the body, the priority, the delay or the tags of a task that waits: one that is
    /// ready, delayed or buried. What the [`Update`] leaves out stays as it is.
    ///
    /// A task with a new priority takes its new place, as after
    /// [`set_priority`](crate::Admin::set_priority). A new delay counts from now on, and replaces the rest of
    /// the delay so far. A buried task can get another body and another priority before it is kicked,
    /// but no delay. An update that changes nothing is not an error.
    ///
    /// Once this returns, the change survives a killed process and a power cut, and no crash leaves
    /// a part of it. The call blocks for a flush, and no take gets the task before that.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound); [`NotReady`](crate::Error::NotReady): a session has
    /// taken the task, or it is done, or it is buried and the update has a delay or a moment;
    /// [`Unsupported`](crate::Error::Unsupported): the driver has no priorities and delays;
    /// [`DriverUnknown`](crate::Error::DriverUnknown); [`Invalid`](crate::Error::Invalid): the body
    /// is too large, or a tag is not one; [`DiskFull`](crate::Error::DiskFull). Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) as in [`set_priority`](crate::Admin::set_priority).
    ///
    /// # Example: repair a dead letter, and try it again
    /// ```
    /// use tubewell::{Store, Update};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let id = mails.put("to: ann@exmaple.org")?.id;
    /// mails.admin().bury(id, None)?;
    /// mails.update(id, Update::new().body("to: ann@example.org"))?;
    /// mails.kick(id)?;
    /// assert_eq!(mails.try_take()?.unwrap().body(), b"to: ann@example.org");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "edit")]
    #[doc(alias = "reschedule")]
    pub fn update(&self, id: u64, update: Update<T>) -> M::Answer<Receipt> {
        self.make_checked(self.update_verb(id, update))
    }

    /// Deletes a task that has not begun: one that is ready, delayed or buried.
    ///
    /// As [`delete`](Tube::delete), which removes taken and done tasks too. If this succeeds, no
    /// worker works on the task, and none will.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound); [`NotReady`](crate::Error::NotReady): a session has
    /// taken the task, or it is done and kept; [`HasDependents`](crate::Error::HasDependents): other
    /// tasks wait for it. Nothing changed. In a tube with durability flush no crash makes this untrue.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) as in [`delete`](Tube::delete).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let orders = store.tube("orders")?;
    /// let [first, second] = [orders.put("2 chairs")?.id, orders.put("1 table")?.id];
    /// let claim = orders.try_take()?.unwrap();
    /// assert!(matches!(orders.cancel(first), Err(Error::NotReady { .. })));
    /// orders.cancel(second)?;
    /// claim.ack()?;
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "abort")]
    pub fn cancel(&self, id: u64) -> M::Answer<Receipt> {
        self.make(CancelTask { id })
    }

    pub(crate) fn update_verb(&self, id: u64, update: Update<T>) -> Result<UpdateTask> {
        let update = update.try_map(|value| self.coder.encode(&value))?;
        Ok(UpdateTask { id, request: UpdateRequest::of(update) })
    }
}
