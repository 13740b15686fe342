//! The steps of a task, for any caller.

use super::Tube;
use crate::core::list::Steps;
use crate::wait::CallFuture;
use crate::{Result, Step};

impl<T> Tube<T> {
    /// Returns the [steps](crate::Claim::step) of a task that are stored, by name, whatever its state
    /// and whichever session has taken it. They go when the task ends.
    ///
    /// Changes nothing. If a change of the task is still to be flushed, the call blocks for that flush,
    /// so that in a tube with durability flush it returns nothing that a crash could undo. Otherwise it
    /// does not block.
    /// [`steps_async`](Tube::steps_async) blocks no thread.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task;
    /// [`Corrupt`](crate::Error::Corrupt) if the task or a step is damaged.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, FIFO, Store, TubeOptions};
    ///
    /// let store = Store::in_memory()?;
    /// let films = store.create_tube("films", FIFO, TubeOptions::new())?;
    /// let id = films.put("cut")?.id;
    /// films.try_take()?.unwrap().step("scenes", || Ok::<u32, Error>(12))?;
    /// let names = films.steps(id)?.into_iter().map(|step| step.name);
    /// assert_eq!(names.collect::<Vec<_>>(), ["scenes"]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn steps(&self, id: u64) -> Result<Vec<Step>> {
        let mut steps = Vec::new();
        loop {
            let page = self.make(&next_steps(id, &steps))?;
            if page.add_to(&mut steps) {
                return Ok(steps);
            }
        }
    }

    /// As [`steps`](Tube::steps), as a future that blocks no thread. Its first poll reads the steps
    /// from the file.
    ///
    /// # Errors
    /// The future resolves to those of [`steps`](Tube::steps).
    pub fn steps_async(&self, id: u64) -> CallFuture<Vec<Step>> {
        let tube = self.to_bytes();
        CallFuture::new(async move {
            let mut steps = Vec::new();
            loop {
                let page = tube.make_async(next_steps(id, &steps)).await?;
                if page.add_to(&mut steps) {
                    return Ok(steps);
                }
            }
        })
    }
}

/// The verb that lists the steps behind those that are known.
fn next_steps(id: u64, known: &[Step]) -> Steps {
    Steps { id, after: known.last().map(|last| last.name.as_str().into()) }
}
