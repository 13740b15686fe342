//! The events of a store, also after its owner was away.

use std::time::Duration;

use tubewell::{Error, Event, Events, Filter, Store};

use crate::progress::Progress;

/// How long to wait before the owner is asked again.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The result of a wait for an event.
#[derive(Debug)]
pub enum Followed {
    Event(Event),
    /// No event came within the time.
    TimedOut,
    /// The subscription has ended. The next wait tells why.
    Interrupted,
    /// The connection to the owner has broken. The next wait is for its return.
    Broken(String),
    /// The owner is back. Events may have been missed.
    Resumed,
    /// The connection was refused, and is not made again.
    Refused(Error),
    /// The store was closed.
    Closed,
}

/// A subscription that begins anew when the connection to the owner was broken.
pub struct Follower {
    store: Store,
    filter: Filter,
    capacity: usize,
    /// `None` while there is no connection.
    events: Option<Events>,
    /// The connection is known to be broken, and was reported.
    is_broken: bool,
}

impl Follower {
    /// Subscribes to the events that pass a filter, from now on.
    pub fn new(store: &Store, filter: Filter, capacity: usize) -> tubewell::Result<Follower> {
        let events = Some(store.events(filter.clone(), capacity)?);
        Ok(Follower { store: store.clone(), filter, capacity, events, is_broken: false })
    }

    /// Waits for the next event, for this long at most.
    pub fn next(&mut self, timeout: Option<Duration>) -> Followed {
        let Some(events) = &self.events else { return self.resume() };
        let waited = Progress::hidden();
        let event = match timeout {
            None => events.recv(),
            Some(timeout) => events.recv_timeout(timeout),
        };
        match event {
            Some(event) => Followed::Event(event),
            None if timeout.is_some_and(|timeout| waited.elapsed() >= timeout) => {
                Followed::TimedOut
            }
            None => {
                self.events = None;
                Followed::Interrupted
            }
        }
    }

    /// The next event that has come already.
    pub fn try_next(&self) -> Option<Event> {
        self.events.as_ref()?.try_recv()
    }

    /// Waits for the owner. A call waits some seconds for a new connection, so the first that fails is reported.
    fn resume(&mut self) -> Followed {
        loop {
            let subscribed = ask(&self.store)
                .and_then(|()| self.store.events(self.filter.clone(), self.capacity));
            match subscribed {
                Ok(events) => {
                    (self.events, self.is_broken) = (Some(events), false);
                    return Followed::Resumed;
                }
                Err(Error::Closed) => return Followed::Closed,
                Err(error @ Error::Refused { .. }) => return Followed::Refused(error),
                Err(error) if !self.is_broken => {
                    self.is_broken = true;
                    return Followed::Broken(error.to_string());
                }
                Err(_) => std::thread::park_timeout(RETRY_INTERVAL),
            }
        }
    }
}

/// Asks the owner for a number that it has in memory, to learn whether it answers.
pub fn ask(store: &Store) -> tubewell::Result<()> {
    store.admin().next_id().map(drop)
}
