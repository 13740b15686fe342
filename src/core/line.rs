//! Where the time line begins when a store is opened: what is made of the wall clock.
//!
//! The line never runs back, so a wall clock that is behind it is not followed. One that is far
//! ahead of the last commit is doubted: were it believed and wrong, everything with an end would
//! be gone at once and the line could never come back. It is believed when it has gone on soundly
//! until a later open. And if it was the line's beginning that was wrong, a clock at 1970, then
//! the time that passes by the doubted clock counts, and the distance to it never does.

use bincode::{Decode, Encode};
use tubewell_drivers::{NEVER, Reads, Table};

use super::open::encode;
use super::{Core, FILE};
use crate::Result;

/// The row of `meta` that keeps a doubted reading. Releases that do not know it leave it alone.
pub(crate) const DOUBTED: &[u8] = b"doubted";

/// The last moment of the line: the next one stands for never.
pub(crate) const LAST: u64 = NEVER - 1;

/// A doubted wall clock is believed no earlier than this after it was first seen: a day.
const PROBATION: u64 = 86_400_000_000;

/// A wall clock that is faster or slower than the line by up to this is in step with it: an hour.
const STEP: u64 = 3_600_000_000;

/// The beginning of 2025: no store is older. A line that stands before it began at a clock that
/// nobody had set, and how far it is behind the wall says nothing about the time that has passed.
const OLDEST: u64 = 1_735_689_600_000_000;

/// A wall clock that was not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct Doubt {
    /// What it showed when it was first seen.
    wall: u64,
    /// Where the line stood then.
    line: u64,
}

/// What is made of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Beginning {
    line: u64,
    doubt: Option<Doubt>,
}

impl Core {
    /// Sets the line where this life begins, `floor` being where the last one left it. A doubt
    /// goes to the file with the next commit, at the latest the one at close.
    pub(crate) fn begin_line(&mut self, floor: Option<u64>, wall: u64) -> Result<()> {
        let row = self.lanes[FILE].get(Table::Meta, DOUBTED)?;
        // A damaged one is no reason not to open: the doubt begins anew.
        let known: Option<Doubt> = row.as_ref().and_then(|row| crate::codec::decode_row(row));
        let limit = if self.config.trust_wall { NEVER } else { self.config.wall_limit };
        let Beginning { line, doubt } = begin(floor, wall, known, limit);
        match doubt {
            Some(doubt) if known != Some(doubt) => {
                let rows = &mut self.lanes[FILE].pending;
                rows.replace(Table::Meta, DOUBTED.to_vec(), encode(&doubt));
            }
            None if row.is_some() => {
                self.lanes[FILE].pending.remove(Table::Meta, DOUBTED.to_vec());
            }
            _ => {}
        }
        self.doubted = doubt.map(|_| wall);
        self.now.line = line;
        self.lanes[FILE].end_call();
        Ok(())
    }
}

/// Where the line would begin at an open of this file now, and by how much the wall clock is ahead
/// of it if that is doubted: for who only reads.
pub(crate) fn line_of_reader(
    floor: Option<u64>,
    wall: u64,
    doubt: Option<&[u8]>,
    limit: u64,
) -> (u64, Option<u64>) {
    let known = doubt.and_then(crate::codec::decode_row);
    let Beginning { line, doubt } = begin(floor, wall, known, limit);
    (line, doubt.map(|_| wall.saturating_sub(line)))
}

fn begin(floor: Option<u64>, wall: u64, known: Option<Doubt>, limit: u64) -> Beginning {
    let wall = wall.min(LAST);
    let Some(floor) = floor else { return Beginning { line: wall, doubt: None } };
    let floor = floor.min(LAST);
    if wall.saturating_sub(floor) <= limit {
        return Beginning { line: wall.max(floor), doubt: None };
    }
    let Some(known) = known.filter(|known| in_step(*known, floor, wall, limit)) else {
        return Beginning { line: floor, doubt: Some(Doubt { wall, line: floor }) };
    };
    if floor < OLDEST {
        // Followed from where it was first seen on, but never caught up with.
        let line = known.line.saturating_add(wall - known.wall);
        return Beginning { line: line.max(floor), doubt: Some(known) };
    }
    if wall - known.wall < PROBATION {
        return Beginning { line: floor, doubt: Some(known) };
    }
    Beginning { line: wall, doubt: None }
}

/// Whether the wall clock has gone on since it was first doubted as a sound one does: at least as
/// far as the line has, and not further than a sound one may.
fn in_step(known: Doubt, floor: u64, wall: u64, limit: u64) -> bool {
    let passed = floor.saturating_sub(known.line);
    let (Some(went), true) = (wall.checked_sub(known.wall), floor >= known.line) else {
        return false;
    };
    went.saturating_add(STEP) >= passed && went <= passed.saturating_add(limit)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::storage::{Footprint, Layer};

    const SMALL: Footprint = Footprint { cache: 1 << 20, reserve: 0 };
    use crate::{FIFOTTL, ManualClock, Put, Store, TubeOptions};

    const YEAR: u64 = 365 * PROBATION;
    const NOW: u64 = 56 * YEAR;

    fn line_of(floor: Option<u64>, wall: u64, known: Option<Doubt>) -> u64 {
        begin(floor, wall, known, YEAR).line
    }

    #[test]
    fn a_new_store_and_one_whose_floor_is_near_follow_the_wall_and_never_back() {
        assert_eq!(line_of(None, NOW, None), NOW);
        assert_eq!(line_of(None, 0, None), 0);
        assert_eq!(line_of(None, u64::MAX, None), LAST);
        assert_eq!(line_of(Some(NOW), 0, None), NOW);
        assert_eq!(line_of(Some(NOW), NOW - 1, None), NOW);
        assert_eq!(line_of(Some(NOW), NOW + YEAR, None), NOW + YEAR);
        assert_eq!(line_of(Some(u64::MAX), 0, None), LAST);
        assert_eq!(line_of(Some(LAST), u64::MAX, None), LAST);
    }

    #[test]
    fn a_doubted_wall_is_believed_only_if_it_went_on_in_step() {
        let wall = NOW + 10 * YEAR;
        let doubt = Doubt { wall, line: NOW };
        let fresh = begin(Some(NOW), wall, None, YEAR);
        assert_eq!(fresh, Beginning { line: NOW, doubt: Some(doubt) });
        let later = |floor: u64, wall: u64| begin(Some(floor), wall, Some(doubt), YEAR);
        // Too early; in time; further than a sound clock goes in one go; back.
        assert_eq!(later(NOW, wall + PROBATION - 1), fresh);
        assert_eq!(later(NOW, wall + PROBATION).line, wall + PROBATION);
        assert_eq!(later(NOW, wall + YEAR).line, wall + YEAR);
        assert_eq!(later(NOW, wall + YEAR + 1).line, NOW);
        assert_eq!(later(NOW, wall - 1).doubt, Some(Doubt { wall: wall - 1, line: NOW }));
        // The store was open for longer than the wall went on, give or take a step.
        let open = NOW + PROBATION + STEP;
        assert_eq!(later(open, wall + PROBATION).line, wall + PROBATION);
        assert_eq!(later(open + 1, wall + PROBATION).line, open + 1);
        // A floor before the doubt: the row is of another file, or of a line that was tampered with.
        assert_eq!(later(NOW - 1, wall + PROBATION).line, NOW - 1);
    }

    #[test]
    fn a_line_that_began_at_an_unset_clock_counts_time_by_the_doubted_one_and_never_catches_up() {
        let doubt = Doubt { wall: NOW, line: 5 };
        let seen = begin(Some(5), NOW, None, YEAR);
        assert_eq!(seen, Beginning { line: 5, doubt: Some(doubt) });
        let later = |floor: u64, wall: u64| begin(Some(floor), wall, Some(doubt), YEAR);
        assert_eq!(later(5, NOW), seen);
        assert_eq!(later(5, NOW + 7), Beginning { line: 12, doubt: Some(doubt) });
        assert_eq!(later(9, NOW + 2), Beginning { line: 9, doubt: Some(doubt) });
        let days = Beginning { line: 5 + 300 * PROBATION, doubt: Some(doubt) };
        assert_eq!(later(5 + 200 * PROBATION, NOW + 300 * PROBATION), days);
        // A start at 1970 forgets it, the next right one doubts anew.
        assert_eq!(later(9, 3), Beginning { line: 9, doubt: None });
    }

    #[test]
    fn elapsed_time_that_jumps_back_stops_the_line_for_a_moment_and_never_turns_it() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
        let second = Duration::from_secs(1);
        tube.put(Put::new("mortal").ttl(second * 100)).unwrap();
        tube.put(Put::new("delayed").delay(second * 100)).unwrap();
        let mut last = store.clock_report().line;
        for step in 1..=99 {
            clock.advance(second);
            let line = store.clock_report().line;
            assert_eq!(line, last + second, "at step {step}");
            last = line;
            clock.break_elapsed(second * (step % 7) * 1000);
            assert_eq!(store.clock_report().line, last, "at step {step}");
        }
        assert_eq!(tube.statistics().unwrap().tasks.total, 2);
        clock.advance(Duration::from_micros(999_999));
        assert!(tube.peek(0).is_ok() && tube.statistics().unwrap().tasks.delayed == 1);
        clock.advance(Duration::from_micros(1));
        assert!(tube.peek(0).is_err());
        assert_eq!(tube.try_take().unwrap().unwrap().data(), b"delayed");
        assert_eq!(store.verify().unwrap(), [""; 0]);
    }

    #[test]
    fn a_damaged_doubt_does_not_keep_a_store_from_opening() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let clock = ManualClock::new();
        let options = || Store::options().clock(&clock);
        options().open(&path).unwrap().close().unwrap();
        let engine = crate::storage::Engine::open_file(&path, SMALL).unwrap();
        let mut edit = Layer::default();
        edit.replace(Table::Meta, DOUBTED.to_vec(), b"no doubt"[..].into());
        engine.commit(&edit, true, true).unwrap();
        engine.close().unwrap();
        clock.advance(Duration::from_micros(2 * YEAR));
        let store = options().open(&path).unwrap();
        assert!(store.clock_report().doubted.is_some());
        store.close().unwrap();
        clock.advance(Duration::from_micros(PROBATION));
        let store = options().open(&path).unwrap();
        assert_eq!(store.clock_report().doubted, None);
        store.close().unwrap();
        let rows = crate::storage::Engine::open_file(&path, SMALL).unwrap();
        assert!(rows.snapshot().unwrap().get(Table::Meta, DOUBTED).unwrap().is_none());
    }
}
