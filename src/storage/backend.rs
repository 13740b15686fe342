//! The public seam for other media, and the counting of all that goes to and from one.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::sync::InnerMutex;
use crate::user_code;

/// A medium that a store can live on, for those who need another one than a file.
///
/// A store calls it from several threads at once. What it was told to keep must read back as it
/// was written, and everything written before a [`sync`](Storage::sync) that answered `Ok` must
/// outlast the process, the operating system and the power. A medium that promises less makes the
/// store's own promises that much weaker.
///
/// An error from any of these calls, or a panic, makes the store unavailable. It tries again by itself, first
/// writing anew whatever was written since the last sync, since a failed sync leaves nobody
/// knowing what of it is safe. The store takes no lock on the medium: keeping a second owner away
/// is the implementation's business. None of these calls may call the store: it may hold a lock.
#[allow(clippy::len_without_is_empty, reason = "a medium of no bytes is nothing special")]
pub trait Storage: Debug + Send + Sync + 'static {
    /// The length in bytes. A new medium has none.
    ///
    /// # Errors
    /// The medium cannot tell.
    fn len(&self) -> io::Result<u64>;

    /// Fills `out` with the bytes from `offset` on, the latest written ones, flushed or not.
    ///
    /// # Errors
    /// The bytes cannot be read, or `offset` and the length of `out` reach past the end.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Makes the medium `len` bytes long. New bytes are zero; bytes past the new end are gone.
    ///
    /// # Errors
    /// There is no room for so many bytes, or the medium refused.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Returns when everything written, and the length, is safe from a power cut.
    ///
    /// # Errors
    /// That cannot be promised. What was written since the last success may or may not be safe.
    fn sync(&self) -> io::Result<()>;

    /// Writes all of `data` at `offset`, within the length. It need not be safe before the next
    /// [`sync`](Storage::sync); until then a power cut may keep any part of it. It must not touch
    /// the bytes beside it.
    ///
    /// # Errors
    /// Not all of it could be written. Any part of it may have been.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// How many bytes more it has room for; `None`, as here, if that is not known or does not
    /// matter. The store takes no more tasks when it comes to little.
    ///
    /// # Errors
    /// As `None`.
    fn available(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Holds room for so many bytes apart, instead of what was held before: for 0, gives it up.
    /// The store does that when it finds no room elsewhere, to have it for what must go on.
    /// A medium that has no need of it answers `Ok`, as this one does.
    ///
    /// # Errors
    /// Of kind [`StorageFull`](io::ErrorKind::StorageFull) or
    /// [`QuotaExceeded`](io::ErrorKind::QuotaExceeded): there is not so much room, and nothing
    /// more is held than before. Any other kind means that room cannot be held, and nothing else.
    fn hold_ballast(&self, bytes: u64) -> io::Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// From here on, reads answer what is on the medium itself, and not what a cache kept of
    /// writes that failed on their way there. Called after a sync, by a store whose last owner did
    /// not close it: some systems take pages for written that a failed flush did not write.
    ///
    /// A medium without such a cache answers `Ok`, as this one does.
    ///
    /// # Errors
    /// Not used: what cannot be dropped stays.
    fn drop_cache(&self) -> io::Result<()> {
        Ok(())
    }

    /// Lets go of whatever the medium holds. The last call that it gets.
    ///
    /// # Errors
    /// Letting go failed; the store is closed all the same.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }
}

/// What has gone to and from one medium since it was opened, and its first failure.
#[derive(Default)]
pub(crate) struct IoCounters {
    name: String,
    pub(super) flushes: AtomicU64,
    pub(super) writes: AtomicU64,
    pub(super) bytes_written: AtomicU64,
    pub(super) reads: AtomicU64,
    first_failure: InnerMutex<Option<String>>,
    watcher: OnceLock<Watcher>,
}

/// Told the bytes that have been written, after each write.
pub(crate) type Watcher = Box<dyn Fn(u64) + Send + Sync>;

impl Debug for IoCounters {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.debug_struct("IoCounters").field("name", &self.name).finish_non_exhaustive()
    }
}

impl IoCounters {
    pub(super) fn new(name: String) -> Arc<IoCounters> {
        Arc::new(IoCounters { name, ..IoCounters::default() })
    }

    /// The medium, as messages call it: the path of a file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Calls that made earlier writes safe from a power cut.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// Calls that wrote bytes.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Bytes that those calls wrote.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// Calls that read bytes, the engine's cache having missed.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// The first call that the medium refused: the engine remembers only that there was one.
    pub(crate) fn first_failure(&self) -> Option<String> {
        self.first_failure.lock().clone()
    }

    /// What the medium has refused until now was told, or was overcome.
    pub(super) fn forgive(&self) {
        *self.first_failure.lock() = None;
    }

    /// Has `watcher` told of every write from now on; the first one stays.
    pub(super) fn watch(&self, watcher: Watcher) {
        // A second watcher of one engine would be a mistake of ours, and harmless.
        let _ = self.watcher.set(watcher);
    }

    /// That many bytes have been written until now.
    pub(super) fn tell_watcher(&self, written: u64) {
        if let Some(watcher) = self.watcher.get() {
            // The engine takes a panic for damage.
            user_code::catch_panic(|| watcher(written));
        }
    }

    pub(super) fn note<T>(&self, tried: &str, outcome: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &outcome {
            let failure = || format!("cannot {tried} {}: {error}", self.name);
            self.first_failure.lock().get_or_insert_with(failure);
        }
        outcome
    }
}
