//! The calls on the steps of a task, for its holder.

use super::TubeRef;
use crate::Result;
use crate::core::answer::{Answer, FromAnswer, answer, steps};
use crate::core::state::{ClaimKey, Core, Decided, PutInto};

/// A verb on the steps of a task. Durations are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum StepVerb<'a> {
    /// The value of a step, if it is stored.
    Read { name: &'a str },
    /// The value of a step that is not stored.
    Write { name: &'a str, value: &'a [u8] },
    /// A put, once. Answers the id of the task.
    Spawn { name: &'a str, into: &'a PutInto },
    /// A sleep, which begins with the first call. Answers how long it still lasts.
    Sleep { name: &'a str, time: u64 },
    /// A wait for tasks. Answers whether it is over; otherwise the claim has ended, and the task is
    /// blocked.
    Join { name: &'a str, of: TubeRef<'a>, ids: &'a [u64] },
    /// The first steps, by name.
    List,
    /// Those whose names follow this one.
    ListAfter { after: &'a str },
}

impl Core {
    pub(super) fn carry_out_step<T: FromAnswer>(
        &mut self,
        key: ClaimKey,
        verb: StepVerb<'_>,
    ) -> Result<Decided<T>> {
        match verb {
            StepVerb::Read { name } => answer(self.read_step(key, name)?, Answer::Step),
            StepVerb::Write { name, value } => {
                answer(self.write_step(key, name, value)?, Answer::Receipt)
            }
            StepVerb::Spawn { name, into } => answer(self.spawn(key, name, into)?, Answer::Count),
            StepVerb::Sleep { name, time } => answer(self.sleep(key, name, time)?, Answer::Count),
            StepVerb::Join { name, of, ids } => {
                self.tube(of.number, of.name)?;
                answer(self.join(key, name, of.number, ids)?, Answer::Bool)
            }
            StepVerb::List => answer(self.steps_held(key, None)?, steps),
            StepVerb::ListAfter { after } => answer(self.steps_held(key, Some(after))?, steps),
        }
    }
}
