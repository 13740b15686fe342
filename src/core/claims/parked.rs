//! Parked claims: claims that outlive the process, until their time.
//!
//! A parked claim has a row in the table `claims`, and no session. The row stays when a session
//! resumes the claim, so that the claim is parked again if the process dies. It goes when the claim
//! ends, with the commit that holds the end.

use std::sync::Arc;

use bincode::{Decode, Encode};
use tubewell_drivers::{NEVER, Reads, Shelf, Table, keys};

use crate::codec::{decode_row, encode_row};
use crate::core::catalog::FORMAT_WITH_CLAIMS;
use crate::core::state::{ClaimKey, ClaimState, Core, Decided, FILE, Grant, Parked, Timer};
use crate::token::ClaimToken;
use crate::{Error, EventKind, Result, SessionId};

/// A row of the table `claims`.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
struct ParkedRow {
    epoch: u64,
    /// The takes of the task, this one included.
    takes: u32,
    session: [u8; 16],
    label: Option<Arc<str>>,
    /// When the claim ends, on the timeline; `NEVER` without a limit.
    until: u64,
}

impl Core {
    /// Parks a claim for `hold` microseconds of the timeline: no session has it, and it outlives
    /// the process. Answers the number of its take.
    pub(in crate::core) fn park(&mut self, key: ClaimKey, hold: u64) -> Result<Decided<u64>> {
        let ClaimKey { tube: number, id, .. } = key;
        self.check_claim(key)?;
        let found = self.find(number, id)?;
        let Some(claim) = self.claims.get(&id) else { return Err(Error::NotTaken { id }) };
        // A limit of the tube is on running time: what is left of it begins now.
        let most = match claim.latest {
            NEVER => NEVER,
            latest => latest.saturating_sub(self.now.running),
        };
        let (epoch, session, header) = (claim.epoch, claim.session, claim.header.clone());
        let label = self.sessions.get(&session).and_then(|session| session.label.clone());
        let until = self.now.timeline.saturating_add(hold.min(most));
        let row = ParkedRow {
            epoch,
            takes: header.takes,
            session: session.to_bytes(),
            label: label.clone(),
            until,
        };
        self.edit(number, |ledger| {
            ledger.rewrite(id, &found, &header);
            Ok(())
        })?;
        let Some(tube) = self.tubes.get(&number) else { return Err(Error::Closed) };
        let (buffer, row_key) = (tube.buffer, keys::by_id(tube.definition.space, id));
        self.buffers[buffer].edits.active.replace(Table::Claims, row_key, encode_row(&row));
        if buffer == FILE {
            self.need_format(FORMAT_WITH_CLAIMS);
        }
        self.detach_from_session(id);
        self.set_deadline(id, NEVER);
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.parked = Some(Box::new(Parked { until: None, label }));
        }
        self.set_parked_until(id, Some(until));
        let visibility = self.visibility(number);
        self.schedule_flush(buffer, visibility);
        Ok(self.decided(number, visibility, |_| epoch))
    }

    /// Gives a parked claim to a session. Only memory changes.
    pub(in crate::core) fn resume_claim(
        &mut self,
        session: SessionId,
        token: &ClaimToken,
    ) -> Result<Grant> {
        let id = token.id;
        let number = self.find_tube(&token.tube)?.number;
        self.check_session(session)?;
        let not_taken = || Error::NotTaken { id };
        let claim = self.claims.get(&id).ok_or_else(not_taken)?;
        let Some(until) = claim.parked_until() else { return Err(not_taken()) };
        if claim.tube != number || claim.epoch != token.epoch {
            return Err(not_taken());
        }
        if claim.header.expires_at <= self.now.timeline {
            self.expire(number, id)?;
            return Err(not_taken());
        }
        if until <= self.now.timeline {
            self.end_claim(id, EventKind::Ttr)?;
            return Err(not_taken());
        }
        let left = until.saturating_sub(self.now.timeline);
        let deadline = if until == NEVER { NEVER } else { self.now.running.saturating_add(left) };
        let (epoch, header) = (claim.epoch, claim.header.clone());
        self.set_parked_until(id, None);
        let tube = self.tubes.get(&number);
        let limited = tube.is_some_and(|tube| tube.definition.policies.max_runtime.is_some());
        if let Some(claim) = self.claims.get_mut(&id) {
            claim.session = session;
            claim.taken_at = self.now.running;
            // The limit of a claim of an earlier run is not known any more, but was not before this.
            if limited && claim.latest == NEVER {
                claim.latest = deadline;
            }
        }
        if let Some(session) = self.sessions.get_mut(&session) {
            session.claims.insert(id);
        }
        self.set_deadline(id, deadline);
        Ok(self.grant(number, id, epoch, session, header, None))
    }

    /// Ends the first parked claim that is over. Returns false if none is.
    pub(in crate::core) fn end_overdue_parked_claim(&mut self) -> Result<bool> {
        let Some((until, id)) = self.parked.first().copied() else { return Ok(false) };
        if until > self.now.timeline {
            return Ok(false);
        }
        let ended = self.end_claim(id, EventKind::Ttr);
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
        let rows = self.buffers[FILE].scan(Table::Claims, &[], &[u8::MAX; 13], usize::MAX)?;
        if !rows.is_empty() {
            self.need_format(FORMAT_WITH_CLAIMS);
        }
        for (key, value) in rows {
            let number = keys::space_of(&key).and_then(|space| self.spaces.get(&space).copied());
            let row = decode_row::<ParkedRow>(&value);
            let (Some(number), Some(id), Some(row)) = (number, keys::id_of(&key), row) else {
                continue;
            };
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
        number: u32,
        id: u64,
        row: ParkedRow,
        mut header: tubewell_drivers::Header,
    ) {
        header.takes = row.takes.max(header.takes);
        let Some(tube) = self.tubes.get_mut(&number) else { return };
        tube.taken.insert((header.order, id));
        if tube.definition.sub_queued {
            tube.busy.insert(header.sub.clone(), id);
        }
        tube.visible.tasks.ready = tube.visible.tasks.ready.saturating_sub(1);
        tube.visible.tasks.taken += 1;
        let claim = ClaimState {
            tube: number,
            session: SessionId::from_bytes(row.session),
            epoch: row.epoch,
            taken_at: 0,
            deadline: NEVER,
            latest: NEVER,
            parked: Some(Box::new(Parked { until: None, label: row.label })),
            header,
        };
        self.claims.insert(id, claim);
        self.set_parked_until(id, Some(row.until));
    }

    /// Removes the row of a claim that ends.
    pub(in crate::core) fn remove_claim_row(&mut self, id: u64, claim: &ClaimState) {
        if claim.parked.is_none() {
            return;
        }
        if let Some(until) = claim.parked_until() {
            self.parked.remove(&(until, id));
        }
        if let Some(tube) = self.tubes.get(&claim.tube) {
            let key = keys::by_id(tube.definition.space, id);
            self.buffers[tube.buffer].edits.active.remove(Table::Claims, key);
        }
    }

    fn detach_from_session(&mut self, id: u64) {
        if let Some(claim) = self.claims.get(&id)
            && let Some(session) = self.sessions.get_mut(&claim.session)
        {
            session.claims.remove(&id);
        }
    }

    fn set_parked_until(&mut self, id: u64, until: Option<u64>) {
        let Some(claim) = self.claims.get_mut(&id) else { return };
        let Some(parked) = &mut claim.parked else { return };
        if let Some(old) = std::mem::replace(&mut parked.until, until) {
            self.parked.remove(&(old, id));
        }
        if let Some(until) = until {
            self.timers.remove(&(claim.deadline, Timer::Claim(id)));
            self.parked.insert((until, id));
        }
    }
}
