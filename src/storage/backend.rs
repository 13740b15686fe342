//! The public trait for custom storage, and the counters of the I/O on one medium.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use crate::base::sync::InnerMutex;
use crate::base::user_code;

/// The medium of a store, for applications that need something other than a file.
///
/// Pass an implementation to [`StoreOptions::open_on`](crate::StoreOptions::open_on). The store
/// calls it from several threads at the same time and relies on two guarantees:
///
/// * A read returns the bytes that were written last.
/// * Once [`sync`](Storage::sync) has returned `Ok`, everything written before it survives the
///   process, the operating system and a power cut.
///
/// If the storage guarantees less, so does the store.
///
/// An error or a panic in any of these calls makes the store unavailable. The store retries by
/// itself. If a sync has failed, it is open which of the bytes written since the last successful
/// sync are safe. So the store first syncs, calls [`drop_cache`](Storage::drop_cache), reads these
/// bytes and writes them again, syncs, calls `drop_cache`, and compares what it reads then.
///
/// The store takes no lock on the storage: the implementation must refuse a second owner. The
/// calls must not call the store, which may hold a lock.
///
/// # Example: a store in a vector
/// ```
/// use std::io;
/// use std::sync::Mutex;
/// use tubewell::expert::Storage;
/// use tubewell::Store;
///
/// #[derive(Debug, Default)]
/// struct InVector(Mutex<Vec<u8>>);
///
/// impl Storage for InVector {
///     fn len(&self) -> io::Result<u64> {
///         Ok(self.0.lock().unwrap().len() as u64)
///     }
///     fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
///         let bytes = self.0.lock().unwrap();
///         let part = bytes.get(offset as usize..).and_then(|rest| rest.get(..out.len()));
///         out.copy_from_slice(part.ok_or(io::ErrorKind::UnexpectedEof)?);
///         Ok(())
///     }
///     fn set_len(&self, len: u64) -> io::Result<()> {
///         self.0.lock().unwrap().resize(len as usize, 0);
///         Ok(())
///     }
///     fn sync(&self) -> io::Result<()> {
///         Ok(()) // a vector does not survive the process
///     }
///     fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
///         self.0.lock().unwrap()[offset as usize..][..data.len()].copy_from_slice(data);
///         Ok(())
///     }
/// }
///
/// let store = Store::options().open_on(Box::new(InVector::default()))?;
/// let mail = store.tube("mail")?;
/// mail.put("to: ann")?;
/// # assert!(mail.try_take()?.is_some());
/// # store.close()?;
/// # Ok::<(), tubewell::Error>(())
/// ```
#[allow(clippy::len_without_is_empty, reason = "a medium of no bytes is nothing special")]
#[doc(alias = "vfs")]
pub trait Storage: Debug + Send + Sync + 'static {
    /// Returns the length in bytes. A new medium has length 0.
    ///
    /// # Errors
    /// The length cannot be determined.
    fn len(&self) -> io::Result<u64>;

    /// Fills `out` with the bytes from `offset` on: those written last, flushed or not.
    ///
    /// # Errors
    /// The bytes cannot be read, or `offset` plus the length of `out` is beyond the end.
    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()>;

    /// Sets the length to `len` bytes. New bytes are zero; bytes beyond the new end are removed.
    ///
    /// # Errors
    /// There is not enough space, or the medium fails.
    fn set_len(&self, len: u64) -> io::Result<()>;

    /// Flushes: when it returns `Ok`, everything written before it and the length survive a power
    /// cut.
    ///
    /// # Errors
    /// The flush failed. What was written since the last successful sync may or may not be safe.
    fn sync(&self) -> io::Result<()>;

    /// Writes all of `data` at `offset`, within the length. The bytes need not be safe before the
    /// next [`sync`](Storage::sync); until then a power cut may keep any part of them. The write
    /// must not change the bytes beside them.
    ///
    /// # Errors
    /// Not all of `data` was written; any part of it may have been.
    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()>;

    /// Returns the free space in bytes, or `None` (the default) if it is unknown or does not
    /// matter. The store refuses puts when little space is left.
    ///
    /// # Errors
    /// The store treats an error as `None`.
    fn available(&self) -> io::Result<Option<u64>> {
        Ok(None)
    }

    /// Reserves `bytes` bytes of disk space as ballast, in place of the ballast reserved before; 0
    /// releases it. The default does nothing and returns `Ok`.
    ///
    /// When a write finds no space, the store releases the ballast, so that takes, acks and the
    /// sweeper can continue.
    ///
    /// # Errors
    /// [`StorageFull`](io::ErrorKind::StorageFull) or
    /// [`QuotaExceeded`](io::ErrorKind::QuotaExceeded): there is not enough space, and no more is
    /// reserved than before. The store treats any other kind as a medium that cannot reserve space,
    /// and works without ballast.
    fn hold_ballast(&self, bytes: u64) -> io::Result<()> {
        let _ = bytes;
        Ok(())
    }

    /// Drops cached bytes, so that later reads return what is on the medium itself. The default,
    /// for a medium without such a cache, does nothing and returns `Ok`. A storage on a file must
    /// implement it, with `POSIX_FADV_DONTNEED` on Linux.
    ///
    /// The store calls it after a sync: when the last owner did not close the store, and before and
    /// after it repairs what a failed sync may have lost. Some operating systems treat pages as
    /// written that a failed flush did not write. Bytes that no sync has covered may be lost.
    ///
    /// # Errors
    /// The store ignores an error: the cache stays.
    fn drop_cache(&self) -> io::Result<()> {
        Ok(())
    }

    /// Releases the medium. This is the last call.
    ///
    /// # Errors
    /// The medium could not be released; the store is closed all the same.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }
}

/// The I/O on one medium since it was opened: counters, and the first failure.
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

/// Called at each write with the number of bytes written so far.
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

    /// The name of the medium in messages: the path of a file.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The number of flushes.
    pub(crate) fn flushes(&self) -> u64 {
        self.flushes.load(Ordering::Relaxed)
    }

    /// The number of writes.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.load(Ordering::Relaxed)
    }

    /// The number of bytes written.
    pub(crate) fn bytes_written(&self) -> u64 {
        self.bytes_written.load(Ordering::Relaxed)
    }

    /// The number of reads that the engine's cache did not serve.
    pub(crate) fn reads(&self) -> u64 {
        self.reads.load(Ordering::Relaxed)
    }

    /// The first failed call. The engine remembers only that there was one.
    pub(crate) fn first_failure(&self) -> Option<String> {
        self.first_failure.lock().clone()
    }

    /// Forgets the first failure, once it has been reported or has been repaired.
    pub(super) fn clear_failure(&self) {
        *self.first_failure.lock() = None;
    }

    /// Calls `watcher` at every write from now on. There is one watcher: a later one is ignored.
    pub(super) fn watch(&self, watcher: Watcher) {
        let _ = self.watcher.set(watcher);
    }

    /// Calls the watcher, if there is one.
    pub(super) fn notify_watcher(&self, written: u64) {
        if let Some(watcher) = self.watcher.get() {
            // A panic that reaches the engine would be reported as damage of the file.
            user_code::catch_panic(|| watcher(written));
        }
    }

    /// Returns `outcome`, and keeps it if it is the first failure. `tried` is what was attempted.
    pub(super) fn record_failure<T>(&self, tried: &str, outcome: io::Result<T>) -> io::Result<T> {
        if let Err(error) = &outcome {
            let failure = || format!("cannot {tried} {}: {error}", self.name);
            self.first_failure.lock().get_or_insert_with(failure);
        }
        outcome
    }
}
