//! The answer to a call, and the commit that it waits for.

use std::sync::Arc;

use crate::commit::Batch;

/// An answer, and the batch that must be in the file before it is given.
pub(crate) struct Decided<T> {
    pub(crate) answer: T,
    pub(crate) wait: Option<(usize, Arc<Batch>)>,
}

impl<T> Decided<T> {
    pub(crate) fn map<U>(self, with: impl FnOnce(T) -> U) -> Decided<U> {
        Decided { answer: with(self.answer), wait: self.wait }
    }
}
