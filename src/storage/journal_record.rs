//! The format of a record of the journal: the edits of one commit, with a checksum.
//!
//! A record is [`MARK`] (3 bytes), the version (1), the length of the payload (4), the journal's salt (8), the
//! record's number (8), the number up to which the journal was flushed when the record was made (8),
//! xxh3 of these numbers and the payload (8), then the payload. Numbers are big-endian. The payload
//! has the edits in bincode's standard encoding.
//!
//! All versions have the header in common, so that a record of a newer release is recognised by its
//! right checksum. The seed is the version minus 1: a damaged version is damage.

use tubewell_drivers::{Table, Value};
use xxhash_rust::xxh3::Xxh3;

use super::overlay::Overlay;

const MARK: [u8; 3] = *b"twj";
/// The version that this release writes, and the newest that it reads.
pub(super) const VERSION: u8 = 1;
/// The length of everything before the payload, in bytes.
pub(super) const RECORD_HEADER_LEN: usize = 40;
/// Records begin at multiples of this many bytes.
pub(super) const RECORD_ALIGN: usize = 8;

/// Why edits of the journal cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReplayError {
    /// The bytes are not those that were written.
    #[error("{0}")]
    Damaged(String),
    /// A record without damage edits a table that this release does not know.
    #[error("a newer release wrote record {record}, with rows of table {table}")]
    UnknownTable { record: u64, table: u8 },
    /// A record without damage has a version that this release does not know.
    #[error("a newer release wrote record {record}, which has version {version}")]
    UnknownVersion { record: u64, version: u8 },
}

/// The numbers in the header of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RecordHeader {
    /// The salt of its journal. An end mark has the number that the next record will have.
    pub(super) salt: u64,
    pub(super) number: u64,
    /// All records up to this number had been flushed when this one was made.
    pub(super) flushed: u64,
    pub(super) version: u8,
    length: u32,
    sum: u64,
}

/// A record whose checksum is right.
pub(super) struct Record<'a> {
    pub(super) header: RecordHeader,
    payload: &'a [u8],
}

impl RecordHeader {
    /// The header of bytes that begin like a record. The checksum is not verified.
    pub(super) fn read(bytes: &[u8]) -> Option<RecordHeader> {
        let version = *bytes.strip_prefix(&MARK)?.first().filter(|version| **version >= VERSION)?;
        let number = |at: usize| Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        Some(RecordHeader {
            salt: number(8)?,
            number: number(16)?,
            flushed: number(24)?,
            version,
            length: u32::from_be_bytes(*bytes.get(4..)?.first_chunk()?),
            sum: number(32)?,
        })
    }

    fn checksum(&self, payload: &[u8]) -> u64 {
        let mut sum = match self.version {
            VERSION => Xxh3::new(),
            newer => Xxh3::with_seed(u64::from(newer - VERSION)),
        };
        sum.update(&self.length.to_be_bytes());
        sum.update(&self.salt.to_be_bytes());
        sum.update(&self.number.to_be_bytes());
        sum.update(&self.flushed.to_be_bytes());
        sum.update(payload);
        sum.digest()
    }
}

impl<'a> Record<'a> {
    /// The record at an offset, if there is a whole one.
    pub(super) fn at(bytes: &'a [u8], offset: usize) -> Option<Record<'a>> {
        let rest = bytes.get(offset..)?;
        let header = RecordHeader::read(rest)?;
        let length = usize::try_from(header.length).ok()?;
        let payload = rest.get(RECORD_HEADER_LEN..)?.get(..length)?;
        (header.sum == header.checksum(payload)).then_some(Record { header, payload })
    }

    pub(super) fn has(&self, salt: u64, number: u64) -> bool {
        (self.header.salt, self.header.number) == (salt, number)
    }

    /// The length in the file, up to the next record, in bytes.
    pub(super) fn aligned_len(&self) -> usize {
        (RECORD_HEADER_LEN + self.payload.len()).next_multiple_of(RECORD_ALIGN)
    }

    /// Refuses a record of a newer release.
    pub(super) fn check_version(&self) -> Result<(), ReplayError> {
        let RecordHeader { number: record, version, .. } = self.header;
        match version {
            VERSION => Ok(()),
            _ => Err(ReplayError::UnknownVersion { record, version }),
        }
    }

    /// Adds the edits of this record to those of the records before it.
    pub(super) fn replay(&self, overlay: &mut Overlay) -> Result<(), ReplayError> {
        self.check_version()?;
        let mut rest = self.payload;
        while !rest.is_empty() {
            let decoded = bincode::borrow_decode_from_slice(rest, bincode::config::standard());
            let (edit, read): (EncodedEdit<'_>, usize) = decoded.map_err(|error| {
                let number = self.header.number;
                ReplayError::Damaged(format!(
                    "record {number} of the journal cannot be decoded: {error}"
                ))
            })?;
            let (table, key, value, is_new) = edit;
            let table = *Table::ALL
                .get(usize::from(table))
                .ok_or(ReplayError::UnknownTable { record: self.header.number, table })?;
            match value.map(Value::from) {
                Some(value) if is_new => overlay.insert(table, key.to_vec(), value),
                Some(value) => overlay.replace(table, key.to_vec(), value),
                None => overlay.remove(table, key.to_vec()),
            }
            rest = &rest[read..];
        }
        Ok(())
    }
}

/// An edit in the payload: table, key, value, and whether the row is new.
type EncodedEdit<'a> = (u8, &'a [u8], Option<&'a [u8]>, bool);

/// Appends the edits of a commit as a record to `out`, whose length must be a multiple of
/// [`RECORD_ALIGN`].
pub(super) fn encode_record(
    out: &mut Vec<u8>,
    overlay: &Overlay,
    (salt, number, flushed): (u64, u64, u64),
) {
    let start = out.len();
    out.reserve(RECORD_HEADER_LEN + overlay.bytes() + 16 * overlay.len() + RECORD_ALIGN);
    out.resize(start + RECORD_HEADER_LEN, 0);
    for (table, key, edit) in overlay.edits() {
        let table = u8::try_from(table.index()).unwrap_or(u8::MAX);
        let edit: EncodedEdit<'_> = (table, key, edit.value.as_deref(), edit.is_new);
        let encoded = bincode::encode_into_std_write(edit, out, bincode::config::standard());
        debug_assert!(encoded.is_ok(), "writing to memory does not fail");
    }
    write_header(&mut out[start..], VERSION, (salt, number, flushed));
    out.resize(out.len().next_multiple_of(RECORD_ALIGN), 0);
}

fn write_header(record: &mut [u8], version: u8, (salt, number, flushed): (u64, u64, u64)) {
    let length = u32::try_from(record.len() - RECORD_HEADER_LEN).unwrap_or(u32::MAX);
    let header = RecordHeader { salt, number, flushed, version, length, sum: 0 };
    let sum = header.checksum(&record[RECORD_HEADER_LEN..]);
    record[..3].copy_from_slice(&MARK);
    record[3] = version;
    record[4..8].copy_from_slice(&length.to_be_bytes());
    for (at, number) in [(8, salt), (16, number), (24, flushed), (32, sum)] {
        record[at..at + 8].copy_from_slice(&number.to_be_bytes());
    }
}

/// Gives a record whose payload or version was changed the right checksum.
#[cfg(test)]
pub(super) fn seal_record(record: &mut [u8]) {
    if let Some(header) = RecordHeader::read(record) {
        let end = RECORD_HEADER_LEN + usize::try_from(header.length).unwrap_or_default();
        let numbers = (header.salt, header.number, header.flushed);
        write_header(&mut record[..end], header.version, numbers);
    }
}
