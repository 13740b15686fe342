//! Verifies the checksum of every page of the newest commit.
//!
//! The engine verifies checksums only when it repairs a file at open. So a second engine opens the
//! file through a [`ShadowFile`], whose header asks for a repair. It is aborted as soon as it has
//! walked all trees.
//!
//! Invariant: the second engine writes nothing to the file.

use std::cell::Cell;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use redb::{Builder, RepairSession, StorageBackend};

use crate::Error;
use crate::base::sync::InnerMutex;

use super::backend::IoCounters;
use super::failure::guarded;
use super::magic::FLAGS;
use super::medium::Medium;

/// The walk reads each page once, so a larger cache is of no use.
const CACHE: usize = 1 << 20;
/// The length of the engine's header, in bytes.
const HEADER: usize = 4096;
/// The engine's flag of a two-phase commit, after which it trusts the trees without a walk.
const TWO_PHASE_COMMIT: u8 = 4;
/// The engine reports at least this progress once the trees of the newest commit are verified, and
/// less, but more than none, if a page is damaged.
const VERIFIED_PROGRESS: f64 = 0.5;

/// The file at one moment: its header, and the pages that the header leads to.
#[derive(Clone)]
pub(super) struct FileImage {
    medium: Arc<Medium>,
    header: Vec<u8>,
    len: u64,
}

impl FileImage {
    /// The file at this moment. No commit may be in progress.
    pub(super) fn of(medium: &Arc<Medium>) -> io::Result<FileImage> {
        let len = medium.bytes.len()?;
        let mut header = vec![0; HEADER];
        medium.bytes.read(0, &mut header)?;
        Ok(FileImage { medium: Arc::clone(medium), header, len })
    }

    /// Whether both are of the same commit.
    pub(super) fn is_same_commit(&self, other: &FileImage) -> bool {
        self.header == other.header && self.len == other.len
    }

    /// Walks all trees. Returns a description of the damage, or `None` if there is none.
    pub(super) fn check(&self, io: &IoCounters) -> Result<Option<String>, Error> {
        let intact = Rc::new(Cell::new(None));
        let report = intact.clone();
        let stop = move |session: &mut RepairSession| {
            if session.progress() > 0.0 {
                report.set(Some(session.progress() >= VERIFIED_PROGRESS));
                session.abort();
            }
        };
        let mut header = self.header.clone();
        header[FLAGS] &= !TWO_PHASE_COMMIT;
        let shadow = ShadowFile {
            medium: self.medium.clone(),
            header: InnerMutex::new(header),
            len: self.len,
        };
        let opened = guarded(io, || {
            let mut builder = Builder::new();
            builder.set_cache_size(CACHE).set_repair_callback(stop);
            Ok(builder.create_with_backend(shadow)?)
        });
        match (intact.get(), opened) {
            // The second case is a database without commits.
            (Some(true), _) | (None, Ok(_)) => Ok(None),
            (Some(false), _) => Ok(Some("a page of the file has a wrong checksum".into())),
            (None, Err(Error::Corrupt { what })) => Ok(Some(what)),
            // A page that cannot be read is not known to be damaged.
            (None, Err(error)) => Err(error),
        }
    }
}

/// The file as the second engine sees it: writes to the header stay in memory.
struct ShadowFile {
    medium: Arc<Medium>,
    header: InnerMutex<Vec<u8>>,
    len: u64,
}

impl Debug for ShadowFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("ShadowFile")
    }
}

impl StorageBackend for ShadowFile {
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
            _ => self.medium.bytes.read(offset, out),
        }
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len == self.len { Ok(()) } else { Err(write_refused()) }
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut header = self.header.lock();
        let rest = usize::try_from(offset).ok().and_then(|from| header.get_mut(from..));
        let target = rest.and_then(|rest| rest.get_mut(..data.len())).ok_or_else(write_refused)?;
        target.copy_from_slice(data);
        Ok(())
    }
}

fn write_refused() -> io::Error {
    io::Error::new(io::ErrorKind::PermissionDenied, "verification writes nothing to the file")
}
