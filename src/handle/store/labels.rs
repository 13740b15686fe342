//! Tasks of any tube: listings, tags, and tasks by their ids.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::sync::Arc;

use super::Store;
use crate::core::list::{Find, ListInStore, TagCounts};
use crate::core::{FindStep, TAG_COUNTS_PAGE};
use crate::handle::in_steps::{Steps, begin_steps, run_steps};
use crate::values::filter::Filter;
use crate::values::listing::{Page, TagCount};
use crate::values::task::{Cursor, TaskInfo};
use crate::{Mode, Result};

impl<M: Mode> Store<M> {
    /// The tasks of any tube that meet all conditions of `filter`, a page at a time: up to `limit` of them,
    /// after the cursor `after`. The next page begins at [`Page::next`], which is `None` after the last page.
    ///
    /// | the filter has | the tasks, in which order |
    /// |---|---|
    /// | a [`tube`](Filter::tube) | those of [`Query::list`](crate::Query::list) |
    /// | a [`tag`](Filter::tag), and no tube | those of all tubes with the tag, by their ids, at most 1,000 in a page |
    /// | neither | those of all tubes, one tube after the other by name (backwards with `newest_first`); within a tube as [`Query::list`](crate::Query::list) has them |
    ///
    /// A page may have fewer tasks than `limit` although there are more. One call looks at 10,000 tasks and 1,000 tubes
    /// at most, and at some 600 tubes that have tasks in the state, or 100 if it lists all states; tasks that do not meet the conditions are skipped, and so are the rows of truncated and dropped
    /// tubes until they are removed. A tube whose counts say that it has no task in the wanted state costs no read. A
    /// tube that is created between two pages is listed if its name is behind the cursor. A task that
    /// gets or loses the tag between two pages is listed if its id is behind the cursor. A task that stays as it is is
    /// listed once.
    /// No tag is refused: of one that no task has, the page is empty. The call does not block, and includes changes
    /// whose flush is not done.
    ///
    /// # Errors
    /// [`Invalid`](crate::Error::Invalid): the cursor is of another listing, the filter has a
    /// condition that the listing does not use, which the error names, or no task can meet its conditions. [`TubeNotFound`](crate::Error::TubeNotFound).
    /// [`Closed`](crate::Error::Closed); [`Unavailable`](crate::Error::Unavailable).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Filter, Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// for name in ["mails", "reports"] {
    ///     let tube = store.tube(name)?;
    ///     tube.put(Put::new("work").tag("customer 7"))?;
    /// }
    /// let page = store.list(Filter::new().tag("customer 7"), None, 100)?;
    /// let tubes: Vec<&str> = page.items.iter().map(|task| &*task.tube).collect();
    /// assert_eq!(tubes, ["mails", "reports"]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    ///
    /// # Example: the dead letters of all tubes
    /// ```
    /// use tubewell::{Store, TaskState};
    ///
    /// let store = Store::in_memory()?;
    /// for name in ["mails", "reports"] {
    ///     let tube = store.tube(name)?;
    ///     let id = tube.put("work")?.id;
    ///     tube.admin().bury(id, None)?;
    /// }
    /// let (mut letters, mut after) = (Vec::new(), None);
    /// loop {
    ///     let page = store.list(TaskState::Buried, after, 100)?;
    ///     letters.extend(page.items);
    ///     after = page.next;
    ///     if after.is_none() {
    ///         break;
    ///     }
    /// }
    /// assert_eq!(letters.len(), 2);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "label")]
    #[doc(alias = "dead letter")]
    #[doc(alias = "pagination")]
    pub fn list(
        &self,
        filter: impl Into<Filter>,
        after: Option<Cursor>,
        limit: usize,
    ) -> M::Answer<Page<TaskInfo>> {
        self.make(ListInStore { filter: filter.into(), after, limit })
    }

    /// The tags that several tasks have, with their numbers of tasks: those that are used most first,
    /// and of those with the same number the first by name. Up to `limit` of them, after the tag
    /// `after`, which is the last one of the page before.
    ///
    /// Reads the counts of all tags, 10,000 at a time: its time grows with the number of tags, not with
    /// that of tasks. It does not block, and includes changes whose flush is not done. A count that
    /// changes between two pages may put its tag into none of them or into both.
    ///
    /// # Errors
    /// [`Closed`](crate::Error::Closed); [`Unavailable`](crate::Error::Unavailable).
    ///
    /// # Example
    /// ```
    /// use tubewell::{Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// for tags in [["ann", "news"], ["bob", "news"], ["ann", "news"]] {
    ///     mails.put(tags.into_iter().fold(Put::new("mail"), Put::tag))?;
    /// }
    /// let tags = store.tags(None, 10)?;
    /// let counts: Vec<_> = tags.iter().map(|tag| (&*tag.tag, tag.tasks)).collect();
    /// assert_eq!(counts, [("news", 3), ("ann", 2)]);
    /// assert_eq!(store.tags(tags.first(), 10)?.len(), 1);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "label")]
    pub fn tags(&self, after: Option<&TagCount>, limit: usize) -> M::Answer<Vec<TagCount>> {
        let (store, after) = (self.to_async(), after.map(rank));
        M::run(async move {
            let mut first = BTreeSet::new();
            let mut last: Option<String> = None;
            loop {
                let page = store.make(TagCounts { after: last.as_deref().map(Box::from) }).await?;
                let is_full = page.len() >= TAG_COUNTS_PAGE;
                last = page.last().filter(|_| is_full).map(|tag| tag.tag.clone());
                for count in page.iter().filter(|count| count.tasks > 1) {
                    let rank = rank(count);
                    if after.as_ref().is_none_or(|after| rank > *after) {
                        first.insert(rank);
                        if first.len() > limit {
                            first.pop_last();
                        }
                    }
                }
                if last.is_none() {
                    let counts = first.into_iter();
                    return Ok(counts
                        .map(|(Reverse(tasks), tag)| TagCount { tag, tasks })
                        .collect());
                }
            }
        })
    }

    /// The task with this id, with its tube; `None` if no tube has it.
    ///
    /// Looks into one tube after the other, up to 1,000 at a time: its time grows with the number of
    /// tubes. [`by_key`](Store::by_key) finds a task with one look-up. If the last change of the task is
    /// still to be flushed, the call blocks for that flush, so that in a tube with durability flush it
    /// returns nothing that a crash could undo. If there is no such task, it blocks for the flush of
    /// changes of flushed tubes that is under way. In a store with more
    /// tubes, a task that moves during the call may not be found.
    ///
    /// # Errors
    /// [`Corrupt`](crate::Error::Corrupt) if the task is damaged. [`Closed`](crate::Error::Closed);
    /// [`Unavailable`](crate::Error::Unavailable).
    ///
    /// # Example
    /// ```
    /// use tubewell::Store;
    ///
    /// let store = Store::in_memory()?;
    /// let mails = store.tube("mails")?;
    /// let id = mails.put("to: ann")?.id;
    /// assert_eq!(store.find(id)?.unwrap().tube, "mails");
    /// assert_eq!(store.find(id + 1)?, None);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn find(&self, id: u64) -> M::Answer<Option<TaskInfo>> {
        M::either(
            Finding { id, after: None, found: None, is_over: false },
            |steps| {
                let store = self.to_blocking();
                run_steps(steps, move |verb| store.make(verb))
            },
            |steps| {
                let store = self.to_async();
                begin_steps(Ok(steps), move |verb| store.make(verb))
            },
        )
    }
}

/// The order of tags: those of the most tasks first.
fn rank(count: &TagCount) -> (Reverse<u64>, String) {
    (Reverse(count.tasks), count.tag.clone())
}

/// A search for a task through the tubes of a store.
struct Finding {
    id: u64,
    after: Option<Arc<str>>,
    found: Option<TaskInfo>,
    is_over: bool,
}

impl Steps for Finding {
    type Verb = Find;
    type Done = Option<TaskInfo>;

    fn next(&mut self) -> Option<Find> {
        (!self.is_over).then(|| Find { id: self.id, after: self.after.take() })
    }

    fn note(&mut self, step: FindStep) {
        self.is_over = step.task.is_some() || step.next.is_none();
        (self.found, self.after) = (step.task, step.next);
    }

    fn done(self) -> Result<Option<TaskInfo>> {
        Ok(self.found)
    }
}
