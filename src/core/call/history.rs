//! The calls on the history of a task.

use crate::Result;
use crate::core::answer::{Answer, FromAnswer, answer};
use crate::core::state::{Core, Decided};

/// A verb on the history of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HistoryVerb<'a> {
    /// Adds an entry of a program.
    Log { id: u64, text: &'a str },
}

impl Core {
    pub(super) fn carry_out_on_history<T: FromAnswer>(
        &mut self,
        number: u32,
        verb: HistoryVerb,
    ) -> Result<Decided<T>> {
        match verb {
            HistoryVerb::Log { id, text } => {
                answer(self.log_entry(number, id, text)?, Answer::Receipt)
            }
        }
    }
}
