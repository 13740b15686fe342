//! The calls on the schedules of a tube.

use crate::Result;
use crate::core::answer::{Answer, FromAnswer, now};
use crate::core::state::{Core, Decided};
use crate::task::Cursor;

/// A verb on the schedules of a tube.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScheduleVerb<'a> {
    List { after: Option<&'a Cursor>, limit: usize },
}

impl Core {
    pub(super) fn carry_out_schedules<T: FromAnswer>(
        &mut self,
        number: u32,
        verb: ScheduleVerb<'_>,
    ) -> Result<Decided<T>> {
        match verb {
            ScheduleVerb::List { after, limit } => {
                now(self.schedules(number, after, limit)?, Answer::Schedules)
            }
        }
    }
}
