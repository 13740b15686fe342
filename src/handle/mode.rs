//! Blocking calls, and calls that return a ticket. A verb has one method, which serves both.

use std::future::Future;
use std::sync::Arc;
use std::task::{Poll, Waker};

use crate::base::park::block_on;
use crate::connection::{Mode as Sent, answered_already};
use crate::core::verb::{Begin, Begun, InStore, Named, Target, Verb};
use crate::core::{Buffer, Decided, Wait};
use crate::handle::call;
use crate::handle::job_notes::JobNotes;
use crate::handle::store_handle::{SessionGuard, StoreHandle};
use crate::handle::ticket::Standing;
use crate::handle::trace::{CallSpan, Of};
use crate::runtime::open_store::LocalHandle;
use crate::runtime::when_full::WhenFull;
use crate::runtime::{Given, LineSlot};
use crate::{Result, Ticket};

/// How the calls of a handle answer: [`Blocking`], or [`Async`] after
/// [`to_async`](crate::Tube::to_async). There are no others.
#[expect(private_bounds, private_interfaces, reason = "no other crate has a mode, or makes calls")]
pub trait Mode: Sealed + Sized + Send + Sync + 'static {
    /// The answer of a call: [`Result`], or a [`Ticket`].
    type Answer<R>;

    /// Makes a call.
    #[doc(hidden)]
    fn make<V: Begin>(call: Call<'_, V>, verb: Result<V>) -> Self::Answer<V::Answer>;

    /// Whether an answer is known to be an error.
    #[doc(hidden)]
    fn is_refused<R>(answer: &Self::Answer<R>) -> bool;

    /// An answer that is there already.
    #[doc(hidden)]
    fn answer<R>(answer: Result<R>) -> Self::Answer<R>;

    /// Another form of an answer.
    #[doc(hidden)]
    fn map<A, R>(
        answer: Self::Answer<A>,
        with: impl FnOnce(A) -> R + Send + Sync + 'static,
    ) -> Self::Answer<R>
    where
        A: Send + 'static,
        R: 'static;

    /// The same answer, which `notes` gets once it is known.
    #[doc(hidden)]
    fn noted<V: Verb>(
        answer: Self::Answer<V::Answer>,
        notes: &Arc<JobNotes>,
    ) -> Self::Answer<V::Answer>;

    /// The answer of a future, for what takes several calls and is not worth two bodies.
    #[doc(hidden)]
    fn run<R>(future: impl Future<Output = Result<R>> + Send + 'static) -> Self::Answer<R>;

    /// As `run`, for a change: its first step is made now, the rest while somebody waits.
    #[doc(hidden)]
    fn begin<R>(future: impl Future<Output = Result<R>> + Send + 'static) -> Self::Answer<R>;

    /// As `begin`, for the call that a future looks for. One that blocks carries out what its change needs, as the
    /// calls of a blocking handle do.
    #[doc(hidden)]
    fn begin_call<V: Begin<On = InStore> + 'static>(
        handle: &StoreHandle,
        verb: impl Future<Output = Result<V>> + Send + 'static,
    ) -> Self::Answer<V::Answer>;

    /// Does what differs in the two modes.
    #[doc(hidden)]
    fn either<A, R, F>(
        with: A,
        blocking: impl FnOnce(A) -> Result<R>,
        later: impl FnOnce(A) -> F,
    ) -> Self::Answer<R>
    where
        F: Future<Output = Result<R>> + Send + 'static;
}

/// Calls block until they are answered: a change is answered when it survives what its tube promises.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Blocking {}

/// Calls return a [`Ticket`], and block no thread.
#[derive(Clone, Copy, Debug)]
#[expect(clippy::exhaustive_enums, reason = "it has no values")]
pub enum Async {}

pub(crate) trait Sealed {}

impl Sealed for Blocking {}

impl Sealed for Async {}

/// A call on a store, as a handle describes it.
pub(crate) struct Call<'a, V: Begin> {
    pub(crate) handle: &'a StoreHandle,
    pub(crate) buffer: Buffer,
    pub(crate) when_full: WhenFull,
    pub(crate) on: Named<'a, V>,
    /// The sessions that must not end before the call is made.
    pub(crate) guards: &'a [Arc<SessionGuard>],
    /// The caller keeps its claim if a call that would have ended it is refused.
    pub(crate) keeps_claim: bool,
    /// What its span says that it is made on.
    pub(crate) of: Of<'a>,
}

#[expect(private_bounds, private_interfaces, reason = "as in the trait")]
impl Mode for Blocking {
    type Answer<R> = Result<R>;

    #[inline]
    fn make<V: Begin>(call: Call<'_, V>, verb: Result<V>) -> Result<V::Answer> {
        if V::KIND.needs_space() && call.when_full == WhenFull::Refuse {
            return Async::make(call, verb).wait();
        }
        let mut verb = verb?;
        let span = CallSpan::begin(call.of, V::On::claims(&call.on).len(), &mut verb);
        let answer = call.handle.make(call.buffer, call.on, &verb);
        span.answered::<V>(&answer);
        answer
    }

    fn is_refused<R>(answer: &Result<R>) -> bool {
        answer.is_err()
    }

    fn answer<R>(answer: Result<R>) -> Result<R> {
        answer
    }

    #[inline]
    fn map<A, R>(
        answer: Result<A>,
        with: impl FnOnce(A) -> R + Send + Sync + 'static,
    ) -> Result<R> {
        answer.map(with)
    }

    fn noted<V: Verb>(answer: Result<V::Answer>, notes: &Arc<JobNotes>) -> Result<V::Answer> {
        notes.note::<V>(&answer);
        answer
    }

    fn run<R>(future: impl Future<Output = Result<R>> + Send + 'static) -> Result<R> {
        block_on(future)
    }

    fn begin<R>(future: impl Future<Output = Result<R>> + Send + 'static) -> Result<R> {
        block_on(future)
    }

    fn begin_call<V: Begin<On = InStore> + 'static>(
        handle: &StoreHandle,
        verb: impl Future<Output = Result<V>> + Send + 'static,
    ) -> Result<V::Answer> {
        Blocking::make(Call::on_store(handle), block_on(verb))
    }

    #[inline]
    fn either<A, R, F>(
        with: A,
        blocking: impl FnOnce(A) -> Result<R>,
        _: impl FnOnce(A) -> F,
    ) -> Result<R>
    where
        F: Future<Output = Result<R>> + Send + 'static,
    {
        blocking(with)
    }
}

#[expect(private_bounds, private_interfaces, reason = "as in the trait")]
impl Mode for Async {
    type Answer<R> = Ticket<R>;

    fn make<V: Begin>(call: Call<'_, V>, verb: Result<V>) -> Ticket<V::Answer> {
        let mut verb = match verb {
            Ok(verb) => verb,
            Err(refused) => return Ticket::known(Err(refused)),
        };
        let span = CallSpan::begin(call.of, V::On::claims(&call.on).len(), &mut verb);
        let ticket = match verb.check(call.handle.limits()) {
            Ok(()) if V::KIND.changes() => {
                call.give(verb).unwrap_or_else(|refused| Ticket::known(Err(refused)))
            }
            Ok(()) => call.make_later(verb),
            Err(refused) => Ticket::known(Err(refused)),
        };
        ticket.in_span(span, CallSpan::note::<V>)
    }

    fn is_refused<R>(answer: &Ticket<R>) -> bool {
        answer.refusal().is_some()
    }

    fn answer<R>(answer: Result<R>) -> Ticket<R> {
        Ticket::known(answer)
    }

    fn map<A, R>(answer: Ticket<A>, with: impl FnOnce(A) -> R + Send + Sync + 'static) -> Ticket<R>
    where
        A: Send + 'static,
        R: 'static,
    {
        answer.map(with)
    }

    fn noted<V: Verb>(answer: Ticket<V::Answer>, notes: &Arc<JobNotes>) -> Ticket<V::Answer> {
        let notes = notes.clone();
        answer.inspect(move |answer| notes.note::<V>(answer))
    }

    fn run<R>(future: impl Future<Output = Result<R>> + Send + 'static) -> Ticket<R> {
        Ticket::of_future(future)
    }

    fn begin<R>(future: impl Future<Output = Result<R>> + Send + 'static) -> Ticket<R> {
        Ticket::begun(future)
    }

    fn begin_call<V: Begin<On = InStore> + 'static>(
        handle: &StoreHandle,
        verb: impl Future<Output = Result<V>> + Send + 'static,
    ) -> Ticket<V::Answer> {
        let handle = handle.clone();
        Ticket::begun(async move { Async::make(Call::on_store(&handle), verb.await).await })
    }

    fn either<A, R, F>(
        with: A,
        _: impl FnOnce(A) -> Result<R>,
        later: impl FnOnce(A) -> F,
    ) -> Ticket<R>
    where
        F: Future<Output = Result<R>> + Send + 'static,
    {
        Ticket::of_future(later(with))
    }
}

impl<'a, V: Begin<On = InStore>> Call<'a, V> {
    pub(crate) fn on_store(handle: &'a StoreHandle) -> Call<'a, V> {
        Call {
            handle,
            buffer: Buffer::File,
            when_full: WhenFull::Wait,
            on: (),
            guards: &[],
            keeps_claim: false,
            of: Of::STORE,
        }
    }
}

impl<V: Begin> Call<'_, V> {
    /// A read, which begins when somebody waits for it.
    fn make_later(self, verb: V) -> Ticket<V::Answer> {
        let Call { handle, buffer, on, guards, .. } = self;
        let (handle, on, guards) = (handle.clone(), V::On::to_owned(on), guards.to_vec());
        Ticket::of_future(async move {
            let answer = call::make(&handle, buffer, V::On::as_ref(&on), &verb).await;
            drop(guards);
            answer
        })
    }

    /// A change, which is made now.
    fn give(self, verb: V) -> Result<Ticket<V::Answer>> {
        let Call { handle, buffer, when_full, on, guards, keeps_claim, .. } = self;
        let store = match handle {
            StoreHandle::Here(store) => store,
            StoreHandle::Remote(owner) => {
                let releases = V::ENDS_CLAIM && !keeps_claim && when_full == WhenFull::Wait;
                let mode = if releases { Sent::End } else { Sent::of_change(when_full) };
                let forgives = verb.forgives();
                let mut sent = owner.make_later(mode, on, &verb)?;
                let claims = if releases { V::On::claims(&on).to_vec() } else { Vec::new() };
                let (handle, guards) = (handle.clone(), guards.to_vec());
                // It keeps the connection and its sessions.
                sent.then(move |is_refused| {
                    // The owner has done so, unless the call did not reach it.
                    if is_refused {
                        handle.drop_claims(&claims, forgives);
                    }
                    drop(guards);
                });
                return Ok(Ticket::asked(sent));
            }
        };
        let kept = || guards.to_vec();
        let given = store.inner()?.give(buffer, when_full, keeps_claim, on, verb, kept)?;
        Ok(ticket_of::<V>(store, buffer, guards, given))
    }
}

/// The ticket of a change that was given to the store.
pub(crate) fn ticket_of<V: Begin>(
    store: &LocalHandle,
    buffer: Buffer,
    guards: &[Arc<SessionGuard>],
    given: Given<V>,
) -> Ticket<V::Answer> {
    match given {
        Given::Decided(decided) => decided_ticket::<V>(store, guards, decided),
        Given::InLine(slot, _) => {
            let (store, guards) = (store.clone(), guards.to_vec());
            Ticket::in_line(InLine::<V> { store, buffer, guards, slot: Some(slot) })
        }
    }
}

/// A caller whose change stands in line. Dropping it leaves the change there, and ends a wait that the
/// change begins.
struct InLine<V: Begin> {
    store: LocalHandle,
    buffer: Buffer,
    guards: Vec<Arc<SessionGuard>>,
    slot: Option<Arc<LineSlot<V>>>,
}

impl<V: Begin> Standing<V::Answer> for InLine<V> {
    fn poll(&mut self, waker: &Waker) -> Poll<Result<Ticket<V::Answer>>> {
        // In a fork, no thread would carry out the call.
        self.store.inner()?;
        let Some(slot) = &self.slot else { return Poll::Ready(Err(answered_already())) };
        let Poll::Ready(decided) = slot.poll(waker) else { return Poll::Pending };
        self.slot = None;
        Poll::Ready(decided.map(|it| decided_ticket::<V>(&self.store, &self.guards, it)))
    }

    fn lead(&self) -> Result<()> {
        let inner = self.store.inner()?;
        self.slot.as_ref().map_or(Ok(()), |slot| inner.lead_for_line(self.buffer, slot))
    }

    fn is_done(&self) -> bool {
        self.slot.as_ref().is_none_or(|slot| slot.is_done())
    }
}

impl<V: Begin> Drop for InLine<V> {
    fn drop(&mut self) {
        if let Some(slot) = self.slot.take().filter(|_| V::WAITS)
            && let Ok(inner) = self.store.inner()
        {
            inner.run(|core| slot.leave(core));
        }
    }
}

/// The ticket of a change that is decided or refused.
fn decided_ticket<V: Begin>(
    store: &LocalHandle,
    guards: &[Arc<SessionGuard>],
    decided: Decided<Result<V::First>>,
) -> Ticket<V::Answer> {
    match decided.answer {
        Ok(first) => begun::<V>(store, guards, decided.wait, first),
        // It may wait for the change that has caused it.
        Err(refused) => {
            Ticket::decided(store, Decided { answer: Err(refused), wait: decided.wait })
        }
    }
}

/// The ticket of a change that was not refused.
fn begun<V: Begin>(
    store: &LocalHandle,
    guards: &[Arc<SessionGuard>],
    wait: Option<Wait>,
    first: V::First,
) -> Ticket<V::Answer> {
    match V::begun(first) {
        Begun::Done(answer) => Ticket::decided(store, Decided { answer: Ok(answer), wait }),
        later @ Begun::Later(_) => {
            let guards = guards.to_vec();
            let answer = call::answer(store, Decided { answer: Ok(later), wait });
            Ticket::of_future(async move {
                let answer = answer.await;
                drop(guards);
                answer
            })
        }
    }
}
