//! The calls of the holder of a task.

use tubewell_drivers::Body;

use super::steps::StepVerb;
use crate::core::answer::{Answer, FromAnswer, answer, done, now};
use crate::core::claims::{End, ProgressReport};
use crate::core::state::{ClaimKey, Core, Decided, FinishRequest};
use crate::{Failure, Result};

/// A verb of the holder of a task. Durations are in microseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HolderVerb<'a> {
    Release {
        delay: u64,
    },
    Touch {
        more: u64,
    },
    Renew {
        hold: u64,
    },
    /// The claim lasts at most so long from now on.
    Limit {
        most: u64,
    },
    Progress(ProgressReport<'a>),
    Park {
        hold: u64,
    },
    /// A new body.
    Checkpoint(&'a Body),
    Bury(Option<&'a Failure>),
    Fail {
        /// Without it the backoff of the tube applies.
        delay: Option<u64>,
        failure: &'a Failure,
    },
    Snooze {
        delay: u64,
    },
    /// An entry of the holder in the history of the task.
    Log(&'a str),
    /// The end of the task or its passing on, and puts.
    Finish(&'a FinishRequest),
    Step(StepVerb<'a>),
    /// Nothing: the signal of the end of the claim.
    EndSignal,
    /// The description of the task.
    Describe,
}

impl HolderVerb<'_> {
    /// Whether it ends the claim, or parks it.
    pub(crate) fn ends_claim(&self) -> bool {
        matches!(
            self,
            HolderVerb::Release { .. }
                | HolderVerb::Park { .. }
                | HolderVerb::Bury(_)
                | HolderVerb::Fail { .. }
                | HolderVerb::Snooze { .. }
                | HolderVerb::Finish(_)
        )
    }
}

impl Core {
    pub(super) fn carry_out_held<T: FromAnswer>(
        &mut self,
        key: ClaimKey,
        verb: HolderVerb<'_>,
    ) -> Result<Decided<T>> {
        match verb {
            HolderVerb::Finish(finish) => answer(self.finish(key, finish)?, Answer::Receipt),
            HolderVerb::Release { delay } => {
                answer(self.end_held(key, End::Release { delay })?, Answer::Receipt)
            }
            HolderVerb::Touch { more } => answer(self.touch(key, more)?, Answer::Receipt),
            HolderVerb::Checkpoint(body) => answer(self.checkpoint(key, body)?, Answer::Receipt),
            HolderVerb::Bury(failure) => answer(self.bury_claimed(key, failure)?, Answer::Receipt),
            HolderVerb::Fail { delay, failure } => {
                answer(self.end_held(key, End::Fail { delay, failure })?, Answer::Receipt)
            }
            HolderVerb::Snooze { delay } => {
                answer(self.end_held(key, End::Snooze { delay })?, Answer::Receipt)
            }
            HolderVerb::Log(text) => answer(self.log_held(key, text)?, Answer::Receipt),
            HolderVerb::Step(verb) => self.carry_out_step(key, verb),
            HolderVerb::EndSignal => now(self.end_signal(key)?, Answer::EndSignal),
            HolderVerb::Describe => now(vec![self.describe_held(key)?], Answer::TaskInfos),
            HolderVerb::Renew { hold } => done(self.renew(key, hold)?),
            HolderVerb::Limit { most } => done(self.limit_claim(key, most)?),
            HolderVerb::Progress(report) => done(self.report_progress(key, report)?),
            HolderVerb::Park { hold } => answer(self.park(key, hold)?, Answer::Count),
        }
    }
}
