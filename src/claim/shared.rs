//! The calls of a claim, and those of a worker on a claim that the code which works on the task can
//! use too.
//!
//! None of them consumes the claim. The claim is checked by its epoch, as everywhere, so that the
//! calls after its end are refused.

use std::sync::Arc;
use std::time::Duration;

use super::Claim;
use crate::connection::Mode;
use crate::core::{Call, FromAnswer, Grant, HolderVerb};
use crate::handle::StoreHandle;
use crate::micros::micros_ceil;
use crate::park::block_on_for;
use crate::signal::Signal;
use crate::{ClaimToken, Error, Owner, Receipt, Result};

impl Claim {
    /// Makes a call of this claim, and blocks for its flush or write.
    pub(crate) fn call<T: FromAnswer>(&self, verb: HolderVerb<'_>) -> Result<T> {
        self.handle.call(self.grant.buffer, Call::Claim(self.claim_key(), verb))
    }

    /// Makes a call of this claim that changes memory alone or nothing.
    pub(crate) fn ask<T: FromAnswer>(&self, verb: HolderVerb<'_>) -> Result<T> {
        self.handle.ask(Call::Claim(self.claim_key(), verb))
    }

    /// Asks for the owner of the claim.
    pub(crate) fn owner_call(&self) -> Call<'static> {
        Call::OwnerOfClaim(self.claim_key())
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
        let epoch = self.call(HolderVerb::Park { hold: micros_ceil(hold) })?;
        Ok(self.token(epoch))
    }

    /// As [`checkpoint`](Claim::checkpoint). The body that this handle shows stays the old one.
    pub(crate) fn checkpoint_shared(&self, body: Vec<u8>) -> Result<Receipt> {
        let body = self.new_body(body)?;
        self.call(HolderVerb::Checkpoint(&body))
    }

    /// Releases a task that no code has begun to work on. The attempt is forgiven.
    pub(crate) fn give_back(mut self) {
        self.release_on_drop = false;
        self.handle.drop_claim(&self.grant, true);
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
            StoreHandle::Here(_) => self.ask(HolderVerb::EndSignal),
            StoreHandle::Remote(owner) => Ok(owner.claim_end(self.claim_key())),
        }
    }

    /// As [`snooze`](Claim::snooze) without a delay: only memory changes. Blocks for the answer of
    /// another process, for at most `time`.
    pub(crate) fn snooze_within(&self, time: Duration) -> Result<()> {
        let snooze = HolderVerb::Snooze { delay: 0 };
        let StoreHandle::Remote(owner) = &self.handle else {
            return self.ask::<Receipt>(snooze).map(drop);
        };
        let answer = owner.send::<Receipt>(Mode::Ask, Call::Claim(self.claim_key(), snooze));
        let no_answer = || Error::OutcomeUnknown { why: "the owner of the store is slow".into() };
        block_on_for(answer, time).unwrap_or_else(|| Err(no_answer())).map(drop)
    }

    /// Whether another process owns the store.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.handle, StoreHandle::Remote(_))
    }
}
