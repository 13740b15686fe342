//! The items of a subscription.

use std::fmt;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::buffer::{Buffer, Taken};
use super::connector::Connector;
use crate::clock;
use crate::error::CallError;
use crate::sync::Arc;

/// The items of a subscription. Dropping it cancels the subscription. In a fork of the process that has
/// subscribed, they have ended.
///
/// At most 1024 items wait here to be taken; the server sends no more until some are.
pub struct Items {
    buffer: Arc<Buffer>,
    connector: Arc<Connector>,
    /// `None`: the call was not made.
    number: Option<u64>,
}

impl fmt::Debug for Items {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Items")
            .field("waiting", &self.buffer.waiting())
            .field("ended", &self.is_ended())
            .finish_non_exhaustive()
    }
}

impl Items {
    pub(super) fn new(
        buffer: Arc<Buffer>,
        connector: Arc<Connector>,
        number: Option<u64>,
    ) -> Items {
        Items { buffer, connector, number }
    }

    /// Takes the next item. Blocks until there is one; `None` at the end.
    #[must_use]
    pub fn recv(&self) -> Option<Vec<u8>> {
        self.connector.check_process().ok()?;
        self.buffer.take(None).map(|taken| self.tell(taken))
    }

    /// Takes the next item. Blocks at most `timeout`; `None` at the end, and if none came in time.
    #[must_use]
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Vec<u8>> {
        self.connector.check_process().ok()?;
        self.buffer.take(Some(clock::in_time(timeout))).map(|taken| self.tell(taken))
    }

    /// Takes the next item if there is one. Does not block.
    #[must_use]
    pub fn try_recv(&self) -> Option<Vec<u8>> {
        self.connector.check_process().ok()?;
        self.buffer.try_take().map(|taken| self.tell(taken))
    }

    /// Takes the next item if there is one, `None` at the end; otherwise `waker` is woken when there is. Only
    /// the last waker is kept.
    pub fn poll_next(&self, waker: &Waker) -> Poll<Option<Vec<u8>>> {
        if self.connector.check_process().is_err() {
            return Poll::Ready(None);
        }
        self.buffer.poll(waker).map(|taken| taken.map(|taken| self.tell(taken)))
    }

    /// Whether no more items will arrive. Some may still wait to be taken.
    #[must_use]
    pub fn is_ended(&self) -> bool {
        self.connector.check_process().is_err() || self.buffer.is_ended()
    }

    /// Why the items have ended, unless the server ended them.
    #[must_use]
    pub fn error(&self) -> Option<CallError> {
        self.connector.check_process().err().or_else(|| self.buffer.error())
    }

    /// Tells the server what it has to know, and returns the item.
    fn tell(&self, (item, taken): Taken) -> Vec<u8> {
        if let (Some(number), Some(taken)) = (self.number, taken) {
            self.connector.taken(number, taken);
        }
        item
    }
}

impl Drop for Items {
    fn drop(&mut self) {
        if let Some(number) = self.number
            && !self.is_ended()
        {
            self.connector.abandon(number);
        }
    }
}
