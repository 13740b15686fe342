//! What carries the bytes: the public seam for other media, and the counting of all that passes.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use redb::{BackendError, StorageBackend};

use crate::sync::InnerMutex;

/// A medium that a store can live on, for those who need another one than a file.
///
/// A store calls it from several threads at once. What it was told to keep must read back as it
/// was written, and everything written before a [`sync`](Storage::sync) that answered `Ok` must
/// outlast the process, the operating system and the power. A medium that promises less makes the
/// store's own promises that much weaker.
///
/// An error from any of these calls stops the store until it is reopened: answer one only when
/// trying again is of no use. The store takes no lock on the medium: keeping a second owner away
/// is the implementation's business.
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
    flushes: AtomicU64,
    writes: AtomicU64,
    bytes_written: AtomicU64,
    reads: AtomicU64,
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

    fn note<T>(&self, tried: &str, outcome: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &outcome {
            let failure = || format!("cannot {tried} {}: {error}", self.name);
            self.first_failure.lock().get_or_insert_with(failure);
        }
        outcome
    }
}

/// A medium that somebody else implements, as the engine wants it.
#[derive(Debug)]
pub(super) struct Foreign(pub(super) Box<dyn Storage>);

impl StorageBackend for Foreign {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

/// Any medium, with its traffic counted.
#[derive(Debug)]
pub(super) struct Counted<B> {
    inner: B,
    io: Arc<IoCounters>,
    unmeasured: AtomicBool,
}

impl<B: StorageBackend> Counted<B> {
    pub(super) fn new(inner: B, io: Arc<IoCounters>) -> Counted<B> {
        Counted { inner, io, unmeasured: AtomicBool::new(true) }
    }
}

impl<B: StorageBackend> StorageBackend for Counted<B> {
    fn len(&self) -> io::Result<u64> {
        // The engine measures first thing after locking, before it looks at the bytes.
        if self.unmeasured.swap(false, Ordering::Relaxed) && is_half_made(&self.inner)? {
            self.io.note("start afresh in", self.inner.set_len(0))?;
        }
        self.io.note("measure", self.inner.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.io.reads.fetch_add(1, Ordering::Relaxed);
        self.io.note("read", self.inner.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.io.note("resize", self.inner.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.io.flushes.fetch_add(1, Ordering::Relaxed);
        self.io.note("flush", self.inner.sync_data())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.io.writes.fetch_add(1, Ordering::Relaxed);
        let length = data.len() as u64;
        let written = self.io.bytes_written.fetch_add(length, Ordering::Relaxed) + length;
        if let Some(watcher) = self.io.watcher.get() {
            watcher(written);
        }
        self.io.note("write to", self.inner.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.io.note("close", self.inner.close())
    }

    // The locks go straight through: they are what refuses a second owner.

    fn try_lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.try_lock_range(from, to)
    }

    fn try_lock_shared_range(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.inner.try_lock_shared_range(from, to)
    }

    fn lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_range(from, to)
    }

    fn lock_shared_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.inner.lock_shared_range(from, to)
    }

    fn unlock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.inner.unlock_range(from, to)
    }

    fn query_lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<bool, BackendError> {
        self.inner.query_lock_range(from, to)
    }
}

const MAGIC: [u8; 9] = *b"redb\x1a\x0a\xa9\x0d\x0a";
const PAGE: usize = 4096;
const HEADER: usize = 320;
const LARGEST_NEW_FILE: u64 = 2 << 20;

/// Whether the making of a new file was cut short.
///
/// The engine writes its magic number last, so a process killed in between leaves a file that no
/// later open would accept, with nothing in it. Such a file is known by its zeros: all but the
/// header's, of which each byte of the magic number is right or still missing.
fn is_half_made(backend: &impl StorageBackend) -> io::Result<bool> {
    let len = backend.len()?;
    if len == 0 || len > LARGEST_NEW_FILE || len % PAGE as u64 != 0 {
        return Ok(false);
    }
    let mut page = [0; PAGE];
    backend.read(0, &mut page)?;
    let magic = &page[..MAGIC.len()];
    let header_fits = magic.iter().zip(&MAGIC).all(|(is, full)| *is == 0 || is == full)
        && page[10..12] == [0; 2]
        && (page[12..16] == [0; 4] || page[12..16] == [0, 0x10, 0, 0]);
    if *magic == MAGIC || !header_fits || page[HEADER..].iter().any(|byte| *byte != 0) {
        return Ok(false);
    }
    for offset in (PAGE as u64..len).step_by(PAGE) {
        backend.read(offset, &mut page)?;
        if page.iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
    }
    Ok(true)
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;

    use super::*;

    const NEW_FILE: u64 = 1 << 20;

    fn medium(start: &[u8], len: u64) -> InMemoryBackend {
        let medium = InMemoryBackend::new();
        medium.set_len(len).unwrap();
        medium.write(0, start).unwrap();
        medium
    }

    fn len_on_open(medium: InMemoryBackend) -> u64 {
        Counted::new(medium, IoCounters::new("it".into())).len().unwrap()
    }

    #[test]
    fn a_file_whose_making_was_cut_short_starts_afresh() {
        assert_eq!(len_on_open(medium(b"", NEW_FILE)), 0);
        assert_eq!(len_on_open(medium(b"\0\0\0\0\0\0\0\0\0\0\0\0\0\x10", NEW_FILE)), 0);
        assert_eq!(len_on_open(medium(b"redb\0\0\0\0\0\x04", NEW_FILE)), 0);
    }

    #[test]
    fn a_file_with_anything_in_it_is_left_alone() {
        assert_eq!(len_on_open(medium(&MAGIC, NEW_FILE)), NEW_FILE);
        assert_eq!(len_on_open(medium(b"text", NEW_FILE)), NEW_FILE);
        assert_eq!(len_on_open(medium(b"", 100)), 100);
        assert_eq!(len_on_open(medium(&[0; 8], 4 * NEW_FILE)), 4 * NEW_FILE);
        let late = medium(b"", NEW_FILE);
        late.write(NEW_FILE - 1, b"x").unwrap();
        assert_eq!(len_on_open(late), NEW_FILE);
    }

    #[test]
    fn the_first_failure_of_a_medium_is_remembered() {
        let io = IoCounters::new("the disk".into());
        let medium = Counted::new(InMemoryBackend::new(), Arc::clone(&io));
        assert_eq!(io.first_failure(), None);
        assert!(medium.write(10, b"past the end").is_err());
        assert!(medium.read(10, &mut [0; 4]).is_err());
        assert!(io.first_failure().unwrap().starts_with("cannot write to the disk: "));
        assert_eq!((io.writes(), io.bytes_written(), io.reads(), io.flushes()), (1, 12, 1, 0));
    }
}
