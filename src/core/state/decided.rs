//! A decided call: its answer, and the commit that the answer depends on.

use std::sync::Arc;

use crate::commit::Batch;

/// An answer, and the batch that must be in the file before the caller gets it.
pub(crate) struct Decided<T> {
    pub(crate) answer: T,
    pub(crate) wait: Option<(usize, Arc<Batch>)>,
}

impl<T> Decided<T> {
    pub(crate) fn map<U>(self, with: impl FnOnce(T) -> U) -> Decided<U> {
        Decided { answer: with(self.answer), wait: self.wait }
    }
}
