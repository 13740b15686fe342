//! The calls that list tasks of a tube.

use crate::core::answer::{Answer, FromAnswer, now};
use crate::core::state::{Core, Decided};
use crate::listing::Where;
use crate::task::Cursor;
use crate::{Result, State};

/// A verb that returns tasks of a tube, page by page.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ListVerb<'a> {
    State {
        state: State,
        after: Option<&'a Cursor>,
        limit: usize,
    },
    Group {
        group: &'a str,
        after: Option<&'a Cursor>,
        limit: usize,
    },
    Where {
        wanted: &'a Where,
        after: Option<&'a Cursor>,
        limit: usize,
    },
    /// As `Where`, with the bodies.
    Bodies {
        wanted: &'a Where,
        after: Option<&'a Cursor>,
        limit: usize,
    },
    /// What takes would get now.
    Ready(usize),
}

impl Core {
    pub(super) fn carry_out_list<T: FromAnswer>(
        &mut self,
        number: u32,
        verb: ListVerb<'_>,
    ) -> Result<Decided<T>> {
        match verb {
            ListVerb::State { state, after, limit } => {
                now(self.list(number, state, after, limit)?, Answer::Page)
            }
            ListVerb::Group { group, after, limit } => {
                now(self.list_group(number, group, after, limit)?, Answer::Page)
            }
            ListVerb::Where { wanted, after, limit } => {
                now(self.list_where(number, wanted, after, limit)?, Answer::Page)
            }
            ListVerb::Bodies { wanted, after, limit } => {
                now(self.list_bodies(number, wanted, after, limit)?, Answer::TaskPage)
            }
            ListVerb::Ready(count) => now(self.peek_ready(number, count)?, Answer::TaskInfos),
        }
    }
}
