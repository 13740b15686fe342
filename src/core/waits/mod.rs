//! Waiting takes and waiting puts, first come, first served.

mod capacity;
mod ends;
mod puts;
mod takes;

pub(crate) use takes::TakeNow;
