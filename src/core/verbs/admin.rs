//! The verbs that any caller may use on a stored task: bury, kick, delete, release_all.

use std::sync::Arc;

use tubewell_drivers::{Found, Header, Shelf};

use crate::commit::{Change, Visibility};
use crate::core::state::{Core, Decided};
use crate::{Error, EventKind, Receipt, Result, State};

/// Tasks kicked under one hold of the lock; more are kicked in several.
pub(crate) const KICK_STEP: u64 = 512;

/// How long the edits of the sweeper may wait for a flush, in microseconds.
const SWEEP_FLUSH: u64 = 50_000;

impl Core {
    pub(crate) fn bury(&mut self, number: u32, id: u64) -> Result<Decided<Receipt>> {
        let found = self.find(number, id)?;
        if found.shelf == Shelf::Buried {
            let receipt = self.memory_receipt(number, id, State::Buried);
            return Ok(Decided { answer: receipt, wait: self.batch_of_invisible(number, id) });
        }
        let mut header = self.header_now(&found, id);
        header.ready_at = 0;
        self.edit(number, |ledger| ledger.move_to_shelf(id, &found, Shelf::Buried, &header))?;
        let from = self.withdraw(number, &found, id);
        let change =
            self.change(number, id, EventKind::Bury, Some(from), State::Buried, Some(header));
        Ok(self.apply_change(number, change))
    }

    pub(crate) fn delete(&mut self, number: u32, id: u64) -> Result<Decided<Receipt>> {
        let found = self.find(number, id)?;
        let header = self.header_now(&found, id);
        self.edit(number, |ledger| ledger.remove(id, found.shelf, &found.record.header))?;
        self.note_freed(number, &header);
        let from = self.withdraw(number, &found, id);
        let change =
            self.change(number, id, EventKind::Delete, Some(from), State::Done, Some(header));
        Ok(self.apply_change(number, change))
    }

    /// Kicks up to [`KICK_STEP`] tasks; answers how many.
    pub(crate) fn kick(&mut self, number: u32, count: u64) -> Result<Decided<u64>> {
        let limit = usize::try_from(count.min(KICK_STEP)).unwrap_or(usize::MAX);
        let visibility = self.visibility(number);
        let buried = self.edit(number, |ledger| ledger.undamaged(Shelf::Buried, limit))?;
        let kicked = buried.len() as u64;
        self.look_up_heads(number, buried.iter().map(|(_, found)| &found.record.header.sub))?;
        self.publish_together(|core| {
            buried.iter().try_for_each(|(id, found)| core.kick_one(number, *id, found, visibility))
        })?;
        let mut decided = self.decided(number, visibility, |_| kicked);
        if kicked == 0 {
            decided.wait = None;
        }
        Ok(decided)
    }

    /// Makes up to `limit` taken tasks ready, whoever holds them; answers as `end_claims`.
    pub(crate) fn release_all(&mut self, number: u32, limit: usize) -> (u64, Result<()>) {
        let Some(tube) = self.tubes.get(&number) else { return (0, Ok(())) };
        let taken = tube.taken.iter().take(limit).map(|(_, id)| *id).collect();
        self.end_claims(taken)
    }

    fn kick_one(
        &mut self,
        number: u32,
        id: u64,
        found: &Found,
        visibility: Visibility,
    ) -> Result<()> {
        let header = found.record.header.clone();
        self.edit(number, |ledger| ledger.move_to_shelf(id, found, Shelf::Ready, &header))?;
        let (from, to) = (Some(State::Buried), State::Ready);
        let change = self.change(number, id, EventKind::Kick, from, to, Some(header));
        self.make_visible(change, visibility);
        Ok(())
    }

    pub(in crate::core) fn find(&mut self, number: u32, id: u64) -> Result<Found> {
        self.edit(number, |ledger| ledger.find(id))?.ok_or(Error::NotFound { id })
    }

    /// The header of a task that was found, its takes counted up to now.
    fn header_now(&self, found: &Found, id: u64) -> Header {
        let mut header = found.record.header.clone();
        if let Some(claim) = self.claims.get(&id) {
            header.takes = claim.header.takes;
        }
        header
    }

    /// Takes a task away from whoever has it, holder or window. Returns its state until now.
    fn withdraw(&mut self, number: u32, found: &Found, id: u64) -> State {
        if self.remove_claim(id).is_some() {
            return State::Taken;
        }
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.window.remove((found.record.header.order, id));
        }
        State::on_shelf(found.shelf)
    }

    /// Reads what making these sub-queues' tasks ready will ask for. A call that edits several
    /// tasks reads first: a storage that fails must not leave it half done.
    pub(in crate::core) fn look_up_heads<'a>(
        &mut self,
        number: u32,
        subs: impl ExactSizeIterator<Item = &'a Arc<str>>,
    ) -> Result<()> {
        if !self.tubes.get(&number).is_some_and(|tube| tube.definition.sub_queued) {
            return Ok(());
        }
        self.edit(number, |ledger| {
            ledger.head_cache.reserve(subs.len());
            for sub in subs {
                ledger.head_of(sub)?;
            }
            Ok(())
        })
    }

    pub(in crate::core) fn apply_change(
        &mut self,
        number: u32,
        change: Change,
    ) -> Decided<Receipt> {
        let (id, state) = (change.id, change.to);
        let visibility = self.visibility(number);
        self.make_visible(change, visibility);
        self.decided(number, visibility, |commit| Receipt { id, state, commit })
    }

    /// How the sweeper's own edits settle: they can be made again, so nobody waits for them.
    pub(in crate::core) fn visibility_of_sweep(&self, number: u32) -> Visibility {
        match self.visibility(number) {
            Visibility::Flushed => Visibility::Within(SWEEP_FLUSH),
            other => other,
        }
    }
}
