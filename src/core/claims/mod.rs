//! Claims, and the sessions that own them.

mod choose;
mod claim;
mod session;

pub(crate) use choose::Chosen;
