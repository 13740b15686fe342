//! The claims of an open store: by task, and the parked ones by their ends.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::claim::ClaimState;
use crate::base::id_map::IdMap;
use crate::base::signal::Signal;

/// All claims. Invariant: a parked claim without a session is found by its end, and no other claim is.
#[derive(Debug)]
pub(in crate::core) struct Claims {
    by_task: IdMap<u64, ClaimState>,
    /// The parked claims by the time on the timeline at which they end.
    parked: BTreeSet<(u64, u64)>,
    /// Claims have ended whose rows say that they have not, since the storage failed.
    has_unrecorded_ends: bool,
    /// The number of the last take.
    epoch: u64,
}

impl Claims {
    /// No claims, in a run of the store whose takes are numbered from here.
    pub(in crate::core) fn new(epoch: u64) -> Claims {
        let (by_task, parked) = (IdMap::default(), BTreeSet::new());
        Claims { by_task, parked, has_unrecorded_ends: false, epoch }
    }

    /// The number of a new take.
    #[inline]
    pub(in crate::core) fn next_epoch(&mut self) -> u64 {
        self.epoch = self.epoch.wrapping_add(1);
        self.epoch
    }

    #[inline]
    pub(in crate::core) fn get(&self, id: u64) -> Option<&ClaimState> {
        self.by_task.get(&id)
    }

    #[inline]
    pub(in crate::core) fn get_mut(&mut self, id: u64) -> Option<&mut ClaimState> {
        self.by_task.get_mut(&id)
    }

    #[inline]
    pub(in crate::core) fn contains(&self, id: u64) -> bool {
        self.by_task.contains_key(&id)
    }

    /// Adds a claim. If it is parked, `set_parked_until` says until when.
    #[inline]
    pub(in crate::core) fn insert(&mut self, id: u64, claim: ClaimState) {
        debug_assert!(claim.parked_until().is_none());
        self.by_task.insert(id, claim);
    }

    #[inline]
    pub(in crate::core) fn remove(&mut self, id: u64) -> Option<ClaimState> {
        let claim = self.by_task.remove(&id)?;
        if let Some(until) = claim.parked_until() {
            self.parked.remove(&(until, id));
        }
        Some(claim)
    }

    pub(in crate::core) fn iter(&self) -> impl Iterator<Item = (u64, &ClaimState)> {
        self.by_task.iter().map(|(id, claim)| (*id, claim))
    }

    pub(in crate::core) fn values(&self) -> impl Iterator<Item = &ClaimState> {
        self.by_task.values()
    }

    /// The signals of all claims whose holders wait for their end.
    pub(in crate::core) fn take_end_signals(&mut self) -> impl Iterator<Item = Arc<Signal>> {
        self.by_task.values_mut().filter_map(|claim| claim.end_signal.take())
    }

    /// Sets when a parked claim ends: `None` if a session has it. A claim that was never parked stays as
    /// it is. Returns whether it is to end at a time.
    pub(in crate::core) fn set_parked_until(&mut self, id: u64, until: Option<u64>) -> bool {
        let parked = self.by_task.get_mut(&id).and_then(|claim| claim.parked.as_mut());
        let Some(parked) = parked else { return false };
        if let Some(old) = std::mem::replace(&mut parked.until, until) {
            self.parked.remove(&(old, id));
        }
        self.parked.extend(until.map(|until| (until, id)));
        until.is_some()
    }

    /// The parked claim that ends first: when, and its task.
    pub(in crate::core) fn first_parked(&self) -> Option<(u64, u64)> {
        self.parked.first().copied()
    }

    /// Whether exactly the parked claims are found by their ends.
    pub(in crate::core) fn are_found_by_end(&self) -> bool {
        let parked = self.iter().filter_map(|(id, claim)| Some((claim.parked_until()?, id)));
        parked.collect::<BTreeSet<_>>() == self.parked
    }

    /// A claim has ended, and its row says that it has not.
    pub(in crate::core) fn note_unrecorded_end(&mut self) {
        self.has_unrecorded_ends = true;
    }

    pub(in crate::core) fn has_unrecorded_ends(&self) -> bool {
        self.has_unrecorded_ends
    }

    /// Whether there were ends to record. Notes that there are none.
    pub(in crate::core) fn take_unrecorded_ends(&mut self) -> bool {
        std::mem::take(&mut self.has_unrecorded_ends)
    }
}
