//! The calls on the schedules of a tube.

use crate::Result;
use crate::core::answer::{Answer, FromAnswer, answer};
use crate::core::state::{Core, Decided, ScheduleRequest};

/// A verb on the schedules of a tube.
#[derive(Clone, Copy, Debug)]
pub(crate) enum ScheduleVerb<'a> {
    /// A schedule with this key.
    Set {
        key: &'a Arc<str>,
        request: &'a ScheduleRequest,
    },
    /// Changes of the schedule with this key.
    Change {
        key: &'a str,
        request: &'a ScheduleRequest,
    },
    Remove(&'a str),
}

impl Core {
    pub(super) fn carry_out_schedules<T: FromAnswer>(
        &mut self,
        number: u32,
        verb: ScheduleVerb<'_>,
    ) -> Result<Decided<T>> {
        match verb {
            ScheduleVerb::Set { key, request } => {
                answer(self.schedule(number, key, request)?, Answer::Receipt)
            }
            ScheduleVerb::Change { key, request } => {
                answer(self.reschedule(number, key, request)?, Answer::Receipt)
            }
            ScheduleVerb::Remove(key) => answer(self.unschedule(key)?, Answer::Receipt),
        }
    }
}
