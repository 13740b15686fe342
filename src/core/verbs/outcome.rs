//! Outcomes: acks with a result, tasks that are kept after their end, and failure groups.
//!
//! A tube that keeps its done tasks has them on a shelf of their own, the oldest first. They take
//! no place of its capacity. `retention` limits their number.

use tubewell_drivers::{Found, Header, Note, PAGE_MAX, Shelf};

use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Keeping, Visibility};
use crate::core::claims::{IS_DONE, IS_SCHEDULE};
use crate::core::history::Entry;
use crate::core::state::{ClaimKey, Core, Decided, check_size};
#[cfg(feature = "tracing")]
use crate::core::verb::Operation;
use crate::core::verb::{Decide, Limits, TubeRef, verb};
use crate::core::verbs::peek::cursor;
use crate::values::ending::FailureGroup;
use crate::values::task::{Cursor, CursorOf};
use crate::{Ending, Error, EventKind, Receipt, Result, TaskState};

verb! {
    /// Ends a task for its holder, with or without a result.
    0 OfClaim Edit: Ack { result: Option<Vec<u8>> } -> Receipt {
        const ENDS_CLAIM: bool = true;

        fn check(&self, limits: Limits) -> Result<()> {
            check_result(self.result.as_deref(), limits)
        }

        #[cfg(feature = "tracing")]
        fn operation(&self) -> Option<Operation> {
            Some(Operation::Settle("ack"))
        }
    }
}

impl Decide for Ack {
    #[inline]
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.ack(key, self.result.as_deref())
    }
}

verb! {
    /// Ends a task that nobody has taken, as its holder would.
    35 InTube Edit: Resolve { id: u64, result: Option<Vec<u8>> } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }

        fn check(&self, limits: Limits) -> Result<()> {
            check_result(self.result.as_deref(), limits)
        }
    }
}

impl Decide for Resolve {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        let (id, result) = (self.id, self.result.as_deref());
        let found = core.find(number, id)?;
        if let Some(why) = core.holder_of(id) {
            return Err(Error::NotReady { id, state: TaskState::Taken, why });
        }
        check_not_done(id, &found)?;
        let header = found.record.header.clone();
        let (keeping, freed) = core.end_parent(number, id, |core| {
            core.store_end((number, id), EventKind::Resolve, found.shelf, &header, result)
        })?;
        let from = core.remove_from_memory(number, &found, id);
        let (kind, to) = (EventKind::Resolve, TaskState::Done);
        let change = core.change(number, id, kind, Some(from), to, Some(header));
        Ok(core.publish_with_freed(number, freed, |core| {
            core.end_with_result(Change { keeping, ..change }, result)
        }))
    }
}

verb! {
    /// Removes a task that is done and kept.
    37 InTube Edit: Forget { id: u64 } -> Receipt {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for Forget {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Receipt>> {
        let Forget { id } = *self;
        let found = core.find(number, id)?;
        if found.shelf != Shelf::Done {
            return Err(Error::NotDone { id, state: core.state_of(id, found.shelf) });
        }
        let visibility = core.visibility(number);
        core.forget_one(number, id, &found, visibility)?;
        Ok(core.decided(number, visibility, |commit| Receipt {
            id,
            state: TaskState::Done,
            commit,
        }))
    }
}

verb! {
    /// How a task has ended; `None` if it has not.
    38 InTube Read: EndingOf { id: u64 } -> Option<Ending> {
        fn refusal_waits(&self) -> bool {
            true
        }
    }
}

impl Decide for EndingOf {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Option<Ending>>> {
        let ending = core.ending_of(number, self.id)?;
        let mut decided = core.once_visible(number, self.id, ending);
        if decided.answer.is_some() && decided.wait.is_none() {
            decided.wait = core.write_of_change(number);
        }
        Ok(decided)
    }
}

verb! {
    /// The failure groups of a tube, by name.
    39 InTube Look: Groups {} -> Vec<FailureGroup>
}

impl Decide for Groups {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Vec<FailureGroup>>> {
        let groups = core.edit(number, |ledger| ledger.groups(PAGE_MAX))?.into_iter();
        let groups = groups.map(|(name, count)| FailureGroup { name, count });
        Ok(Decided::now(groups.collect()))
    }
}

impl Core {
    /// Ends a task for its holder, with or without a result.
    pub(in crate::core) fn ack(
        &mut self,
        key: ClaimKey,
        result: Option<&[u8]>,
    ) -> Result<Decided<Receipt>> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        let Some(claim) = self.claims.get(id) else { return Err(Error::NotTaken { id }) };
        let header = claim.header.clone();
        let (keeping, freed) = self.end_parent(number, id, |core| {
            core.store_end((number, id), EventKind::Ack, Shelf::Ready, &header, result)
        })?;
        self.count_ack(number, id);
        self.remove_claim(id);
        let (from, to) = (Some(TaskState::Taken), TaskState::Done);
        let mut change = self.change(number, id, EventKind::Ack, from, to, Some(header));
        Ok(self.publish_with_freed(number, freed, |core| {
            if keeping == Keeping::Unchanged && result.is_none() {
                return core.apply_change(number, change);
            }
            change.keeping = keeping;
            core.end_with_result(change, result)
        }))
    }

    /// Removes a task that is kept after its end: done, or buried.
    pub(in crate::core) fn forget_one(
        &mut self,
        number: TubeNo,
        id: u64,
        found: &Found,
        visibility: Visibility,
    ) -> Result<()> {
        self.remove_as_gone(number, id, found)?;
        self.note_freed(number, &found.record.header);
        self.note_header(id, &found.record.header);
        let (kind, from) = (EventKind::Forget, TaskState::on_shelf(found.shelf));
        let change = self.change(number, id, kind, Some(from), TaskState::Done, None);
        let keeping = kept_until_now(found.shelf);
        self.make_visible(Change { keeping, ..change }, visibility);
        Ok(())
    }

    /// Removes a task that is done, or keeps it if its tube does. `kind` is how it has ended; `header`
    /// has its takes.
    pub(super) fn store_end(
        &mut self,
        (number, id): (TubeNo, u64),
        kind: EventKind,
        shelf: Shelf,
        header: &Header,
        result: Option<&[u8]>,
    ) -> Result<Keeping> {
        if self.rules(number)?.policies.keep_done.is_some()
            && let Some(kept) = self.rules(number)?.done(header, result.is_some())
        {
            return self.keep_done((number, id), kind, kept, result);
        }
        self.edit(number, |ledger| ledger.remove(id, shelf, header))?;
        self.note_freed(number, header);
        Ok(Keeping::Unchanged)
    }

    /// Moves a task to those that are done and kept, with its result.
    #[cold]
    fn keep_done(
        &mut self,
        (number, id): (TubeNo, u64),
        kind: EventKind,
        mut kept: Header,
        result: Option<&[u8]>,
    ) -> Result<Keeping> {
        let found = self.find(number, id)?;
        if let Some(result) = result {
            self.check_disk_space(number, result.len(), 1)?;
        }
        let (before, entry) = (Some(&found.record.header), Entry::new(kind, TaskState::Done));
        let entries = self.add_to_history(number, id, before, &mut kept, Some(entry));
        self.edit(number, |ledger| {
            ledger.move_to_shelf(id, &found, Shelf::Done, &kept)?;
            ledger.write_entries(id, &kept, &entries);
            if let Some(result) = result {
                let existed = Note::Result.is_in(&found.record.header);
                ledger.set_note(id, existed, Note::Result, result);
            }
            Ok(())
        })?;
        Ok(Keeping::Kept)
    }

    /// Makes the end of a task visible, with its result, and trims the kept tasks.
    fn end_with_result(&mut self, change: Change, result: Option<&[u8]>) -> Decided<Receipt> {
        let (number, is_kept) = (change.tube, change.keeping == Keeping::Kept);
        if let Some(result) = result {
            let ending = || Ending::Done { result: Some(result.to_vec()) };
            self.note_ending(number, change.id, ending);
        }
        if !is_kept {
            return self.apply_change(number, change);
        }
        self.apply_and_trim(change, Shelf::Done)
    }

    /// Makes an end visible, and trims the tasks of the shelf that it has gone to.
    pub(in crate::core) fn apply_and_trim(
        &mut self,
        change: Change,
        shelf: Shelf,
    ) -> Decided<Receipt> {
        let number = change.tube;
        self.publish_together(|core| {
            let decided = core.apply_change(number, change);
            core.trim(number, shelf, core.visibility(number));
            decided
        })
    }
}

/// Refuses a result that is too large.
fn check_result(result: Option<&[u8]>, limits: Limits) -> Result<()> {
    result.map_or(Ok(()), |result| check_size("result", result, limits.max_body))
}

/// Refuses a task that is done, and a schedule.
pub(in crate::core) fn check_not_done(id: u64, found: &Found) -> Result<()> {
    if found.shelf != Shelf::Done {
        return check_no_schedule(id, found);
    }
    Err(Error::NotReady { id, state: TaskState::Done, why: IS_DONE.to_owned() })
}

/// Refuses a schedule.
pub(in crate::core) fn check_no_schedule(id: u64, found: &Found) -> Result<()> {
    if found.shelf != Shelf::Recurring {
        return Ok(());
    }
    Err(Error::NotReady { id, state: TaskState::Recurring, why: IS_SCHEDULE.to_owned() })
}

/// What the removal of a task means for the kept tasks of its tube.
pub(in crate::core) fn kept_until_now(shelf: Shelf) -> Keeping {
    if shelf == Shelf::Done { Keeping::Forgotten } else { Keeping::Unchanged }
}

/// The place of a task in the pages of its failure group.
pub(super) fn group_cursor(group: &str, (id, found): &(u64, Found)) -> Cursor {
    let more = found.record.header.more.as_ref();
    let ended = more.and_then(|more| more.ended).unwrap_or_default();
    Cursor { of: Some(CursorOf::Group(group.into())), ..cursor(Shelf::Buried, ended, *id) }
}
