//! The record of a task: everything about it but its place, with a version byte and a checksum.
//!
//! Layout: version (1 byte), xxh3 of all that follows, seeded with the id (8 bytes, big-endian),
//! the header in bincode's standard encoding, then the body if it is kept inline. The seed makes a
//! record that turns up under another id show.

use std::ops::Deref;
use std::sync::Arc;

use bincode::enc::write::SizeWriter;
use bincode::{Decode, Encode};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::{INLINE_MAX, NEVER, Value};

/// The version that this release writes.
const VERSION: u8 = 1;
/// Version byte and checksum.
const FRAME: usize = 9;
/// More than a header comes to with the longest name: a length in it is believed no further.
const HEADER_MAX: usize = 4096;

/// Bytes that are not what was written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("task {id}: {what} cannot be read")]
pub struct RecordError {
    /// The task, as far as it is known.
    pub id: u64,
    /// Which part.
    pub what: String,
}

impl RecordError {
    pub(crate) fn new(id: u64, what: impl Into<String>) -> RecordError {
        RecordError { id, what: what.into() }
    }
}

/// What is kept about a task beside its body. Times are microseconds on the store's time line.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Header {
    /// As given to put; 0 is most urgent.
    pub pri: u32,
    /// The driver's order key.
    pub order: u64,
    /// When it was put.
    pub created: u64,
    /// When its life ends; [`NEVER`] if it does not.
    pub dead: u64,
    /// How long a take may hold it, in microseconds; [`NEVER`] for no limit.
    pub ttr: u64,
    /// When its delay is over; 0 unless delayed.
    pub wake: u64,
    /// How often it was taken, as of the last time the record was written.
    pub takes: u32,
    /// Length of the body in bytes.
    pub size: u64,
    /// For a body in a row of its own: its checksum.
    pub apart: Option<u64>,
    /// The sub-queue; empty for the unnamed one.
    pub sub: Arc<str>,
}

impl Header {
    /// The moment at which the sweeper must look at the task while it is on `shelf`.
    #[must_use]
    pub fn due(&self, shelf: crate::Shelf) -> Option<u64> {
        let time = if shelf == crate::Shelf::Delayed { self.wake } else { self.dead };
        (time != NEVER).then_some(time)
    }

    /// The body's checksum if it is too large to sit in the record.
    #[must_use]
    pub fn apart(body: &[u8]) -> Option<u64> {
        (body.len() > INLINE_MAX).then(|| xxh3_64(body))
    }
}

/// A body as it is kept: in the record, or in a row of its own if it is too large for that.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "there is no third place")]
pub enum Body {
    /// In the record.
    Inline(Vec<u8>),
    /// The row, and its checksum.
    Apart(Value, u64),
}

impl Body {
    /// Decides where a body is kept.
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Body {
        match Header::apart(&bytes) {
            None => Body::Inline(bytes),
            Some(sum) => Body::Apart(bytes.into(), sum),
        }
    }

    /// What the header says of it; see [`Header::apart`].
    #[must_use]
    pub fn apart(&self) -> Option<u64> {
        match self {
            Body::Inline(_) => None,
            Body::Apart(_, sum) => Some(*sum),
        }
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Body::Inline(bytes) => bytes,
            Body::Apart(row, _) => row,
        }
    }
}

/// A record as read: the header, and the bytes that hold an inline body.
#[derive(Clone, Debug)]
pub struct Record {
    /// The header.
    pub header: Header,
    value: Value,
    body: usize,
}

impl Record {
    /// Reads and checks a row of `tasks`.
    ///
    /// # Errors
    /// The version is unknown, the checksum differs, or the bytes make no record.
    pub fn decode(id: u64, value: Value) -> Result<Record, RecordError> {
        let damaged = |what: &str| RecordError::new(id, what);
        let (Some(&version), Some(sum), Some(rest)) =
            (value.first(), value.get(1..FRAME), value.get(FRAME..))
        else {
            return Err(damaged("its record (too short)"));
        };
        if version != VERSION {
            return Err(RecordError::new(id, format!("its record (version {version})")));
        }
        if xxh3_64_with_seed(rest, id).to_be_bytes() != sum {
            return Err(damaged("its record (wrong checksum)"));
        }
        let (header, read): (Header, usize) = bincode::decode_from_slice(
            rest,
            bincode::config::standard().with_limit::<HEADER_MAX>(),
        )
        .map_err(|_| damaged("the header of its record"))?;
        let inline = if header.apart.is_some() { 0 } else { header.size };
        if u64::try_from(rest.len() - read) != Ok(inline) {
            return Err(damaged("its record (wrong length)"));
        }
        Ok(Record { header, value, body: FRAME + read })
    }

    /// The inline body; empty if the body has a row of its own.
    #[must_use]
    pub fn inline(&self) -> &[u8] {
        self.value.get(self.body..).unwrap_or_default()
    }

    /// The header and the bytes of the record, at whose end the inline body is.
    #[must_use]
    pub fn into_parts(self) -> (Header, Value) {
        (self.header, self.value)
    }
}

/// The row of `tasks` for a header and its body; the body is left out if it is kept apart.
#[must_use]
pub fn encode(id: u64, header: &Header, body: &[u8]) -> Value {
    let body = if header.apart.is_none() { body } else { &[] };
    let mut size = SizeWriter::default();
    let sized = bincode::encode_into_writer(header, &mut size, bincode::config::standard());
    let at = FRAME + size.bytes_written;
    let mut row: Value = std::iter::repeat_n(0, at + body.len()).collect();
    let bytes = Arc::make_mut(&mut row);
    let encoded =
        bincode::encode_into_slice(header, &mut bytes[FRAME..at], bincode::config::standard());
    debug_assert!(sized.is_ok() && encoded.is_ok(), "writing to memory does not fail");
    bytes[at..].copy_from_slice(body);
    let sum = xxh3_64_with_seed(&bytes[FRAME..], id);
    bytes[0] = VERSION;
    bytes[1..FRAME].copy_from_slice(&sum.to_be_bytes());
    row
}

/// Checks a body that has a row of its own against its header.
///
/// # Errors
/// It is not the body that was put.
pub fn check_body(id: u64, header: &Header, body: &[u8]) -> Result<(), RecordError> {
    if header.apart == Some(xxh3_64(body)) {
        Ok(())
    } else {
        Err(RecordError::new(id, "its body (wrong checksum)"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(body: &[u8]) -> Header {
        Header {
            pri: 3,
            order: 3,
            created: 1,
            dead: NEVER,
            ttr: 5_000_000,
            wake: 0,
            takes: 2,
            size: body.len() as u64,
            apart: Header::apart(body),
            sub: "host".into(),
        }
    }

    #[test]
    fn a_record_reads_back_with_its_body_inline_or_apart() {
        for body in [vec![], vec![7; INLINE_MAX], vec![7; INLINE_MAX + 1]] {
            let has_waiters = header(&body);
            let record = Record::decode(9, encode(9, &has_waiters, &body)).unwrap();
            assert_eq!(record.header, has_waiters);
            if body.len() <= INLINE_MAX {
                assert_eq!(record.inline(), body);
            } else {
                assert!(record.inline().is_empty());
                check_body(9, &has_waiters, &body).unwrap();
                assert!(check_body(9, &has_waiters, &body[1..]).is_err());
            }
        }
    }

    #[test]
    fn a_length_that_nobody_can_keep_is_refused_before_it_is_believed() {
        for length in [&[0xfd; 9][..], &[0xfd, 0, 0, 0, 0, 0, 1, 0, 0], &[0xfb, 0, 0xff]] {
            // The header's fields up to the name of the sub-queue, then its length.
            let rest = [&[0; 9][..], length].concat();
            let sum = xxh3_64_with_seed(&rest, 9).to_be_bytes();
            let row = [&[VERSION][..], &sum, &rest].concat();
            assert!(Record::decode(9, row.into()).is_err());
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let value = encode(9, &header(b"body"), b"body");
        for at in 0..value.len() {
            for bit in 0..8 {
                let mut bad = value.to_vec();
                bad[at] ^= 1 << bit;
                assert!(Record::decode(9, bad.into()).is_err(), "byte {at} bit {bit}");
            }
            assert!(Record::decode(9, value[..at].into()).is_err());
        }
        assert!(Record::decode(8, value).is_err(), "a record of another task");
    }
}
