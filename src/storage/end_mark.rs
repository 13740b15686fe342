//! The end mark: a record in place of the first one, which says that the journal is empty.
//!
//! A run overwrites the mark with its first record. A power cut can lose that record and keep later
//! ones of the run, and then the mark is there again, in front of records that it denies. So an open
//! that finds a mark in a file that was not closed makes it invalid, before the engine can mark the
//! file as closed.
//!
//! A file whose last run was killed before its first record looks the same as one that has lost this
//! record. So its next open reads the journal, too: 1 MiB, and of the database no more than after a
//! close. A mark that stays valid until the first record would cost this record a flush before it.

use super::journal_record::{RECORD_HEADER_LEN, Record, VERSION, encode_record};
use super::overlay::Overlay;

/// The number of the end mark. Records count from 1.
pub(super) const END_MARK: u64 = 0;

/// The flushed number of a mark that is valid, and of one that is not.
const VALID: u64 = 0;
const INVALID: u64 = 1;

/// An end mark in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct EndMark {
    /// The number that the next record will have.
    pub(super) next: u64,
    pub(super) is_valid: bool,
}

impl EndMark {
    /// The mark at the begin of a journal, if there is one.
    pub(super) fn read(start: &[u8; RECORD_HEADER_LEN]) -> Option<EndMark> {
        let header = Record::at(start, 0)?.header;
        let is_valid = header.flushed == VALID;
        let is_mark = header.number == END_MARK && header.version == VERSION;
        is_mark.then_some(EndMark { next: header.salt, is_valid })
    }

    /// The bytes of a mark for this next record.
    pub(super) fn valid(next: u64) -> Vec<u8> {
        encode(next, VALID)
    }

    /// The bytes that make this mark invalid; `None` if it is already.
    pub(super) fn invalidated(self) -> Option<Vec<u8>> {
        self.is_valid.then(|| encode(self.next, INVALID))
    }
}

fn encode(next: u64, validity: u64) -> Vec<u8> {
    let mut mark = Vec::new();
    encode_record(&mut mark, &Overlay::default(), (next, END_MARK, validity));
    mark
}
