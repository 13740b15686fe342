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

#[cfg(feature = "_shuttle")]
pub(crate) use explored::{Condvar, Mutex, MutexGuard, RwLock, thread};
