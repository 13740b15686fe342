//! The clock that tests move.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::micros::{duration, micros_ceil};
use crate::sync::Mutex;

/// A clock that stands still until it is moved, for exact tests of anything that takes time.
///
/// Hand it to the stores of a test when they are opened. Moving it does everything that falls due
/// on the way, in order and each at its own moment, before the call returns: delays end, tasks
/// expire, claims and waits time out. Nothing else makes time pass, and no test needs to sleep.
///
/// What happens to the clocks of real machines can happen to it, too: [`suspend`](Self::suspend)
/// is a lid that closes, [`set_wall`](Self::set_wall) is somebody who sets the clock, or a clock
/// that lost its battery.
///
/// Clones are the same clock. Several stores may share one.
///
/// # Example: an hour in no time
/// ```
/// use std::time::Duration;
/// use tubewell::ManualClock;
///
/// let clock = ManualClock::new();
/// let same = clock.clone();
/// clock.advance(Duration::from_secs(3600));
/// assert_eq!(same.now(), Duration::from_secs(3600));
/// ```
#[derive(Clone)]
pub struct ManualClock(Arc<Manual>);

struct Manual {
    state: Mutex<ClockState>,
    stores: Mutex<Vec<Weak<dyn TimeDriven>>>,
    /// Held by whoever moves the clock; readers do without.
    moving: Mutex<()>,
}

/// Where the clock stands, in microseconds.
#[derive(Clone, Copy, Debug)]
struct ClockState {
    running: u64,
    /// As `running`, and all suspends.
    elapsed: u64,
    /// The wall clock showed `set` when `elapsed` was `set_at`.
    set: u64,
    set_at: u64,
}

/// 2026-01-01 00:00:00 UTC. Any day will do; the same one makes tests repeatable.
const DEFAULT_START: Duration = Duration::from_secs(1_767_225_600);

/// A store that is always due would stop the clock for ever; no sound one needs so many sweeps.
const SWEEPS_AT_ONE_MOMENT: u32 = 1_000_000;

/// What a manual clock moves: a store, as far as time concerns it.
pub(crate) trait TimeDriven: Send + Sync {
    /// When there is something to do next, on the running line and not before now.
    fn next_due(&self) -> Option<u64>;

    /// Does what is due.
    fn sweep_due(&self);
}

impl ManualClock {
    /// A clock at its start, which is the beginning of 2026.
    #[must_use]
    pub fn new() -> ManualClock {
        ManualClock::at(DEFAULT_START)
    }

    /// A clock whose start is `wall` after the beginning of 1970, UTC; for what a store makes of
    /// the wall clock when it is opened again later, or earlier.
    #[must_use]
    pub fn at(wall: Duration) -> ManualClock {
        ManualClock(Arc::new(Manual {
            state: Mutex::new(ClockState {
                running: 0,
                elapsed: 0,
                set: micros_ceil(wall),
                set_at: 0,
            }),
            stores: Mutex::new(Vec::new()),
            moving: Mutex::new(()),
        }))
    }

    /// Moves the clock on, and returns when all that fell due on the way is done.
    ///
    /// Each thing is done with the clock at the moment it was due; those due at the end of the way
    /// are done too. `by` is rounded up to microseconds. Zero does what is due now. It blocks while
    /// another thread moves the clock, and while a store flushes what became due; call it from
    /// within a callback of such a store and it waits for itself for ever.
    pub fn advance(&self, by: Duration) {
        let _moving = self.0.moving.lock();
        self.go_on(self.running().saturating_add(micros_ceil(by)));
    }

    /// Puts the machine to sleep for so long, and returns when all that fell due meanwhile is
    /// done.
    ///
    /// Elapsed time and the wall clock go on, running time stands still: delays end and tasks
    /// expire, but only now that the machine is awake again, and no claim, wait or grace has
    /// become older. Blocks as [`advance`](Self::advance) does.
    ///
    /// # Example: a worker's lid closes for a night
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{FIFOTTL, ManualClock, Put, Store, TubeOptions};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let jobs = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    /// jobs.put(Put::new("half done").ttr(Duration::from_secs(60)))?;
    /// let job = jobs.try_take()?.unwrap();
    /// jobs.put(Put::new("tomorrow").delay(Duration::from_secs(6 * 3600)))?;
    ///
    /// clock.suspend(Duration::from_secs(8 * 3600));
    /// job.ack()?; // still held
    /// assert_eq!(jobs.try_take()?.unwrap().data(), b"tomorrow");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn suspend(&self, by: Duration) {
        let _moving = self.0.moving.lock();
        {
            let mut state = self.0.state.lock();
            state.elapsed = state.elapsed.saturating_add(micros_ceil(by));
        }
        self.go_on(self.running());
    }

    /// Sets the wall clock to so long after the beginning of 1970, UTC; it goes on from there.
    ///
    /// Stores read the wall clock when they are opened and do not notice that it is set: nothing
    /// falls due, nothing is put off.
    ///
    /// # Example: a clock that lost its battery
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{FIFOTTL, ManualClock, Put, Store, TubeOptions};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("store");
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open(&path)?;
    /// let jobs = store.create_tube("jobs", FIFOTTL, TubeOptions::new())?;
    /// jobs.put(Put::new("in an hour").delay(Duration::from_secs(3600)))?;
    /// store.close()?;
    /// # drop(jobs);
    ///
    /// clock.set_wall(Duration::ZERO); // it is 1970 again
    /// let store = Store::options().clock(&clock).open(&path)?;
    /// let jobs = store.tube("jobs")?;
    /// assert!(jobs.try_take()?.is_none());
    /// clock.advance(Duration::from_secs(3600));
    /// assert!(jobs.try_take()?.is_some());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn set_wall(&self, wall: Duration) {
        let mut state = self.0.state.lock();
        (state.set, state.set_at) = (micros_ceil(wall), state.elapsed);
    }

    /// How far the clock has moved since its start, suspends included.
    #[must_use]
    pub fn now(&self) -> Duration {
        duration(self.elapsed())
    }

    pub(super) fn running(&self) -> u64 {
        self.0.state.lock().running
    }

    pub(super) fn elapsed(&self) -> u64 {
        self.0.state.lock().elapsed
    }

    pub(super) fn wall(&self) -> u64 {
        let state = *self.0.state.lock();
        state.set.saturating_add(state.elapsed.saturating_sub(state.set_at))
    }

    pub(super) fn attach(&self, store: Weak<dyn TimeDriven>) {
        self.0.stores.lock().push(store);
    }

    /// An operating system that breaks its word: elapsed time jumps back.
    #[cfg(test)]
    pub(crate) fn break_elapsed(&self, back: Duration) {
        let mut state = self.0.state.lock();
        state.elapsed = state.elapsed.saturating_sub(micros_ceil(back));
    }

    /// Goes on to a moment of running time, doing what falls due. The caller moves the clock.
    fn go_on(&self, target: u64) {
        let mut sweeps = 0;
        while sweeps < SWEEPS_AT_ONE_MOMENT {
            let stores = self.living();
            let next = stores.iter().filter_map(|store| store.next_due()).min();
            let Some(due) = next.filter(|due| *due <= target) else { break };
            sweeps = if due > self.running() { 0 } else { sweeps + 1 };
            self.run_to(due);
            for store in stores {
                if store.next_due().is_some_and(|due| due <= self.running()) {
                    store.sweep_due();
                }
            }
        }
        self.run_to(target);
    }

    /// Never backwards, whatever a store takes for its next due.
    fn run_to(&self, moment: u64) {
        let mut state = self.0.state.lock();
        let by = moment.saturating_sub(state.running);
        state.running += by;
        state.elapsed = state.elapsed.saturating_add(by);
    }

    /// The stores that are still open, in the order in which they were attached.
    fn living(&self) -> Vec<Arc<dyn TimeDriven>> {
        let mut stores = self.0.stores.lock();
        stores.retain(|store| store.strong_count() > 0);
        stores.iter().filter_map(Weak::upgrade).collect()
    }
}

impl Default for ManualClock {
    fn default() -> ManualClock {
        ManualClock::new()
    }
}

impl fmt::Debug for ManualClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ManualClock").field("now", &self.now()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;

    /// Has its dues done at the moments noted; may put up new ones while sweeping.
    struct ScheduledStore {
        clock: ManualClock,
        name: &'static str,
        dues: Mutex<Vec<u64>>,
        every: Option<u64>,
        log: Arc<Mutex<Vec<(&'static str, u64)>>>,
    }

    impl TimeDriven for ScheduledStore {
        fn next_due(&self) -> Option<u64> {
            self.dues.lock().iter().min().map(|due| *due.max(&self.clock.running()))
        }

        fn sweep_due(&self) {
            let now = self.clock.running();
            let mut dues = self.dues.lock();
            dues.retain(|due| *due > now);
            dues.extend(self.every.map(|every| now + every));
            self.log.lock().push((self.name, now));
        }
    }

    type Log = Arc<Mutex<Vec<(&'static str, u64)>>>;

    fn attach(
        clock: &ManualClock,
        log: &Log,
        name: &'static str,
        dues: &[u64],
        every: Option<u64>,
    ) -> Arc<ScheduledStore> {
        let (clock, log, dues) = (clock.clone(), Arc::clone(log), Mutex::new(dues.to_vec()));
        let agenda = Arc::new(ScheduledStore { clock, name, dues, every, log });
        let store: Arc<dyn TimeDriven> = agenda.clone();
        Clock::from(&agenda.clock).attach(Arc::downgrade(&store));
        agenda
    }

    #[test]
    fn what_falls_due_is_done_in_order_each_at_its_moment() {
        let (clock, log) = (ManualClock::new(), Log::default());
        let _one = attach(&clock, &log, "one", &[30, 10, 100], None);
        let _two = attach(&clock, &log, "two", &[20], Some(20));
        clock.advance(Duration::from_micros(60));
        let expected = [("one", 10), ("two", 20), ("one", 30), ("two", 40), ("two", 60)];
        assert_eq!(*log.lock(), expected);
        assert_eq!(clock.now(), Duration::from_micros(60));
    }

    #[test]
    fn what_is_due_now_is_done_without_moving() {
        let (clock, log) = (ManualClock::new(), Log::default());
        let _one = attach(&clock, &log, "one", &[0], None);
        clock.advance(Duration::ZERO);
        assert_eq!(*log.lock(), [("one", 0)]);
        assert_eq!(clock.now(), Duration::ZERO);
    }

    #[test]
    fn a_store_that_is_always_due_does_not_stop_the_clock() {
        let (clock, log) = (ManualClock::new(), Log::default());
        let _one = attach(&clock, &log, "one", &[5], Some(0));
        clock.advance(Duration::from_micros(7));
        assert_eq!(clock.now(), Duration::from_micros(7));
        assert!(log.lock().iter().all(|(_, moment)| *moment == 5));
    }

    #[test]
    fn a_closed_store_is_forgotten() {
        let (clock, log) = (ManualClock::new(), Log::default());
        drop(attach(&clock, &log, "one", &[1], None));
        clock.advance(Duration::from_secs(1));
        assert!(log.lock().is_empty());
        assert!(clock.0.stores.lock().is_empty());
    }

    #[test]
    fn a_manual_clock_starts_where_it_is_told() {
        assert_eq!(Clock::from(ManualClock::new()).wall(), 1_767_225_600_000_000);
        let manual = ManualClock::at(Duration::from_secs(5));
        let clock = Clock::from(&manual);
        manual.advance(Duration::from_secs(2));
        assert_eq!(
            (clock.wall(), clock.running(), clock.elapsed()),
            (7_000_000, 2_000_000, 2_000_000)
        );
        assert!(clock.is_manual() && !Clock::system().is_manual());
    }

    #[test]
    fn a_manual_clock_stops_at_the_end_of_time() {
        let clock = ManualClock::new();
        clock.advance(Duration::MAX);
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Duration::from_micros(u64::MAX));
        assert_eq!(Clock::from(clock).wall(), u64::MAX);
    }

    #[test]
    fn a_suspend_moves_elapsed_time_and_the_wall_but_not_running_time() {
        let manual = ManualClock::at(Duration::from_secs(100));
        let clock = Clock::from(&manual);
        manual.advance(Duration::from_secs(1));
        manual.suspend(Duration::from_secs(10));
        manual.advance(Duration::from_secs(1));
        let shown = (clock.running(), clock.elapsed(), clock.wall());
        assert_eq!(shown, (2_000_000, 12_000_000, 112_000_000));
        assert_eq!(manual.now(), Duration::from_secs(12));
    }

    #[test]
    fn a_wall_clock_that_is_set_goes_on_from_there_and_moves_nothing_else() {
        let manual = ManualClock::at(Duration::from_secs(100));
        let clock = Clock::from(&manual);
        manual.advance(Duration::from_secs(1));
        manual.set_wall(Duration::from_secs(7));
        manual.advance(Duration::from_secs(1));
        manual.suspend(Duration::from_secs(1));
        assert_eq!(clock.wall(), 9_000_000);
        assert_eq!((clock.running(), clock.elapsed()), (2_000_000, 3_000_000));
        manual.set_wall(Duration::MAX);
        manual.advance(Duration::from_secs(1));
        assert_eq!(clock.wall(), u64::MAX);
    }
}
