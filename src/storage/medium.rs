//! A medium over the lives of the engines that are opened on it.
//!
//! It outlasts an engine that failed, so that the next one takes over its locks with nobody in
//! between; it knows what was written and not yet flushed, and sees to room on the disk.

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
use super::file_header::{FILE_HEADER, Located};
use super::magic::is_unclean;
use crate::sync::InnerMutex;

/// See the module.
#[derive(Debug)]
pub(super) struct Medium {
    pub(super) bytes: Located,
    pub(super) io: Arc<IoCounters>,
    /// `None` in memory, of which nothing needs to be flushed either: a new store there has no
    /// journal.
    ballast_space: Option<Ballast>,
    /// Where bytes were written since the last flush that succeeded.
    unflushed: InnerMutex<Vec<(u64, u64)>>,
    /// Locks that an engine took, kept from one to the next.
    pub(super) locked: InnerMutex<Vec<(Bound<u64>, Bound<u64>)>>,
    unmeasured: AtomicBool,
    closed: AtomicBool,
}

/// Beyond so many writes without a flush it is enough to know from where to where they went.
const MOST_UNFLUSHED: usize = 1 << 16;

impl Medium {
    /// A file that this process has opened.
    pub(super) fn file(file: File, io: Arc<IoCounters>, reserve: u64) -> io::Result<Medium> {
        let ballast_space = Ballast::new(Box::new(file.try_clone()?), reserve);
        let bytes = FileBackend::new(file).map_err(io::Error::other)?;
        Ok(Medium::new(Box::new(bytes), io, Some(ballast_space)))
    }

    /// Memory.
    pub(super) fn memory(io: Arc<IoCounters>) -> Medium {
        Medium::plain(Box::new(InMemoryBackend::new()), io)
    }

    /// Bytes that no power cut needs to leave, and of which there is room enough.
    pub(super) fn plain(bytes: Box<dyn StorageBackend>, io: Arc<IoCounters>) -> Medium {
        Medium::new(bytes, io, None)
    }

    /// Whatever a caller brings.
    pub(super) fn custom(storage: Box<dyn Storage>, io: Arc<IoCounters>, reserve: u64) -> Medium {
        let storage = CustomStorage::new(storage);
        let ballast_space = Ballast::new(Box::new(storage.clone()), reserve);
        Medium::new(Box::new(storage), io, Some(ballast_space))
    }

    fn new(
        bytes: Box<dyn StorageBackend>,
        io: Arc<IoCounters>,
        ballast_space: Option<Ballast>,
    ) -> Medium {
        Medium {
            bytes: Located::new(bytes),
            io,
            ballast_space,
            unflushed: InnerMutex::default(),
            locked: InnerMutex::default(),
            unmeasured: AtomicBool::new(true),
            closed: AtomicBool::new(false),
        }
    }

    /// Whether there is room for `bytes` more, beside those on their way already.
    pub(super) fn admits(&self, bytes: u64, on_their_way: u64) -> bool {
        self.ballast_space
            .as_ref()
            .is_none_or(|ballast_space| ballast_space.admits(bytes, on_their_way))
    }

    /// Whether nothing has run out of room yet.
    pub(super) fn has_ballast(&self) -> bool {
        self.ballast_space.as_ref().is_none_or(Ballast::has_ballast)
    }

    /// Whether there may be little room left.
    pub(super) fn is_short(&self) -> bool {
        self.ballast_space.as_ref().is_some_and(Ballast::is_short)
    }

    /// Whether there is a journal in front of the engine's bytes. Known once they were measured.
    pub(super) fn has_journal(&self) -> bool {
        self.bytes.start() == FILE_HEADER
    }

    /// Reads from what lies in front of the engine's bytes.
    pub(super) fn read_header(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_at(offset, out)
    }

    /// Writes to what lies in front of the engine's bytes.
    pub(super) fn write_header(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        debug_assert!(offset + data.len() as u64 <= FILE_HEADER, "the engine's bytes begin there");
        self.write_at(offset, data)
    }

    /// After a life that did not end well: what the system kept in memory of a flush that failed
    /// must not be built upon, as a power cut would leave something else.
    pub(super) fn distrust_cache(&self) -> io::Result<()> {
        let Some(ballast_space) = &self.ballast_space else { return Ok(()) };
        self.sync()?;
        ballast_space.drop_cache();
        Ok(())
    }

    /// Writes again what was written since the last flush, and flushes it. After a flush has
    /// failed, a system may hold pages for clean that never reached the disk: what is read back
    /// then is not what a power cut leaves.
    pub(super) fn rewrite_unflushed(&self) -> io::Result<()> {
        let ranges = self.unflushed.lock().clone();
        let len = self.io.note("measure", self.bytes.whole.len())?;
        let mut buffer = Vec::new();
        for (from, to) in ranges {
            let mut at = from;
            while at < to.min(len) {
                let step = (to.min(len) - at).min(1 << 20);
                buffer.resize(usize::try_from(step).unwrap_or(0), 0);
                self.io.note("read", self.bytes.whole.read(at, &mut buffer))?;
                self.write_at(at, &buffer)?;
                at += step;
            }
        }
        self.sync()
    }

    /// Lets the bytes go, for good. A failure is noted.
    pub(super) fn close(&self) {
        if !self.closed.swap(true, Ordering::SeqCst) {
            let _ = self.io.note("close", self.bytes.close());
        }
    }

    pub(super) fn len(&self) -> io::Result<u64> {
        // The engine measures first thing after locking, before it looks at the bytes.
        if self.unmeasured.swap(false, Ordering::Relaxed) {
            self.io.note("start afresh in", self.bytes.find_start(self.ballast_space.is_some()))?;
            if is_unclean(&self.bytes)? {
                self.distrust_cache()?;
            }
        }
        self.io.note("measure", self.bytes.len())
    }

    pub(super) fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.read_at(self.bytes.start() + offset, out)
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.io.reads.fetch_add(1, Ordering::Relaxed);
        self.io.note("read", self.bytes.whole.read(offset, out))
    }

    pub(super) fn set_len(&self, len: u64) -> io::Result<()> {
        let resize = || self.bytes.set_len(len);
        self.io.note(
            "resize",
            self.ballast_space
                .as_ref()
                .map_or_else(resize, |ballast_space| ballast_space.resize(resize)),
        )
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.io.flushes.fetch_add(1, Ordering::Relaxed);
        // What is written while this goes on is not covered by it.
        let covered = std::mem::take(&mut *self.unflushed.lock());
        let outcome = self.bytes.sync_data();
        if outcome.is_err() {
            self.unflushed.lock().extend(covered);
        }
        self.io.note("flush", outcome)
    }

    pub(super) fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.write_at(self.bytes.start() + offset, data)
    }

    fn write_at(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.io.writes.fetch_add(1, Ordering::Relaxed);
        let length = data.len() as u64;
        let written = self.io.bytes_written.fetch_add(length, Ordering::Relaxed) + length;
        self.io.tell_watcher(written);
        let write = || self.bytes.whole.write(offset, data);
        let Some(ballast_space) = &self.ballast_space else {
            return self.io.note("write to", write());
        };
        self.note_unflushed(offset, offset.saturating_add(length));
        self.io.note("write to", ballast_space.write(write))
    }

    fn note_unflushed(&self, from: u64, to: u64) {
        let mut ranges = self.unflushed.lock();
        match ranges.last_mut() {
            Some(last) if last.1 == from => last.1 = to,
            _ => ranges.push((from, to)),
        }
        if ranges.len() > MOST_UNFLUSHED {
            let least = ranges.iter().map(|range| range.0).min().unwrap_or(0);
            let most = ranges.iter().map(|range| range.1).max().unwrap_or(0);
            *ranges = vec![(least, most)];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_failure_of_a_medium_is_remembered() {
        let io = IoCounters::new("the disk".into());
        let medium = Medium::memory(Arc::clone(&io));
        assert_eq!(io.first_failure(), None);
        assert!(medium.write(10, b"past the end").is_err());
        assert!(medium.read(10, &mut [0; 4]).is_err());
        assert!(io.first_failure().unwrap().starts_with("cannot write to the disk: "));
        assert_eq!((io.writes(), io.bytes_written(), io.reads(), io.flushes()), (1, 12, 1, 0));
    }
}
