//! Parked claims: claims that no session has, and that survive a reopen.

use super::{
    Answer, Cause, Claim, Holder, Micros, Model, Refusal, SessionNo, Stage, Status, StoredClaim,
    Taken, TaskNo, TubeNo,
};

impl Model {
    /// Parks a claim for `hold`, or until its limit.
    pub fn park(&mut self, tube: TubeNo, id: TaskNo, holder: Holder, hold: Micros) -> Answer<()> {
        let claim = self.held(tube, id, holder)?.clone();
        let until = self.now.saturating_add(hold).min(claim.latest);
        let stored = Some(StoredClaim { session: claim.session, until });
        let claim = Claim { until, is_overdue: false, is_parked: true, stored, ..claim };
        self.change(id, Cause::Parked, Status::Taken(claim));
        Ok(())
    }

    /// Gives a parked claim to a session. `tube` is the name in the token.
    pub fn resume_claim(&mut self, session: SessionNo, tube: &str, parked: Taken) -> Answer<()> {
        if self.tubes.values().all(|it| it.name != tube) {
            return Err(Refusal::TubeNotFound);
        }
        if !self.session_exists(session) {
            return Err(Refusal::SessionEnded);
        }
        if !self.is_parked(parked) {
            return Err(Refusal::NotTaken);
        }
        if let Status::Taken(claim) = self.tasks[&parked.task].status.clone() {
            let resumed = Claim { session, is_parked: false, ..claim };
            self.change(parked.task, Cause::Resumed, Status::Taken(resumed));
        }
        Ok(())
    }

    /// Whether this claim stands and is parked.
    pub fn is_parked(&self, claim: Taken) -> bool {
        let is_parked = self.tasks.get(&claim.task).map(|task| task.stage() == Stage::Parked);
        is_parked == Some(true) && self.is_current(claim)
    }
}
