//! Calls inside a transaction: those that may wait for a commit are refused.
//!
//! While the closure of a transaction runs, no checkpoint can begin. A commit that needs one waits
//! for the closure, so the closure must not wait for a commit.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::base::sync::Mutex;
use crate::base::sync::thread::{self, ThreadId};

/// The thread that runs the closure of a transaction.
#[derive(Default)]
pub(crate) struct InTransaction {
    is_set: AtomicBool,
    thread: Mutex<Option<ThreadId>>,
    /// The closure has advanced a manual clock: what fell due is processed after it.
    has_skipped_sweep: AtomicBool,
}

impl InTransaction {
    /// Whether this thread runs the closure of a transaction of this store.
    #[inline]
    pub(super) fn is_here(&self) -> bool {
        // A thread sees what it has set itself.
        self.is_set.load(Ordering::Relaxed) && *self.thread.lock() == Some(thread::current().id())
    }

    /// This thread runs the closure from now on.
    #[cfg(feature = "redb")]
    pub(super) fn begin(&self) {
        *self.thread.lock() = Some(thread::current().id());
        self.is_set.store(true, Ordering::Relaxed);
    }

    /// The closure has ended.
    #[cfg(feature = "redb")]
    pub(super) fn end(&self) {
        self.is_set.store(false, Ordering::Relaxed);
        *self.thread.lock() = None;
    }

    pub(super) fn note_skipped_sweep(&self) {
        self.has_skipped_sweep.store(true, Ordering::Relaxed);
    }

    #[cfg(feature = "redb")]
    pub(super) fn take_skipped_sweep(&self) -> bool {
        self.has_skipped_sweep.swap(false, Ordering::Relaxed)
    }
}
