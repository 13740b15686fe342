//! What the verbs on one task have in common: they find the task, and make its change visible.

use tubewell_drivers::{Found, Header};

use super::state::{Core, Decided};
use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Visibility};
use crate::{Error, Receipt, Result, TaskState};

/// The longest delay before the sweeper's edits are flushed, in microseconds.
const SWEEP_FLUSH: u64 = 50_000;

impl Core {
    /// Finds a stored task.
    pub(in crate::core) fn find(&mut self, number: TubeNo, id: u64) -> Result<Found> {
        self.edit(number, |ledger| ledger.find(id))?.ok_or(Error::NotFound { id })
    }

    /// Finds a task to which an edge leads; `None` if it is gone, or damaged, which `verify` reports.
    pub(in crate::core) fn find_if_whole(
        &mut self,
        number: TubeNo,
        id: u64,
    ) -> Result<Option<Found>> {
        match self.find(number, id) {
            Err(Error::NotFound { .. } | Error::Corrupt { .. }) => Ok(None),
            found => found.map(Some),
        }
    }

    /// The header of a task: that of its claim, or else the stored one.
    pub(in crate::core) fn newest_header<'a>(&'a self, id: u64, found: &'a Found) -> &'a Header {
        self.claims.get(id).map_or(&found.record.header, |claim| &claim.header)
    }

    /// The header of a stored task, with the takes of its claim.
    pub(in crate::core) fn current_header(&self, found: &Found, id: u64) -> Header {
        let mut header = found.record.header.clone();
        if let Some(claim) = self.claims.get(id) {
            header.takes = claim.header.takes;
        }
        header
    }

    /// Removes the claim on a task, or else its window slot. Returns the state of the task before.
    pub(in crate::core) fn remove_from_memory(
        &mut self,
        number: TubeNo,
        found: &Found,
        id: u64,
    ) -> TaskState {
        if self.remove_claim(id) {
            return TaskState::Taken;
        }
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.window.remove((found.record.header.order, id));
        }
        TaskState::on_shelf(found.shelf)
    }

    /// Makes a change visible, and builds the answer with its receipt.
    pub(in crate::core) fn apply_change(
        &mut self,
        number: TubeNo,
        change: Change,
    ) -> Decided<Receipt> {
        let (id, state) = (change.id, change.to);
        let visibility = self.visibility(number);
        self.make_visible(change, visibility);
        self.decided(number, visibility, |commit| Receipt { id, state, commit })
    }

    /// When the sweeper's edits become visible. They can be repeated after a crash, so no caller
    /// waits for their flush.
    pub(in crate::core) fn sweep_visibility(&self, number: TubeNo) -> Visibility {
        match self.visibility(number) {
            Visibility::Flushed => Visibility::Within(SWEEP_FLUSH),
            Visibility::Written(delay) => Visibility::Within(delay),
            other => other,
        }
    }
}
