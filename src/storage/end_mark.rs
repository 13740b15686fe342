//! The end mark: a record in place of the first one, which says that the journal is empty.
//!
//! A run overwrites the mark with its first record. A power cut can lose that record and keep later
//! ones of the run, and then the mark is there again, in front of records that it denies. So an open
//! that finds a mark in a file that was not closed makes it invalid, before the engine can mark the
//! file as closed.

use super::journal_record::{RECORD_HEADER_LEN, Record, encode_record};
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
    /// An earlier release wrote the mark.
    pub(super) is_v1: bool,
}

impl EndMark {
    /// The mark at the begin of a journal, if there is one.
    pub(super) fn read(start: &[u8; RECORD_HEADER_LEN]) -> Option<EndMark> {
        let header = Record::at(start, 0)?.header;
        let is_valid = header.flushed == VALID;
        let mark = EndMark { next: header.salt, is_valid, is_v1: header.is_v1 };
        (header.number == END_MARK).then_some(mark)
    }

    /// The bytes of a mark for this next record.
    pub(super) fn valid(next: u64) -> Vec<u8> {
        encode(next, VALID)
    }

    /// The bytes that make this mark invalid; `None` if it is already. A mark of version 1 stays: the
    /// open replaces it, before the journal gets a record.
    pub(super) fn invalidated(self) -> Option<Vec<u8>> {
        (self.is_valid && !self.is_v1).then(|| encode(self.next, INVALID))
    }
}

fn encode(next: u64, validity: u64) -> Vec<u8> {
    let mut mark = Vec::new();
    encode_record(&mut mark, &Overlay::default(), (next, END_MARK, validity));
    mark
}
