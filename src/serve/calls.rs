//! The calls of a connection, made on the store.

use std::sync::Arc;

use tubewell_wire::{Answering, Reply};

use super::answers::{grants, later, refused, reply, without_body};
use super::peer::Peer;
use crate::connection::{Mode, Request};
use crate::core::{
    Answer, Call, ClaimKey, Core, Decided, FILE, HolderVerb, Parts, Verb, check_call,
};
use crate::{Error, Result, wait};

/// Makes a call.
pub(super) fn call(peer: &Arc<Peer>, mode: Mode, asked: Call<'_>, body: &[u8]) -> Answering {
    if let Err(error) = check_call(&asked, peer.store.open_store().max_body) {
        return refused(error);
    }
    match asked {
        Call::ResumeClaim(session, token) => {
            let claim = wait::resume_claim(&peer.handle(), session, None, token);
            grants(peer.recipient(), std::future::ready(claim.map(|claim| vec![claim])))
        }
        Call::Claim(_, HolderVerb::EndSignal)
        | Call::Tube(_, Verb::Held(_, _, HolderVerb::EndSignal)) => refused(not_for_peers()),
        _ => decide(peer, mode, asked, body),
    }
}

fn not_for_peers() -> Error {
    Error::invalid("the call is one of the store's own process")
}

/// Decides a call at once, unless it waits for space in its write buffer.
fn decide(peer: &Arc<Peer>, mode: Mode, asked: Call<'_>, body: &[u8]) -> Answering {
    let inner = &peer.store.open_store().inner;
    let decide = |core: &mut Core| carry_out(core, mode, asked);
    let decided = if asked.needs_space() {
        inner.defer_unless_full(|core| buffer_of(core, &asked), decide)
    } else {
        Ok(inner.defer_now(decide))
    };
    match decided {
        Ok(decided) => answer(&asked, decided),
        Err(_) if mode == Mode::DeferredOrRefused => answer(&asked, Err(Error::Overloaded)),
        Err(buffer) => match peer.wait_in(1) {
            Ok(permit) => later(permit.hold(once_free(peer.clone(), mode, buffer, body.to_vec()))),
            Err(busy) => answer(&asked, Err(busy)),
        },
    }
}

/// The write buffer of a call.
fn buffer_of(core: &Core, call: &Call<'_>) -> usize {
    let number = match call {
        Call::Tube(tube, _) => Some(tube.number),
        _ => None,
    };
    number.and_then(|number| core.tubes.get(&number)).map_or(FILE, |tube| tube.buffer)
}

fn carry_out(core: &mut Core, mode: Mode, call: Call<'_>) -> Result<Decided<Result<Answer>>> {
    if refusal_waits(mode, &call) {
        core.carry_out_once_visible(call)
    } else {
        core.carry_out(call).map(|decided| decided.map(Ok))
    }
}

/// Whether a refusal waits for the change that may have caused it, as that of a handle of the owner does.
/// That of a deferred call does not.
fn refusal_waits(mode: Mode, call: &Call<'_>) -> bool {
    !matches!(mode, Mode::Deferred | Mode::DeferredOrRefused) && call.refusal_waits()
}

/// Waits for space in a write buffer, decides the call, and waits for its commit.
async fn once_free(peer: Arc<Peer>, mode: Mode, buffer: usize, body: Vec<u8>) -> Reply {
    let parts = Parts::default();
    let Ok(Request::Call(_, asked)) = Request::read(&body, &parts) else {
        return reply::<Answer>(false, &Err(not_for_peers()));
    };
    let decided = if refusal_waits(mode, &asked) {
        wait::decide_once_visible(&peer.store, buffer, asked).await
    } else {
        wait::decide(&peer.store, buffer, asked).await.map(|decided| decided.map(Ok))
    };
    match answer(&asked, decided) {
        Answering::Later(answer) | Answering::LaterWithoutBody(answer) => answer.await,
        Answering::Now(reply) => reply,
        Answering::Many(_) => reply::<Answer>(false, &Err(not_for_peers())),
    }
}

/// The answer to a decided call, after its commit.
fn answer(asked: &Call<'_>, decided: Result<Decided<Result<Answer>>>) -> Answering {
    let changes = asked.changes();
    match decided {
        Ok(Decided { answer, wait: None }) => Answering::Now(reply(changes, &answer)),
        Ok(decided) => {
            without_body(async move { reply(changes, &wait::commit(decided).await.flatten()) })
        }
        Err(refusal) => Answering::Now(reply::<Answer>(changes, &Err(refusal))),
    }
}
