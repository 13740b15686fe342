//! Calls that any session may make, whichever session has taken the task.

use super::{Admin, Query, Tube};
use crate::core::list::{Bury, Delete, Kick, OwnerOf, Peek, Truncate};
use crate::values::task::{Task, TaskInfo};
use crate::{Failure, Mode, Owner, Receipt};

impl<T, M: Mode> Tube<T, M> {
    /// Kicks a buried task: it is ready again, in its old place in the order.
    ///
    /// Its ttl has gone on while it was buried. Once this returns, the task is ready after a killed
    /// process and a power cut too. Blocks until the flush that holds the change.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task.
    /// [`NotBuried`](crate::Error::NotBuried): the task is ready, taken or delayed. Nothing
    /// changed. In a tube with durability flush no crash makes this untrue.
    ///
    /// [`Admin::kick`](crate::Admin::kick) kicks all that meet a condition.
    ///
    /// # Example: retry one dead letter
    /// ```
    /// use tubewell::{Error, TaskState};
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    ///
    /// let id = tube.put("to: ann")?.id;
    /// tube.admin().bury(id, None)?;
    /// assert_eq!(tube.kick(id)?.state, TaskState::Ready);
    /// assert_eq!(tube.kick(id), Err(Error::NotBuried { id }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn kick(&self, id: u64) -> M::Answer<Receipt> {
        self.make(Kick { id })
    }

    /// Deletes a task, whatever its state and whichever session has taken it. A claim on it has
    /// ended. [`Admin::delete`](crate::Admin::delete) deletes all that meet a condition.
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
}

impl<T, M: Mode> Admin<'_, T, M> {
    /// Buries a task (dead letter), whatever its state and whichever session has taken it. It stays
    /// buried until it is kicked or deleted, or its ttl elapses. A claim on it has ended. `why` is a
    /// [`Failure`], which puts it into a failure group, or `None`.
    ///
    /// Once this returns, the task is buried after a killed process and a power cut too. The call
    /// blocks for a flush. Burying a buried task changes nothing and is not an error.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task; in a tube with durability flush no
    /// crash brings it back. [`NotReady`](crate::Error::NotReady): it is done and kept, or a schedule.
    /// [`Invalid`](crate::Error::Invalid): the failure group is no name. Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the
    /// flush failed; the task is buried when the storage works again, or perhaps not if the process
    /// ends before that.
    ///
    /// # Example: a task that only fails
    /// ```
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    /// let id = tube.put("to: nobody")?.id;
    /// tube.admin().bury(id, None)?;
    /// assert!(tube.try_take()?.is_none());
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "dead letter")]
    pub fn bury(&self, id: u64, why: impl Into<Option<Failure>>) -> M::Answer<Receipt> {
        self.tube.make(Bury { id, failure: why.into() })
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
    /// Returns a task with its body and its result, and changes nothing.
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
    /// let task = tube.query().task(id)?;
    /// assert_eq!((task.info.state, &*task.body), (TaskState::Ready, &b"work"[..]));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "peek")]
    pub fn task(&self, id: u64) -> M::Answer<Task<T>> {
        let coder = self.tube.coder.clone();
        M::map(self.tube.make(Peek { id, with_body: true }), move |task| task.with_coder(coder))
    }

    /// As [`task`](Query::task), without the body and the result. A body of more than 1 KiB is not read.
    ///
    /// # Errors
    /// Those of [`task`](Query::task); a body that is not read may be damaged.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Put, Store, TaskState};
    ///
    /// let store = Store::in_memory()?;
    /// let films = store.tube("films")?;
    /// let id = films.put(Put::new(vec![0; 1 << 20]).key("night"))?.id;
    /// let film = films.query().task_info(id)?;
    /// assert_eq!((film.state, film.key.as_deref(), film.size), (TaskState::Ready, Some("night"), 1 << 20));
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "peek")]
    pub fn task_info(&self, id: u64) -> M::Answer<TaskInfo> {
        M::map(self.tube.make(Peek { id, with_body: false }), |task| task.info)
    }

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
