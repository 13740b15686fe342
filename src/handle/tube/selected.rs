//! Calls on the tasks that meet a filter, whichever session uses the tube.

use super::{Admin, Tube};
use crate::core::list::{EditTasks, Revoke};
use crate::core::verb::{Begin, InTube};
use crate::core::{SelectStep, TaskEdit};
use crate::handle::in_steps::Steps;
use crate::values::filter::Filter;
use crate::values::task::Cursor;
use crate::{Mode, Result};

impl<T, M: Mode> Admin<'_, T, M> {
    /// Deletes the tasks that meet all conditions of `filter`, and returns how many. The filter has ids, a
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
    /// Once this returns, the tasks do not come back after a killed process or a power cut. The call blocks
    /// for a flush for each 512 tasks, or for fewer with 16,384 rows of history and steps. Those with chosen
    /// [`ids`](Filter::ids) are deleted with one commit and one flush: a crash leaves all of them or none.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the filter has none of the four, a group and a state other than
    /// buried, or a condition that a delete does not use, which the error names; or tasks with these ids have
    /// more than 100,000 rows. Nothing was deleted. [`HasDependents`](crate::Error::HasDependents): a task
    /// that is not selected waits for one of them. After this error, and after the errors of every call, some
    /// of more than 512 tasks may have been deleted; no task with a chosen id was deleted.
    /// [`Corrupt`](crate::Error::Corrupt): a task with one of the ids cannot be read. After
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) the tasks of the last commit are deleted when the
    /// storage works again, or perhaps not if the process ends before that.
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
        self.edit(Ok((filter.into(), TaskEdit::Delete)))
    }

    /// Kicks the buried tasks that meet all conditions of `filter`, and returns how many: those of a failure
    /// group in the order of their burials, chosen [`ids`](Filter::ids) in their order, and others in the
    /// order of takes, by priority and then by id. In a tube that [limits](crate::TubeOptions::keep_buried)
    /// how many it keeps, those that were buried first come first. [`Tube::kick`] kicks one task.
    /// A number is an id here: for so many tasks, the filter has a [`limit`](Filter::limit).
    ///
    /// Each task is ready in its old place, with its attempts forgiven. Its ttl went on while it was buried.
    /// Kicks at most as many tasks as are buried when the call begins. Of tasks that are buried during the
    /// call, some may be left. A damaged task is skipped.
    ///
    /// Once this returns, the tasks are ready after a killed process and a power cut too. The call
    /// blocks for a flush for each 512 tasks, and for none if no task is selected. Those with chosen ids are
    /// kicked with one commit.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the filter has a state other than buried, or a condition that a
    /// kick does not use, which the error names. [`Corrupt`](crate::Error::Corrupt): a task with one of the
    /// ids cannot be read. Nothing was kicked. After the errors of every call, some of more than 512 tasks
    /// may have been kicked.
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
    /// assert_eq!(mails.admin().kick(Filter::new())?, 1); // all others
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "redrive")]
    #[doc(alias = "retry")]
    #[doc(alias = "dead letter")]
    pub fn kick(&self, filter: impl Into<Filter>) -> M::Answer<u64> {
        self.edit(filter.into().for_kick().map(|filter| (filter, TaskEdit::Kick)))
    }

    /// Moves the tasks that meet all conditions of `filter` to another tube of the store, in their states:
    /// ready, delayed, buried, or waiting for others. Returns how many. [`Filter::new`] moves all of them,
    /// and an id the task with this id. A taken task is ready there; the claim on it has ended, and its
    /// attempt does not count. Done tasks, schedules and tasks whose ttl has elapsed stay.
    ///
    /// They are still the same tasks: each keeps its id, its body, its age, its attempts, its failure, and
    /// its priority, times and sub-queue. A task of a tube without times gets the defaults of `to`. The rules
    /// of `to` decide the place of the task, and how long it stays there if it is buried. Callers that
    /// [wait](Tube::wait_done) for its end go on waiting.
    ///
    /// Tasks move in the order of takes, ready ones first, those of a failure group in the order of their
    /// burials, and others with a tag or chosen ids in the order of their ids; up to 256, or 1 MiB, with one
    /// commit. Tasks that are put meanwhile stay, a task that changes meanwhile may stay, and a damaged task
    /// stays, but refuses a call that names its id.
    ///
    /// After a crash a task is in one of the tubes. Once this returns, the move
    /// survives what a put survives, in the stronger [durability](crate::Durability) of the two
    /// tubes. The call blocks for the flush of each commit.
    ///
    /// # Errors
    /// The tasks of earlier commits have moved, and the tasks of the last commit have not.
    /// [`HasDependents`](crate::Error::HasDependents): more than 10,000 tasks wait for one of them.
    /// [`Full`](crate::Error::Full): `to` has no space, or puts wait for space there; as many tasks have
    /// moved as it had space for. [`Unsupported`](crate::Error::Unsupported): a task has a priority, a ttl, a
    /// ttr, a delay or a sub-queue, and the driver of `to` does not support that.
    /// [`DriverUnknown`](crate::Error::DriverUnknown) of `to`. [`Invalid`](crate::Error::Invalid): `to` is
    /// this tube or a tube of another store, one of the two is temporary, or the filter has a condition that
    /// a move does not use. [`DiskFull`](crate::Error::DiskFull). After
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) the tasks of the last commit have moved when the
    /// storage works again.
    ///
    /// # Example: hand a failure group to a person
    /// ```
    /// use tubewell::{Failure, Filter, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let (mails, by_hand) = (store.tube("mails")?, store.tube("by hand")?);
    /// mails.put("to: ann")?;
    /// mails.try_take()?.unwrap().bury(Failure::new("address", "unknown user"))?;
    /// assert_eq!(mails.admin().move_to(&by_hand, Filter::new().group("address"))?, 1);
    /// assert_eq!(by_hand.query().groups()?[0].name, "address"); // it is still buried
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    ///
    /// # Example: hand a task to a person, and rename the tube of the others
    /// ```
    /// use tubewell::{Filter, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let orders = store.tube("orders")?;
    /// let by_hand = store.tube("by hand")?;
    /// let id = orders.put("order 7")?.id;
    /// orders.put_many(["order 8", "order 9"])?;
    /// assert_eq!(orders.admin().move_to(&by_hand, id)?, 1);
    /// assert_eq!(by_hand.try_take()?.unwrap().id(), id);
    ///
    /// let new = store.tube("orders of today")?;
    /// assert_eq!(orders.admin().move_to(&new, Filter::new())?, 2);
    /// store.drop_tube("orders")?;
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "transfer")]
    #[doc(alias = "rename")]
    #[doc(alias = "merge")]
    #[doc(alias = "redrive")]
    pub fn move_to<U, N: Mode>(
        &self,
        to: &Tube<U, N>,
        filter: impl Into<Filter>,
    ) -> M::Answer<u64> {
        self.edit(self.tube.other(to).map(|to| (filter.into(), TaskEdit::Move(to))))
    }

    /// Ends the claims on the taken tasks that meet all conditions of `filter`, whichever sessions have them,
    /// and returns how many. The tasks are ready in their old places, and later calls of the holders return
    /// [`NotTaken`](crate::Error::NotTaken). [`Filter::new`] selects all taken tasks, an id one, and an
    /// [owner](Filter::owner) those of a worker. The attempts count, as after
    /// [`Claim::release`](crate::Claim::release); [`revoke`](crate::Admin::revoke) forgives them.
    ///
    /// Most claims are in memory only, and end with the process anyway: the call does not block for them.
    /// What is stored is the end of a claim that was [parked](crate::Claim::park), the burial of a task whose
    /// last [attempt](crate::TubeOptions::max_attempts) this was, and the delay of a task whose moment is yet
    /// to come: for these, the call blocks for a flush, in a written tube for a write. It ends up to 512
    /// claims under one hold of the lock. Tasks that are taken meanwhile
    /// stay taken.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): a state other than taken, or a condition that the call does not use,
    /// which the error names. Nothing changed. Those of every call; some claims may have ended.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, Filter};
    /// # use tubewell::Store;
    /// # let store = Store::in_memory()?;
    /// # let tube = store.tube("jobs")?;
    ///
    /// let id = tube.put("work")?.id;
    /// let hung = tube.try_take()?.unwrap();
    /// assert_eq!(tube.admin().release(Filter::new())?, 1);
    /// assert_eq!(hung.ack(), Err(Error::NotTaken { id }));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn release(&self, filter: impl Into<Filter>) -> M::Answer<u64> {
        self.end_claims(filter.into(), false)
    }

    /// As [`release`](crate::Admin::release), and forgives the attempts: for claims that must end
    /// through no fault of the tasks, such as those of a worker that hangs or is replaced.
    ///
    /// # Errors
    /// Those of [`release`](crate::Admin::release).
    ///
    /// # Example: take a task away from a worker that hangs
    /// ```
    /// use tubewell::{Error, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.open_tube("jobs", TubeOptions::new().max_attempts(1))?;
    /// let id = jobs.put("work")?.id;
    /// let hanging = jobs.take()?;
    /// assert_eq!(jobs.admin().revoke(id)?, 1);
    /// assert_eq!(hanging.ack(), Err(Error::NotTaken { id }));
    /// jobs.take()?.ack()?; // its only attempt is still there
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "steal")]
    #[doc(alias = "unlock")]
    pub fn revoke(&self, filter: impl Into<Filter>) -> M::Answer<u64> {
        self.end_claims(filter.into(), true)
    }

    fn edit(&self, edit: Result<(Filter, TaskEdit)>) -> M::Answer<u64> {
        self.tube.edit_selected(edit, None)
    }

    fn end_claims(&self, filter: Filter, forgive: bool) -> M::Answer<u64> {
        let left = filter.limit;
        let verb = Revoke { filter, forgive, after: None, limit: 0 };
        self.tube.in_steps(Ok(Selecting::new(verb, left)))
    }
}

impl<T, M: Mode> Tube<T, M> {
    /// Changes the tasks that meet the filter, with ids below `below`, or else those that there are when the call
    /// begins. Returns how many.
    pub(in crate::handle) fn edit_selected(
        &self,
        edit: Result<(Filter, TaskEdit)>,
        below: Option<u64>,
    ) -> M::Answer<u64> {
        self.in_steps(edit.map(|(filter, edit)| {
            let left = filter.limit;
            let verb = EditTasks { filter, edit, after: None, below, limit: 0 };
            Selecting { below, ..Selecting::new(verb, left) }
        }))
    }
}

/// A call on selected tasks that is made for one step after the other.
trait OfSelected: Begin<On = InTube, Answer = SelectStep> + Clone {
    /// The call for the next step: behind a task, for up to this many, put before the first step.
    fn at(&self, after: Option<Cursor>, below: Option<u64>, limit: u64) -> Self;
}

impl OfSelected for EditTasks {
    fn at(&self, after: Option<Cursor>, below: Option<u64>, limit: u64) -> EditTasks {
        EditTasks { after, below, limit, ..self.clone() }
    }
}

impl OfSelected for Revoke {
    fn at(&self, after: Option<Cursor>, _: Option<u64>, limit: u64) -> Revoke {
        Revoke { after, limit, ..self.clone() }
    }
}

/// How far a call on selected tasks has come.
struct Selecting<V> {
    verb: V,
    /// How many more tasks it may change.
    left: u64,
    changed: u64,
    /// Where the next step begins.
    after: Option<Cursor>,
    /// Where the ids of tasks began that were put after the first step; `None` before that.
    below: Option<u64>,
    is_over: bool,
    failed: Result<()>,
}

impl<V> Selecting<V> {
    fn new(verb: V, limit: Option<u64>) -> Selecting<V> {
        let left = limit.unwrap_or(u64::MAX);
        let (after, below, is_over) = (None, None, false);
        Selecting { verb, left, changed: 0, after, below, is_over, failed: Ok(()) }
    }
}

impl<V: OfSelected> Steps for Selecting<V> {
    type Verb = V;
    type Done = u64;

    fn next(&mut self) -> Option<V> {
        (!self.is_over).then(|| self.verb.at(self.after.clone(), self.below, self.left))
    }

    fn note(&mut self, step: SelectStep) {
        let SelectStep { changed, bound, next, below, failed } = step;
        if self.below.is_none() {
            // New tasks do not keep the call going for ever.
            self.left = self.left.min(bound);
            self.below = Some(below);
        }
        self.left -= changed.min(self.left);
        self.changed += changed;
        self.is_over = next.is_none() || self.left == 0;
        self.after = next;
        if self.failed.is_ok() {
            self.failed = failed;
        }
    }

    fn done(self) -> Result<u64> {
        self.failed.map(|()| self.changed)
    }
}
