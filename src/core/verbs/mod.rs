//! The verbs (operations on tasks), by caller: put and peek for any caller, take for a session,
//! those for the holder of a task, and those for any caller on a stored task.

mod admin;
mod atomically;
mod holder;
mod outcome;
mod peek;
mod put;
mod restore;
mod take;
#[cfg(feature = "redb")]
mod transaction;

pub(crate) use admin::KICK_STEP;
pub(crate) use peek::describe;
pub(crate) use take::Grants;
pub(in crate::core) use take::{MAX_EXPIRED_PER_TAKE, TakeStep};
#[cfg(feature = "redb")]
pub(crate) use transaction::{TransactionCall, TransactionEnd};
