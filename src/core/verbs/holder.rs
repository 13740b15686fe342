//! The verbs of the holder of a task: release and snooze without a delay, touch, checkpoint, renew.
//!
//! Each of them checks the claim first.

use tubewell_drivers::{Body, NEVER};

use crate::base::tube_no::TubeNo;
use crate::commit::Visibility;
use crate::core::claims::End;
use crate::core::history::Entry;
use crate::core::state::{ClaimKey, Core, Decided, check_size};
#[cfg(feature = "tracing")]
use crate::core::verb::Operation;
use crate::core::verb::{Decide, Limits, verb};
use crate::{Error, EventKind, Receipt, Result, TaskState};

verb! {
    /// Gives a task back, to its old place. Only memory changes.
    1 OfClaim Memory: Release {} -> Receipt {
        const ENDS_CLAIM: bool = true;

        #[cfg(feature = "tracing")]
        fn operation(&self) -> Option<Operation> {
            Some(Operation::Settle("release"))
        }
    }
}

verb! {
    /// As `Release`. The attempt does not count.
    9 OfClaim Memory: Snooze {} -> Receipt {
        const ENDS_CLAIM: bool = true;

        fn forgives(&self) -> bool {
            true
        }

        #[cfg(feature = "tracing")]
        fn operation(&self) -> Option<Operation> {
            Some(Operation::Settle("snooze"))
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

impl Decide for Release {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.end_held(key, End::Release { delay: 0 })
    }
}

impl Decide for Snooze {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<Receipt>> {
        core.end_held(key, End::Snooze { delay: 0 })
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
        if let Some(claim) = core.claims.get_mut(key.id) {
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
    /// Ends a claim as its holder asks. A delay needs a tube with times.
    pub(in crate::core) fn end_held(
        &mut self,
        key: ClaimKey,
        end: End<'_>,
    ) -> Result<Decided<Receipt>> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        self.check_delay(number, end)?;
        self.end_now(number, id, end)
    }

    /// Refuses a delay in a tube without times.
    pub(super) fn check_delay(&self, number: TubeNo, end: End<'_>) -> Result<()> {
        let Some(tube) = self.tubes.get(number) else { return Err(Error::Closed) };
        if end.delay() > 0 && !tube.definition.timed {
            return Err(tube.unsupported("a delay"));
        }
        Ok(())
    }

    /// Ends a claim. If that changes memory only, it answers immediately.
    pub(in crate::core) fn end_now(
        &mut self,
        number: TubeNo,
        id: u64,
        end: End<'_>,
    ) -> Result<Decided<Receipt>> {
        let visibility = self.visibility(number);
        let (state, is_stored) = self.end_told(id, end, visibility)?;
        if !is_stored {
            let answer = self.memory_receipt(number, id, TaskState::Ready);
            return Ok(Decided { answer, wait: None });
        }
        self.schedule_flush(self.buffer_of(number), visibility);
        Ok(self.decided(number, visibility, |commit| Receipt { id, state, commit }))
    }

    /// Ends a claim. Returns the state of its task, and whether the caller is told of the end only when it
    /// is stored: not if memory alone changes, unless the claim was parked: then it must not be parked again
    /// after a crash.
    pub(super) fn end_told(
        &mut self,
        id: u64,
        end: End<'_>,
        visibility: Visibility,
    ) -> Result<(TaskState, bool)> {
        let was_parked = self.claims.get(id).is_some_and(|claim| claim.parked.is_some());
        let state = self.end_claim(id, end, visibility)?;
        let in_memory = state == TaskState::Ready && !matches!(end, End::Fail { .. });
        Ok((state, was_parked || !in_memory))
    }

    pub(in crate::core) fn touch(&mut self, key: ClaimKey, more: u64) -> Result<Decided<Receipt>> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        if let Some(tube) = self.tubes.get(number).filter(|tube| !tube.definition.timed) {
            return Err(tube.unsupported("touch"));
        }
        let found = self.find(number, id)?;
        let Some(claim) = self.claims.get(id) else { return Err(Error::NotTaken { id }) };
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
        if let Some(claim) = self.claims.get_mut(id) {
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
        let Some(claim) = self.claims.get(id) else { return Err(Error::NotTaken { id }) };
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
        if let Some(claim) = self.claims.get_mut(id) {
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
        if let Some(tube) = self.tubes.get(number).filter(|tube| !tube.definition.timed) {
            return Err(tube.unsupported("renew"));
        }
        let deadline = if hold == NEVER { NEVER } else { self.now.running.saturating_add(hold) };
        self.set_deadline(id, deadline);
        Ok(())
    }
}
