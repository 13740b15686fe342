//! What happened to tasks, told to whoever listens, off the path of commits.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};

use crate::sync::Mutex;
use crate::{State, user_code};

/// Called after each change of a task.
pub type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// How many events may wait for callbacks before they are dropped.
const CALLBACK_BUFFER: usize = 65_536;

/// What happened to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// It was put.
    Put,
    /// It was taken.
    Take,
    /// Its holder finished it.
    Ack,
    /// It was given back, by its holder or because a session ended.
    Release,
    /// Its hold was prolonged.
    Touch,
    /// It was set aside.
    Bury,
    /// It came back from being set aside.
    Kick,
    /// It was deleted, by a caller or at the end of its life.
    Delete,
    /// Its life is over; follows `Delete`.
    Ttl,
    /// Its hold is over.
    Ttr,
    /// Its delay is over.
    Delay,
}

/// A change of a task, told after it is in the file (or, where memory alone changes, after that).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Event {
    /// The tube.
    pub tube: Arc<str>,
    /// The task.
    pub id: u64,
    /// What happened.
    pub kind: EventKind,
    /// The task's state after it.
    pub state: State,
    /// Counts the events that were told in this life of the store. For a subscription a gap means
    /// that some were dropped; a callback of one tube also misses those of the others.
    pub seq: u64,
}

/// An event, and the callback of its tube.
pub(crate) struct QueuedEvent {
    pub(crate) event: Event,
    pub(crate) callback: Option<Callback>,
}

/// A stream of events; an iterator too, that ends when the store is closed. See [`Store::subscribe`](crate::Store::subscribe).
#[derive(Debug)]
pub struct Subscription {
    events: Receiver<Event>,
    dropped: Arc<AtomicU64>,
}

impl Subscription {
    /// The next event; waits for it. `None` once the store is closed and all has been read.
    #[must_use]
    pub fn recv(&self) -> Option<Event> {
        self.events.recv().ok()
    }

    /// The next event if there is one now.
    #[must_use]
    pub fn try_recv(&self) -> Option<Event> {
        self.events.try_recv().ok()
    }

    /// The next event; waits for it no longer than this.
    #[must_use]
    pub fn recv_timeout(&self, timeout: Duration) -> Option<Event> {
        self.events.recv_timeout(timeout).ok()
    }

    /// How many events this subscription missed because its buffer was full.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }
}

impl Iterator for Subscription {
    type Item = Event;

    fn next(&mut self) -> Option<Event> {
        self.recv()
    }
}

/// A callback that is to be called, and with what.
type Call = (Callback, Event);

/// Everyone who listens.
#[derive(Default)]
pub(crate) struct Subscribers(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    seq: u64,
    closed: bool,
    subscriptions: Vec<Subscriber>,
    callbacks: Option<(Sender<Call>, JoinHandle<()>)>,
}

/// The other end of a [`Subscription`].
struct Subscriber {
    sender: Sender<Event>,
    capacity: usize,
    dropped: Arc<AtomicU64>,
}

impl Subscriber {
    /// Whether the subscription is still there.
    fn is_read(&self) -> bool {
        Arc::strong_count(&self.dropped) > 1
    }

    /// Hands an event on, or drops it and counts. False if nobody listens any more.
    ///
    /// Events come from one caller at a time, so that no more than `capacity` of them wait.
    fn deliver(&self, event: &Event) -> bool {
        if self.sender.len() < self.capacity {
            return self.sender.send(event.clone()).is_ok();
        }
        self.dropped.fetch_add(1, Ordering::Relaxed);
        true
    }
}

impl Subscribers {
    pub(crate) fn subscribe(&self, capacity: usize) -> Subscription {
        // Not `bounded`, which takes all its memory at once: room is asked for generously.
        let (sender, events) = unbounded();
        let dropped = Arc::new(AtomicU64::new(0));
        let mut state = self.0.lock();
        if !state.closed {
            // Where nothing happens, nobody else notices that one is gone.
            state.subscriptions.retain(Subscriber::is_read);
            let (capacity, dropped) = (capacity.max(1), dropped.clone());
            state.subscriptions.push(Subscriber { sender, capacity, dropped });
        }
        Subscription { events, dropped }
    }

    /// Hands events on; waits for nobody. Called in the order of the events. Callbacks that could
    /// not be called are left in `unused`. Answers whether anybody subscribes.
    pub(crate) fn deliver(
        &self,
        emissions: &mut Vec<QueuedEvent>,
        unused: &mut Vec<Callback>,
    ) -> bool {
        let mut state = self.0.lock();
        for QueuedEvent { mut event, callback } in emissions.drain(..) {
            state.seq += 1;
            event.seq = state.seq;
            if let Some(callback) = callback {
                unused.extend(state.call(callback, event.clone()));
            }
            state.subscriptions.retain(|subscriber| subscriber.deliver(&event));
        }
        !state.subscriptions.is_empty()
    }

    /// Ends all streams and, unless called from a callback, waits until the callbacks are done.
    pub(crate) fn close(&self) {
        let callbacks = {
            let mut state = self.0.lock();
            state.closed = true;
            state.subscriptions.clear();
            state.callbacks.take()
        };
        if let Some((sender, thread)) = callbacks {
            drop(sender);
            if thread.thread().id() != std::thread::current().id() {
                // It ends without panicking: panics of callbacks are caught.
                let _ = thread.join();
            }
        }
    }
}

impl Inner {
    /// Has the callback called; returns it if it cannot be.
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
        // A listener that does not keep up misses events; nobody waits for it.
        sender.try_send((callback, event)).err().map(|full| full.into_inner().0)
    }
}

/// Calls it and, if nobody else has it any more, drops what it owns.
fn call(callback: Callback, event: &Event) {
    user_code::catch_panic(move || callback(event));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_that_came_and_went_while_nothing_happened_leave_nothing() {
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
