//! The drivers of the [tubewell] task queue: the format of stored tasks, and the rules of a tube.
//!
//! A [`Driver`] decides the order of tasks, their sub-queue and the admission of puts. [`Ledger`]
//! turns a change of a task into edits of [`Rows`]. Applications use this crate as
//! `tubewell::driver`, to register their own drivers.
//!
//! Invariant: nothing here uses threads, clocks, channels or files.
//!
//! [tubewell]: https://docs.rs/tubewell
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod counts;
mod days;
mod driver;
mod edges;
mod failure_groups;
mod frame;
mod head_cache;
mod history;
mod index_rows;
pub mod keys;
mod ledger;
mod limits;
mod more;
mod movement;
mod notes;
mod purge;
mod record;
mod record_error;
mod recur;
mod steps;
mod stored_entries;
mod sub_queue_heads;
mod tables;
mod tags;
mod tokens;
mod traceparent;
mod verify_days;
mod verify_edges;
mod verify_groups;
mod verify_history;
mod verify_index;
mod verify_keys;
mod verify_notes;
mod verify_rows;
mod verify_schedules;
mod verify_steps;
mod verify_tags;
mod verify_tokens;

pub use counts::Counts;
pub use days::{DayCounts, SPREAD_BINS, Spread};
pub use driver::{
    Composed, Draft, Driver, FIFO, FIFOTTL, LIMFIFOTTL, Load, Traits, UTUBE, UTUBETTL,
};
pub use edges::{EdgeEnd, children, edge, move_parent, parents, remove_edge};
pub use failure_groups::FailureTimes;
pub use head_cache::HeadCache;
pub use history::{NewEntries, check_entry, encode_entry};
pub use index_rows::{IndexRow, index_rows, position_of};
pub use keys::{Position, Shelf};
pub use ledger::{Found, FoundPage, Ledger, check_position};
pub use limits::{
    BODY_MAX, DEFAULT_PRIORITY, FAILURE_GROUP_MAX, HISTORY_MAX, HISTORY_TEXT_MAX,
    IDEMPOTENCY_KEY_MAX, IDEMPOTENCY_KEY_TIME, IDEMPOTENCY_KEY_TIME_MAX, INLINE_MAX, KEY_MAX,
    NEVER, PAGE_MAX, PARENTS_MAX, PUT_MANY_BYTES, PUT_MANY_TASKS, STEP_NAME_MAX, STEPS_MAX,
    SUB_QUEUE_MAX, TAG_MAX, TAGS_MAX, TUBE_NAME_MAX,
};
pub use more::{More, Note};
pub use movement::Contents;
pub use notes::check_note;
pub use purge::purge_slice;
pub use record::{Body, Header, Record, check_body, encode};
pub use record_error::RecordError;
pub use recur::{Recur, RecurRule};
pub use steps::{StepNumbers, StepPage, StepRow, StepRows, check_step, encode_step};
pub use stored_entries::StoredEntries;
pub use tables::{Reads, Row, Rows, Table, Value};
pub use tags::{TaggedId, tag_counts, tagged};
pub use tokens::{OldTokens, RememberedPut, put_of_token, remove_old_tokens};
pub use traceparent::Traceparent;
pub use verify_rows::{TubeTotals, verify_rows};
