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
        M::map(self.first_steps(id, usize::MAX), |(steps, _)| steps)
    }

    /// Returns the first `limit` [steps](Query::steps) of a task by name, and how many further ones it has, whose
    /// values are not read. With a limit of 0, it counts the steps.
    ///
    /// Changes nothing, and blocks as [`steps`](Query::steps) does.
    ///
    /// # Errors
    /// Those of [`steps`](Query::steps). A step that is damaged is an error if it is among the first ones.
    ///
    /// # Example
    /// ```
    /// use tubewell::{Error, Store};
    ///
    /// let store = Store::in_memory()?;
    /// let films = store.tube("films")?;
    /// let id = films.put("cut")?.id;
    /// let film = films.try_take()?.unwrap();
    /// for scene in ["scene 1", "scene 2", "scene 3"] {
    ///     film.step(scene, || Ok::<u32, Error>(24))?;
    /// }
    /// let (steps, left) = films.query().first_steps(id, 1)?;
    /// assert_eq!((steps[0].name.as_str(), left), ("scene 1", 2));
    /// assert_eq!(films.query().first_steps(id, 0)?, (Vec::new(), 3));
    /// # Ok::<(), Error>(())
    /// ```
    pub fn first_steps(&self, id: u64, limit: usize) -> M::Answer<(Vec<Step>, usize)> {
        self.tube.in_steps(Ok(Reading { id, limit, steps: Vec::new(), left: 0, is_over: false }))
    }
}

/// How far the steps of a task were read.
struct Reading {
    id: u64,
    limit: usize,
    steps: Vec<Step>,
    /// How many follow those that were read.
    left: usize,
    is_over: bool,
}

impl Steps for Reading {
    type Verb = StepsOf;
    type Done = (Vec<Step>, usize);

    fn next(&mut self) -> Option<StepsOf> {
        let after = self.steps.last().map(|last| last.name.as_str().into());
        let most = (self.limit < usize::MAX).then(|| self.limit.saturating_sub(self.steps.len()));
        (!self.is_over).then_some(StepsOf { id: self.id, after, most })
    }

    fn note(&mut self, page: StepPage) {
        self.left = page.left;
        self.is_over = page.add_to(&mut self.steps) || self.steps.len() >= self.limit;
        // An owner of another version may send more.
        self.left += self.steps.len().saturating_sub(self.limit);
        self.steps.truncate(self.limit);
    }

    fn done(self) -> Result<(Vec<Step>, usize)> {
        Ok((self.steps, self.left))
    }
}
