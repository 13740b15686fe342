//! Tags of the tasks of a tube, and listings on conditions.

use super::{Admin, Query};
use crate::core::distinct_tags;
use crate::core::list::{AddTags, List, ListBodies, PeekReady, RemoveTags};
use crate::values::task::{Cursor, Task, TaskInfo};
use crate::{Filter, Mode, Page, Receipt};

impl<T, M: Mode> Admin<'_, T, M> {
    /// Adds tags to a task, behind those that it has, whatever its state and whichever session has taken
    /// it. A tag that it has is skipped, so that the call can be repeated (it is idempotent). A task has
    /// up to 32 tags of 1 to 255 bytes; see [`Put::tag`](crate::Put::tag).
    ///
    /// Once this returns, the task has the tags after a killed process and a power cut too. The call
    /// blocks for a flush, and no take gets the task before that. A claim on the task stays; its
    /// [`tags`](crate::Claim::tags) are those of the take.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound); [`Invalid`](crate::Error::Invalid): a tag is empty or too
    /// long, or there would be more than 32; [`NotReady`](crate::Error::NotReady): it is a schedule,
    /// whose runs get tags by [`Schedules::change_task`](crate::Schedules::change_task). Nothing changed.
    /// [`OutcomeUnknown`](crate::Error::OutcomeUnknown) as in [`set_priority`](crate::Admin::set_priority).
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let id = mails.put("to: ann")?.id;
    /// mails.admin().add_tags(id, ["tracked", "ann"])?;
    /// mails.admin().remove_tags(id, ["ann"])?;
    /// assert_eq!(mails.query().task(id)?.info.tags, ["tracked"]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "label")]
    pub fn add_tags(
        &self,
        id: u64,
        tags: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> M::Answer<Receipt> {
        self.tube.make(AddTags { id, tags: distinct_tags(tags) })
    }

    /// Removes tags of a task, whatever its state and whichever session has taken it. A tag that it does
    /// not have is skipped. As [`add_tags`](crate::Admin::add_tags) otherwise.
    ///
    /// # Errors
    /// Those of [`add_tags`](crate::Admin::add_tags).
    ///
    /// # Example
    /// See [`add_tags`](crate::Admin::add_tags).
    #[doc(alias = "untag")]
    pub fn remove_tags(
        &self,
        id: u64,
        tags: impl IntoIterator<Item = impl AsRef<str>>,
    ) -> M::Answer<Receipt> {
        self.tube.make(RemoveTags { id, tags: distinct_tags(tags) })
    }
}

impl<T, M: Mode> Query<'_, T, M> {
    /// Returns the tasks that meet all conditions of `filter`, a page at a time: up to `limit` of them, after
    /// the cursor `after`. `tube.query().list(TaskState::Buried, None, 100)` lists the tasks in one state.
    ///
    /// With a tag, tasks come in the order of their ids. With a failure group, in the order of their burials.
    /// With [`soonest_first`](Filter::soonest_first), in the order in which they become ready. Otherwise
    /// state by state, and in the order of takes within a state: the ready and the taken tasks first, then
    /// the delayed, buried, blocked and done ones, and the [schedules](crate::Tube::schedule) last. Ready
    /// tasks of a tube with sub-queues are listed sub-queue by sub-queue. Done tasks are listed in the order
    /// of their ends, as are the buried tasks of a tube that [limits](crate::TubeOptions::keep_buried) how
    /// many it keeps.
    ///
    /// The next page begins at [`Page::next`], which is `None` after the last page. One call looks at
    /// 10,000 tasks at most, and at 1,000 of a tag, a group or times, and ends the page there: a page may
    /// have fewer tasks than `limit`, or none, although there are more. With a `limit` of 0 the page is
    /// empty, and its `next` is where the page would have begun. The cursor is valid for filters
    /// with the same order: the same tag; without a tag, the same group; without both, the same state.
    ///
    /// A task that does not change is listed once, whatever happens to other tasks between two pages. A task
    /// that changes its state may be in no page or in both. A task that cannot be read is left out and
    /// counted ([`Page::damaged`]). The call does not block, and includes changes whose flush is not done.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the cursor is of another listing, the filter has a condition
    /// that a listing does not use, which the error names, or no task can meet its conditions: a failure
    /// group has buried tasks only, and an owner has taken tasks only.
    ///
    /// # Example: all tasks with a tag, page by page
    /// ```
    /// use tubewell::{Filter, Put, TaskState, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// for to in ["ann", "bob", "ann"] {
    ///     mails.put(Put::new("mail").tag(to))?;
    /// }
    /// mails.admin().bury(2, None)?;
    /// let (ready, mut after) = (Filter::new().tag("ann").state(TaskState::Ready), None);
    /// loop {
    ///     let page = mails.query().list(&ready, after, 100)?;
    ///     page.items.iter().for_each(|task| assert_eq!(task.id, 0));
    ///     after = page.next;
    ///     if after.is_none() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(mails.query().list(TaskState::Buried, None, 100)?.items[0].id, 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "pagination")]
    #[doc(alias = "search")]
    pub fn list(
        &self,
        filter: impl Into<Filter>,
        after: Option<Cursor>,
        limit: usize,
    ) -> M::Answer<Page<TaskInfo>> {
        self.tube.make(List { filter: filter.into(), after, limit })
    }

    /// As [`list`](crate::Query::list), with the bodies of the tasks, and the results of those that are done. A page
    /// ends with the task with which it has 4 MiB of bodies, and before a result with which it would have more.
    ///
    /// # Errors
    /// Those of [`list`](crate::Query::list).
    ///
    /// # Example
    /// ```
    /// use tubewell::{TaskState, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// mails.put_many(["to: ann", "to: bob"])?;
    /// let page = mails.query().tasks(TaskState::Ready, None, 10)?;
    /// assert_eq!(page.items[1].body, b"to: bob");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn tasks(
        &self,
        filter: impl Into<Filter>,
        after: Option<Cursor>,
        limit: usize,
    ) -> M::Answer<Page<Task<T>>> {
        let coder = self.tube.coder.clone();
        let page = self.tube.make(ListBodies { filter: filter.into(), after, limit });
        M::map(page, move |Page { items, next, damaged }| {
            let items = items.into_iter().map(|task| task.with_coder(coder.clone())).collect();
            Page { items, next, damaged }
        })
    }

    /// Returns the next tasks that takes would get now, in their order, and takes nothing: up to `count`
    /// of them, at most 1,000.
    ///
    /// There are none while the tube is [paused](crate::Admin::pause), and no more than its limits of taken
    /// tasks and of takes let through now. In a tube with sub-queues, there is one task at most of
    /// each sub-queue: the next one. A task with a change that is still to be flushed is left out,
    /// as no take gets it. The call does not block.
    ///
    /// # Errors
    /// [`DriverUnknown`](crate::Error::DriverUnknown), and those of every call.
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put_many(["a", "b", "c"])?;
    /// let next: Vec<u64> = jobs.query().next(2)?.iter().map(|task| task.id).collect();
    /// assert_eq!(jobs.try_take()?.unwrap().id(), next[0]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn next(&self, count: usize) -> M::Answer<Vec<TaskInfo>> {
        self.tube.make(PeekReady { count })
    }
}
