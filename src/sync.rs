//! The locks of this crate, in one place, so that a schedule explorer can take theirs instead.

pub(crate) use parking_lot::{Condvar, Mutex, MutexGuard, RwLock};
