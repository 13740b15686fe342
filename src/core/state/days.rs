//! The numbers of a tube with metrics, as far as they are in memory.

use std::collections::BTreeMap;

use tubewell_drivers::DayCounts;

use crate::options::Policies;
use crate::values::date::Date;
use crate::values::histogram::{self, DurationCounts};
use crate::values::scrape::TaskDurations;

/// The day of UTC of a moment of the timeline, counted from the beginning of 1970.
pub(in crate::core) fn day_of(timeline: u64) -> u32 {
    Date::of_micros(timeline).days()
}

/// What a tube counts.
#[derive(Clone, Copy, Debug)]
pub(in crate::core) enum Counted {
    /// A task that came into the tube.
    Put,
    /// A take, how long the task had been ready, and whether it had been attempted before.
    Take {
        wait: u64,
        is_retry: bool,
    },
    /// The end of a task by its holder, and how long it was taken.
    Ack {
        run: u64,
    },
    Failure,
    /// The end of a claim without its holder.
    Lost,
}

/// The days that are not written yet, and the one that is counted now.
#[derive(Clone, Debug, Default)]
pub(crate) struct DayState {
    pub(in crate::core) days: BTreeMap<u32, DayInMemory>,
    /// The day on which the rows of older days were removed, in this run.
    pub(in crate::core) removed_on: Option<u32>,
    /// All that was counted since the store was opened, or since the tube has metrics.
    pub(in crate::core) since_open: SinceOpen,
}

/// How long tasks have waited and run, in buckets that only grow.
#[derive(Clone, Debug)]
pub(in crate::core) struct SinceOpen {
    waits: DurationCounts,
    runs: DurationCounts,
}

impl Default for SinceOpen {
    fn default() -> SinceOpen {
        let counts = || DurationCounts::new(histogram::OF_TASKS);
        SinceOpen { waits: counts(), runs: counts() }
    }
}

impl SinceOpen {
    pub(in crate::core) fn read(&self) -> TaskDurations {
        TaskDurations { waits: self.waits.read(), runs: self.runs.read() }
    }
}

/// What this run has counted on a day.
#[derive(Clone, Debug, Default)]
pub(in crate::core) struct DayInMemory {
    pub(in crate::core) counts: DayCounts,
    /// The numbers include those of the row, which this run has read or written.
    pub(in crate::core) has_row: bool,
    /// The row cannot be read, so it stays as it is: `verify` reports it.
    pub(in crate::core) is_damaged: bool,
}

impl DayState {
    pub(in crate::core) fn new(policies: &Policies) -> Option<Box<DayState>> {
        (policies.metrics > 0).then(Box::default)
    }

    /// Counts. Returns whether it is the first time on this day, in this run.
    pub(in crate::core) fn count(&mut self, day: u32, counted: Counted) -> bool {
        let mut is_first = false;
        let entry = self.days.entry(day).or_insert_with(|| {
            is_first = true;
            DayInMemory::default()
        });
        let counts = &mut entry.counts;
        match counted {
            Counted::Put => counts.puts += 1,
            Counted::Take { wait, is_retry } => {
                counts.takes += 1;
                counts.retried += u64::from(is_retry);
                counts.wait.add(wait);
                self.since_open.waits.add(wait);
            }
            Counted::Ack { run } => {
                counts.acks += 1;
                counts.run.add(run);
                self.since_open.runs.add(run);
            }
            Counted::Failure => counts.failures += 1,
            Counted::Lost => counts.lost += 1,
        }
        is_first
    }
}
