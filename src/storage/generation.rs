//! Fences an old engine: one generation for each engine that is opened on a medium.
//!
//! Invariant: once a generation is superseded, its engine no longer reaches the medium. Snapshots
//! of a failed engine may outlive it.

use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::{BackendError, StorageBackend};

use super::medium::{FlushOf, Medium};
use crate::base::sync::InnerMutex;

/// The medium as one engine sees it.
#[derive(Debug)]
pub(super) struct Generation {
    medium: Arc<Medium>,
    superseded: Arc<AtomicBool>,
    /// The length that the engine knows. If the medium's length changed unnoticed, the engine would
    /// fail an assertion, and a second one while unwinding, which aborts the process.
    len: InnerMutex<Option<u64>>,
}

impl Generation {
    pub(super) fn new(medium: Arc<Medium>, superseded: Arc<AtomicBool>) -> Generation {
        Generation { medium, superseded, len: InnerMutex::default() }
    }

    fn medium(&self) -> io::Result<&Medium> {
        if self.superseded.load(Ordering::SeqCst) {
            return Err(io::Error::other("the store has been reopened since"));
        }
        Ok(&self.medium)
    }
}

impl StorageBackend for Generation {
    fn len(&self) -> io::Result<u64> {
        let len = self.medium()?.len()?;
        let known = *self.len.lock().get_or_insert(len);
        if len != known {
            let why = format!(
                "its length is {len} bytes instead of {known}: something other than this store \
                 has resized it"
            );
            return self.medium.io.record_failure("get the length of", Err(io::Error::other(why)));
        }
        Ok(len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.medium()?.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let medium = self.medium()?;
        let mut known = self.len.lock();
        *known = None;
        medium.set_len(len)?;
        *known = Some(len);
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.medium()?.sync(FlushOf::Database)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.medium()?.write(offset, data)
    }

    // The owner of the medium closes it. The next engine may be about to be opened on it.
    fn close(&self) -> io::Result<()> {
        Ok(())
    }

    // The locks refuse a second owner. Once taken they are kept until the medium is closed, so that
    // the file is not free between two engines.

    fn try_lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<bool, BackendError> {
        let mut locked = self.medium.locked.lock();
        if locked.contains(&(from, to)) {
            return Ok(true);
        }
        let got = self.medium.bytes.whole.try_lock_range(from, to)?;
        if got {
            locked.push((from, to));
        }
        Ok(got)
    }

    fn try_lock_shared_range(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.medium.bytes.whole.try_lock_shared_range(from, to)
    }

    fn lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        if self.try_lock_range(from, to)? {
            return Ok(());
        }
        self.medium.bytes.whole.lock_range(from, to)?;
        self.medium.locked.lock().push((from, to));
        Ok(())
    }

    fn lock_shared_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.medium.bytes.whole.lock_shared_range(from, to)
    }

    fn unlock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        if self.medium.locked.lock().contains(&(from, to)) {
            return Ok(());
        }
        self.medium.bytes.whole.unlock_range(from, to)
    }

    fn query_lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<bool, BackendError> {
        self.medium.bytes.whole.query_lock_range(from, to)
    }
}
