//! Storage in memory with a fault, for the tests of this module.

use std::fmt::{self, Debug, Formatter};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use redb::StorageBackend;
use redb::backends::InMemoryBackend;

use super::backend::Storage;

/// What a test does at a call of the storage.
pub(super) struct Hook<T>(Box<dyn Fn() -> T + Send + Sync>);

impl<T> Hook<T> {
    pub(super) fn new(hook: impl Fn() -> T + Send + Sync + 'static) -> Hook<T> {
        Hook(Box::new(hook))
    }
}

impl<T> Debug for Hook<T> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Hook")
    }
}

/// Storage in memory with a fault that the test sets.
#[derive(Debug, Default)]
pub(super) struct FaultyStorage {
    pub(super) bytes: InMemoryBackend,
    /// The bytes as of each successful flush.
    pub(super) synced: Arc<Mutex<Vec<Vec<u8>>>>,
    pub(super) fault: Arc<Mutex<StorageFault>>,
    pub(super) closed: Arc<AtomicBool>,
    /// Called before each write.
    pub(super) before_write: Option<Hook<()>>,
    /// Called before each flush, and says whether there is one.
    pub(super) before_sync: Option<Hook<bool>>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum StorageFault {
    #[default]
    None,
    Write,
    Sync,
    Panic,
}

impl FaultyStorage {
    /// Storage of this length whose flushes fail.
    pub(super) fn with_failing_flushes(len: u64) -> FaultyStorage {
        let storage = FaultyStorage::default();
        storage.bytes.set_len(len).unwrap();
        *storage.fault.lock().unwrap() = StorageFault::Sync;
        storage
    }

    fn check(&self, call: StorageFault) -> io::Result<()> {
        let fault = *self.fault.lock().unwrap();
        assert!(fault != StorageFault::Panic, "the medium panics");
        if fault == call { Err(io::Error::other("the disk is full")) } else { Ok(()) }
    }
}

impl Storage for FaultyStorage {
    fn len(&self) -> io::Result<u64> {
        self.bytes.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.bytes.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.bytes.set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        if self.before_sync.as_ref().is_some_and(|hook| !hook.0()) {
            return Ok(());
        }
        self.check(StorageFault::Sync)?;
        let mut all = vec![0; usize::try_from(self.bytes.len()?).unwrap()];
        self.bytes.read(0, &mut all)?;
        self.synced.lock().unwrap().push(all);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        if let Some(hook) = &self.before_write {
            hook.0();
        }
        self.check(StorageFault::Write)?;
        self.bytes.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.closed.store(true, Ordering::Relaxed);
        Ok(())
    }
}
