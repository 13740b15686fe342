//! Where the events of a subscription come from: this process, or the owner of the store.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Poll, Waker};
use std::time::Duration;

use super::delivered::{Delivered, SubscriptionState};
use super::event::Event;
use crate::Result;

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
