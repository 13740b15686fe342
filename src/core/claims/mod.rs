//! Claims, and the sessions that own them.

mod claim;
mod session;
