//! The calls on what a task waits for.

use crate::Result;
use crate::core::answer::{Answer, FromAnswer, now};
use crate::core::state::{Core, Decided};

/// A verb on what a task waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EdgeVerb {
    Parents(u64),
    Children(u64),
}

impl Core {
    pub(super) fn carry_out_edges<T: FromAnswer>(
        &mut self,
        number: u32,
        verb: EdgeVerb,
    ) -> Result<Decided<T>> {
        match verb {
            EdgeVerb::Parents(id) => now(self.parents(number, id)?, Answer::Ids),
            EdgeVerb::Children(id) => now(self.children(number, id)?, Answer::Ids),
        }
    }
}
