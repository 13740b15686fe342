//! What is to become visible, and what follows from what has become visible.

use std::collections::BTreeSet;

use crate::base::id_map::IdMap;
use crate::base::tube_no::TubeNo;
use crate::commit::FlushNo;

/// The changes that are not yet visible, and the tubes to look at once changes are visible.
#[derive(Debug, Default)]
pub(in crate::core) struct Publishing {
    /// Tasks with changes that are not yet visible: their count, and the flush that makes
    /// the last one visible.
    invisible: IdMap<u64, (u32, FlushNo)>,
    /// Waiting takes are being served.
    serving: bool,
    /// `Some` while changes are published that become visible together: the tubes whose waiting
    /// takes are served after the last change, so that the first of them gets the best task of all.
    to_serve: Option<BTreeSet<TubeNo>>,
    /// Tubes that may be drained, for which callers wait.
    maybe_drained: BTreeSet<TubeNo>,
    /// Tubes that may have a task for which callers wait that take none.
    maybe_ready: Vec<TubeNo>,
    /// These tubes are being looked at.
    looking: bool,
}

impl Publishing {
    /// Whether a task has changes that are not yet visible.
    #[inline]
    pub(in crate::core) fn is_invisible(&self, id: u64) -> bool {
        self.invisible.contains_key(&id)
    }

    /// Whether all changes are visible.
    #[inline]
    pub(in crate::core) fn is_all_visible(&self) -> bool {
        self.invisible.is_empty()
    }

    /// The flush that makes the last change of a task visible, if that is not yet visible.
    pub(in crate::core) fn last_flush(&self, id: u64) -> Option<FlushNo> {
        self.invisible.get(&id).map(|(_, flush)| *flush)
    }

    /// A task has a further change, which this flush makes visible.
    #[inline]
    pub(in crate::core) fn add(&mut self, id: u64, flush: FlushNo) {
        let (count, last) = self.invisible.entry(id).or_default();
        (*count, *last) = (*count + 1, flush);
    }

    /// A task has a further change, which becomes visible with the last one. Returns the flush that
    /// makes them visible; `None` if all its changes are visible.
    #[inline]
    pub(in crate::core) fn add_behind(&mut self, id: u64) -> Option<FlushNo> {
        let (count, last) = self.invisible.get_mut(&id)?;
        *count += 1;
        Some(*last)
    }

    /// A change of a task is visible, or will never be. Returns whether there are others; `None` if it had
    /// none that were not visible.
    #[inline]
    pub(in crate::core) fn remove(&mut self, id: u64) -> Option<bool> {
        let (count, _) = self.invisible.get_mut(&id)?;
        *count -= 1;
        let has_others = *count > 0;
        if !has_others {
            self.invisible.remove(&id);
        }
        Some(has_others)
    }

    /// Changes are published that become visible together. Returns false if they are being published
    /// already.
    pub(in crate::core) fn begin_together(&mut self) -> bool {
        let begins = self.to_serve.is_none();
        if begins {
            self.to_serve = Some(BTreeSet::new());
        }
        begins
    }

    /// The last of them is visible. Returns the tubes to serve.
    pub(in crate::core) fn end_together(&mut self) -> Vec<TubeNo> {
        self.to_serve.take().into_iter().flatten().collect()
    }

    #[inline]
    pub(in crate::core) fn is_together(&self) -> bool {
        self.to_serve.is_some()
    }

    /// Notes tubes to serve after the last change. Returns false if they are to be served at once.
    pub(in crate::core) fn serve_later(&mut self, tubes: &[TubeNo]) -> bool {
        let Some(later) = &mut self.to_serve else { return false };
        later.extend(tubes);
        true
    }

    /// Notes a tube that may be drained.
    pub(in crate::core) fn note_maybe_drained(&mut self, tube: TubeNo) {
        self.maybe_drained.insert(tube);
    }

    pub(in crate::core) fn next_maybe_drained(&mut self) -> Option<TubeNo> {
        self.maybe_drained.pop_first()
    }

    /// Notes tubes that may have a task for callers that take none.
    pub(in crate::core) fn note_maybe_ready(&mut self, tubes: impl Iterator<Item = TubeNo>) {
        self.maybe_ready.extend(tubes);
    }

    pub(in crate::core) fn next_maybe_ready(&mut self) -> Option<TubeNo> {
        self.maybe_ready.pop()
    }

    /// Begins to look at these tubes. Returns false if there is none, or if they are being looked at.
    pub(in crate::core) fn begin_looking(&mut self) -> bool {
        let begins = !self.maybe_ready.is_empty() && !self.looking;
        self.looking |= begins;
        begins
    }

    pub(in crate::core) fn end_looking(&mut self) {
        self.looking = false;
    }

    /// Begins to serve waiting takes. Returns false if they are being served.
    pub(in crate::core) fn begin_serving(&mut self) -> bool {
        !std::mem::replace(&mut self.serving, true)
    }

    pub(in crate::core) fn end_serving(&mut self) {
        self.serving = false;
    }

    pub(in crate::core) fn is_serving(&self) -> bool {
        self.serving
    }
}
