//! The medium of a store, with the state that outlives a failed engine: the locks, the ranges that
//! were written but not flushed, and the ballast.
//!
//! Invariant: the locks pass from one engine to the next without being free in between.

mod rewrite;

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;
use redb::backends::{FileBackend, InMemoryBackend};
use tubewell_wire::HomeProcess;

use super::backend::{IoCounters, Storage};
use super::custom::CustomStorage;
use super::disk_space::Ballast;
use super::end_mark::EndMark;
use super::file_header::{FILE_HEADER_LEN, JOURNAL_START, OffsetBytes, title};
use super::journal_record::RECORD_HEADER_LEN;
use super::magic::is_unclean;
use super::named_file::NamedFile;
use super::platform;
use super::unflushed::Unflushed;
use crate::base::sync::{InnerMutex, Mutex};

/// The medium of a store.
#[derive(Debug)]
pub(super) struct Medium {
    pub(super) bytes: OffsetBytes,
    pub(super) io: Arc<IoCounters>,
    /// `None` for volatile bytes, which need no flush either.
    ballast: Option<Ballast>,
    /// False for memory, which needs no file header and no journal.
    has_header: bool,
    /// What was written since the last successful flush.
    unflushed: InnerMutex<Unflushed>,
    /// The locks that an engine took.
    pub(super) locked: InnerMutex<Vec<(Bound<u64>, Bound<u64>)>>,
    unmeasured: AtomicBool,
    closed: AtomicBool,
    /// A fork must not write to the file, nor unlock it: the lock is common to both processes.
    home: HomeProcess,
    /// A second open file description of the same file, for the flushes of the journal. Linux
    /// reports a failed write-back once to each open file description, so a flush of the journal
    /// and one of the database at the same time both hear of it.
    journal_file: Option<File>,
    /// `None` for bytes that are not in a file.
    named: Option<NamedFile>,
    /// Locked while a flush runs, if there is no second description: of two flushes at the same
    /// time only one would hear of a failure.
    flushing: Mutex<()>,
}

/// What a flush is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlushOf {
    Journal,
    Database,
}

impl Medium {
    /// The file at a path.
    pub(super) fn file(
        file: File,
        path: &Path,
        io: Arc<IoCounters>,
        reserve: u64,
    ) -> io::Result<Medium> {
        let named = Some(NamedFile::new(&file, path)?);
        let ballast = Ballast::new(Box::new(file.try_clone()?), reserve);
        let journal_file = platform::open_again(&file);
        let bytes = FileBackend::new(file).map_err(io::Error::other)?;
        Ok(Medium { journal_file, named, ..Medium::new(Box::new(bytes), io, Some(ballast)) })
    }

    /// Memory.
    pub(super) fn memory(io: Arc<IoCounters>) -> Medium {
        let bytes = Box::new(InMemoryBackend::new());
        Medium { has_header: false, ..Medium::volatile(bytes, io) }
    }

    /// Bytes that need not survive the process, without a limit on disk space.
    pub(super) fn volatile(bytes: Box<dyn StorageBackend>, io: Arc<IoCounters>) -> Medium {
        Medium::new(bytes, io, None)
    }

    /// Storage of the application.
    pub(super) fn custom(storage: Box<dyn Storage>, io: Arc<IoCounters>, reserve: u64) -> Medium {
        let storage = CustomStorage::new(storage);
        let ballast = Ballast::new(Box::new(storage.clone()), reserve);
        Medium::new(Box::new(storage), io, Some(ballast))
    }

    fn new(
        bytes: Box<dyn StorageBackend>,
        io: Arc<IoCounters>,
        ballast: Option<Ballast>,
    ) -> Medium {
        Medium {
            bytes: OffsetBytes::new(bytes),
            io,
            ballast,
            has_header: true,
            unflushed: InnerMutex::default(),
            locked: InnerMutex::default(),
            unmeasured: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            home: HomeProcess::current(),
            journal_file: None,
            named: None,
            flushing: Mutex::new(()),
        }
    }

    /// The handles refuse the calls of a fork; this holds for what they do not see, such as the drop of an
    /// engine.
    fn check_process(&self) -> io::Result<()> {
        if self.home.is_here() {
            return Ok(());
        }
        Err(io::Error::other(format!(
            "process {} has opened it, of which this one is a fork",
            self.home.id()
        )))
    }

    /// Whether there is disk space for `bytes` more, besides the `uncommitted` bytes.
    pub(super) fn admits(&self, bytes: u64, uncommitted: u64) -> bool {
        self.ballast.as_ref().is_none_or(|ballast| ballast.admits(bytes, uncommitted))
    }

    /// Whether the ballast is held: no write has run out of space.
    pub(super) fn has_ballast(&self) -> bool {
        self.ballast.as_ref().is_none_or(Ballast::has_ballast)
    }

    /// The bytes that puts leave free; 0 without a limit.
    pub(super) fn reserve(&self) -> u64 {
        self.ballast.as_ref().map_or(0, Ballast::reserve)
    }

    /// The bytes that can be put before puts are refused; `None` if the free space is not known.
    pub(super) fn headroom(&self) -> Option<u64> {
        self.ballast.as_ref()?.headroom()
    }

    /// Whether disk space may be short.
    pub(super) fn is_short(&self) -> bool {
        self.ballast.as_ref().is_some_and(Ballast::is_short)
    }

    /// Whether the medium has a file header and a journal. Known after the first `len`.
    pub(super) fn has_journal(&self) -> bool {
        self.bytes.start() == FILE_HEADER_LEN
    }

    /// Reads from the file header.
    pub(super) fn read_header(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_at(offset, out)
    }

    /// Writes to the file header.
    pub(super) fn write_header(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        debug_assert!(
            offset + data.len() as u64 <= FILE_HEADER_LEN,
            "the engine's bytes begin there"
        );
        self.write_at(offset, data)
    }

    /// Whether the title of the file header is damaged.
    pub(super) fn needs_title(&self) -> bool {
        self.bytes.has_damaged_title()
    }

    /// Writes the title again.
    pub(super) fn write_title(&self) -> io::Result<()> {
        self.write_at(0, &title())?;
        self.bytes.title_is_written();
        Ok(())
    }

    /// Flushes, and drops what the operating system has cached. Called after an unclean shutdown:
    /// pages that a failed flush left in the cache may differ from those on the disk.
    pub(super) fn flush_and_drop_cache(&self) -> io::Result<()> {
        if self.ballast.is_some() {
            self.sync(FlushOf::Database)?;
            self.drop_cache();
        }
        Ok(())
    }

    /// Drops what the operating system has cached and flushed, where it can.
    fn drop_cache(&self) {
        if let Some(ballast) = &self.ballast {
            ballast.drop_cache();
        }
    }

    /// Reads around the operating system's cache if that is possible, which dropped it before.
    fn read_from_disk(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.io.reads.fetch_add(1, Ordering::Relaxed);
        match &self.ballast {
            Some(ballast) if ballast.read_from_disk(offset, out)? => Ok(()),
            _ => self.bytes.whole.read(offset, out),
        }
    }

    /// Fails if what was written to the file would be lost with it, since its path does not name it any more.
    pub(super) fn check_name(&self) -> io::Result<()> {
        let checked = self.named.as_ref().map_or(Ok(()), NamedFile::check);
        self.io.record_failure("keep", checked)
    }

    /// Whether this is the path of the file, in whatever spelling.
    pub(super) fn is_named(&self, path: &Path) -> bool {
        self.named.as_ref().is_some_and(|named| named.is_at(path))
    }

    /// Closes the bytes. A failure is recorded.
    pub(super) fn close(&self) {
        if self.home.is_here() && !self.closed.swap(true, Ordering::SeqCst) {
            let _ = self.io.record_failure("close", self.bytes.close());
        }
    }

    pub(super) fn len(&self) -> io::Result<u64> {
        // The engine asks for the length after it has the locks and before it reads any byte.
        if self.unmeasured.swap(false, Ordering::Relaxed) {
            self.prepare()?;
        }
        self.io.record_failure("get the length of", self.bytes.len())
    }

    /// Finds out what the medium has. A file that was not closed is read from the disk, not from what
    /// a failed flush of its last owner may have left in the cache.
    fn prepare(&self) -> io::Result<()> {
        if !self.has_header {
            return Ok(());
        }
        let is_unclean = is_unclean(&*self.bytes.whole, FILE_HEADER_LEN)?;
        if is_unclean {
            self.flush_and_drop_cache()?;
        }
        let found = self.bytes.find_header();
        self.io.record_failure("read or write the header of", found)?;
        if is_unclean {
            self.invalidate_end_mark()?;
        }
        if let Some(named) = &self.named {
            named.note_length(self.bytes.whole.len()?);
        }
        Ok(())
    }

    /// A file that was not closed may have records behind its end mark.
    fn invalidate_end_mark(&self) -> io::Result<()> {
        let mut start = [0; RECORD_HEADER_LEN];
        self.read_header(JOURNAL_START, &mut start)?;
        match EndMark::read(&start).and_then(EndMark::invalidated) {
            Some(mark) => {
                self.write_header(JOURNAL_START, &mark)?;
                self.sync(FlushOf::Database)
            }
            None => Ok(()),
        }
    }

    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_at(self.bytes.start() + offset, out)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.io.reads.fetch_add(1, Ordering::Relaxed);
        self.io.record_failure("read", self.bytes.whole.read(offset, out))
    }

    pub(super) fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_process()?;
        let resize = || self.bytes.set_len(len);
        let resize = || self.ballast.as_ref().map_or_else(resize, |ballast| ballast.resize(resize));
        let resized = match &self.named {
            Some(named) => named.resize(self.bytes.start() + len, resize),
            None => resize(),
        };
        self.io.record_failure("resize", resized)
    }

    /// Flushes everything that was written before. After a failure every flush fails until
    /// [`rewrite_unflushed`](Medium::rewrite_unflushed): the operating system may count as written
    /// what never reached the disk, and has said so once.
    pub(super) fn sync(&self, of: FlushOf) -> io::Result<()> {
        self.check_process()?;
        let _one_at_a_time = self.flushes_alone(of).then(|| self.flushing.lock());
        self.io.flushes.fetch_add(1, Ordering::Relaxed);
        let begun = self.unflushed.lock().begin_flush();
        let outcome = begun.and_then(|number| {
            let flushed = match (&self.journal_file, of) {
                (Some(file), FlushOf::Journal) => file.sync_data(),
                _ => self.bytes.sync_data(),
            };
            self.unflushed.lock().end_flush(number, flushed)
        });
        self.io.record_failure("flush", outcome)
    }

    /// Whether no other flush may run meanwhile. The explorer of `tests/schedules` cannot switch
    /// threads inside the engine, which flushes the database while it has locks of its own.
    fn flushes_alone(&self, of: FlushOf) -> bool {
        self.journal_file.is_none() && (cfg!(not(feature = "_shuttle")) || of == FlushOf::Journal)
    }

    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(self.bytes.start() + offset, data)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check_process()?;
        self.io.writes.fetch_add(1, Ordering::Relaxed);
        let length = data.len() as u64;
        let written = self.io.bytes_written.fetch_add(length, Ordering::Relaxed) + length;
        self.io.notify_watcher(written);
        let write = || self.bytes.whole.write(offset, data);
        let Some(ballast) = &self.ballast else {
            return self.io.record_failure("write to", write());
        };
        let outcome = ballast.write(write);
        // Also if the write has failed: a part of it may be there.
        self.unflushed.lock().note_write(offset, offset.saturating_add(length));
        self.io.record_failure("write to", outcome)
    }
}

#[cfg(test)]
mod tests;
