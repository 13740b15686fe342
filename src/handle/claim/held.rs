//! What a claim is without its body: the calls of its holder, and its end when it is dropped.

use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use crate::base::micros::micros_ceil;
use crate::base::park::block_on_for;
use crate::base::signal::Signal;
use crate::base::sync::Mutex;
use crate::connection::Mode;
use crate::core::list::{Limit, OwnerOfClaim, Renew, Snooze};
use crate::core::verb::{Begin, Named, OfClaim, Verb};
use crate::core::{ClaimKey, Grant};
use crate::handle::call;
use crate::handle::job_notes::JobNotes;
use crate::handle::mode::Call;
use crate::handle::store_handle::{SessionGuard, StoreHandle};
use crate::handle::trace::{CallSpan, Of};
use crate::runtime::when_full::WhenFull;
use crate::{ClaimToken, Error, Owner, Result};

/// A claim as its session holds it. Dropping it releases the task.
pub(crate) struct Held {
    pub(crate) handle: StoreHandle,
    pub(crate) guard: Option<Arc<SessionGuard>>,
    pub(crate) grant: Grant,
    /// Whether dropping it releases the task.
    pub(crate) release_on_drop: bool,
    /// Found by its id: it is the session's, and neither a drop nor a refused end releases the task.
    pub(crate) is_found: bool,
    /// The names of the steps of this claim, so that none is named twice.
    pub(crate) step_names: Mutex<BTreeSet<Box<str>>>,
    /// Set for the claim that a job shows to its handler: notes the calls that the store could not
    /// carry out.
    notes: Option<Arc<JobNotes>>,
}

impl Held {
    pub(super) fn new(handle: StoreHandle, guard: Option<Arc<SessionGuard>>, grant: Grant) -> Held {
        let step_names = Mutex::new(BTreeSet::new());
        let (release_on_drop, is_found, notes) = (true, false, None);
        Held { handle, guard, grant, release_on_drop, is_found, step_names, notes }
    }

    /// The claim that a session has, found by the id of its task.
    pub(super) fn found(
        handle: StoreHandle,
        guard: Option<Arc<SessionGuard>>,
        grant: Grant,
    ) -> Held {
        let mut held = Held::new(handle, guard, grant);
        (held.release_on_drop, held.is_found) = (false, true);
        held
    }

    /// The same claim for the handler of a job: its drop releases nothing, and its refused calls are
    /// noted.
    pub(super) fn shown(&self, notes: Arc<JobNotes>) -> Held {
        let mut held = Held::found(self.handle.clone(), self.guard.clone(), self.grant.clone());
        held.notes = Some(notes);
        held
    }

    /// The notes of the worker, if this is the claim that a job shows to its handler.
    #[cfg(feature = "redb")]
    pub(crate) fn notes(&self) -> Option<&Arc<JobNotes>> {
        self.notes.as_ref()
    }

    pub(crate) fn id(&self) -> u64 {
        self.grant.id
    }

    pub(crate) fn key(&self) -> ClaimKey {
        self.grant.key()
    }

    /// A call that ends the claim was made. A refused one releases the task, since its handle goes.
    pub(crate) fn was_ended(&mut self, is_refused: bool, forgives: bool) {
        self.release_on_drop = false;
        if is_refused && !self.is_found {
            self.drop_claim(forgives);
        }
    }

    /// The session keeps the claim.
    pub(crate) fn keep(mut self) {
        self.release_on_drop = false;
    }

    /// The token of this claim while it is parked.
    pub(crate) fn token(&self, epoch: u64) -> ClaimToken {
        ClaimToken { tube: self.grant.name.to_string(), id: self.grant.id, epoch }
    }

    /// Makes a call of the claim.
    #[inline]
    pub(crate) fn make<V: Begin<On = OfClaim>>(&self, verb: &V) -> Result<V::Answer> {
        let span = CallSpan::of_claims(&self.grant, verb, 1);
        let answer = self.handle.make(self.grant.buffer, self.key(), verb);
        span.answered::<V>(&answer);
        self.note::<V>(&answer);
        answer
    }

    fn note<V: Verb>(&self, answer: &Result<V::Answer>) {
        if let Some(notes) = &self.notes {
            notes.note::<V>(answer);
        }
    }

    /// The handler of a job goes on: what the store could not carry out before was no obstacle.
    pub(crate) fn goes_on(&self) {
        if let Some(notes) = &self.notes {
            notes.clear();
        }
    }

    /// Makes a change of the claim, whose handle stays. A job notes a refusal.
    #[inline]
    pub(crate) fn change<M: crate::Mode, V: Begin<On = OfClaim>>(
        &self,
        verb: Result<V>,
    ) -> M::Answer<V::Answer> {
        let answer = M::make(self.call(), verb);
        match &self.notes {
            None => answer,
            Some(notes) => M::noted::<V>(answer, notes),
        }
    }

    /// A call of the claim, which is never refused for space: its caller would have to keep the claim.
    #[inline]
    pub(crate) fn call<V: Begin<On = OfClaim>>(&self) -> Call<'_, V> {
        self.call_on(self.key(), self.guard.as_slice(), self.is_found)
    }

    /// As `call`, on this claim or on several of the same store.
    pub(crate) fn call_on<'a, V: Begin>(
        &'a self,
        on: Named<'a, V>,
        guards: &'a [Arc<SessionGuard>],
        keeps_claim: bool,
    ) -> Call<'a, V> {
        let (handle, buffer, when_full) = (&self.handle, self.grant.buffer, WhenFull::Wait);
        let of = Of::claim(&self.grant);
        Call { handle, buffer, when_full, on, guards, keeps_claim, of }
    }

    /// Makes a call that ends the claim. If it is refused, the task is released.
    #[inline]
    pub(crate) fn end<M: crate::Mode, V: Begin<On = OfClaim>>(
        mut self,
        verb: V,
    ) -> M::Answer<V::Answer> {
        let forgives = verb.forgives();
        let answer = M::make(self.call(), Ok(verb));
        self.was_ended(M::is_refused(&answer), forgives);
        answer
    }

    /// As `make`, as a future that blocks no thread.
    pub(crate) async fn make_async<V: Begin<On = OfClaim>>(&self, verb: &V) -> Result<V::Answer> {
        let span = CallSpan::of_claims(&self.grant, verb, 1);
        let answer = call::make(&self.handle, self.grant.buffer, self.key(), verb).await;
        span.answered::<V>(&answer);
        self.note::<V>(&answer);
        answer
    }

    /// Whether the claim stands, as a future that blocks no thread.
    pub(crate) async fn is_current_async(&self) -> Result<bool> {
        Ok(self.await_owner().await?.is_some())
    }

    /// As [`Claim::renew`](crate::Claim::renew), as a future that blocks no thread.
    pub(crate) async fn renew_async(&self, hold: Duration) -> Result<()> {
        self.make_async(&Renew { hold: micros_ceil(hold) }).await
    }

    /// As `limit`, as a future that blocks no thread.
    pub(crate) async fn limit_async(&self, most: Duration) -> Result<()> {
        self.make_async(&Limit { most: micros_ceil(most) }).await
    }

    /// The session that holds the claim, or `None` if the claim has ended.
    pub(crate) fn owner(&self) -> Result<Option<Owner>> {
        ended_if_closed(self.handle.make(self.grant.buffer, (), &self.ask_owner()))
    }

    /// As `owner`, as a future that blocks no thread.
    pub(super) fn await_owner(&self) -> impl Future<Output = Result<Option<Owner>>> + use<> {
        let (handle, buffer, ask) = (self.handle.clone(), self.grant.buffer, self.ask_owner());
        async move { ended_if_closed(call::make(&handle, buffer, (), &ask).await) }
    }

    pub(crate) fn ask_owner(&self) -> OwnerOfClaim {
        OwnerOfClaim { key: self.key() }
    }

    /// The claim lasts at most so long from now on: the `max_runtime` of a worker.
    pub(crate) fn limit(&self, most: Duration) -> Result<()> {
        self.make(&Limit { most: micros_ceil(most) })
    }

    /// Releases the task, if the claim has not ended. `forgive`: the attempt does not count.
    pub(crate) fn drop_claim(&self, forgive: bool) {
        self.handle.drop_claim(self.key(), forgive);
    }

    /// The signal that is raised when the claim ends, or when the store or the connection is closed.
    pub(crate) fn end_signal(&self) -> Result<Arc<Signal>> {
        match &self.handle {
            StoreHandle::Here(store) => store.end_signal(self.key()),
            StoreHandle::Remote(owner) => Ok(owner.claim_end(self.key())),
        }
    }

    /// As [`Outcome::snooze`](crate::Outcome::snooze) without a delay: only memory changes. Another process gets
    /// the call, and its answer is waited for later.
    pub(crate) fn snooze(&self) -> Snoozed {
        let StoreHandle::Remote(owner) = &self.handle else {
            return Snoozed::Here(self.make(&Snooze {}).map(drop));
        };
        match owner.make_later(Mode::Call, self.key(), &Snooze {}) {
            Ok(answer) => Snoozed::Sent(Box::pin(async { answer.await.map(drop) })),
            Err(error) => Snoozed::Here(Err(error)),
        }
    }

    /// Whether another process owns the store.
    pub(crate) fn is_remote(&self) -> bool {
        matches!(self.handle, StoreHandle::Remote(_))
    }
}

/// A claim that is snoozed, or will be.
pub(crate) enum Snoozed {
    Here(Result<()>),
    Sent(Pin<Box<dyn Future<Output = Result<()>>>>),
}

impl Snoozed {
    /// Blocks for the answer of another process, for at most `time`.
    pub(crate) fn within(self, time: Duration) -> Result<()> {
        match self {
            Snoozed::Here(snoozed) => snoozed,
            Snoozed::Sent(answer) => block_on_for(answer, time).unwrap_or_else(|| {
                Err(Error::OutcomeUnknown { why: "the owner of the store is slow".into() })
            }),
        }
    }
}

/// A closed store has ended all claims.
pub(crate) fn ended_if_closed(owner: Result<Option<Owner>>) -> Result<Option<Owner>> {
    match owner {
        Err(Error::Closed) => Ok(None),
        owner => owner,
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        if self.release_on_drop {
            self.drop_claim(false);
        }
        // Last: the session may end with this handle, and must not end before the release.
        self.guard = None;
    }
}
