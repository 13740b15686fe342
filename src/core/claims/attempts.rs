//! Attempts: takes that are counted before they are handed out, and tasks that have none left.
//!
//! A counted claim has a row in the table `claims` until it ends. A row without a claim, at open,
//! is an attempt that was lost with its process.

use std::sync::Arc;

use tubewell_drivers::{Found, Header, NewEntries, Note, Shelf};

use super::failure::{encode_failure, failure_of};
use super::fate::{End, Fate, Rules};
use super::row::{ClaimRow, FoundRow};
use crate::base::tube_no::TubeNo;
use crate::commit::Visibility;
use crate::core::history::{Entry, LostTake};
use crate::core::state::{Buffer, ClaimState, Core, Counted, ParentEnd, Wait};
use crate::values::ending::LastFailure;
use crate::{Counting, Ending, Error, EventKind, Failure, Result, TaskState};

impl Core {
    /// The rules of a tube, now.
    pub(in crate::core) fn rules(&self, number: TubeNo) -> Result<Rules<'_>> {
        let definition = &self.tubes.get(number).ok_or(Error::Closed)?.definition;
        let (policies, timed) = (&definition.policies, definition.timed);
        Ok(Rules { policies, timed, now: self.now.timeline, wall: self.wall.clock() })
    }

    /// Counts the take of a claim that was just made, if its task has a limited number of attempts.
    /// Returns what the taker waits for before it gets the task.
    pub(in crate::core) fn count_take(&mut self, id: u64) -> Option<Box<Wait>> {
        let claim = self.claims.get(id)?;
        let tube = self.tubes.get(claim.tube)?;
        let policies = &tube.definition.policies;
        let (number, counting) = (claim.tube, policies.count_takes);
        claim.header.attempts_left(policies.max_attempts)?;
        let in_memory = tube.buffer != Buffer::File || self.config.in_memory;
        if in_memory || counting == Counting::Lazily {
            return None;
        }
        let row = self.counting_row(claim, claim.header.takes);
        // The row of a claim whose end is not recorded yet may still be there.
        self.write_claim_row(number, id, &row, !self.claims.has_unrecorded_ends());
        if let Some(claim) = self.claims.get_mut(id) {
            claim.is_counted = true;
        }
        Some(Box::new(match counting {
            Counting::Flushed => self.flush_of(Buffer::File),
            _ => self.write_of(Buffer::File),
        }))
    }

    /// Whether a task has no attempt left.
    pub(in crate::core) fn is_spent(&self, number: TubeNo, header: &Header) -> bool {
        let Some(tube) = self.tubes.get(number) else { return false };
        header.attempts_left(tube.definition.policies.max_attempts) == Some(0)
    }

    /// Buries a ready task that has no attempt left, instead of handing it out.
    pub(in crate::core) fn bury_spent(&mut self, number: TubeNo, id: u64) -> Result<()> {
        let found = self.find(number, id)?;
        let header = found.record.header.clone();
        // As if the last attempt had been lost: its end was not recorded.
        let mut fate = self.rules(number)?.fate(id, header, End::ProcessEnded);
        let visibility = self.sweep_visibility(number);
        self.carry_out_fate((number, id), &found, EventKind::Bury, &mut fate, None, visibility)?;
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.window.remove((found.record.header.order, id));
        }
        self.make_fate_visible((number, id), EventKind::Bury, TaskState::Ready, fate, visibility);
        Ok(())
    }

    /// Makes visible what has become of a task of a tube, and trims the buried tasks. Returns its
    /// state.
    pub(in crate::core) fn make_fate_visible(
        &mut self,
        (number, id): (TubeNo, u64),
        kind: EventKind,
        from: TaskState,
        fate: Fate,
        visibility: Visibility,
    ) -> TaskState {
        let to = TaskState::on_shelf(fate.shelf);
        if let (EventKind::Fail, Some(failure)) = (kind, &fate.failure) {
            self.note_cause(id, Some(failure.shared_group().clone()));
        }
        let change = self.change(number, id, kind, Some(from), to, Some(fate.header));
        self.make_visible(change, visibility);
        if fate.shelf == Shelf::Buried {
            self.trim(number, Shelf::Buried, visibility);
        }
        to
    }

    /// Writes what becomes of a task of a tube: its position, its header and its failure. The caller
    /// makes the change of this kind visible.
    pub(in crate::core) fn carry_out_fate(
        &mut self,
        (number, id): (TubeNo, u64),
        found: &Found,
        kind: EventKind,
        fate: &mut Fate,
        owner: Option<Arc<str>>,
        visibility: Visibility,
    ) -> Result<()> {
        self.add_reported_failure(number, id, found, fate)?;
        let is_buried = fate.shelf == Shelf::Buried && found.shelf != Shelf::Buried;
        let has_children = is_buried && self.has_children(number, id)?;
        let failure = fate
            .failure
            .as_ref()
            .map(|it| failure_of((fate.kind, it), &fate.header, owner.as_deref()));
        let note = failure.as_ref().map(|it| encode_failure(it, self.now.timeline));
        if note.is_some() {
            fate.header.edit_more(|more| more.notes |= Note::Failure.bit());
        }
        let entries = self.add_fate_to_history((number, id), found, kind, fate, owner.as_deref());
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
            ledger.write_entries(id, &fate.header, &entries);
            Ok(())
        })?;
        if failure.is_some() {
            self.count(number, Counted::Failure);
        }
        if has_children {
            self.tell_later_as(visibility, number, id, ParentEnd::Buried);
        }
        if let Some(tube) = self.tubes.get_mut(number) {
            let rank = (fate.header.order_on(fate.shelf), id);
            tube.empty_up_to.note_arrival(fate.shelf, rank);
        }
        if fate.shelf == Shelf::Buried && Note::Failure.is_in(&fate.header) {
            let failure = match failure {
                // A failure of an earlier attempt. A damaged one is reported by `verify`.
                None => self.last_failure(number, id, &fate.header).unwrap_or_default(),
                recorded => recorded,
            };
            self.note_ending_as(visibility, id, || Ending::Buried { failure });
        }
        Ok(())
    }

    /// Adds to the history of a task what becomes of it.
    fn add_fate_to_history(
        &mut self,
        (number, id): (TubeNo, u64),
        found: &Found,
        kind: EventKind,
        fate: &mut Fate,
        owner: Option<&str>,
    ) -> NewEntries {
        let has_history = self.history_limit(number) > 0;
        let failure = fate.failure.as_ref().filter(|_| has_history);
        let text = failure.map(|failure| format!("{}: {}", failure.group(), failure.message()));
        let state = TaskState::on_shelf(fate.shelf);
        let entry = Entry { kind, state, text: text.as_deref(), owner };
        let before = Some(&found.record.header);
        self.add_to_history(number, id, before, &mut fate.header, Some(entry))
    }

    /// Adds the failure that a worker has reported before to the cause of the end of the last
    /// attempt. A failure of attempts that were forgiven meanwhile is not added.
    fn add_reported_failure(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
        fate: &mut Fate,
    ) -> Result<()> {
        let is_unreported = fate.is_unreported();
        let Some(cause) = fate.failure.as_mut().filter(|_| is_unreported) else { return Ok(()) };
        let reported = match self.last_failure(number, id, &found.record.header) {
            // The task is buried all the same; `verify` reports the note.
            Err(Error::Corrupt { .. }) => None,
            reported => reported?,
        };
        if let Some(reported) = reported.filter(|it| it.attempt < fate.header.attempts()) {
            let LastFailure { group, message, attempt, .. } = reported;
            let before = format!("attempt {attempt} failed with {group}: {message}");
            *cause = Failure::new(cause.group(), format!("{}; {before}", cause.message()));
        }
        Ok(())
    }

    /// Ends the claims that were counted and not parked, of a run that ended without a close.
    pub(crate) fn end_lost_claims(&mut self) -> Result<()> {
        self.end_claims_of_rows(End::ProcessEnded)
    }

    /// Stores the ends of claims that could not be stored while the storage failed.
    pub(in crate::core) fn record_ends(&mut self) {
        if !self.claims.take_unrecorded_ends() {
            return;
        }
        if let Err(error) = self.end_claims_of_rows(End::Unrecorded) {
            self.claims.note_unrecorded_end();
            self.fail_with(&error);
        }
    }

    /// Ends the claims that have a row and are not in memory. Parked ones are.
    fn end_claims_of_rows(&mut self, end: End<'_>) -> Result<()> {
        for lost in self.claim_rows()?.into_iter().filter(|found| found.row.until == 0) {
            if self.is_claimed(lost.id) {
                continue;
            }
            match self.end_lost_claim(lost, end) {
                // A damaged task stays as it is, and `verify` reports it.
                Ok(()) | Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        self.buffers[Buffer::File].end_call();
        Ok(())
    }

    fn end_lost_claim(&mut self, lost: FoundRow, end: End<'_>) -> Result<()> {
        let FoundRow { number, id, row } = lost;
        let found = self.edit(number, |ledger| ledger.find(id))?;
        // A backoff must not give time to a task whose ttl has elapsed: the sweeper removes it.
        let is_live = |found: &Found| found.record.header.expires_at > self.now.timeline;
        let found = found.filter(|found| found.shelf == Shelf::Ready && is_live(found));
        if let Some(found) = found {
            let found = self.write_lost_take(number, id, found, &row)?;
            let mut header = found.record.header.clone();
            header.takes = header.takes.max(row.takes);
            let mut fate = self.rules(number)?.fate(id, header, end);
            let (task, kind, visibility) =
                ((number, id), end.kind(), self.sweep_visibility(number));
            self.carry_out_fate(task, &found, kind, &mut fate, row.label, visibility)?;
            if end.is_loss() {
                self.count(number, Counted::Lost);
            }
            // An end in memory was reported when the task became ready.
            if fate.shelf != Shelf::Ready || matches!(end, End::ProcessEnded) {
                self.make_fate_visible(task, kind, TaskState::Ready, fate, visibility);
            }
        }
        self.erase_claim_row(number, id);
        Ok(())
    }

    /// Adds a take to the history of its task, if only the row of its claim has counted it. Returns the
    /// task as it is then.
    fn write_lost_take(
        &mut self,
        number: TubeNo,
        id: u64,
        found: Found,
        row: &ClaimRow,
    ) -> Result<Found> {
        if self.history_limit(number) == 0 || found.record.header.takes >= row.takes {
            return Ok(found);
        }
        let mut header = Header { takes: row.takes, ..found.record.header.clone() };
        let at = row.taken_on.0.unwrap_or(self.now.timeline);
        let lost = LostTake { at, owner: row.label.as_deref() };
        let entries = self.add_lost_take(number, id, &mut header, lost);
        self.edit(number, |ledger| {
            ledger.rewrite(id, &found, &header);
            ledger.write_entries(id, &header, &entries);
            Ok(())
        })?;
        self.find(number, id)
    }

    /// Writes what becomes of the taken tasks when the store is closed, since claims end with the
    /// process. If a write fails, that take is not counted.
    pub(crate) fn write_ends_of_claims(&mut self) {
        let claims: Vec<_> = self.claims.iter().map(|(id, claim)| (id, claim.clone())).collect();
        for (id, claim) in claims {
            if claim.parked.is_some() {
                let _ = self.write_header(id, claim.tube, &mut claim.header.clone(), None);
            } else {
                let _ = self.write_end_at_close(id, &claim);
            }
        }
    }

    fn write_end_at_close(&mut self, id: u64, claim: &ClaimState) -> Result<()> {
        let mut fate = self.rules(claim.tube)?.fate(id, claim.header.clone(), End::Closed);
        if fate.shelf == Shelf::Ready {
            let entry = Entry::new(EventKind::Lost, TaskState::Ready);
            self.write_header(id, claim.tube, &mut fate.header, Some(entry))?;
        } else {
            let (found, owner) = (self.find(claim.tube, id)?, self.label_of(claim));
            let (task, visibility) = ((claim.tube, id), self.visibility(claim.tube));
            self.carry_out_fate(task, &found, EventKind::Lost, &mut fate, owner, visibility)?;
        }
        self.remove_claim_row(id, claim);
        if fate.shelf == Shelf::Buried { self.trim_buried_at_close(claim.tube) } else { Ok(()) }
    }
}
