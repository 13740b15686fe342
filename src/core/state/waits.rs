//! Takes that wait for a task, and puts that wait for capacity.

use std::collections::BTreeMap;
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
/// Where a call that waits for space in a write buffer finds that it is called.
pub(crate) type CapacitySlot = WaitSlot<()>;

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

/// The futures that wait for space in one write buffer, by arrival.
#[derive(Default)]
pub(in crate::core) struct CapacityQueue {
    pub(in crate::core) waiting: BTreeMap<u64, WaitingCall>,
    /// How many futures are called and have not looked since.
    pub(in crate::core) called: usize,
}

/// A call that waits for space in a write buffer.
pub(in crate::core) struct WaitingCall {
    pub(in crate::core) slot: Arc<CapacitySlot>,
    /// It has space while fewer rows than this are pending.
    pub(in crate::core) max_rows: usize,
}
