//! The state of a tube: its definition in the catalog, and the rest in memory.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use bincode::{Decode, Encode};
use tubewell_drivers::{Counts, Driver, HeadCache, NEVER, Shelf, Traits};

use super::buffers::Buffer;
use super::days::DayState;
use super::gates::Gates;
use super::holders::{Holders, Removed};
use super::limits::SubQueueLimits;
use super::put_ids::PutIds;
use super::waits::WaitingPut;
use super::window::{Rank, Window, rank_before};
use crate::base::micros::duration;
use crate::events::{Callback, Unwanted};
use crate::options::Policies;
use crate::values::statistics::Statistics;
use crate::{Durability, Error, Result, TubeInfo};

/// A tube as the catalog stores it.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Definition {
    pub(crate) name: Arc<str>,
    pub(crate) space: u32,
    pub(crate) driver: String,
    pub(crate) timed: bool,
    pub(crate) sub_queued: bool,
    pub(crate) bounded: bool,
    /// Last: a definition without policies ends before them.
    pub(crate) policies: Policies,
}

impl Definition {
    pub(crate) fn traits(&self) -> Traits {
        Traits { timed: self.timed, sub_queued: self.sub_queued, bounded: self.bounded }
    }

    /// The public description of a tube without waiters, at this moment of the timeline. `usable`:
    /// its driver is registered.
    pub(crate) fn info(&self, usable: bool, now: u64) -> TubeInfo {
        let paused = self.policies.paused.filter(|until| *until > now);
        let end = paused.filter(|until| *until != NEVER);
        TubeInfo {
            paused: paused.is_some(),
            resumes_in: end.map(|until| duration(until - now)),
            ..self.policies.info(&self.name, &self.driver, usable)
        }
    }
}

/// Up to which ranks the shelves of ended tasks are known to be empty, since the first tasks were
/// forgotten or kicked. The database may still have the removed rows, and a read from the first row
/// of the shelf would read all of them.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EmptyUpTo {
    pub(crate) done: Option<Rank>,
    pub(crate) buried: Option<Rank>,
}

impl EmptyUpTo {
    /// Notes that there is no task of a shelf up to this rank. Only the shelves of ended tasks count.
    pub(crate) fn set(&mut self, shelf: Shelf, rank: Rank) {
        if let Some(known) = self.of(shelf) {
            *known = Some(rank);
        }
    }

    /// Notes a new task of a shelf, which may be before the known rank.
    pub(crate) fn note_arrival(&mut self, shelf: Shelf, rank: Rank) {
        if let Some(known) = self.of(shelf)
            && known.is_some_and(|known| rank <= known)
        {
            *known = rank_before(rank);
        }
    }

    fn of(&mut self, shelf: Shelf) -> Option<&mut Option<Rank>> {
        match shelf {
            Shelf::Done => Some(&mut self.done),
            Shelf::Buried => Some(&mut self.buried),
            Shelf::Ready | Shelf::Delayed | Shelf::Blocked | Shelf::Recurring => None,
        }
    }
}

/// A tube in memory. Its size does not depend on the number of stored tasks.
pub(crate) struct TubeState {
    pub(crate) definition: Definition,
    /// `None` until its driver is registered.
    pub(crate) driver: Option<Arc<dyn Driver>>,
    pub(crate) durability: Durability,
    /// The write buffer that has its rows.
    pub(crate) buffer: Buffer,
    /// Tasks by shelf, as decided. Written with the next commit when they change.
    pub(crate) counts: Counts,
    /// Tasks by state, and calls, as far as they are visible.
    pub(crate) visible: Statistics,
    /// Places in use: tasks that are stored, or whose removal is not yet visible.
    pub(crate) occupied: u64,
    pub(crate) empty_up_to: EmptyUpTo,
    pub(crate) put_ids: PutIds,
    pub(crate) head_cache: HeadCache,
    pub(crate) window: Window,
    /// Sub-queues that have taken tasks, and which.
    pub(crate) busy: HashMap<Arc<str>, Holders>,
    /// `None` for the default: one taken task in each sub-queue.
    pub(crate) limits: Option<Box<SubQueueLimits>>,
    pub(crate) taken: BTreeSet<Rank>,
    /// Arrivals of the waiting takes, first come, first served.
    pub(crate) waiting_takes: BTreeSet<u64>,
    /// How many callers wait until a task can be taken. They take none, and are in no line.
    pub(crate) ready_watches: usize,
    /// Puts that wait for capacity, by arrival, first come, first served.
    pub(crate) waiting_puts: BTreeMap<u64, WaitingPut>,
    pub(crate) callback: Option<Callback>,
    pub(crate) unwanted: Cell<Unwanted>,
    pub(crate) gates: Gates,
    /// The numbers of the day, in a tube with metrics.
    pub(crate) days: Option<Box<DayState>>,
}

impl TubeState {
    /// A claim has become overdue, or is overdue no more. No change of a task: it stays taken.
    pub(in crate::core) fn count_overdue(&mut self, is_overdue: bool) {
        let overdue = &mut self.visible.tasks.overdue;
        *overdue = if is_overdue { *overdue + 1 } else { overdue.saturating_sub(1) };
    }

    pub(crate) fn driver(&self, known: impl FnOnce() -> String) -> Result<&dyn Driver> {
        self.driver.as_deref().ok_or_else(|| Error::DriverUnknown {
            name: self.definition.driver.clone(),
            known: known(),
        })
    }

    pub(crate) fn has_shared_limits(&self) -> bool {
        self.limits.as_ref().is_some_and(|limits| limits.shared)
    }

    /// Whether a caller waits for a task that can be taken.
    #[inline]
    pub(crate) fn has_waiting_takers(&self) -> bool {
        !self.waiting_takes.is_empty() || self.ready_watches > 0
    }

    /// A change of the task of this rank is visible: if it was a holder of its sub-queue, it is none now.
    /// Returns whether it was one.
    pub(crate) fn remove_holder(&mut self, sub: &str, rank: Rank) -> bool {
        let Some(holders) = self.busy.get_mut(sub) else { return false };
        holders.search_again_from(rank);
        let removed = holders.remove(rank.1);
        if removed == Removed::Last {
            self.busy.remove(sub);
        }
        removed != Removed::None
    }

    pub(crate) fn unsupported(&self, what: &str) -> Error {
        Error::Unsupported { what: what.into(), driver: self.definition.driver.clone() }
    }
}
