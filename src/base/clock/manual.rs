//! A clock that a test advances.
//!
//! Its time never runs backwards, and it advances by its own methods only.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use crate::base::micros::{duration, micros_ceil};
use crate::base::sync::Mutex;

/// A clock that advances only when told to, for deterministic tests of delays, ttl and timeouts.
///
/// Pass it to [`StoreOptions::clock`](crate::StoreOptions::clock) when a store is opened.
/// [`advance`](Self::advance) processes everything that falls due in the interval, in order and
/// each at its own moment, before it returns: delays elapse, tasks and claims expire, waits time
/// out. A test does not need to sleep.
///
/// [`suspend`](Self::suspend) simulates a machine that is suspended. [`set_wall`](Self::set_wall)
/// simulates a wall clock that is set, or that lost its battery.
///
/// Clones are the same clock. Several stores may share one.
///
/// # Example: advance by an hour
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
    /// Held while the clock is advanced. Readers do not need it.
    advancing: Mutex<()>,
}

/// The time of a clock, in microseconds.
#[derive(Clone, Copy, Debug)]
struct ClockState {
    running: u64,
    /// As `running`, plus all suspends.
    elapsed: u64,
    /// What the wall clock showed when `elapsed` was `set_at`.
    set: u64,
    set_at: u64,
}

/// 2026-01-01 00:00:00 UTC: a fixed moment, so that tests are repeatable.
const DEFAULT_START: Duration = Duration::from_secs(1_767_225_600);

/// Sweeps at one moment after which the clock advances all the same, so that a store that is always
/// due by a defect cannot stop it. A correct store needs far fewer.
const MAX_SWEEPS_PER_MOMENT: u32 = 1_000_000;

/// A store, as a manual clock uses it.
pub(crate) trait TimeDriven: Send + Sync {
    /// The next moment at which something falls due, on running time and not before now.
    fn next_due(&self) -> Option<u64>;

    /// Processes everything that is due.
    fn sweep_due(&self);
}

impl ManualClock {
    /// A clock whose wall clock starts at the beginning of 2026, UTC.
    #[must_use]
    pub fn new() -> ManualClock {
        ManualClock::at(DEFAULT_START)
    }

    /// A clock whose wall clock starts at `wall` after the beginning of 1970, UTC. Use it to test
    /// how a store that is opened again treats a wall clock that has changed.
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
            advancing: Mutex::new(()),
        }))
    }

    /// Advances the clock, and returns when everything that fell due in the interval is processed.
    ///
    /// Each event is processed with the clock at the moment at which it is due, the end of the
    /// interval included. `by` is rounded up to microseconds. Zero processes what is due now.
    ///
    /// Blocks while another thread advances the clock, and while a store flushes what fell due.
    /// Must not be called from a callback of such a store: that is a deadlock.
    pub fn advance(&self, by: Duration) {
        let _advancing = self.0.advancing.lock();
        self.advance_to(self.running().saturating_add(micros_ceil(by)));
    }

    /// Simulates a suspend of the machine, and returns when everything that fell due in it is
    /// processed.
    ///
    /// Elapsed time and the wall clock advance; running time stands still. Delays elapse and tasks
    /// expire, but only after the suspend. Claims, waits and session grace do not age. Blocks as
    /// [`advance`](Self::advance) does.
    ///
    /// # Example: a suspend of eight hours
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Put, Store};
    ///
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open_in_memory()?;
    /// let jobs = store.tube("jobs")?;
    /// jobs.put(Put::new("half done").ttr(Duration::from_secs(60)))?;
    /// let job = jobs.try_take()?.unwrap();
    /// jobs.put(Put::new("tomorrow").delay(Duration::from_secs(6 * 3600)))?;
    ///
    /// clock.suspend(Duration::from_secs(8 * 3600));
    /// job.ack()?; // the claim has not expired
    /// assert_eq!(jobs.try_take()?.unwrap().body(), b"tomorrow");
    /// # Ok::<(), tubewell::Error>(())
    /// ```
    pub fn suspend(&self, by: Duration) {
        let _advancing = self.0.advancing.lock();
        {
            let mut state = self.0.state.lock();
            state.elapsed = state.elapsed.saturating_add(micros_ceil(by));
        }
        self.advance_to(self.running());
    }

    /// Sets the wall clock to `wall` after the beginning of 1970, UTC. It advances from there.
    ///
    /// In an open store only the tasks with a moment ([`Put::not_before`](crate::Put::not_before))
    /// follow it, from the next [`advance`](Self::advance) on, which may be one by zero, and the times
    /// that are shown, such as [`put_at`](crate::TaskInfo::put_at). Nothing else falls due earlier or
    /// later: the store reads the wall clock for it only when it is opened.
    ///
    /// # Example: a clock that lost its battery
    /// ```
    /// use std::time::Duration;
    /// use tubewell::{ManualClock, Put, Store};
    ///
    /// # let dir = tempfile::tempdir()?;
    /// # let path = dir.path().join("store");
    /// let clock = ManualClock::new();
    /// let store = Store::options().clock(&clock).open(&path)?;
    /// let jobs = store.tube("jobs")?;
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

    /// The time by which the clock has advanced since its start, suspends included.
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

    /// Simulates a faulty operating system: elapsed time jumps back.
    #[cfg(test)]
    pub(crate) fn set_elapsed_back(&self, back: Duration) {
        let mut state = self.0.state.lock();
        state.elapsed = state.elapsed.saturating_sub(micros_ceil(back));
    }

    /// Advances to a moment of running time and processes what falls due. The caller holds the lock
    /// `advancing`.
    fn advance_to(&self, target: u64) {
        let mut sweeps = 0;
        while sweeps < MAX_SWEEPS_PER_MOMENT {
            let stores = self.open_stores();
            let next = stores.iter().filter_map(|store| store.next_due()).min();
            let Some(due) = next.filter(|due| *due <= target) else { break };
            sweeps = if due > self.running() { 0 } else { sweeps + 1 };
            self.set_running(due);
            for store in stores {
                if store.next_due().is_some_and(|due| due <= self.running()) {
                    store.sweep_due();
                }
            }
        }
        self.set_running(target);
    }

    /// Sets running time, and advances elapsed time as much. A moment in the past changes nothing.
    fn set_running(&self, moment: u64) {
        let mut state = self.0.state.lock();
        let by = moment.saturating_sub(state.running);
        state.running += by;
        state.elapsed = state.elapsed.saturating_add(by);
    }

    /// The stores that are still open, in the order in which they were attached.
    fn open_stores(&self) -> Vec<Arc<dyn TimeDriven>> {
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
    use crate::base::clock::Clock;

    /// Falls due at the given moments, and logs each sweep. With `every`, each sweep adds a due.
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
        let attached = Arc::new(ScheduledStore { clock, name, dues, every, log });
        let store: Arc<dyn TimeDriven> = attached.clone();
        Clock::from(&attached.clock).attach(Arc::downgrade(&store));
        attached
    }

    #[test]
    fn advance_processes_dues_in_order_at_their_moments() {
        let (clock, log) = (ManualClock::new(), Log::default());
        let _one = attach(&clock, &log, "one", &[30, 10, 100], None);
        let _two = attach(&clock, &log, "two", &[20], Some(20));
        clock.advance(Duration::from_micros(60));
        let expected = [("one", 10), ("two", 20), ("one", 30), ("two", 40), ("two", 60)];
        assert_eq!(*log.lock(), expected);
        assert_eq!(clock.now(), Duration::from_micros(60));
    }

    #[test]
    fn advance_by_zero_processes_what_is_due_now() {
        let (clock, log) = (ManualClock::new(), Log::default());
        let _one = attach(&clock, &log, "one", &[0], None);
        clock.advance(Duration::ZERO);
        assert_eq!(*log.lock(), [("one", 0)]);
        assert_eq!(clock.now(), Duration::ZERO);
    }

    #[test]
    fn always_due_store_does_not_stop_the_clock() {
        let (clock, log) = (ManualClock::new(), Log::default());
        let _one = attach(&clock, &log, "one", &[5], Some(0));
        clock.advance(Duration::from_micros(7));
        assert_eq!(clock.now(), Duration::from_micros(7));
        assert!(log.lock().iter().all(|(_, moment)| *moment == 5));
    }

    #[test]
    fn dropped_store_is_detached() {
        let (clock, log) = (ManualClock::new(), Log::default());
        drop(attach(&clock, &log, "one", &[1], None));
        clock.advance(Duration::from_secs(1));
        assert!(log.lock().is_empty());
        assert!(clock.0.stores.lock().is_empty());
    }

    #[test]
    fn manual_clock_starts_at_the_given_wall_time() {
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
    fn advance_saturates() {
        let clock = ManualClock::new();
        clock.advance(Duration::MAX);
        clock.advance(Duration::MAX);
        assert_eq!(clock.now(), Duration::from_micros(u64::MAX));
        assert_eq!(Clock::from(clock).wall(), u64::MAX);
    }

    #[test]
    fn suspend_advances_elapsed_and_wall_time_but_not_running_time() {
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
    fn set_wall_changes_the_wall_clock_only() {
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
