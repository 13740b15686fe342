//! How many bytes of tasks one answer to a peer may hand out.

use tubewell_drivers::{Header, encode};

/// The bytes of a claim in memory and in an answer, beside the record and the body of its task.
const CLAIM_SIZE: usize = 512;

/// The bytes of the tasks that one call may still take.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ByteBudget {
    /// `None` without a limit.
    left: Option<usize>,
}

impl ByteBudget {
    /// That of callers in this process.
    pub(crate) fn unlimited() -> ByteBudget {
        ByteBudget { left: None }
    }

    pub(crate) fn of(bytes: usize) -> ByteBudget {
        ByteBudget { left: Some(bytes) }
    }

    /// Whether this task may be taken.
    pub(super) fn allows(self, id: u64, header: &Header) -> bool {
        self.left.is_none_or(|left| size_of(id, header) <= left)
    }

    /// Counts a task that is taken. The first one may be larger than the budget.
    pub(crate) fn spend(&mut self, id: u64, header: &Header) {
        if let Some(left) = &mut self.left {
            *left = left.saturating_sub(size_of(id, header));
        }
    }
}

/// The bytes of a task in an answer, rounded up.
fn size_of(id: u64, header: &Header) -> usize {
    let body = usize::try_from(header.size).unwrap_or(usize::MAX);
    body.saturating_add(encode(id, header, &[]).len()).saturating_add(CLAIM_SIZE)
}
