//! The drivers of the [tubewell] task queue: what a tube's tasks look like in the store, and the
//! rules by which they move.
//!
//! Nothing here knows about threads, clocks, channels or the file. [`Ledger`] turns a change of a
//! task into edits of [`Rows`]; a [`Driver`] decides order, exclusion and admission. Most users
//! meet this crate as `tubewell::driver`, to register a driver of their own.
//!
//! [tubewell]: https://docs.rs/tubewell
#![forbid(unsafe_code)]
#![deny(missing_docs)]

mod driver;
mod head_cache;
pub mod keys;
mod ledger;
mod limits;
mod record;
mod tables;
mod verify_rows;

pub use driver::{
    Composed, Draft, Driver, FIFO, FIFOTTL, LIMFIFOTTL, Load, Traits, UTUBE, UTUBETTL,
};
pub use head_cache::HeadCache;
pub use keys::{Position, Shelf};
pub use ledger::{Counts, Found, Ledger, check_position, position_of, purge_slice};
pub use limits::{
    BODY_MAX, INLINE_MAX, NEVER, PAGE_MAX, PUT_MANY_BYTES, PUT_MANY_TASKS, SUB_QUEUE_MAX,
    TUBE_NAME_MAX,
};
pub use record::{Body, Header, Record, RecordError, check_body, encode};
pub use tables::{Reads, Row, Rows, Table, Value};
pub use verify_rows::{TubeTotals, verify_rows};
