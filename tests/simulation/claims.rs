//! Claims of a task by its id, claims that are revoked, and new bodies of taken tasks.

use std::time::Duration;

use crate::by_id;
use crate::deferred_calls::unless_refused;
use crate::model::{Body, STORE_SESSION, Stored, TubeNo};
use crate::rng::Rng;
use crate::simulator::{Expected, HeldClaim, Outcome, Simulator};

impl Simulator {
    /// Takes a task by its id, whatever its state.
    pub fn claim(&mut self, rng: &mut Rng) {
        let Some((seq, id, no, _)) = self.random_task(rng) else { return };
        let session = self.random_session(rng);
        let Some(tube) = self.tube(no, session) else { return };
        let expected = match self.model.stored(seq) {
            _ if !self.model.is_alive(session) => Err("session ended"),
            None => Err("not found"),
            Some(_) if self.model.is_takeable(seq) => Ok(Vec::new()),
            Some(_) => Err("not ready"),
        };
        if let Outcome::Done(claim) = self.check_answer("claim", expected, tube.claim(id)) {
            assert_eq!(self.record_taken(claim, &[no], session), seq, "not the claimed task");
        }
    }

    /// Ends the claim on a task, whichever session has it.
    pub fn revoke(&mut self, rng: &mut Rng) {
        let taken = rng.one_in(2).then(|| self.random_claim(rng)).flatten();
        let task = match taken {
            Some(held) => {
                let (seq, id) = (held.seq, held.id);
                self.claims.push(held);
                self.tube(self.model.tasks[&seq].tube, STORE_SESSION).map(|tube| (seq, id, tube))
            }
            None => self.random_task(rng).map(|(seq, id, _, tube)| (seq, id, tube)),
        };
        let Some((seq, id, tube)) = task else { return };
        let expected = match self.model.stored(seq) {
            None => Err("not found"),
            Some(_) if self.model.tasks[&seq].claim.is_none() => Err("not taken"),
            Some(_) => Ok(Vec::new()),
        };
        // A revoke changes memory only: it writes nothing to the file.
        let answer = by_id::revoke(&tube, id);
        if let Outcome::Done(_) = self.check_answer("revoke", expected, answer) {
            self.model.tasks.get_mut(&seq).unwrap().claim = None;
        }
    }

    /// Replaces the body of a taken task.
    pub fn checkpoint(&mut self, rng: &mut Rng) {
        let Some(mut held) = self.random_claim(rng) else { return };
        let (no, body) = (self.model.tasks[&held.seq].tube, self.random_body(rng));
        let expected = self.if_claimed_with_body(&held, body);
        if let Some(claim) = &mut held.claim {
            let (old, new) = (claim.body().to_vec(), body.text(held.seq).into_bytes());
            let answer = claim.checkpoint(new.clone());
            let data = claim.body().to_vec();
            match self.check_change("checkpoint", no, expected, answer) {
                Outcome::Done(receipt) => {
                    assert_eq!(receipt.id, held.id);
                    self.check_commit_number(no, receipt.commit);
                    assert!(data == new, "the handle has the old body");
                    self.extend_claim(&held);
                }
                // The handle may have either body.
                Outcome::Unknown => self.extend_claim(&held),
                Outcome::Refused | Outcome::StorageFailed => {
                    assert!(data == old, "the handle has the new body");
                }
            }
        }
        self.claims.push(held);
    }

    /// As [`Simulator::checkpoint`], without waiting for the answer. Returns the claim, the
    /// expected edits and the answer, or `None` if the claim or its tube does not fit.
    pub fn checkpoint_deferred(
        &mut self,
        fits: impl Fn(&Simulator, TubeNo) -> bool,
        rng: &mut Rng,
    ) -> Option<(HeldClaim, Expected, tubewell::Result<tubewell::Ticket<tubewell::Receipt>>)> {
        let mut held = self.random_claim(rng)?;
        let task = &self.model.tasks[&held.seq];
        let may_call = !task.in_flight && fits(self, task.tube);
        let body = self.random_body(rng);
        let expected = self.if_claimed_with_body(&held, body);
        if !may_call || held.claim.is_none() {
            self.claims.push(held);
            return None;
        }
        let mut claim = held.claim.take()?.into_async();
        let answer = claim.checkpoint(body.text(held.seq));
        held.claim = Some(claim.into_blocking());
        Some((held, expected, unless_refused(answer)))
    }

    /// After a new body, a claim lasts at least the ttr of its task.
    pub fn extend_claim(&mut self, held: &HeldClaim) {
        let Some(stored) = self.model.stored(held.seq) else { return };
        let until = self.model.now.saturating_add(stored.ttr);
        if let Some(claim) = &mut self.model.tasks.get_mut(&held.seq).unwrap().claim {
            claim.until = claim.until.max(until);
        }
    }

    fn if_claimed_with_body(&self, held: &HeldClaim, body: Body) -> Expected {
        self.if_claimed(held, self.model.stored(held.seq).map(|it| Stored { body, ..it }))
    }

    /// A body that differs from all others. The largest bodies do not fit the journal: their commit
    /// goes to the tables, with all that the journal has.
    pub fn random_body(&mut self, rng: &mut Rng) -> Body {
        let length = if rng.one_in(40) { 270_000 } else { rng.pick(&[0, 20, 20, 300, 2000, 9000]) };
        Body { version: self.next_number(), length }
    }

    /// Checks that the handles of claims know which of them have ended, and when others expire.
    #[track_caller]
    pub fn check_claims(&self) {
        for held in &self.claims {
            let Some(claim) = &held.claim else { continue };
            let of_model = self.model.tasks[&held.seq].claim.filter(|it| it.no == held.no);
            let live = of_model.filter(|_| self.model.stored(held.seq).is_some());
            assert_eq!(claim.is_current().unwrap(), live.is_some(), "task {}: {live:?}", held.seq);
            let left = live.map_or(Some(0), |claim| self.model.time_until(claim.until));
            assert_eq!(
                claim.expires_in().unwrap(),
                left.map(Duration::from_micros),
                "task {}: {live:?}",
                held.seq
            );
        }
    }
}
