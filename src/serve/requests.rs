//! The requests of a connection, and what becomes of them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tubewell_wire::{Answering, Reply};

use super::calls::{call, later};
use super::service::Peer;
use crate::connection::{Request, TubeName, encode_grants, encode_value};
use crate::core::{Call, Grant, HolderVerb, Parts, TubeHead, Wire, to_bytes};
use crate::events::EventStream;
use crate::signal::{Signal, SignalWait};
use crate::wait::TakeFuture;
use crate::{Claim, Error, Result, SessionId, Store, Tube};

/// Carries out a request.
pub(super) fn answer(peer: &Arc<Peer>, body: &[u8]) -> Answering {
    let parts = Parts::default();
    let request = match Request::read(body, &parts) {
        Ok(request) => request,
        Err(malformed) => return refused(Error::from(malformed)),
    };
    match request {
        Request::Call(mode, asked) => call(peer, mode, asked, body),
        request => carry_out(peer, request).unwrap_or_else(refused),
    }
}

fn carry_out(peer: &Arc<Peer>, request: Request<'_>) -> Result<Answering> {
    let store = Store { handle: peer.handle() };
    Ok(match request {
        Request::Take { tubes, session, timeout, most: None } => {
            let heads = tubes.iter().map(|tube| head(peer, tube)).collect::<Result<Vec<_>>>()?;
            let timeout = timeout.map(Duration::from_micros);
            let take = TakeFuture::new(&store.handle, Ok(heads), session, None, timeout);
            grants(peer, async move { Ok(take.await?.into_iter().collect()) })
        }
        Request::Take { tubes, session, timeout, most: Some(most) } => {
            let first = tubes.first().ok_or_else(|| Error::invalid("a take names a tube"))?;
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let timeout = timeout.map(Duration::from_micros);
            grants(peer, tube(peer, first, session)?.take_many_async(most, timeout))
        }
        Request::WaitReady { tube: name, session, timeout } => {
            let timeout = timeout.map(Duration::from_micros);
            value(tube(peer, &name, session)?.wait_ready_async(timeout))
        }
        Request::ClaimEnd(key) => {
            // A claim that has ended is an answer too.
            match store.handle.ask(Call::Claim(key, HolderVerb::EndSignal)) {
                Ok(signal) => value(ended(signal)),
                Err(_) => now(&Ok(())),
            }
        }
        Request::Flush => value(store.flush_async()),
        Request::CatchUp => peer.on_thread(move || store.catch_up()),
        Request::Verify => peer.on_thread(move || store.verify()),
        Request::Backup(path) => peer.on_thread(move || store.backup(path)),
        Request::Counters => now(&Ok(store.counters())),
        Request::Clock => now(&Ok(store.clock_report())),
        Request::Events { filter, capacity } => {
            Answering::Many(Box::pin(EventBytes(store.events(filter, capacity).into_stream())))
        }
        Request::Call(..) => return Err(Error::invalid("the request is a call")),
    })
}

/// The answer that is there.
pub(super) fn now<T: Wire>(answer: &Result<T>) -> Answering {
    Answering::Now(Reply { body: encode_value(answer), on_lost: None })
}

pub(super) fn refused(error: Error) -> Answering {
    now(&Err::<(), Error>(error))
}

/// The answer of a future.
pub(super) fn value<T: Wire>(
    answer: impl Future<Output = Result<T>> + Send + 'static,
) -> Answering {
    later(async move { Reply { body: encode_value(&answer.await), on_lost: None } })
}

/// The answer of a future that hands out tasks. They go back if their answer is lost, while their
/// session outlives the connection.
pub(super) fn grants(
    peer: &Arc<Peer>,
    claims: impl Future<Output = Result<Vec<Claim>>> + Send + 'static,
) -> Answering {
    let peer = peer.clone();
    later(async move {
        let claims = claims.await;
        let grants: Result<Vec<Grant>> =
            claims.map(|claims| claims.into_iter().map(Claim::into_grant).collect());
        let body = encode_grants(&grants);
        Reply { body, on_lost: grants.ok().and_then(|grants| give_back(&peer, grants)) }
    })
}

fn give_back(peer: &Arc<Peer>, grants: Vec<Grant>) -> Option<Box<dyn FnOnce() + Send>> {
    if grants.is_empty() || !peer.has_grace {
        return None;
    }
    let handle = peer.handle();
    let ids: Vec<(u64, u64)> = grants.iter().map(|grant| (grant.id, grant.epoch)).collect();
    Some(Box::new(move || {
        for (id, epoch) in ids {
            handle.tell(Call::DropClaim { id, epoch, forgive: true });
        }
    }))
}

/// The handle of a tube, for a session of the connection.
pub(super) fn tube(peer: &Arc<Peer>, name: &TubeName, session: SessionId) -> Result<Tube> {
    Ok(Tube::new(peer.handle(), session, None, head(peer, name)?))
}

fn head(peer: &Peer, tube: &TubeName) -> Result<TubeHead> {
    peer.store.inner().run(|core| core.head_of(tube.number, &tube.name))
}

async fn ended(signal: Arc<Signal>) -> Result<()> {
    let mut wait = SignalWait::new(&signal);
    std::future::poll_fn(|context| wait.poll(context.waker())).await;
    Ok(())
}

/// Events as bytes.
struct EventBytes(EventStream);

impl Stream for EventBytes {
    type Item = Vec<u8>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let next = Pin::new(&mut self.0).poll_next(context);
        next.map(|event| event.map(|event| to_bytes(&event)))
    }
}
