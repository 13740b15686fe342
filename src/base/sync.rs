//! The locks and threads of this crate, in one place, so that a schedule explorer can replace them.
//!
//! With the feature `_shuttle` they come from the schedule explorer, which the transport has too, and
//! `tests/schedules` explores the schedules of the threads. The engine's own locks are not explored, so no
//! thread may be switched out inside it.

#[cfg(feature = "_shuttle")]
pub(crate) use tubewell_wire::explored;

/// Locks inside the engine's own locks. They are never a point at which the explorer switches
/// threads.
pub(crate) use parking_lot::{Mutex as InnerMutex, RwLock as InnerRwLock};

#[cfg(not(feature = "_shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(feature = "_shuttle"))]
pub(crate) use std::thread;

#[cfg(feature = "_shuttle")]
pub(crate) use explored::{Condvar, Mutex, MutexGuard, RwLock, thread};

/// The processors of this machine, as far as the process may use them.
pub(crate) fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}
