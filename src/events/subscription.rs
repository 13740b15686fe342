//! Subscriptions: the reader's half of a stream of events.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use futures_core::Stream;
use tubewell_wire::HomeProcess;

use super::delivered::{Delivered, SubscriptionState};
use super::event::Event;
use crate::park::block_on;
use crate::{Error, Result};

/// The events that pass a filter, from [`Store::events`](crate::Store::events) on.
///
/// A thread calls [`recv`](Subscription::recv), or iterates: the iterator blocks until there is an
/// event. An async task uses [`into_stream`](Subscription::into_stream). Both end when the store is
/// closed and all events have been received. Up to the capacity of the subscription, events wait in
/// memory. They do not survive the process.
///
/// A reader that is slow delays no other call: it misses events. The first event after the missed
/// ones says [how many](Event::missed), and [`dropped`](Subscription::dropped) is the number of all
/// that were missed.
///
/// # Example
/// ```
/// # use tubewell::{Filter, Store};
/// # let store = Store::in_memory()?;
/// let events = store.events(Filter::new(), 100)?;
/// store.tube("jobs")?.put("one")?;
/// store.close()?;
/// for event in events {
///     println!("task {} of {}: {:?}", event.id, event.tube, event.kind);
/// }
/// # Ok::<(), tubewell::Error>(())
/// ```
pub struct Subscription {
    source: Box<dyn EventSource>,
    /// In a fork, the events have ended: no thread would deliver further ones.
    home: HomeProcess,
}

/// Where the events of a subscription come from.
pub(crate) trait EventSource: Send + Sync {
    fn recv(&self) -> Option<Event>;
    fn try_recv(&self) -> Option<Event>;
    fn recv_timeout(&self, timeout: Duration) -> Option<Event>;
    fn poll_recv(&self, waker: &Waker) -> Poll<Option<Event>>;
    /// How many events were missed.
    fn dropped(&self) -> u64;
    /// Asks what was delivered.
    fn delivered(&self) -> Result<Asked>;
    /// What the store shares with a subscription of its process.
    fn shared(&self) -> Option<Arc<SubscriptionState>> {
        None
    }
}

/// What was delivered: known here, or expected from the owner.
pub(crate) enum Asked {
    Here(Delivered),
    Later(Pin<Box<dyn Future<Output = Result<Delivered>> + Send>>),
}

impl Subscription {
    pub(crate) fn new(source: impl EventSource + 'static) -> Subscription {
        Subscription { source: Box::new(source), home: HomeProcess::current() }
    }

    /// Returns the next event, and blocks until there is one. Returns `None` when the store is
    /// closed and all events have been received.
    #[must_use]
    pub fn recv(&self) -> Option<Event> {
        self.home.is_here().then(|| self.source.recv())?
    }

    /// Returns the next event if there is one now. Does not block.
    #[must_use]
    pub fn try_recv(&self) -> Option<Event> {
        self.home.is_here().then(|| self.source.try_recv())?
    }

    /// Returns the next event, and blocks at most for `timeout` until there is one.
    #[must_use]
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Event> {
        self.home.is_here().then(|| self.source.recv_timeout(timeout))?
    }

    /// How many events that pass its filter this subscription has missed because its buffer was
    /// full. [`Event::missed`] says where. Through a connection, the events that were missed since the
    /// last one that was received are counted with the next one.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.source.dropped()
    }

    /// What was delivered to this subscription so far, so that a reader knows when it has seen all
    /// events up to some moment.
    ///
    /// All events of a call are delivered before the call returns, in this process and through
    /// a connection. So a reader that asks after the call, and then receives events up to
    /// [`seq`](Delivered::seq), has received those of the call, except for those that
    /// [`missed`](Delivered::missed) counts. Blocks for a round trip through a connection, and does
    /// not block otherwise.
    ///
    /// # Errors
    /// [`NotConnected`](crate::Error::NotConnected): the connection on which the subscription began has
    /// broken, and its events end. [`Closed`](crate::Error::Closed): the connection was closed.
    ///
    /// # Example
    /// ```
    /// # use tubewell::{Filter, Store};
    /// # let store = Store::in_memory()?;
    /// # let jobs = store.tube("jobs")?;
    /// let events = store.events(Filter::new(), 100)?;
    /// jobs.put("one")?;
    /// let delivered = events.delivered()?;
    /// let mut seen = 0;
    /// while seen < delivered.seq {
    ///     let Some(event) = events.recv() else { break };
    ///     seen = event.seq;
    /// }
    /// assert_eq!((seen, delivered.missed), (1, 0)); // nothing was put before
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn delivered(&self) -> Result<Delivered> {
        match self.ask_delivered()? {
            Asked::Here(delivered) => Ok(delivered),
            Asked::Later(answer) => block_on(answer),
        }
    }

    fn ask_delivered(&self) -> Result<Asked> {
        if !self.home.is_here() {
            return Err(Error::Forked { opened_in: self.home.id() });
        }
        self.source.delivered()
    }

    /// What the store shares with a subscription of its process.
    pub(crate) fn shared(&self) -> Option<Arc<SubscriptionState>> {
        self.source.shared()
    }

    /// The same events as a [`Stream`](futures_core::Stream), for async tasks. No event is lost by
    /// the conversion.
    ///
    /// # Example
    /// ```
    /// use std::future::poll_fn;
    /// use std::pin::Pin;
    /// use futures_core::Stream;
    /// use tubewell::{Filter, Store};
    ///
    /// async fn log(store: &Store) -> tubewell::Result<()> {
    ///     let mut events = store.events(Filter::new(), 100)?.into_stream();
    ///     // With `StreamExt` of `futures` or `tokio-stream`: `events.next().await`.
    ///     while let Some(event) = poll_fn(|task| Pin::new(&mut events).poll_next(task)).await {
    ///         println!("task {} of {}: {:?}", event.id, event.tube, event.kind);
    ///     }
    ///     Ok(())
    /// }
    /// ```
    #[must_use]
    pub fn into_stream(self) -> EventStream {
        EventStream(self)
    }
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

impl Iterator for Subscription {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.recv()
    }
}

/// The events of a [`Subscription`] as a [`Stream`](futures_core::Stream); from
/// [`Subscription::into_stream`].
///
/// It works with any runtime or none, and needs no polling and no further thread: its waker is
/// called after an event is delivered. It ends when the store is closed and all events have been
/// received. It is a type of its own, because the methods of an iterator and of a stream have the
/// same names.
#[derive(Debug)]
pub struct EventStream(Subscription);

impl EventStream {
    /// How many events this stream has missed because its buffer was full. As
    /// [`Subscription::dropped`].
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.0.dropped()
    }

    /// What was delivered to this stream so far. As [`Subscription::delivered`], as a future that
    /// blocks no thread.
    ///
    /// # Errors
    /// Those of [`Subscription::delivered`].
    pub async fn delivered(&self) -> Result<Delivered> {
        match self.0.ask_delivered()? {
            Asked::Here(delivered) => Ok(delivered),
            Asked::Later(answer) => answer.await,
        }
    }
}

impl Stream for EventStream {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let Subscription { source, home } = &self.0;
        if home.is_here() { source.poll_recv(context.waker()) } else { Poll::Ready(None) }
    }
}
