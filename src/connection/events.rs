//! The events of a store of another process.

use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::{Poll, Waker};
use std::time::Duration;

use tubewell_wire::{CallError, Items};

use super::request::read_value;
use super::{Connection, Request, into_error};
use crate::core::from_bytes;
use crate::events::{Asked, EventSource};
use crate::values::filter::Filter;
use crate::{Error, Event, Result};

struct RemoteEvents {
    items: Items,
    missed: AtomicU64,
    /// A subscription does not keep the connection.
    connection: Weak<Connection>,
    /// Its number at the owner.
    number: u64,
}

impl Connection {
    /// The events that pass a filter, from the answer of the owner on. They end when the connection
    /// breaks. The owner is asked at once.
    pub(crate) fn events(
        self: &Arc<Self>,
        filter: Filter,
        capacity: usize,
    ) -> impl Future<Output = Result<Box<dyn EventSource>>> + Send + use<> {
        let number = self.shared.subscriptions.fetch_add(1, Ordering::Relaxed);
        let request = Request::Subscribe { number, filter, capacity };
        let items = self.client.subscribe(request.to_bytes());
        let connection = self.clone();
        async move {
            let begun = poll_fn(|context| items.poll_next(context.waker())).await;
            read_value::<()>(&begun.ok_or_else(|| why_not_begun(&items))?)?;
            let source: Box<dyn EventSource> =
                Box::new(RemoteEvents::new(items, &connection, number));
            Ok(source)
        }
    }
}

impl RemoteEvents {
    fn new(items: Items, connection: &Arc<Connection>, number: u64) -> RemoteEvents {
        let connection = Arc::downgrade(connection);
        RemoteEvents { items, missed: AtomicU64::new(0), connection, number }
    }

    /// `None`, the end of the events, for an item that is no event.
    fn event(&self, item: &[u8]) -> Option<Event> {
        let event: Event = from_bytes(item).ok()?;
        self.missed.fetch_add(event.missed, Ordering::Relaxed);
        Some(event)
    }
}

impl EventSource for RemoteEvents {
    fn recv(&self) -> Option<Event> {
        self.event(&self.items.recv()?)
    }

    fn try_recv(&self) -> Option<Event> {
        self.event(&self.items.try_recv()?)
    }

    fn recv_timeout(&self, timeout: Duration) -> Option<Event> {
        self.event(&self.items.recv_timeout(timeout)?)
    }

    fn poll_recv(&self, waker: &Waker) -> Poll<Option<Event>> {
        self.items.poll_next(waker).map(|item| self.event(&item?))
    }

    fn dropped(&self) -> u64 {
        self.missed.load(Ordering::Relaxed)
    }

    fn delivered(&self) -> Result<Asked> {
        let connection = self.connection.upgrade().ok_or(Error::Closed)?;
        Ok(Asked::Later(Box::pin(connection.request(&Request::Delivered(self.number)))))
    }
}

/// Why a subscription has not begun.
fn why_not_begun(items: &Items) -> Error {
    match items.error() {
        Some(CallError::Broken { why }) => Error::NotConnected { why },
        Some(error) => into_error(error),
        None => Error::NotConnected { why: "the owner has ended the subscription".into() },
    }
}
