//! Replacement: a task begins anew under its id, with what a put says, in the tube of the put.

use tubewell_drivers::{Header, NewEntries, Note, Shelf, Value};

use super::keys::Keyed;
use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Keeping, Visibility};
use crate::core::history::Entry;
use crate::core::state::{Core, Decided, PutRequest};
use crate::{Error, EventKind, Receipt, Result, TaskState};

/// A replaced task whose rows are written, and whose changes are still to be made visible.
pub(super) struct Replacement {
    /// The task before.
    keyed: Keyed,
    header: Header,
    shelf: Shelf,
    /// The row that ends with the new body.
    row: Value,
}

impl Keyed {
    /// Whether the task needs a further place of the capacity of this tube, when it is replaced by a
    /// put into it.
    pub(super) fn needs_place(&self, number: TubeNo) -> bool {
        self.number != number || self.found.shelf == Shelf::Done
    }
}

impl Replacement {
    pub(super) fn id(&self) -> u64 {
        self.keyed.id
    }

    pub(super) fn state(&self) -> TaskState {
        TaskState::on_shelf(self.shelf)
    }
}

impl Core {
    /// Replaces a task. `places`: as in `replaced_header`.
    pub(super) fn replace(
        &mut self,
        number: TubeNo,
        request: &PutRequest,
        keyed: Keyed,
        places: Option<u64>,
    ) -> Result<Decided<Receipt>> {
        let header = self.replaced_header(number, request, &keyed, places)?;
        self.check_disk_space(number, request.bytes(), 1)?;
        let numbers = [number, keyed.number];
        let replacement = self.atomically_in(&numbers, |core| {
            core.store_replacement(number, request, keyed, header)
        })?;
        let (id, state) = (replacement.id(), replacement.state());
        let visibility = self.common_visibility(&numbers);
        let visibility = self.visibility_with_ids(visibility, id.saturating_add(1));
        self.publish_together(|core| core.finish_replacement(number, replacement, visibility));
        Ok(self.decided(number, visibility, |commit| Receipt { id, state, commit }))
    }

    /// Checks a put that replaces a task, and returns the header. Edits nothing. `places`: how many
    /// places of the capacity the same call has taken up; `None` if there is capacity.
    pub(super) fn replaced_header(
        &self,
        number: TubeNo,
        request: &PutRequest,
        keyed: &Keyed,
        places: Option<u64>,
    ) -> Result<Header> {
        let tube = self.tubes.get(number).ok_or(Error::Closed)?;
        self.check_one_buffer(keyed.number, number)?;
        if keyed.found.shelf == Shelf::Done {
            self.check_is_told(keyed.number, keyed.id)?;
        }
        if let Some(places) = places.filter(|_| keyed.needs_place(number)) {
            tube.check_capacity(tube.driver(|| self.tubes.known_drivers())?, places)?;
        }
        let old = &keyed.found.record.header;
        let had_times = self.tubes.get(keyed.number).is_some_and(|tube| tube.definition.timed);
        let is_timed = had_times && tube.definition.timed;
        let filled = filled(request, old, is_timed, tube.definition.sub_queued);
        let mut header = self.new_header(number, &filled, None)?;
        header.created = old.created;
        header.takes = self.claims.get(keyed.id).map_or(old.takes, |claim| claim.header.takes);
        let (takes, has_failure) = (header.takes, has_failure(keyed));
        header.edit_more(|more| {
            more.forgiven = takes;
            more.spawned_by = old.more.as_ref().and_then(|old| old.spawned_by);
            more.notes = if has_failure { Note::Failure.bit() } else { 0 };
        });
        Ok(header)
    }

    /// Writes the rows of a task that is replaced. The call may still be taken back.
    pub(super) fn store_replacement(
        &mut self,
        number: TubeNo,
        request: &PutRequest,
        keyed: Keyed,
        mut header: Header,
    ) -> Result<Replacement> {
        let Keyed { number: before, id, found } = &keyed;
        let old = &found.record.header;
        let parents = match request.after.as_deref() {
            Some(after) if after.names_parents() => {
                self.block(number, *id, request, &mut header)?
            }
            after => {
                header.edit_more(|more| {
                    let old = old.more.as_deref();
                    (more.open_parents, more.done_parents, more.failed_parents) = old
                        .map_or((0, 0, 0), |old| {
                            (old.open_parents, old.done_parents, old.failed_parents)
                        });
                    more.on_parent = match after {
                        Some(after) => after.on_parent.number(),
                        None => old.map_or(0, |old| old.on_parent),
                    };
                });
                self.parents_of(*before, *id, found)?
            }
        };
        let shelf = self.clocks().place(!parents.is_empty(), &mut header);
        let rules = self.rules(number)?;
        rules.note_ready(shelf, &mut header, rules.now);
        self.move_children(*before, *id, number)?;
        let failure = if has_failure(&keyed) {
            self.edit(*before, |ledger| ledger.note(*id, old, Note::Failure))
        } else {
            Ok(None)
        };
        let failure = match failure {
            // `verify` reports the damaged note, which goes with the task as it was.
            Err(Error::Corrupt { .. }) => None,
            failure => failure?,
        };
        if failure.is_none() {
            header.edit_more(|more| more.notes = 0);
        }
        let entry = Entry::new(EventKind::Replace, TaskState::on_shelf(shelf));
        let current = Header { takes: header.takes, ..old.clone() };
        let entries = match self.past_of(*before, *id, &current, number)? {
            Some(past) => self.continue_history(number, *id, &past, &mut header, entry),
            None => NewEntries::new(),
        };
        let moves = *before != number;
        if moves {
            self.tubes.note_stray(number);
            self.edit(*before, |ledger| ledger.remove(*id, found.shelf, old))?;
        }
        let row = self.edit_and_remember(number, *id, request, |ledger| {
            if !moves {
                ledger.remove(*id, found.shelf, old)?;
            }
            let row = ledger.insert(*id, shelf, &header, &request.body)?;
            ledger.write_entries(*id, &header, &entries);
            if let Some(failure) = &failure {
                ledger.set_note(*id, false, Note::Failure, failure);
            }
            ledger.add_edges(*id, &parents);
            Ok(row)
        })?;
        Ok(Replacement { keyed, header, shelf, row })
    }

    /// Updates what memory has of a replaced task, and makes the change visible. A claim on it ends
    /// with a change of its own, which frees the sub-queue that the task was in.
    pub(super) fn finish_replacement(
        &mut self,
        number: TubeNo,
        replacement: Replacement,
        visibility: Visibility,
    ) {
        let to = replacement.state();
        let Replacement { keyed: Keyed { number: before, id, found }, header, row, .. } =
            replacement;
        let old = &found.record.header;
        self.note_freed(before, old);
        self.forget_burial(before, id);
        let mut from = self.remove_from_memory(before, &found, id);
        if from == TaskState::Taken {
            self.note_cause(id, Some("replaced"));
            let (taken, ready) = (Some(TaskState::Taken), TaskState::Ready);
            let lost = self.change(before, id, EventKind::Lost, taken, ready, Some(old.clone()));
            self.make_visible(Change { is_intermediate: true, ..lost }, visibility);
            from = ready;
        } else if old.sub != header.sub
            && before == number
            && let Err(error) = self.offer_sub(number, &old.sub, None)
        {
            self.fail_with(&error);
        }
        let was_kept = from == TaskState::Done;
        let mut keeping = if was_kept { Keeping::Forgotten } else { Keeping::Unchanged };
        if was_kept || before != number {
            self.occupy(number);
        }
        if before != number {
            let leave = self.leave(before, id, EventKind::Move, from, old.clone());
            self.make_visible(Change { keeping, ..leave }, visibility);
            let arrival = self.change(number, id, EventKind::Move, None, to, None);
            self.make_visible(Change { is_intermediate: true, ..arrival }, visibility);
            (from, keeping) = (to, Keeping::Unchanged);
        }
        let put = self.change(number, id, EventKind::Replace, Some(from), to, Some(header));
        self.make_visible(Change { row: Some(row), keeping, ..put }, visibility);
    }
}

/// The put, with what it leaves out as the task has it.
fn filled(request: &PutRequest, old: &Header, timed: bool, sub_queued: bool) -> PutRequest {
    let mut filled = request.clone();
    if timed {
        filled.priority = filled.priority.or(Some(old.priority));
        filled.ttr = filled.ttr.or(Some(old.ttr));
        filled.not_before = filled.not_before.or(old.not_before());
        filled.max_runtime = filled.max_runtime.or(old.own_max_runtime());
    }
    if sub_queued && filled.sub.is_none() && !old.sub.is_empty() {
        filled.sub = Some(old.sub.to_string());
    }
    let own_limit = old.more.as_ref().and_then(|more| more.max_attempts);
    filled.max_attempts = filled.max_attempts.or(own_limit);
    if let (true, Some(more)) = (filled.tags.is_empty(), &old.more) {
        filled.tags = more.tags.clone();
    }
    filled
}

/// Whether the last failure of a task stays when it is replaced: not if it is done.
fn has_failure(keyed: &Keyed) -> bool {
    keyed.found.shelf != Shelf::Done && Note::Failure.is_in(&keyed.found.record.header)
}
