//! What schedules need of memory: up to where they follow the wall clock, and their cron expressions.

use std::sync::Arc;

use tubewell_drivers::Position;

use super::buffers::PerBuffer;
use super::calendars::Calendars;

/// Up to where the schedules follow the wall clock, and the round that looks at all of them.
#[derive(Debug, Default)]
pub(in crate::core) struct Alignment {
    /// By write buffer: the moment of the wall clock as of which each next run is the one that the clock
    /// names; 0 if there is no schedule that goes by it.
    pub(in crate::core) as_of: PerBuffer<u64>,
    /// What the wall clock showed when the round began.
    pub(in crate::core) round_began: Option<u64>,
    /// The tube that the round has come to, and the last of its schedules that was looked at; `None` if
    /// all of them were.
    pub(in crate::core) reached: Option<(Arc<str>, Option<Position>)>,
}

/// What schedules need of memory.
#[derive(Default)]
pub(in crate::core) struct Schedules {
    pub(in crate::core) alignment: Alignment,
    /// The cron expressions of schedules that were looked at.
    pub(in crate::core) calendars: Calendars,
}
