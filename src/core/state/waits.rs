//! Takes that wait for a task, puts that wait for capacity, calls that wait for space in a write buffer, and waits
//! for the end of tasks.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use super::claims::Grant;
use super::decided::{Decided, Wait};
use super::request::PutRequest;
use super::wait_keys::WatchKey;
use super::wait_slot::WaitSlot;
use crate::base::id_map::IdMap;
use crate::{Ending, Receipt, Result, SessionId};

/// Receives the claim of a waiting take; `None` on timeout.
pub(crate) type TakeSlot = WaitSlot<Result<Option<Grant>>>;
/// Receives the decided answer of a waiting put.
pub(crate) type PutSlot = WaitSlot<Result<Decided<Receipt>>>;
/// Receives how a watch ended: `None` on timeout. A watch of a tube that is drained, or that has a
/// task which can be taken, receives [`Ending::Gone`]. The ending is shared, so that no result is
/// copied under the lock.
pub(crate) type WatchSlot = WaitSlot<Result<Decided<Option<Arc<Ending>>>>>;
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

/// What waits for space in one write buffer, by arrival.
pub(in crate::core) struct CapacityQueue<C> {
    pub(in crate::core) waiting: BTreeMap<u64, InLine<C>>,
    /// How many futures are called and have not looked since.
    pub(in crate::core) called: usize,
}

impl<C> Default for CapacityQueue<C> {
    fn default() -> CapacityQueue<C> {
        CapacityQueue { waiting: BTreeMap::new(), called: 0 }
    }
}

/// What waits for space in a write buffer.
pub(in crate::core) enum InLine<C> {
    /// A future, which looks for space when it is called.
    Future {
        slot: Arc<CapacitySlot>,
        /// It has space while fewer rows than this are pending.
        max_rows: usize,
    },
    /// A call, which whoever has the lock carries out, also if its caller has gone.
    Call(LineCall<C>),
}

impl<C> InLine<C> {
    pub(in crate::core) fn is_call(&self) -> bool {
        matches!(self, InLine::Call(_))
    }
}

/// A call on the core that stands in line for space. It decides, and fills the slot of its caller.
pub(crate) type LineCall<C> = Box<dyn FnOnce(&mut C) -> CarriedOut + Send>;

/// A call that has stood in line, and is decided.
pub(crate) struct CarriedOut {
    /// What its answer waits for.
    pub(crate) wait: Option<Wait>,
    /// Where its caller waits.
    pub(crate) slot: Arc<dyn Filled>,
    /// What it owned, whose drop may run user code: it is dropped without the lock.
    pub(crate) owned: Box<dyn Send>,
}

/// A slot that has been filled.
pub(crate) trait Filled: Send + Sync {
    fn wake(&self);
}

/// A caller that waits for the end of a task, for a drained tube, or for a task that can be taken.
pub(in crate::core) struct Watch {
    pub(in crate::core) slot: Arc<WatchSlot>,
    pub(in crate::core) tube: u32,
    pub(in crate::core) session: SessionId,
    pub(in crate::core) deadline: Option<u64>,
}

/// The watches, and what they are to be answered with.
#[derive(Default)]
pub(in crate::core) struct Watches {
    pub(in crate::core) waiting: BTreeMap<WatchKey, Watch>,
    /// The tube of each watch of a task, with that task and the arrival.
    tasks_by_tube: BTreeSet<(u32, u64, u64)>,
    /// A change is being made visible that its caller writes before it returns: the answers to
    /// those who wait for it come with that write.
    pub(in crate::core) end_is_written: bool,
    /// A transaction is decided: its changes are visible after their flush, in tubes of any
    /// durability.
    pub(in crate::core) ends_are_flushed: bool,
    /// The endings of changes that are decided and not yet visible, by task, in the order of its
    /// changes. The ending of a change that says everything itself is not in here.
    pub(in crate::core) endings: IdMap<u64, VecDeque<Arc<Ending>>>,
    /// Tubes that may be drained, for which callers wait.
    pub(in crate::core) maybe_drained: BTreeSet<u32>,
    /// Tubes that may have a task for which callers wait that take none.
    pub(in crate::core) maybe_ready: Vec<u32>,
    /// These tubes are being looked at.
    pub(in crate::core) looking: bool,
}

impl Watches {
    /// A watch begins.
    pub(in crate::core) fn begin(&mut self, key: WatchKey, watch: Watch) {
        if let WatchKey::Task(id, arrival) = key {
            self.tasks_by_tube.insert((watch.tube, id, arrival));
        }
        self.waiting.insert(key, watch);
    }

    /// A watch ends.
    pub(in crate::core) fn end(&mut self, key: WatchKey) -> Option<Watch> {
        let watch = self.waiting.remove(&key)?;
        if let WatchKey::Task(id, arrival) = key {
            self.tasks_by_tube.remove(&(watch.tube, id, arrival));
        }
        Some(watch)
    }

    /// A watch goes on in the tube to which its task has gone.
    pub(in crate::core) fn follow(&mut self, key: WatchKey, to: u32) {
        if let Some(watch) = self.end(key) {
            self.begin(key, Watch { tube: to, ..watch });
        }
    }

    /// The watches of the tasks of a tube, and those that wait until it is drained.
    pub(in crate::core) fn of_tube(&self, tube: u32) -> impl Iterator<Item = WatchKey> {
        let of_tasks = self.tasks_by_tube.range((tube, 0, 0)..=(tube, u64::MAX, u64::MAX));
        let of_tasks = of_tasks.map(|(_, id, arrival)| WatchKey::Task(*id, *arrival));
        let drained = WatchKey::Tube(tube, 0)..=WatchKey::Tube(tube, u64::MAX);
        of_tasks.chain(self.waiting.range(drained).map(|(key, _)| *key))
    }

    /// Whether the watches of tasks are found by their tubes, and no others.
    pub(in crate::core) fn are_found_by_tube(&self) -> bool {
        let of_tasks = self.waiting.iter().filter_map(|(key, watch)| match key {
            WatchKey::Task(id, arrival) => Some((watch.tube, *id, *arrival)),
            WatchKey::Tube(..) | WatchKey::Ready(..) => None,
        });
        of_tasks.collect::<BTreeSet<_>>() == self.tasks_by_tube
    }

    /// Whether callers wait until this tube is drained.
    pub(in crate::core) fn waits_for_drain(&self, tube: u32) -> bool {
        let watches = WatchKey::Tube(tube, 0)..=WatchKey::Tube(tube, u64::MAX);
        self.waiting.range(watches).next().is_some()
    }

    /// Whether no change has to look here.
    #[inline]
    pub(in crate::core) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.endings.is_empty()
    }

    /// How many endings are noted for each of these tasks.
    #[cfg(feature = "redb")]
    pub(in crate::core) fn noted_endings(&self, tasks: &[u64]) -> Vec<(u64, usize)> {
        let count = |id: &u64| self.endings.get(id).map_or(0, VecDeque::len);
        tasks.iter().map(|id| (*id, count(id))).collect()
    }

    /// Forgets the endings that were noted since, whose edits were taken back.
    #[cfg(feature = "redb")]
    pub(in crate::core) fn forget_endings(&mut self, before: Vec<(u64, usize)>) {
        for (id, count) in before {
            if let Some(endings) = self.endings.get_mut(&id) {
                endings.truncate(count);
                if endings.is_empty() {
                    self.endings.remove(&id);
                }
            }
        }
    }
}
