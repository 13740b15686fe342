//! The named moments at which a child breaks off: in hooks that the store calls in the middle of
//! its work.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tubewell::{Draft, Driver, Load, Storage, Store, Traits};

use crate::dice::Dice;
use crate::parent::Job;

/// While a driver is asked for an order key or for admission, in the middle of a put; in the
/// callback for changes; in a thread that holds a task; around calls to the file.
pub const MOMENTS: [&str; 8] =
    ["order", "admit", "callback", "holding", "write", "half", "sync", "synced"];

/// A driver of the child's own, in whose hooks it may break off.
pub const OWN: &str = "own";

/// When to break off, if ever.
#[derive(Clone, Debug)]
pub struct Moment {
    name: String,
    left: Arc<AtomicU64>,
}

impl Moment {
    /// From `name:nth`, or no moment at all.
    pub fn of(task: &str) -> Moment {
        let (name, nth) = task.split_once(':').unwrap_or((task, "0"));
        Moment { name: name.to_owned(), left: Arc::new(AtomicU64::new(nth.parse().unwrap())) }
    }

    fn comes(&self, name: &str) -> bool {
        self.name == name && self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    /// Does not return if this is the moment.
    pub fn pass(&self, name: &str) {
        if self.comes(name) {
            std::process::abort();
        }
    }

    fn is_of_storage(&self) -> bool {
        ["write", "half", "sync", "synced"].contains(&self.name.as_str())
    }
}

/// Opens the child's store, with options that differ from life to life.
pub fn open(job: &Job, moment: &Moment) -> Store {
    let mut dice = Dice::apart(job.seed, 99);
    let options = Store::options()
        .cache_size(dice.pick(&[0, 100 << 10, 4 << 20]))
        .max_pending(dice.pick(&[4, 100, 65_536]), 1 << 20)
        .driver(OwnDriver(moment.clone()));
    if moment.is_of_storage() {
        let mut how = File::options();
        let file = how.read(true).write(true).create(true).open(&job.path).unwrap();
        options.open_on(Box::new(Breaking(file, moment.clone()))).unwrap()
    } else {
        options.open(&job.path).unwrap()
    }
}

#[derive(Debug)]
pub struct OwnDriver(pub Moment);

impl Driver for OwnDriver {
    fn name(&self) -> &str {
        OWN
    }

    fn traits(&self) -> Traits {
        Traits { timed: true, sub_queued: false, bounded: false }
    }

    fn order(&self, task: &Draft<'_>) -> u64 {
        self.0.pass("order");
        u64::from(task.pri)
    }

    fn admit(&self, _: &Load) -> bool {
        self.0.pass("admit");
        true
    }
}

/// A plain file that a process may break off in.
#[derive(Debug)]
struct Breaking(File, Moment);

impl Storage for Breaking {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.1.pass("sync");
        self.0.sync_data()?;
        self.1.pass("synced");
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.1.pass("write");
        if self.1.comes("half") {
            self.0.write_all_at(&data[..data.len() / 2], offset)?;
            std::process::abort();
        }
        self.0.write_all_at(data, offset)
    }
}
