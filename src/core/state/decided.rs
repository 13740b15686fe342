//! A decided call: its answer, and what must happen before the caller gets it.

use std::sync::Arc;

use super::buffers::Buffer;
use crate::commit::Batch;

/// An answer, and what the caller waits for before it gets the answer.
pub(crate) struct Decided<T> {
    pub(crate) answer: T,
    pub(crate) wait: Option<Wait>,
}

/// What a decided call waits for.
#[derive(Clone, Debug)]
pub(crate) enum Wait {
    /// The flush of a commit of this write buffer.
    Flush(Buffer, Arc<Batch>),
    /// The write of a commit of the file to the journal. A call that does not block waits for the
    /// batch.
    Write(Arc<Batch>),
}

impl Wait {
    /// The batch that has the outcome.
    pub(crate) fn batch(&self) -> &Arc<Batch> {
        match self {
            Wait::Flush(_, batch) | Wait::Write(batch) => batch,
        }
    }

    /// The write buffer.
    pub(crate) fn buffer(&self) -> Buffer {
        match self {
            Wait::Flush(buffer, _) => *buffer,
            Wait::Write(_) => Buffer::File,
        }
    }

    /// The wait that includes both. They may be of commits that are under way.
    pub(crate) fn later(first: Option<Wait>, second: Option<Wait>) -> Option<Wait> {
        let (Some(one), Some(other)) = (&first, &second) else { return first.or(second) };
        let latest = if other.batch().flush > one.batch().flush { other } else { one };
        match (one, other) {
            (Wait::Write(_), Wait::Write(_)) => Some(latest.clone()),
            // The flush of an earlier commit does not include the write of a later one.
            _ => Some(Wait::Flush(latest.buffer(), latest.batch().clone())),
        }
    }
}

impl<T> Decided<T> {
    /// An answer that waits for nothing.
    pub(crate) fn now(answer: T) -> Decided<T> {
        Decided { answer, wait: None }
    }

    pub(crate) fn map<U>(self, with: impl FnOnce(T) -> U) -> Decided<U> {
        Decided { answer: with(self.answer), wait: self.wait }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::FlushNo;

    #[test]
    fn wait_for_several_calls_includes_the_latest_commit_of_each() {
        let nth = |n: u64| (1..n).fold(FlushNo::FIRST, |flush, _| flush.next());
        let flush = |n| Some(Wait::Flush(Buffer::File, Batch::new(nth(n))));
        let write = |n| Some(Wait::Write(Batch::new(nth(n))));
        let flushes = |wait: Option<Wait>| match wait {
            Some(Wait::Flush(_, batch)) => Some(batch.flush),
            _ => None,
        };
        let writes = |wait: Option<Wait>| match wait {
            Some(Wait::Write(batch)) => Some(batch.flush),
            _ => None,
        };
        for (one, other, n) in [
            (flush(1), None, 1),
            (flush(1), flush(2), 2),
            (flush(1), write(1), 1),
            (flush(1), write(2), 2),
            (flush(2), write(1), 2),
        ] {
            assert_eq!(flushes(Wait::later(one.clone(), other.clone())), Some(nth(n)));
            assert_eq!(flushes(Wait::later(other, one)), Some(nth(n)));
        }
        for (one, other, n) in [(write(3), None, 3), (write(3), write(4), 4)] {
            assert_eq!(writes(Wait::later(one.clone(), other.clone())), Some(nth(n)));
            assert_eq!(writes(Wait::later(other, one)), Some(nth(n)));
        }
        assert!(Wait::later(None, None).is_none());
    }
}
