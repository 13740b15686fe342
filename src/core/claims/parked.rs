//! Parked claims: claims that outlive the process, until their time.
//!
//! A parked claim has a row in the table `claims`, and no session. The row stays when a session
//! resumes the claim, so that the claim is parked again if the process dies. It goes when the claim
//! ends, with the commit that holds the end.

use tubewell_drivers::{NEVER, Shelf};

use super::fate::End;
use super::row::{ClaimRow, FoundRow};
use crate::base::tube_no::TubeNo;
use crate::core::state::{ClaimKey, ClaimState, Core, Decided, Expiry, Grant, Parked, Timer};
use crate::core::verb::{Decide, verb};
use crate::values::token::ClaimToken;
use crate::{Error, Result, SessionId};

verb! {
    /// Parks a claim for so many microseconds. Answers the number of its take.
    5 OfClaim Edit: Park { hold: u64 } -> u64 {
        const ENDS_CLAIM: bool = true;
    }
}

impl Decide for Park {
    fn decide(&self, core: &mut Core, key: ClaimKey) -> Result<Decided<u64>> {
        core.park(key, self.hold)
    }
}

impl Core {
    /// Parks a claim for `hold` microseconds of the timeline: no session has it, and it outlives
    /// the process. Answers the number of its take.
    fn park(&mut self, key: ClaimKey, hold: u64) -> Result<Decided<u64>> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        let found = self.find(number, id)?;
        let Some(claim) = self.claims.get(id) else { return Err(Error::NotTaken { id }) };
        // A limit of the tube is on running time: what is left of it begins now.
        let most = match claim.latest {
            NEVER => NEVER,
            latest => latest.saturating_sub(self.now.running),
        };
        let (epoch, session, mut header) = (claim.epoch, claim.session, claim.header.clone());
        let taken_on = self.taken_on(claim);
        let label = self.sessions.label(session).cloned();
        let until = self.now.timeline.saturating_add(hold.min(most));
        let row = ClaimRow {
            epoch,
            takes: header.takes,
            session: session.to_bytes(),
            label: label.clone(),
            until,
            taken_on,
        };
        let entries =
            self.add_to_history(number, id, Some(&found.record.header), &mut header, None);
        self.edit(number, |ledger| {
            ledger.rewrite(id, &found, &header);
            ledger.write_entries(id, &header, &entries);
            Ok(())
        })?;
        self.write_claim_row(number, id, &row, false);
        let buffer = self.buffer_of(number);
        self.detach_from_session(id);
        self.set_deadline(id, NEVER);
        if let Some(claim) = self.claims.get_mut(id) {
            claim.parked = Some(Box::new(Parked { until: None, label }));
            claim.header = header;
        }
        self.set_parked_until(id, Some(until));
        let visibility = self.visibility(number);
        self.schedule_flush(buffer, visibility);
        Ok(self.decided(number, visibility, |_| epoch))
    }

    /// Gives a parked claim to a session. Only memory changes.
    pub(crate) fn resume_claim(&mut self, session: SessionId, token: &ClaimToken) -> Result<Grant> {
        let id = token.id;
        let number = self.find_tube(&token.tube)?.number;
        self.check_session(session)?;
        let not_taken = || Error::NotTaken { id };
        let claim = self.claims.get(id).ok_or_else(not_taken)?;
        let Some(until) = claim.parked_until() else { return Err(not_taken()) };
        if claim.tube != number || claim.epoch != token.epoch {
            return Err(not_taken());
        }
        if claim.header.expires_at <= self.now.timeline {
            self.expire(number, id)?;
            return Err(not_taken());
        }
        if until <= self.now.timeline {
            self.end_claim(id, End::Expired(Expiry::Parked), self.sweep_visibility(number))?;
            return Err(not_taken());
        }
        let left = until.saturating_sub(self.now.timeline);
        let deadline = if until == NEVER { NEVER } else { self.now.running.saturating_add(left) };
        let (epoch, header) = (claim.epoch, claim.header.clone());
        self.set_parked_until(id, None);
        let policies = self.tubes.get(number).map(|tube| &tube.definition.policies);
        let limited = ClaimState::longest(&header, policies) != NEVER;
        if let Some(claim) = self.claims.get_mut(id) {
            claim.session = session;
            claim.taken_at = self.now.running;
            // The limit of a claim of an earlier run is not known any more, but was not before this.
            if limited && claim.latest == NEVER {
                claim.latest = deadline;
            }
        }
        self.sessions.add_claim(session, id, self.now.running);
        self.set_deadline(id, deadline);
        Ok(self.grant(number, id, epoch, session, header, None))
    }

    /// Ends the first parked claim that is over. Returns false if none is.
    pub(in crate::core) fn end_overdue_parked_claim(&mut self) -> Result<bool> {
        let Some((until, id)) = self.claims.first_parked() else { return Ok(false) };
        if until > self.now.timeline {
            return Ok(false);
        }
        let Some(claim) = self.claims.get(id) else { return Ok(false) };
        let (number, expires_at) = (claim.tube, claim.header.expires_at);
        // A backoff must not give time to a task whose ttl has elapsed.
        let ended = if expires_at <= self.now.timeline {
            self.expire(number, id)
        } else {
            self.end_claim(id, End::Expired(Expiry::Parked), self.sweep_visibility(number))
                .map(drop)
        };
        // The claim on a damaged task stays, and must not be found again.
        self.set_parked_until(id, None);
        match ended {
            Err(Error::Corrupt { .. }) => Ok(true),
            ended => ended.map(|()| true),
        }
    }

    /// Restores the parked claims of earlier runs. A row whose task cannot be read is skipped;
    /// `verify` reports it.
    pub(in crate::core) fn load_parked_claims(&mut self) -> Result<()> {
        let parked = self.claim_rows()?.into_iter().filter(|found| found.row.until > 0);
        for FoundRow { number, id, row } in parked {
            match self.edit(number, |ledger| ledger.find(id)) {
                Ok(Some(found)) if found.shelf == Shelf::Ready => {
                    self.restore_parked_claim(number, id, row, found.record.header);
                }
                Ok(_) | Err(Error::Corrupt { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn restore_parked_claim(
        &mut self,
        number: TubeNo,
        id: u64,
        row: ClaimRow,
        mut header: tubewell_drivers::Header,
    ) {
        header.takes = row.takes.max(header.takes);
        let Some(tube) = self.tubes.get_mut(number) else { return };
        tube.taken.insert((header.order, id));
        let sub_queued = tube.definition.sub_queued;
        tube.visible.tasks.ready = tube.visible.tasks.ready.saturating_sub(1);
        tube.visible.tasks.taken += 1;
        if sub_queued {
            self.add_holder(number, &header.sub, id);
        }
        let holder = (SessionId::from_bytes(row.session), row.epoch);
        let policies = self.tubes.get(number).map(|tube| &tube.definition.policies);
        let claim = ClaimState {
            taken_on: row.taken_on.0.unwrap_or(self.now.timeline),
            parked: Some(Box::new(Parked { until: None, label: row.label })),
            ..ClaimState::new(number, holder, policies, header)
        };
        self.claims.insert(id, claim);
        self.set_parked_until(id, Some(row.until));
    }

    fn detach_from_session(&mut self, id: u64) {
        if let Some(claim) = self.claims.get(id) {
            self.sessions.remove_claim(claim.session, id);
        }
    }

    fn set_parked_until(&mut self, id: u64, until: Option<u64>) {
        if self.claims.set_parked_until(id, until)
            && let Some(claim) = self.claims.get(id)
        {
            self.timers.remove(&(claim.timer_at(), Timer::Claim(id)));
        }
    }
}
