//! Claims: the check of a claim, its deadline, and its end.
//!
//! A claim is kept in memory only, unless it is parked. A claimed task is stored as ready.

use std::sync::Arc;

use tubewell_drivers::{Header, NEVER, Shelf, position_of};

use super::fate::End;
use crate::base::signal::Signal;
use crate::base::tube_no::TubeNo;
use crate::commit::{Change, Visibility};
use crate::core::history::Entry;
use crate::core::state::{ClaimKey, ClaimState, Core, Counted, Decided, Grant, Timer};
use crate::core::verb::{Decide, TubeRef, verb};
use crate::storage::FailureCause;
use crate::{Error, EventKind, Result, SessionId, TaskInfo, TaskState};

verb! {
    /// The end of a claim whose handle is dropped. Does nothing if the claim has ended, or was parked and resumed
    /// by another session.
    6 InStore Memory: DropClaim {
        key: ClaimKey,
        /// The task was not handed out: the attempt does not count.
        forgive: bool,
    } -> () {
        const AT_ONCE: bool = true;
        const IN_OUTAGE: bool = true;

        fn may_repeat(&self) -> bool {
            true
        }
    }
}

verb! {
    /// The description of a task, for its holder.
    14 OfClaim Read: DescribeHeld {} -> TaskInfo {
        const AT_ONCE: bool = true;
    }
}

verb! {
    /// A task that the session has claimed, with its body.
    14 InTube Read: ClaimOf { session: SessionId, id: u64 } -> Grant {
        const AT_ONCE: bool = true;
    }
}

impl Decide for DropClaim {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<()>> {
        core.release_if_current(self.key, self.forgive).map(Decided::now)
    }
}

impl Decide for DescribeHeld {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<TaskInfo>> {
        let ClaimKey { tube, id, .. } = key;
        core.check_claim(key)?;
        let claim = core.claims.get(id).ok_or(Error::NotTaken { id })?;
        Ok(Decided::now(core.describe(tube, id, Shelf::Ready, &claim.header)))
    }
}

impl Decide for ClaimOf {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Grant>> {
        let ClaimOf { session, id } = *self;
        core.check_claim(core.key_of_claim(number, session, id))?;
        let claim = core.claims.get(id).ok_or(Error::NotTaken { id })?;
        let (epoch, mut header) = (claim.epoch, claim.header.clone());
        let found = core.find(number, id)?;
        let row = core.edit(number, |ledger| ledger.row_with_body(id, &found))?;
        // A checkpoint may have replaced the body.
        header.size = found.record.header.size;
        header.body_checksum = found.record.header.body_checksum;
        Ok(Decided::now(core.grant(number, id, epoch, session, header, Some(row))))
    }
}

impl Core {
    /// Checks that the session holds the task by this claim. An expired claim or task is ended here.
    pub(in crate::core) fn check_claim(&mut self, key: ClaimKey) -> Result<()> {
        let ClaimKey { tube: number, id, session, .. } = key;
        self.check_session(session)?;
        let not_taken = || Error::NotTaken { id };
        let claim = self.claims.get(id).ok_or_else(not_taken)?;
        if claim.tube != number || !claim.is(key) || claim.parked_until().is_some() {
            return Err(not_taken());
        }
        let (ends_at, dead, expiry) = (claim.ends_at(), claim.header.expires_at, claim.expiry());
        if dead <= self.now.timeline {
            self.expire(number, id)?;
            return Err(not_taken());
        }
        if ends_at <= self.now.running {
            self.end_claim(id, End::Expired(expiry), self.sweep_visibility(number))?;
            return Err(not_taken());
        }
        Ok(())
    }

    /// The claim that a session may have on a task. `check_claim` tells whether it has.
    pub(in crate::core) fn key_of_claim(
        &self,
        tube: TubeNo,
        session: SessionId,
        id: u64,
    ) -> ClaimKey {
        let epoch = self.claims.get(id).map_or(0, |claim| claim.epoch);
        ClaimKey { tube, id, session, epoch }
    }

    /// The signal that is raised when the claim ends. It is one of this process, and so no call of a
    /// peer.
    pub(crate) fn end_signal(&mut self, key: ClaimKey) -> Result<Arc<Signal>> {
        self.check_open()?;
        self.check_claim(key)?;
        let claim = self.claims.get_mut(key.id).ok_or(Error::NotTaken { id: key.id })?;
        Ok(claim.end_signal.get_or_insert_default().clone())
    }

    /// Whether the claim has not ended.
    pub(crate) fn is_current(&self, key: ClaimKey) -> bool {
        self.claims.get(key.id).is_some_and(|claim| claim.is(key)) && !self.has_ended(key.session)
    }

    pub(in crate::core) fn is_claimed(&self, id: u64) -> bool {
        self.claims.contains(id)
    }

    /// The state of a task that is stored on this shelf.
    pub(in crate::core) fn state_of(&self, id: u64, shelf: Shelf) -> TaskState {
        if self.is_claimed(id) { TaskState::Taken } else { TaskState::on_shelf(shelf) }
    }

    /// The time until the claim on a task expires, in microseconds.
    pub(in crate::core) fn claim_time_left(&self, id: u64) -> Option<u64> {
        let claim = self.claims.get(id)?;
        let (end, now) = match claim.parked_until() {
            Some(until) => (until, self.now.timeline),
            None => (claim.deadline, self.now.running),
        };
        (end != NEVER).then(|| end.saturating_sub(now))
    }

    /// Removes a claim, and its row if it has one. Returns whether there was one. The caller
    /// changes the state of the task.
    pub(in crate::core) fn remove_claim(&mut self, id: u64) -> bool {
        let Some(claim) = self.forget_claim(id) else { return false };
        self.remove_claim_row(id, &claim);
        true
    }

    /// Removes a claim from memory. Its row stays.
    #[inline]
    fn forget_claim(&mut self, id: u64) -> Option<ClaimState> {
        self.queue_pending_progress(id);
        let mut claim = self.claims.remove(id)?;
        if let Some(signal) = claim.end_signal.take() {
            self.effects.after_unlock.deeds().end_signals.push(signal);
        }
        self.timers.remove(&(claim.timer_at(), Timer::Claim(id)));
        self.sessions.remove_claim(claim.session, id);
        if let Some(tube) = self.tubes.get_mut(claim.tube) {
            tube.taken.remove(&(claim.header.order, id));
            if claim.is_overdue {
                tube.count_overdue(false);
            }
        }
        self.note_owner(id, &claim);
        Some(claim)
    }

    /// Removes a claim whose end could not be stored, and with it this header. If the attempt was
    /// counted by the row of the claim, the row stays until the storage works again.
    fn remove_unrecorded_claim(&mut self, id: u64, header: &Header) {
        let Some(claim) = self.forget_claim(id) else { return };
        if !claim.is_counted || claim.parked.is_some() {
            return self.remove_claim_row(id, &claim);
        }
        self.claims.note_unrecorded_end();
        if header.attempts() < claim.header.attempts() {
            // The attempt is forgiven. Those before it may be counted by this row only.
            let takes = header.takes.saturating_sub(1);
            self.write_claim_row(claim.tube, id, &self.counting_row(&claim, takes), false);
        }
    }

    /// Sets the deadline of a claim, within the limit of its tube.
    pub(in crate::core) fn set_deadline(&mut self, id: u64, deadline: u64) {
        if let Some(claim) = self.claims.get_mut(id) {
            self.timers.remove(&(claim.timer_at(), Timer::Claim(id)));
            claim.deadline = deadline.min(claim.latest);
            if std::mem::take(&mut claim.is_overdue)
                && let Some(tube) = self.tubes.get_mut(claim.tube)
            {
                tube.count_overdue(false);
            }
            if claim.deadline != NEVER {
                self.timers.insert((claim.deadline, Timer::Claim(id)));
            }
        }
    }

    /// The deadline of a claim has passed: it is overdue if its tube has a reclaim delay, and has
    /// ended otherwise.
    pub(in crate::core) fn claim_falls_due(&mut self, id: u64) -> Result<()> {
        let Some(claim) = self.claims.get_mut(id) else { return Ok(()) };
        let (number, ends_at, expiry) = (claim.tube, claim.ends_at(), claim.expiry());
        if claim.is_overdue || ends_at <= self.now.running {
            let end = End::Expired(expiry);
            return self.end_claim(id, end, self.sweep_visibility(number)).map(drop);
        }
        claim.is_overdue = true;
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.count_overdue(true);
        }
        if ends_at != NEVER {
            self.timers.insert((ends_at, Timer::Claim(id)));
        }
        let taken = TaskState::Taken;
        let change = self.change(number, id, EventKind::Lost, Some(taken), taken, None);
        self.make_visible(change, Visibility::Memory);
        Ok(())
    }

    /// Ends a claim, if the task still has one. Returns the state of the task, which follows from
    /// the policies of its tube. Without a reported failure the claim ends even if the storage
    /// fails: the task is then ready.
    pub(in crate::core) fn end_claim(
        &mut self,
        id: u64,
        end: End<'_>,
        visibility: Visibility,
    ) -> Result<TaskState> {
        let Some(claim) = self.claims.get(id) else { return Ok(TaskState::Ready) };
        let (number, owner) = (claim.tube, self.label_of(claim));
        let counted = claim.header.clone();
        // A backoff must not give time to a task whose ttl has elapsed.
        let is_dead = end.is_loss() && counted.expires_at <= self.now.timeline;
        if is_dead && self.expire(number, id).is_ok() && !self.is_claimed(id) {
            return Ok(TaskState::Done);
        }
        let mut fate = self.rules(number)?.fate(id, counted.clone(), end);
        let moves = !fate.is_plain();
        let moved = if moves {
            let found = self.find(number, id);
            found.and_then(|found| {
                self.carry_out_fate((number, id), &found, end.kind(), &mut fate, owner, visibility)
            })
        } else {
            Ok(())
        };
        if end.is_loss() {
            self.count(number, Counted::Lost);
        }
        match moved {
            Ok(()) if moves => {
                self.remove_claim(id);
                self.note_cause(id, end.event_cause());
                let (kind, from) = (end.kind(), TaskState::Taken);
                Ok(self.make_fate_visible((number, id), kind, from, fate, visibility))
            }
            Err(error) if end.may_fail() => Err(error),
            // It is ready then, with its attempt counted. The next take buries it if it is spent.
            Err(_) => self.end_claim_in_memory(id, counted, end),
            Ok(()) => self.end_claim_in_memory(id, fate.header, end),
        }
    }

    /// Makes a claimed task ready again, in its old position. Only memory changes. The header, with
    /// the increased count of takes, is written with the next commit of any call. The row of a
    /// claim that was parked is removed within the time of the sweeper's edits.
    fn end_claim_in_memory(
        &mut self,
        id: u64,
        mut header: Header,
        end: End<'_>,
    ) -> Result<TaskState> {
        let Some(claim) = self.claims.get(id) else { return Ok(TaskState::Ready) };
        let (number, was_parked) = (claim.tube, claim.parked.is_some());
        let entry = Entry::new(end.kind(), TaskState::Ready);
        match self.write_header(id, number, &mut header, Some(entry)) {
            Ok(()) => drop(self.remove_claim(id)),
            Err(error)
                if !self.health.has_failed()
                    && FailureCause::from(&error) == FailureCause::Defect =>
            {
                return Err(error);
            }
            // A claim must end even if the storage fails. Its take is not counted in the file then,
            // unless it was counted before.
            Err(_) => self.remove_unrecorded_claim(id, &header),
        }
        self.note_cause(id, end.event_cause());
        let (from, to) = (Some(TaskState::Taken), TaskState::Ready);
        let change = self.change(number, id, end.kind(), from, to, Some(header));
        self.make_visible(change, Visibility::Memory);
        if was_parked {
            let buffer = self.buffer_of(number);
            self.schedule_flush(buffer, self.sweep_visibility(number));
        }
        Ok(TaskState::Ready)
    }

    /// Ends the claims on these tasks. Returns the first error. A damaged task stays as it is; the others
    /// are released all the same.
    pub(in crate::core) fn end_claims(&mut self, tasks: Vec<u64>, end: End<'_>) -> Result<()> {
        self.publish_together(|core| {
            let mut outcome = Ok(());
            for id in tasks {
                let ended = core.end_claim_lazily(id, end);
                outcome = outcome.and(ended);
            }
            outcome
        })
    }

    /// Ends a claim for which no caller waits.
    fn end_claim_lazily(&mut self, id: u64, end: End<'_>) -> Result<()> {
        let Some(number) = self.claims.get(id).map(|claim| claim.tube) else { return Ok(()) };
        self.end_claim(id, end, self.sweep_visibility(number)).map(drop)
    }

    /// Writes the header of a claimed task, which counts the take, and adds an entry to the history
    /// of the task.
    pub(in crate::core) fn write_header(
        &mut self,
        id: u64,
        number: TubeNo,
        header: &mut Header,
        entry: Option<Entry<'_>>,
    ) -> Result<()> {
        let position = position_of(id, Shelf::Ready, header);
        let Some(found) = self.edit(number, |ledger| ledger.at(&position))? else { return Ok(()) };
        let entries = self.add_to_history(number, id, Some(&found.record.header), header, entry);
        self.edit(number, |ledger| {
            ledger.rewrite(id, &found, header);
            ledger.write_entries(id, header, &entries);
            Ok(())
        })
    }

    /// Releases the task of a claim handle. Does nothing if the claim has ended already. `forgive`:
    /// the task was not handed out.
    pub(in crate::core) fn release_if_current(
        &mut self,
        key: ClaimKey,
        forgive: bool,
    ) -> Result<()> {
        if self.health.is_closed() || !self.is_current(key) {
            return Ok(());
        }
        self.end_claim_lazily(key.id, End::at_once(forgive))
    }

    /// Removes a task whose ttl has elapsed, in any state.
    pub(in crate::core) fn expire(&mut self, number: TubeNo, id: u64) -> Result<()> {
        let Some(found) = self.edit(number, |ledger| ledger.find(id))? else { return Ok(()) };
        let header = found.record.header.clone();
        let mut from = TaskState::on_shelf(found.shelf);
        self.remove_as_gone(number, id, &found)?;
        self.note_freed(number, &header);
        let was_claimed = self.remove_claim(id);
        if was_claimed {
            self.count(number, Counted::Lost);
        }
        if let Some(tube) = self.tubes.get_mut(number) {
            tube.window.remove((header.order, id));
        }
        let visibility = self.sweep_visibility(number);
        if was_claimed {
            let ttr = self.change(
                number,
                id,
                EventKind::Ttr,
                Some(TaskState::Taken),
                TaskState::Ready,
                Some(header.clone()),
            );
            // No take may get the task between the two changes. Its sub-queue is free after the
            // last.
            self.make_visible(Change { is_intermediate: true, ..ttr }, visibility);
            from = TaskState::Ready;
        }
        let delete =
            self.change(number, id, EventKind::Delete, Some(from), TaskState::Done, Some(header));
        // Callers that wait for the end of the task are answered with the second change.
        self.make_visible(Change { is_intermediate: true, ..delete }, visibility);
        let ttl =
            self.change(number, id, EventKind::Ttl, Some(TaskState::Done), TaskState::Done, None);
        self.make_visible(ttl, visibility);
        Ok(())
    }
}
