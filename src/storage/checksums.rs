//! Whether every page that the newest commit needs is what was written.
//!
//! The engine checks its pages' checksums only when it repairs a file at open. So here it opens
//! the file a second time, aside: it is shown a header that asks for a repair, its writes are kept
//! from the file, and it is stopped as soon as it has walked all trees.

use std::cell::Cell;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::ops::Bound;
use std::rc::Rc;
use std::sync::Arc;

use redb::{BackendError, Builder, RepairSession, StorageBackend};

use crate::Error;
use crate::sync::Mutex;

use super::backend::IoCounters;
use super::failure::guarded;

/// The walk reads each page once: a cache would be of no use.
const CACHE: usize = 1 << 20;
/// As much of the file as holds the engine's header.
const HEADER: usize = 4096;
/// Where in the header its flags are, and the one that vouches for the trees without a walk.
const FLAGS: usize = 9;
const VOUCHED: u8 = 4;
/// The engine tells this much progress, or more, once the trees of the newest commit are sound,
/// and less, but some, if they are not.
const WALKED: f64 = 0.5;

/// One file for the engine that works on it and the one that checks it.
#[derive(Clone)]
pub(super) struct Medium(Arc<dyn StorageBackend>);

impl Debug for Medium {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Medium")
    }
}

impl Medium {
    pub(super) fn new(backend: impl StorageBackend) -> Medium {
        Medium(Arc::new(backend))
    }

    /// How the file stands at this moment; nobody may be writing a commit.
    pub(super) fn still(&self) -> io::Result<Still> {
        let len = self.0.len()?;
        let mut header = vec![0; HEADER];
        self.0.read(0, &mut header)?;
        Ok(Still { medium: self.clone(), header, len })
    }
}

impl StorageBackend for Medium {
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
        self.0.sync_data()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }

    fn try_lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<bool, BackendError> {
        self.0.try_lock_range(from, to)
    }

    fn try_lock_shared_range(
        &self,
        from: Bound<u64>,
        to: Bound<u64>,
    ) -> Result<bool, BackendError> {
        self.0.try_lock_shared_range(from, to)
    }

    fn lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_range(from, to)
    }

    fn lock_shared_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.0.lock_shared_range(from, to)
    }

    fn unlock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<(), BackendError> {
        self.0.unlock_range(from, to)
    }

    fn query_lock_range(&self, from: Bound<u64>, to: Bound<u64>) -> Result<bool, BackendError> {
        self.0.query_lock_range(from, to)
    }
}

/// A file as it was at one moment: its header, under which no page may change meanwhile.
#[derive(Clone)]
pub(super) struct Still {
    medium: Medium,
    header: Vec<u8>,
    len: u64,
}

impl Still {
    /// Whether there has been a commit between the two.
    pub(super) fn is(&self, other: &Still) -> bool {
        self.header == other.header && self.len == other.len
    }

    /// Walks all trees; what is wrong with them is told in words.
    pub(super) fn check(&self, io: &IoCounters) -> Option<String> {
        let walked = Rc::new(Cell::new(None));
        let told = walked.clone();
        let stop = move |session: &mut RepairSession| {
            if session.progress() > 0.0 {
                told.set(Some(session.progress() >= WALKED));
                session.abort();
            }
        };
        let mut header = self.header.clone();
        header[FLAGS] &= !VOUCHED;
        let aside =
            Aside { medium: self.medium.clone(), header: Mutex::new(header), len: self.len };
        let opened = guarded(io, || {
            let mut builder = Builder::new();
            builder.set_cache_size(CACHE).set_repair_callback(stop);
            Ok(builder.create_with_backend(aside)?)
        });
        match (walked.get(), opened) {
            // Nothing was ever committed.
            (Some(true), _) | (None, Ok(_)) => None,
            (Some(false), _) => Some("a page of the file is not what was written".into()),
            (None, Err(Error::Corrupt { what })) => Some(what),
            (None, Err(error)) => Some(error.to_string()),
        }
    }
}

/// The file as the check sees it: whatever it writes to the header stays here.
struct Aside {
    medium: Medium,
    header: Mutex<Vec<u8>>,
    len: u64,
}

impl Debug for Aside {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Aside")
    }
}

impl StorageBackend for Aside {
    fn len(&self) -> io::Result<u64> {
        Ok(self.len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let header = self.header.lock();
        match usize::try_from(offset).ok().and_then(|from| header.get(from..)) {
            Some(rest) if rest.len() >= out.len() => {
                out.copy_from_slice(&rest[..out.len()]);
                Ok(())
            }
            _ => self.medium.0.read(offset, out),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len == self.len { Ok(()) } else { Err(kept_out()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut header = self.header.lock();
        let place = usize::try_from(offset).ok().and_then(|from| header.get_mut(from..));
        let place = place.and_then(|rest| rest.get_mut(..data.len())).ok_or_else(kept_out)?;
        place.copy_from_slice(data);
        Ok(())
    }
}

fn kept_out() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "a check writes nothing")
}
