//! Which requests change something at the owner, and which may be made twice.
//!
//! A request that changes something has an unknown outcome if it may have been sent and was not
//! answered.

use super::request::Request;

impl Request {
    /// Whether it may be made twice, if its connection breaks before the answer.
    pub(super) fn may_repeat(&self) -> bool {
        match self {
            // A connection that is made anew begins its sessions itself.
            Request::Backup(_)
            | Request::BeginSession(..)
            | Request::ResumeSession(_)
            | Request::DropSession(_) => false,
            Request::ResumeClaim(..)
            | Request::EndSession(_)
            | Request::Take { .. }
            | Request::Claim { .. }
            | Request::WaitReady { .. }
            | Request::ClaimEnd(_)
            | Request::Flush
            | Request::CatchUp
            | Request::Verify
            | Request::Counters
            | Request::Clock
            | Request::Heartbeat
            | Request::Subscribe { .. }
            | Request::Delivered(_) => true,
        }
    }

    /// Whether it changes something that its caller can see. A take does not: its tasks are released
    /// if they do not arrive.
    pub(super) fn changes(&self) -> bool {
        match self {
            Request::Backup(_)
            | Request::ResumeClaim(..)
            | Request::BeginSession(..)
            | Request::ResumeSession(_)
            | Request::EndSession(_)
            | Request::DropSession(_) => true,
            Request::Take { .. }
            | Request::Claim { .. }
            | Request::WaitReady { .. }
            | Request::ClaimEnd(_)
            | Request::Flush
            | Request::CatchUp
            | Request::Verify
            | Request::Counters
            | Request::Clock
            | Request::Heartbeat
            | Request::Subscribe { .. }
            | Request::Delivered(_) => false,
        }
    }
}
