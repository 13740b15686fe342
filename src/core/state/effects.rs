//! The effects of a call. The thread that has the lock carries them out, some before it unlocks and
//! some after.
//!
//! User code (wakers, callbacks and their drop) runs only after the lock is released.

use std::sync::Arc;
use std::task::Waker;

use super::line::{CapacitySlot, Filled};
use super::waits::{PutSlot, TakeSlot};
use super::watches::WatchSlot;
use crate::base::signal::Signal;
use crate::base::user_code;
use crate::commit::{Batch, NextLeader, Outcome};
use crate::events::{Callback, QueuedEvent};
use crate::storage::Checkpoint;

/// The effects of the calls since the lock was taken.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
#[derive(Default)]
pub(crate) struct Effects {
    pub(crate) events: Vec<QueuedEvent>,
    /// The bytes of the bodies in these events.
    pub(crate) bytes_of_events: u64,
    /// The writer thread has work.
    pub(crate) call_writer: bool,
    /// A checkpoint waits for a thread that writes it, or deferred calls wait for a write while the
    /// writer thread is busy.
    pub(crate) call_checkpointer: bool,
    /// Deferred calls wait for a write while the writer thread and the checkpoint thread are busy.
    pub(crate) call_sweeper: bool,
    /// The writer thread is parked, and takes the role of a leader as soon as it is woken.
    pub(crate) writer_is_parked: bool,
    /// The writer thread has a task other than a write, such as a flush. Meanwhile the checkpoint
    /// thread writes the records of deferred calls, or the sweeper.
    pub(crate) writer_is_busy: bool,
    /// A write buffer may have capacity again, or has lost its leader: wake the blocked callers.
    pub(crate) capacity_freed: bool,
    pub(crate) after_unlock: AfterUnlock,
}

/// The effects that are carried out without the lock, when this is dropped. Most calls have none, so that
/// it is a pointer.
#[derive(Default)]
pub(crate) struct AfterUnlock(Option<Box<Deeds>>);

impl AfterUnlock {
    pub(crate) fn deeds(&mut self) -> &mut Deeds {
        self.0.get_or_insert_default()
    }
}

/// What is done without the lock.
#[derive(Default)]
pub(crate) struct Deeds {
    /// The next leader. Woken first: the next commit waits for it.
    pub(crate) leader: Option<NextLeader>,
    /// Callbacks to drop. A callback may own handles of the store, whose drop takes the lock.
    pub(crate) callbacks: Vec<Callback>,
    /// Batches whose outcome is known.
    pub(crate) finished: Vec<(Arc<Batch>, Outcome)>,
    /// Edits that the database has now. Dropping many of them takes long.
    pub(crate) checkpointed: Vec<Checkpoint>,
    /// Filled slots of waiting takes, waiting puts and watches, whose waiters are to be woken.
    pub(crate) take_slots: Vec<Arc<TakeSlot>>,
    pub(crate) put_slots: Vec<Arc<PutSlot>>,
    pub(crate) watch_slots: Vec<Arc<WatchSlot>>,
    pub(crate) capacity_slots: Vec<Arc<CapacitySlot>>,
    /// Those of calls that have stood in line, and what the calls owned.
    pub(crate) line_slots: Vec<(Arc<dyn Filled>, Box<dyn Send>)>,
    /// The signals of claims that have ended.
    pub(crate) end_signals: Vec<Arc<Signal>>,
    /// Wakers of event streams.
    pub(crate) wakers: Vec<Waker>,
}

impl Deeds {
    fn carry_out(&mut self) {
        if let Some(leader) = self.leader.take() {
            leader.wake();
        }
        for (batch, outcome) in self.finished.drain(..) {
            batch.finish(outcome);
        }
        self.take_slots.drain(..).for_each(|slot| slot.wake());
        self.put_slots.drain(..).for_each(|slot| slot.wake());
        self.watch_slots.drain(..).for_each(|slot| slot.wake());
        self.capacity_slots.drain(..).for_each(|slot| slot.wake());
        for (slot, owned) in self.line_slots.drain(..) {
            slot.wake();
            user_code::catch_panic(|| drop(owned));
        }
        self.end_signals.drain(..).for_each(|signal| signal.raise());
        self.wakers.drain(..).for_each(user_code::wake);
        for callback in self.callbacks.drain(..) {
            user_code::catch_panic(|| drop(callback));
        }
    }
}

impl Drop for AfterUnlock {
    #[inline]
    fn drop(&mut self) {
        if let Some(mut deeds) = self.0.take() {
            deeds.carry_out();
        }
    }
}
