//! What waits for space in the write buffers, first come, first served.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::decided::Wait;
use super::wait_slot::WaitSlot;

/// Where a call that waits for space in a write buffer finds that it is called.
pub(crate) type CapacitySlot = WaitSlot<()>;

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

/// What waits for space in one write buffer, by arrival.
pub(in crate::core) struct Line<C> {
    waiting: BTreeMap<u64, InLine<C>>,
    /// How many futures are called and have not looked since.
    called: usize,
}

impl<C> Default for Line<C> {
    fn default() -> Line<C> {
        Line { waiting: BTreeMap::new(), called: 0 }
    }
}

impl<C> Line<C> {
    pub(in crate::core) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The arrival of the first that waits.
    pub(in crate::core) fn first(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(arrival, _)| *arrival)
    }

    pub(in crate::core) fn called(&self) -> usize {
        self.called
    }

    pub(in crate::core) fn stand(&mut self, arrival: u64, waiting: InLine<C>) {
        self.waiting.insert(arrival, waiting);
    }

    /// Returns what was still waiting.
    pub(in crate::core) fn leave(&mut self, arrival: u64) -> Option<InLine<C>> {
        self.waiting.remove(&arrival)
    }

    /// Removes the first for which this holds.
    pub(in crate::core) fn call_first(
        &mut self,
        is_next: impl Fn(&InLine<C>) -> bool,
    ) -> Option<InLine<C>> {
        let mut waiting = self.waiting.iter();
        let arrival = waiting.find(|(_, waiting)| is_next(waiting)).map(|(arrival, _)| *arrival)?;
        self.waiting.remove(&arrival)
    }

    /// A future is called.
    pub(in crate::core) fn note_called(&mut self) {
        self.called += 1;
    }

    /// A future that was called has looked for space, or gives up.
    pub(in crate::core) fn note_looked(&mut self) {
        self.called = self.called.saturating_sub(1);
    }

    /// Whether a call stands in it.
    pub(in crate::core) fn has_call(&self) -> bool {
        self.waiting.values().any(InLine::is_call)
    }

    /// How many calls stand in it.
    pub(in crate::core) fn calls(&self) -> usize {
        self.waiting.values().filter(|waiting| waiting.is_call()).count()
    }
}
