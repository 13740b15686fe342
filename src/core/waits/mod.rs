//! Waiting takes, waiting puts, and watches: waits for the end of tasks, and for tasks that can be
//! taken.
//!
//! Takers and putters are served first come, first served. All watches of a task are answered
//! together.

mod capacity;
mod ends;
mod puts;
mod ready;
mod takes;
mod watches;

pub(crate) use capacity::Space;
pub(crate) use puts::PutOrWait;
pub(crate) use takes::TakeAttempt;
pub(crate) use watches::{PutAndWait, WaitDone, WaitDrained, Watching};
