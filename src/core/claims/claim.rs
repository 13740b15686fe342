//! Claims: the check of a claim, its deadline, and its end.
//!
//! A claim is kept in memory only, unless it is parked. A claimed task is stored as ready.

use tubewell_drivers::{NEVER, Shelf, position_of};

use crate::commit::{Change, Visibility};
use crate::core::state::{ClaimKey, ClaimState, Core, Holder, Timer};
use crate::storage::FailureCause;
use crate::{Error, EventKind, Result, State};

impl Core {
    /// Checks that the session holds the task: by the claim of this epoch, or by any claim if it is
    /// `None`. An expired claim or task is ended here.
    pub(in crate::core) fn check_claim(&mut self, key: ClaimKey) -> Result<()> {
        let ClaimKey { tube: number, by: Holder { session, epoch }, id } = key;
        self.check_session(session)?;
        let not_taken = || Error::NotTaken { id };
        let claim = self.claims.get(&id).ok_or_else(not_taken)?;
        let is_held = claim.tube == number
            && claim.session == session
            && claim.parked_until().is_none()
            && epoch.is_none_or(|epoch| epoch == claim.epoch);
        if !is_held {
            return Err(not_taken());
        }
        let (deadline, dead) = (claim.deadline, claim.header.expires_at);
        if dead <= self.now.timeline {
            self.expire(number, id)?;
            return Err(not_taken());
        }
        if deadline <= self.now.running {
            self.end_claim(id, EventKind::Ttr)?;
            return Err(not_taken());
        }
        Ok(())
    }

    /// Whether the claim of this epoch has not ended.
    pub(crate) fn is_current(&self, id: u64, epoch: u64) -> bool {
        self.claims.get(&id).is_some_and(|claim| claim.epoch == epoch)
    }

    pub(in crate::core) fn is_claimed(&self, id: u64) -> bool {
        self.claims.contains_key(&id)
    }

    /// The time until the claim on a task expires, in microseconds.
    pub(in crate::core) fn claim_time_left(&self, id: u64) -> Option<u64> {
        let claim = self.claims.get(&id)?;
        let (end, now) = match claim.parked_until() {
            Some(until) => (until, self.now.timeline),
            None => (claim.deadline, self.now.running),
        };
        (end != NEVER).then(|| end.saturating_sub(now))
    }

    /// Removes a claim, and its row if it was parked. Returns whether there was one. The caller
    /// changes the state of the task.
    pub(in crate::core) fn remove_claim(&mut self, id: u64) -> bool {
        let Some(claim) = self.claims.remove(&id) else { return false };
        self.timers.remove(&(claim.deadline, Timer::Claim(id)));
        if let Some(session) = self.sessions.get_mut(&claim.session) {
            session.claims.remove(&id);
        }
        if let Some(tube) = self.tubes.get_mut(&claim.tube) {
            tube.taken.remove(&(claim.header.order, id));
        }
        self.remove_claim_row(id, &claim);
        true
    }

    /// Sets the deadline of a claim, within the limit of its tube.
    pub(in crate::core) fn set_deadline(&mut self, id: u64, deadline: u64) {
        if let Some(claim) = self.claims.get_mut(&id) {
            self.timers.remove(&(claim.deadline, Timer::Claim(id)));
            claim.deadline = deadline.min(claim.latest);
            if claim.deadline != NEVER {
                self.timers.insert((claim.deadline, Timer::Claim(id)));
            }
        }
    }

    /// Makes a claimed task ready again, in its old position. Only memory changes. The increased
    /// count of takes is written with the next commit of any call. The row of a claim that was
    /// parked is removed within the time of the sweeper's edits.
    pub(crate) fn end_claim(&mut self, id: u64, kind: EventKind) -> Result<()> {
        let Some(claim) = self.claims.get(&id).cloned() else { return Ok(()) };
        let written = self.write_header(id, &claim);
        // A claim must end even if the storage fails. Its take is not counted in the file then.
        if let Err(error) = written
            && self.outage.is_none()
            && FailureCause::from(&error) == FailureCause::Defect
        {
            return Err(error);
        }
        self.remove_claim(id);
        let change =
            self.change(claim.tube, id, kind, Some(State::Taken), State::Ready, Some(claim.header));
        self.make_visible(change, Visibility::Memory);
        if claim.parked.is_some() {
            let buffer = self.buffer_of(claim.tube);
            self.schedule_flush(buffer, self.sweep_visibility(claim.tube));
        }
        Ok(())
    }

    /// Makes these tasks ready. Returns how many, and the first error. A damaged task stays as it
    /// is; the others are released all the same.
    pub(in crate::core) fn end_claims(&mut self, tasks: Vec<u64>) -> (u64, Result<()>) {
        self.publish_together(|core| {
            let (mut ended, mut outcome) = (0, Ok(()));
            for task in tasks {
                match core.end_claim(task, EventKind::Release) {
                    Ok(()) => ended += 1,
                    Err(error) => outcome = outcome.and(Err(error)),
                }
            }
            (ended, outcome)
        })
    }

    /// Writes the take counts of all claimed tasks, since claims end with the process. If a write
    /// fails, that take is not counted.
    pub(crate) fn write_take_counts(&mut self) {
        let claims: Vec<_> = self.claims.iter().map(|(id, claim)| (*id, claim.clone())).collect();
        for (id, claim) in claims {
            let _ = self.write_header(id, &claim);
        }
    }

    /// Writes the header of a claimed task, which counts the take.
    fn write_header(&mut self, id: u64, claim: &ClaimState) -> Result<()> {
        let position = position_of(id, Shelf::Ready, &claim.header);
        self.edit(claim.tube, |ledger| {
            if let Some(found) = ledger.at(&position)? {
                ledger.rewrite(id, &found, &claim.header);
            }
            Ok(())
        })
    }

    /// Releases the task of a claim handle. Does nothing if the claim has ended already.
    pub(in crate::core) fn release_if_current(&mut self, id: u64, epoch: u64) -> Result<()> {
        if !self.closed && self.is_current(id, epoch) {
            return self.end_claim(id, EventKind::Release);
        }
        Ok(())
    }

    /// Removes a task whose ttl has elapsed, in any state.
    pub(in crate::core) fn expire(&mut self, number: u32, id: u64) -> Result<()> {
        let Some(found) = self.edit(number, |ledger| ledger.find(id))? else { return Ok(()) };
        let header = found.record.header.clone();
        let mut from = State::on_shelf(found.shelf);
        self.edit(number, |ledger| ledger.remove(id, found.shelf, &header))?;
        self.note_freed(number, &header);
        let was_claimed = self.remove_claim(id);
        if let Some(tube) = self.tubes.get_mut(&number) {
            tube.window.remove((header.order, id));
        }
        let visibility = self.sweep_visibility(number);
        if was_claimed {
            let ttr = self.change(
                number,
                id,
                EventKind::Ttr,
                Some(State::Taken),
                State::Ready,
                Some(header.clone()),
            );
            // No take may get the task between the two changes. Its sub-queue is free after the
            // last.
            self.make_visible(Change { is_intermediate: true, ..ttr }, visibility);
            from = State::Ready;
        }
        let delete =
            self.change(number, id, EventKind::Delete, Some(from), State::Done, Some(header));
        // Callers that wait for the end of the task are answered with the second change.
        self.make_visible(Change { is_intermediate: true, ..delete }, visibility);
        let ttl = self.change(number, id, EventKind::Ttl, Some(State::Done), State::Done, None);
        self.make_visible(ttl, visibility);
        Ok(())
    }
}
