//! Verbs whose calls look at, or change, up to so many tasks at a time: one loop of calls for each mode.

use std::future::Future;

use crate::core::verb::{Begin, Verb};
use crate::{Result, Ticket};

/// The calls of such a verb, and what their answers come to.
pub(crate) trait Steps: Send + Sized + 'static {
    type Verb: Begin;
    type Done: Send;

    /// The next call; `None` after the last one.
    fn next(&mut self) -> Option<Self::Verb>;

    fn note(&mut self, answer: Answer<Self>);

    fn done(self) -> Result<Self::Done>;
}

type Answer<S> = <<S as Steps>::Verb as Verb>::Answer;

/// Makes the calls, which block.
pub(crate) fn run_steps<S: Steps>(
    mut steps: S,
    make: impl Fn(S::Verb) -> Result<Answer<S>>,
) -> Result<S::Done> {
    while let Some(verb) = steps.next() {
        steps.note(make(verb)?);
    }
    steps.done()
}

/// As `run_steps`, for calls that return tickets. The first one is made now, as that of a verb with one call.
pub(crate) fn begin_steps<S: Steps, F>(
    steps: Result<S>,
    make: F,
) -> impl Future<Output = Result<S::Done>> + Send + use<S, F>
where
    F: Fn(S::Verb) -> Ticket<Answer<S>> + Send + 'static,
{
    let begun = steps.map(|mut steps| (steps.next().map(&make), steps));
    async move {
        let (mut ticket, mut steps) = begun?;
        while let Some(step) = ticket {
            steps.note(step.await?);
            ticket = steps.next().map(&make);
        }
        steps.done()
    }
}
