//! The journal: a write-ahead log in the file header, in front of the database.
//!
//! A commit is appended as one record and flushed: some hundred bytes in place, where a commit of
//! the database writes seven pages. The edits also stay in memory, in an overlay above the tables.
//! When the journal is full, a checkpoint writes all edits with one commit of the database, and the
//! journal restarts. A row that was inserted and removed in between is never written to the tables.
//! The database is copied on write, so the journal needs no undo.
//!
//! Invariant: the journal ends where no whole record with the next number and the same salt
//! follows. Each journal draws a random salt, as the write-ahead log of `SQLite` does, because
//! remains of earlier journals are behind its end, and a body in them may imitate a record.

use std::io;
use std::sync::Arc;

use tubewell_drivers::Value;

use super::file_header::{FILE_HEADER_LEN, JOURNAL_START};
use super::journal_record::{RECORD_ALIGN, RECORD_HEADER_LEN, Record, ReplayError, encode_record};
use super::medium::Medium;
use super::overlay::Overlay;
use crate::Error;
use crate::random::random_u64;

/// The number of the end mark, which stands in place of a first record. Records count from 1.
const END_MARK: u64 = 0;
/// Blocks are written ahead, in steps of this many bytes, so that a flush allocates none.
const PREALLOCATION: u64 = 16 << 10;
/// A commit larger than this fraction of the journal goes to the database directly.
const MAX_RECORD_FRACTION: u64 = 4;

/// The journal of an open store.
#[derive(Debug)]
pub(super) struct Journal {
    medium: Arc<Medium>,
    /// The offset of the next record.
    head: u64,
    /// The number of the journal's first record: one more than that of the last checkpoint.
    first: u64,
    salt: u64,
    /// The number of the next record.
    next: u64,
    /// The end of the blocks that were written since the store was opened.
    allocated_to: u64,
    /// A write failed: the contents of the file are unknown until the journal is read again.
    failed: bool,
}

/// The contents of a journal.
pub(super) struct Replayed {
    pub(super) journal: Journal,
    /// The edits that the database does not have.
    pub(super) edits: Overlay,
    /// Why some of them cannot be read.
    pub(super) damage: Option<ReplayError>,
}

impl Journal {
    /// Reads the journal. `checkpoint` is the number of the last record that the database has.
    pub(super) fn replay(medium: &Arc<Medium>, checkpoint: u64) -> io::Result<Replayed> {
        let mut journal = Journal {
            medium: Arc::clone(medium),
            head: JOURNAL_START,
            first: checkpoint + 1,
            salt: random_u64(),
            next: checkpoint + 1,
            allocated_to: JOURNAL_START,
            failed: false,
        };
        let mut start = [0; RECORD_HEADER_LEN];
        medium.read_header(JOURNAL_START, &mut start)?;
        let mut edits = Overlay::default();
        if journal.is_end_mark(&start) {
            return Ok(Replayed { journal, edits, damage: None });
        }
        medium.flush_and_drop_cache()?;
        let bytes = journal.bytes()?;
        let damage = journal.read(&bytes, &mut edits);
        Ok(Replayed { journal, edits, damage })
    }

    /// Reads all records. Returns why some edits cannot be read.
    fn read(&mut self, bytes: &[u8], edits: &mut Overlay) -> Option<ReplayError> {
        // Only the first record of a journal and an end mark are ever written at this offset.
        let start = usize::try_from(JOURNAL_START).ok().and_then(|at| Record::at(bytes, at));
        let Some(start) = start else { return self.find_later_record(bytes, None) };
        let first = if start.number == END_MARK { start.salt } else { start.number };
        if first > self.first {
            let last = self.first - 1;
            return Some(ReplayError::Damaged(format!(
                "commits are missing: the database ends with record {last}, the journal begins with \
                 record {first}"
            )));
        }
        if start.number != self.first {
            return None;
        }
        self.salt = start.salt;
        let read = self.read_records(bytes, |record| record.replay(edits));
        read.err().or_else(|| self.find_later_record(bytes, Some(self.salt)))
    }

    /// Returns an error if a write to the journal has failed.
    pub(super) fn check_usable(&self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("an earlier write to the journal failed"));
        }
        Ok(())
    }

    /// Appends a commit and flushes it. Returns false, and does nothing, if it does not fit. After
    /// an error the journal accepts no further commit.
    pub(super) fn append(&mut self, overlay: &Overlay) -> io::Result<bool> {
        if overlay.bytes() as u64 > (FILE_HEADER_LEN - JOURNAL_START) / MAX_RECORD_FRACTION {
            return Ok(false);
        }
        let mut record = encode_record(overlay, self.salt, self.next);
        let end = self.head + record.len() as u64;
        if end > FILE_HEADER_LEN {
            return Ok(false);
        }
        if end > self.allocated_to {
            self.allocated_to = end.next_multiple_of(PREALLOCATION).min(FILE_HEADER_LEN);
            let len = usize::try_from(self.allocated_to - self.head).unwrap_or(record.len());
            record.resize(len, 0);
        }
        self.failed = true;
        self.medium.write_header(self.head, &record)?;
        self.medium.sync()?;
        self.failed = false;
        self.head = end;
        self.next += 1;
        Ok(true)
    }

    /// The number of the last record.
    pub(super) fn last(&self) -> u64 {
        self.next - 1
    }

    /// Empties the journal, once the database has all edits and has flushed them.
    pub(super) fn restart(&mut self) {
        self.first = self.next;
        self.salt = random_u64();
        self.head = JOURNAL_START;
    }

    /// Marks an empty journal, so that the next open need not search it for records. The mark is
    /// not flushed: an open without it only takes longer.
    pub(super) fn write_end_mark(&mut self) -> io::Result<()> {
        debug_assert!(self.head == JOURNAL_START, "the database has all edits");
        let mark = encode_record(&Overlay::default(), self.first, END_MARK);
        self.medium.write_header(JOURNAL_START, &mark)
    }

    /// Reads all records again. Returns a description of the damage, or `None` if there is none.
    pub(super) fn check(&self) -> io::Result<Option<String>> {
        let bytes = self.bytes()?;
        let mut found = Journal {
            medium: Arc::clone(&self.medium),
            head: JOURNAL_START,
            next: self.first,
            ..*self
        };
        let read = found.read_records(&bytes, |_| Ok(()));
        let is_damaged = read.is_err() || (found.head, found.next) != (self.head, self.next);
        Ok(is_damaged.then(|| format!("record {} of the journal is damaged", found.next)))
    }

    fn bytes(&self) -> io::Result<Vec<u8>> {
        let mut bytes = vec![0; usize::try_from(FILE_HEADER_LEN).map_err(io::Error::other)?];
        self.medium.read_header(0, &mut bytes)?;
        Ok(bytes)
    }

    fn is_end_mark(&self, start: &[u8]) -> bool {
        let record = Record::at(start, 0);
        record.is_some_and(|found| found.has(self.first, END_MARK))
    }

    /// Calls `each` with the records from `head` on, until there are no more or `each` fails.
    fn read_records(
        &mut self,
        bytes: &[u8],
        mut each: impl FnMut(&Record<'_>) -> Result<(), ReplayError>,
    ) -> Result<(), ReplayError> {
        while let Ok(at) = usize::try_from(self.head)
            && let Some(record) = Record::at(bytes, at)
            && record.has(self.salt, self.next)
        {
            each(&record)?;
            self.head += record.aligned_len();
            self.next += 1;
        }
        Ok(())
    }

    /// Looks behind the end for a record with a higher number. One commit is written at a time, so
    /// such a record means that the record at the end is damaged. If the first record is damaged
    /// the salt is unknown, and any salt counts.
    fn find_later_record(&self, bytes: &[u8], salt: Option<u64>) -> Option<ReplayError> {
        let from = usize::try_from(self.head).unwrap_or(bytes.len());
        let later = |at: usize| {
            let (found_salt, number) = Record::salt_and_number(bytes.get(at..)?)?;
            let is_later = number > self.next && salt.is_none_or(|salt| salt == found_salt);
            // The checksum is computed for candidates only.
            is_later.then(|| Record::at(bytes, at))?
        };
        let found = (from..bytes.len()).step_by(RECORD_ALIGN).find_map(later);
        let damaged = || format!("record {} of the journal is damaged", self.next);
        found.map(|_| ReplayError::Damaged(damaged()))
    }
}

/// The key, in `meta`, of the number of the last record that the database has.
pub(super) const CHECKPOINT_KEY: &[u8] = b"journal";

pub(super) fn encode_checkpoint(number: u64) -> Value {
    crate::codec::encode_row(&number)
}

pub(super) fn decode_checkpoint(row: Option<&[u8]>) -> Result<u64, Error> {
    let Some(row) = row else { return Ok(0) };
    // The bound keeps a forged row from making the numbers overflow.
    crate::codec::decode_row(row)
        .filter(|number| *number <= u64::MAX / 2)
        .ok_or_else(|| Error::corrupt("the row \"journal\" of \"meta\" cannot be decoded"))
}

#[cfg(test)]
mod tests {
    use redb::backends::InMemoryBackend;
    use tubewell_drivers::Table;

    use super::*;
    use crate::storage::backend::IoCounters;
    use crate::storage::journal_record::seal_record;

    fn medium() -> Arc<Medium> {
        let bytes = InMemoryBackend::new();
        redb::StorageBackend::set_len(&bytes, FILE_HEADER_LEN).unwrap();
        Arc::new(Medium::volatile(Box::new(bytes), IoCounters::new("the disk".into())))
    }

    fn edit(number: u64) -> Overlay {
        let mut overlay = Overlay::default();
        overlay.insert(Table::Tasks, number.to_be_bytes().to_vec(), vec![7; 100].into());
        overlay
    }

    fn replay(medium: &Arc<Medium>, checkpoint: u64) -> Replayed {
        Journal::replay(medium, checkpoint).unwrap()
    }

    /// A journal with this many records, and the offset of each.
    fn journal_with(medium: &Arc<Medium>, records: u64) -> (Journal, Vec<u64>) {
        let mut journal = replay(medium, 0).journal;
        let append = |number| {
            let offset = journal.head;
            assert!(journal.append(&edit(number)).unwrap());
            offset
        };
        let offsets = (0..records).map(append).collect();
        (journal, offsets)
    }

    fn flip_bit(medium: &Medium, at: u64) {
        let mut byte = [0];
        medium.read_header(at, &mut byte).unwrap();
        medium.write_header(at, &[byte[0] ^ 4]).unwrap();
    }

    #[test]
    fn replay_returns_appended_edits_and_the_journal_continues() {
        let medium = medium();
        let (journal, _) = journal_with(&medium, 5);
        assert_eq!((journal.last(), journal.check().unwrap()), (5, None));
        let mut again = replay(&medium, 0);
        assert_eq!((again.edits.len(), again.journal.last(), again.damage), (5, 5, None));
        assert!(again.journal.append(&edit(5)).unwrap());
        assert_eq!(replay(&medium, 0).edits.len(), 6);
    }

    #[test]
    fn torn_last_record_is_the_end_and_is_overwritten() {
        let medium = medium();
        let (_, offsets) = journal_with(&medium, 5);
        for at in offsets[4]..offsets[4] + 60 {
            flip_bit(&medium, at);
            let found = replay(&medium, 0);
            assert_eq!((found.edits.len(), found.damage), (4, None), "byte {at}");
            flip_bit(&medium, at);
        }
        flip_bit(&medium, offsets[4]);
        assert!(replay(&medium, 0).journal.append(&edit(9)).unwrap());
        assert_eq!(replay(&medium, 0).edits.len(), 5);
    }

    #[test]
    fn damaged_record_before_others_is_reported() {
        let medium = medium();
        let (journal, offsets) = journal_with(&medium, 5);
        for offset in &offsets[..4] {
            for at in *offset..*offset + 60 {
                flip_bit(&medium, at);
                assert!(replay(&medium, 0).damage.is_some(), "byte {at}");
                assert!(journal.check().unwrap().is_some());
                flip_bit(&medium, at);
            }
        }
    }

    #[test]
    fn replay_skips_checkpointed_records_and_reports_lost_ones() {
        let medium = medium();
        let (mut journal, _) = journal_with(&medium, 5);
        assert!(replay(&medium, 5).edits.is_empty());
        journal.restart();
        assert!(journal.append(&edit(5)).unwrap());
        let found = replay(&medium, 5);
        assert_eq!((found.edits.len(), found.damage), (1, None));
        assert!(replay(&medium, 0).damage.is_some(), "records 1 to 5 are lost");
        journal.restart();
        journal.write_end_mark().unwrap();
        let found = replay(&medium, 6);
        assert_eq!((found.edits.len(), found.damage), (0, None));
        assert!(replay(&medium, 5).damage.is_some(), "record 6 is lost");
    }

    /// An application chooses the bodies of its tasks, and can guess the numbers of records.
    #[test]
    fn forged_record_in_the_remains_of_an_earlier_journal_is_ignored() {
        let medium = medium();
        let (mut journal, _) = journal_with(&medium, 5);
        journal.restart();
        assert!(journal.append(&edit(5)).unwrap());
        let mut at = journal.head;
        for number in 7..10 {
            let forged = encode_record(&edit(number), journal.first, number);
            medium.write_header(at, &forged).unwrap();
            at += forged.len() as u64;
        }
        let found = replay(&medium, 5);
        assert_eq!((found.edits.len(), found.damage), (1, None));
    }

    #[test]
    fn torn_first_record_leaves_an_empty_journal() {
        let medium = medium();
        let (mut journal, _) = journal_with(&medium, 5);
        journal.restart();
        assert!(journal.append(&edit(5)).unwrap());
        flip_bit(&medium, JOURNAL_START + 40);
        let found = replay(&medium, 5);
        assert_eq!((found.edits.len(), found.damage), (0, None));
    }

    #[test]
    fn decode_checkpoint_refuses_numbers_close_to_overflow() {
        for number in [u64::MAX, u64::MAX / 2 + 1] {
            let refused = decode_checkpoint(Some(&encode_checkpoint(number)));
            assert!(matches!(refused, Err(Error::Corrupt { .. })), "{number}");
        }
        assert_eq!(decode_checkpoint(Some(&encode_checkpoint(7))), Ok(7));
        assert_eq!(decode_checkpoint(None), Ok(0));
    }

    #[test]
    fn commit_that_does_not_fit_leaves_the_journal_unchanged() {
        let medium = medium();
        let mut journal = replay(&medium, 0).journal;
        let mut large = Overlay::default();
        large.insert(Table::Bodies, vec![1], vec![0; 300_000].into());
        assert!(!journal.append(&large).unwrap());
        let records =
            (0..100_000).take_while(|number| journal.append(&edit(*number)).unwrap()).count();
        assert!(records > 5000, "{records} records");
        assert_eq!(replay(&medium, 0).edits.len(), records);
        journal.restart();
        assert!(journal.append(&edit(0)).unwrap());
    }

    /// Regression: it was reported as damage, which salvage would then have left out.
    #[test]
    fn record_with_a_table_of_a_newer_release_is_not_damage() {
        let medium = medium();
        let (journal, offsets) = journal_with(&medium, 2);
        let mut record = encode_record(&edit(1), journal.salt, 2);
        let unknown = u8::try_from(Table::ALL.len()).unwrap();
        record[RECORD_HEADER_LEN] = unknown;
        seal_record(&mut record);
        medium.write_header(offsets[1], &record).unwrap();
        let found = replay(&medium, 0);
        let newer = ReplayError::UnknownTable { record: 2, table: unknown };
        assert_eq!((found.edits.len(), found.damage), (1, Some(newer)));
    }
}
