//! What a task on shelf `Recurring` says of its runs: when they are, and what they put.

use std::sync::Arc;

use bincode::{Decode, Encode};

/// The schedule of a recurring task, in its record. Its encoding is part of the format: bincode's
/// standard one, in the order of the fields. Times are microseconds.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[expect(clippy::exhaustive_structs, reason = "filled in by the store")]
pub struct Recur {
    /// When the runs are.
    pub rule: RecurRule,
    /// The moment of the next run: on the store's timeline for an interval, of the wall clock for a
    /// cron expression. The row in `dues` or by the moment may be later, if the run could not be put.
    pub next: u64,
    /// The moment of the last run that was put or left out; `None` before the first one. That of the
    /// next run, if it did not fit and waits.
    pub fired: Option<u64>,
    /// The id of the task of the last run that was put.
    pub last: Option<u64>,
    /// How many runs were put.
    pub runs: u64,
    /// How many runs were left out, since the last one was not over, or since the tube was full.
    pub skipped: u64,
    /// After how many runs the schedule ends; `None` for never.
    pub times: Option<u64>,
    /// How many of the newest missed runs are made up for; [`Recur::ALL`] for all.
    pub missed: u64,
    /// How late a run may be.
    pub within: Option<u64>,
    /// Whether a run is left out while the last one is not over.
    pub skips_overlap: bool,
    /// The priority of the runs, if it is not that of their tube.
    pub pri: Option<u32>,
    /// Their ttl, if it is not that of their tube.
    pub ttl: Option<u64>,
    /// Their ttr, if it is not that of their tube.
    pub ttr: Option<u64>,
    /// Their delay.
    pub delay: u64,
    /// Their tags. The schedule itself is not found by them. A record with others than
    /// [`More::tags`](crate::More::tags) may have does not decode.
    pub tags: Arc<[Arc<str>]>,
    /// The moment of the wall clock before which a cron expression has no run, if one was given.
    pub starting: Option<u64>,
    /// The moments of a cron expression up to this one had their runs before the wall clock was set
    /// back: they are not made up for once that clock is right again. `None` if all of them have passed.
    pub covered: Option<u64>,
}

/// When the runs of a schedule are.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
#[expect(clippy::exhaustive_enums, reason = "a new one is a new field of the record")]
pub enum RecurRule {
    /// Every so many microseconds of the timeline. Above 0.
    Every(u64),
    /// At the moments of the wall clock that a cron expression names in a time zone.
    Cron {
        /// The expression.
        expression: Arc<str>,
        /// The name of the time zone, as in the IANA time zone database.
        zone: Arc<str>,
    },
}

impl Recur {
    /// All missed runs, as [`missed`](Recur::missed).
    pub const ALL: u64 = u64::MAX;
}
