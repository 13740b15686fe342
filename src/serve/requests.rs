//! The requests of a connection, and what becomes of them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tubewell_wire::Answering;

use super::answers::{grants, now, refused, value};
use super::calls::call;
use super::peer::Peer;
use crate::connection::Request;
use crate::core::{Call, HolderVerb, Parts, to_bytes};
use crate::events::EventStream;
use crate::signal::{Signal, SignalWait};
use crate::wait::TakeFuture;
use crate::{Error, Result, Store};

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
            let heads = tubes.iter().map(|tube| peer.head(tube)).collect::<Result<Vec<_>>>()?;
            let timeout = timeout.map(Duration::from_micros);
            let take = TakeFuture::new(&store.handle, Ok(heads), session, None, timeout);
            grants(peer.for_lost(), async move { Ok(take.await?.into_iter().collect()) })
        }
        Request::Take { tubes, session, timeout, most: Some(most) } => {
            let first = tubes.first().ok_or_else(|| Error::invalid("a take names a tube"))?;
            let most = usize::try_from(most).unwrap_or(usize::MAX);
            let timeout = timeout.map(Duration::from_micros);
            grants(peer.for_lost(), peer.tube(first, session)?.take_many_async(most, timeout))
        }
        Request::WaitReady { tube: name, session, timeout } => {
            let timeout = timeout.map(Duration::from_micros);
            value(peer.tube(&name, session)?.wait_ready_async(timeout))
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
