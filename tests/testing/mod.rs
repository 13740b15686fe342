//! The assertions of `tubewell::testing`: which tasks meet an expectation, and what a failed one says.

use crate::catalogue::support;

mod conditions;
mod counts;
mod endings;
mod messages;

use std::panic::{AssertUnwindSafe, catch_unwind};

use tubewell::testing::Expect;

/// The message of a failed assertion.
fn message_of<R>(assertion: impl FnOnce() -> R) -> String {
    let panic = catch_unwind(AssertUnwindSafe(|| drop(assertion()))).unwrap_err();
    panic.downcast_ref::<String>().unwrap().clone()
}

/// Asserts that the tasks with these ids meet an expectation, in this order.
#[track_caller]
fn assert_met<T>(expectation: Expect<'_, T>, ids: &[u64]) {
    let tasks = expectation.times(ids.len());
    assert_eq!(tasks.iter().map(|task| task.info.id).collect::<Vec<_>>(), ids);
}
