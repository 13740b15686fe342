//! Claims and the sessions that own them.

use std::sync::Arc;

use tubewell_drivers::{Header, Table, Value};

use crate::SessionId;
use crate::id_map::IdSet;

/// One take of one task. Lives in memory: a process that dies takes its consumers with it.
#[derive(Clone, Debug)]
pub(crate) struct ClaimState {
    pub(crate) tube: u32,
    pub(crate) session: SessionId,
    pub(crate) epoch: u64,
    /// On running time; `NEVER` without limit.
    pub(crate) deadline: u64,
    /// The task's header; its takes count this take, the stored one's may not.
    pub(crate) header: Header,
}

/// A session. It is there as long as somebody has a handle of it, and for the grace after.
#[derive(Debug, Default)]
pub(in crate::core) struct SessionState {
    pub(in crate::core) handles: usize,
    pub(in crate::core) claims: IdSet<u64>,
    /// When its grace is over, on running time.
    pub(in crate::core) grace_until: Option<u64>,
}

/// Who asks: a session, by the claim of this epoch if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) session: SessionId,
    pub(crate) epoch: Option<u64>,
}

/// A claim, as handed to the one who takes.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) tube: u32,
    pub(crate) name: Arc<str>,
    pub(crate) id: u64,
    pub(crate) epoch: u64,
    pub(crate) session: SessionId,
    pub(crate) header: Header,
    /// Which lane has the body and, unless the row is here, its key.
    pub(crate) buffer: usize,
    pub(crate) table: Table,
    pub(crate) key: Vec<u8>,
    /// The row at whose end the body is, if it was in memory.
    pub(crate) row: Option<Value>,
}
