//! The journal: a write-ahead log in the file header, in front of the database.
//!
//! A commit is appended as one record: some hundred bytes in place, where a commit of the database
//! writes seven pages. Appending reserves the record's place; [`write_to`](Journal::write_to) passes
//! it to the operating system and [`flush_to`](Journal::flush_to) to the disk, each together with all
//! records before it. Records may be appended and written while a flush runs.
//!
//! The journal has two halves. When one is full, records go to the other, and a checkpoint writes
//! the edits of the full half with one commit of the database. A row that was inserted and removed
//! in between is never written to the tables. The database is copied on write, so the journal needs
//! no undo.
//!
//! Invariants: records are written in the order of their numbers. A half gets new records once the
//! database has all of its old ones, and has flushed them. The records have a random salt, as those
//! of the write-ahead log of `SQLite`: remains of earlier records are behind the end, and a body in
//! them may imitate a record. A run that follows a crash draws a new salt, and its first commit is a
//! checkpoint, which stores the salt. So no record is taken for one of a run that a crash has ended.

pub(super) mod replay;

use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tubewell_drivers::Value;

use self::replay::{Checkpointed, HALVES, Replayed, read_all, walk};
use super::commit_error::CommitError;
use super::end_mark::EndMark;
use super::failure::attempt;
use super::file_header::JOURNAL_START;
use super::journal_record::encode_record;
use super::medium::{FlushOf, Medium};
use super::overlay::Overlay;
use crate::Error;
use crate::base::codec;
use crate::base::random::random_u64;
use crate::base::sync::{InnerMutex, Mutex};

/// Blocks are written ahead, in steps of this many bytes, so that a flush allocates none. Small
/// steps also keep the folios of the page cache small: on ext4 a write into a folio of 1 MiB takes
/// three times as long as one into 16 KiB.
const PREALLOCATION: u64 = 16 << 10;
/// A larger commit goes to the database directly.
const MAX_RECORD: usize = 256 << 10;

/// The journal of an open store.
#[derive(Debug)]
pub(crate) struct Journal {
    medium: Arc<Medium>,
    salt: u64,
    tail: InnerMutex<Tail>,
    /// Locked while records are written: the end of the blocks that were written ahead, by half.
    writing: Mutex<[u64; 2]>,
    /// Locked while a flush runs.
    flushing: Mutex<()>,
    /// The number of the last record that was written, and that of the last one that was flushed.
    written: AtomicU64,
    flushed: AtomicU64,
    /// A write or a flush failed: the store must be reopened.
    failed: AtomicBool,
}

/// Where the next record goes.
#[derive(Debug)]
struct Tail {
    half: usize,
    head: u64,
    /// The number of the next record.
    next: u64,
    /// The numbers of the first and the last record of each half, if the database may not have all
    /// of them.
    runs: [Option<(u64, u64)>; 2],
    /// Records that are not written yet, with their offset.
    pending: Vec<(u64, Vec<u8>)>,
    /// The memory of the records that were written last.
    spare: Vec<u8>,
    must_restart: bool,
}

/// Whether a record goes to the other half.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// A checkpoint runs, so that no other can begin.
    Never,
    IfFull,
    /// The checkpoint should begin now.
    Now,
}

/// The result of [`Journal::append`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Appended {
    /// The edits are the record with this number.
    Record(u64),
    /// The same, and it is the first record of its half: a checkpoint must write those before it.
    FirstOfHalf(u64),
    /// Both halves are full: a checkpoint must end first. Nothing was appended.
    Full,
    /// The commit must go to the database, with all records before it. Nothing was appended.
    Direct,
}

impl Journal {
    /// The journal of a run, continued after what was read.
    pub(super) fn new(medium: &Arc<Medium>, replayed: &Replayed) -> Journal {
        let last = replayed.last;
        Journal {
            medium: Arc::clone(medium),
            salt: replayed.salt.unwrap_or_else(random_u64),
            tail: InnerMutex::new(Tail {
                half: 0,
                head: JOURNAL_START,
                next: last + 1,
                runs: [None; 2],
                pending: Vec::new(),
                spare: Vec::new(),
                must_restart: replayed.must_restart || medium.needs_title(),
            }),
            writing: Mutex::new(HALVES.map(|(start, _)| start)),
            flushing: Mutex::new(()),
            written: AtomicU64::new(last),
            flushed: AtomicU64::new(last),
            failed: AtomicBool::new(false),
        }
    }

    /// The journal after a failure. The database must take all records of this one first.
    pub(super) fn next_run(&self) -> Journal {
        let replayed = Replayed {
            edits: Overlay::default(),
            damage: None,
            last: self.last(),
            salt: None,
            must_restart: true,
        };
        Journal::new(&self.medium, &replayed)
    }

    /// Appends a commit, without writing it.
    pub(crate) fn append(&self, edits: &Overlay, turn: Turn) -> Appended {
        let mut tail = self.tail.lock();
        if tail.must_restart || edits.bytes() > MAX_RECORD {
            return Appended::Direct;
        }
        let flushed = self.flushed.load(Ordering::Acquire);
        let mut record = std::mem::take(&mut tail.spare);
        record.clear();
        encode_record(&mut record, edits, (self.salt, tail.next, flushed));
        let fits = tail.head + record.len() as u64 <= HALVES[tail.half].1;
        let has_records = tail.runs[tail.half].is_some();
        let may_turn = turn == Turn::Now || turn == Turn::IfFull && !fits;
        let turns = has_records && may_turn && tail.runs[1 - tail.half].is_none();
        if !turns && !fits {
            tail.spare = record;
            return if has_records { Appended::Full } else { Appended::Direct };
        }
        if turns {
            tail.half = 1 - tail.half;
            tail.head = HALVES[tail.half].0;
        }
        let number = tail.push(record);
        if turns { Appended::FirstOfHalf(number) } else { Appended::Record(number) }
    }

    /// What a checkpoint up to this record stores.
    pub(super) fn checkpointed(&self, number: u64) -> Checkpointed {
        Checkpointed { number, salt: Some(self.salt) }
    }

    /// The number of the last record.
    pub(crate) fn last(&self) -> u64 {
        self.tail.lock().next - 1
    }

    /// The bytes of the records that the database may not have. A half that is full counts whole.
    pub(super) fn used(&self) -> u64 {
        let tail = self.tail.lock();
        let used = |half: usize, end: u64| {
            tail.runs[half].map_or(0, |_| end.saturating_sub(HALVES[half].0))
        };
        let other = 1 - tail.half;
        used(tail.half, tail.head) + used(other, HALVES[other].1)
    }

    /// Whether the next commit must go to the database: the last run has ended with a crash.
    pub(crate) fn must_restart(&self) -> bool {
        self.tail.lock().must_restart
    }

    /// As [`write_to`](Journal::write_to), or with `flush` as [`flush_to`](Journal::flush_to), for a
    /// commit.
    pub(crate) fn write(&self, number: u64, flush: bool) -> Result<(), CommitError> {
        attempt(&self.medium.io, |unknown| {
            unknown.set(true);
            let done = if flush { self.flush_to(number) } else { self.write_to(number) };
            Ok(done?)
        })
    }

    /// Returns once the operating system has this record and all before it. May block for a write.
    pub(super) fn write_to(&self, number: u64) -> io::Result<()> {
        let is_written = || self.written.load(Ordering::Acquire) >= number;
        if is_written() {
            return Ok(());
        }
        let mut allocated = self.writing.lock();
        if is_written() {
            return Ok(());
        }
        self.check_usable()?;
        let (pending, last) = {
            let mut tail = self.tail.lock();
            (std::mem::take(&mut tail.pending), tail.next - 1)
        };
        let mut spare = Vec::new();
        for (offset, mut bytes) in pending {
            write_ahead(&mut allocated, offset, &mut bytes);
            if let Err(error) = self.medium.write_header(offset, &bytes) {
                self.failed.store(true, Ordering::Release);
                return Err(error);
            }
            spare = bytes;
        }
        self.written.fetch_max(last, Ordering::AcqRel);
        if spare.capacity() < 2 * MAX_RECORD {
            self.tail.lock().spare = spare;
        }
        Ok(())
    }

    /// Fails if the path of the file does not name it any more. A write says nothing about that.
    pub(crate) fn check_name(&self) -> Result<(), CommitError> {
        attempt(&self.medium.io, |unknown| {
            unknown.set(true);
            let checked = self.medium.check_name();
            if checked.is_err() {
                self.failed.store(true, Ordering::Release);
            }
            Ok(checked?)
        })
    }

    /// Returns once this record and all before it are on the disk. May block for a flush.
    pub(super) fn flush_to(&self, number: u64) -> io::Result<()> {
        self.write_to(number)?;
        if self.flushed.load(Ordering::Acquire) >= number {
            return Ok(());
        }
        let _flushing = self.flushing.lock();
        if self.flushed.load(Ordering::Acquire) >= number {
            return Ok(());
        }
        self.check_usable()?;
        // What was written when the flush begins is covered by it.
        let written = self.written.load(Ordering::Acquire);
        // After the flush, which takes longer than the look.
        let flushed = self.medium.sync(FlushOf::Journal).and_then(|()| self.medium.check_name());
        if let Err(error) = flushed {
            self.failed.store(true, Ordering::Release);
            return Err(error);
        }
        self.flushed.fetch_max(written, Ordering::AcqRel);
        Ok(())
    }

    /// The database has flushed all records up to this one: their places can be used again.
    pub(super) fn records_are_checkpointed(&self, number: u64) {
        let mut tail = self.tail.lock();
        let other = 1 - tail.half;
        tail.runs[other] = tail.runs[other].filter(|(_, last)| *last > number);
        if number + 1 == tail.next {
            // The database has the records that were not written, too.
            tail.pending.clear();
            tail.half = 0;
            tail.head = JOURNAL_START;
            tail.runs = [None; 2];
            tail.must_restart = false;
        }
        self.written.fetch_max(number, Ordering::AcqRel);
        self.flushed.fetch_max(number, Ordering::AcqRel);
    }

    /// Writes a title that was found damaged again.
    pub(super) fn restore_title(&self) -> io::Result<()> {
        if !self.medium.needs_title() {
            return Ok(());
        }
        self.medium.write_title()?;
        self.medium.sync(FlushOf::Journal)
    }

    /// Waits for the write in progress, and refuses all later ones: the file is about to be
    /// reopened.
    pub(super) fn retire(&self) {
        self.failed.store(true, Ordering::Release);
        drop(self.writing.lock());
        drop(self.flushing.lock());
    }

    /// Marks the journal as empty if the database has all its records, so that the next open need
    /// not search it. The mark is not flushed: an open without it only takes longer.
    pub(super) fn write_end_mark(&self) -> io::Result<()> {
        let _writing = self.writing.lock();
        let is_checkpointed = {
            let tail = self.tail.lock();
            tail.runs == [None; 2] && !tail.must_restart
        };
        if !is_checkpointed {
            return Ok(());
        }
        self.medium.write_header(JOURNAL_START, &EndMark::valid(self.last() + 1))
    }

    /// Reads all written records again. Returns a description of the damage, or `None` if there is
    /// none.
    pub(super) fn check(&self) -> io::Result<Option<String>> {
        let _writing = self.writing.lock();
        self.check_usable()?;
        let (runs, unwritten) = {
            let tail = self.tail.lock();
            (tail.runs, tail.unwritten())
        };
        let written = self.written.load(Ordering::Acquire);
        let bytes = read_all(&self.medium)?;
        for (half, run) in HALVES.into_iter().zip(runs) {
            let Some((first, last)) = run else { continue };
            let (next, at) = walk(&bytes, half, (self.salt, first), |_| Ok::<(), io::Error>(()))?;
            // Records that the database has count as written before they are.
            let is_written = !unwritten.iter().any(|places| places.contains(&at));
            if next <= last.min(written) && is_written {
                return Ok(Some(format!("record {next} of the journal is damaged")));
            }
        }
        Ok(None)
    }

    fn check_usable(&self) -> io::Result<()> {
        if self.failed.load(Ordering::Acquire) {
            return Err(io::Error::other("an earlier write to the journal failed"));
        }
        Ok(())
    }
}

/// Extends a write to blocks that have never been written in this run.
fn write_ahead(allocated: &mut [u64; 2], offset: u64, bytes: &mut Vec<u8>) {
    let half = usize::from(offset >= HALVES[1].0);
    let end = offset + bytes.len() as u64;
    if end > allocated[half] {
        let to = end.next_multiple_of(PREALLOCATION).min(HALVES[half].1);
        let len = usize::try_from(to - offset).unwrap_or(bytes.len());
        bytes.resize(len, 0);
        allocated[half] = to;
    }
}

impl Tail {
    /// The places of the records that are not written yet.
    fn unwritten(&self) -> Vec<Range<u64>> {
        let places = |(start, bytes): &(u64, Vec<u8>)| *start..*start + bytes.len() as u64;
        self.pending.iter().map(places).collect()
    }

    /// Gives a record its place. Returns its number.
    fn push(&mut self, record: Vec<u8>) -> u64 {
        let (number, offset, len) = (self.next, self.head, record.len() as u64);
        match self.pending.last_mut() {
            Some((start, bytes)) if *start + bytes.len() as u64 == offset => {
                bytes.extend_from_slice(&record);
                self.spare = record;
            }
            _ => self.pending.push((offset, record)),
        }
        self.runs[self.half].get_or_insert((number, number)).1 = number;
        self.head += len;
        self.next += 1;
        number
    }
}

/// The key, in `meta`, of what the database says about the journal.
pub(super) const CHECKPOINT_KEY: &[u8] = b"journal";

pub(super) fn encode_checkpoint(checkpoint: Checkpointed) -> Value {
    let Checkpointed { number, salt } = checkpoint;
    codec::encode_row(&(number, salt.unwrap_or_default()))
}

pub(super) fn decode_checkpoint(row: Option<&[u8]>) -> Result<Checkpointed, Error> {
    let Some(row) = row else { return Ok(Checkpointed::default()) };
    // The bound keeps a forged row from making the numbers overflow.
    codec::decode_row(row)
        .map(|(number, salt)| Checkpointed { number, salt: Some(salt) })
        .filter(|found| found.number <= u64::MAX / 2)
        .ok_or_else(|| Error::corrupt("the row \"journal\" of \"meta\" cannot be decoded"))
}

#[cfg(test)]
mod tests;
