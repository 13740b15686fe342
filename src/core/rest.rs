//! Pauses: a large file in which next to nothing lives any more gives its room back then.

use tubewell_drivers::{Reads, Record, Table, keys};

use super::{Core, FILE, Timer};
use crate::Result;
use crate::storage::Engine;

/// A pause of so long, in microseconds, is taken for the begin of a longer one.
const PAUSE: u64 = 5_000_000;
/// Where there is no such pause, one of so long is enough to give room back,
const BREATH: u64 = 250_000;
/// but only once in this time: what comes and goes in bursts would need the room again.
const BURSTS: u64 = 45_000_000;
/// Files up to this size are left as they are.
const SMALL: u64 = 4 << 20;
/// Rows have at most one byte in so many. Pages are up to twice as large as what is in them, and the
/// file doubles when it grows: with less it could shrink and grow again and again.
const HOLLOW: u64 = 8;
/// More than so many bytes are not moved while callers wait.
const MOST_MOVED: u64 = 2 << 20;
/// Hardly a row is smaller, with its key.
const LEAST_ROW: u64 = 64;
/// Rows that are looked at together.
const STEP: usize = 512;

#[derive(Debug, Default)]
pub(super) struct Rest {
    /// When the last commit was, on running time, if a pause after it would be of use.
    since: Option<u64>,
    /// A timer will look at it.
    timed: bool,
    /// It is a pause: the writer is to use it.
    due: bool,
    /// Before this moment a short pause is not used.
    no_breath: u64,
}

impl Core {
    /// There was a commit of the file like any other; or the last pause was not to be used.
    pub(crate) fn await_pause(&mut self) {
        self.rest.due = false;
        self.rest.since = Some(self.now.running);
        self.look_for_pause(PAUSE);
    }

    /// Whether a pause has begun that nobody has used yet.
    pub(crate) fn begins_to_rest(&mut self) -> bool {
        std::mem::take(&mut self.rest.due)
    }

    /// If there has been a pause since the last commit, has the writer use it; looks again later
    /// unless it was a long one.
    pub(super) fn rest_if_paused(&mut self) {
        self.rest.timed = false;
        let Some(since) = self.rest.since else { return };
        let pause = self.now.running.saturating_sub(since);
        let large = self.lanes[FILE].engine().is_some_and(|engine| engine.size() > SMALL);
        let breath = large && self.now.running >= self.rest.no_breath;
        if pause < PAUSE {
            // Where commits are frequent, one is waited out.
            self.look_for_pause(if breath && pause < BREATH { BREATH } else { PAUSE });
        }
        // With a commit on its way there is no pause; it will ask anew.
        if !self.is_pausing() || self.lanes[FILE].led {
            return;
        }
        if pause >= PAUSE {
            self.rest.since = None;
        }
        if large && pause >= PAUSE || breath && pause >= BREATH {
            self.rest.no_breath = self.now.running.saturating_add(BURSTS);
            self.rest.due = true;
            self.outbox.call_writer = true;
        }
    }

    /// Whether nothing is to be committed.
    pub(crate) fn is_pausing(&self) -> bool {
        let lane = &self.lanes[FILE];
        self.check_open().is_ok() && !lane.is_dirty() && !lane.wanted
    }

    /// What is free inside the file is about to be given back: no task can be put into it.
    pub(crate) fn give_up_room_inside(&mut self) {
        self.room_inside = 0;
    }

    fn look_for_pause(&mut self, after: u64) {
        if let Some(since) = self.rest.since
            && !std::mem::replace(&mut self.rest.timed, true)
        {
            self.timers.insert((since.saturating_add(after), Timer::Rest));
        }
    }
}

/// Whether a file is large and next to nothing lives in it; reads little to find out, and says no
/// to one that is damaged: moved pages get new checksums, sound or not.
pub(crate) fn is_drained(engine: &Engine) -> Result<bool> {
    let size = engine.size();
    if size <= SMALL {
        return Ok(false);
    }
    let most = MOST_MOVED.min(size / HOLLOW);
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
    if count.saturating_sub(engine.unsettled().0 as u64) > most / LEAST_ROW {
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
                    live = live.saturating_add(header.apart.map_or(0, |_| header.size));
                }
            }
            if live > most {
                return Ok(false);
            }
        }
    }
    Ok(true)
}
