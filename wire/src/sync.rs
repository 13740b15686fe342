//! The locks, threads and shared references of this crate, in one place, so that a schedule explorer can
//! replace them.
//!
//! With the feature `_shuttle` they come from `explored`, and `tests/schedules` explores the schedules of
//! the threads. `os` does the same for the operating system.

#[cfg(feature = "_shuttle")]
pub(crate) mod explored;

pub(crate) use std::sync::Arc;
/// The atomic numbers are counters, which order nothing.
pub(crate) use std::sync::atomic::{AtomicUsize, Ordering};

#[cfg(not(feature = "_shuttle"))]
pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
#[cfg(not(feature = "_shuttle"))]
pub(crate) use std::{sync::atomic::AtomicBool, thread};

#[cfg(feature = "_shuttle")]
pub(crate) use explored::{AtomicBool, Condvar, Mutex, MutexGuard, thread};
