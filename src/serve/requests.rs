//! The requests of a connection, and what becomes of them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tubewell_wire::Answering;

use super::answers::{grants, now, refused, value};
use super::peer::Peer;
use super::shares::{Permit, Share};
use super::subscriptions::ListedSubscription;
use super::verbs;
use crate::base::signal::{Signal, raised};
use crate::connection::{Request, encode_value, read_call};
use crate::core::verb::TubeName;
use crate::core::{ByteBudget, to_bytes};
use crate::handle::store::scrape_here;
use crate::handle::take::{self, TakeFuture};
use crate::values::filter::Filter;
use crate::{Async, Error, Events, Result, SessionId, Store};

/// More events than may wait for a reader that is slow, whatever capacity it has asked for.
const EVENTS_MAX: usize = 65_536;

/// The bytes of the tasks of one answer, unless it has one task.
const TASKS_SIZE: usize = 16 << 20;

/// Carries out a request.
pub(super) fn answer(peer: &Arc<Peer>, body: &[u8]) -> Answering {
    if let Some((mode, input)) = read_call(body) {
        return verbs::call(peer, mode, input);
    }
    match Request::read(body) {
        Ok(request) => carry_out(peer, request).unwrap_or_else(refused),
        Err(malformed) => refused(Error::from(malformed)),
    }
}

fn carry_out(peer: &Arc<Peer>, request: Request) -> Result<Answering> {
    let store: Store = Store::of(peer.handle());
    Ok(match request {
        Request::Take { tubes, session, timeout, most } => {
            take(peer, &tubes, session, timeout, most)?
        }
        Request::WaitReady { tube: name, session, timeout } => {
            let timeout = timeout.map_or(Duration::MAX, Duration::from_micros);
            let tube = peer.tube(name.number, &name.name, session)?;
            value(peer.wait_in(1)?.hold(tube.to_async().wait_ready(timeout)))
        }
        Request::Claim { tube: name, session, id } => {
            let permit = peer.wait_in(1)?;
            let tube = peer.tube(name.number, &name.name, session)?;
            let claim = async move { Ok(vec![tube.to_async().claim(id).await?.into_blocking()]) };
            grants(peer.recipient(), permit.hold(claim))
        }
        Request::ResumeClaim(session, token) => {
            // Now, before the calls that have arrived after it.
            let claim = take::resume_claim_here(&peer.store, session, None, &token);
            grants(peer.recipient(), std::future::ready(claim.map(|claim| vec![claim])))
        }
        Request::BeginSession(id, label) => now(&peer.begin_session(id, label.as_ref())),
        Request::ResumeSession(id) => now(&peer.resume_session(id)),
        Request::EndSession(id) => now(&peer.end_session(id)),
        Request::DropSession(id) => now(&peer.drop_session(id)),
        Request::ClaimEnd(key) => {
            // A claim that has ended is an answer too.
            match peer.store.end_signal(key) {
                Ok(signal) => value(peer.wait_in(1)?.hold(ended(signal))),
                Err(_) => now(&Ok(())),
            }
        }
        Request::Flush => value(store.to_async().flush()),
        Request::CatchUp => peer.on_thread(Share::CatchUps, move |waiting| {
            store.admin().catch_up_with(|_| waiting.or_break())
        }),
        Request::Verify => peer.on_thread(Share::Copies, move |waiting| {
            store.admin().verify_with(|_, _| waiting.or_break())
        }),
        Request::Backup(path) => peer.on_thread(Share::Copies, move |waiting| {
            store.admin().backup_with(path, |_, _| waiting.or_break()).map(drop)
        }),
        Request::Counters => now(&store.admin().counters()),
        Request::Clock => now(&store.admin().clock_report()),
        Request::ScrapeStore => now(&scrape_here(&peer.store)),
        Request::Heartbeat => peer.answer_beat(),
        Request::Subscribe { number, filter, capacity } => {
            subscribe(peer, number, filter, capacity)?
        }
        Request::Delivered(number) => now(&peer.subscriptions.delivered(number)),
    })
}

/// `number`: that of the subscription.
fn subscribe(peer: &Arc<Peer>, number: u64, filter: Filter, capacity: usize) -> Result<Answering> {
    let combinations = filter.check_events()?;
    let permit = peer.shares.permit(Share::Combinations, combinations)?;
    let bytes = Some(peer.shares.events.clone());
    let events = Events::new(peer.store.events_of(filter, capacity.min(EVENTS_MAX), bytes)?);
    let listed = peer.subscriptions.list(number, &events);
    Ok(Answering::Many(Box::pin(EncodedEvents {
        events,
        begun: Some(encode_value(&Ok(()))),
        _permit: permit,
        _listed: listed,
    })))
}

fn take(
    peer: &Arc<Peer>,
    tubes: &[TubeName],
    session: SessionId,
    timeout: Option<u64>,
    most: Option<u64>,
) -> Result<Answering> {
    let timeout = timeout.map(Duration::from_micros);
    if let (Some(most), Some(first)) = (most, tubes.first()) {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let tube = peer.tube(first.number, &first.name, session)?;
        let claims = tube.take_within(most, ByteBudget::of(TASKS_SIZE), timeout);
        return Ok(grants(peer.recipient(), peer.wait_in(1)?.hold(claims)));
    }
    // A take of no tube waits for its time, and needs a permit too.
    let permit = peer.wait_in(tubes.len().max(1))?;
    let heads =
        tubes.iter().map(|tube| peer.head(tube.number, &tube.name)).collect::<Result<Vec<_>>>()?;
    let take = TakeFuture::new(&peer.handle(), Ok(heads), session, None, timeout);
    let take = async move { Ok(take.await?.into_iter().collect()) };
    Ok(grants(peer.recipient(), permit.hold(take)))
}

async fn ended(signal: Arc<Signal>) -> Result<()> {
    raised(&signal).await;
    Ok(())
}

/// Events as bytes. The answer that the subscription has begun precedes them.
struct EncodedEvents {
    events: Events<Async>,
    begun: Option<Vec<u8>>,
    /// The combinations of their filter.
    _permit: Permit,
    _listed: ListedSubscription,
}

impl Stream for EncodedEvents {
    type Item = Vec<u8>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        if let Some(begun) = self.begun.take() {
            return Poll::Ready(Some(begun));
        }
        let next = Pin::new(&mut self.events).poll_next(context);
        next.map(|event| event.map(|event| to_bytes(&event)))
    }
}
