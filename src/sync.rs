//! The locks and threads of this crate, in one place, so that a schedule explorer can replace them.
//!
//! With `--cfg shuttle` they come from `explored`, and `tests/schedules` explores the schedules of
//! the threads.

#[cfg(shuttle)]
pub(crate) mod explored;

/// Locks inside the engine's own locks. They are never a point at which the explorer switches
/// threads.
pub(crate) use parking_lot::{Mutex as InnerMutex, RwLock as InnerRwLock};

#[cfg(not(shuttle))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
#[cfg(not(shuttle))]
pub(crate) use std::thread;

#[cfg(shuttle)]
pub(crate) use explored::{Condvar, Mutex, MutexGuard, RwLock, thread};
