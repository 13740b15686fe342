//! The answers to calls, as values.

use std::sync::Arc;

use super::claims::Chosen;
use super::state::Decided;
use super::verbs::{MoveStep, SelectStep, StepPage};
use crate::owner::Owner;
use crate::signal::Signal;
use crate::task::TaskInfo;
use crate::{Error, Receipt, Result, Step};

/// The answer to a call.
pub(crate) enum Answer {
    Done,
    Receipt(Receipt),
    /// One answer for each task.
    Acks(Vec<Result<Receipt>>),
    Chosen(Chosen),
    Owner(Option<Owner>),
    Count(u64),
    Moved(MoveStep),
    SelectStep(SelectStep),
    /// How many claims have ended, and the first error.
    Released(u64, Result<()>),
    TaskInfos(Vec<TaskInfo>),
    /// The value of a step.
    Step(Option<Vec<u8>>),
    /// The steps of a task, or the last ones.
    Steps(Vec<Step>),
    /// As `Steps`, and others follow.
    SomeSteps(Vec<Step>),
    Bool(bool),
    EndSignal(Arc<Signal>),
}

/// What a caller expects of an answer.
pub(crate) trait FromAnswer: Sized {
    /// `None` for an answer to another call.
    fn from_answer(answer: Answer) -> Option<Self>;
}

impl FromAnswer for Answer {
    fn from_answer(answer: Answer) -> Option<Answer> {
        Some(answer)
    }
}

/// An answer as what its caller expects. Inlined with `kind`, so that a large answer is not moved
/// through the enum.
#[inline(always)]
#[expect(clippy::inline_always, reason = "a cycle takes a fifth longer without it")]
pub(super) fn answer<T: FromAnswer, U>(
    decided: Decided<U>,
    kind: impl FnOnce(U) -> Answer,
) -> Result<Decided<T>> {
    let Decided { answer, wait } = decided;
    match T::from_answer(kind(answer)) {
        Some(answer) => Ok(Decided { answer, wait }),
        None => Err(Error::OutcomeUnknown { why: "the answer is of another call".into() }),
    }
}

/// An answer that waits for nothing.
#[inline(always)]
#[expect(clippy::inline_always, reason = "as `answer`")]
pub(super) fn now<T: FromAnswer, U>(
    value: U,
    kind: impl FnOnce(U) -> Answer,
) -> Result<Decided<T>> {
    answer(Decided { answer: value, wait: None }, kind)
}

/// The answer to a verb that returns nothing, and waits for its flush.
pub(super) fn finished<T: FromAnswer>(decided: Decided<()>) -> Result<Decided<T>> {
    answer(decided, |()| Answer::Done)
}

pub(super) fn done<T: FromAnswer>((): ()) -> Result<Decided<T>> {
    now((), |()| Answer::Done)
}

/// The answer to a verb that lists steps.
pub(super) fn steps(StepPage { steps, is_last }: StepPage) -> Answer {
    if is_last { Answer::Steps(steps) } else { Answer::SomeSteps(steps) }
}

impl FromAnswer for StepPage {
    fn from_answer(answer: Answer) -> Option<StepPage> {
        match answer {
            Answer::Steps(steps) => Some(StepPage { steps, is_last: true }),
            Answer::SomeSteps(steps) => Some(StepPage { steps, is_last: false }),
            _ => None,
        }
    }
}

macro_rules! from_answer {
    ($($answer:pat => $value:expr, $type:ty;)*) => {$(
        impl FromAnswer for $type {
            #[inline]
            fn from_answer(answer: Answer) -> Option<$type> {
                if let $answer = answer { Some($value) } else { None }
            }
        }
    )*};
}

from_answer! {
    Answer::Done => (), ();
    Answer::Receipt(receipt) => receipt, Receipt;
    Answer::Receipts(receipts) => receipts, Vec<Receipt>;
    Answer::Acks(acks) => acks, Vec<Result<Receipt>>;
    Answer::Chosen(chosen) => chosen, Chosen;
    Answer::Owner(owner) => owner, Option<Owner>;
    Answer::Count(count) => count, u64;
    Answer::Moved(step) => step, MoveStep;
    Answer::SelectStep(step) => step, SelectStep;
    Answer::Released(released, outcome) => (released, outcome), (u64, Result<()>);
    Answer::TaskInfos(tasks) => tasks, Vec<TaskInfo>;
    Answer::Step(value) => value, Option<Vec<u8>>;
    Answer::Bool(value) => value, bool;
    Answer::EndSignal(signal) => signal, Arc<Signal>;
}
