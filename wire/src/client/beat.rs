//! Heartbeats: when the thread of a client calls its handler. No I/O.

use std::time::{Duration, Instant};

use crate::clock;

/// Heartbeats without any pause would keep a processor busy.
const SHORTEST: Duration = Duration::from_millis(1);

/// When the handler is called next.
#[derive(Clone, Copy)]
pub(super) struct Beat {
    every: Duration,
    pub(super) next: Instant,
}

impl Beat {
    pub(super) fn new(every: Duration) -> Beat {
        let every = every.max(SHORTEST);
        Beat { every, next: clock::in_time(every) }
    }

    /// A new connection is there: the server has not heard of this client for a while.
    pub(super) fn hurry(&mut self) {
        self.next = clock::now();
    }

    pub(super) fn is_due(&self) -> bool {
        clock::left(self.next).is_zero()
    }

    /// The handler is called now.
    pub(super) fn advance(&mut self) {
        self.next = clock::in_time(self.every);
    }
}
