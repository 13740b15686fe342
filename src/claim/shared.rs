//! The calls of a claim, and those of a worker on a claim that the code which works on the task can
//! use too.
//!
//! None of them consumes the claim. The claim is checked by its epoch, as everywhere, so that the
//! calls after its end are refused.

use std::sync::Arc;
use std::time::Duration;

use tubewell_drivers::Body;

use super::Claim;
use crate::connection::Mode;
use crate::core::Grant;
use crate::core::list::{Checkpoint, OwnerOfClaim, Park, Snooze};
use crate::handle::StoreHandle;
use crate::micros::micros_ceil;
use crate::park::block_on_for;
use crate::signal::Signal;
use crate::{ClaimToken, Error, Owner, Receipt, Result};

impl Claim {
    /// Asks for the owner of the claim.
    pub(crate) fn ask_owner(&self) -> OwnerOfClaim {
        OwnerOfClaim { key: self.claim_key() }
    }

    /// The owner of a claim, of which none outlives the close of its store.
    pub(crate) fn ended_if_closed(owner: Result<Option<Owner>>) -> Result<Option<Owner>> {
        match owner {
            Err(Error::Closed) => Ok(None),
            owner => owner,
        }
    }

    /// As [`park`](Claim::park). After an error the claim is as it was.
    pub(crate) fn park_shared(&self, hold: Duration) -> Result<ClaimToken> {
        let epoch = self.make(&Park { hold: micros_ceil(hold) })?;
        Ok(self.token(epoch))
    }

    /// As [`checkpoint`](Claim::checkpoint). The body that this handle shows stays the old one.
    pub(crate) fn checkpoint_shared(&self, body: Vec<u8>) -> Result<Receipt> {
        self.make(&Checkpoint { body: Body::new(body) })
    }

    /// Releases the task, if the claim has not ended. `forgive`: the attempt does not count.
    pub(crate) fn drop_claim(&self, forgive: bool) {
        self.handle.drop_claim(self.grant.id, self.grant.epoch, forgive);
    }

    /// Releases a task that no code has begun to work on. The attempt is forgiven.
    pub(crate) fn give_back(mut self) {
        self.release_on_drop = false;
        self.drop_claim(true);
    }

    /// The task, for a holder in another process. Its row has the body.
    pub(crate) fn into_grant(mut self) -> Grant {
        self.release_on_drop = false;
        self.grant.key = Vec::new();
        Grant { row: Some(self.row.clone()), ..self.grant.clone() }
    }

    /// The signal that is raised when the claim ends, or when the store or the connection is closed.
    pub(crate) fn end_signal(&self) -> Result<Arc<Signal>> {
        match &self.handle {
            StoreHandle::Here(store) => store.end_signal(self.claim_key()),
            StoreHandle::Remote(owner) => Ok(owner.claim_end(self.claim_key())),
        }
    }

    /// As [`snooze`](Claim::snooze) without a delay: only memory changes. Blocks for the answer of
    /// another process, for at most `time`.
    pub(crate) fn snooze_within(&self, time: Duration) -> Result<()> {
        let StoreHandle::Remote(owner) = &self.handle else {
            return self.make(&Snooze {}).map(drop);
        };
        let answer = owner.make_later(Mode::Call, self.claimed(), &Snooze {})?;
        let no_answer = || Error::OutcomeUnknown { why: "the owner of the store is slow".into() };
        block_on_for(answer, time).unwrap_or_else(|| Err(no_answer())).map(drop)
    }

    /// Whether another process owns the store.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.handle, StoreHandle::Remote(_))
    }
}
