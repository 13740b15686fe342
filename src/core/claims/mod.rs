//! Claims, and the sessions that own them.

mod attempts;
mod choose;
mod claim;
mod failure;
mod fate;
mod parked;
mod row;
mod session;

pub(crate) use choose::Chosen;
pub(crate) use failure::decode_failure;
pub(in crate::core) use failure::encode_last_failure;
pub(in crate::core) use fate::{End, Rules};
