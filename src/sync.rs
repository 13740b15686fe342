//! The locks and threads of this crate, in one place, so that a schedule explorer can take theirs.
//!
//! With the feature `_shuttle` they are those of `explored`, and `tests/schedules` decides which thread
//! runs when.

#[cfg(feature = "_shuttle")]
pub(crate) mod explored;

/// Locks that are held for a moment, inside the engine's own: never a point to switch threads at.
pub(crate) use parking_lot::{Mutex as InnerMutex, RwLock as InnerRwLock};

#[cfg(not(feature = "_shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(feature = "_shuttle"))]
pub(crate) use std::thread;

#[cfg(feature = "_shuttle")]
pub(crate) use explored::{Condvar, Mutex, MutexGuard, RwLock, thread};
