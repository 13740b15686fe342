//! Calls that change or delete chosen tasks, whichever session uses the tube.

use super::{Admin, Tube};
use crate::core::list::{
    CancelTask, DeleteIf, DeleteMany, DeleteWhere, KickWhere, SetPriority, UpdateTask,
};
use crate::core::verb::{Begin, InTube};
use crate::core::{SelectStep, UpdateRequest};
use crate::in_steps::Steps;
use crate::task::Cursor;
use crate::{Filter, Mode, Receipt, Result, TaskState, Update};

/// A step of a call on selected tasks: after a cursor, of up to this many tasks.
type Step<V> = fn(Filter, Option<Cursor>, u64) -> V;

const DELETE_WHERE: Step<DeleteWhere> = |filter, after, limit| DeleteWhere { filter, after, limit };
const KICK_WHERE: Step<KickWhere> = |filter, after, limit| KickWhere { filter, after, limit };

/// How far a call on selected tasks has come.
struct Selecting<V> {
    step: Step<V>,
    filter: Filter,
    /// How many more tasks it may change.
    left: u64,
    changed: u64,
    /// Where the next step begins; `None` before the first step.
    after: Option<Cursor>,
}

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

    /// Deletes a task if it is in one of these states. As [`delete`](Tube::delete) otherwise.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound); [`WrongState`](crate::Error::WrongState), which names
    /// the state of the task; [`HasDependents`](crate::Error::HasDependents): other tasks wait for
    /// it; [`Invalid`](crate::Error::Invalid) without a state. Nothing changed. In a tube with
    /// durability flush no crash makes this untrue.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) as in [`delete`](Tube::delete).
    ///
    /// # Example: delete what is finished, and nothing else
    /// ```
    /// use tubewell::{Error, TaskState, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let id = jobs.put("work")?.id;
    /// let finished = [TaskState::Done, TaskState::Buried];
    /// let refused = jobs.admin().delete_if(id, &finished).unwrap_err();
    /// assert!(matches!(refused, Error::WrongState { state: TaskState::Ready, .. }));
    /// jobs.bury(id)?;
    /// jobs.admin().delete_if(id, &finished)?;
    /// # Ok::<(), Error>(())
    /// ```
    pub fn delete_if(&self, id: u64, states: &[TaskState]) -> M::Answer<Receipt> {
        self.tube.make(DeleteIf { id, states: states.to_vec() })
    }

    /// Deletes these tasks with one commit, whatever their states and whichever sessions have taken
    /// them. Returns how many there were: an id without a task, and one that is named again, is
    /// skipped, so that the call can be repeated (it is idempotent). At most 10,000 ids of tasks that
    /// have at most 100,000 rows of history and [steps](crate::Claim::step) together.
    ///
    /// A crash leaves all of the tasks or none. Once this returns, none of them comes back after a
    /// killed process or a power cut. The call blocks for one flush.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): more than 10,000 ids, or more rows: split the ids;
    /// [`HasDependents`](crate::Error::HasDependents): a task that is not named waits for one of
    /// them; [`Corrupt`](crate::Error::Corrupt): a task cannot be read. Nothing was deleted.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown): the flush failed; all tasks are deleted when
    /// the storage works again, or perhaps none if the process ends before that.
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let ids: Vec<u64> = jobs.put_many(["a", "b", "c"])?.iter().map(|put| put.id).collect();
    /// assert_eq!(jobs.admin().delete_many(&ids[1..])?, 2);
    /// assert_eq!(jobs.admin().delete_many(&ids)?, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "batch")]
    pub fn delete_many(&self, ids: &[u64]) -> M::Answer<u64> {
        self.tube.make(DeleteMany { ids: ids.to_vec() })
    }

    /// Deletes the tasks that meet all conditions of `filter`, and returns how many. The filter has a
    /// state, a failure group or a tag; [`truncate`](crate::Admin::truncate) removes all tasks.
    ///
    /// The tasks of a failure group are deleted in the order of their burials, others with a tag in the
    /// order of their ids, and else in the order of [`list`](crate::Query::list). Claims on taken
    /// tasks have ended. Deletes at most as many tasks as there are in that state, or in the tube
    /// if any state will do, when the call begins. Of tasks that change their state during the
    /// call, some may be left. A damaged task is skipped. Selected tasks that wait for each other
    /// are deleted together, up to 10,000 with one commit, and with up to 100,000 rows of history and
    /// steps.
    ///
    /// Once this returns, the tasks do not come back after a killed process or a power cut. The call
    /// blocks for a flush for each 512 tasks, or for fewer with 16,384 rows of history and steps.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the filter has no state, no group and no tag, a group
    /// and a state other than buried, or a condition that a delete does not use, which the error names.
    /// Nothing was deleted.
    /// [`HasDependents`](crate::Error::HasDependents): a task that is not selected waits for one of
    /// them. That, and those of every call: of more than 512 tasks, some may have been deleted.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Failure, Filter, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put("work")?;
    /// jobs.try_take()?.unwrap().bury(Failure::new("timeout", "no answer in 30 s"))?;
    /// assert_eq!(jobs.admin().delete(Filter::new().group("timeout"))?, 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn delete(&self, filter: impl Into<Filter>) -> M::Answer<u64> {
        let filter = filter.into();
        let checked = filter.check_delete();
        self.tube.in_steps(checked.map(|()| Selecting::new(filter, DELETE_WHERE)))
    }

    /// Kicks the buried tasks that meet all conditions of `filter`, and returns how many: those of a failure group in the order
    /// of their burials, and others as [`kick`](Tube::kick) does.
    ///
    /// Each task is ready in its old place, with its attempts forgiven. Kicks at most as many tasks
    /// as are buried when the call begins. Of tasks that are buried during the call, some may be
    /// left. A damaged task is skipped.
    ///
    /// Once this returns, the tasks are ready after a killed process and a power cut too. The call
    /// blocks for a flush for each 512 tasks, and for none if no task is selected.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the filter has a state other than buried, or a condition that a
    /// kick does not use, which the error names. Nothing was kicked. Those of every call: of more than 512 tasks, some may have been kicked.
    ///
    /// # Example: the mail server is back
    /// ```
    /// use tubewell::{Failure, Filter, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// for to in ["ann", "bob"] {
    ///     mails.put(to)?;
    ///     mails.try_take()?.unwrap().bury(Failure::new("smtp", "connection refused"))?;
    /// }
    /// assert_eq!(mails.admin().kick(Filter::new().group("smtp").limit(1))?, 1);
    /// assert_eq!(mails.try_take()?.unwrap().body(), b"ann");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "redrive")]
    #[doc(alias = "retry")]
    pub fn kick(&self, filter: impl Into<Filter>) -> M::Answer<u64> {
        let filter = filter.into().for_kick();
        self.tube.in_steps(filter.map(|filter| Selecting::new(filter, KICK_WHERE)))
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
    /// mails.bury(id)?;
    /// mails.update(id, Update::new().body("to: ann@example.org"))?;
    /// mails.kick_task(id)?;
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

impl<V> Selecting<V> {
    fn new(filter: Filter, step: Step<V>) -> Selecting<V> {
        Selecting { step, left: filter.limit.unwrap_or(u64::MAX), filter, changed: 0, after: None }
    }
}

impl<V: Begin<On = InTube, Answer = SelectStep>> Steps for Selecting<V> {
    type Verb = V;
    type Done = u64;

    fn next(&mut self) -> Option<V> {
        let Selecting { step, filter, left, after, .. } = self;
        (*left > 0).then(|| step(filter.clone(), after.clone(), *left))
    }

    fn note(&mut self, step: SelectStep) {
        let SelectStep { changed, bound, next } = step;
        if self.after.is_none() {
            // New tasks do not keep the call going for ever.
            self.left = self.left.min(bound);
        }
        self.left -= changed.min(self.left);
        self.changed += changed;
        if next.is_none() {
            self.left = 0;
        }
        self.after = next;
    }

    fn done(self) -> u64 {
        self.changed
    }
}
