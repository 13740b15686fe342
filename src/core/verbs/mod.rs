//! The verbs (operations on tasks), by caller: put and peek for any caller, take for a session,
//! those for the holder of a task, and those for any caller on a stored task.

mod admin;
mod atomically;
mod byte_budget;
mod delete;
mod finish;
mod holder;
mod keys;
mod labels;
mod list_where;
mod log;
mod movement;
mod outcome;
mod peek;
mod peek_ready;
mod put;
mod put_keyed;
mod put_many;
mod replace;
mod restore;
mod retention;
mod select;
mod soonest;
mod steps;
mod take;
mod tokens;
#[cfg(feature = "redb")]
mod transaction;
mod update;

pub(crate) use super::catalog::{Alter, Truncate};
pub(crate) use super::claims::Revoke;
pub(crate) use super::gates::{Pause, PauseUntil};
pub(crate) use super::limits::PauseSubQueue;
pub(crate) use super::parents::{AddParents, RemoveParents};
pub(crate) use super::schedules::{ChangeSchedule, RemoveSchedule, SetSchedule};
pub(crate) use admin::{Bury, Delete, KICK_STEP, Kick, KickTask, ReleaseAll};
pub(crate) use byte_budget::ByteBudget;
pub(crate) use delete::{CancelTask, DeleteIf, DeleteMany, DeleteWhere, KickWhere, SelectStep};
pub(crate) use holder::AckMany;
pub(crate) use keys::ByKey;
pub(in crate::core) use keys::{KeyLookUp, Keyed, key_of};
pub(crate) use labels::{FindStep, TAG_COUNTS_PAGE};
pub(crate) use log::Log;
pub(crate) use movement::{MoveSome, MoveStep, MoveTo};
pub(crate) use outcome::{Ack, Forget, Resolve};
pub(crate) use peek::Peek;
pub(in crate::core) use peek::{Listing, begin_of_page, cursor_of_empty_page, found_position};
pub(crate) use peek::{describe, describe_unreachable};
pub(crate) use put::{PutOrWait, PutTask};
pub(crate) use put_keyed::Requeue;
pub(crate) use put_many::PutMany;
pub(crate) use steps::{StepPage, decode_step};
pub(crate) use take::Grants;
pub(in crate::core) use take::{MAX_EXPIRED_PER_TAKE, Next, TakeStep};
#[cfg(feature = "redb")]
pub(crate) use transaction::{CallsSoFar, TransactionCall, TransactionEnd};
pub(crate) use update::{AddTags, RemoveTags, SetPriority, UpdateTask};
