//! The steps of a task, for any caller.

use super::Query;
use crate::core::StepPage;
use crate::core::list::Steps as StepsOf;
use crate::handle::in_steps::Steps;
use crate::values::step::Step;
use crate::{Mode, Result};

impl<T, M: Mode> Query<'_, T, M> {
    /// Returns the [steps](crate::Claim::step) of a task that are stored, by name, whatever its state
    /// and whichever session has taken it. They go when the task ends.
    ///
    /// Changes nothing. If a change of the task is still to be flushed, the call blocks for that flush,
    /// so that in a tube with durability flush it returns nothing that a crash could undo. Otherwise it
    /// does not block.
    ///
    /// # Errors
    /// [`NotFound`](crate::Error::NotFound): there is no such task;
    /// [`Corrupt`](crate::Error::Corrupt) if the task or a step is damaged.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let films = store.tube("films")?;
    /// let id = films.put("cut")?.id;
    /// films.try_take()?.unwrap().step("scenes", || Ok::<u32, Error>(12))?;
    /// let names = films.query().steps(id)?.into_iter().map(|step| step.name);
    /// assert_eq!(names.collect::<Vec<_>>(), ["scenes"]);
    /// # Ok::<(), Error>(())
    /// ```
    pub fn steps(&self, id: u64) -> M::Answer<Vec<Step>> {
        self.tube.in_steps(Ok(Reading { id, steps: Vec::new(), is_over: false }))
    }
}

/// How far the steps of a task were read.
struct Reading {
    id: u64,
    steps: Vec<Step>,
    is_over: bool,
}

impl Steps for Reading {
    type Verb = StepsOf;
    type Done = Vec<Step>;

    fn next(&mut self) -> Option<StepsOf> {
        let after = self.steps.last().map(|last| last.name.as_str().into());
        (!self.is_over).then_some(StepsOf { id: self.id, after })
    }

    fn note(&mut self, page: StepPage) {
        self.is_over = page.add_to(&mut self.steps);
    }

    fn done(self) -> Result<Vec<Step>> {
        Ok(self.steps)
    }
}
