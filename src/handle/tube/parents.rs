//! Parents: tasks that must be done before a task can be taken.

use super::{Admin, Query, Tube};
use crate::core::list::{AddParents, Children, CountParents, Parents, RemoveParents};
use crate::core::verb::TubeName;
use crate::handle::in_steps::Steps;
use crate::values::parent_counts::ParentCounts;
use crate::{Error, Mode, Put, Receipt, Result};

impl<B> Put<B> {
    /// Parents of the task: it is blocked until each of these tasks of `tube` is done. Default: none.
    /// May be called for several tubes. Tubes of any driver.
    ///
    /// A parent is done when it is acked or resolved. One that is over already is not waited for: it
    /// was acked, or deleted, or has expired before. The task is then ready, or delayed if its delay
    /// has not elapsed: the delay and the ttl begin with the put.
    /// [`on_parent`](Put::on_parent) says what happens if a parent is buried or removed.
    ///
    /// The put returns [`NotFound`](crate::Error::NotFound) for an id that was never assigned, and
    /// [`Invalid`](crate::Error::Invalid) for more than 10,000 parents, or if only one of the two
    /// tubes is temporary. A parent that has left `tube` for another tube of the store is found
    /// there.
    ///
    /// # Example: a report after its parts
    /// ```
    /// use tubewell::{Put, TaskState, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let parts = store.tube("parts")?;
    /// let reports = store.tube("reports")?;
    /// let ids = parts.put_many(["a", "b"])?.into_iter().map(|receipt| receipt.id);
    /// let report = reports.put(Put::new("a and b").after(&parts, ids))?;
    /// assert_eq!(report.state, TaskState::Blocked);
    /// while let Some(part) = parts.try_take()? {
    ///     part.ack()?;
    /// }
    /// assert_eq!(reports.try_take()?.unwrap().id(), report.id);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "dependency")]
    #[doc(alias = "depends")]
    pub fn after<T, M: Mode>(
        mut self,
        tube: &Tube<T, M>,
        parents: impl IntoIterator<Item = u64>,
    ) -> Put<B> {
        let parents = (tube.head.name.clone(), parents.into_iter().collect());
        self.options.after.get_or_insert_default().parents.push(parents);
        self
    }
}

impl<T, M: Mode> Admin<'_, T, M> {
    /// Adds parents, tasks of the tube `of`, to a task of this tube that is ready, delayed or blocked:
    /// it is blocked until they are done too.
    ///
    /// Parents that are over, and those that the task has already, change nothing. Once this returns,
    /// the task waits for its parents after a killed process and a power cut too. The call blocks for
    /// a flush.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task, or a parent was never assigned.
    /// [`NotReady`](crate::Error::NotReady): the task is taken, buried or done.
    /// [`Cycle`](crate::Error::Cycle): one of the parents waits for the task.
    /// [`Invalid`](crate::Error::Invalid): more than 10,000 parents, more than 10,000 edges above
    /// them, a tube of another store, or only one of the two tubes is temporary. Nothing changed.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, TaskState, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let (first, second) = (jobs.put("first")?.id, jobs.put("second")?.id);
    /// assert_eq!(jobs.admin().add_parents(second, &jobs, &[first])?.state, TaskState::Blocked);
    /// assert_eq!(jobs.admin().add_parents(first, &jobs, &[second]), Err(Error::Cycle { id: first }));
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "depend")]
    pub fn add_parents<U, N: Mode>(
        &self,
        id: u64,
        of: &Tube<U, N>,
        parents: &[u64],
    ) -> M::Answer<Receipt> {
        self.tube.make_checked(self.tube.add_parents_verb(id, of, parents))
    }

    /// Removes parents of a task: those with these ids, or all with `None`. A blocked task with no
    /// parent left is ready, or delayed if its delay has not elapsed.
    ///
    /// Ids that are no parents of the task change nothing. Once this returns, the task does not wait
    /// for these parents after a killed process and a power cut too. The call blocks for a flush.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task. Nothing changed.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Put, TaskState, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let first = jobs.put("first")?.id;
    /// let second = jobs.put(Put::new("second").after(&jobs, [first]))?.id;
    /// assert_eq!(jobs.admin().remove_parents(second, None)?.state, TaskState::Ready);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "undepend")]
    pub fn remove_parents(&self, id: u64, parents: Option<&[u64]>) -> M::Answer<Receipt> {
        self.tube.make(RemoveParents { id, parents: parents.map(<[u64]>::to_vec) })
    }
}

impl<T, M: Mode> Query<'_, T, M> {
    /// The parents of a task that are not done, in the order of their ids. They may be in any tube.
    ///
    /// Does not block. Includes changes whose flush is not done.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// let first = jobs.put("first")?.id;
    /// let second = jobs.put(Put::new("second").after(&jobs, [first]))?.id;
    /// assert_eq!(jobs.query().parents(second)?, [first]);
    /// assert_eq!(jobs.query().children(first)?, [second]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "dependencies")]
    pub fn parents(&self, id: u64) -> M::Answer<Vec<u64>> {
        self.tube.make(Parents { id })
    }

    /// How far the tasks are that this task waits for: how many are done, have failed, are worked on, or are left.
    ///
    /// It tells of all parents of the put or of the [join](crate::Job::join), and of those that were
    /// [added](Admin::add_parents). A task that waits for none any more has no counts, unless it was put with a rule for
    /// parents ([`Put::on_parent`]), and a task that is done has none: to show a progress to its end, put the task with
    /// [`OnParent::Release`](crate::OnParent::Release). A [restored](crate::expert::Restore) task and one of an import count from then on.
    ///
    /// Changes nothing and does not block. Includes changes whose flush is not done. The store looks at
    /// 1000 open parents at a time: with more of them, `taken` and `buried` are not those of one moment.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Put, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let scenes = store.tube("scenes")?;
    /// let films = store.tube("films")?;
    /// let ids: Vec<u64> = scenes.put_many(["a", "b", "c", "d"])?.iter().map(|put| put.id).collect();
    /// let film = films.put(Put::new("cut a, b, c and d").after(&scenes, ids))?.id;
    ///
    /// scenes.try_take()?.unwrap().ack()?;
    /// scenes.try_take()?.unwrap().bury(None)?;
    /// let working = scenes.try_take()?.unwrap();
    /// let batch = films.query().parent_counts(film)?;
    /// assert_eq!((batch.done, batch.total), (1, 4));
    /// assert_eq!((batch.open, batch.taken, batch.buried), (3, 1, 1)); // it waits for the buried one too
    /// # drop(working);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "batch")]
    #[doc(alias = "progress")]
    pub fn parent_counts(&self, id: u64) -> M::Answer<ParentCounts> {
        self.tube.in_steps(Ok(Counting { id, counts: ParentCounts::default(), next: Some(None) }))
    }

    /// The tasks that wait for this task, in the order of their ids: the first 10,000. They may be in
    /// any tube.
    ///
    /// Does not block. Includes changes whose flush is not done.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task.
    #[doc(alias = "dependents")]
    pub fn children(&self, id: u64) -> M::Answer<Vec<u64>> {
        self.tube.make(Children { id })
    }
}

impl<T, M: Mode> Tube<T, M> {
    pub(crate) fn add_parents_verb<U, N: Mode>(
        &self,
        id: u64,
        of: &Tube<U, N>,
        parents: &[u64],
    ) -> Result<AddParents> {
        if !self.handle.is_same_store(&of.handle) {
            return Err(Error::invalid("a task and its parents must be in the same store"));
        }
        Ok(AddParents { id, of: TubeName::from(&of.head), parents: parents.to_vec() })
    }
}

/// How far the open parents of a task were counted.
struct Counting {
    id: u64,
    counts: ParentCounts,
    /// After which parent the next call goes on; `None` if there is none.
    next: Option<Option<u64>>,
}

impl Steps for Counting {
    type Verb = CountParents;
    type Done = ParentCounts;

    fn next(&mut self) -> Option<CountParents> {
        let after = self.next.take()?;
        Some(CountParents { id: self.id, after })
    }

    fn note(&mut self, (counts, next): (ParentCounts, Option<u64>)) {
        let ParentCounts { taken, buried, .. } = self.counts;
        self.counts =
            ParentCounts { taken: taken + counts.taken, buried: buried + counts.buried, ..counts };
        self.next = next.map(Some);
    }

    fn done(self) -> Result<ParentCounts> {
        Ok(self.counts)
    }
}
