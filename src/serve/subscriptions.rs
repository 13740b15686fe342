//! The subscriptions of a connection, by the numbers that it has chosen.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use crate::base::sync::Mutex;
use crate::events::{Delivered, SubscriptionState};
use crate::{Async, Error, Events, Result};

type ByNumber = Mutex<BTreeMap<u64, Arc<SubscriptionState>>>;

/// The subscriptions that have begun and not ended.
#[derive(Default)]
pub(super) struct Subscriptions(Arc<ByNumber>);

/// A subscription of a connection, which knows of it until this is dropped.
pub(super) struct ListedSubscription {
    of: Weak<ByNumber>,
    number: u64,
}

impl Subscriptions {
    pub(super) fn list(&self, number: u64, events: &Events<Async>) -> ListedSubscription {
        self.0.lock().extend(events.shared().map(|shared| (number, shared)));
        ListedSubscription { of: Arc::downgrade(&self.0), number }
    }

    /// What was delivered to a subscription.
    pub(super) fn delivered(&self, number: u64) -> Result<Delivered> {
        let subscriptions = self.0.lock();
        let shared = subscriptions.get(&number).ok_or_else(|| Error::NotConnected {
            why: "the subscription has ended with the connection on which it began".into(),
        })?;
        Ok(shared.delivered())
    }
}

impl Drop for ListedSubscription {
    fn drop(&mut self) {
        let Some(subscriptions) = self.of.upgrade() else { return };
        let removed = subscriptions.lock().remove(&self.number);
        drop(removed);
    }
}
