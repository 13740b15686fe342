//! Time: the only module that asks the operating system for it, and its double for tests.
//!
//! Two lines of time, both in microseconds and neither ever running backwards. *Running* time
//! stands still while the machine sleeps; it is what claims and waits are measured on, so that a
//! lid that closes does not take a worker's tasks away. *Elapsed* time goes on; it is what delays
//! and times to live are measured on. The *wall* clock can be set by anyone and is only read when
//! a store is opened.

use std::fmt;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;
#[cfg(not(shuttle))]
use std::{
    sync::OnceLock,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

#[cfg(shuttle)]
use crate::sync::explored::{now as system_elapsed, now as system_running, now as system_wall};
use crate::sync::{AtomicU64, Mutex};

/// The time that a store goes by: the system's, or a [`ManualClock`].
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(ManualClock),
}

impl Clock {
    /// The time of the operating system; what a store goes by unless told otherwise.
    #[must_use]
    pub fn system() -> Clock {
        Clock(Source::System)
    }

    /// Microseconds on the line that stands still in suspend; since an arbitrary moment.
    pub(crate) fn running(&self) -> u64 {
        match &self.0 {
            Source::System => system_running(),
            Source::Manual(clock) => clock.moment(),
        }
    }

    /// Microseconds on the line that counts suspend; since another arbitrary moment.
    pub(crate) fn elapsed(&self) -> u64 {
        match &self.0 {
            Source::System => system_elapsed(),
            Source::Manual(clock) => clock.moment(),
        }
    }

    /// Microseconds since 1970, or 0 if the clock is set before that.
    pub(crate) fn wall(&self) -> u64 {
        match &self.0 {
            Source::System => system_wall(),
            Source::Manual(clock) => clock.0.start.saturating_add(clock.moment()),
        }
    }

    /// Whether time moves only by [`ManualClock::advance`]; nobody need wait for it then.
    pub(crate) fn is_manual(&self) -> bool {
        matches!(self.0, Source::Manual(_))
    }

    /// Has a store do what falls due whenever a manual clock moves. The system's clock needs no
    /// telling.
    pub(crate) fn attach(&self, store: Weak<dyn Ticked>) {
        if let Source::Manual(clock) = &self.0 {
            clock.attach(store);
        }
    }
}

impl Default for Clock {
    fn default() -> Clock {
        Clock::system()
    }
}

impl From<ManualClock> for Clock {
    fn from(clock: ManualClock) -> Clock {
        Clock(Source::Manual(clock))
    }
}

impl From<&ManualClock> for Clock {
    fn from(clock: &ManualClock) -> Clock {
        clock.clone().into()
    }
}

/// What a manual clock moves: a store, as far as time concerns it.
pub(crate) trait Ticked: Send + Sync {
    /// When there is something to do next, on the running line and not before now.
    fn next_due(&self) -> Option<u64>;

    /// Does what is due.
    fn sweep_due(&self);
}

/// A clock that stands still until it is moved, for exact tests of anything that takes time.
///
/// Hand it to the stores of a test when they are opened. Moving it does everything that falls due
/// on the way, in order and each at its own moment, before the call returns: delays end, tasks
/// expire, claims and waits time out. Nothing else makes time pass, and no test needs to sleep.
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
    /// The wall clock at moment 0.
    start: u64,
    now: AtomicU64,
    stores: Mutex<Vec<Weak<dyn Ticked>>>,
    /// Held by whoever moves the clock; readers do without.
    moving: Mutex<()>,
}

/// 2026-01-01 00:00:00 UTC. Any day will do; the same one makes tests repeatable.
const DEFAULT_START: Duration = Duration::from_secs(1_767_225_600);

/// A store that is always due would stop the clock for ever; no sound one needs so many sweeps.
const SWEEPS_AT_ONE_MOMENT: u32 = 1_000_000;

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
            start: micros_ceil(wall),
            now: AtomicU64::new(0),
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
        let target = self.moment().saturating_add(micros_ceil(by));
        let mut sweeps = 0;
        while sweeps < SWEEPS_AT_ONE_MOMENT {
            let stores = self.living();
            let next = stores.iter().filter_map(|store| store.next_due()).min();
            let Some(due) = next.filter(|due| *due <= target) else { break };
            sweeps = if due > self.moment() { 0 } else { sweeps + 1 };
            self.set(due);
            for store in stores {
                if store.next_due().is_some_and(|due| due <= self.moment()) {
                    store.sweep_due();
                }
            }
        }
        self.set(target);
    }

    /// How far the clock has moved since its start.
    #[must_use]
    pub fn now(&self) -> Duration {
        duration(self.moment())
    }

    pub(crate) fn attach(&self, store: Weak<dyn Ticked>) {
        self.0.stores.lock().push(store);
    }

    fn moment(&self) -> u64 {
        self.0.now.load(Ordering::SeqCst)
    }

    /// Never backwards, whatever a store takes for its next due.
    fn set(&self, moment: u64) {
        self.0.now.fetch_max(moment, Ordering::SeqCst);
    }

    /// The stores that are still open, in the order in which they were attached.
    fn living(&self) -> Vec<Arc<dyn Ticked>> {
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

/// Whole microseconds, rounded up so that nothing fires early; what is too long is for ever.
pub(crate) fn micros_ceil(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos().div_ceil(1000)).unwrap_or(u64::MAX)
}

/// The inverse of [`micros_ceil`].
pub(crate) fn duration(micros: u64) -> Duration {
    Duration::from_micros(micros)
}

#[cfg(not(shuttle))]
#[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
fn system_running() -> u64 {
    static ORIGIN: OnceLock<Instant> = OnceLock::new();
    micros_floor(ORIGIN.get_or_init(Instant::now).elapsed())
}

#[cfg(all(any(target_os = "linux", target_os = "android", target_vendor = "apple"), not(shuttle)))]
fn system_elapsed() -> u64 {
    use rustix::time::{ClockId, clock_gettime};

    // Apple's monotonic clock is the one that counts suspend; its std clock does not.
    #[cfg(target_vendor = "apple")]
    let now = clock_gettime(ClockId::Monotonic);
    #[cfg(not(target_vendor = "apple"))]
    let now = clock_gettime(ClockId::Boottime);
    let micros = i128::from(now.tv_sec) * 1_000_000 + i128::from(now.tv_nsec) / 1000;
    u64::try_from(micros).unwrap_or(0)
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple", shuttle)))]
fn system_elapsed() -> u64 {
    system_running()
}

#[cfg(not(shuttle))]
#[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
fn system_wall() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros_floor)
}

#[cfg(not(shuttle))]
fn micros_floor(duration: Duration) -> u64 {
    u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Has its dues done at the moments noted; may put up new ones while sweeping.
    struct Agenda {
        clock: ManualClock,
        name: &'static str,
        dues: Mutex<Vec<u64>>,
        every: Option<u64>,
        log: Arc<Mutex<Vec<(&'static str, u64)>>>,
    }

    impl Ticked for Agenda {
        fn next_due(&self) -> Option<u64> {
            self.dues.lock().iter().min().map(|due| *due.max(&self.clock.moment()))
        }

        fn sweep_due(&self) {
            let now = self.clock.moment();
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
    ) -> Arc<Agenda> {
        let (clock, log, dues) = (clock.clone(), Arc::clone(log), Mutex::new(dues.to_vec()));
        let agenda = Arc::new(Agenda { clock, name, dues, every, log });
        let store: Arc<dyn Ticked> = agenda.clone();
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
    fn durations_round_up_and_never_overflow() {
        assert_eq!(micros_ceil(Duration::ZERO), 0);
        assert_eq!(micros_ceil(Duration::from_nanos(1)), 1);
        assert_eq!(micros_ceil(Duration::from_micros(1)), 1);
        assert_eq!(micros_ceil(Duration::from_nanos(1001)), 2);
        assert_eq!(micros_ceil(Duration::MAX), u64::MAX);
        assert_eq!(duration(1_500_000), Duration::from_millis(1500));
    }

    #[test]
    fn the_system_clock_does_not_run_backwards() {
        let clock = Clock::system();
        let first = (clock.running(), clock.elapsed());
        let second = (clock.running(), clock.elapsed());
        assert!(first.0 <= second.0 && first.1 <= second.1);
        assert!(clock.wall() > 1_767_225_600_000_000 / 2);
    }
}
