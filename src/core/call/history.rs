//! The calls on the history of a task.

use crate::Result;
use crate::core::answer::{Answer, FromAnswer, answer};
use crate::core::state::{Core, Decided};

/// A verb on the history of a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum HistoryVerb {
    Read(u64),
}

impl Core {
    pub(super) fn carry_out_on_history<T: FromAnswer>(
        &mut self,
        number: u32,
        verb: HistoryVerb,
    ) -> Result<Decided<T>> {
        match verb {
            HistoryVerb::Read(id) => answer(self.history(number, id)?, Answer::History),
        }
    }
}
