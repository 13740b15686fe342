//! Pauses: a large file in which next to nothing lives any more gives its room back then.

use tubewell_drivers::{Reads, Record, Table, keys};

use crate::Result;
use crate::core::state::{Core, FILE, Timer};
use crate::storage::Engine;

/// A pause of so long, in microseconds, is taken for the begin of a longer one.
const LONG_IDLE: u64 = 5_000_000;
/// Where there is no such pause, one of so long is enough to give room back,
const SHORT_IDLE: u64 = 250_000;
/// but only once in this time: what comes and goes in bursts would need the room again.
const SHORT_IDLE_INTERVAL: u64 = 45_000_000;
/// Files up to this size are left as they are.
const SMALL_FILE: u64 = 4 << 20;
/// Rows have at most one byte in so many. Pages are up to twice as large as what is in them, and the
/// file doubles when it grows: with less it could shrink and grow again and again.
const DRAINED_FRACTION: u64 = 8;
/// More than so many bytes are not moved while callers wait.
const MAX_MOVED: u64 = 2 << 20;
/// Hardly a row is smaller, with its key.
const MIN_ROW: u64 = 64;
/// Rows that are looked at together.
const STEP: usize = 512;

impl Core {
    /// There was a commit of the file like any other; or the last pause was not to be used.
    pub(crate) fn start_idle_timer(&mut self) {
        self.idle.due = false;
        self.idle.last_commit = Some(self.now.running);
        self.schedule_idle_check(LONG_IDLE);
    }

    /// Whether a pause has begun that nobody has used yet.
    pub(crate) fn take_idle_work(&mut self) -> bool {
        std::mem::take(&mut self.idle.due)
    }

    /// If there has been a pause since the last commit, has the writer use it; looks again later
    /// unless it was a long one.
    pub(in crate::core) fn check_idle(&mut self) {
        self.idle.timer_set = false;
        let Some(last_commit) = self.idle.last_commit else { return };
        let idle_for = self.now.running.saturating_sub(last_commit);
        let large = self.buffers[FILE].engine().is_some_and(|engine| engine.size() > SMALL_FILE);
        let short_allowed = large && self.now.running >= self.idle.no_short_idle_before;
        if idle_for < LONG_IDLE {
            // Where commits are frequent, one is waited out.
            self.schedule_idle_check(if short_allowed && idle_for < SHORT_IDLE {
                SHORT_IDLE
            } else {
                LONG_IDLE
            });
        }
        // With a commit on its way there is no pause; it will ask anew.
        if !self.is_idle() || self.buffers[FILE].has_leader {
            return;
        }
        if idle_for >= LONG_IDLE {
            self.idle.last_commit = None;
        }
        if large && idle_for >= LONG_IDLE || short_allowed && idle_for >= SHORT_IDLE {
            self.idle.no_short_idle_before = self.now.running.saturating_add(SHORT_IDLE_INTERVAL);
            self.idle.due = true;
            self.effects.call_writer = true;
        }
    }

    /// Whether nothing is to be committed.
    pub(crate) fn is_idle(&self) -> bool {
        let buffer = &self.buffers[FILE];
        self.check_open().is_ok() && !buffer.is_dirty() && !buffer.has_waiters
    }

    /// What is free inside the file is about to be given back: no task can be put into it.
    pub(crate) fn forget_free_inside(&mut self) {
        self.free_inside = 0;
    }

    fn schedule_idle_check(&mut self, after: u64) {
        if let Some(last_commit) = self.idle.last_commit
            && !std::mem::replace(&mut self.idle.timer_set, true)
        {
            self.timers.insert((last_commit.saturating_add(after), Timer::Idle));
        }
    }
}

/// Whether a file is large and next to nothing lives in it; reads little to find out, and says no
/// to one that is damaged: moved pages get new checksums, sound or not.
pub(crate) fn is_drained(engine: &Engine) -> Result<bool> {
    let size = engine.size();
    if size <= SMALL_FILE {
        return Ok(false);
    }
    let most = MAX_MOVED.min(size / DRAINED_FRACTION);
    Ok(holds_little(engine, most)? && engine.check_pages()?.is_none())
}

/// Whether all rows in a file have no more bytes than `most`. No body is read for it that has a row
/// of its own.
fn holds_little(engine: &Engine, most: u64) -> Result<bool> {
    let mut rows = engine.snapshot()?;
    let mut count = 0;
    for table in Table::ALL {
        count += rows.len(table)?;
    }
    if count.saturating_sub(engine.uncheckpointed().0 as u64) > most / MIN_ROW {
        return Ok(false);
    }
    let mut live = 0;
    for table in Table::ALL.into_iter().filter(|table| *table != Table::Bodies) {
        let mut from = Vec::new();
        loop {
            let found = rows.scan(table, &from, &[u8::MAX; 600], STEP)?;
            let Some((last, _)) = found.last() else { break };
            from = keys::after(last);
            for (key, value) in found {
                live += (key.len() + value.len()) as u64;
                if table == Table::Tasks {
                    let (_, id) = keys::order_and_id(&key)?;
                    let header = Record::decode(id, value)?.header;
                    live = live.saturating_add(header.body_checksum.map_or(0, |_| header.size));
                }
            }
            if live > most {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
