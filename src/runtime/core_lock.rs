//! The core behind its lock.
//!
//! A call holds the lock for about a microsecond, and all of them touch the same lines of memory. If two processors take
//! turns call by call, those lines move with every turn, which takes longer than the calls, and so do the switches between
//! threads that find the lock held. A thread that finds it held therefore stays away for some microseconds, while the other
//! processor makes several calls in a row. Anderson, "The Performance of Spin Lock Alternatives for Shared-Memory
//! Multiprocessors" (1990), has the idea and its measure.
//!
//! If calls wait for flushes, the lock is mostly free, and the threads that wait here would be missed elsewhere: they do not
//! stay away.

use std::sync::atomic::{AtomicU32, Ordering};

use crate::Result;
use crate::base::sync::{Mutex, MutexGuard, processors};
use crate::core::{Core, Decided, Wait};

/// After so many calls in a row without one that waits for a flush, threads stay away from a held lock.
const CALLS_IN_A_ROW: u32 = if cfg!(feature = "_shuttle") { 1 } else { 64 };
/// How often they look at it before they wait as usual, and how long they stay away at first: each pause is a hint to the
/// processor and takes 10 to 50 ns, so all of them take 20 to 100 µs. The time doubles with each attempt.
const ATTEMPTS: u32 = 5;
const PAUSES: u32 = 64;

/// The core behind its lock.
pub(super) struct CoreLock {
    core: Mutex<Core>,
    calls: CallsInARow,
    /// There are several processors: the one that has the lock goes on while the threads of the other ones stay away.
    has_others: bool,
}

impl CoreLock {
    pub(super) fn new(core: Core) -> CoreLock {
        CoreLock {
            core: Mutex::new(core),
            calls: CallsInARow::default(),
            has_others: processors() > 1,
        }
    }

    /// Blocks until this thread has the lock.
    #[inline]
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        let stays_away = self.has_others && self.calls.are_many();
        let held = if stays_away { self.try_lock_later() } else { None };
        held.unwrap_or_else(|| self.core.lock())
    }

    /// A call was decided, under the lock.
    #[inline]
    pub(super) fn note_decided<T>(&self, decided: &Result<Decided<T>>) {
        let waits = matches!(decided, Ok(Decided { wait: Some(Wait::Flush(..)), .. }));
        self.calls.note(waits);
    }

    fn try_lock_later(&self) -> Option<MutexGuard<'_, Core>> {
        let mut pauses = PAUSES;
        for _ in 0..ATTEMPTS {
            let held = self.core.try_lock();
            if held.is_some() {
                return held;
            }
            for _ in 0..pauses {
                std::hint::spin_loop();
            }
            pauses *= 2;
        }
        None
    }
}

/// Counts the calls since the last one that waits for a flush, as far as `CALLS_IN_A_ROW`. It changes under the lock alone,
/// and not at all while no call waits for a flush, so that the threads that read it share its line.
#[derive(Default)]
struct CallsInARow(AtomicU32);

impl CallsInARow {
    fn are_many(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= CALLS_IN_A_ROW
    }

    fn note(&self, waits_for_flush: bool) {
        let before = self.0.load(Ordering::Relaxed);
        let calls = if waits_for_flush { 0 } else { (before + 1).min(CALLS_IN_A_ROW) };
        if calls != before {
            self.0.store(calls, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_that_waits_for_a_flush_keeps_the_next_ones_from_staying_away() {
        let calls = CallsInARow::default();
        for _ in 0..2 {
            for _ in 0..CALLS_IN_A_ROW {
                assert!(!calls.are_many());
                calls.note(false);
            }
            calls.note(false);
            assert!(calls.are_many());
            calls.note(true);
        }
    }
}
