//! The answers to calls, as values.

use std::collections::BTreeMap;
use std::sync::Arc;

use tubewell_drivers::DayCounts;

use super::catalog::TubeHead;
use super::claims::Chosen;
use super::days::FailedStep;
use super::state::Decided;
use super::verbs::{FindStep, StepPage};
use super::waits::Watching;
use crate::listing::{TagCount, TaggedPage, TaskPage};
use crate::owner::{Owner, OwnerInfo};
use crate::signal::Signal;
use crate::statistics::Statistics;
use crate::task::{Page, Task, TaskInfo};
use crate::{
    Ending, Error, FailureGroup, HistoryEntry, Limit, PausedSubQueue, Receipt, Result,
    SchedulePage, Step, TubeInfo,
};

/// The answer to a call.
pub(crate) enum Answer {
    Done,
    Receipt(Receipt),
    /// One answer for each task.
    Acks(Vec<Result<Receipt>>),
    Watching(Watching),
    PutAndWatching(Receipt, Watching),
    Chosen(Chosen),
    Owner(Option<Owner>),
    Owners(Vec<OwnerInfo>),
    /// `None`: ask again.
    WaitReady(Option<Watching>),
    Count(u64),
    Ids(Vec<u64>),
    Task(Task),
    Page(Page),
    TaskPage(TaskPage),
    TaskInfos(Vec<TaskInfo>),
    FindStep(FindStep),
    TaggedPage(TaggedPage),
    TagCounts(Vec<TagCount>),
    History(Vec<HistoryEntry>),
    /// The value of a step.
    Step(Option<Vec<u8>>),
    /// The steps of a task, or the last ones.
    Steps(Vec<Step>),
    /// As `Steps`, and others follow.
    SomeSteps(Vec<Step>),
    Bool(bool),
    Outcome(Option<Ending>),
    Groups(Vec<FailureGroup>),
    Schedules(SchedulePage),
    Statistics(Statistics),
    AllStatistics(BTreeMap<String, Statistics>),
    Tube(TubeHead),
    Tubes(Vec<TubeInfo>),
    TubeInfo(Box<TubeInfo>),
    Limits(Vec<Limit>),
    PausedSubQueues(Vec<PausedSubQueue>),
    /// By the days since 1970.
    Days(Vec<(u32, DayCounts)>),
    FailedOn(FailedStep),
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
    Answer::Watching(watching) => watching, Watching;
    Answer::PutAndWatching(receipt, watching) => (receipt, watching), (Receipt, Watching);
    Answer::Acks(acks) => acks, Vec<Result<Receipt>>;
    Answer::Chosen(chosen) => chosen, Chosen;
    Answer::Owner(owner) => owner, Option<Owner>;
    Answer::Owners(owners) => owners, Vec<OwnerInfo>;
    Answer::WaitReady(watching) => watching, Option<Watching>;
    Answer::Count(count) => count, u64;
    Answer::Ids(ids) => ids, Vec<u64>;
    Answer::Task(task) => task, Task;
    Answer::Page(page) => page, Page;
    Answer::TaskPage(page) => page, TaskPage;
    Answer::TaskInfos(tasks) => tasks, Vec<TaskInfo>;
    Answer::FindStep(step) => step, FindStep;
    Answer::TaggedPage(page) => page, TaggedPage;
    Answer::TagCounts(counts) => counts, Vec<TagCount>;
    Answer::History(entries) => entries, Vec<HistoryEntry>;
    Answer::Step(value) => value, Option<Vec<u8>>;
    Answer::Bool(value) => value, bool;
    Answer::Outcome(ending) => ending, Option<Ending>;
    Answer::Groups(groups) => groups, Vec<FailureGroup>;
    Answer::Schedules(page) => page, SchedulePage;
    Answer::Statistics(statistics) => statistics, Statistics;
    Answer::AllStatistics(statistics) => statistics, BTreeMap<String, Statistics>;
    Answer::Tube(head) => head, TubeHead;
    Answer::Tubes(tubes) => tubes, Vec<TubeInfo>;
    Answer::TubeInfo(info) => *info, TubeInfo;
    Answer::Limits(limits) => limits, Vec<Limit>;
    Answer::PausedSubQueues(paused) => paused, Vec<PausedSubQueue>;
    Answer::Days(days) => days, Vec<(u32, DayCounts)>;
    Answer::FailedOn(step) => step, FailedStep;
    Answer::EndSignal(signal) => signal, Arc<Signal>;
}
