//! Events: each change of a task, delivered to subscriptions and callbacks after its commit.
//!
//! This folder finds the subscriptions that want an event, queues the event for them, and wakes their
//! readers. It knows filters, and neither tubes nor the lock of the core: the core makes the events, and the
//! runtime delivers them when it releases the lock. A thread of its own calls the callbacks. Readers are the
//! handles, and through [`EventSource`] also those of a connection.
//!
//! Invariant: the subscriptions of an event are found by look-ups (`index.rs`), and an event is delivered at
//! most once to each of them.

mod delivered;
mod event;
mod index;
mod local;
mod places;
mod source;

use std::cell::Cell;
use std::sync::Arc;
use std::task::Waker;
use std::thread::JoinHandle;

use crossbeam_channel::{Sender, bounded};

use crate::base::sync::Mutex;
use crate::base::user_code;
use crate::values::filter::Filter;
use crate::values::kinds::KindSet;

pub use delivered::Delivered;
pub(crate) use delivered::SubscriptionState;
pub use event::{Event, EventDetails};
pub(crate) use local::{EventBytes, Listing};
use local::{Subscriptions, Wanted};
pub(crate) use places::Facts;
pub(crate) use source::{Asked, EventSource};

/// A function that is called after each change of a task.
pub type Callback = Arc<dyn Fn(&Event) + Send + Sync>;

/// How many events may wait for callbacks. Further events are dropped.
const CALLBACK_BUFFER: usize = 65_536;

/// The tags of a task.
pub(crate) type Tags = Arc<[Arc<str>]>;

/// An event, and the callback of its tube.
pub(crate) struct QueuedEvent {
    pub(crate) event: Event,
    /// The tags of the task, if a filter asks for tags.
    pub(crate) tags: Option<Tags>,
    /// The task, if a filter that lets the event pass asks for it.
    pub(crate) details: Option<Arc<EventDetails>>,
    pub(crate) callback: Option<Callback>,
}

/// A callback, and the event to call it with.
type Call = (Callback, Event);

/// What no subscription wants of the events of a tube, as far as it was asked. It spares the changes of
/// most tasks the search for filters.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Unwanted {
    /// The kinds of events without key, owner and tags that no filter lets pass.
    kinds: KindSet,
    /// How many subscriptions had begun when they were asked.
    asked: u64,
}

/// The subscriptions of a store, for those who have events.
#[derive(Clone)]
pub(crate) struct Readers {
    subscriptions: Arc<Mutex<Subscriptions>>,
    wanted: Arc<Wanted>,
}

impl Default for Readers {
    fn default() -> Readers {
        let subscriptions = Subscriptions::default();
        let wanted = subscriptions.wanted().clone();
        Readers { subscriptions: Arc::new(Mutex::new(subscriptions)), wanted }
    }
}

impl Readers {
    /// The kinds that some subscription wants.
    #[inline]
    pub(crate) fn wanted(&self) -> KindSet {
        self.wanted.kinds()
    }

    /// Whether some filter asks for tags.
    #[inline]
    pub(crate) fn ask_for_tags(&self) -> bool {
        self.wanted.asks_for_tags()
    }

    /// Whether some filter asks for the tasks of events.
    #[inline]
    pub(crate) fn some_ask_for_details(&self) -> bool {
        self.wanted.asks_for_details()
    }

    /// Whether some filter that lets this event pass asks for the task, and its subscription has room.
    pub(crate) fn ask_for_details(&self, facts: &Facts<'_>) -> bool {
        self.wanted.asks_for_details() && self.subscriptions.lock().want_details(facts)
    }

    /// Whether some subscription wants an event. `unwanted` is what is known of the events of its tube.
    pub(crate) fn want(&self, facts: &Facts<'_>, unwanted: &Cell<Unwanted>) -> bool {
        if !facts.is_plain() {
            return self.subscriptions.lock().wants(facts);
        }
        let asked = self.wanted.begun();
        let Unwanted { kinds, .. } =
            Some(unwanted.get()).filter(|known| known.asked == asked).unwrap_or_default();
        if kinds.contains(facts.kind()) {
            return false;
        }
        let wants = self.subscriptions.lock().wants(facts);
        if !wants {
            unwanted.set(Unwanted { kinds: kinds.and(facts.kind()), asked });
        }
        wants
    }
}

/// The subscriptions of a store, and the thread that calls its callbacks.
#[derive(Default)]
pub(crate) struct Subscribers {
    readers: Readers,
    /// Locked alone or after the subscriptions.
    calls: Mutex<Calls>,
}

#[derive(Default)]
struct Calls {
    closed: bool,
    callbacks: Option<(Sender<Call>, JoinHandle<()>)>,
}

impl Subscribers {
    pub(crate) fn new(readers: &Readers) -> Subscribers {
        Subscribers { readers: readers.clone(), calls: Mutex::default() }
    }

    /// Adds a filter to the index of subscriptions, before its subscription begins.
    pub(crate) fn list(&self, filter: Filter) -> Listing {
        Listing::new(&self.readers.subscriptions, filter)
    }

    /// Delivers events in order, and does not block. The caller drops `unused`, the callbacks that
    /// could not be called, and wakes `wakers`.
    pub(crate) fn deliver(
        &self,
        events: &mut Vec<QueuedEvent>,
        unused: &mut Vec<Callback>,
        wakers: &mut Vec<Waker>,
    ) {
        let mut subscriptions = self.readers.subscriptions.lock();
        for QueuedEvent { mut event, tags, details, callback } in events.drain(..) {
            subscriptions.number(&mut event);
            if let Some(callback) = callback {
                unused.extend(self.calls.lock().call(callback, event.clone()));
            }
            let tags = tags.as_deref().unwrap_or_default();
            subscriptions.deliver(&event, details.as_ref(), tags, wakers);
        }
    }

    /// Ends all subscriptions and waits until the callbacks have returned, unless a callback calls
    /// this.
    pub(crate) fn close(&self) {
        let ended = self.readers.subscriptions.lock().close();
        let callbacks = {
            let mut calls = self.calls.lock();
            calls.closed = true;
            calls.callbacks.take()
        };
        for subscriber in ended {
            subscriber.end().into_iter().for_each(user_code::wake);
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

impl Calls {
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
        let subscribe = |filter| subscribers.list(filter).begin(1, None);
        let first = subscribe(Filter::new());
        for _ in 0..100 {
            drop(subscribe(Filter::new()));
            drop(subscribe(Filter::new().tube("a").key("b")));
        }
        let last = subscribe(Filter::new());
        assert_eq!(subscribers.readers.subscriptions.lock().len(), 2);
        drop((first, last));
        assert!(subscribers.readers.wanted().is_empty());
    }
}
