//! What waits: takes for a task, puts for capacity, calls for space in a write buffer, and callers for the end of
//! tasks.

use std::sync::Arc;

use super::buffers::PerBuffer;
use super::claim::Grant;
use super::decided::Decided;
use super::line::Line;
use super::request::PutRequest;
use super::wait_slot::WaitSlot;
use super::watches::Watches;
use crate::base::id_map::IdMap;
use crate::base::tube_no::TubeNo;
use crate::{Receipt, Result, SessionId};

/// Receives the claim of a waiting take; `None` on timeout.
pub(crate) type TakeSlot = WaitSlot<Result<Option<Grant>>>;
/// Receives the decided answer of a waiting put.
pub(crate) type PutSlot = WaitSlot<Result<Decided<Receipt>>>;

/// A take that waits for a task. It is registered in each of its tubes.
pub(in crate::core) struct WaitingTake {
    pub(in crate::core) slot: Arc<TakeSlot>,
    pub(in crate::core) session: SessionId,
    pub(in crate::core) tubes: Vec<TubeNo>,
    pub(in crate::core) deadline: Option<u64>,
}

/// A put that waits for capacity.
pub(crate) struct WaitingPut {
    pub(crate) slot: Arc<PutSlot>,
    pub(crate) session: SessionId,
    pub(crate) request: PutRequest,
    pub(crate) deadline: Option<u64>,
}

/// All that waits. The puts are in their tubes.
pub(crate) struct Waits<C> {
    takes: IdMap<u64, WaitingTake>,
    pub(in crate::core) watches: Watches,
    /// By write buffer.
    pub(in crate::core) lines: PerBuffer<Line<C>>,
    /// Threads that wait for space in a write buffer, or for its leader.
    blocked_callers: usize,
    /// How many waits have begun.
    arrivals: u64,
}

impl<C> Default for Waits<C> {
    fn default() -> Waits<C> {
        Waits {
            takes: IdMap::default(),
            watches: Watches::default(),
            lines: PerBuffer::default(),
            blocked_callers: 0,
            arrivals: 0,
        }
    }
}

impl<C> Waits<C> {
    /// The number of a new arrival, which orders the waiters.
    pub(in crate::core) fn next_arrival(&mut self) -> u64 {
        self.arrivals += 1;
        self.arrivals
    }

    pub(in crate::core) fn take(&self, arrival: u64) -> Option<&WaitingTake> {
        self.takes.get(&arrival)
    }

    pub(in crate::core) fn add_take(&mut self, arrival: u64, take: WaitingTake) {
        self.takes.insert(arrival, take);
    }

    pub(in crate::core) fn remove_take(&mut self, arrival: u64) -> Option<WaitingTake> {
        self.takes.remove(&arrival)
    }

    /// The takes that wait, in any order.
    pub(in crate::core) fn takes(&self) -> impl Iterator<Item = (u64, &WaitingTake)> {
        self.takes.iter().map(|(arrival, take)| (*arrival, take))
    }

    /// A thread is blocked until there is space, or until a leader has gone.
    pub(crate) fn block(&mut self) {
        self.blocked_callers += 1;
    }

    /// A thread is blocked no more.
    pub(crate) fn unblock(&mut self) {
        self.blocked_callers -= 1;
    }

    pub(crate) fn has_blocked(&self) -> bool {
        self.blocked_callers > 0
    }
}
