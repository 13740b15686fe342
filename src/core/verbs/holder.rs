//! The verbs of the holder of a task: release, fail, snooze, touch, checkpoint, renew, bury.
//!
//! Each of them checks the claim first.

use tubewell_drivers::{Body, NEVER};

use crate::core::claims::End;
use crate::core::history::Entry;
use crate::core::state::{ClaimKey, Core, Decided, Wait, check_size};
use crate::core::verb::{Decide, Limits, verb};
use crate::{Error, EventKind, Failure, Receipt, Result, TaskState};

verb! {
    /// Acks of claims, in any tubes.
    5 OfClaims Edit: AckClaims {} -> Vec<Result<Receipt>> {
        const ENDS_CLAIM: bool = true;
    }
}

verb! {
    /// Gives a task back, to its old place. Only memory changes.
    1 OfClaim Memory: Release {} -> Receipt {
        const ENDS_CLAIM: bool = true;
    }
}

verb! {
    /// Gives a task back, after a delay in microseconds.
    30 OfClaim Edit: ReleaseIn { delay: u64 } -> Receipt {
        const ENDS_CLAIM: bool = true;
    }
}

verb! {
    /// As `Release`. The attempt does not count.
    9 OfClaim Memory: Snooze {} -> Receipt {
        const ENDS_CLAIM: bool = true;
        const FORGIVES: bool = true;
    }
}

verb! {
    /// As `ReleaseIn`. The attempt does not count.
    31 OfClaim Edit: SnoozeIn { delay: u64 } -> Receipt {
        const ENDS_CLAIM: bool = true;
        const FORGIVES: bool = true;
    }
}

verb! {
    /// Ends the attempt with a failure. Without a delay, the backoff of the tube applies.
    8 OfClaim Edit: Fail { delay: Option<u64>, failure: Failure } -> Receipt {
        const ENDS_CLAIM: bool = true;

        fn check(&self, _: Limits) -> Result<()> {
            self.failure.check()
        }
    }
}

verb! {
    /// Buries a task for its holder.
    7 OfClaim Edit: BuryHeld { failure: Option<Failure> } -> Receipt {
        const ENDS_CLAIM: bool = true;

        fn check(&self, _: Limits) -> Result<()> {
            self.failure.as_ref().map_or(Ok(()), Failure::check)
        }
    }
}

verb! {
    /// Extends a claim, the ttr and the ttl of its task, in microseconds.
    2 OfClaim Edit: Touch { more: u64 } -> Receipt
}

verb! {
    /// The claim lasts so many microseconds from now on.
    3 OfClaim Memory: Renew { hold: u64 } -> () {
        const AT_ONCE: bool = true;

        fn may_repeat(&self) -> bool {
            true
        }
    }
}

verb! {
    /// The claim lasts at most so many microseconds from now on, whatever renews it.
    15 OfClaim Memory: Limit { most: u64 } -> () {
        const AT_ONCE: bool = true;

        fn may_repeat(&self) -> bool {
            true
        }
    }
}

verb! {
    /// Replaces the body of a task, and gives its claim at least its ttr from now on.
    6 OfClaim Edit: Checkpoint { body: Body } -> Receipt {
        fn check(&self, limits: Limits) -> Result<()> {
            check_size("body", &self.body, limits.max_body)
        }
    }
}

impl Decide for AckClaims {
    fn decide(&self, core: &mut Core, on: &[ClaimKey]) -> Result<Decided<Vec<Result<Receipt>>>> {
        Ok(core.ack_many(on))
    }
}

impl Decide for Release {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.end_held(key, End::Release { delay: 0 })
    }
}

impl Decide for ReleaseIn {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.end_held(key, End::Release { delay: self.delay })
    }
}

impl Decide for Snooze {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.end_held(key, End::Snooze { delay: 0 })
    }
}

impl Decide for SnoozeIn {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.end_held(key, End::Snooze { delay: self.delay })
    }
}

impl Decide for Fail {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.end_held(key, End::Fail { delay: self.delay, failure: &self.failure })
    }
}

impl Decide for BuryHeld {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.check_claim(key)?;
        core.bury(key.tube, key.id, self.failure.as_ref())
    }
}

impl Decide for Touch {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.touch(key, self.more)
    }
}

impl Decide for Renew {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<()>> {
        core.renew(key, self.hold).map(Decided::now)
    }
}

impl Decide for Limit {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<()>> {
        core.renew(key, self.most)?;
        if let Some(claim) = core.claims.get_mut(&key.id) {
            claim.latest = claim.latest.min(claim.deadline);
        }
        Ok(Decided::now(()))
    }
}

impl Decide for Checkpoint {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.checkpoint(key, &self.body)
    }
}

impl Core {
    /// Acks each of these tasks with one commit. Each ack succeeds or fails by itself.
    pub(in crate::core) fn ack_many(
        &mut self,
        claims: &[ClaimKey],
    ) -> Decided<Vec<Result<Receipt>>> {
        let mut answers = Decided { answer: Vec::new(), wait: None };
        for key in claims {
            let ack = self.ack(*key, None).map(|decided| {
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
        let in_memory = state == TaskState::Ready && !matches!(end, End::Fail { .. });
        if in_memory && !was_parked {
            let answer = self.memory_receipt(number, id, TaskState::Ready);
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
        let entry = Entry::new(EventKind::Touch, TaskState::Taken);
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
        let change = self.change(
            number,
            id,
            EventKind::Touch,
            Some(TaskState::Taken),
            TaskState::Taken,
            None,
        );
        Ok(self.apply_change(number, change))
    }

    /// Replaces the body of a taken task, and gives its claim at least its ttr from now on.
    fn checkpoint(&mut self, key: ClaimKey, body: &Body) -> Result<Decided<Receipt>> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        let found = self.find(number, id)?;
        self.check_disk_space(number, body.len(), 1)?;
        let Some(claim) = self.claims.get(&id) else { return Err(Error::NotTaken { id }) };
        let mut header = claim.header.clone();
        header.size = body.len() as u64;
        header.body_checksum = body.checksum();
        let renewed = self.now.running.saturating_add(header.ttr).max(claim.deadline);
        let entry = Entry::new(EventKind::Checkpoint, TaskState::Taken);
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
        let change = self.change(
            number,
            id,
            EventKind::Checkpoint,
            Some(TaskState::Taken),
            TaskState::Taken,
            None,
        );
        Ok(self.apply_change(number, change))
    }

    fn renew(&mut self, key: ClaimKey, hold: u64) -> Result<()> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        if let Some(tube) = self.tubes.get(&number).filter(|tube| !tube.definition.timed) {
            return Err(tube.unsupported("renew"));
        }
        let deadline = if hold == NEVER { NEVER } else { self.now.running.saturating_add(hold) };
        self.set_deadline(id, deadline);
        Ok(())
    }
}
