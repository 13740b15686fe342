//! Whose turn it is to read: that of the thread of the client, or of a caller that waits.
//!
//! An answer that the thread reads costs two changes between threads: the server wakes the thread, and that wakes
//! the caller. If one caller after the other makes a call and waits for it, the thread leaves the inbox to them, and
//! each reads its own answer. As soon as other calls are in flight the thread reads again, and also when no caller
//! has read for a while, so that the end of the connection is noticed. The idea is that of leader and followers
//! (Schmidt et al., "Leader/Followers", 2000).

use super::inbox::{Inbox, Stop};

/// After so many calls in a row, each alone and with a caller that waits, callers read for themselves.
const CALLS_IN_A_ROW: u32 = if cfg!(feature = "_shuttle") { 1 } else { 16 };

/// The turn to read. No I/O.
#[derive(Default)]
pub(super) struct Turn {
    /// There while no thread reads.
    inbox: Option<Box<Inbox>>,
    /// Why the caller that left it could not read on.
    stop: Option<Stop>,
    /// The thread is to read, or to look at `stop`.
    is_thread_wanted: bool,
    /// The thread sleeps until it is wanted, and not only for a while.
    pub(super) is_thread_asleep: bool,
    /// Calls in a row, each alone and with a caller that waits.
    row: u32,
}

impl Turn {
    /// A call is about to be made. `is_alone`: no other call is in flight, and its caller waits.
    pub(super) fn note_call(&mut self, is_alone: bool) {
        self.row = if is_alone { self.row.saturating_add(1) } else { 0 };
    }

    /// Whether the thread can leave the answers to the callers, once no call is in flight.
    pub(super) fn callers_wait(&self) -> bool {
        self.row >= CALLS_IN_A_ROW
    }

    /// Leaves the inbox. `stop`: why it cannot be read on.
    pub(super) fn leave(&mut self, inbox: Box<Inbox>, stop: Option<Stop>) {
        self.inbox = Some(inbox);
        self.stop = stop;
    }

    /// The inbox, for a caller that waits, if no thread has it.
    pub(super) fn take(&mut self) -> Option<Box<Inbox>> {
        if self.is_thread_wanted { None } else { self.inbox.take() }
    }

    /// The inbox, for the thread, if it is wanted or `is_over`, and no caller has it.
    pub(super) fn take_back(&mut self, is_over: bool) -> Option<(Box<Inbox>, Option<Stop>)> {
        if !self.is_thread_wanted && !is_over {
            return None;
        }
        let inbox = self.inbox.take()?;
        self.is_thread_wanted = false;
        Some((inbox, self.stop.take()))
    }

    /// The thread is to read unless another one does. Returns whether it is to be woken.
    pub(super) fn want_thread(&mut self) -> bool {
        self.is_thread_wanted |= self.inbox.is_some();
        self.inbox.is_some()
    }
}
