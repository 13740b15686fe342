//! The calls that wait and take nothing.

use crate::core::answer::{Answer, FromAnswer, now};
use crate::core::state::{Core, Decided};
use crate::{Result, SessionId};

/// A wait of a session that takes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum WaitVerb {
    /// For the end of this task.
    Done { session: SessionId, id: u64, timeout: Option<u64> },
    /// Until the tube has no ready, taken or delayed task.
    Drained { session: SessionId, timeout: Option<u64> },
    /// Until a take would get a task.
    Ready {
        session: SessionId,
        /// On running time.
        until: Option<u64>,
    },
}

impl Core {
    pub(super) fn carry_out_wait<T: FromAnswer>(
        &mut self,
        number: u32,
        wait: WaitVerb,
    ) -> Result<Decided<T>> {
        match wait {
            WaitVerb::Done { session, id, timeout } => {
                now(self.wait_done(number, session, id, timeout)?, Answer::Watching)
            }
            WaitVerb::Drained { session, timeout } => {
                now(self.wait_drained(number, session, timeout)?, Answer::Watching)
            }
            WaitVerb::Ready { session, until } => {
                let timeout = until.map(|until| until.saturating_sub(self.now.running));
                now(self.wait_ready(number, session, timeout)?, Answer::WaitReady)
            }
        }
    }
}
