//! A store in a file that is opened again and again on one clock.

use std::time::Duration;

use tempfile::TempDir;
use tubewell::{FIFOTTL, ManualClock, Put, Store, StoreOptions, Tube, TubeOptions};

pub const HOUR: Duration = Duration::from_secs(3600);
pub const DAY: Duration = Duration::from_secs(86_400);
pub const YEAR: Duration = Duration::from_secs(365 * 86_400);
pub const MICRO: Duration = Duration::from_micros(1);
/// 2026-01-01, where the clocks begin.
pub const START: Duration = Duration::from_secs(1_767_225_600);

pub struct Bench {
    pub clock: ManualClock,
    folder: TempDir,
}

impl Bench {
    pub fn new() -> Bench {
        Bench { clock: ManualClock::at(START), folder: TempDir::new().unwrap() }
    }

    pub fn options(&self) -> StoreOptions {
        Store::options().clock(&self.clock)
    }

    /// Opens the store, and does what has fallen due.
    pub fn open(&self) -> Life {
        self.open_with(self.options())
    }

    pub fn open_with(&self, options: StoreOptions) -> Life {
        let store = options.open(self.folder.path().join("store")).unwrap();
        let tube = store.create_tube("work", FIFOTTL, TubeOptions::new().if_not_exists(true));
        self.clock.advance(Duration::ZERO);
        Life { tube: tube.unwrap(), store }
    }

    /// The machine is off for so long.
    pub fn off(&self, time: Duration) {
        self.clock.advance(time);
    }

    /// A life that ends at once; the time at which it began on its line.
    pub fn visit(&self) -> Duration {
        let life = self.open();
        let line = life.line();
        life.end();
        line
    }
}

/// The store between one open and the next close.
pub struct Life {
    pub tube: Tube,
    pub store: Store,
}

impl Life {
    pub fn put(&self, body: &str, put: impl FnOnce(Put) -> Put) -> u64 {
        self.tube.put(put(Put::new(body))).unwrap().id
    }

    /// The bodies of the tasks that can be taken, in order; they are acked.
    pub fn take_all(&self) -> Vec<String> {
        std::iter::from_fn(|| self.tube.try_take().unwrap())
            .map(|claim| {
                let body = String::from_utf8_lossy(claim.data()).into_owned();
                claim.ack().unwrap();
                body
            })
            .collect()
    }

    /// Where the time line stands.
    pub fn line(&self) -> Duration {
        self.store.clock_report().line
    }

    /// What the wall clock showed, if it was not believed.
    pub fn doubted(&self) -> Option<Duration> {
        self.store.clock_report().doubted
    }

    /// Ready and delayed tasks.
    pub fn there(&self) -> (u64, u64) {
        let tasks = self.tube.statistics().unwrap().tasks;
        (tasks.ready, tasks.delayed)
    }

    pub fn end(self) {
        assert_eq!(self.store.verify().unwrap(), [""; 0]);
        self.store.close().unwrap();
    }
}
