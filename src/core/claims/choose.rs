//! Takes of a task that the caller chooses, and what callers may know of a claim.

use tubewell_drivers::{Found, NEVER, Shelf};

use super::fate::End;
use crate::base::micros::duration;
use crate::base::tube_no::TubeNo;
use crate::core::state::{ClaimKey, ClaimState, Core, Decided, Grant};
use crate::core::verb::{Decide, TubeRef, verb};
use crate::values::owner::Owner;
use crate::{Error, Result, SessionId, TaskState};

/// Why a call refuses a task that is done.
pub(in crate::core) const IS_DONE: &str = "it is done";
pub(in crate::core) const IS_SCHEDULE: &str = "it is a schedule; change or remove it as a schedule";

/// The answer to a take of a chosen task.
pub(crate) enum Chosen {
    Task(Grant),
    /// The last change of the task is not yet visible: wait for it, then try again.
    NotVisible,
}

verb! {
    /// The owner of a task; `None` if it is not taken.
    12 InTube Look: OwnerOf { id: u64 } -> Option<Owner>
}

impl Decide for OwnerOf {
    fn decide(
        &self,
        core: &mut Core,
        TubeRef { number, .. }: TubeRef<'_>,
    ) -> Result<Decided<Option<Owner>>> {
        let id = self.id;
        let owner = match core.live_claim(id).filter(|claim| claim.tube == number) {
            Some(claim) => Some(core.owner(id, claim)),
            None => core.find(number, id).map(|_| None)?,
        };
        Ok(Decided::now(owner))
    }
}

verb! {
    /// The owner of a claim; `None` if it has ended.
    4 InStore Look: OwnerOfClaim { key: ClaimKey } -> Option<Owner> {
        const IN_OUTAGE: bool = true;
    }
}

impl Decide for OwnerOfClaim {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<Option<Owner>>> {
        Ok(Decided::now(core.owner_of_claim(self.key)))
    }
}

impl Core {
    /// Takes this task for a session. A refusal waits for the change that may have caused it.
    pub(crate) fn claim_chosen(
        &mut self,
        tube: TubeRef<'_>,
        session: SessionId,
        id: u64,
    ) -> Result<Decided<Result<Chosen>>> {
        self.tube(tube.number, tube.name)?;
        match self.claim_task(tube.number, session, id) {
            Ok(decided) => Ok(decided.map(Ok)),
            Err(refused) => self.refuse_once_visible(Some(tube.number), refused),
        }
    }

    /// Takes this task for a session, wherever it stands in its tube.
    fn claim_task(
        &mut self,
        number: TubeNo,
        session: SessionId,
        id: u64,
    ) -> Result<Decided<Chosen>> {
        let Some(tube) = self.tubes.get(number) else { return Err(Error::Closed) };
        tube.driver(|| self.tubes.known_drivers())?;
        if tube.alarm_is_due(self.now) {
            self.gate_opens(number)?;
        }
        self.open_some_sub_queues(number)?;
        self.check_session(session)?;
        let mut found = self.find_current(number, id)?;
        if found.shelf == Shelf::Ready && !self.is_claimed(id) {
            let header = &found.record.header;
            if self.is_spent(number, header) {
                self.bury_spent(number, id)?;
                found = self.find(number, id)?;
            }
        }
        if let Some((state, why)) = self.obstacle(number, id, &found) {
            return Err(Error::NotReady { id, state, why });
        }
        let not_visible = self.once_visible(number, id, Chosen::NotVisible);
        if not_visible.wait.is_some() {
            return Ok(not_visible);
        }
        if let Some(tube) = self.tubes.get_mut(number) {
            let header = &found.record.header;
            // In a sub-queued tube the slot is that of the best task of the sub-queue.
            let of_sub = tube.window.of_sub(&header.sub);
            let rank = of_sub.unwrap_or((header.order, id));
            tube.window.remove(rank);
        }
        let grant = self.claim(number, id, found.record.into(), session);
        Ok(Decided { answer: Chosen::Task(grant), wait: None })
    }

    /// Finds a stored task as it is now: what has fallen due and was not swept yet, such as its ttl, its
    /// delay or its claim, ends first.
    pub(in crate::core) fn find_current(&mut self, number: TubeNo, id: u64) -> Result<Found> {
        let mut found = self.find(number, id)?;
        let is_expired = found.record.header.is_expired(found.shelf, self.now.timeline);
        if is_expired && found.shelf != Shelf::Done {
            self.expire(number, id)?;
            return Err(Error::NotFound { id });
        }
        // The sweeper may not have ended these yet.
        if let Some(end) = self.claims.get(id).and_then(|claim| self.overdue_end(claim)) {
            self.end_claim(id, end, self.sweep_visibility(number))?;
            // It is buried or delayed, if the policies of its tube say so.
            found = self.find(number, id)?;
        }
        if found.shelf == Shelf::Delayed && self.clocks().is_ready(&found.record.header) {
            self.end_delay(number, id, &found)?;
            found = self.find(number, id)?;
        }
        Ok(found)
    }

    /// How a claim has ended that is still in memory; `None` if it has not ended.
    fn overdue_end(&self, claim: &ClaimState) -> Option<End<'static>> {
        let parked_until = claim.parked_until();
        let is_over = claim.ends_at() <= self.now.running
            || parked_until.is_some_and(|until| until <= self.now.timeline);
        let has_holder = parked_until.is_some() || !self.has_ended(claim.session);
        match (is_over, has_holder) {
            (true, _) => Some(End::Expired(claim.expiry())),
            (false, false) => Some(End::SessionEnded),
            (false, true) => None,
        }
    }

    /// The owner of a claim; `None` if it has ended.
    fn owner_of_claim(&self, key: ClaimKey) -> Option<Owner> {
        let claim = self.live_claim(key.id).filter(|_| !self.health.is_closed())?;
        let is_held = claim.is(key) && claim.parked_until().is_none();
        is_held.then(|| self.owner(key.id, claim))
    }

    /// The claim on a task, unless it has expired.
    fn live_claim(&self, id: u64) -> Option<&ClaimState> {
        let claim = self.claims.get(id)?;
        self.is_live(claim).then_some(claim)
    }

    fn owner(&self, id: u64, claim: &ClaimState) -> Owner {
        Owner {
            session: claim.session,
            label: self.label_of(claim),
            held: duration(self.now.running.saturating_sub(claim.taken_at)),
            expires_in: self.claim_time_left(id).map(duration),
            is_parked: claim.parked_until().is_some(),
        }
    }

    /// Who has taken a task, as a sentence; `None` if it is not taken.
    pub(in crate::core) fn holder_of(&self, id: u64) -> Option<String> {
        let claim = self.claims.get(id)?;
        Some(format!("{} has taken it", self.owner(id, claim)))
    }

    /// The state of a task that cannot be taken, and why.
    fn obstacle(&self, number: TubeNo, id: u64, found: &Found) -> Option<(TaskState, String)> {
        if let Some(holder) = self.holder_of(id) {
            return Some((TaskState::Taken, holder));
        }
        let header = &found.record.header;
        match found.shelf {
            Shelf::Delayed if header.ready_at == NEVER => {
                return Some((TaskState::Delayed, "its delay does not end; delete it".into()));
            }
            Shelf::Delayed => {
                let left = self.clocks().left(header);
                let why = match header.moment(found.shelf) {
                    Some(NEVER) => "its moment never comes; update it or delete it".to_owned(),
                    Some(_) => format!("its moment comes in {:?}", duration(left)),
                    None => format!("its delay elapses in {:?}", duration(left)),
                };
                return Some((TaskState::Delayed, why));
            }
            Shelf::Blocked => {
                let why = format!("it waits for {} other tasks", header.open_parents());
                return Some((TaskState::Blocked, why));
            }
            Shelf::Buried => {
                return Some((TaskState::Buried, "it is buried; kick it first".into()));
            }
            Shelf::Done => return Some((TaskState::Done, IS_DONE.into())),
            Shelf::Recurring => return Some((TaskState::Recurring, IS_SCHEDULE.into())),
            Shelf::Ready => {}
        }
        let why = self.shut_sub_queue(number, &header.sub, id);
        let why = why.or_else(|| self.tubes.get(number)?.shut_gate(self.now))?;
        Some((TaskState::Ready, why))
    }
}
