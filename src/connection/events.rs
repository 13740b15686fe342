//! The events of a store of another process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use tubewell_wire::Items;

use crate::Event;
use crate::core::from_bytes;
use crate::events::EventSource;

pub(super) struct RemoteEvents {
    items: Items,
    missed: AtomicU64,
}

impl RemoteEvents {
    pub(super) fn new(items: Items) -> RemoteEvents {
        RemoteEvents { items, missed: AtomicU64::new(0) }
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
}
