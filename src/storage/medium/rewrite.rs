//! After a failed flush: what reads return, and what is on the disk, are made the same again.
//!
//! The cache of the operating system proves nothing then. On ext4 a page of a new area belongs to
//! an extent that counts as unwritten. If its first write-back fails, the cached page stays mapped
//! to its block: a later write through the cache reaches the block, the flush succeeds, and the
//! extent still counts as unwritten, so that readers of the disk see zeros.
//!
//! So the cache is dropped before anything is read or written again, and each byte is read back from
//! the disk. Bytes that were never flushed may be lost by that, as by a power cut. Memory has all
//! edits that the database may lack, and repeats them.

use std::io;

use xxhash_rust::xxh3::xxh3_64;

use super::{FlushOf, Medium};
use crate::storage::file_header::title;

/// Bytes are read and written again in chunks of this size at most.
const CHUNK: u64 = 1 << 20;

/// A chunk that was written again, and its hash.
struct Rewritten {
    offset: u64,
    len: u64,
    hash: u64,
}

impl Medium {
    /// Repairs what a failed flush may have left, if one has failed: drops the cache, writes what
    /// reads then return in all places that were written since the last successful flush, flushes
    /// it, and compares it with what the disk returns. After an error the call must be repeated.
    ///
    /// Each byte is written once, however many attempts have failed before. No other call may write.
    pub(in crate::storage) fn rewrite_unflushed(&self) -> io::Result<()> {
        let mut has_failed = self.unflushed.lock().has_failed();
        let ranges = self.unflushed.lock().begin_rewrite();
        // Each description may still have to report a failure of earlier writes.
        for of in [FlushOf::Journal, FlushOf::Database] {
            self.unflushed.lock().begin_rewrite();
            self.write_title_again()?;
            has_failed |= self.sync(of).is_err();
        }
        if !has_failed {
            return Ok(());
        }
        self.io.clear_failure();
        self.unflushed.lock().begin_rewrite();
        let repaired = self.repair(&ranges);
        if repaired.is_err() {
            self.unflushed.lock().rewrite_failed(&ranges);
        }
        repaired
    }

    fn repair(&self, ranges: &[(u64, u64)]) -> io::Result<()> {
        // The cache keeps what is not flushed.
        self.write_title_again()?;
        self.flush_both()?;
        self.drop_cache();
        let chunks = self.rewrite(ranges)?;
        self.flush_both()?;
        self.drop_cache();
        self.read_back(&chunks)
    }

    /// Gives the next flush something to write. A flush of nothing goes on to the data of the file
    /// system itself: btrfs is read-only from then on if the disk still fails. The title is constant.
    fn write_title_again(&self) -> io::Result<()> {
        if self.has_journal() && !self.needs_title() { self.write_at(0, &title()) } else { Ok(()) }
    }

    fn flush_both(&self) -> io::Result<()> {
        self.sync(FlushOf::Journal)?;
        self.sync(FlushOf::Database)
    }

    fn rewrite(&self, ranges: &[(u64, u64)]) -> io::Result<Vec<Rewritten>> {
        let end = self.io.record_failure("get the length of", self.bytes.whole.len())?;
        let mut chunks = Vec::new();
        let mut bytes = Vec::new();
        for (from, to) in ranges {
            let mut offset = *from;
            while offset < (*to).min(end) {
                let len = ((*to).min(end) - offset).min(CHUNK);
                resize(&mut bytes, len);
                self.io.record_failure("read", self.bytes.whole.read(offset, &mut bytes))?;
                self.write_at(offset, &bytes)?;
                chunks.push(Rewritten { offset, len, hash: xxh3_64(&bytes) });
                offset += len;
            }
        }
        Ok(chunks)
    }

    /// Compares these chunks with what is on the disk.
    fn read_back(&self, chunks: &[Rewritten]) -> io::Result<()> {
        let mut bytes = Vec::new();
        for Rewritten { offset, len, hash } in chunks {
            resize(&mut bytes, *len);
            let read = self.read_from_disk(*offset, &mut bytes);
            self.io.record_failure("read", read)?;
            if xxh3_64(&bytes) != *hash {
                let end = offset + len;
                let why = format!(
                    "after a failed flush the bytes {offset} to {end} were written again, and the \
                     disk returns others; the store tries again, check the disk"
                );
                return self.io.record_failure("repair", Err(io::Error::other(why)));
            }
        }
        Ok(())
    }
}

fn resize(bytes: &mut Vec<u8>, len: u64) {
    bytes.resize(usize::try_from(len).unwrap_or_default(), 0);
}
