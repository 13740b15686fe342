//! Calls that any session may make, whichever session has taken the task.

use super::{Admin, Query, Tube};
use crate::core::KICK_STEP;
use crate::core::list::{Bury, Delete, Kick, KickTask, OwnerOf, Peek, Revoke, Truncate};
use crate::in_steps::Steps;
use crate::task::Task;
use crate::{Mode, Owner, Receipt};

impl<T, M: Mode> Tube<T, M> {
    /// Buries a task (dead letter), whatever its state and whichever session has taken it. It stays
    /// buried until it is kicked or deleted, or its ttl elapses. A claim on it has ended.
    ///
    /// Once this returns, the task is buried after a killed process and a power cut too. The call
    /// blocks for a flush. Burying a buried task changes nothing and is not an error.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task; in a tube with durability flush no
    /// crash brings it back. Nothing changed. [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the
    /// flush failed; the task is buried when the storage works again, or perhaps not if the process
    /// ends before that.
    ///
    /// # Example: a task that only fails
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// let id = tube.put("to: nobody")?.id;
    /// tube.bury(id)?;
    /// assert!(tube.try_take()?.is_none());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "dead letter")]
    pub fn bury(&self, id: u64) -> M::Answer<Receipt> {
        self.make(Bury { id })
    }

    /// Makes up to `count` buried tasks ready, and returns how many. Tasks are kicked in the order
    /// of takes: by priority, then by id, not by the time of the bury. In a tube that
    /// [limits](crate::TubeOptions::keep_buried) how many it keeps, those that were buried first come
    /// first.
    ///
    /// Each task is back in its old place. Its ttl went on while it was buried. Once this returns,
    /// the tasks are ready after a killed process and a power cut too. The call blocks for a flush
    /// for each 512 tasks, and for none if no task is buried.
    ///
    /// # Errors
    /// Those of every call. Of more than 512 tasks, some may have been kicked.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// let id = tube.put("to: nobody")?.id;
    /// tube.bury(id)?;
    /// assert_eq!(tube.kick(u64::MAX)?, 1);
    /// assert_eq!(tube.try_take()?.unwrap().id(), id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "redrive")]
    #[doc(alias = "requeue")]
    #[doc(alias = "dead letter")]
    pub fn kick(&self, count: u64) -> M::Answer<u64> {
        self.in_steps(Ok(Kicking { left: count, kicked: 0 }))
    }

    /// Kicks one buried task: it is ready again, in its old place in the order.
    ///
    /// Its ttl has gone on while it was buried. Once this returns, the task is ready after a killed
    /// process and a power cut too. Blocks until the flush that holds the change.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task.
    /// [`NotBuried`](crate::Error::NotBuried): the task is ready, taken or delayed. Nothing
    /// changed. In a tube with durability flush no crash makes this untrue.
    ///
    /// # Example: retry one dead letter
    /// ```
    /// use tubewell::{Error, TaskState};
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    ///
    /// let id = tube.put("to: ann")?.id;
    /// tube.bury(id)?;
    /// assert_eq!(tube.kick_task(id)?.state, TaskState::Ready);
    /// assert_eq!(tube.kick_task(id), Err(Error::NotBuried { id }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn kick_task(&self, id: u64) -> M::Answer<Receipt> {
        self.make(KickTask { id })
    }

    /// Deletes a task, whatever its state and whichever session has taken it. A claim on it has
    /// ended.
    ///
    /// Once this returns, the task does not come back after a killed process or a power cut. The
    /// call blocks for a flush.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task; in a tube with durability flush no
    /// crash brings it back. [`HasDependents`](crate::Error::HasDependents): other tasks
    /// [wait](crate::Put::after) for it, and it is not done. Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; the task is deleted when the
    /// storage works again, or perhaps not if the process ends before that.
    ///
    /// # Example
    /// ```
    /// use tubewell::Error;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    ///
    /// let id = tube.put("a mistake")?.id;
    /// tube.delete(id)?;
    /// assert_eq!(tube.delete(id), Err(Error::NotFound { id }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn delete(&self, id: u64) -> M::Answer<Receipt> {
        self.make(Delete { id })
    }

    /// Returns a task with its body, and changes nothing.
    ///
    /// If a change of the task is still to be flushed, the call blocks for that flush, so that in a
    /// tube with durability flush it returns nothing that a crash could undo. Otherwise it does not
    /// block.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound); [`Corrupt`](crate::Error::Corrupt) if the task is damaged.
    ///
    /// # Example
    /// ```
    /// use tubewell::TaskState;
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    ///
    /// let id = tube.put("work")?.id;
    /// let task = tube.peek(id)?;
    /// assert_eq!((task.info.state, &*task.body), (TaskState::Ready, &b"work"[..]));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn peek(&self, id: u64) -> M::Answer<Task<T>> {
        let coder = self.coder.clone();
        M::map(self.make(Peek { id }), move |task| task.with_coder(coder))
    }
}

impl<T, M: Mode> Admin<'_, T, M> {
    /// Ends the claim on a task, whichever session has it. The task is ready in its old place, and
    /// its holder gets [`NotTaken`](crate::Error::NotTaken) from then on.
    ///
    /// Changes memory only, and does not block: after a crash no task is taken. The end of a claim that was
    /// [parked](crate::Claim::park) is stored, and the call blocks for a flush, in a written tube for a
    /// write. [`revoke_all`](crate::Admin::revoke_all) ends all claims of a tube, and does not block.
    ///
    /// # Errors
    /// [`NotTaken`](crate::Error::NotTaken), [`NotFound`](crate::Error::NotFound). Nothing changed.
    ///
    /// # Example: take a task away from a worker that hangs
    /// ```
    /// use tubewell::{Error, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let id = jobs.put("work")?.id;
    /// let hanging = jobs.take()?;
    /// jobs.admin().revoke(id)?;
    /// assert_eq!(hanging.ack(), Err(Error::NotTaken { id }));
    /// jobs.take()?.ack()?;
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "steal")]
    #[doc(alias = "unlock")]
    pub fn revoke(&self, id: u64) -> M::Answer<Receipt> {
        self.tube.make(Revoke { id })
    }

    /// Removes all tasks, whatever their state. Claims on them have ended. Waiting takers go on
    /// waiting, and waiting puts are admitted. The counts of calls stay, and no events are
    /// delivered.
    ///
    /// Once this returns, no task comes back after a killed process or a power cut. The call blocks
    /// for a flush, however many tasks there were. Their rows are removed later, in steps.
    ///
    /// # Errors
    /// Those of every call.
    ///
    /// # Example
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// tube.put_many(["a", "b", "c"])?;
    /// tube.admin().truncate()?;
    /// assert_eq!(tube.statistics()?.tasks.total, 0);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "clear")]
    #[doc(alias = "purge")]
    pub fn truncate(&self) -> M::Answer<()> {
        self.tube.make(Truncate {})
    }
}

impl<T, M: Mode> Query<'_, T, M> {
    /// The session that has taken a task, and for how long; `None` if the task is not taken. Reads
    /// memory, and the file for a task that is not taken. Does not block.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound).
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let id = jobs.put("work")?.id;
    /// assert_eq!(jobs.query().owner(id)?, None);
    /// let claim = jobs.take()?;
    /// assert_eq!(jobs.query().owner(id)?.unwrap().session, jobs.session());
    /// # drop(claim);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn owner(&self, id: u64) -> M::Answer<Option<Owner>> {
        self.tube.make(OwnerOf { id })
    }
}

/// How far a kick of many tasks has come.
struct Kicking {
    left: u64,
    kicked: u64,
}

impl Steps for Kicking {
    type Verb = Kick;
    type Done = u64;

    fn next(&mut self) -> Option<Kick> {
        (self.left > 0).then(|| Kick { count: self.left.min(KICK_STEP) })
    }

    fn note(&mut self, kicked: u64) {
        self.kicked += kicked;
        // Fewer than were asked for: no more are buried.
        self.left = if kicked < self.left.min(KICK_STEP) { 0 } else { self.left - kicked };
    }

    fn done(self) -> u64 {
        self.kicked
    }
}
