//! Attempts: takes that are counted before they are handed out, and tasks that have none left.
//!
//! A counted claim has a row in the table `claims` until it ends. A row without a claim, at open,
//! is an attempt that was lost with its process; after an outage, one that could not be recorded.

use std::sync::Arc;

use tubewell_drivers::{Found, Header, Note, Shelf};

use super::failure::{encode_failure, failure_of};
use super::fate::{End, Fate, Rules};
use super::row::{ClaimRow, FoundRow};
use crate::core::state::{ClaimState, Core, FILE, FORMAT, Wait};
use crate::{Counting, Ending, Error, EventKind, LastFailure, Result, State};

impl Core {
    /// The rules of a tube, now.
    pub(in crate::core) fn rules(&self, number: u32) -> Result<Rules<'_>> {
        let definition = &self.tubes.get(&number).ok_or(Error::Closed)?.definition;
        let (policies, timed) = (&definition.policies, definition.timed);
        Ok(Rules { policies, timed, now: self.now.timeline })
    }

    /// Counts the take of a claim that was just made, if its task has a limited number of attempts.
    /// Returns what the taker waits for before it gets the task.
    pub(in crate::core) fn count_take(&mut self, id: u64) -> Option<Box<Wait>> {
        let claim = self.claims.get(&id)?;
        let tube = self.tubes.get(&claim.tube)?;
        let policies = &tube.definition.policies;
        let (number, counting) = (claim.tube, policies.count_takes);
        claim.header.attempts_left(policies.max_attempts)?;
        if tube.buffer != FILE || counting == Counting::Lazily {
            return None;
        }
        let row = ClaimRow {
            epoch: claim.epoch,
            takes: claim.header.takes,
            session: claim.session.to_bytes(),
            label: self.label_of(claim),
            until: 0,
        };
        self.write_claim_row(number, id, &row, true);
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.is_counted = true;
        }
        let written = counting == Counting::Written && self.buffers[FILE].journal().is_some();
        Some(Box::new(if written {
            Wait::Write(self.buffers[FILE].write_batch().clone())
        } else {
            self.flush_of(FILE)
        }))
    }

    /// The attempt of a claim that ends could not be written to the record of its task. Its row stays
    /// until the store has resumed, see `record_attempts`, or until the next open.
    pub(super) fn keep_attempt(&mut self, id: u64, error: &Error) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        // The record of a task has the count of a claim that was parked.
        if !claim.is_counted || claim.parked.is_some() || matches!(error, Error::Corrupt { .. }) {
            return;
        }
        claim.is_counted = false;
        // Until then the task must not be taken, so that its row stays the one of this attempt.
        self.fail_with(error);
    }

    /// Whether a task has no attempt left.
    pub(in crate::core) fn is_spent(&self, number: u32, header: &Header) -> bool {
        let Some(tube) = self.tubes.get(&number) else { return false };
        header.attempts_left(tube.definition.policies.max_attempts) == Some(0)
    }

    /// Buries a ready task that has no attempt left, instead of handing it out.
    pub(in crate::core) fn bury_spent(&mut self, number: u32, id: u64) -> Result<()> {
        let found = self.find(number, id)?;
        let header = found.record.header.clone();
        // As if the last attempt had been lost: its end was not recorded.
        let mut fate = self.rules(number)?.fate(id, header, End::ProcessEnded);
        self.carry_out_fate(number, id, &found, &mut fate, None)?;
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.window.remove((found.record.header.order, id));
        }
        let visibility = self.sweep_visibility(number);
        let (from, to) = (Some(State::Ready), State::on_shelf(fate.shelf));
        let change = self.change(number, id, EventKind::Bury, from, to, Some(fate.header));
        self.make_visible(change, visibility);
        self.trim(number, Shelf::Buried, visibility);
        Ok(())
    }

    /// Writes what becomes of a task: its position, its header and its failure. The caller makes the
    /// change visible.
    pub(in crate::core) fn carry_out_fate(
        &mut self,
        number: u32,
        id: u64,
        found: &Found,
        fate: &mut Fate,
        owner: Option<Arc<str>>,
    ) -> Result<()> {
        let earlier = self.earlier_failure(number, id, &found.record.header, fate)?;
        let note = fate.failure.as_ref().map(|failure| {
            fate.header.edit_more(|more| more.notes |= Note::Failure.bit());
            encode_failure(failure, &fate.header, owner.clone(), self.now.timeline)
        });
        if fate.header.more.is_some() {
            self.need_format(FORMAT);
        }
        self.edit(number, |ledger| {
            if fate.shelf == found.shelf {
                ledger.rewrite(id, found, &fate.header);
            } else {
                ledger.move_to_shelf(id, found, fate.shelf, &fate.header)?;
            }
            if let Some(note) = &note {
                let existed = Note::Failure.is_in(&found.record.header);
                ledger.set_note(id, existed, Note::Failure, note);
            }
            Ok(())
        })?;
        let failure = match &fate.failure {
            Some(failure) => Some(failure_of(failure, &fate.header, owner.as_deref())),
            None => earlier,
        };
        if fate.shelf == Shelf::Buried && failure.is_some() {
            self.note_ending(id, Ending::Buried { failure });
        }
        Ok(())
    }

    /// The failure that a task had before it is buried without one.
    fn earlier_failure(
        &mut self,
        number: u32,
        id: u64,
        header: &Header,
        fate: &Fate,
    ) -> Result<Option<LastFailure>> {
        if fate.shelf != Shelf::Buried || fate.failure.is_some() {
            return Ok(None);
        }
        match self.last_failure(number, id, header) {
            // `verify` reports it.
            Err(Error::Corrupt { .. }) => Ok(None),
            failure => failure,
        }
    }

    /// Ends the claims that were counted and not parked, of a run that ended without a close.
    pub(crate) fn end_lost_claims(&mut self) -> Result<()> {
        for lost in self.claim_rows()?.into_iter().filter(|found| found.row.until == 0) {
            match self.end_of_row(lost.number, lost.id, lost.row, End::ProcessEnded) {
                // A damaged task stays as it is, and `verify` reports it.
                Ok(()) | Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.buffers[FILE].end_call();
        Ok(())
    }

    /// Ends the claim of a row, which memory does not have, and removes the row.
    fn end_of_row(&mut self, number: u32, id: u64, row: ClaimRow, end: End<'_>) -> Result<()> {
        let found = self.edit(number, |ledger| ledger.find(id))?;
        // A backoff must not give time to a task whose ttl has elapsed: the sweeper removes it.
        let is_live = |found: &Found| found.record.header.expires_at > self.now.timeline;
        let found = found.filter(|found| found.shelf == Shelf::Ready && is_live(found));
        if let Some(found) = found {
            let mut header = found.record.header.clone();
            header.takes = header.takes.max(row.takes);
            let mut fate = self.rules(number)?.fate(id, header, end);
            self.carry_out_fate(number, id, &found, &mut fate, row.label)?;
            let to = State::on_shelf(fate.shelf);
            let kind = match end {
                End::Unrecorded if to == State::Ready => None,
                End::Unrecorded => Some(EventKind::Bury),
                _ => Some(end.kind()),
            };
            if let Some(kind) = kind {
                let (from, visibility) = (Some(State::Ready), self.sweep_visibility(number));
                let change = self.change(number, id, kind, from, to, Some(fate.header));
                self.make_visible(change, visibility);
                self.trim(number, Shelf::Buried, visibility);
            }
        }
        self.remove_row_of(number, id);
        Ok(())
    }

    /// Records the attempts of the claims that ended while the storage failed. They have their rows
    /// still.
    pub(in crate::core) fn record_attempts(&mut self) -> Result<()> {
        let rows = self.claim_rows()?;
        let is_ended = |found: &FoundRow| found.row.until == 0 && !self.is_claimed(found.id);
        for FoundRow { number, id, row } in rows.into_iter().filter(is_ended).collect::<Vec<_>>() {
            match self.end_of_row(number, id, row, End::Unrecorded) {
                Ok(()) | Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Writes what becomes of the taken tasks when the store is closed, since claims end with the
    /// process. If a write fails, that take is not counted.
    pub(crate) fn write_ends_of_claims(&mut self) {
        let claims: Vec<_> = self.claims.iter().map(|(id, claim)| (*id, claim.clone())).collect();
        for (id, claim) in claims {
            if claim.parked.is_some() {
                let _ = self.write_header(id, claim.tube, &claim.header);
            } else {
                let _ = self.write_end_at_close(id, &claim);
            }
        }
    }

    fn write_end_at_close(&mut self, id: u64, claim: &ClaimState) -> Result<()> {
        let mut fate = self.rules(claim.tube)?.fate(id, claim.header.clone(), End::Closed);
        if fate.shelf == Shelf::Ready {
            self.write_header(id, claim.tube, &fate.header)?;
        } else {
            let (found, owner) = (self.find(claim.tube, id)?, self.label_of(claim));
            self.carry_out_fate(claim.tube, id, &found, &mut fate, owner)?;
        }
        self.remove_claim_row(id, claim);
        Ok(())
    }
}
