//! Which requests change something at the owner, and which may be made twice.
//!
//! A request that changes something has an unknown outcome if it may have been sent and was not
//! answered.

use super::request::Request;

/// What a request does at the owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// It changes nothing that its caller can see. A take does not: its tasks are released if they do not arrive.
    None,
    /// It changes something, and the same request again changes no more.
    Repeatable,
    /// It changes something, and must not be made twice. A connection that is made anew begins its sessions
    /// itself.
    Once,
}

impl Request {
    /// Whether it may be made twice, if its connection breaks before the answer.
    pub(super) fn may_repeat(&self) -> bool {
        self.effect() != Effect::Once
    }

    /// Whether it changes something that its caller can see.
    pub(super) fn changes(&self) -> bool {
        self.effect() != Effect::None
    }

    fn effect(&self) -> Effect {
        match self {
            Request::Backup(_)
            | Request::BeginSession(..)
            | Request::ResumeSession(_)
            | Request::DropSession(_) => Effect::Once,
            Request::ResumeClaim(..) | Request::EndSession(_) => Effect::Repeatable,
            Request::Take { .. }
            | Request::Claim { .. }
            | Request::WaitReady { .. }
            | Request::ClaimEnd(_)
            | Request::Flush
            | Request::CatchUp
            | Request::Verify
            | Request::Counters
            | Request::Clock
            | Request::ScrapeStore
            | Request::Heartbeat
            | Request::Subscribe { .. }
            | Request::Delivered(_) => Effect::None,
        }
    }
}
