//! The locks, threads and shared references of this crate, in one place, so that a schedule explorer can
//! replace them.

pub(crate) use std::sync::Arc;
pub(crate) use std::sync::atomic::{AtomicBool, Ordering};
pub(crate) use std::thread;

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard};
