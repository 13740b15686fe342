//! The start of the timeline when a store is opened, computed from the wall clock.
//!
//! Invariants: the timeline never runs backwards, and it goes on while the store is closed. A wall clock
//! that was set back behind the timeline counts from where it is: the timeline stays ahead of it by as
//! much as it was at the last commit, until the clock has caught up. A wall
//! clock that is too far ahead of the last commit is not trusted at first: if it were wrong, every
//! task with a ttl would expire immediately, and the timeline could never return. A later open
//! trusts it if it has advanced plausibly until then. If the timeline itself started at a wrong
//! clock, near 1970, it advances as fast as the untrusted clock but never jumps to it.

use bincode::{Decode, Encode};
use tubewell_drivers::{NEVER, Reads, Table};

use crate::Result;
use crate::commit::DueCursor;
use crate::core::catalog::encode;
use crate::core::state::{Buffer, Core, LAST, OLDEST_STORE, SAME_CLOCK};

/// The key of the row of `meta` that stores an untrusted wall clock. Releases that do not know the
/// row leave it alone.
pub(crate) const UNTRUSTED: &[u8] = b"doubted";

/// The key of the row of `meta` that stores by how many microseconds the timeline was ahead of the wall
/// clock at the last commit, if that was a second or more.
pub(crate) const AHEAD: &[u8] = b"ahead";

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

/// What the file says of the clocks at the last commit.
#[derive(Clone, Copy, Debug, Default)]
struct StoredClocks {
    untrusted: Option<UntrustedClock>,
    /// See [`AHEAD`]; 0 without such a row.
    ahead: u64,
}

impl StoredClocks {
    /// A damaged row does not prevent an open: an untrusted clock counts as first read now, and one that
    /// was set back as set back now.
    fn of_rows(untrusted: Option<&[u8]>, ahead: Option<&[u8]>) -> StoredClocks {
        let untrusted = untrusted.and_then(crate::base::codec::decode_row);
        let ahead = ahead.and_then(crate::base::codec::decode_row).unwrap_or_default();
        StoredClocks { untrusted, ahead }
    }
}

/// Where the timeline starts, and the wall clock if it is not trusted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct TimelineStart {
    timeline: u64,
    untrusted: Option<UntrustedClock>,
    /// By how much the wall clock is behind, if it was set back since the last commit.
    set_back: Option<u64>,
}

impl TimelineStart {
    fn at(timeline: u64) -> TimelineStart {
        TimelineStart { timeline, untrusted: None, set_back: None }
    }
}

impl Core {
    /// Sets the start of the timeline for this run. `floor` is its moment at the last commit. An
    /// untrusted clock is written with the next commit, at the latest at close.
    pub(crate) fn start_timeline(&mut self, floor: Option<u64>, wall: u64) -> Result<()> {
        let row = self.buffers[Buffer::File].get(Table::Meta, UNTRUSTED)?;
        let ahead = self.buffers[Buffer::File].get(Table::Meta, AHEAD)?;
        let stored = StoredClocks::of_rows(row.as_deref(), ahead.as_deref());
        let limit = if self.config.trust_wall { NEVER } else { self.config.wall_limit };
        let TimelineStart { timeline, untrusted, set_back } =
            timeline_start(floor, wall, stored, limit);
        match untrusted {
            Some(untrusted) if stored.untrusted != Some(untrusted) => {
                let rows = &mut self.buffers[Buffer::File].edits.active;
                rows.replace(Table::Meta, UNTRUSTED.to_vec(), encode(&untrusted));
            }
            None if row.is_some() => {
                self.buffers[Buffer::File].edits.active.remove(Table::Meta, UNTRUSTED.to_vec());
            }
            _ => {}
        }
        self.now.timeline = timeline;
        self.wall.opened(stored.ahead, untrusted.map(|_| wall), set_back);
        self.note_lead(true);
        // There may be tasks that wait for a moment.
        self.buffers[Buffer::File].moments = DueCursor::default();
        self.buffers[Buffer::File].end_call();
        Ok(())
    }

    /// Stores with the next commit by how much the timeline is ahead of the wall clock, if that has
    /// changed. Reads the clock once a second, and before the last commit.
    pub(in crate::core) fn note_lead(&mut self, closing: bool) {
        let Some(ahead) = self.wall.lead_to_store(self.now.timeline, closing) else { return };
        let rows = &mut self.buffers[Buffer::File].edits.active;
        if ahead == 0 {
            rows.remove(Table::Meta, AHEAD.to_vec());
        } else {
            rows.replace(Table::Meta, AHEAD.to_vec(), encode(&ahead));
        }
    }
}

/// For a reader that does not open the store: the start of the timeline if this file were opened
/// now, and by how much the wall clock is ahead of it if it is not trusted.
pub(crate) fn timeline_of_reader(
    floor: Option<u64>,
    wall: u64,
    (untrusted, ahead): (Option<&[u8]>, Option<&[u8]>),
    limit: u64,
) -> (u64, Option<u64>) {
    let stored = StoredClocks::of_rows(untrusted, ahead);
    let TimelineStart { timeline, untrusted, .. } = timeline_start(floor, wall, stored, limit);
    (timeline, untrusted.map(|_| wall.saturating_sub(timeline)))
}

fn timeline_start(
    floor: Option<u64>,
    wall: u64,
    stored: StoredClocks,
    limit: u64,
) -> TimelineStart {
    let wall = wall.min(LAST);
    let Some(floor) = floor else { return TimelineStart::at(wall) };
    let floor = floor.min(LAST);
    if wall < floor {
        return start_ahead(floor, wall, stored.ahead, limit);
    }
    if wall - floor <= limit {
        return TimelineStart::at(wall);
    }
    let untrusted = stored.untrusted.filter(|it| advanced_plausibly(*it, floor, wall, limit));
    let Some(untrusted) = untrusted else {
        let untrusted = Some(UntrustedClock { wall, timeline: floor });
        return TimelineStart { untrusted, ..TimelineStart::at(floor) };
    };
    if floor < OLDEST_STORE {
        // Advance as far as the clock has since it was first read; never jump to it.
        let timeline = untrusted.timeline.saturating_add(wall - untrusted.wall).max(floor);
        return TimelineStart { untrusted: Some(untrusted), ..TimelineStart::at(timeline) };
    }
    if wall - untrusted.wall < PROBATION {
        return TimelineStart { untrusted: Some(untrusted), ..TimelineStart::at(floor) };
    }
    TimelineStart::at(wall)
}

/// The start of a timeline that is ahead of the wall clock, and was so by `ahead` at the last commit.
/// Since the time that passed while the store was closed is what the wall clock says, it is not known
/// if the clock was set back meanwhile: then it counts as none.
fn start_ahead(floor: u64, wall: u64, ahead: u64, limit: u64) -> TimelineStart {
    let expected = wall.saturating_add(ahead).min(LAST);
    let is_known =
        expected.saturating_add(SAME_CLOCK) > floor && expected.saturating_sub(floor) <= limit;
    let set_back = (!is_known).then_some(floor - wall);
    TimelineStart {
        set_back,
        ..TimelineStart::at(if is_known { expected.max(floor) } else { floor })
    }
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

    const SMALL: Footprint = Footprint { cache: 1 << 20, reserve: 0, mode: 0o600 };
    use crate::{FIFOTTL, ManualClock, Put, Store, TubeOptions};

    const YEAR: u64 = 365 * PROBATION;
    const NOW: u64 = 56 * YEAR;

    fn of(untrusted: Option<UntrustedClock>) -> StoredClocks {
        StoredClocks { untrusted, ahead: 0 }
    }

    fn timeline_of(floor: Option<u64>, wall: u64, stored: Option<UntrustedClock>) -> u64 {
        timeline_start(floor, wall, of(stored), YEAR).timeline
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
        let fresh = timeline_start(Some(NOW), wall, of(None), YEAR);
        assert_eq!(fresh, TimelineStart { untrusted: Some(untrusted), ..TimelineStart::at(NOW) });
        let later =
            |floor: u64, wall: u64| timeline_start(Some(floor), wall, of(Some(untrusted)), YEAR);
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
        let first = timeline_start(Some(5), NOW, of(None), YEAR);
        assert_eq!(first, TimelineStart { untrusted: Some(untrusted), ..TimelineStart::at(5) });
        let later =
            |floor: u64, wall: u64| timeline_start(Some(floor), wall, of(Some(untrusted)), YEAR);
        assert_eq!(later(5, NOW), first);
        assert_eq!(
            later(5, NOW + 7),
            TimelineStart { untrusted: Some(untrusted), ..TimelineStart::at(12) }
        );
        assert_eq!(
            later(9, NOW + 2),
            TimelineStart { untrusted: Some(untrusted), ..TimelineStart::at(9) }
        );
        let days =
            TimelineStart { untrusted: Some(untrusted), ..TimelineStart::at(5 + 300 * PROBATION) };
        assert_eq!(later(5 + 200 * PROBATION, NOW + 300 * PROBATION), days);
        // An open at 1970 drops the untrusted clock; the next open with a correct clock stores it
        // anew.
        assert_eq!(later(9, 3), TimelineStart::at(9));
    }

    #[test]
    fn timeline_goes_on_beside_a_wall_clock_that_was_set_back() {
        let start = |floor: u64, wall: u64, ahead: u64| {
            let stored = StoredClocks { untrusted: None, ahead };
            timeline_start(Some(floor), wall, stored, YEAR)
        };
        for by in [60_000_000, 3_600_000_000, 2 * PROBATION, YEAR, 3 * YEAR] {
            // How long the store was closed is not known at first, and from then on it is.
            let first = TimelineStart { set_back: Some(by), ..TimelineStart::at(NOW) };
            assert_eq!(start(NOW, NOW - by, 0), first);
            assert_eq!(start(NOW, NOW - by + 7, by), TimelineStart::at(NOW + 7));
            // Set back again; and corrected by less than a second.
            let again = TimelineStart { set_back: Some(by + PROBATION), ..TimelineStart::at(NOW) };
            assert_eq!(start(NOW, NOW - by - PROBATION, by), again);
            assert_eq!(start(NOW, NOW - by - 500, by), TimelineStart::at(NOW));
            // The clock has caught up, or is set right.
            assert_eq!(start(NOW, NOW + 9, by), TimelineStart::at(NOW + 9));
        }
        // A clock that jumps by more than the limit says nothing of the time that has passed.
        let far = start(NOW, NOW - YEAR, 3 * YEAR);
        assert_eq!(far, TimelineStart { set_back: Some(YEAR), ..TimelineStart::at(NOW) });
    }

    #[test]
    fn timeline_stands_still_when_elapsed_time_jumps_back() {
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).open_in_memory().unwrap();
        let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
        let second = Duration::from_secs(1);
        tube.put(Put::new("expiring").ttl(second * 100)).unwrap();
        tube.put(Put::new("delayed").delay(second * 100)).unwrap();
        let mut last = store.admin().clock_report().unwrap().timeline;
        for step in 1..=99 {
            clock.advance(second);
            let timeline = store.admin().clock_report().unwrap().timeline;
            assert_eq!(timeline, last + second, "at step {step}");
            last = timeline;
            clock.set_elapsed_back(second * (step % 7) * 1000);
            assert_eq!(store.admin().clock_report().unwrap().timeline, last, "at step {step}");
        }
        assert_eq!(tube.statistics().unwrap().tasks.total, 2);
        clock.advance(Duration::from_micros(999_999));
        assert!(tube.query().task(0).is_ok() && tube.statistics().unwrap().tasks.delayed == 1);
        clock.advance(Duration::from_micros(1));
        assert!(tube.query().task(0).is_err());
        assert_eq!(tube.try_take().unwrap().unwrap().body(), b"delayed");
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
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
        assert!(store.admin().clock_report().unwrap().untrusted.is_some());
        store.close().unwrap();
        clock.advance(Duration::from_micros(PROBATION));
        let store = options().open(&path).unwrap();
        assert_eq!(store.admin().clock_report().unwrap().untrusted, None);
        store.close().unwrap();
        let rows = crate::storage::Engine::open_file(&path, SMALL).unwrap();
        assert!(rows.snapshot().unwrap().get(Table::Meta, UNTRUSTED).unwrap().is_none());
    }
}
