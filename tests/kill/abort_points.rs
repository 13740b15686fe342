//! The named points at which a child can abort: in the hooks that the store calls during its work,
//! and in the calls to its file, by the thread that makes them.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tubewell::Store;
use tubewell::driver::{Draft, Driver, Load, Traits};
use tubewell::expert::Storage;

use crate::process::Job;
use crate::rng::Rng;

/// All abort points.
///
/// The first four are in user code: a driver's `order` and `admit` during a put, the callback for
/// task changes, and a thread that holds a claim.
///
/// The others are in calls to the file: thread, then call. The thread is a caller that leads a
/// commit, the writer, the sweeper, the callback thread (`events`), or the thread that makes
/// checkpoints. The call is the first write since a sync, another write, half of a write, after a
/// write (before the result is returned), before a sync, after a sync, or a read.
pub const ABORT_POINTS: [&str; 33] = [
    "order",
    "admit",
    "callback",
    "holding",
    "caller-first",
    "caller-write",
    "caller-half",
    "caller-wrote",
    "caller-sync",
    "caller-synced",
    "caller-read",
    "writer-first",
    "writer-write",
    "writer-half",
    "writer-wrote",
    "writer-sync",
    "writer-synced",
    "writer-read",
    "sweeper-first",
    "sweeper-write",
    "sweeper-half",
    "sweeper-wrote",
    "sweeper-sync",
    "sweeper-synced",
    "sweeper-read",
    "events-first",
    "events-half",
    "events-sync",
    "events-synced",
    "checkpoint-half",
    "checkpoint-wrote",
    "checkpoint-sync",
    "checkpoint-synced",
];

/// The abort points for children that call no flushed tube. A caller writes the records; the sync
/// is that of the later flush, of a checkpoint, or of the open.
pub const WRITTEN_POINTS: [&str; 17] = [
    "holding",
    "caller-first",
    "caller-write",
    "caller-half",
    "caller-wrote",
    "caller-sync",
    "caller-synced",
    "writer-half",
    "writer-wrote",
    "writer-sync",
    "writer-synced",
    "sweeper-first",
    "sweeper-wrote",
    "checkpoint-half",
    "checkpoint-wrote",
    "checkpoint-sync",
    "checkpoint-synced",
];

/// The name of the custom driver, whose hooks have abort points.
pub const CUSTOM_DRIVER: &str = "custom";

/// The point at which a child aborts, if any.
#[derive(Clone, Debug)]
pub struct AbortPoint {
    name: String,
    /// How many times the point is still to be reached.
    left: Arc<AtomicU64>,
}

impl AbortPoint {
    /// Parses `name:nth`. The child aborts when it reaches the point for the nth time. Without
    /// `nth` it never aborts.
    pub fn parse(mode: &str) -> AbortPoint {
        let (name, nth) = mode.split_once(':').unwrap_or((mode, "0"));
        AbortPoint { name: name.to_owned(), left: Arc::new(AtomicU64::new(nth.parse().unwrap())) }
    }

    fn is_reached(&self, name: &str) -> bool {
        self.name == name && self.left.fetch_sub(1, Ordering::Relaxed) == 1
    }

    pub fn abort_if_reached(&self, name: &str) {
        if self.is_reached(name) {
            std::process::abort();
        }
    }

    /// Whether the point is in a call to the file by this thread of the store.
    pub fn is_in_thread(&self, thread: &str) -> bool {
        self.name.split_once('-').is_some_and(|(of, _)| of == thread)
    }

    fn is_in_storage(&self) -> bool {
        self.name.contains('-')
    }
}

/// Opens the child's store, with options drawn from the seed.
pub fn open(job: &Job, point: &AbortPoint) -> Store {
    let mut rng = Rng::for_part(job.seed, 99);
    let (mut cache, mut rows) = (rng.pick(&[0, 100 << 10, 4 << 20]), rng.pick(&[4, 100, 65_536]));
    if point.name.ends_with("-read") {
        cache = 0;
    }
    if point.is_in_thread("sweeper") {
        // A small limit fills the write buffer often, so that the sweeper has to lead commits.
        rows = 4;
    }
    let driver = CustomDriver(point.clone());
    let options = Store::options().cache_size(cache).max_pending(rows, 1 << 20).driver(driver);
    if point.is_in_storage() {
        let mut how = File::options();
        let file = how.read(true).write(true).create(true).open(&job.path).unwrap();
        let dirty = AtomicBool::new(false);
        options.open_on(Box::new(AbortingFile { file, point: point.clone(), dirty })).unwrap()
    } else {
        options.open(&job.path).unwrap()
    }
}

#[derive(Debug)]
pub struct CustomDriver(pub AbortPoint);

impl Driver for CustomDriver {
    fn name(&self) -> &str {
        CUSTOM_DRIVER
    }

    fn traits(&self) -> Traits {
        Traits { timed: true, sub_queued: false, bounded: false }
    }

    fn order(&self, task: &Draft<'_>) -> u64 {
        self.0.abort_if_reached("order");
        u64::from(task.priority)
    }

    fn admit(&self, _: &Load) -> bool {
        self.0.abort_if_reached("admit");
        true
    }
}

/// A file whose calls have abort points.
#[derive(Debug)]
struct AbortingFile {
    file: File,
    point: AbortPoint,
    /// Whether bytes were written since the last sync.
    dirty: AtomicBool,
}

impl AbortingFile {
    fn is_reached(&self, call: &str) -> bool {
        let thread = std::thread::current();
        let of_store = thread.name().and_then(|name| name.strip_prefix("tubewell-"));
        let thread = of_store.unwrap_or("caller");
        self.point.is_in_thread(thread) && self.point.is_reached(&format!("{thread}-{call}"))
    }

    fn abort_if_reached(&self, call: &str) {
        if self.is_reached(call) {
            std::process::abort();
        }
    }
}

impl Storage for AbortingFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.abort_if_reached("read");
        self.file.read_exact_at(out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.file.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.abort_if_reached("sync");
        self.file.sync_data()?;
        self.dirty.store(false, Ordering::Relaxed);
        self.abort_if_reached("synced");
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let first = !self.dirty.swap(true, Ordering::Relaxed);
        self.abort_if_reached(if first { "first" } else { "write" });
        if self.is_reached("half") {
            self.file.write_all_at(&data[..data.len() / 2], offset)?;
            std::process::abort();
        }
        self.file.write_all_at(data, offset)?;
        self.abort_if_reached("wrote");
        Ok(())
    }
}
