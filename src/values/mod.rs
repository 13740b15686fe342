//! The public values that go into calls and come out of them: bodies, puts, filters, tasks, failures,
//! schedules, errors, and the rules of tubes that are values by themselves.
//!
//! A value checks itself and does nothing else. It knows no store, no tube handle, no clock and no bytes of
//! the file; `text` has the words of values, `core/wire` their bytes. Applications build and read values, and
//! all folders above use them.

pub(crate) mod backlog;
pub(crate) mod body;
pub(crate) mod counters;
#[cfg(feature = "cron")]
pub(crate) mod cron;
pub(crate) mod date;
pub(crate) mod durability;
pub(crate) mod ending;
pub(crate) mod error;
pub(crate) mod failure;
pub(crate) mod filter;
pub(crate) mod histogram;
pub(crate) mod history;
pub(crate) mod kinds;
pub(crate) mod limit;
pub(crate) mod listing;
pub(crate) mod metrics;
pub(crate) mod on_key;
pub(crate) mod on_parent;
pub(crate) mod owner;
pub(crate) mod parent_counts;
pub(crate) mod policy;
pub(crate) mod put;
pub(crate) mod rate;
pub(crate) mod restore;
pub(crate) mod schedule;
pub(crate) mod scrape;
pub(crate) mod session_id;
pub(crate) mod spawned_by;
pub(crate) mod statistics;
pub(crate) mod step;
pub(crate) mod task;
pub(crate) mod task_state;
pub(crate) mod token;
pub(crate) mod update;
