//! The start of the timeline when a store is opened, computed from the wall clock.
//!
//! Invariant: the timeline never runs backwards. A wall clock that is behind it is ignored. A wall
//! clock that is too far ahead of the last commit is not trusted at first: if it were wrong, every
//! task with a ttl would expire immediately, and the timeline could never return. A later open
//! trusts it if it has advanced plausibly until then. If the timeline itself started at a wrong
//! clock, near 1970, it advances as fast as the untrusted clock but never jumps to it.

use bincode::{Decode, Encode};
use tubewell_drivers::{NEVER, Reads, Table};

use crate::Result;
use crate::commit::DueCursor;
use crate::core::catalog::encode;
use crate::core::state::{Core, FILE, FORMAT_WITH_GATES, LAST, OLDEST_STORE};

/// The key of the row of `meta` that stores an untrusted wall clock. Releases that do not know the
/// row leave it alone.
pub(crate) const UNTRUSTED: &[u8] = b"doubted";

/// The minimum time for which an untrusted wall clock must advance plausibly: a day, in
/// microseconds.
const PROBATION: u64 = 86_400_000_000;

/// How far the wall clock may fall behind the timeline and still be plausible: an hour, in
/// microseconds.
const MAX_LAG: u64 = 3_600_000_000;

/// A wall clock that is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Encode, Decode)]
pub(crate) struct UntrustedClock {
    /// What it showed when it was first read.
    wall: u64,
    /// The moment of the timeline then.
    timeline: u64,
}

/// Where the timeline starts, and the wall clock if it is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimelineStart {
    timeline: u64,
    untrusted: Option<UntrustedClock>,
}

impl Core {
    /// Sets the start of the timeline for this run. `floor` is its moment at the last commit. An
    /// untrusted clock is written with the next commit, at the latest at close.
    pub(crate) fn start_timeline(&mut self, floor: Option<u64>, wall: u64) -> Result<()> {
        let row = self.buffers[FILE].get(Table::Meta, UNTRUSTED)?;
        // A damaged row does not prevent an open: the clock counts as first read now.
        let stored: Option<UntrustedClock> =
            row.as_ref().and_then(|row| crate::codec::decode_row(row));
        let limit = if self.config.trust_wall { NEVER } else { self.config.wall_limit };
        let TimelineStart { timeline, untrusted } = timeline_start(floor, wall, stored, limit);
        match untrusted {
            Some(untrusted) if stored != Some(untrusted) => {
                let rows = &mut self.buffers[FILE].edits.active;
                rows.replace(Table::Meta, UNTRUSTED.to_vec(), encode(&untrusted));
            }
            None if row.is_some() => {
                self.buffers[FILE].edits.active.remove(Table::Meta, UNTRUSTED.to_vec());
            }
            _ => {}
        }
        self.untrusted = untrusted.map(|_| wall);
        self.now.timeline = timeline;
        if self.format >= FORMAT_WITH_GATES {
            // There may be tasks that wait for a moment.
            self.buffers[FILE].moments = DueCursor::default();
        }
        self.buffers[FILE].end_call();
        Ok(())
    }
}

/// For a reader that does not open the store: the start of the timeline if this file were opened
/// now, and by how much the wall clock is ahead of it if it is not trusted.
pub(crate) fn timeline_of_reader(
    floor: Option<u64>,
    wall: u64,
    untrusted: Option<&[u8]>,
    limit: u64,
) -> (u64, Option<u64>) {
    let stored = untrusted.and_then(crate::codec::decode_row);
    let TimelineStart { timeline, untrusted } = timeline_start(floor, wall, stored, limit);
    (timeline, untrusted.map(|_| wall.saturating_sub(timeline)))
}

fn timeline_start(
    floor: Option<u64>,
    wall: u64,
    stored: Option<UntrustedClock>,
    limit: u64,
) -> TimelineStart {
    let wall = wall.min(LAST);
    let Some(floor) = floor else { return TimelineStart { timeline: wall, untrusted: None } };
    let floor = floor.min(LAST);
    if wall.saturating_sub(floor) <= limit {
        return TimelineStart { timeline: wall.max(floor), untrusted: None };
    }
    let stored = stored.filter(|stored| advanced_plausibly(*stored, floor, wall, limit));
    let Some(stored) = stored else {
        return TimelineStart {
            timeline: floor,
            untrusted: Some(UntrustedClock { wall, timeline: floor }),
        };
    };
    if floor < OLDEST_STORE {
        // Advance as far as the clock has since it was first read; never jump to it.
        let timeline = stored.timeline.saturating_add(wall - stored.wall);
        return TimelineStart { timeline: timeline.max(floor), untrusted: Some(stored) };
    }
    if wall - stored.wall < PROBATION {
        return TimelineStart { timeline: floor, untrusted: Some(stored) };
    }
    TimelineStart { timeline: wall, untrusted: None }
}

/// Whether an untrusted wall clock has advanced plausibly since it was first read: at least as far
/// as the timeline has, but for [`MAX_LAG`], and at most `limit` further.
fn advanced_plausibly(stored: UntrustedClock, floor: u64, wall: u64, limit: u64) -> bool {
    let passed = floor.saturating_sub(stored.timeline);
    let (Some(advanced), true) = (wall.checked_sub(stored.wall), floor >= stored.timeline) else {
        return false;
    };
    advanced.saturating_add(MAX_LAG) >= passed && advanced <= passed.saturating_add(limit)
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

    fn timeline_of(floor: Option<u64>, wall: u64, stored: Option<UntrustedClock>) -> u64 {
        timeline_start(floor, wall, stored, YEAR).timeline
    }

    #[test]
    fn timeline_follows_a_near_wall_clock_and_never_runs_back() {
        assert_eq!(timeline_of(None, NOW, None), NOW);
        assert_eq!(timeline_of(None, 0, None), 0);
        assert_eq!(timeline_of(None, u64::MAX, None), LAST);
        assert_eq!(timeline_of(Some(NOW), 0, None), NOW);
        assert_eq!(timeline_of(Some(NOW), NOW - 1, None), NOW);
        assert_eq!(timeline_of(Some(NOW), NOW + YEAR, None), NOW + YEAR);
        assert_eq!(timeline_of(Some(u64::MAX), 0, None), LAST);
        assert_eq!(timeline_of(Some(LAST), u64::MAX, None), LAST);
    }

    #[test]
    fn untrusted_wall_clock_is_trusted_after_it_advanced_plausibly() {
        let wall = NOW + 10 * YEAR;
        let untrusted = UntrustedClock { wall, timeline: NOW };
        let fresh = timeline_start(Some(NOW), wall, None, YEAR);
        assert_eq!(fresh, TimelineStart { timeline: NOW, untrusted: Some(untrusted) });
        let later =
            |floor: u64, wall: u64| timeline_start(Some(floor), wall, Some(untrusted), YEAR);
        // Too early; in time; further than is plausible; backwards.
        assert_eq!(later(NOW, wall + PROBATION - 1), fresh);
        assert_eq!(later(NOW, wall + PROBATION).timeline, wall + PROBATION);
        assert_eq!(later(NOW, wall + YEAR).timeline, wall + YEAR);
        assert_eq!(later(NOW, wall + YEAR + 1).timeline, NOW);
        assert_eq!(
            later(NOW, wall - 1).untrusted,
            Some(UntrustedClock { wall: wall - 1, timeline: NOW })
        );
        // The timeline advanced further than the wall clock, by up to the allowed lag and more.
        let open = NOW + PROBATION + MAX_LAG;
        assert_eq!(later(open, wall + PROBATION).timeline, wall + PROBATION);
        assert_eq!(later(open + 1, wall + PROBATION).timeline, open + 1);
        // A floor before the stored moment: the row is of another file, or was changed from
        // outside.
        assert_eq!(later(NOW - 1, wall + PROBATION).timeline, NOW - 1);
    }

    #[test]
    fn timeline_from_an_unset_clock_advances_with_the_untrusted_clock_without_a_jump() {
        let untrusted = UntrustedClock { wall: NOW, timeline: 5 };
        let first = timeline_start(Some(5), NOW, None, YEAR);
        assert_eq!(first, TimelineStart { timeline: 5, untrusted: Some(untrusted) });
        let later =
            |floor: u64, wall: u64| timeline_start(Some(floor), wall, Some(untrusted), YEAR);
        assert_eq!(later(5, NOW), first);
        assert_eq!(later(5, NOW + 7), TimelineStart { timeline: 12, untrusted: Some(untrusted) });
        assert_eq!(later(9, NOW + 2), TimelineStart { timeline: 9, untrusted: Some(untrusted) });
        let days = TimelineStart { timeline: 5 + 300 * PROBATION, untrusted: Some(untrusted) };
        assert_eq!(later(5 + 200 * PROBATION, NOW + 300 * PROBATION), days);
        // An open at 1970 drops the untrusted clock; the next open with a correct clock stores it
        // anew.
        assert_eq!(later(9, 3), TimelineStart { timeline: 9, untrusted: None });
    }

    #[test]
    fn timeline_stands_still_when_elapsed_time_jumps_back() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("work", FIFOTTL, TubeOptions::new()).unwrap();
        let second = Duration::from_secs(1);
        tube.put(Put::new("expiring").ttl(second * 100)).unwrap();
        tube.put(Put::new("delayed").delay(second * 100)).unwrap();
        let mut last = store.clock_report().timeline;
        for step in 1..=99 {
            clock.advance(second);
            let timeline = store.clock_report().timeline;
            assert_eq!(timeline, last + second, "at step {step}");
            last = timeline;
            clock.set_elapsed_back(second * (step % 7) * 1000);
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
    fn store_opens_with_a_damaged_untrusted_clock_row() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("store");
        let clock = ManualClock::new();
        let options = || Store::options().clock(&clock);
        options().open(&path).unwrap().close().unwrap();
        let engine = crate::storage::Engine::open_file(&path, SMALL).unwrap();
        let mut edit = Overlay::default();
        edit.replace(Table::Meta, UNTRUSTED.to_vec(), b"damaged"[..].into());
        engine.commit(edit);
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
