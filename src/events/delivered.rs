//! What was delivered to a subscription.

use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Waker;

use crate::base::sync::Mutex;

/// How many events of a subscription the store has delivered to it, whether they were received or
/// not; from [`Events::delivered`](crate::Events::delivered).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Delivered {
    /// The [number](crate::Event::seq) of the last event that was delivered; 0 if there was none.
    pub seq: u64,
    /// How many events were missed, since the buffer of the subscription was full.
    pub missed: u64,
}

/// What a subscription shares with the store.
#[derive(Default)]
pub(crate) struct SubscriptionState {
    pub(super) dropped: AtomicU64,
    /// The number of the last event that was sent.
    pub(super) last: AtomicU64,
    /// The waker of the stream's last poll.
    pub(super) waker: Mutex<Option<Waker>>,
}

impl SubscriptionState {
    pub(crate) fn delivered(&self) -> Delivered {
        let seq = self.last.load(Ordering::Acquire);
        Delivered { seq, missed: self.dropped.load(Ordering::Relaxed) }
    }
}
