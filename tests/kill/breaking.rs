//! The named moments at which a child breaks off: in hooks that the store calls in the middle of
//! its work, and in the calls to its file, each on the thread that makes it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tubewell::{Draft, Driver, Load, Storage, Store, Traits};

use crate::dice::Dice;
use crate::parent::Job;

/// While a driver is asked for an order key or for admission, in the middle of a put; in the
/// callback for changes; in a thread that holds a task. Then in the calls to the file, by the
/// thread that makes them (a caller who leads a commit, the writer, the sweeper, the thread of the
/// callbacks) and by the call: before a commit's first write, before any other, half way through
/// one, after the writes and before the sync, after the sync and before anybody has an answer.
pub const MOMENTS: [&str; 26] = [
    "order",
    "admit",
    "callback",
    "holding",
    "caller-first",
    "caller-write",
    "caller-half",
    "caller-sync",
    "caller-synced",
    "caller-read",
    "writer-first",
    "writer-write",
    "writer-half",
    "writer-sync",
    "writer-synced",
    "writer-read",
    "sweeper-first",
    "sweeper-write",
    "sweeper-half",
    "sweeper-sync",
    "sweeper-synced",
    "sweeper-read",
    "events-first",
    "events-half",
    "events-sync",
    "events-synced",
];

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

    /// Whether it is in a call to the file that this thread of the store makes.
    pub fn is_of(&self, thread: &str) -> bool {
        self.name.split_once('-').is_some_and(|(of, _)| of == thread)
    }

    fn is_of_storage(&self) -> bool {
        self.name.contains('-')
    }
}

/// Opens the child's store, with options that differ from life to life.
pub fn open(job: &Job, moment: &Moment) -> Store {
    let mut dice = Dice::apart(job.seed, 99);
    let (mut cache, mut rows) = (dice.pick(&[0, 100 << 10, 4 << 20]), dice.pick(&[4, 100, 65_536]));
    if moment.name.ends_with("-read") {
        cache = 0;
    }
    if moment.is_of("sweeper") {
        // Then the sweeper, too, finds no room and leads commits.
        rows = 4;
    }
    let own = OwnDriver(moment.clone());
    let options = Store::options().cache_size(cache).max_pending(rows, 1 << 20).driver(own);
    if moment.is_of_storage() {
        let mut how = File::options();
        let file = how.read(true).write(true).create(true).open(&job.path).unwrap();
        let written = AtomicBool::new(false);
        options.open_on(Box::new(Breaking { file, moment: moment.clone(), written })).unwrap()
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
struct Breaking {
    file: File,
    moment: Moment,
    /// Something was written since the last sync.
    written: AtomicBool,
}

impl Breaking {
    fn comes(&self, call: &str) -> bool {
        let thread = std::thread::current();
        let own = thread.name().and_then(|name| name.strip_prefix("tubewell-"));
        let thread = own.unwrap_or("caller");
        self.moment.is_of(thread) && self.moment.comes(&format!("{thread}-{call}"))
    }

    fn pass(&self, call: &str) {
        if self.comes(call) {
            std::process::abort();
        }
    }
}

impl Storage for Breaking {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.pass("read");
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.pass("sync");
        self.file.sync_data()?;
        self.written.store(false, Ordering::Relaxed);
        self.pass("synced");
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let first = !self.written.swap(true, Ordering::Relaxed);
        self.pass(if first { "first" } else { "write" });
        if self.comes("half") {
            self.file.write_all_at(&data[..data.len() / 2], offset)?;
            std::process::abort();
        }
        self.file.write_all_at(data, offset)
    }
}
