//! Idle periods, in which a large file that is mostly empty is shrunk.
//!
//! The work is bounded: at most [`MAX_MOVED`] bytes of rows are moved while callers may wait.

use tubewell_drivers::{Reads, Record, Table, keys};

use crate::Result;
use crate::core::state::{Buffer, Core, Timer};
use crate::storage::{Engine, Overlay};

/// An idle period of this many microseconds allows a shrink.
const LONG_IDLE_PERIOD: u64 = 5_000_000;
/// A short idle period of this many microseconds allows a shrink too, if the last one is long ago.
const SHORT_IDLE_PERIOD: u64 = 250_000;
/// The minimum time before a shrink in a short idle period, in microseconds: bursts of tasks would
/// need the disk space again.
const SHORT_IDLE_SHRINK_INTERVAL: u64 = 45_000_000;
/// Files of up to this many bytes are not shrunk.
const SMALL_FILE: u64 = 4 << 20;
/// A file is mostly empty if its rows have at most this fraction of its bytes. Pages are up to
/// twice as large as their content, and the file doubles when it grows. With a smaller divisor a
/// file could shrink and grow again and again.
const MOSTLY_EMPTY_DIVISOR: u64 = 8;
/// The maximum bytes of rows that a shrink moves, since callers may wait for it.
const MAX_MOVED: u64 = 2 << 20;
/// The estimated minimum size of a row with its key, in bytes.
const MIN_ROW: u64 = 64;
/// Rows in one read.
const READ_ROWS: usize = 512;

impl Core {
    /// Starts the idle detection anew: after a commit of the file, or when a shrink was not
    /// possible.
    pub(crate) fn start_idle_timer(&mut self) {
        self.idle.due = false;
        self.idle.last_commit = Some(self.now.running);
        self.schedule_idle_check(LONG_IDLE_PERIOD);
    }

    /// Whether an idle period has begun that is not used yet. Marks it as used.
    pub(crate) fn take_idle_work(&mut self) -> bool {
        std::mem::take(&mut self.idle.due)
    }

    /// If the store has been idle since the last commit, wakes the writer thread to shrink the
    /// file. Checks again later, unless the idle period was a long one.
    pub(in crate::core) fn check_idle(&mut self) {
        self.idle.timer_set = false;
        let Some(last_commit) = self.idle.last_commit else { return };
        let idle_for = self.now.running.saturating_sub(last_commit);
        let large =
            self.buffers[Buffer::File].engine().is_some_and(|engine| engine.size() > SMALL_FILE);
        let short_allowed = large && self.now.running >= self.idle.short_idle_allowed_at;
        if idle_for < LONG_IDLE_PERIOD {
            // If commits are frequent, this skips the short idle periods between them.
            self.schedule_idle_check(if short_allowed && idle_for < SHORT_IDLE_PERIOD {
                SHORT_IDLE_PERIOD
            } else {
                LONG_IDLE_PERIOD
            });
        }
        // A commit in progress starts the idle detection anew when it ends.
        if !self.is_idle() || self.buffers[Buffer::File].has_leader {
            return;
        }
        if idle_for >= LONG_IDLE_PERIOD {
            self.idle.last_commit = None;
        }
        if large && idle_for >= LONG_IDLE_PERIOD || short_allowed && idle_for >= SHORT_IDLE_PERIOD {
            self.idle.short_idle_allowed_at =
                self.now.running.saturating_add(SHORT_IDLE_SHRINK_INTERVAL);
            self.idle.due = true;
            self.effects.call_writer = true;
        }
    }

    /// Whether the store has nothing to commit.
    pub(crate) fn is_idle(&self) -> bool {
        let buffer = &self.buffers[Buffer::File];
        self.check_open().is_ok() && !buffer.is_dirty() && !buffer.has_waiters
    }

    /// The free space inside the file is about to be released: puts cannot use it any more.
    pub(crate) fn reset_free_in_file(&mut self) {
        self.idle.free_in_file = 0;
    }

    fn schedule_idle_check(&mut self, after: u64) {
        if let Some(last_commit) = self.idle.last_commit
            && !std::mem::replace(&mut self.idle.timer_set, true)
        {
            self.timers.insert((last_commit.saturating_add(after), Timer::Idle));
        }
    }
}

/// Whether a file is large and mostly empty. Reads few of its rows. `above` are the edits that its
/// database does not have yet.
pub(crate) fn is_mostly_empty(engine: &Engine, above: Overlay) -> Result<bool> {
    let size = engine.size();
    Ok(size > SMALL_FILE
        && rows_are_within(engine, above, MAX_MOVED.min(size / MOSTLY_EMPTY_DIVISOR))?)
}

/// Whether all rows in a file have no more than `most` bytes. Bodies in rows of their own are not
/// read: the headers have their sizes.
fn rows_are_within(engine: &Engine, above: Overlay, most: u64) -> Result<bool> {
    let edits = above.len() as u64;
    let mut rows = engine.snapshot_below(above)?;
    // Their sizes are not known: the space of a file with own tables is returned by `compact` only.
    if rows.own_rows()? > 0 {
        return Ok(false);
    }
    let mut count = 0;
    for table in Table::ALL {
        count += rows.len(table)?;
    }
    if count.saturating_sub(edits) > most / MIN_ROW {
        return Ok(false);
    }
    let mut bytes = 0;
    for table in Table::ALL.into_iter().filter(|table| *table != Table::Bodies) {
        let mut from = Vec::new();
        loop {
            let found = rows.scan(table, &from, &[u8::MAX; 600], READ_ROWS)?;
            let Some((last, _)) = found.last() else { break };
            from = keys::after(last);
            for (key, value) in found {
                bytes += (key.len() + value.len()) as u64;
                if table == Table::Tasks {
                    let (_, id) = keys::order_and_id(&key)?;
                    let header = Record::decode(id, value)?.header;
                    bytes = bytes.saturating_add(header.body_checksum.map_or(0, |_| header.size));
                }
            }
            if bytes > most {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
