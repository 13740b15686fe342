//! What a thread needs to read answers, and what it finds.

use std::time::Instant;

use super::buffer::Buffer;
use super::slot::Slot;
use crate::error::CallError;
use crate::input::Input;
use crate::os::{Events, Poll, Token};
use crate::socket::Socket;
use crate::sync::Arc;

/// What is needed to read answers. One thread at a time has it: see `turn`.
pub(super) struct Inbox {
    pub(super) poll: Poll,
    pub(super) current: Attached,
    pub(super) events: Events,
    pub(super) scratch: Vec<u8>,
    /// Empty; kept for its memory.
    pub(super) deliveries: Vec<Delivery>,
}

/// A connection, as it is read.
pub(super) struct Attached {
    pub(super) socket: Arc<Socket>,
    pub(super) token: Token,
    pub(super) input: Input,
    pub(super) since: Instant,
    /// Something may have arrived that is not reported: with the welcome, or since.
    pub(super) is_new: bool,
    /// The end of the connection was reported, and is not reported again.
    pub(super) at_end: bool,
}

/// Why a thread reads no further.
pub(super) enum Stop {
    /// The caller has its answer, or the thread leaves the answers to the callers.
    Done,
    Broken(String),
    /// The client has ended.
    Ended,
}

/// What the thread does for a caller once the lock is released.
pub(super) enum Delivery {
    Answer(Arc<Slot>, Result<Vec<u8>, CallError>),
    /// The answer to a call that an earlier connection may have carried out.
    AnswerInDoubt(Arc<Slot>, Vec<u8>),
    Orphan(Vec<u8>),
    /// Items have arrived.
    Items(Arc<Buffer>),
    End(Arc<Buffer>, Option<CallError>),
}
