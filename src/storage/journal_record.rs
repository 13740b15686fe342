//! The format of a record of the journal: the edits of one commit, with a checksum.
//!
//! A record is [`MARK`] (4 bytes), the length of the payload (4), the journal's salt (8), the
//! record's number (8), xxh3 of length, salt, number and payload (8), then the payload. Numbers are
//! big-endian. The payload has the edits in bincode's standard encoding.

use tubewell_drivers::{Table, Value};
use xxhash_rust::xxh3::Xxh3;

use super::overlay::Overlay;

const MARK: [u8; 4] = *b"twj\x01";
/// The length of everything before the payload, in bytes.
pub(super) const RECORD_HEADER_LEN: usize = 32;
/// Records begin at multiples of this many bytes.
pub(super) const RECORD_ALIGN: usize = 16;

/// Why edits of the journal cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ReplayError {
    /// The bytes are not those that were written.
    #[error("{0}")]
    Damaged(String),
    /// A record without damage edits a table that this release does not know.
    #[error("a newer release wrote record {record}, with rows of table {table}")]
    UnknownTable { record: u64, table: u8 },
}

/// A record whose checksum is right.
pub(super) struct Record<'a> {
    /// The salt of its journal. An end mark has the number that the next record will have.
    pub(super) salt: u64,
    pub(super) number: u64,
    payload: &'a [u8],
}

impl<'a> Record<'a> {
    /// The record at an offset, if there is a whole one.
    pub(super) fn at(bytes: &'a [u8], offset: usize) -> Option<Record<'a>> {
        let rest = bytes.get(offset..)?;
        let (salt, number) = Record::salt_and_number(rest)?;
        let header = rest.get(..RECORD_HEADER_LEN)?;
        let length = u32::from_be_bytes(header[4..8].try_into().ok()?);
        let sum = u64::from_be_bytes(header[24..].try_into().ok()?);
        let payload = rest[RECORD_HEADER_LEN..].get(..usize::try_from(length).ok()?)?;
        let is_intact = sum == checksum(length, salt, number, payload);
        is_intact.then_some(Record { salt, number, payload })
    }

    /// The salt and the number of bytes that begin like a record. No checksum is verified.
    pub(super) fn salt_and_number(bytes: &[u8]) -> Option<(u64, u64)> {
        let fields = bytes.strip_prefix(&MARK)?.get(4..20)?;
        let (salt, number) = fields.split_at(8);
        Some((
            u64::from_be_bytes(salt.try_into().ok()?),
            u64::from_be_bytes(number.try_into().ok()?),
        ))
    }

    pub(super) fn has(&self, salt: u64, number: u64) -> bool {
        (self.salt, self.number) == (salt, number)
    }

    /// The length in the file, up to the next record, in bytes.
    pub(super) fn aligned_len(&self) -> u64 {
        (RECORD_HEADER_LEN + self.payload.len()).next_multiple_of(RECORD_ALIGN) as u64
    }

    /// Adds the edits of this record to those of the records before it.
    pub(super) fn replay(&self, overlay: &mut Overlay) -> Result<(), ReplayError> {
        let mut rest = self.payload;
        while !rest.is_empty() {
            let decoded = bincode::borrow_decode_from_slice(rest, bincode::config::standard());
            let (edit, read): (EncodedEdit<'_>, usize) = decoded.map_err(|error| {
                let number = self.number;
                ReplayError::Damaged(format!(
                    "record {number} of the journal cannot be decoded: {error}"
                ))
            })?;
            let (table, key, value, is_new) = edit;
            let table = *Table::ALL
                .get(usize::from(table))
                .ok_or(ReplayError::UnknownTable { record: self.number, table })?;
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

/// Encodes the edits of a commit as a record.
pub(super) fn encode_record(overlay: &Overlay, salt: u64, number: u64) -> Vec<u8> {
    let capacity = RECORD_HEADER_LEN + overlay.bytes() + 16 * overlay.len() + RECORD_ALIGN;
    let mut record = Vec::with_capacity(capacity);
    record.resize(RECORD_HEADER_LEN, 0);
    for (table, key, edit) in overlay.edits() {
        let table = u8::try_from(table.index()).unwrap_or(u8::MAX);
        let edit: EncodedEdit<'_> = (table, key, edit.value.as_deref(), edit.is_new);
        let encoded =
            bincode::encode_into_std_write(edit, &mut record, bincode::config::standard());
        debug_assert!(encoded.is_ok(), "writing to memory does not fail");
    }
    write_header(&mut record, salt, number);
    record.resize(record.len().next_multiple_of(RECORD_ALIGN), 0);
    record
}

fn write_header(record: &mut [u8], salt: u64, number: u64) {
    let length = u32::try_from(record.len() - RECORD_HEADER_LEN).unwrap_or(u32::MAX);
    let sum = checksum(length, salt, number, &record[RECORD_HEADER_LEN..]);
    record[..4].copy_from_slice(&MARK);
    record[4..8].copy_from_slice(&length.to_be_bytes());
    record[8..16].copy_from_slice(&salt.to_be_bytes());
    record[16..24].copy_from_slice(&number.to_be_bytes());
    record[24..RECORD_HEADER_LEN].copy_from_slice(&sum.to_be_bytes());
}

/// Gives a record whose payload was changed the right checksum.
#[cfg(test)]
pub(super) fn seal_record(record: &mut [u8]) {
    let found = Record::salt_and_number(record);
    let length = u32::from_be_bytes(record[4..8].try_into().unwrap_or_default());
    let end = RECORD_HEADER_LEN + usize::try_from(length).unwrap_or_default();
    if let Some((salt, number)) = found {
        write_header(&mut record[..end], salt, number);
    }
}

fn checksum(length: u32, salt: u64, number: u64, payload: &[u8]) -> u64 {
    let mut sum = Xxh3::new();
    sum.update(&length.to_be_bytes());
    sum.update(&salt.to_be_bytes());
    sum.update(&number.to_be_bytes());
    sum.update(payload);
    sum.digest()
}
