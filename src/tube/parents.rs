//! Parents: tasks that must be done before a task can be taken.

use super::Tube;
use crate::core::list::{AddParents, Children, Parents, RemoveParents};
use crate::core::verb::TubeName;
use crate::{Error, Receipt, Result};

impl<T> Tube<T> {
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
    /// use tubewell::{Error, FIFO, TaskState, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// let (first, second) = (jobs.put("first")?.id, jobs.put("second")?.id);
    /// assert_eq!(jobs.add_parents(second, &jobs, &[first])?.state, TaskState::Blocked);
    /// assert_eq!(jobs.add_parents(first, &jobs, &[second]), Err(Error::Cycle { id: first }));
    /// # Ok::<(), Error>(())
    /// ```
    #[doc(alias = "depend")]
    pub fn add_parents<U>(&self, id: u64, of: &Tube<U>, parents: &[u64]) -> Result<Receipt> {
        self.make(&self.add_parents_verb(id, of, parents)?)
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
    /// use tubewell::{FIFO, Put, TaskState, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// let first = jobs.put("first")?.id;
    /// let second = jobs.put(Put::new("second").after(&jobs, [first]))?.id;
    /// assert_eq!(jobs.remove_parents(second, None)?.state, TaskState::Ready);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "undepend")]
    pub fn remove_parents(&self, id: u64, parents: Option<&[u64]>) -> Result<Receipt> {
        self.make(&RemoveParents { id, parents: parents.map(<[u64]>::to_vec) })
    }

    /// The parents of a task that are not done, in the order of their ids. They may be in any tube.
    ///
    /// Does not block. Includes changes whose flush is not done.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task.
    ///
    /// # Example
    /// ```
    /// use tubewell::{FIFO, Put, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFO, TubeOptions::new())?;
    /// let first = jobs.put("first")?.id;
    /// let second = jobs.put(Put::new("second").after(&jobs, [first]))?.id;
    /// assert_eq!(jobs.parents(second)?, [first]);
    /// assert_eq!(jobs.children(first)?, [second]);
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    #[doc(alias = "dependencies")]
    pub fn parents(&self, id: u64) -> Result<Vec<u64>> {
        self.make(&Parents { id })
    }

    /// The tasks that wait for this task, in the order of their ids: the first 10,000. They may be in
    /// any tube.
    ///
    /// Does not block. Includes changes whose flush is not done.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task.
    #[doc(alias = "dependents")]
    pub fn children(&self, id: u64) -> Result<Vec<u64>> {
        self.make(&Children { id })
    }

    pub(crate) fn add_parents_verb<U>(
        &self,
        id: u64,
        of: &Tube<U>,
        parents: &[u64],
    ) -> Result<AddParents> {
        if !self.handle.is_same_store(&of.handle) {
            return Err(Error::invalid("a task and its parents must be in the same store"));
        }
        Ok(AddParents { id, of: TubeName::from(&of.head), parents: parents.to_vec() })
    }
}
