//! Takes that do not wait.

use std::time::Duration;

use tubewell::{Claim, Tube};

use super::convert::agree;
use super::reference::{SessionNo, Taken, TubeNo};
use super::steps::{Among, Pick};
use super::{HeldClaim, System};

impl System {
    pub(super) fn take(&mut self, client: usize, tube: usize, keep: bool) {
        let Some((handle, tube, session)) = self.tube(client, tube) else { return };
        let want = self.model.take(session, &[tube]);
        let next = handle.query().next(1).map(|next| next.first().map(|info| info.id));
        if let Some((got, want)) = agree(handle.try_take(), want) {
            assert_eq!(next.unwrap(), got.as_ref().map(Claim::id), "the task that was shown");
            self.taken(session, got, want, keep);
        }
    }

    /// Takes one task, ready or not.
    pub(super) fn claim(&mut self, client: usize, pick: &Pick, keep: bool) {
        let Some((handle, tube, session)) = self.tube(client, pick.tube) else { return };
        let is_kept = matches!(pick.among, Among::Kept);
        let among = if is_kept { Among::Kept } else { Among::Present };
        let pick = Pick { among, ..pick.clone() };
        let (no, id) = self.pick(&pick, tube, session);
        let owner = handle.query().owner(id).map(|owner| owner.map(|owner| owner.session));
        let holder = self.model.peek(tube, no).map(|task| task.claim().map(|(_, who)| who));
        if let Some((owner, holder)) = agree(owner, holder) {
            assert_eq!(owner.is_some(), holder.is_some(), "the owner of task {id}");
            assert_eq!(owner == Some(handle.session()), holder == Some(session));
        }
        let want = self.model.claim_task(session, tube, no);
        if let Some((got, want)) = agree(handle.claim(id), want) {
            let end = self.model.peek(tube, no).map(super::Model::claim_end);
            let has_time = end.is_ok_and(|end| end > self.model.now());
            assert_eq!(got.is_current().unwrap(), has_time);
            self.taken(session, Some(got), Some(want), keep);
        }
    }

    pub(super) fn take_many(&mut self, client: usize, tube: usize, max: usize) {
        let Some((handle, tube, session)) = self.tube(client, tube) else { return };
        let claims = handle.take_many(max, Duration::ZERO).unwrap();
        assert!(claims.len() <= max);
        let mut claims = claims.into_iter();
        for _ in 0..max {
            let want = self.model.take(session, &[tube]).unwrap();
            self.taken(session, claims.next(), want, true);
        }
    }

    /// Takes in the store's own session.
    pub(super) fn take_any(&mut self, tubes: &[usize], keep: bool) {
        let (handles, tubes, session) = self.distinct_tubes(0, tubes);
        if tubes.is_empty() {
            return;
        }
        let handles: Vec<&Tube> = handles.iter().collect();
        let want = self.model.take(session, &tubes);
        if let Some((got, want)) = agree(self.store.take_any(&handles, Duration::ZERO), want) {
            self.taken(session, got, want, keep);
        }
    }

    /// Handles of the tubes that exist, each once.
    pub(super) fn distinct_tubes(
        &mut self,
        client: usize,
        tubes: &[usize],
    ) -> (Vec<Tube>, Vec<TubeNo>, SessionNo) {
        let (mut handles, mut numbers) = (Vec::new(), Vec::new());
        for tube in tubes {
            if let Some((handle, no, _)) = self.tube(client, *tube)
                && !numbers.contains(&no)
            {
                handles.push(handle);
                numbers.push(no);
            }
        }
        (handles, numbers, self.session_of(client))
    }

    /// Asserts that both took the same task, or none, and that the claim is a new one.
    #[track_caller]
    pub(super) fn taken(
        &mut self,
        session: SessionNo,
        got: Option<Claim>,
        want: Option<Taken>,
        keep: bool,
    ) {
        let got_no = got.as_ref().map(|claim| self.number(claim.id()));
        assert_eq!(got_no, want.map(|taken| taken.task));
        let (Some(claim), Some(taken)) = (got, want) else { return };
        assert!(self.epochs.insert(claim.epoch()), "two claims have the same epoch");
        self.keep_or_detach(session, claim, taken, keep);
    }

    /// Compares a new claim with the model. Then keeps it as a handle, or detaches it.
    #[track_caller]
    pub(super) fn keep_or_detach(
        &mut self,
        session: SessionNo,
        claim: Claim,
        taken: Taken,
        keep: bool,
    ) {
        let mut tube = None;
        // The task may be removed already.
        let there = self.model.tubes().keys().find_map(|no| self.model.peek(*no, taken.task).ok());
        if let Some(task) = there {
            tube = Some(task.tube);
            assert_eq!(claim.body(), task.data);
            assert_eq!(claim.tube(), self.model.tubes()[&task.tube].name);
            assert_eq!(claim.priority(), task.priority);
            assert_eq!(claim.sub_queue(), task.sub_queue.as_deref());
            if self.model.is_current(taken) {
                let attempts = (task.attempts(), self.model.attempts_left(task));
                assert_eq!((claim.attempt(), claim.attempts_left()), attempts);
            }
        }
        if keep && let Some(tube) = tube {
            self.claims.insert(taken.claim, HeldClaim { taken, tube, session, claim });
        } else {
            assert_eq!(self.number(claim.detach().info.id), taken.task);
        }
    }
}
