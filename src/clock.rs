//! Time: the only module that asks the operating system for it, and its double for tests.
//!
//! Two lines of time, both in microseconds and neither ever running backwards. *Running* time
//! stands still while the machine sleeps; it is what claims and waits are measured on, so that a
//! lid that closes does not take a worker's tasks away. *Elapsed* time goes on; it is what delays
//! and times to live are measured on. The *wall* clock can be set by anyone and is only read when
//! a store is opened.

mod manual;

use std::sync::Weak;

pub use manual::ManualClock;
pub(crate) use manual::TimeDriven;

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
            Source::System => system::running(),
            Source::Manual(clock) => clock.running(),
        }
    }

    /// Microseconds on the line that counts suspend; since another arbitrary moment.
    pub(crate) fn elapsed(&self) -> u64 {
        match &self.0 {
            Source::System => system::elapsed(),
            Source::Manual(clock) => clock.elapsed(),
        }
    }

    /// Microseconds since 1970, or 0 if the clock is set before that.
    pub(crate) fn wall(&self) -> u64 {
        match &self.0 {
            Source::System => system::wall(),
            Source::Manual(clock) => clock.wall(),
        }
    }

    /// Whether time moves only by the methods of a [`ManualClock`]; nobody need wait for it then.
    pub(crate) fn is_manual(&self) -> bool {
        matches!(self.0, Source::Manual(_))
    }

    /// Has a store do what falls due whenever a manual clock moves. The system's clock needs no
    /// telling.
    pub(crate) fn attach(&self, store: Weak<dyn TimeDriven>) {
        if let Source::Manual(clock) = &self.0 {
            clock.attach(store);
        }
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

impl Default for Clock {
    fn default() -> Clock {
        Clock::system()
    }
}

/// The clocks of the operating system.
#[cfg(not(feature = "_shuttle"))]
mod system {
    use std::time::{Duration, SystemTime, UNIX_EPOCH};

    // The same clock as std's `Instant`, without its arithmetic: every call reads it.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    pub(super) fn running() -> u64 {
        unix_clock(rustix::time::ClockId::Monotonic)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android")))]
    #[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
    pub(super) fn running() -> u64 {
        static ORIGIN: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
        micros_floor(ORIGIN.get_or_init(std::time::Instant::now).elapsed())
    }

    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    pub(super) fn elapsed() -> u64 {
        use rustix::time::ClockId;

        // Apple's monotonic clock is the one that counts suspend; its std clock does not.
        #[cfg(target_vendor = "apple")]
        let clock = ClockId::Monotonic;
        #[cfg(not(target_vendor = "apple"))]
        let clock = ClockId::Boottime;
        unix_clock(clock)
    }

    #[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
    pub(super) fn elapsed() -> u64 {
        running()
    }

    #[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
    fn unix_clock(clock: rustix::time::ClockId) -> u64 {
        let now = rustix::time::clock_gettime(clock);
        let (seconds, nanos) = (u64::try_from(now.tv_sec), u64::try_from(now.tv_nsec));
        seconds.unwrap_or(0).saturating_mul(1_000_000).saturating_add(nanos.unwrap_or(0) / 1000)
    }

    #[expect(clippy::disallowed_methods, reason = "this is where time comes from")]
    pub(super) fn wall() -> u64 {
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, micros_floor)
    }

    fn micros_floor(duration: Duration) -> u64 {
        u64::try_from(duration.as_micros()).unwrap_or(u64::MAX)
    }
}

/// The modelled time of the schedule explorer.
#[cfg(feature = "_shuttle")]
mod system {
    pub(in crate::clock) use crate::sync::explored::{now as elapsed, now as running, now as wall};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_system_clock_does_not_run_backwards() {
        let clock = Clock::system();
        let first = (clock.running(), clock.elapsed());
        let second = (clock.running(), clock.elapsed());
        assert!(first.0 <= second.0 && first.1 <= second.1);
        assert!(clock.wall() > 1_767_225_600_000_000 / 2);
    }
}
