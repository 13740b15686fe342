//! Which run of which schedule a task is.

use std::time::SystemTime;

use crate::base::moment::{micros_of, system_time};

/// The schedule that has put a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct SpawnedBy {
    /// The id of the schedule, which may have been removed since.
    pub schedule: u64,
    /// The number of the run, from 1.
    pub run: u64,
    /// The moment for which the run is; it may have been put later. As
    /// [`ScheduleInfo::next`](crate::ScheduleInfo::next).
    pub moment: SystemTime,
}

impl SpawnedBy {
    /// The run of a schedule with this number and moment, for a task that is
    /// [restored](crate::expert::Restore::spawned_by).
    #[must_use]
    pub fn new(schedule: u64, run: u64, moment: SystemTime) -> SpawnedBy {
        SpawnedBy { schedule, run, moment }
    }

    /// As a record has it.
    pub(crate) fn as_numbers(self) -> (u64, u64, u64) {
        (self.schedule, self.run, micros_of(self.moment))
    }

    /// As a record has it: the schedule, the run, and the moment in microseconds.
    pub(crate) fn of((schedule, run, moment): (u64, u64, u64)) -> SpawnedBy {
        SpawnedBy { schedule, run, moment: system_time(moment) }
    }
}
