//! What a call leaves to be done: under the lock before it is released, and after that.

use std::sync::Arc;
use std::task::Waker;

use super::waits::{CapacitySlot, PutSlot, TakeSlot};
use crate::commit::{Batch, NextLeader, Outcome};
use crate::events::{Callback, QueuedEvent};
use crate::user_code;

/// What is to be done once the lock is free, or by others.
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) events: Vec<QueuedEvent>,
    /// The writer thread has work.
    pub(crate) call_writer: bool,
    /// It waits for such a call, and begins what it is asked to lead as soon as it wakes.
    pub(crate) writer_is_parked: bool,
    /// There is room again for those whom a full lane holds up.
    pub(crate) room: bool,
    pub(crate) after_unlock: AfterUnlock,
}

/// What is done without the lock, when this is dropped: some of it is others' code.
#[derive(Default)]
pub(crate) struct AfterUnlock {
    /// To be woken first: the next commit waits for it.
    pub(crate) leader: Option<NextLeader>,
    /// To be dropped: a callback may own handles, whose end needs the lock.
    pub(crate) callbacks: Vec<Callback>,
    /// Batches whose outcome is known.
    pub(crate) finished: Vec<(Arc<Batch>, Outcome)>,
    pub(crate) takers: Vec<Arc<TakeSlot>>,
    pub(crate) waiting_puts: Vec<Arc<PutSlot>>,
    pub(crate) waiting_calls: Vec<Arc<CapacitySlot>>,
    /// Wakers of event streams.
    pub(crate) wakers: Vec<Waker>,
}

impl Drop for AfterUnlock {
    fn drop(&mut self) {
        if let Some(leader) = self.leader.take() {
            leader.wake();
        }
        for (batch, outcome) in self.finished.drain(..) {
            batch.finish(outcome);
        }
        self.takers.drain(..).for_each(|slot| slot.wake());
        self.waiting_puts.drain(..).for_each(|slot| slot.wake());
        self.waiting_calls.drain(..).for_each(|slot| slot.wake());
        self.wakers.drain(..).for_each(user_code::wake);
        for callback in self.callbacks.drain(..) {
            user_code::catch_panic(|| drop(callback));
        }
    }
}
