//! The rows that lead from a time to a task.

use tubewell_drivers::{Reads, Table, Value, keys};

use crate::Result;
use crate::commit::{DueCursor, WriteBuffer};

/// The kinds of rows that lead from a time to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::core) enum DueKind {
    /// A time on the timeline.
    Timeline,
    /// A moment of the wall clock.
    Moment,
}

impl DueKind {
    pub(in crate::core) const ALL: [DueKind; 2] = [DueKind::Timeline, DueKind::Moment];

    /// Up to `limit` rows, in order of time, from this key on; `None` for the first ones.
    pub(in crate::core) fn rows(
        self,
        buffer: &mut WriteBuffer,
        from: Option<Vec<u8>>,
        limit: usize,
    ) -> Result<Vec<(Vec<u8>, Value)>> {
        let (table, begin, end): (_, &[u8], &[u8]) = match self {
            DueKind::Timeline => (Table::Dues, &[], &[u8::MAX; 21]),
            DueKind::Moment => (Table::Index, &[keys::MOMENT], &[keys::MOMENT + 1]),
        };
        buffer.scan(table, from.as_deref().unwrap_or_default().max(begin), end, limit)
    }

    /// Where the rows behind those of this time and id begin.
    pub(in crate::core) fn key_after(self, time: u64, id: u64) -> Vec<u8> {
        let last = match self {
            DueKind::Timeline => keys::due(time, u32::MAX, id),
            DueKind::Moment => keys::moment(time, u32::MAX, id),
        };
        keys::after(&last)
    }

    /// Time, space and id of the key of a row.
    pub(in crate::core) fn split(self, key: &[u8]) -> Result<(u64, u32, u64)> {
        Ok(match self {
            DueKind::Timeline => keys::split_due(key),
            DueKind::Moment => keys::split_moment(key),
        }?)
    }

    /// How far the sweep has come.
    pub(super) fn cursor(self, buffer: &mut WriteBuffer) -> &mut DueCursor {
        match self {
            DueKind::Timeline => &mut buffer.dues,
            DueKind::Moment => &mut buffer.moments,
        }
    }
}
