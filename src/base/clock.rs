//! Clocks: the only module that reads the time of the operating system, and a manual clock for
//! tests.
//!
//! A store uses two monotonic clocks, both in microseconds. *Running* time stands still while the
//! machine is suspended. Claims, waits and session grace use it, so a suspend does not expire the
//! claims of a worker. *Elapsed* time includes suspends. Delays and ttl use it. The *wall* clock
//! can be set by the user. A store reads it when it is opened, for tasks that wait for a moment of
//! that clock, and to show when something has happened.

mod manual;

use std::sync::Weak;

pub use manual::ManualClock;
pub(crate) use manual::TimeDriven;

/// The source of time of a store: the operating system's clocks, or a [`ManualClock`].
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    System,
    Manual(ManualClock),
}

impl Clock {
    /// The clocks of the operating system. This is the default of a store.
    #[must_use]
    pub fn system() -> Clock {
        Clock(Source::System)
    }

    /// Microseconds since an arbitrary moment, suspends excluded.
    pub(crate) fn running(&self) -> u64 {
        match &self.0 {
            Source::System => system::running(),
            Source::Manual(clock) => clock.running(),
        }
    }

    /// Microseconds since another arbitrary moment, suspends included.
    pub(crate) fn elapsed(&self) -> u64 {
        match &self.0 {
            Source::System => system::elapsed(),
            Source::Manual(clock) => clock.elapsed(),
        }
    }

    /// Microseconds since 1970 UTC, or 0 if the clock is set before that.
    pub(crate) fn wall(&self) -> u64 {
        match &self.0 {
            Source::System => system::wall(),
            Source::Manual(clock) => clock.wall(),
        }
    }

    /// Whether time advances only by the methods of a [`ManualClock`].
    pub(crate) fn is_manual(&self) -> bool {
        matches!(self.0, Source::Manual(_))
    }

    /// Registers a store with a manual clock, which then sweeps the store whenever it advances.
    /// Does nothing for the system's clock: the store has a sweeper thread then.
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

    // The clock of std's `Instant` without its arithmetic: every call reads it.
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

        // Apple's monotonic clock includes suspends; the clock of std's `Instant` there does not.
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
    use crate::base::micros::micros_ceil;
    use crate::base::sync::explored;

    pub(in crate::base::clock) fn elapsed() -> u64 {
        micros_ceil(explored::now())
    }

    pub(in crate::base::clock) use self::{elapsed as running, elapsed as wall};
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn system_clock_does_not_run_backwards() {
        let clock = Clock::system();
        let first = (clock.running(), clock.elapsed());
        let second = (clock.running(), clock.elapsed());
        assert!(first.0 <= second.0 && first.1 <= second.1);
        assert!(clock.wall() > 1_767_225_600_000_000 / 2);
    }
}
