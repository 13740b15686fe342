//! The locks and threads of this crate, in one place, so that a schedule explorer can replace them.
//!
//! With the feature `_shuttle` they come from `explored`, and `tests/schedules` explores the schedules of
//! the threads.

#[cfg(feature = "_shuttle")]
pub(crate) mod explored;

/// Locks inside the engine's own locks. They are never a point at which the explorer switches
/// threads.
pub(crate) use parking_lot::{Mutex as InnerMutex, RwLock as InnerRwLock};

#[cfg(not(feature = "_shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(feature = "_shuttle"))]
pub(crate) use std::thread;

/// How often a thread looks for a lock that is held before it yields its core. Each look takes some
/// 50 ns, and the core's lock is held for about a microsecond.
#[cfg(not(feature = "_shuttle"))]
const SPINS: usize = 64;

/// Locks a mutex that is held for microseconds. Threads spin before they yield: with many more
/// threads than cores, `parking_lot` spends two fifths of the time in switching between them.
pub(crate) fn lock_soon<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    lock_soon_unless(mutex, || false).unwrap_or_else(|| mutex.lock())
}

/// As [`lock_soon`]. Returns `None`, without the lock, once `is_done` returns true.
#[cfg(not(feature = "_shuttle"))]
pub(crate) fn lock_soon_unless<T>(
    mutex: &Mutex<T>,
    is_done: impl Fn() -> bool,
) -> Option<MutexGuard<'_, T>> {
    for _ in 0..SPINS {
        if is_done() {
            return None;
        }
        if let Some(guard) = mutex.try_lock() {
            return Some(guard);
        }
        std::hint::spin_loop();
    }
    Some(mutex.lock())
}

/// Locks a mutex.
#[cfg(feature = "_shuttle")]
pub(crate) fn lock_soon_unless<T>(
    mutex: &Mutex<T>,
    is_done: impl Fn() -> bool,
) -> Option<MutexGuard<'_, T>> {
    (!is_done()).then(|| mutex.lock())
}

#[cfg(feature = "_shuttle")]
pub(crate) use explored::{Condvar, Mutex, MutexGuard, RwLock, thread};
