//! Whether every page that the newest commit needs is what was written.
//!
//! The engine checks its pages' checksums only when it repairs a file at open. So here it opens
//! the file a second time, aside: it is shown a header that asks for a repair, its writes are kept
//! from the file, and it is stopped as soon as it has walked all trees.

use std::cell::Cell;
use std::fmt::{self, Debug, Formatter};
use std::io;
use std::rc::Rc;
use std::sync::Arc;

use redb::{Builder, RepairSession, StorageBackend};

use crate::Error;
use crate::sync::InnerMutex;

use super::backend::IoCounters;
use super::failure::guarded;
use super::magic::FLAGS;
use super::medium::Medium;

/// The walk reads each page once: a cache would be of no use.
const CACHE: usize = 1 << 20;
/// As much of the file as holds the engine's header.
const HEADER: usize = 4096;
/// The flag that vouches for the trees without a walk.
const VOUCHED: u8 = 4;
/// The engine tells this much progress, or more, once the trees of the newest commit are sound,
/// and less, but some, if they are not.
const WALKED: f64 = 0.5;

/// A file as it was at one moment: its header, under which no page may change meanwhile.
#[derive(Clone)]
pub(super) struct FileImage {
    medium: Arc<Medium>,
    header: Vec<u8>,
    len: u64,
}

impl FileImage {
    /// How the file stands at this moment; nobody may be writing a commit.
    pub(super) fn of(medium: &Arc<Medium>) -> io::Result<FileImage> {
        let len = medium.bytes.len()?;
        let mut header = vec![0; HEADER];
        medium.bytes.read(0, &mut header)?;
        Ok(FileImage { medium: Arc::clone(medium), header, len })
    }

    /// Whether there has been a commit between the two.
    pub(super) fn is(&self, other: &FileImage) -> bool {
        self.header == other.header && self.len == other.len
    }

    /// Walks all trees; what is wrong with them is told in words.
    pub(super) fn check(&self, io: &IoCounters) -> Result<Option<String>, Error> {
        let walked = Rc::new(Cell::new(None));
        let engine_panic = walked.clone();
        let stop = move |session: &mut RepairSession| {
            if session.progress() > 0.0 {
                engine_panic.set(Some(session.progress() >= WALKED));
                session.abort();
            }
        };
        let mut header = self.header.clone();
        header[FLAGS] &= !VOUCHED;
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
        match (walked.get(), opened) {
            // Nothing was ever committed.
            (Some(true), _) | (None, Ok(_)) => Ok(None),
            (Some(false), _) => Ok(Some("a page of the file is not what was written".into())),
            (None, Err(Error::Corrupt { what })) => Ok(Some(what)),
            // What could not be read is not known to be damaged.
            (None, Err(error)) => Err(error),
        }
    }
}

/// The file as the check sees it: whatever it writes to the header stays here.
struct ShadowFile {
    medium: Arc<Medium>,
    header: InnerMutex<Vec<u8>>,
    len: u64,
}

impl Debug for ShadowFile {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str("Aside")
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
