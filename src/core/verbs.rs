//! The verbs on tasks that are stored.

use std::sync::Arc;

use tubewell_drivers::{Found, Header, NEVER, Shelf};

use super::publish::state_on;
use super::{Core, Decided, Settle};
use crate::{Error, EventKind, Receipt, Result, SessionId, State};

/// Tasks kicked under one hold of the lock; more are kicked in several.
pub(crate) const KICK_STEP: u64 = 512;

/// Who asks: a session, by the claim of this epoch if there is one.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Holder {
    pub(crate) session: SessionId,
    pub(crate) epoch: Option<u64>,
}

impl Core {
    pub(crate) fn ack(&mut self, number: u32, by: Holder, id: u64) -> Result<Decided<Receipt>> {
        self.check_claim(number, by.session, id, by.epoch)?;
        let Some(claim) = self.claims.get(&id) else { return Err(Error::NotTaken { id }) };
        let header = claim.header.clone();
        self.edit(number, |books| books.remove(id, Shelf::Ready, &header))?;
        self.note_room(number, &header);
        self.unclaim(id);
        let change =
            self.change(number, id, EventKind::Ack, Some(State::Taken), State::Done, Some(header));
        Ok(self.settled_as(number, change))
    }

    /// Acks each of these, on its own terms, with one commit.
    pub(crate) fn ack_many(
        &mut self,
        tasks: impl Iterator<Item = (u32, Holder, u64)>,
    ) -> Decided<Vec<Result<Receipt>>> {
        let mut answers = Decided { answer: Vec::new(), wait: None };
        for (number, by, id) in tasks {
            let ack = self.ack(number, by, id).map(|decided| {
                answers.wait = decided.wait.or(answers.wait.take());
                decided.answer
            });
            answers.answer.push(ack);
        }
        answers
    }

    pub(crate) fn release(
        &mut self,
        number: u32,
        by: Holder,
        id: u64,
        delay: u64,
    ) -> Result<Decided<Receipt>> {
        self.check_claim(number, by.session, id, by.epoch)?;
        if delay == 0 {
            self.end_claim(id, EventKind::Release)?;
            return Ok(Decided { answer: self.remembered(number, id, State::Ready), wait: None });
        }
        if let Some(tube) = self.tubes.get(&number).filter(|tube| !tube.definition.timed) {
            return Err(tube.unsupported("a delay"));
        }
        let found = self.find(number, id)?;
        let Some(claim) = self.claims.get(&id) else { return Err(Error::NotTaken { id }) };
        let mut header = claim.header.clone();
        header.dead = header.dead.saturating_add(delay);
        header.wake = self.now.line.saturating_add(delay);
        self.edit(number, |books| books.shift(id, &found, Shelf::Delayed, &header))?;
        self.unclaim(id);
        let change = self.change(
            number,
            id,
            EventKind::Release,
            Some(State::Taken),
            State::Delayed,
            Some(header),
        );
        Ok(self.settled_as(number, change))
    }

    pub(crate) fn touch(
        &mut self,
        number: u32,
        by: Holder,
        id: u64,
        more: u64,
    ) -> Result<Decided<Receipt>> {
        self.check_claim(number, by.session, id, by.epoch)?;
        if let Some(tube) = self.tubes.get(&number).filter(|tube| !tube.definition.timed) {
            return Err(tube.unsupported("touch"));
        }
        let found = self.find(number, id)?;
        let Some(claim) = self.claims.get_mut(&id) else { return Err(Error::NotTaken { id }) };
        claim.header.dead = claim.header.dead.saturating_add(more);
        claim.header.ttr = claim.header.ttr.saturating_add(more);
        let (header, deadline) = (claim.header.clone(), claim.deadline.saturating_add(more));
        self.move_deadline(id, deadline);
        self.edit(number, |books| {
            books.rewrite(id, &found, &header);
            Ok(())
        })?;
        let change =
            self.change(number, id, EventKind::Touch, Some(State::Taken), State::Taken, None);
        Ok(self.settled_as(number, change))
    }

    pub(crate) fn renew(&mut self, number: u32, by: Holder, id: u64, hold: u64) -> Result<()> {
        self.check_claim(number, by.session, id, by.epoch)?;
        if let Some(tube) = self.tubes.get(&number).filter(|tube| !tube.definition.timed) {
            return Err(tube.unsupported("renew"));
        }
        let deadline = if hold == NEVER { NEVER } else { self.now.running.saturating_add(hold) };
        self.move_deadline(id, deadline);
        Ok(())
    }

    pub(crate) fn bury(&mut self, number: u32, id: u64) -> Result<Decided<Receipt>> {
        let found = self.find(number, id)?;
        if found.shelf == Shelf::Buried {
            let receipt = self.remembered(number, id, State::Buried);
            return Ok(Decided { answer: receipt, wait: self.unsettled_batch(number, id) });
        }
        let mut header = self.header_now(&found, id);
        header.wake = 0;
        self.edit(number, |books| books.shift(id, &found, Shelf::Buried, &header))?;
        let from = self.seize(number, &found, id);
        let change =
            self.change(number, id, EventKind::Bury, Some(from), State::Buried, Some(header));
        Ok(self.settled_as(number, change))
    }

    /// Buries a task for its holder.
    pub(crate) fn set_aside(
        &mut self,
        number: u32,
        by: Holder,
        id: u64,
    ) -> Result<Decided<Receipt>> {
        self.check_claim(number, by.session, id, by.epoch)?;
        self.bury(number, id)
    }

    pub(crate) fn delete(&mut self, number: u32, id: u64) -> Result<Decided<Receipt>> {
        let found = self.find(number, id)?;
        let header = self.header_now(&found, id);
        self.edit(number, |books| books.remove(id, found.shelf, &found.record.header))?;
        self.note_room(number, &header);
        let from = self.seize(number, &found, id);
        let change =
            self.change(number, id, EventKind::Delete, Some(from), State::Done, Some(header));
        Ok(self.settled_as(number, change))
    }

    /// Kicks up to [`KICK_STEP`] tasks; answers how many.
    pub(crate) fn kick(&mut self, number: u32, count: u64) -> Result<Decided<u64>> {
        let limit = usize::try_from(count.min(KICK_STEP)).unwrap_or(usize::MAX);
        let settle = self.settles(number);
        let buried = self.edit(number, |books| books.sound(Shelf::Buried, limit))?;
        let kicked = buried.len() as u64;
        self.look_up_heads(number, buried.iter().map(|(_, found)| &found.record.header.sub))?;
        self.together(|core| {
            buried.iter().try_for_each(|(id, found)| core.kick_one(number, *id, found, settle))
        })?;
        let mut decided = self.decided(number, settle, |_| kicked);
        if kicked == 0 {
            decided.wait = None;
        }
        Ok(decided)
    }

    /// Kicks this task.
    pub(crate) fn kick_task(&mut self, number: u32, id: u64) -> Result<Decided<Receipt>> {
        let found = self.find(number, id)?;
        if found.shelf != Shelf::Buried {
            return Err(Error::NotBuried { id });
        }
        let settle = self.settles(number);
        self.kick_one(number, id, &found, settle)?;
        Ok(self.decided(number, settle, |commit| Receipt { id, state: State::Ready, commit }))
    }

    /// Makes up to `limit` taken tasks ready, whoever holds them; answers as `end_claims`.
    pub(crate) fn release_all(&mut self, number: u32, limit: usize) -> (u64, Result<()>) {
        let Some(tube) = self.tubes.get(&number) else { return (0, Ok(())) };
        let taken = tube.taken.iter().take(limit).map(|(_, id)| *id).collect();
        self.end_claims(taken)
    }

    fn kick_one(&mut self, number: u32, id: u64, found: &Found, settle: Settle) -> Result<()> {
        let header = found.record.header.clone();
        self.edit(number, |books| books.shift(id, found, Shelf::Ready, &header))?;
        let (from, to) = (Some(State::Buried), State::Ready);
        let change = self.change(number, id, EventKind::Kick, from, to, Some(header));
        self.settle(change, settle);
        Ok(())
    }

    fn find(&mut self, number: u32, id: u64) -> Result<Found> {
        self.edit(number, |books| books.find(id))?.ok_or(Error::NotFound { id })
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
    fn seize(&mut self, number: u32, found: &Found, id: u64) -> State {
        if self.unclaim(id).is_some() {
            return State::Taken;
        }
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.window.remove((found.record.header.order, id));
        }
        state_on(found.shelf)
    }

    /// Reads what making these sub-queues' tasks ready will ask for. A call that edits several
    /// tasks reads first: a storage that fails must not leave it half done.
    pub(super) fn look_up_heads<'a>(
        &mut self,
        number: u32,
        subs: impl ExactSizeIterator<Item = &'a Arc<str>>,
    ) -> Result<()> {
        if !self.tubes.get(&number).is_some_and(|tube| tube.definition.sub_queued) {
            return Ok(());
        }
        self.edit(number, |books| {
            books.fronts.make_room(subs.len());
            for sub in subs {
                books.head_of(sub)?;
            }
            Ok(())
        })
    }

    fn settled_as(&mut self, number: u32, change: super::Change) -> Decided<Receipt> {
        let (id, state) = (change.id, change.to);
        let settle = self.settles(number);
        self.settle(change, settle);
        self.decided(number, settle, |commit| Receipt { id, state, commit })
    }

    /// How the sweeper's own edits settle: they can be made again, so nobody waits for them.
    pub(super) fn settles_lazily(&self, number: u32) -> Settle {
        match self.settles(number) {
            Settle::Flushed => Settle::Within(crate::options::SWEEP_FLUSH),
            other => other,
        }
    }
}
