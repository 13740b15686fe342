//! Why an import stops, and how to go on.

use tubewell::Error;

use super::Import;
use crate::failure::{Exit, Failure};
use crate::output::count;

/// Why an import ended before the end of the input.
pub(super) struct Stop {
    pub(super) failure: Failure,
    /// The first line that is not stored.
    pub(super) line: Option<u64>,
    /// How many tasks that wait for others are not stored, although others behind them are.
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

impl Import<'_> {
    /// The failure of an import that stopped: how much is stored, and how to go on.
    pub(super) fn failure(&self, stop: Stop) -> Failure {
        let mut failure = stop.failure;
        failure.message = format!(
            "{}; {} stored",
            failure.message,
            match self.stored {
                0 => "nothing was".to_owned(),
                1 => "1 task was".to_owned(),
                number => format!("{number} tasks were"),
            }
        );
        if stop.left > 0 {
            let tasks = count(stop.left, "task");
            failure.hint = Some(format!(
                "tasks that wait for others are stored last: {tasks} of them are missing; \
                 to have them all, import the whole file into a new store"
            ));
        } else if failure.exit != Exit::Failed {
            let next = stop.line.unwrap_or(self.last + 1);
            let command =
                if self.args.all { "tubewell import --all" } else { "tubewell import …" };
            let mut hint = format!(
                "nothing from line {next} on was stored; to go on there: \
                 tail -n +{next} FILE | {command}"
            );
            if self.keeps_ids && self.stored > 0 {
                hint.push_str(
                    ", which gives new ids; to keep all ids import the whole file into a new store",
                );
            }
            failure.hint = Some(hint);
        }
        failure
    }
}
