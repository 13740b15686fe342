//! Where the time line begins when a store is opened: what is made of the wall clock.
//!
//! The line never runs back, so a wall clock that is behind it is not followed. One that is far
//! ahead of the last commit is doubted: were it believed and wrong, everything with an end would
//! be gone at once and the line could never come back. It is believed when it has gone on soundly
//! until a later open. And if it was the line's beginning that was wrong, a clock at 1970, then
//! the time that passes by the doubted clock counts, and the distance to it never does.

use bincode::{Decode, Encode};
use tubewell_drivers::{NEVER, Reads, Table};

use crate::Result;
use crate::core::catalog::encode;
use crate::core::state::{Core, FILE, LAST};

/// The row of `meta` that keeps a doubted reading. Releases that do not know it leave it alone.
pub(crate) const UNTRUSTED: &[u8] = b"doubted";

/// A doubted wall clock is believed no earlier than this after it was first seen: a day.
const PROBATION: u64 = 86_400_000_000;

/// A wall clock that is faster or slower than the line by up to this is in step with it: an hour.
const STEP: u64 = 3_600_000_000;

/// The beginning of 2025: no store is older. A line that stands before it began at a clock that
/// nobody had set, and how far it is behind the wall says nothing about the time that has passed.
const OLDEST: u64 = 1_735_689_600_000_000;

/// A wall clock that was not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct UntrustedClock {
    /// What it showed when it was first seen.
    wall: u64,
    /// Where the line stood then.
    timeline: u64,
}

/// What is made of the wall clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimelineStart {
    timeline: u64,
    untrusted: Option<UntrustedClock>,
}

impl Core {
    /// Sets the line where this life begins, `floor` being where the last one left it. A doubt
    /// goes to the file with the next commit, at the latest the one at close.
    pub(crate) fn begin_timeline(&mut self, floor: Option<u64>, wall: u64) -> Result<()> {
        let row = self.buffers[FILE].get(Table::Meta, UNTRUSTED)?;
        // A damaged one is no reason not to open: the doubt begins anew.
        let known: Option<UntrustedClock> =
            row.as_ref().and_then(|row| crate::codec::decode_row(row));
        let limit = if self.config.trust_wall { NEVER } else { self.config.wall_limit };
        let TimelineStart { timeline, untrusted } = begin(floor, wall, known, limit);
        match untrusted {
            Some(untrusted) if known != Some(untrusted) => {
                let rows = &mut self.buffers[FILE].active;
                rows.replace(Table::Meta, UNTRUSTED.to_vec(), encode(&untrusted));
            }
            None if row.is_some() => {
                self.buffers[FILE].active.remove(Table::Meta, UNTRUSTED.to_vec());
            }
            _ => {}
        }
        self.untrusted = untrusted.map(|_| wall);
        self.now.timeline = timeline;
        self.buffers[FILE].end_call();
        Ok(())
    }
}

/// Where the line would begin at an open of this file now, and by how much the wall clock is ahead
/// of it if that is doubted: for who only reads.
pub(crate) fn timeline_of_reader(
    floor: Option<u64>,
    wall: u64,
    untrusted: Option<&[u8]>,
    limit: u64,
) -> (u64, Option<u64>) {
    let known = untrusted.and_then(crate::codec::decode_row);
    let TimelineStart { timeline, untrusted } = begin(floor, wall, known, limit);
    (timeline, untrusted.map(|_| wall.saturating_sub(timeline)))
}

fn begin(
    floor: Option<u64>,
    wall: u64,
    known: Option<UntrustedClock>,
    limit: u64,
) -> TimelineStart {
    let wall = wall.min(LAST);
    let Some(floor) = floor else { return TimelineStart { timeline: wall, untrusted: None } };
    let floor = floor.min(LAST);
    if wall.saturating_sub(floor) <= limit {
        return TimelineStart { timeline: wall.max(floor), untrusted: None };
    }
    let Some(known) = known.filter(|known| in_step(*known, floor, wall, limit)) else {
        return TimelineStart {
            timeline: floor,
            untrusted: Some(UntrustedClock { wall, timeline: floor }),
        };
    };
    if floor < OLDEST {
        // Followed from where it was first seen on, but never caught up with.
        let timeline = known.timeline.saturating_add(wall - known.wall);
        return TimelineStart { timeline: timeline.max(floor), untrusted: Some(known) };
    }
    if wall - known.wall < PROBATION {
        return TimelineStart { timeline: floor, untrusted: Some(known) };
    }
    TimelineStart { timeline: wall, untrusted: None }
}

/// Whether the wall clock has gone on since it was first doubted as a sound one does: at least as
/// far as the line has, and not further than a sound one may.
fn in_step(known: UntrustedClock, floor: u64, wall: u64, limit: u64) -> bool {
    let passed = floor.saturating_sub(known.timeline);
    let (Some(went), true) = (wall.checked_sub(known.wall), floor >= known.timeline) else {
        return false;
    };
    went.saturating_add(STEP) >= passed && went <= passed.saturating_add(limit)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::storage::{Footprint, Overlay};

    const SMALL: Footprint = Footprint { cache: 1 << 20, reserve: 0 };
    use crate::{FIFOTTL, ManualClock, Put, Store, TubeOptions};

    const YEAR: u64 = 365 * PROBATION;
    const NOW: u64 = 56 * YEAR;

    fn line_of(floor: Option<u64>, wall: u64, known: Option<UntrustedClock>) -> u64 {
        begin(floor, wall, known, YEAR).timeline
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
        let untrusted = UntrustedClock { wall, timeline: NOW };
        let fresh = begin(Some(NOW), wall, None, YEAR);
        assert_eq!(fresh, TimelineStart { timeline: NOW, untrusted: Some(untrusted) });
        let later = |floor: u64, wall: u64| begin(Some(floor), wall, Some(untrusted), YEAR);
        // Too early; in time; further than a sound clock goes in one go; back.
        assert_eq!(later(NOW, wall + PROBATION - 1), fresh);
        assert_eq!(later(NOW, wall + PROBATION).timeline, wall + PROBATION);
        assert_eq!(later(NOW, wall + YEAR).timeline, wall + YEAR);
        assert_eq!(later(NOW, wall + YEAR + 1).timeline, NOW);
        assert_eq!(
            later(NOW, wall - 1).untrusted,
            Some(UntrustedClock { wall: wall - 1, timeline: NOW })
        );
        // The store was open for longer than the wall went on, give or take a step.
        let open = NOW + PROBATION + STEP;
        assert_eq!(later(open, wall + PROBATION).timeline, wall + PROBATION);
        assert_eq!(later(open + 1, wall + PROBATION).timeline, open + 1);
        // A floor before the doubt: the row is of another file, or of a line that was tampered with.
        assert_eq!(later(NOW - 1, wall + PROBATION).timeline, NOW - 1);
    }

    #[test]
    fn a_line_that_began_at_an_unset_clock_counts_time_by_the_doubted_one_and_never_catches_up() {
        let untrusted = UntrustedClock { wall: NOW, timeline: 5 };
        let seen = begin(Some(5), NOW, None, YEAR);
        assert_eq!(seen, TimelineStart { timeline: 5, untrusted: Some(untrusted) });
        let later = |floor: u64, wall: u64| begin(Some(floor), wall, Some(untrusted), YEAR);
        assert_eq!(later(5, NOW), seen);
        assert_eq!(later(5, NOW + 7), TimelineStart { timeline: 12, untrusted: Some(untrusted) });
        assert_eq!(later(9, NOW + 2), TimelineStart { timeline: 9, untrusted: Some(untrusted) });
        let days = TimelineStart { timeline: 5 + 300 * PROBATION, untrusted: Some(untrusted) };
        assert_eq!(later(5 + 200 * PROBATION, NOW + 300 * PROBATION), days);
        // A start at 1970 forgets it, the next right one doubts anew.
        assert_eq!(later(9, 3), TimelineStart { timeline: 9, untrusted: None });
    }

    #[test]
    fn elapsed_time_that_jumps_back_stops_the_line_for_a_moment_and_never_turns_it() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
        let second = Duration::from_secs(1);
        tube.put(Put::new("mortal").ttl(second * 100)).unwrap();
        tube.put(Put::new("delayed").delay(second * 100)).unwrap();
        let mut last = store.clock_report().timeline;
        for step in 1..=99 {
            clock.advance(second);
            let timeline = store.clock_report().timeline;
            assert_eq!(timeline, last + second, "at step {step}");
            last = timeline;
            clock.break_elapsed(second * (step % 7) * 1000);
            assert_eq!(store.clock_report().timeline, last, "at step {step}");
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
        let mut edit = Overlay::default();
        edit.replace(Table::Meta, UNTRUSTED.to_vec(), b"no doubt"[..].into());
        engine.commit(&edit, true, true).unwrap();
        engine.close().unwrap();
        clock.advance(Duration::from_micros(2 * YEAR));
        let store = options().open(&path).unwrap();
        assert!(store.clock_report().untrusted.is_some());
        store.close().unwrap();
        clock.advance(Duration::from_micros(PROBATION));
        let store = options().open(&path).unwrap();
        assert_eq!(store.clock_report().untrusted, None);
        store.close().unwrap();
        let rows = crate::storage::Engine::open_file(&path, SMALL).unwrap();
        assert!(rows.snapshot().unwrap().get(Table::Meta, UNTRUSTED).unwrap().is_none());
    }
}
