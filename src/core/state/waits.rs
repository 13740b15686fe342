//! Takes that wait for a task, and puts that wait for capacity.

use std::sync::Arc;

use super::claims::Grant;
use super::decided::Decided;
use super::request::PutRequest;
use super::wait_slot::WaitSlot;
use crate::{Receipt, Result, SessionId};

/// Where a waiting take finds its claim; `None` when its time is over.
pub(crate) type TakeSlot = WaitSlot<Result<Option<Grant>>>;
/// Where a waiting put finds what was decided.
pub(crate) type PutSlot = WaitSlot<Result<Decided<Receipt>>>;

/// A take that waits.
pub(in crate::core) struct WaitingTake {
    pub(in crate::core) slot: Arc<TakeSlot>,
    pub(in crate::core) session: SessionId,
    pub(in crate::core) tubes: Vec<u32>,
    pub(in crate::core) deadline: Option<u64>,
}

/// A put that waits.
pub(crate) struct WaitingPut {
    pub(crate) slot: Arc<PutSlot>,
    pub(crate) session: SessionId,
    pub(crate) request: PutRequest,
    pub(crate) deadline: Option<u64>,
}
