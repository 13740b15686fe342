//! Events: each change of a task, delivered to subscriptions and callbacks after its commit.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, Waker};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, TryRecvError, bounded, unbounded};
use futures_core::Stream;

use crate::sync::Mutex;
use crate::{State, user_code};

/// A function that is called after each change of a task.
pub type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// How many events may wait for callbacks. Further events are dropped.
const CALLBACK_BUFFER: usize = 65_536;

/// What happened to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// The task was put, or put anew by its key.
    Put,
    /// The task was taken.
    Take,
    /// Its holder acked it.
    Ack,
    /// It was released: by its holder, or because the session ended.
    Release,
    /// Its claim, ttr and ttl were extended.
    Touch,
    /// Its holder replaced its body.
    Checkpoint,
    /// Its holder reported a failure. Its state is then ready, delayed or buried.
    Fail,
    /// It was released for a while, and the attempt is forgiven.
    Snooze,
    /// Its claim is overdue: its ttr elapsed, and its reclaim delay has begun. Or its process ended,
    /// or the task was put anew by its key.
    Lost,
    /// It was buried.
    Bury,
    /// It was kicked: it is ready again.
    Kick,
    /// It was deleted, or its ttl elapsed.
    Delete,
    /// Its ttl elapsed. Follows `Delete`.
    Ttl,
    /// The claim on it expired: its ttr elapsed.
    Ttr,
    /// Its delay elapsed.
    Delay,
    /// It got parents that are not done: it is blocked.
    Block,
    /// Its last parent is done, or parents were removed: it is ready, delayed, or still blocked.
    Unblock,
    /// It is done, since a caller that does not hold it said so.
    Resolve,
    /// It was kept after its end, as done or buried, and is removed: its time has elapsed, there are
    /// newer ones, or a caller forgot it. Or it is a schedule that has put its last run.
    Forget,
    /// The schedule was stored, or changed.
    Schedule,
    /// It was put by a schedule: it is a run. Its state is then ready or delayed.
    Spawn,
    /// Its holder passed it on to another tube. This is two events: one of the tube that it has left,
    /// with state done, and one of the tube that it has entered, with its state there.
    Advance,
    /// A caller moved it to another tube. Two events, as of `Advance`.
    Move,
    /// Its priority, its body or its delay was changed.
    Update,
}

/// A change of a task. It is delivered after the commit that holds the change, or right after the
/// change if only memory changed.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Event {
    /// The name of the tube.
    pub tube: Arc<str>,
    /// The id of the task.
    pub id: u64,
    /// What happened.
    pub kind: EventKind,
    /// The state of the task after the change.
    pub state: State,
    /// The number of the event in this run of the store. A gap in the numbers of a subscription
    /// means that events were dropped. The callback of a tube gets the events of that tube only, so
    /// its numbers have gaps.
    pub seq: u64,
}

/// An event, and the callback of its tube.
pub(crate) struct QueuedEvent {
    pub(crate) event: Event,
    pub(crate) callback: Option<Callback>,
}

/// The events of all tubes since [`Store::subscribe`](crate::Store::subscribe).
///
/// A thread calls [`recv`](Subscription::recv), or iterates: the iterator blocks until there is an
/// event. An async task uses [`into_stream`](Subscription::into_stream). Both end when the store is
/// closed and all events have been received. Up to the capacity of the subscription, events wait in
/// memory. They do not survive the process.
///
/// # Example
/// ```
/// # use tubewell::{FIFO, Store, TubeOptions};
/// # let store = Store::in_memory()?;
/// let events = store.subscribe(100);
/// store.create_tube("jobs", FIFO, TubeOptions::new())?.put("one")?;
/// store.close()?;
/// for event in events {
///     println!("task {} of {}: {:?}", event.id, event.tube, event.kind);
/// }
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Debug)]
pub struct Subscription {
    events: Receiver<Event>,
    shared: Arc<SubscriptionState>,
}

/// What a subscription shares with the store.
#[derive(Debug, Default)]
struct SubscriptionState {
    dropped: AtomicU64,
    /// The waker of the stream's last poll.
    waker: Mutex<Option<Waker>>,
}

impl Subscription {
    /// Returns the next event, and blocks until there is one. Returns `None` when the store is
    /// closed and all events have been received.
    #[must_use]
    pub fn recv(&self) -> Option<Event> {
        self.events.recv().ok()
    }

    /// Returns the next event if there is one now. Does not block.
    #[must_use]
    pub fn try_recv(&self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// Returns the next event, and blocks at most for `timeout` until there is one.
    #[must_use]
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Event> {
        self.events.recv_timeout(timeout).ok()
    }

    /// How many events this subscription has missed because its buffer was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    /// The same events as a [`Stream`](futures_core::Stream), for async tasks. No event is lost by
    /// the conversion.
    ///
    /// # Example
    /// ```
    /// use std::future::poll_fn;
    /// use std::pin::Pin;
    /// use futures_core::Stream;
    /// use tubewell::Store;
    ///
    /// async fn log(store: &Store) {
    ///     let mut events = store.subscribe(100).into_stream();
    ///     // With `StreamExt` of `futures` or `tokio-stream`: `events.next().await`.
    ///     while let Some(event) = poll_fn(|task| Pin::new(&mut events).poll_next(task)).await {
    ///         println!("task {} of {}: {:?}", event.id, event.tube, event.kind);
    ///     }
    /// }
    /// ```
    #[must_use]
    pub fn into_stream(self) -> EventStream {
        EventStream(self)
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

    fn poll_recv(&self) -> Poll<Option<Event>> {
        match self.0.events.try_recv() {
            Ok(event) => Poll::Ready(Some(event)),
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
            Err(TryRecvError::Empty) => Poll::Pending,
        }
    }
}

impl Stream for EventStream {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let next = self.poll_recv();
        if next.is_ready() {
            return next;
        }
        // Wakers are user code: cloned and dropped without the lock.
        let waker = context.waker().clone();
        let replaced = self.0.shared.waker.lock().replace(waker);
        drop(replaced);
        // An event that was delivered before the waker was stored does not wake it.
        self.poll_recv()
    }
}

impl Drop for EventStream {
    fn drop(&mut self) {
        // The store may drop its half under its lock, where no waker may be dropped.
        let waker = self.0.shared.waker.lock().take();
        drop(waker);
    }
}

/// A callback, and the event to call it with.
type Call = (Callback, Event);

/// The subscriptions of a store, and the thread that calls its callbacks.
#[derive(Default)]
pub(crate) struct Subscribers(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    seq: u64,
    closed: bool,
    subscriptions: Vec<Subscriber>,
    callbacks: Option<(Sender<Call>, JoinHandle<()>)>,
}

/// The store's half of a [`Subscription`].
struct Subscriber {
    sender: Sender<Event>,
    capacity: usize,
    shared: Arc<SubscriptionState>,
}

impl Subscriber {
    /// Whether the subscription still exists.
    fn is_read(&self) -> bool {
        Arc::strong_count(&self.shared) > 1
    }

    /// Sends an event, or drops and counts it if the buffer is full. Returns false if the
    /// subscription no longer exists.
    ///
    /// One caller at a time sends events, so at most `capacity` of them wait.
    fn deliver(&self, event: &Event, wakers: &mut Vec<Waker>) -> bool {
        if self.sender.len() >= self.capacity {
            self.shared.dropped.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let sent = self.sender.send(event.clone()).is_ok();
        wakers.extend(self.shared.waker.lock().take());
        sent
    }
}

impl Subscribers {
    pub(crate) fn subscribe(&self, capacity: usize) -> Subscription {
        // Not `bounded`, which allocates its whole capacity immediately.
        let (sender, events) = unbounded();
        let shared = Arc::new(SubscriptionState::default());
        let mut state = self.0.lock();
        if !state.closed {
            // Without events, this is the only place that removes dropped subscriptions.
            state.subscriptions.retain(Subscriber::is_read);
            let (capacity, shared) = (capacity.max(1), shared.clone());
            state.subscriptions.push(Subscriber { sender, capacity, shared });
        }
        Subscription { events, shared }
    }

    /// Delivers events in order, and does not block. The caller drops `unused`, the callbacks that
    /// could not be called, and wakes `wakers`. Returns whether there is a subscription.
    pub(crate) fn deliver(
        &self,
        events: &mut Vec<QueuedEvent>,
        unused: &mut Vec<Callback>,
        wakers: &mut Vec<Waker>,
    ) -> bool {
        let mut state = self.0.lock();
        for QueuedEvent { mut event, callback } in events.drain(..) {
            state.seq += 1;
            event.seq = state.seq;
            if let Some(callback) = callback {
                unused.extend(state.call(callback, event.clone()));
            }
            state.subscriptions.retain(|subscriber| subscriber.deliver(&event, wakers));
        }
        !state.subscriptions.is_empty()
    }

    /// Ends all subscriptions and waits until the callbacks have returned, unless a callback calls
    /// this.
    pub(crate) fn close(&self) {
        let (subscriptions, callbacks) = {
            let mut state = self.0.lock();
            state.closed = true;
            (std::mem::take(&mut state.subscriptions), state.callbacks.take())
        };
        for Subscriber { sender, shared, .. } in subscriptions {
            drop(sender);
            let waker = shared.waker.lock().take();
            waker.into_iter().for_each(user_code::wake);
        }
        if let Some((sender, thread)) = callbacks {
            drop(sender);
            if thread.thread().id() != std::thread::current().id() {
                // The thread does not panic: panics of callbacks are caught.
                let _ = thread.join();
            }
        }
    }
}

impl Inner {
    /// Has the callback called. Returns it if it cannot be called.
    fn call(&mut self, callback: Callback, event: Event) -> Option<Callback> {
        if self.closed {
            return Some(callback);
        }
        if self.callbacks.is_none() {
            let (sender, calls) = bounded::<Call>(CALLBACK_BUFFER);
            let spawned = std::thread::Builder::new()
                .name("tubewell-events".into())
                .spawn(move || calls.iter().for_each(|(callback, event)| call(callback, &event)));
            self.callbacks = spawned.ok().map(|thread| (sender, thread));
        }
        let Some((sender, _)) = &self.callbacks else { return Some(callback) };
        // A slow callback misses events instead of delaying the store.
        sender.try_send((callback, event)).err().map(|full| full.into_inner().0)
    }
}

/// Calls a callback and, if this is its last handle, drops what it owns.
fn call(callback: Callback, event: &Event) {
    user_code::catch_panic(move || callback(event));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dropped_subscriptions_are_removed_without_events() {
        let subscribers = Subscribers::default();
        let first = subscribers.subscribe(1);
        for _ in 0..100 {
            drop(subscribers.subscribe(1));
        }
        let last = subscribers.subscribe(1);
        assert_eq!(subscribers.0.lock().subscriptions.len(), 2);
        drop((first, last));
    }
}
