//! What a task on shelf `Recurring` says of its runs: when they are, and what they put.

use std::sync::Arc;

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};

/// The schedule of a recurring task, in its record. Its encoding is part of the format: bincode's
/// standard one, in the order of the fields. `starting` and `covered` are a field of the record of their own,
/// which only schedules that have one of them have. Times are microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
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
    pub priority: Option<u32>,
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

impl Encode for Recur {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        self.rule.encode(encoder)?;
        self.next.encode(encoder)?;
        self.fired.encode(encoder)?;
        self.last.encode(encoder)?;
        self.runs.encode(encoder)?;
        self.skipped.encode(encoder)?;
        self.times.encode(encoder)?;
        self.missed.encode(encoder)?;
        self.within.encode(encoder)?;
        self.skips_overlap.encode(encoder)?;
        self.priority.encode(encoder)?;
        self.ttl.encode(encoder)?;
        self.ttr.encode(encoder)?;
        self.delay.encode(encoder)?;
        self.tags.encode(encoder)
    }
}

impl<Context> Decode<Context> for Recur {
    fn decode<D: Decoder<Context = Context>>(decoder: &mut D) -> Result<Recur, DecodeError> {
        Ok(Recur {
            rule: Decode::decode(decoder)?,
            next: Decode::decode(decoder)?,
            fired: Decode::decode(decoder)?,
            last: Decode::decode(decoder)?,
            runs: Decode::decode(decoder)?,
            skipped: Decode::decode(decoder)?,
            times: Decode::decode(decoder)?,
            missed: Decode::decode(decoder)?,
            within: Decode::decode(decoder)?,
            skips_overlap: Decode::decode(decoder)?,
            priority: Decode::decode(decoder)?,
            ttl: Decode::decode(decoder)?,
            ttr: Decode::decode(decoder)?,
            delay: Decode::decode(decoder)?,
            tags: Decode::decode(decoder)?,
            starting: None,
            covered: None,
        })
    }
}
bincode::impl_borrow_decode!(Recur);
