//! The verbs (operations on tasks), by caller: put and peek for any caller, take for a session,
//! those for the holder of a task, and those for any caller on a stored task.

mod admin;
mod atomically;
mod byte_budget;
mod delete;
mod end;
mod holder;
mod keys;
mod labels;
mod listing;
mod listing_in_store;
mod log;
mod movement;
mod oldest_ready;
mod outcome;
mod peek;
mod peek_ready;
mod put;
mod put_keyed;
mod put_many;
mod replace;
mod restore;
mod retention;
mod scrape;
mod select;
mod selected;
mod soonest;
mod steps;
mod take;
mod tokens;
#[cfg(feature = "redb")]
mod transaction;
mod update;

pub(crate) use admin::{Bury, Delete, Kick};
pub(crate) use byte_budget::ByteBudget;
pub(crate) use delete::{CancelTask, DeleteTasks};
pub(crate) use end::{EndClaims, EndTask};
pub(crate) use holder::{Checkpoint, Limit, Release, Renew, Snooze, Touch};
pub(crate) use keys::ByKey;
pub(in crate::core) use keys::{KeyLookUp, Keyed, key_of};
pub(crate) use labels::{Find, FindStep, TAG_COUNTS_PAGE, TagCounts};
pub(crate) use listing::{List, ListBodies};
pub(crate) use listing_in_store::ListInStore;
pub(crate) use log::{HistoryOf, Log, LogHeld};
pub(crate) use outcome::{Ack, EndingOf, Forget, Groups, Resolve};
pub(crate) use peek::{AllCounts, CountsOf, Peek};
pub(in crate::core) use peek::{Listing, begin_of_page, cursor_of_empty_page, found_position};
pub(crate) use peek::{describe, describe_unreachable};
pub(crate) use peek_ready::PeekReady;
pub(crate) use put::{NextId, PutTask};
pub(crate) use put_keyed::Requeue;
pub(crate) use put_many::PutMany;
pub(crate) use scrape::ScrapeTubes;
pub(crate) use selected::{EditTasks, Revoke, SelectStep, TaskEdit};
pub(crate) use steps::{
    ReadStep, Sleep, Spawn, StepPage, Steps, StepsHeld, WriteStep, decode_step,
};
pub(crate) use take::Grants;
pub(in crate::core) use take::{MAX_EXPIRED_PER_TAKE, Next, TakeStep};
#[cfg(feature = "redb")]
pub(crate) use transaction::{CallsSoFar, TransactionCall};
pub(crate) use update::{AddTags, RemoveTags, SetPriority, UpdateTask};
