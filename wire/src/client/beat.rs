//! Heartbeats: the thread of a client calls its handler at intervals, while the client has asked for it.

use std::time::{Duration, Instant};

use super::connector::{Connector, State};
use crate::clock;
use crate::user_code::catch_panic;

/// Heartbeats without any pause would keep a processor busy.
const SHORTEST: Duration = Duration::from_millis(1);

/// When the handler is called next.
#[derive(Clone, Copy)]
pub(super) struct Beat {
    every: Duration,
    next: Instant,
}

impl Connector {
    /// Begins to call the handler at these intervals, or ends that.
    pub(crate) fn set_beat(&self, every: Option<Duration>) {
        let mut state = self.state.lock();
        let beat = |every: Duration| {
            let every = every.max(SHORTEST);
            Beat { every, next: clock::in_time(every) }
        };
        state.beat = every.map(beat);
        let begins = state.beat.is_some();
        drop(state);
        if begins {
            // It waits in one of these two ways, without a time.
            self.thread_wanted.notify_one();
            self.wake();
        }
    }

    /// When the handler is to be called. There is nothing to say without a connection.
    pub(super) fn next_beat(&self) -> Option<Instant> {
        self.state.lock().next_beat()
    }

    /// Calls the handler if that is due.
    pub(super) fn beat(&self) {
        let is_due = self.state.lock().take_beat();
        if is_due {
            // A panic there must not end the thread.
            let _ = catch_panic(|| self.handler.beat());
        }
    }
}

impl State {
    pub(super) fn next_beat(&self) -> Option<Instant> {
        let beat = self.beat.filter(|_| self.connected.is_some() && self.ended.is_none());
        beat.map(|beat| beat.next)
    }

    /// Whether the handler is to be called now.
    fn take_beat(&mut self) -> bool {
        let is_due = self.next_beat().is_some_and(|next| clock::left(next).is_zero());
        if is_due && let Some(beat) = &mut self.beat {
            beat.next = clock::in_time(beat.every);
        }
        is_due
    }

    /// A new connection is there: the server has not heard of this client for a while.
    pub(super) fn beat_now(&mut self) {
        if let Some(beat) = &mut self.beat {
            beat.next = clock::now();
        }
    }
}
