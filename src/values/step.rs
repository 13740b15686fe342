//! Durable steps, as callers see them.

use tubewell_drivers::{STEP_NAME_MAX, STEPS_MAX};

use crate::{Error, Result};

/// The kind of a step: what it has stored.
///
/// Its text is the name of the kind: `value`, `spawned`, `sleep` or `join`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum StepKind {
    /// The value of [`Claim::step`](crate::Claim::step), as JSON.
    Value,
    /// The id of the task that [`Claim::spawn`](crate::Claim::spawn) has put: 8 bytes, big-endian.
    /// `u64::MAX` for a task that another store has had, and this one has not: it counts as over.
    Spawned,
    /// When a sleep ends: 8 bytes, big-endian, microseconds of the wall clock since 1970.
    Sleep,
    /// The wait for other tasks. No bytes.
    Join,
}

impl StepKind {
    /// The kind in a row.
    pub(crate) fn byte(self) -> u8 {
        match self {
            StepKind::Value => 0,
            StepKind::Spawned => 1,
            StepKind::Sleep => 2,
            StepKind::Join => 3,
        }
    }

    pub(crate) fn from_byte(byte: u8) -> Option<StepKind> {
        let all = [StepKind::Value, StepKind::Spawned, StepKind::Sleep, StepKind::Join];
        all.into_iter().find(|kind| kind.byte() == byte)
    }
}

/// A step of the work on a task that is stored; from [`Claim::steps`](crate::Claim::steps) and
/// [`Query::steps`](crate::Query::steps).
///
/// # Example
/// See [`Claim::step`](crate::Claim::step).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Step {
    /// Its name, which no other step of the task has.
    pub name: String,
    /// What it has stored.
    pub kind: StepKind,
    /// The bytes that it has stored. With the feature `serde`, they are a sequence of numbers.
    pub value: Vec<u8>,
}

impl Step {
    /// A step of a task that is [restored](crate::expert::Restore::steps).
    #[must_use]
    pub fn new(name: impl Into<String>, kind: StepKind, value: impl Into<Vec<u8>>) -> Step {
        Step { name: name.into(), kind, value: value.into() }
    }

    /// The id of the task that the step has put; `None` for a step of another kind.
    #[must_use]
    pub fn spawned(&self) -> Option<u64> {
        (self.kind == StepKind::Spawned).then(|| number(&self.value)).flatten()
    }

    /// Refuses the steps of a task that is restored, if no store can have them.
    pub(crate) fn check_all(steps: &[Step]) -> Result<()> {
        if steps.len() > STEPS_MAX as usize {
            return Err(too_many_steps());
        }
        let mut names: Vec<&str> = steps.iter().map(|step| step.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(named_twice(twice[0]));
        }
        for Step { name, kind, value } in steps {
            check_step_name(name)?;
            let is_valid = match kind {
                StepKind::Value => true,
                StepKind::Spawned | StepKind::Sleep => value.len() == 8,
                StepKind::Join => value.is_empty(),
            };
            if !is_valid {
                return Err(Error::invalid(format!(
                    "step {name:?}: {} bytes are no value of a step of kind {}",
                    value.len(),
                    kind.as_str()
                )));
            }
        }
        Ok(())
    }
}

/// The number that a step of kind `Spawned` or `Sleep` stores.
pub(crate) fn number(value: &[u8]) -> Option<u64> {
    value.try_into().ok().map(u64::from_be_bytes)
}

/// Refuses a text that cannot be the name of a step.
pub(crate) fn check_step_name(name: &str) -> Result<()> {
    if (1..=STEP_NAME_MAX).contains(&name.len()) {
        return Ok(());
    }
    Err(Error::invalid(format!(
        "the name of a step must have 1 to {STEP_NAME_MAX} bytes; this one has {}",
        name.len()
    )))
}

/// The error of a task that would have too many steps.
pub(crate) fn too_many_steps() -> Error {
    Error::invalid(format!(
        "a task has at most {STEPS_MAX} steps; store the results of several in one, or put tasks for \
         the parts of the work"
    ))
}

/// The error of a second step with the name of an earlier one.
pub(crate) fn named_twice(name: &str) -> Error {
    Error::invalid(format!(
        "the step {name:?} is named twice; each step of a task has a name of its own, such as \"part \
         1\" and \"part 2\" in a loop"
    ))
}
