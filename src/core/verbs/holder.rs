//! The verbs of the holder of a task: release, fail, snooze, touch, checkpoint, renew, bury.
//!
//! Each of them checks the claim first.

use tubewell_drivers::{Body, NEVER};

use crate::core::call::TubeRef;
use crate::core::claims::End;
use crate::core::history::Entry;
use crate::core::state::{ClaimKey, Core, Decided, Holder, Wait};
use crate::core::verb::{Decide, verb};
use crate::{Error, EventKind, Failure, Receipt, Result, State};

verb! {
    /// Acks each of these tasks of a session with one commit. Each ack succeeds or fails by itself.
    14 InTube Edit: AckMany { by: Holder, ids: Vec<u64> } -> Vec<Result<Receipt>>
}

impl Decide for AckMany {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Vec<Result<Receipt>>>> {
        let AckMany { by, ref ids } = *self;
        Ok(core.ack_many(ids.iter().map(|id| ClaimKey { tube: number, by, id: *id })))
    }
}

impl Core {
    /// Acks each of these tasks with one commit. Each ack succeeds or fails by itself.
    pub(in crate::core) fn ack_many(
        &mut self,
        tasks: impl Iterator<Item = ClaimKey>,
    ) -> Decided<Vec<Result<Receipt>>> {
        let mut answers = Decided { answer: Vec::new(), wait: None };
        for key in tasks {
            let ack = self.ack(key, None).map(|decided| {
                answers.wait = Wait::longer(decided.wait, answers.wait.take());
                decided.answer
            });
            answers.answer.push(ack);
        }
        answers
    }

    /// Ends a claim as its holder asks. A delay needs a tube with times.
    pub(in crate::core) fn end_held(
        &mut self,
        key: ClaimKey,
        end: End<'_>,
    ) -> Result<Decided<Receipt>> {
        let ClaimKey { tube: number, id, .. } = key;
        if let End::Fail { failure, .. } = end {
            failure.check()?;
        }
        self.check_claim(key)?;
        let Some(tube) = self.tubes.get(&number) else { return Err(Error::Closed) };
        if end.delay() > 0 && !tube.definition.timed {
            return Err(tube.unsupported("a delay"));
        }
        self.end_now(number, id, end)
    }

    /// Ends a claim. If that changes memory only, it answers immediately, unless the claim was
    /// parked: then it must not be parked again after a crash.
    pub(in crate::core) fn end_now(
        &mut self,
        number: u32,
        id: u64,
        end: End<'_>,
    ) -> Result<Decided<Receipt>> {
        let was_parked = self.claims.get(&id).is_some_and(|claim| claim.parked.is_some());
        let visibility = self.visibility(number);
        let state = self.end_claim(id, end, visibility)?;
        let in_memory = state == State::Ready && !matches!(end, End::Fail { .. });
        if in_memory && !was_parked {
            let answer = self.memory_receipt(number, id, State::Ready);
            return Ok(Decided { answer, wait: None });
        }
        self.schedule_flush(self.buffer_of(number), visibility);
        Ok(self.decided(number, visibility, |commit| Receipt { id, state, commit }))
    }

    pub(in crate::core) fn touch(&mut self, key: ClaimKey, more: u64) -> Result<Decided<Receipt>> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        if let Some(tube) = self.tubes.get(&number).filter(|tube| !tube.definition.timed) {
            return Err(tube.unsupported("touch"));
        }
        let found = self.find(number, id)?;
        let Some(claim) = self.claims.get(&id) else { return Err(Error::NotTaken { id }) };
        let (mut header, deadline) = (claim.header.clone(), claim.deadline.saturating_add(more));
        header.expires_at = header.expires_at.saturating_add(more);
        header.ttr = header.ttr.saturating_add(more);
        let entry = Entry::new(EventKind::Touch, State::Taken);
        let before = Some(&found.record.header);
        let entries = self.add_to_history(number, id, before, &mut header, Some(entry));
        self.edit(number, |ledger| {
            ledger.rewrite(id, &found, &header);
            ledger.write_entries(id, &header, &entries);
            Ok(())
        })?;
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.header = header;
        }
        self.set_deadline(id, deadline);
        let change =
            self.change(number, id, EventKind::Touch, Some(State::Taken), State::Taken, None);
        Ok(self.apply_change(number, change))
    }

    /// Replaces the body of a taken task, and gives its claim at least its ttr from now on.
    pub(in crate::core) fn checkpoint(
        &mut self,
        key: ClaimKey,
        body: &Body,
    ) -> Result<Decided<Receipt>> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        let found = self.find(number, id)?;
        self.check_disk_space(number, body.len(), 1)?;
        let Some(claim) = self.claims.get(&id) else { return Err(Error::NotTaken { id }) };
        let mut header = claim.header.clone();
        header.size = body.len() as u64;
        header.body_checksum = body.checksum();
        let renewed = self.now.running.saturating_add(header.ttr).max(claim.deadline);
        let entry = Entry::new(EventKind::Checkpoint, State::Taken);
        let before = Some(&found.record.header);
        let entries = self.add_to_history(number, id, before, &mut header, Some(entry));
        self.edit(number, |ledger| {
            ledger.replace_body(id, &found, &header, body);
            ledger.write_entries(id, &header, &entries);
            Ok(())
        })?;
        self.note_freed(number, &found.record.header);
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.header = header;
        }
        self.set_deadline(id, renewed);
        let change =
            self.change(number, id, EventKind::Checkpoint, Some(State::Taken), State::Taken, None);
        Ok(self.apply_change(number, change))
    }

    pub(in crate::core) fn renew(&mut self, key: ClaimKey, hold: u64) -> Result<()> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        if let Some(tube) = self.tubes.get(&number).filter(|tube| !tube.definition.timed) {
            return Err(tube.unsupported("renew"));
        }
        let deadline = if hold == NEVER { NEVER } else { self.now.running.saturating_add(hold) };
        self.set_deadline(id, deadline);
        Ok(())
    }

    /// The claim lasts at most so much longer, whatever renews it.
    pub(in crate::core) fn limit_claim(&mut self, key: ClaimKey, most: u64) -> Result<()> {
        self.renew(key, most)?;
        if let Some(claim) = self.claims.get_mut(&key.id) {
            claim.latest = claim.latest.min(claim.deadline);
        }
        Ok(())
    }

    /// Buries a task for its holder.
    pub(in crate::core) fn bury_claimed(
        &mut self,
        key: ClaimKey,
        failure: Option<&Failure>,
    ) -> Result<Decided<Receipt>> {
        failure.map_or(Ok(()), Failure::check)?;
        self.check_claim(key)?;
        self.bury(key.tube, key.id, failure)
    }
}
