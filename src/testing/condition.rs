//! A condition of an expectation.

use crate::{Result, Task};

/// A condition that a task meets or not.
pub(super) struct Condition<'a, T: 'static> {
    /// The condition as the predicate of a sentence about a task.
    pub(super) words: String,
    difference: Box<Difference<'a, T>>,
}

type Difference<'a, T> = dyn Fn(&Task<T>) -> Result<Option<String>> + 'a;

impl<'a, T> Condition<'a, T> {
    /// A condition whose difference is what a task has instead; `None` if the task meets it.
    pub(super) fn new(
        words: String,
        difference: impl Fn(&Task<T>) -> Result<Option<String>> + 'a,
    ) -> Condition<'a, T> {
        Condition { words, difference: Box::new(difference) }
    }

    /// A condition in two parts, such as `has` and `the id 7`. A task that does not meet the condition differs by
    /// `not` and the second part.
    pub(super) fn of_verb(
        verb: &str,
        rest: String,
        is_met: impl Fn(&Task<T>) -> bool + 'a,
    ) -> Condition<'a, T> {
        Condition::new(format!("{verb} {rest}"), move |task| {
            Ok((!is_met(task)).then(|| format!("not {rest}")))
        })
    }

    /// What a task has instead; `None` if it meets the condition.
    pub(super) fn difference(&self, task: &Task<T>) -> Result<Option<String>> {
        (self.difference)(task)
    }
}
