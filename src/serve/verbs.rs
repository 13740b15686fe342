//! The verbs of a connection, made on the store: one body for all of them.

use std::sync::Arc;

use tubewell_wire::{Answering, Reply};

use super::answers::{later, refused, reply, without_body};
use super::peer::Peer;
use super::shares::Permit;
use crate::connection::Mode;
use crate::core::list::with_verb;
use crate::core::verb::{Begin, Begun, Limits, Named, OnVerb, Target, Verb};
use crate::core::{Buffer, Core, Decided, Input, Malformed, Wire};
use crate::handle::mode::ticket_of;
use crate::runtime::Given;
use crate::runtime::open_store::LocalHandle;
use crate::runtime::when_full::WhenFull;
use crate::{Error, Result};

/// Makes a call.
pub(super) fn call(peer: &Arc<Peer>, mode: Mode, mut input: Input<'_>) -> Answering {
    let made = with_verb(&mut input, Serve { peer, mode });
    made.unwrap_or_else(|malformed| refused(Error::from(malformed)))
}

struct Serve<'a> {
    peer: &'a Arc<Peer>,
    mode: Mode,
}

impl OnVerb for Serve<'_> {
    type Done = Answering;

    fn run<V: Begin>(
        self,
        on: Named<'_, V>,
        input: &mut Input<'_>,
    ) -> Result<Answering, Malformed> {
        let verb = V::get(input)?;
        input.end()?;
        Ok(self.make(on, verb))
    }
}

impl Serve<'_> {
    fn make<V: Begin>(self, on: Named<'_, V>, verb: V) -> Answering {
        let Serve { peer, mode } = self;
        let if_refused = IfRefused::of(mode, &verb);
        if let Err(error) = verb.check(Limits { max_body: peer.store.open_store().max_body }) {
            return refuse::<V>(peer, if_refused, on, error);
        }
        if let Some(name) = verb.adds_tube()
            && let Err(refusal) = peer.check_tubes(name)
        {
            return refused(refusal);
        }
        let refusal_waits = verb.refusal_waits();
        // Before the decision, after which it would have to be undone.
        let permit = match V::WAITS.then(|| peer.wait_in(1)).transpose() {
            Ok(permit) => permit,
            Err(busy) => return refuse::<V>(peer, if_refused, on, busy),
        };
        let decide = |core: &mut Core| core.make(on, &verb, refusal_waits);
        let inner = &peer.store.open_store().inner;
        let decided = if V::KIND.needs_space() {
            inner.defer_unless_full(|core| buffer_of::<V>(core, on), decide)
        } else {
            Ok(inner.defer_now(decide))
        };
        match decided {
            Ok(decided) => answer::<V>(peer, if_refused, on, decided, permit),
            Err(_) if mode == Mode::UnlessFull => {
                refuse::<V>(peer, if_refused, on, Error::Overloaded)
            }
            Err(buffer) => match peer.wait_in(1) {
                Ok(place) => stand_in_line(peer, if_refused, buffer, on, verb, (place, permit)),
                Err(busy) => refuse::<V>(peer, if_refused, on, busy),
            },
        }
    }
}

/// The place of a call in line. Dropping it withdraws a call that was not made.
struct PlaceInLine {
    store: LocalHandle,
    buffer: Buffer,
    place: u64,
}

impl Drop for PlaceInLine {
    fn drop(&mut self) {
        self.store.open_store().inner.withdraw(self.buffer, self.place);
    }
}

/// What becomes of the claims of a call that is refused.
#[derive(Clone, Copy)]
enum IfRefused {
    Keep,
    /// The call would have ended them, and their handles are gone: the tasks are released.
    Release {
        forgives: bool,
    },
}

impl IfRefused {
    fn of<V: Verb>(mode: Mode, verb: &V) -> IfRefused {
        if mode == Mode::End && V::ENDS_CLAIM {
            IfRefused::Release { forgives: verb.forgives() }
        } else {
            IfRefused::Keep
        }
    }
}

/// The write buffer of a call.
fn buffer_of<V: Verb>(core: &Core, on: Named<'_, V>) -> Buffer {
    let tube = V::On::tube(on).and_then(|number| core.tubes.get(number));
    tube.map_or(Buffer::File, |tube| tube.buffer)
}

/// Has a call stand in line until its write buffer has space. Until then it has its place among the waiting
/// calls, and the sessions of its claims, which the caller may let go of. If its connection ends before, the call
/// is not made: the bytes that a peer leaves behind would have no limit.
fn stand_in_line<V: Begin>(
    peer: &Peer,
    if_refused: IfRefused,
    buffer: Buffer,
    on: Named<'_, V>,
    verb: V,
    (place, permit): (Permit, Option<Permit>),
) -> Answering {
    let store = &peer.store;
    let kept = (place, peer.hold_sessions(V::On::claims(&on)));
    let keeps_claim = matches!(if_refused, IfRefused::Keep);
    let inner = &store.open_store().inner;
    match inner.give(buffer, WhenFull::Wait, keeps_claim, on, verb, || kept) {
        Ok(Given::Decided(decided)) => answer::<V>(peer, if_refused, on, Ok(decided), permit),
        Ok(given @ Given::InLine(_, place)) => {
            let ticket = ticket_of::<V>(store, buffer, &[], given);
            let in_line = PlaceInLine { store: store.clone(), buffer, place };
            later(async move {
                let reply = reply(V::KIND.changes(), &ticket.await);
                drop((in_line, permit));
                reply
            })
        }
        Err(refusal) => refuse::<V>(peer, if_refused, on, refusal),
    }
}

/// The answer to a decided call, after its commit.
fn answer<V: Begin>(
    peer: &Peer,
    if_refused: IfRefused,
    on: Named<'_, V>,
    decided: Result<Decided<Result<V::First>>>,
    permit: Option<Permit>,
) -> Answering {
    let decided = match decided {
        Ok(decided) => begun::<V>(decided),
        Err(refusal) => return refuse::<V>(peer, if_refused, on, refusal),
    };
    if decided.answer.is_err() {
        // A refusal, which waits for the change that has caused it.
        release_if::<V>(peer, if_refused, on);
    }
    let changes = V::KIND.changes();
    match decided {
        Decided { answer: Ok(Begun::Done(answer)), wait: None } => {
            Answering::Now(reply(changes, &Ok(answer)))
        }
        decided => {
            let store = peer.store.clone();
            let answer = async move { wait_for(&store, changes, decided).await };
            match permit {
                Some(permit) => without_body(permit.hold(answer)),
                None => without_body(answer),
            }
        }
    }
}

fn begun<V: Begin>(decided: Decided<Result<V::First>>) -> Decided<Result<Begun<V::Answer>>> {
    decided.map(|first| first.map(V::begun))
}

async fn wait_for<T: Wire>(
    store: &LocalHandle,
    changes: bool,
    decided: Decided<Result<Begun<T>>>,
) -> Reply {
    reply(changes, &crate::handle::call::answer(store, decided).await)
}

/// The answer to a call that has changed nothing.
fn refuse<V: Verb>(
    peer: &Peer,
    if_refused: IfRefused,
    on: Named<'_, V>,
    refusal: Error,
) -> Answering {
    Answering::Now(refusal_reply::<V>(peer, if_refused, on, refusal))
}

fn refusal_reply<V: Verb>(
    peer: &Peer,
    if_refused: IfRefused,
    on: Named<'_, V>,
    refusal: Error,
) -> Reply {
    release_if::<V>(peer, if_refused, on);
    reply::<V::Answer>(V::KIND.changes(), &Err(refusal))
}

fn release_if<V: Verb>(peer: &Peer, if_refused: IfRefused, on: Named<'_, V>) {
    if let IfRefused::Release { forgives } = if_refused {
        peer.handle().drop_claims(V::On::claims(&on), forgives);
    }
}
