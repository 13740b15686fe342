//! Claims that are parked, and resumed with their tokens.

use tubewell::{Claim, ClaimToken};

use super::convert::{agree, duration};
use super::reference::{Holder, Micros, Taken};
use super::steps::Choice;
use super::{HeldClaim, System};

/// The token of a claim that was parked. The claim may have been resumed or have ended since.
#[derive(Clone)]
pub(super) struct ParkedClaim {
    token: ClaimToken,
    taken: Taken,
    epoch: u64,
}

impl System {
    pub(super) fn park(&mut self, held: HeldClaim, hold: Micros, deferred: bool) {
        let HeldClaim { taken, tube, session, claim } = held;
        let (id, epoch, name) = (claim.id(), claim.epoch(), claim.tube().to_owned());
        let got = if deferred {
            claim.into_async().park(duration(hold)).wait()
        } else {
            Claim::park(claim, duration(hold))
        };
        let holder = Holder { session, claim: Some(taken.claim) };
        let want = self.model.park(tube, taken.task, holder, hold);
        let Some((token, ())) = agree(got, want) else { return };
        assert_eq!((token.id(), token.tube()), (id, name.as_str()));
        assert_eq!(token.to_string().parse(), Ok(token.clone()));
        let old =
            self.tokens.insert(taken.claim, ParkedClaim { token: token.clone(), taken, epoch });
        // A claim that is parked again has its old token.
        assert!(old.is_none_or(|old| old.token == token));
    }

    pub(super) fn resume_claim(&mut self, client: usize, token: Choice, any: bool, keep: bool) {
        let known = self.tokens.values();
        let known: Vec<&ParkedClaim> =
            known.filter(|token| any || self.model.is_parked(token.taken)).collect();
        if known.is_empty() {
            return;
        }
        let ParkedClaim { token, taken, epoch } = (*token.get(&known)).clone();
        let session = self.session_of(client);
        let got = match &self.clients[client].session {
            Some(session) => session.resume_claim(&token),
            None => self.store.resume_claim(&token),
        };
        let want = self.model.resume_claim(session, token.tube(), taken);
        if let Some((claim, ())) = agree(got, want) {
            assert_eq!((self.number(claim.id()), claim.epoch()), (taken.task, epoch));
            self.keep_or_detach(session, claim, taken, keep);
        }
    }
}
