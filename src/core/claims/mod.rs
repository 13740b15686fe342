//! Claims, and the sessions that own them.

mod choose;
mod claim;
mod parked;
mod session;

pub(crate) use choose::Chosen;
