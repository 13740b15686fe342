//! The waits for the end of tasks, for drained tubes, and for tasks that can be taken.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::mem::discriminant;
use std::ops::RangeBounds;
use std::sync::Arc;

use super::decided::Decided;
use super::wait_keys::WatchKey;
use super::wait_slot::WaitSlot;
use crate::base::id_map::IdMap;
use crate::base::tube_no::TubeNo;
use crate::{Ending, Result, SessionId};

/// Receives how a watch ended: `None` on timeout. A watch of a tube that is drained, or that has a
/// task which can be taken, receives [`Ending::Gone`]. The ending is shared, so that no result is
/// copied under the lock.
pub(crate) type WatchSlot = WaitSlot<Result<Decided<Option<Arc<Ending>>>>>;

/// A caller that waits for the end of a task, for a drained tube, or for a task that can be taken.
pub(in crate::core) struct Watch {
    pub(in crate::core) slot: Arc<WatchSlot>,
    pub(in crate::core) tube: TubeNo,
    pub(in crate::core) session: SessionId,
    pub(in crate::core) deadline: Option<u64>,
}

/// The watches, and what they are to be answered with.
#[derive(Default)]
pub(in crate::core) struct Watches {
    waiting: BTreeMap<WatchKey, Watch>,
    /// The tube of each watch of a task, with that task and the arrival.
    tasks_by_tube: BTreeSet<(TubeNo, u64, u64)>,
    /// A change is being made visible that its caller writes before it returns: the answers to
    /// those who wait for it come with that write.
    end_is_written: bool,
    /// The endings of changes that are decided and not yet visible, by task, in the order of its
    /// changes. The ending of a change that says everything itself is not in here.
    endings: IdMap<u64, VecDeque<Arc<Ending>>>,
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
    pub(in crate::core) fn follow(&mut self, key: WatchKey, to: TubeNo) {
        if let Some(watch) = self.end(key) {
            self.begin(key, Watch { tube: to, ..watch });
        }
    }

    /// The watches of the tasks of a tube, and those that wait until it is drained.
    pub(in crate::core) fn of_tube(&self, tube: TubeNo) -> impl Iterator<Item = WatchKey> {
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
    pub(in crate::core) fn waits_for_drain(&self, tube: TubeNo) -> bool {
        let watches = WatchKey::Tube(tube, 0)..=WatchKey::Tube(tube, u64::MAX);
        self.waiting.range(watches).next().is_some()
    }

    /// Whether no change has to look here.
    #[inline]
    pub(in crate::core) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.endings.is_empty()
    }

    /// The keys of the watches in a range.
    pub(in crate::core) fn keys_in(&self, keys: impl RangeBounds<WatchKey>) -> Vec<WatchKey> {
        self.waiting.range(keys).map(|(key, _)| *key).collect()
    }

    /// The watches of a task, each with its tube.
    pub(in crate::core) fn of_task(&self, id: u64) -> impl Iterator<Item = (WatchKey, TubeNo)> {
        let watches = self.waiting.range(WatchKey::Task(id, 0)..=WatchKey::Task(id, u64::MAX));
        watches.map(|(key, watch)| (*key, watch.tube))
    }

    pub(in crate::core) fn iter(&self) -> impl Iterator<Item = (WatchKey, &Watch)> {
        self.waiting.iter().map(|(key, watch)| (*key, watch))
    }

    /// Whether the change that is being made visible is written before its caller returns.
    pub(in crate::core) fn end_is_written(&self) -> bool {
        self.end_is_written
    }

    pub(in crate::core) fn set_end_is_written(&mut self, is_written: bool) {
        self.end_is_written = is_written;
    }

    /// Notes the ending of a change that is not yet visible.
    pub(in crate::core) fn note_ending(&mut self, id: u64, ending: Ending) {
        self.endings.entry(id).or_default().push_back(Arc::new(ending));
    }

    /// What was noted for a change with this ending, or this ending.
    pub(in crate::core) fn take_ending(&mut self, id: u64, plain: Ending) -> Arc<Ending> {
        let Some(endings) = self.endings.get_mut(&id) else { return Arc::new(plain) };
        let is_same = |noted: &Arc<Ending>| discriminant(&**noted) == discriminant(&plain);
        if !endings.front().is_some_and(is_same) {
            return Arc::new(plain);
        }
        let noted = endings.pop_front();
        if endings.is_empty() {
            self.endings.remove(&id);
        }
        noted.unwrap_or_else(|| Arc::new(plain))
    }

    /// The tasks for which endings are noted.
    pub(in crate::core) fn tasks_with_endings(&self) -> impl Iterator<Item = u64> {
        self.endings.keys().copied()
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
