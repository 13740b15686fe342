//! The reader's half of a stream of events.

use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use futures_core::Stream;
use tubewell_wire::HomeProcess;

use crate::events::{Asked, Delivered, EventSource, SubscriptionState};
use crate::{Async, Blocking, Error, Event, Mode};

/// The events that pass a filter; from [`Store::events`](crate::Store::events).
///
/// A thread calls [`recv`](Events::recv), or iterates: the iterator blocks until there is an event. Those
/// of a store after [`to_async`](crate::Store::to_async) are a [`Stream`](futures_core::Stream): it works
/// with any runtime or none, and needs no polling and no further thread. Both end when the store is
/// closed and all events have been received. Up to the capacity of the subscription, events wait in
/// memory. They do not survive the process.
///
/// A reader that is slow delays no other call: it misses events. The first event after the missed
/// ones says [how many](Event::missed), and [`dropped`](Events::dropped) is the number of all that were
/// missed.
///
/// # Example: a thread
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
///
/// # Example: an async task
/// ```
/// use std::future::poll_fn;
/// use std::pin::Pin;
/// use futures_core::Stream;
/// use tubewell::{AsyncStore, Filter};
///
/// async fn log(store: &AsyncStore) -> tubewell::Result<()> {
///     let mut events = store.events(Filter::new(), 100).await?;
///     // With `StreamExt` of `futures` or `tokio-stream`: `events.next().await`.
///     while let Some(event) = poll_fn(|task| Pin::new(&mut events).poll_next(task)).await {
///         println!("task {} of {}: {:?}", event.id, event.tube, event.kind);
///     }
///     Ok(())
/// }
/// ```
#[doc(alias = "subscription")]
pub struct Events<M: Mode = Blocking> {
    source: Box<dyn EventSource>,
    /// In a fork, the events have ended: no thread would deliver further ones.
    home: HomeProcess,
    mode: PhantomData<fn() -> M>,
}

impl<M: Mode> Events<M> {
    pub(crate) fn new(source: Box<dyn EventSource>) -> Events<M> {
        Events { source, home: HomeProcess::current(), mode: PhantomData }
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
    /// All events of a call are delivered before the call returns, in this process and through a connection.
    /// Call this after the call of interest, and receive events up to [`seq`](Delivered::seq): then all
    /// events of that call are received, except those that [`missed`](Delivered::missed) counts. Blocks for a
    /// round trip through a connection, and does not block otherwise.
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
    pub fn delivered(&self) -> M::Answer<Delivered> {
        if !self.home.is_here() {
            return M::answer(Err(Error::Forked { opened_in: self.home.id() }));
        }
        match self.source.delivered() {
            Ok(Asked::Here(delivered)) => M::answer(Ok(delivered)),
            Ok(Asked::Later(answer)) => M::run(answer),
            Err(refused) => M::answer(Err(refused)),
        }
    }

    /// What the store shares with a subscription of its process.
    pub(crate) fn shared(&self) -> Option<Arc<SubscriptionState>> {
        self.source.shared()
    }
}

impl Events {
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
}

impl<M: Mode> fmt::Debug for Events<M> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("dropped", &self.dropped()).finish_non_exhaustive()
    }
}

impl Iterator for Events {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.recv()
    }
}

impl Stream for Events<Async> {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let Events { source, home, .. } = &*self;
        if home.is_here() { source.poll_recv(context.waker()) } else { Poll::Ready(None) }
    }
}
