//! The state machine of the queue.
//!
//! It has no threads and reads no clock: the caller sets the time before each call. Reads go
//! through the write buffers. Wake-ups and events are left in [`Effects`] for the caller, which
//! holds the lock. An edit is in a write buffer when the call returns; the change becomes visible
//! immediately or with the commit that holds it.

mod catalog;
mod chores;
mod claims;
mod commits;
mod days;
mod find;
mod gates;
mod history;
mod limits;
pub(crate) mod list;
#[cfg(feature = "_peer")]
mod met;
mod origins;
mod parents;
mod publish;
mod recovery;
mod schedules;
mod state;
mod time;
pub(crate) mod verb;
pub(crate) mod verbs;
mod verify_memory;
mod waits;
mod wire;

pub(crate) use catalog::{
    HEADER, StoreId, TubeHead, check_format, last_commit, purge_closed, read_catalog, read_header,
    read_limits, stored_totals,
};
pub(crate) use claims::{Chosen, decode_failure};
pub(crate) use history::decode_entry;
#[cfg(feature = "_peer")]
pub use met::met;
pub(crate) use parents::read_ended_parents;
pub(crate) use schedules::describe_schedule;
pub(crate) use state::{
    About, AfterUnlock, Buffer, Calendar, CapacitySlot, CarriedOut, ChildFate, ClaimEnd, ClaimKey,
    Clocks, Config, Core, Decided, Definition, EndRequest, Filled, Grant, Granted, LineCall,
    ParentEnd, PutInto, PutRequest, ScheduleRequest, TakeSlot, TaskEnd, UpdateRequest, Wait,
    WaitSlot, Wall, WallClock, distinct_tags,
};
pub(crate) use time::{AHEAD, UNTRUSTED, is_mostly_empty, timeline_of_reader};
pub(crate) use verb::TubeRef;
pub(crate) use verbs::{
    ByteBudget, FindStep, Grants, SelectStep, StepPage, TAG_COUNTS_PAGE, TaskEdit, decode_step,
    describe, describe_unreachable,
};
#[cfg(feature = "redb")]
pub(crate) use verbs::{CallsSoFar, TransactionCall};
pub(crate) use waits::{TakeAttempt, Watching};
pub(crate) use wire::{Input, Malformed, Wire, from_bytes, to_bytes};
