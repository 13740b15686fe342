//! Takes that wait for a task, and puts that wait for capacity.

use std::sync::Arc;

use super::claims::Grant;
use super::decided::Decided;
use super::request::PutRequest;
use super::wait_slot::WaitSlot;
use crate::{Receipt, Result, SessionId};

/// Receives the claim of a waiting take; `None` on timeout.
pub(crate) type TakeSlot = WaitSlot<Result<Option<Grant>>>;
/// Receives the decided answer of a waiting put.
pub(crate) type PutSlot = WaitSlot<Result<Decided<Receipt>>>;

/// A take that waits for a task. It is registered in each of its tubes.
pub(in crate::core) struct WaitingTake {
    pub(in crate::core) slot: Arc<TakeSlot>,
    pub(in crate::core) session: SessionId,
    pub(in crate::core) tubes: Vec<u32>,
    pub(in crate::core) deadline: Option<u64>,
}

/// A put that waits for capacity.
pub(crate) struct WaitingPut {
    pub(crate) slot: Arc<PutSlot>,
    pub(crate) session: SessionId,
    pub(crate) request: PutRequest,
    pub(crate) deadline: Option<u64>,
}
