//! The medium of a store, with the state that outlives a failed engine: the locks, the ranges that
//! were written but not flushed, and the ballast.
//!
//! Invariant: the locks pass from one engine to the next without being free in between.

use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redb::StorageBackend;
use redb::backends::{FileBackend, InMemoryBackend};

use super::backend::{IoCounters, Storage};
use super::custom::CustomStorage;
use super::disk_space::Ballast;
use super::end_mark::EndMark;
use super::file_header::{FILE_HEADER_LEN, JOURNAL_START, OffsetBytes, title};
use super::journal_record::RECORD_HEADER_LEN;
use super::magic::is_unclean;
use super::platform;
use crate::sync::{InnerMutex, Mutex};

/// The medium of a store.
#[derive(Debug)]
pub(super) struct Medium {
    pub(super) bytes: OffsetBytes,
    pub(super) io: Arc<IoCounters>,
    /// `None` for volatile bytes, which need no flush either: a new store on them has no journal.
    ballast: Option<Ballast>,
    /// The ranges that were written since the last successful flush.
    unflushed: InnerMutex<Vec<(u64, u64)>>,
    /// The locks that an engine took.
    pub(super) locked: InnerMutex<Vec<(Bound<u64>, Bound<u64>)>>,
    unmeasured: AtomicBool,
    closed: AtomicBool,
    /// A second open file description of the same file, for the flushes of the journal. Linux
    /// reports a failed write-back once to each open file description, so a flush of the journal
    /// and one of the database at the same time both hear of it.
    journal_file: Option<File>,
    /// Locked while a flush runs, if there is no second description: of two flushes at the same
    /// time only one would hear of a failure.
    flushing: Mutex<()>,
    /// A flush has failed: those after it may not claim what it has lost.
    flush_failed: AtomicBool,
}

/// What a flush is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlushOf {
    Journal,
    Database,
}

/// With more unflushed ranges than this, only their common range is kept.
const MAX_UNFLUSHED_RANGES: usize = 1 << 16;

impl Medium {
    /// A file.
    pub(super) fn file(file: File, io: Arc<IoCounters>, reserve: u64) -> io::Result<Medium> {
        let ballast = Ballast::new(Box::new(file.try_clone()?), reserve);
        let journal_file = platform::open_again(&file);
        let bytes = FileBackend::new(file).map_err(io::Error::other)?;
        Ok(Medium { journal_file, ..Medium::new(Box::new(bytes), io, Some(ballast)) })
    }

    /// Memory.
    pub(super) fn memory(io: Arc<IoCounters>) -> Medium {
        Medium::volatile(Box::new(InMemoryBackend::new()), io)
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
            unflushed: InnerMutex::default(),
            locked: InnerMutex::default(),
            unmeasured: AtomicBool::new(true),
            closed: AtomicBool::new(false),
            journal_file: None,
            flushing: Mutex::new(()),
            flush_failed: AtomicBool::new(false),
        }
    }

    /// Whether there is disk space for `bytes` more, besides the `uncommitted` bytes.
    pub(super) fn admits(&self, bytes: u64, uncommitted: u64) -> bool {
        self.ballast.as_ref().is_none_or(|ballast| ballast.admits(bytes, uncommitted))
    }

    /// Whether the ballast is held: no write has run out of space.
    pub(super) fn has_ballast(&self) -> bool {
        self.ballast.as_ref().is_none_or(Ballast::has_ballast)
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

    /// Whether the title of the file header is not the one that this release writes.
    pub(super) fn needs_title(&self) -> bool {
        self.bytes.has_old_title()
    }

    /// Writes the title of this release.
    pub(super) fn write_title(&self) -> io::Result<()> {
        self.write_at(0, &title())?;
        self.bytes.title_is_written();
        Ok(())
    }

    /// Flushes, and drops what the operating system has cached. Called after an unclean shutdown:
    /// pages that a failed flush left in the cache may differ from those that a power cut leaves.
    pub(super) fn flush_and_drop_cache(&self) -> io::Result<()> {
        let Some(ballast) = &self.ballast else { return Ok(()) };
        self.sync(FlushOf::Database)?;
        ballast.drop_cache();
        Ok(())
    }

    /// Writes again what was written since the last successful flush, and flushes it. After a
    /// failed flush the operating system may treat pages as clean that never reached the disk.
    ///
    /// Each byte is written once, however many attempts have failed before.
    pub(super) fn rewrite_unflushed(&self) -> io::Result<()> {
        let ranges = {
            let mut unflushed = self.unflushed.lock();
            merge(&mut unflushed);
            unflushed.clone()
        };
        self.flush_failed.store(false, Ordering::SeqCst);
        let len = self.io.record_failure("get the length of", self.bytes.whole.len())?;
        let mut buffer = Vec::new();
        for (from, to) in ranges {
            let mut at = from;
            while at < to.min(len) {
                let step = (to.min(len) - at).min(1 << 20);
                buffer.resize(usize::try_from(step).unwrap_or(0), 0);
                self.io.record_failure("read", self.bytes.whole.read(at, &mut buffer))?;
                self.write_at(at, &buffer)?;
                at += step;
            }
        }
        // Both descriptions: each may still have to report the failure that made this necessary.
        self.sync(FlushOf::Journal)?;
        self.sync(FlushOf::Database)
    }

    /// Closes the bytes. A failure is recorded.
    pub(super) fn close(&self) {
        if !self.closed.swap(true, Ordering::SeqCst) {
            let _ = self.io.record_failure("close", self.bytes.close());
        }
    }

    pub(super) fn len(&self) -> io::Result<u64> {
        // The engine asks for the length after it has the locks and before it reads any byte.
        if self.unmeasured.swap(false, Ordering::Relaxed) {
            let found = self.bytes.find_start(self.ballast.is_some());
            self.io.record_failure("read or write the header of", found)?;
            if is_unclean(&self.bytes)? {
                if self.has_journal() {
                    self.invalidate_end_mark()?;
                }
                self.flush_and_drop_cache()?;
            }
        }
        self.io.record_failure("get the length of", self.bytes.len())
    }

    /// A file that was not closed may have records behind its end mark.
    fn invalidate_end_mark(&self) -> io::Result<()> {
        let mut start = [0; RECORD_HEADER_LEN];
        self.read_header(JOURNAL_START, &mut start)?;
        match EndMark::read(&start).and_then(EndMark::invalidated) {
            Some(mark) => self.write_header(JOURNAL_START, &mark),
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
        let resize = || self.bytes.set_len(len);
        let resized = self.ballast.as_ref().map_or_else(resize, |ballast| ballast.resize(resize));
        self.io.record_failure("resize", resized)
    }

    /// Flushes everything that was written before. After a failure every flush fails until
    /// [`rewrite_unflushed`](Medium::rewrite_unflushed): the operating system may count as written
    /// what never reached the disk, and has said so once.
    pub(super) fn sync(&self, of: FlushOf) -> io::Result<()> {
        let _one_at_a_time = self.flushes_alone(of).then(|| self.flushing.lock());
        self.io.flushes.fetch_add(1, Ordering::Relaxed);
        // Writes during the flush are not covered by it.
        let covered = std::mem::take(&mut *self.unflushed.lock());
        let outcome = self.check_flushes().and_then(|()| {
            match (&self.journal_file, of) {
                (Some(file), FlushOf::Journal) => file.sync_data()?,
                _ => self.bytes.sync_data()?,
            }
            self.check_flushes()
        });
        if outcome.is_err() {
            self.flush_failed.store(true, Ordering::SeqCst);
            self.unflushed.lock().extend(covered);
        }
        self.io.record_failure("flush", outcome)
    }

    /// Whether no other flush may run meanwhile. The explorer of `tests/schedules` cannot switch
    /// threads inside the engine, which flushes the database while it has locks of its own.
    fn flushes_alone(&self, of: FlushOf) -> bool {
        self.journal_file.is_none() && (cfg!(not(feature = "_shuttle")) || of == FlushOf::Journal)
    }

    fn check_flushes(&self) -> io::Result<()> {
        if self.flush_failed.load(Ordering::SeqCst) {
            return Err(io::Error::other("an earlier flush failed"));
        }
        Ok(())
    }

    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(self.bytes.start() + offset, data)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.io.writes.fetch_add(1, Ordering::Relaxed);
        let length = data.len() as u64;
        let written = self.io.bytes_written.fetch_add(length, Ordering::Relaxed) + length;
        self.io.notify_watcher(written);
        let write = || self.bytes.whole.write(offset, data);
        let Some(ballast) = &self.ballast else {
            return self.io.record_failure("write to", write());
        };
        self.add_unflushed(offset, offset.saturating_add(length));
        self.io.record_failure("write to", ballast.write(write))
    }

    fn add_unflushed(&self, from: u64, to: u64) {
        let mut ranges = self.unflushed.lock();
        match ranges.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => ranges.push((from, to)),
        }
        if ranges.len() > MAX_UNFLUSHED_RANGES {
            let start = ranges.iter().map(|range| range.0).min().unwrap_or(0);
            let end = ranges.iter().map(|range| range.1).max().unwrap_or(0);
            *ranges = vec![(start, end)];
        }
    }
}

/// Merges ranges that overlap or touch.
fn merge(ranges: &mut Vec<(u64, u64)>) {
    ranges.sort_unstable();
    ranges.dedup_by(|next, merged| {
        let touches = next.0 <= merged.1;
        if touches {
            merged.1 = merged.1.max(next.1);
        }
        touches
    });
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    /// Storage in memory whose flushes fail.
    #[derive(Debug, Default)]
    struct FailingFlushes(Mutex<Vec<u8>>);

    impl Storage for FailingFlushes {
        fn len(&self) -> io::Result<u64> {
            Ok(self.0.lock().unwrap().len() as u64)
        }

        fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
            let (bytes, at) = (self.0.lock().unwrap(), usize::try_from(offset).unwrap());
            out.copy_from_slice(&bytes[at..at + out.len()]);
            Ok(())
        }

        fn set_len(&self, len: u64) -> io::Result<()> {
            self.0.lock().unwrap().resize(usize::try_from(len).unwrap(), 0);
            Ok(())
        }

        fn sync(&self) -> io::Result<()> {
            Err(io::Error::other("the flush fails"))
        }

        fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
            let at = usize::try_from(offset).unwrap();
            self.0.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
            Ok(())
        }
    }

    /// Regression: each attempt added its own writes to the ranges of the next one, which doubled
    /// the bytes from attempt to attempt.
    #[test]
    fn failed_rewrites_write_each_byte_once_per_attempt() {
        let io = IoCounters::new("the disk".into());
        let storage = FailingFlushes::default();
        storage.set_len(4 << 20).unwrap();
        let medium = Medium::custom(Box::new(storage), Arc::clone(&io), 0);
        for (offset, length) in [(0, 100), (50, 100), (150, 50), (1000, 1 << 20), (1200, 10)] {
            medium.write_at(offset, &vec![7; length]).unwrap();
        }
        for attempt in 1..=20 {
            let (writes, bytes) = (io.writes(), io.bytes_written());
            assert!(medium.rewrite_unflushed().is_err());
            assert_eq!(io.writes() - writes, 2, "attempt {attempt}");
            assert_eq!(io.bytes_written() - bytes, 200 + (1 << 20), "attempt {attempt}");
        }
    }

    #[test]
    fn medium_keeps_its_first_failure() {
        let io = IoCounters::new("the disk".into());
        let medium = Medium::memory(Arc::clone(&io));
        assert_eq!(io.first_failure(), None);
        assert!(medium.write(10, b"past the end").is_err());
        assert!(medium.read(10, &mut [0; 4]).is_err());
        assert!(io.first_failure().unwrap().starts_with("cannot write to the disk: "));
        assert_eq!((io.writes(), io.bytes_written(), io.reads(), io.flushes()), (1, 12, 1, 0));
    }
}
