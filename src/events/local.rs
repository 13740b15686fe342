//! The events of a store of this process, and its subscriptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};
use std::time::Duration;

use tubewell_wire::HomeProcess;

use crossbeam_channel::{Receiver, Sender, TryRecvError, unbounded};

use super::delivered::SubscriptionState;
use super::event::{Event, EventDetails};
use super::index::{Index, SubscriberId};
use super::places::{Facts, Place, places_of};
use super::source::{Asked, EventSource};
use crate::Result;
use crate::base::sync::Mutex;
use crate::values::filter::Filter;
use crate::values::kinds::KindSet;

/// The events of a store of this process, as one subscription gets them.
struct LocalEvents {
    /// Dropped before the receiver: nothing is sent to one that was dropped.
    _listing: Listing,
    events: Receiver<Waiting>,
    shared: Arc<SubscriptionState>,
}

/// A filter in the index of subscriptions, until it is dropped: first without a subscription, so that
/// it is added without the lock of the store.
pub(crate) struct Listing {
    id: SubscriberId,
    filter: Filter,
    subscriptions: Arc<Mutex<Subscriptions>>,
    /// A fork must not take the lock.
    home: HomeProcess,
}

/// How many places of a filter are added or removed without giving back the lock, on which the
/// delivery of events waits.
const PLACES_STEP: usize = 128;

/// Events of each subscription that do not count for [`EventBytes`], unless they have details.
const FREE: usize = 128;
/// The bytes of the events that wait in subscriptions of other processes.
const BYTES_MAX: usize = 64 << 20;

/// The bytes of the events that wait in several subscriptions. An event for which there are none left is missed, as if
/// its subscription were full.
pub(crate) struct EventBytes {
    most: usize,
    used: AtomicUsize,
}

impl Default for EventBytes {
    fn default() -> EventBytes {
        EventBytes::up_to(BYTES_MAX)
    }
}

impl EventBytes {
    pub(crate) fn up_to(most: usize) -> EventBytes {
        EventBytes { most, used: AtomicUsize::new(0) }
    }

    fn take(self: &Arc<EventBytes>, event: &Event) -> Option<Counted> {
        let bytes = event.memory();
        let more = |used: usize| used.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).ok()?;
        Some(Counted { of: self.clone(), bytes })
    }
}

/// The bytes of an event that waits.
struct Counted {
    of: Arc<EventBytes>,
    bytes: usize,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.of.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// An event that waits to be read.
struct Waiting {
    event: Event,
    _counted: Option<Counted>,
}

/// The store's half of a subscription.
pub(super) struct Subscriber {
    sender: Sender<Waiting>,
    capacity: usize,
    /// Whether its filter asks for details.
    details: bool,
    /// What it shares with other subscriptions; `None` for any number of bytes.
    bytes: Option<Arc<EventBytes>>,
    /// How many events were dropped since the last one that was sent.
    missed: u64,
    shared: Arc<SubscriptionState>,
}

impl Subscriber {
    /// Sends an event, or drops and counts it if the buffer is full.
    ///
    /// One caller at a time sends events, so at most `capacity` of them wait.
    fn deliver(
        &mut self,
        event: &Event,
        details: Option<&Arc<EventDetails>>,
        wakers: &mut Vec<Waker>,
    ) {
        let waiting = self.sender.len();
        if waiting >= self.capacity {
            return self.miss();
        }
        let details = details.filter(|_| self.details).cloned();
        let mut sent = Event { details, missed: self.missed, ..event.clone() };
        let mut counted = self.count(waiting, &sent);
        if counted.is_none()
            && let Some(details) = &sent.details
        {
            sent.details = Some(Arc::new(details.without_body()));
            counted = self.count(waiting, &sent);
        }
        let Some(counted) = counted else { return self.miss() };
        self.missed = 0;
        // The subscription leaves the index before its receiver is dropped.
        let _ = self.sender.send(Waiting { event: sent, _counted: counted });
        self.shared.last.store(event.seq, Ordering::Release);
        wakers.extend(self.shared.waker.lock().take());
    }

    fn miss(&mut self) {
        self.missed += 1;
        self.shared.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// The bytes of a further event, if they count. `None`: there is no room for it.
    fn count(&self, waiting: usize, event: &Event) -> Option<Option<Counted>> {
        let is_counted = waiting >= FREE || event.details.is_some();
        let bytes = self.bytes.as_ref().filter(|_| is_counted);
        bytes.map_or(Some(None), |bytes| bytes.take(event).map(Some))
    }

    /// Ends the stream. Returns the waker of its reader.
    pub(super) fn end(self) -> Option<Waker> {
        let Subscriber { sender, shared, .. } = self;
        drop(sender);
        shared.waker.lock().take()
    }
}

/// What the subscriptions of a store want, to be read without their lock.
#[derive(Default)]
pub(super) struct Wanted {
    /// The bits of the kinds that some subscription wants.
    kinds: AtomicU64,
    /// Whether some filter asks for tags.
    tags: AtomicBool,
    /// Whether some filter asks for details.
    details: AtomicBool,
    /// How many subscriptions have begun.
    begun: AtomicU64,
}

impl Wanted {
    #[inline]
    pub(super) fn kinds(&self) -> KindSet {
        KindSet::from_bits(self.kinds.load(Ordering::Relaxed))
    }

    #[inline]
    pub(super) fn asks_for_tags(&self) -> bool {
        self.tags.load(Ordering::Relaxed)
    }

    #[inline]
    pub(super) fn asks_for_details(&self) -> bool {
        self.details.load(Ordering::Relaxed)
    }

    /// How many subscriptions have begun: what no filter wants is not wanted until there are more.
    #[inline]
    pub(super) fn begun(&self) -> u64 {
        self.begun.load(Ordering::Relaxed)
    }
}

/// What the subscriptions of a store share.
#[derive(Default)]
pub(super) struct Subscriptions {
    index: Index<Subscriber>,
    wanted: Arc<Wanted>,
    /// The number of the last event.
    seq: u64,
    is_closed: bool,
}

impl Subscriptions {
    pub(super) fn wanted(&self) -> &Arc<Wanted> {
        &self.wanted
    }

    /// Whether some subscription wants an event.
    pub(super) fn wants(&self, facts: &Facts<'_>) -> bool {
        self.index.wants(facts)
    }

    /// Whether some subscription that wants an event wants its details, too.
    pub(super) fn want_details(&self, facts: &Facts<'_>) -> bool {
        let wants = |it: &Subscriber| it.details && it.sender.len() < it.capacity;
        self.index.is_met_by(facts, wants)
    }

    /// Gives an event the next number.
    pub(super) fn number(&mut self, event: &mut Event) {
        self.seq += 1;
        event.seq = self.seq;
    }

    /// Delivers an event of a task with these tags to the subscriptions whose filters it passes.
    /// Does not block.
    pub(super) fn deliver(
        &mut self,
        event: &Event,
        details: Option<&Arc<EventDetails>>,
        tags: &[Arc<str>],
        wakers: &mut Vec<Waker>,
    ) {
        let facts = Facts::of(event, tags);
        self.index.for_each(&facts, |subscriber| subscriber.deliver(event, details, wakers));
    }

    /// No further subscription begins. Returns those that there are, which the caller ends.
    pub(super) fn close(&mut self) -> Vec<Subscriber> {
        self.is_closed = true;
        let ended = self.index.clear();
        self.update_wanted();
        ended
    }

    fn end(&mut self, id: SubscriberId) -> Option<Subscriber> {
        let ended = self.index.end(id);
        self.update_wanted();
        ended
    }

    /// Changes of tasks read it under the lock of the store, under which subscriptions begin.
    fn update_wanted(&self) {
        self.wanted.kinds.store(self.index.wanted().bits(), Ordering::Relaxed);
        self.wanted.tags.store(self.index.asks_for_tags(), Ordering::Relaxed);
        let details = self.index.any(|subscriber| subscriber.details);
        self.wanted.details.store(details, Ordering::Relaxed);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.index.len()
    }
}

impl Listing {
    pub(super) fn new(subscriptions: &Arc<Mutex<Subscriptions>>, filter: Filter) -> Listing {
        let id = subscriptions.lock().index.next_id();
        let listing = Listing {
            id,
            filter,
            subscriptions: subscriptions.clone(),
            home: HomeProcess::current(),
        };
        listing.for_places(|index, kinds, places| index.list(id, kinds, places));
        listing
    }

    /// Begins a subscription. That of a closed store has ended.
    pub(crate) fn begin(self, most: usize, bytes: Option<Arc<EventBytes>>) -> Box<dyn EventSource> {
        // Not `bounded`, which allocates its whole capacity immediately.
        let (sender, events) = unbounded();
        let shared = Arc::new(SubscriptionState::default());
        let capacity = most.max(1);
        let (details, shared_too) = (self.filter.details, shared.clone());
        let half = Subscriber { sender, capacity, details, bytes, missed: 0, shared: shared_too };
        let mut locked = self.subscriptions.lock();
        if !locked.is_closed {
            locked.index.begin(self.id, self.filter.passing_kinds(), half);
        }
        locked.wanted.begun.fetch_add(1, Ordering::Relaxed);
        locked.update_wanted();
        drop(locked);
        Box::new(LocalEvents { _listing: self, events, shared })
    }

    fn for_places(&self, step: impl Fn(&mut Index<Subscriber>, KindSet, &[Place])) {
        let kinds = self.filter.passing_kinds();
        for places in places_of(&self.filter).chunks(PLACES_STEP) {
            step(&mut self.subscriptions.lock().index, kinds, places);
        }
    }
}

impl Drop for Listing {
    fn drop(&mut self) {
        if !self.home.is_here() {
            return;
        }
        // Dropped without the lock, which is taken under that of the store: wakers are user code.
        let half = self.subscriptions.lock().end(self.id);
        drop(half);
        self.for_places(|index, kinds, places| index.unlist(self.id, kinds, places));
        self.subscriptions.lock().update_wanted();
    }
}

impl EventSource for LocalEvents {
    fn recv(&self) -> Option<Event> {
        self.events.recv().ok().map(|waiting| waiting.event)
    }

    fn try_recv(&self) -> Option<Event> {
        self.events.try_recv().ok().map(|waiting| waiting.event)
    }

    fn recv_timeout(&self, timeout: Duration) -> Option<Event> {
        self.events.recv_timeout(timeout).ok().map(|waiting| waiting.event)
    }

    fn poll_recv(&self, waker: &Waker) -> Poll<Option<Event>> {
        let next = self.poll_now();
        if next.is_ready() {
            return next;
        }
        // Wakers are user code: cloned and dropped without the lock.
        let waker = waker.clone();
        let replaced = self.shared.waker.lock().replace(waker);
        drop(replaced);
        // An event that was delivered before the waker was stored does not wake it.
        self.poll_now()
    }

    fn dropped(&self) -> u64 {
        self.shared.dropped.load(Ordering::Relaxed)
    }

    fn delivered(&self) -> Result<Asked> {
        Ok(Asked::Here(self.shared.delivered()))
    }

    fn shared(&self) -> Option<Arc<SubscriptionState>> {
        Some(self.shared.clone())
    }
}

impl LocalEvents {
    fn poll_now(&self) -> Poll<Option<Event>> {
        match self.events.try_recv() {
            Ok(waiting) => Poll::Ready(Some(waiting.event)),
            Err(TryRecvError::Disconnected) => Poll::Ready(None),
            Err(TryRecvError::Empty) => Poll::Pending,
        }
    }
}

impl Drop for LocalEvents {
    fn drop(&mut self) {
        // Dropped without the lock: wakers are user code.
        let waker = self.shared.waker.lock().take();
        drop(waker);
    }
}
