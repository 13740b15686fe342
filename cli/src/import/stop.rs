//! Why an import stops, and how to go on.

use tubewell::Error;

use crate::failure::{Exit, Failure};

/// Why an import ended before the end of the input.
pub(super) struct Stop {
    pub(super) failure: Failure,
    /// The first line that is not stored.
    pub(super) line: Option<u64>,
    /// How many tasks with parents are not stored, although tasks of later lines are.
    pub(super) left: u64,
}

impl Stop {
    pub(super) fn by_signal(signal: u8) -> Stop {
        let failure = Failure::new(Exit::Signal(signal), "stopped by a signal");
        Stop { failure, line: None, left: 0 }
    }

    pub(super) fn at(line: u64, failure: Failure) -> Stop {
        Stop { failure: failure.context(format!("line {line}")), line: Some(line), left: 0 }
    }
}

/// Why a line gives no task.
pub(super) enum Refusal {
    /// The line is wrong.
    Line(String),
    /// The lines before it could not be stored.
    Store(Stop),
}

impl Refusal {
    pub(super) fn stop_at(self, line: u64) -> Stop {
        match self {
            Refusal::Line(why) => Stop::at(line, Failure::new(Exit::Partly, why)),
            Refusal::Store(stop) => stop,
        }
    }
}

/// Whether the error is about a task, not about the store.
pub(super) fn is_refusal(error: &Error) -> bool {
    matches!(
        error,
        Error::Invalid { .. }
            | Error::Unsupported { .. }
            | Error::Full { .. }
            | Error::IdUsed { .. }
            | Error::KeyInUse { .. }
    )
}
