//! Waiting takes and waiting puts.
//!
//! Waiters are served first come, first served.

mod capacity;
mod ends;
mod puts;
mod takes;

pub(crate) use puts::Admission;
pub(crate) use takes::TakeAttempt;
