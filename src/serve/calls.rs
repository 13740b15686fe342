//! The calls of a connection, made on the store.

use std::sync::Arc;

use tubewell_wire::{Answering, Reply};

use super::answers::{grants, later, now, refused, value};
use super::peer::Peer;
use crate::connection::{Mode, Request, encode_value};
use crate::core::{
    Answer, Call, ClaimKey, Core, Decided, FILE, HolderVerb, Parts, TubeRef, Verb, WaitVerb,
    check_call,
};
use crate::{Error, Result, wait};

/// Makes a call.
pub(super) fn call(peer: &Arc<Peer>, mode: Mode, asked: Call<'_>, body: &[u8]) -> Answering {
    if let Err(error) = check_call(&asked, peer.store.open_store().max_body) {
        return refused(error);
    }
    match asked {
        Call::EndSession(id) if id == peer.store.open_store().own => {
            refused(Error::invalid("the store's own session cannot be resumed or ended"))
        }
        Call::EndSession(id) => {
            peer.forget_session(id);
            decide(peer, mode, asked, body)
        }
        Call::BeginSession(id, label) => now(&peer.begin_session(id, label)),
        Call::ResumeSession(id) => now(&peer.resume_session(id)),
        Call::DropSessionHandle(id) => now(&peer.drop_session(id)),
        Call::ResumeClaim(session, token) => {
            let claim = wait::resume_claim(&peer.handle(), session, None, token);
            grants(peer.recipient(), std::future::ready(claim.map(|claim| vec![claim])))
        }
        Call::Claim(_, HolderVerb::EndSignal) => refused(not_for_peers()),
        Call::Tube(target, verb) => {
            wait_in(peer, target, verb).unwrap_or_else(|| decide(peer, mode, asked, body))
        }
        _ => decide(peer, mode, asked, body),
    }
}

/// The verbs that wait. `None` for the others.
fn wait_in(peer: &Arc<Peer>, target: TubeRef<'_>, verb: Verb<'_>) -> Option<Answering> {
    let tube = |session| peer.tube(target.number, target.name, session);
    Some(match verb {
        Verb::PutOrWait { session, request, timeout } => {
            let (tube, request) = (tube(session), request.clone());
            value(async move { tube?.put_or_wait(&request, timeout).await })
        }
        Verb::PutAndWait { session, request, timeout } => {
            let (tube, request) = (tube(session), request.clone());
            value(async move { tube?.put_then_wait(&request, timeout).await })
        }
        Verb::Claim { session, id } => {
            let tube = tube(session);
            grants(peer.recipient(), async move { Ok(vec![tube?.claim_async(id).await?]) })
        }
        Verb::Wait(wait @ (WaitVerb::Done { session, .. } | WaitVerb::Drained { session, .. })) => {
            let tube = tube(session);
            value(async move { tube?.watch_async(Verb::Wait(wait)).await })
        }
        Verb::Wait(WaitVerb::Ready { .. })
        | Verb::CancelPut { .. }
        | Verb::CancelWatch(_)
        | Verb::Held(_, _, HolderVerb::EndSignal) => refused(not_for_peers()),
        _ => return None,
    })
}

fn not_for_peers() -> Error {
    Error::invalid("the call is one of the store's own process")
}

/// Decides a call at once, unless its write buffer is full.
fn decide(peer: &Arc<Peer>, mode: Mode, asked: Call<'_>, body: &[u8]) -> Answering {
    let inner = peer.store.inner();
    let decided = match mode {
        Mode::Ask if !puts(&asked) => Ok(inner.defer_now(|core| carry_out(core, mode, asked))),
        _ => inner
            .defer_unless_full(|core| buffer_of(core, &asked), |core| carry_out(core, mode, asked)),
    };
    match decided {
        Ok(decided) => answer(peer, mode, &asked, decided),
        Err(_) if mode == Mode::DeferredOrRefused => {
            answer(peer, mode, &asked, Err(Error::Overloaded))
        }
        Err(buffer) => later(once_free(peer.clone(), mode, buffer, body.to_vec())),
    }
}

/// Whether a call puts tasks, which a full write buffer has no space for.
fn puts(call: &Call<'_>) -> bool {
    matches!(call, Call::Tube(_, Verb::Put(_) | Verb::PutMany(_) | Verb::Requeue(_)))
}

/// The write buffer of a call.
fn buffer_of(core: &Core, call: &Call<'_>) -> usize {
    let number = match call {
        Call::Tube(tube, _) => Some(tube.number),
        Call::Claim(key, _) => Some(key.tube),
        Call::AckClaims(keys) => keys.first().map(|key| key.tube),
        _ => None,
    };
    number.and_then(|number| core.tubes.get(&number)).map_or(FILE, |tube| tube.buffer)
}

fn carry_out(core: &mut Core, mode: Mode, call: Call<'_>) -> Result<Decided<Result<Answer>>> {
    match mode {
        Mode::OnceVisible => core.carry_out_once_visible(call),
        _ => core.carry_out(call).map(|decided| decided.map(Ok)),
    }
}

/// Waits for space in a write buffer, decides the call, and waits for its commit.
async fn once_free(peer: Arc<Peer>, mode: Mode, buffer: usize, body: Vec<u8>) -> Reply {
    let parts = Parts::default();
    let Ok(Request::Call(_, asked)) = Request::read(&body, &parts) else {
        return reply(&Err(not_for_peers()));
    };
    let decided = match mode {
        Mode::OnceVisible => wait::decide_once_visible(&peer.store, buffer, asked).await,
        _ => wait::decide(&peer.store, buffer, asked).await.map(|decided| decided.map(Ok)),
    };
    match answer(&peer, mode, &asked, decided) {
        Answering::Later(answer) => answer.await,
        Answering::Now(reply) => reply,
        Answering::Many(_) => reply(&Err(not_for_peers())),
    }
}

/// The answer to a decided call, after its commit.
fn answer(
    peer: &Arc<Peer>,
    mode: Mode,
    asked: &Call<'_>,
    decided: Result<Decided<Result<Answer>>>,
) -> Answering {
    match decided {
        Ok(Decided { answer, wait: None }) => Answering::Now(reply(&answer)),
        Ok(decided) => later(async move { reply(&wait::commit(decided).await.flatten()) }),
        Err(refusal) => {
            if matches!(mode, Mode::Deferred | Mode::DeferredOrRefused) {
                release(peer, asked);
            }
            Answering::Now(reply(&Err(refusal)))
        }
    }
}

/// Releases the tasks whose claims a refused call would have ended: their handles are gone.
fn release(peer: &Peer, asked: &Call<'_>) {
    let keys: &[ClaimKey] = match asked {
        Call::Claim(key, verb) if verb.ends_claim() => std::slice::from_ref(key),
        Call::AckClaims(keys) => keys,
        _ => return,
    };
    for key in keys {
        if let Some(epoch) = key.by.epoch {
            peer.handle().tell(Call::DropClaim { id: key.id, epoch, forgive: false });
        }
    }
}

fn reply(answer: &Result<Answer>) -> Reply {
    Reply { body: encode_value(answer), ..Reply::default() }
}
