//! The calls on what a task waits for.

use crate::Result;
use crate::core::answer::{Answer, FromAnswer, answer};
use crate::core::state::{Core, Decided};

/// A verb on what a task waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum EdgeVerb<'a> {
    /// Parents of a task of this tube: tasks of the tube `of`.
    Add {
        id: u64,
        of: TubeRef<'a>,
        parents: &'a [u64],
    },
    Remove {
        id: u64,
        parents: Option<&'a [u64]>,
    },
}

impl Core {
    pub(super) fn carry_out_edges<T: FromAnswer>(
        &mut self,
        number: u32,
        verb: EdgeVerb,
    ) -> Result<Decided<T>> {
        match verb {
            EdgeVerb::Add { id, of, parents } => {
                self.tube(of.number, of.name)?;
                answer(self.add_parents(number, id, of.number, parents)?, Answer::Receipt)
            }
            EdgeVerb::Remove { id, parents } => {
                answer(self.remove_parents(number, id, parents)?, Answer::Receipt)
            }
        }
    }
}
