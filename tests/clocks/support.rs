//! A store in a file that is opened repeatedly on one clock.

use std::time::Duration;

use tempfile::TempDir;
use tubewell::{FIFOTTL, ManualClock, Put, Store, StoreOptions, Tube, TubeOptions};

pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(86_400);
pub const YEAR: Duration = Duration::from_secs(365 * 86_400);
pub const MICRO: Duration = Duration::from_micros(1);
/// 2026-01-01, the initial time of the clocks.
pub const START: Duration = Duration::from_secs(1_767_225_600);

/// The file of a store, and its clock.
pub struct StoreFile {
    pub clock: ManualClock,
    dir: TempDir,
}

impl StoreFile {
    pub fn new() -> StoreFile {
        StoreFile { clock: ManualClock::at(START), dir: TempDir::new().unwrap() }
    }

    pub fn options(&self) -> StoreOptions {
        Store::options().clock(&self.clock)
    }

    pub fn path(&self) -> std::path::PathBuf {
        self.dir.path().join("store")
    }

    /// Opens the store and processes what has fallen due.
    pub fn open(&self) -> Run {
        self.open_with(self.options())
    }

    pub fn open_with(&self, options: StoreOptions) -> Run {
        let store = options.open(self.dir.path().join("store")).unwrap();
        let tube = store.open_tube("work", TubeOptions::new().driver(FIFOTTL));
        self.clock.advance(Duration::ZERO);
        Run { tube: tube.unwrap(), store }
    }

    /// Advances the clock, whether the store is open or closed.
    pub fn advance(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// Opens the store and closes it immediately. Returns the position of the timeline.
    pub fn open_and_close(&self) -> Duration {
        let run = self.open();
        let timeline = run.timeline();
        run.close();
        timeline
    }
}

/// One run of the store, from open to close.
pub struct Run {
    pub tube: Tube,
    pub store: Store,
}

impl Run {
    pub fn put(&self, body: &str, put: impl FnOnce(Put) -> Put) -> u64 {
        self.tube.put(put(Put::new(body.into()))).unwrap().id
    }

    /// Takes and acks all tasks that can be taken. Returns their bodies in order.
    pub fn take_all(&self) -> Vec<String> {
        std::iter::from_fn(|| self.tube.try_take().unwrap())
            .map(|claim| {
                let body = String::from_utf8_lossy(claim.body()).into_owned();
                claim.ack().unwrap();
                body
            })
            .collect()
    }

    /// The position of the timeline.
    pub fn timeline(&self) -> Duration {
        self.store.admin().clock_report().unwrap().timeline
    }

    /// The wall clock at open, if the store does not trust it.
    pub fn untrusted(&self) -> Option<Duration> {
        self.store.admin().clock_report().unwrap().untrusted
    }

    /// The numbers of ready and delayed tasks.
    pub fn ready_and_delayed(&self) -> (u64, u64) {
        let tasks = self.tube.statistics().unwrap().tasks;
        (tasks.ready, tasks.delayed)
    }

    /// Verifies the store and closes it.
    pub fn close(self) {
        assert_eq!(self.store.admin().verify().unwrap(), [""; 0]);
        self.store.close().unwrap();
    }
}
