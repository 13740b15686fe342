//! Moments of the wall clock, before which tasks are not ready.
//!
//! A moment stays one of the wall clock: it is compared with that clock whenever a task could become
//! ready, and never converted to the timeline for good.
//!
//! The times of the past, such as that of a put, are times of the timeline, and are shown as moments.
//! Invariant: as long as the wall clock is not set, a time is always shown as the same moment.
//!
//! A store reads the wall clock for tasks with a moment, for schedules, and for what it shows or
//! restores, and else only when it is opened.

use std::cell::Cell;
use std::fmt;

use tubewell_drivers::{Header, NEVER, Shelf};

use super::now::LAST;

/// The beginning of 2025. A timeline before it started at a clock that was not set: its distance to
/// the wall clock says nothing about that clock.
pub(crate) const OLDEST_STORE: u64 = 1_735_689_600_000_000;

/// How far the clocks may be apart to count as the same, in microseconds.
pub(in crate::core) const SAME_CLOCK: u64 = 1_000_000;

/// The wall clock, as far as it is trusted.
pub(crate) struct WallClock {
    read: Box<dyn Fn() -> u64 + Send>,
    /// How far ahead of the timeline it may be.
    limit: u64,
    /// How far ahead of the timeline it was when it was last trusted, in microseconds.
    ahead: Cell<i128>,
    /// How far ahead of the timeline the moments are that are shown.
    shown_ahead: Cell<i128>,
}

impl WallClock {
    /// `read` returns the microseconds since 1970 UTC that the clock shows.
    pub(crate) fn new(limit: u64, read: impl Fn() -> u64 + Send + 'static) -> WallClock {
        let (ahead, shown_ahead) = (Cell::new(0), Cell::new(0));
        WallClock { read: Box::new(read), limit, ahead, shown_ahead }
    }

    /// What the clock shows at this moment of the timeline. If it is not trusted, the last time that
    /// was trusted, plus the time that has passed since then.
    pub(crate) fn at(&self, timeline: u64) -> u64 {
        let shown = (self.read)().min(LAST);
        if self.trusts(shown, timeline) {
            self.ahead.set(i128::from(shown) - i128::from(timeline));
            return shown;
        }
        clamped(i128::from(timeline) + self.ahead.get())
    }

    /// What the clock shows, if it is not trusted at this moment of the timeline.
    pub(crate) fn untrusted(&self, timeline: u64) -> Option<u64> {
        let shown = (self.read)().min(LAST);
        (!self.trusts(shown, timeline)).then_some(shown)
    }

    fn trusts(&self, shown: u64, timeline: u64) -> bool {
        timeline < OLDEST_STORE || shown.saturating_sub(timeline) <= self.limit
    }

    /// How far ahead of the timeline the moments are that are shown now. The two clocks are not read
    /// at once, so the difference between them is another one with each call: a new one counts only
    /// if the clock was set.
    fn shown_ahead(&self, timeline: u64) -> i128 {
        let is_same = |ahead: i128| ahead.unsigned_abs() < u128::from(SAME_CLOCK);
        let ahead = i128::from(self.at(timeline)) - i128::from(timeline);
        if !is_same(ahead - self.shown_ahead.get()) {
            self.shown_ahead.set(if is_same(ahead) { 0 } else { ahead });
        }
        self.shown_ahead.get()
    }
}

fn clamped(micros: i128) -> u64 {
    u64::try_from(micros.max(0)).map_or(LAST, |micros| micros.min(LAST))
}

impl Default for WallClock {
    fn default() -> WallClock {
        WallClock::new(NEVER, || 0)
    }
}

impl fmt::Debug for WallClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WallClock").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// Both clocks by which a task becomes ready: the moment of the timeline, and the wall clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clocks<'a> {
    pub(crate) now: u64,
    pub(crate) wall: &'a WallClock,
}

impl Clocks<'_> {
    /// How long it is until this moment of the wall clock; 0 if it has come, `NEVER` if it never
    /// comes.
    pub(in crate::core) fn until(self, moment: u64) -> u64 {
        if moment == NEVER { NEVER } else { moment.saturating_sub(self.wall.at(self.now)) }
    }

    /// The moment at which the wall clock, as it is now, would have shown a time of the timeline that
    /// has passed.
    pub(crate) fn shown(self, time: u64) -> u64 {
        clamped(i128::from(time) + self.shown_ahead())
    }

    /// How far ahead of the timeline the moments are that are shown.
    pub(in crate::core) fn shown_ahead(self) -> i128 {
        self.wall.shown_ahead(self.now)
    }

    /// The inverse of [`shown`](Self::shown): the time of a moment that has passed, and now for a later
    /// one.
    pub(in crate::core) fn time_of(self, moment: u64) -> u64 {
        clamped(i128::from(moment) - self.shown_ahead()).min(self.now)
    }

    /// How long it is until a delayed task is ready, as the clocks are now; `NEVER` if it never is.
    pub(crate) fn left(self, header: &Header) -> u64 {
        let delay = match header.ready_at {
            NEVER => NEVER,
            time => time.saturating_sub(self.now),
        };
        header.not_before().map_or(delay, |moment| delay.max(self.until(moment)))
    }

    /// Whether nothing keeps a delayed task from being ready.
    pub(crate) fn is_ready(self, header: &Header) -> bool {
        header.ready_at <= self.now
            && header.not_before().is_none_or(|moment| self.until(moment) == 0)
    }

    /// Adds the time until its moment to the ttl of a new task, if that is longer than its delay. The
    /// ttl of the header counts from the end of the delay.
    pub(in crate::core) fn aim(self, header: &mut Header) {
        let Some(moment) = header.not_before().filter(|_| header.expires_at != NEVER) else {
            return;
        };
        let until = self.until(moment);
        let (from, expected) = (header.ready_at.max(self.now), self.now.saturating_add(until));
        if until > 0 && expected > from {
            header.expires_at = header.expires_at.saturating_add(expected - from);
            header.edit_more(|more| more.ttl_from = Some(expected));
        }
    }

    /// The shelf of a task that is put, or put off. `is_blocked`: it waits for other tasks.
    pub(in crate::core) fn place(self, is_blocked: bool, header: &mut Header) -> Shelf {
        if is_blocked {
            return Shelf::Blocked;
        }
        if header.ready_at > 0 { Shelf::Delayed } else { self.gate(Shelf::Delayed, header) }
    }

    /// Takes away the delay of a task that is buried. If its moment is ahead, its ttl still counts from the end of the
    /// delay, unless it counts from the moment.
    pub(in crate::core) fn end_delay(self, header: &mut Header) {
        let end = std::mem::take(&mut header.ready_at);
        let is_ahead = header.not_before().is_some_and(|moment| self.until(moment) > 0);
        if is_ahead && end > self.now && header.expires_at != NEVER && header.ttl_from().is_none() {
            header.edit_more(|more| more.ttl_from = Some(end));
        }
    }

    /// The shelf of a task of the shelf `from` that could be ready now, its delay being over: that of
    /// the delayed tasks, as long as its moment has not come. Its ttl does not count while it waits.
    pub(in crate::core) fn gate(self, from: Shelf, header: &mut Header) -> Shelf {
        let Some(moment) = header.not_before() else { return Shelf::Ready };
        let until = self.until(moment);
        let ttl_from = header.ttl_from();
        let shelf = if until > 0 { Shelf::Delayed } else { Shelf::Ready };
        if until > 0 && from == Shelf::Delayed && ttl_from.is_some() {
            return shelf;
        }
        if header.expires_at != NEVER && (until > 0 || ttl_from.is_some()) {
            let counts_from = match ttl_from {
                None => self.now,
                // Its ttl counts from its moment: neither before it nor, if the clock was set, later.
                Some(expected) if from == Shelf::Delayed => {
                    let late = self.wall.at(self.now).saturating_sub(moment);
                    expected.saturating_add(late.min(self.now.saturating_sub(expected)))
                }
                Some(expected) => expected.max(self.now),
            };
            let ttl = header.expires_at.saturating_sub(counts_from);
            header.expires_at = self.now.saturating_add(until).saturating_add(ttl);
        }
        let expected = self.now.saturating_add(until);
        let ttl_from = (until > 0 && header.expires_at != NEVER).then_some(expected);
        if header.ttl_from() != ttl_from {
            header.edit_more(|more| more.ttl_from = ttl_from);
        }
        shelf
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    const NOW: u64 = OLDEST_STORE + 1_000_000;

    fn header(moment: u64, expires_at: u64) -> Header {
        let mut header = Header {
            priority: 0,
            order: 0,
            created: 0,
            expires_at,
            ttr: NEVER,
            ready_at: 0,
            takes: 0,
            size: 0,
            body_checksum: None,
            sub: "".into(),
            more: None,
        };
        header.edit_more(|more| more.not_before = Some(moment));
        header
    }

    #[test]
    fn clock_that_is_too_far_ahead_is_not_followed() {
        let shown = Arc::new(AtomicU64::new(NOW + 7));
        let read = Arc::clone(&shown);
        let wall = WallClock::new(100, move || read.load(Ordering::Relaxed));
        assert_eq!(wall.at(NOW), NOW + 7);
        shown.store(NOW + 500, Ordering::Relaxed);
        assert_eq!(wall.at(NOW + 10), NOW + 17, "the last time that was trusted goes on");
        shown.store(NOW + 20, Ordering::Relaxed);
        assert_eq!(wall.at(NOW + 30), NOW + 20);
        shown.store(5, Ordering::Relaxed);
        assert_eq!(wall.at(NOW + 40), 5, "a clock that is behind is followed");
        // A timeline that began at a clock that was not set.
        shown.store(NOW, Ordering::Relaxed);
        assert_eq!(wall.at(3), NOW);
        shown.store(u64::MAX, Ordering::Relaxed);
        assert_eq!(wall.at(4), LAST);
    }

    #[test]
    fn times_are_shown_as_the_same_moments_until_the_clock_is_set() {
        let shown = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&shown);
        let wall = WallClock::new(NEVER, move || read.load(Ordering::Relaxed));
        let at = |now: u64, ahead: i64| {
            shown.store(now.saturating_add_signed(ahead), Ordering::Relaxed);
            Clocks { now, wall: &wall }
        };
        let set = |ahead: i64| NOW.saturating_add_signed(ahead);
        // The clocks are read one after the other, and the wall clock is corrected a little.
        for ahead in [0, 7, 300, -40_000, 999_999, -999_999] {
            assert_eq!(at(NOW + 10, ahead).shown(NOW), NOW);
            assert_eq!(at(NOW + 10, ahead).time_of(NOW), NOW);
        }
        // It is set back by an hour, and forward again, by some microseconds less than it was.
        let hour = 3_600_000_000;
        for jitter in [0, 5, 900, -900] {
            let clocks = at(NOW + 20, jitter - hour);
            assert_eq!((clocks.shown(NOW), clocks.time_of(set(-hour))), (set(-hour), NOW));
        }
        assert_eq!(at(NOW + 30, -5).shown(NOW), NOW);
        // Moments that have not come, and those before the timeline.
        let clocks = at(NOW + 40, hour);
        assert_eq!((clocks.time_of(set(2 * hour)), clocks.time_of(7)), (NOW + 40, 0));
    }

    #[test]
    fn ttl_counts_from_the_moment() {
        let shown = Arc::new(AtomicU64::new(NOW));
        let read = Arc::clone(&shown);
        let wall = WallClock::new(NEVER, move || read.load(Ordering::Relaxed));
        let at = |now: u64, clock: u64| {
            shown.store(clock, Ordering::Relaxed);
            Clocks { now, wall: &wall }
        };
        let mut waits = header(NOW + 50, NOW + 10);
        at(NOW, NOW).aim(&mut waits);
        assert_eq!((waits.expires_at, waits.ttl_from()), (NOW + 60, Some(NOW + 50)));
        let gate = |clocks: Clocks<'_>, from| {
            let mut header = waits.clone();
            let shelf = clocks.gate(from, &mut header);
            (shelf, header.expires_at, header.ttl_from())
        };
        let delayed = Shelf::Delayed;
        assert_eq!(gate(at(NOW, NOW), delayed), (delayed, NOW + 60, Some(NOW + 50)));
        // At its moment, and 4 after it.
        assert_eq!(gate(at(NOW + 50, NOW + 50), delayed), (Shelf::Ready, NOW + 60, None));
        assert_eq!(gate(at(NOW + 54, NOW + 54), delayed), (Shelf::Ready, NOW + 60, None));
        // The clock was set forward by 46, and back by 100.
        assert_eq!(gate(at(NOW + 4, NOW + 50), delayed), (Shelf::Ready, NOW + 14, None));
        assert_eq!(gate(at(NOW + 150, NOW + 50), delayed), (Shelf::Ready, NOW + 160, None));
        // A buried task expires also while its moment is ahead.
        let blocked = Shelf::Blocked;
        assert_eq!(gate(at(NOW + 20, NOW + 20), blocked), (delayed, NOW + 60, Some(NOW + 50)));
        assert_eq!(gate(at(NOW + 55, NOW + 45), blocked), (delayed, NOW + 65, Some(NOW + 60)));
        assert_eq!(gate(at(NOW + 55, NOW + 55), blocked), (Shelf::Ready, NOW + 60, None));
    }

    #[test]
    fn ttl_of_a_buried_task_counts_from_the_end_of_its_delay() {
        let wall = WallClock::new(NEVER, || NOW);
        let clocks = Clocks { now: NOW, wall: &wall };
        let mut buried = header(NOW + 50, NOW + 70);
        buried.ready_at = NOW + 60;
        clocks.end_delay(&mut buried);
        assert_eq!((buried.ready_at, buried.ttl_from()), (0, Some(NOW + 60)));
        assert_eq!(clocks.gate(Shelf::Buried, &mut buried), Shelf::Delayed);
        assert_eq!((buried.expires_at, buried.ttl_from()), (NOW + 60, Some(NOW + 50)));
    }

    #[test]
    fn moment_without_an_end_has_no_ttl() {
        let wall = WallClock::new(NEVER, || NOW);
        let clocks = Clocks { now: NOW, wall: &wall };
        let mut never = header(NEVER, NOW + 10);
        clocks.aim(&mut never);
        assert_eq!(clocks.gate(Shelf::Delayed, &mut never), Shelf::Delayed);
        assert_eq!(never.expires_at, NEVER);
    }
}
