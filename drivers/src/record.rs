//! The record of a task: its header, and its body if that is inline.
//!
//! The layout is a version byte, xxh3 of all that follows (8 bytes, big-endian), the header in
//! bincode's standard encoding, then an inline body. Invariant: a damaged record and a record under
//! another id do not decode. The checksum is seeded with the id.

use std::ops::Deref;
use std::sync::Arc;

use bincode::enc::write::SizeWriter;
use bincode::{Decode, Encode};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::keys::Shelf;
use crate::limits::{INLINE_MAX, NEVER};
use crate::record_error::RecordError;
use crate::tables::Value;

/// The version that this release writes.
const VERSION: u8 = 1;
/// The length of version byte and checksum.
const FRAME: usize = 9;
/// More than the size of a header with the longest name. Larger lengths in a header are refused.
const HEADER_MAX: usize = 4096;

/// The header of a task: all data but its body. Times are microseconds on the store's timeline.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
pub struct Header {
    /// The priority. 0 is the most urgent.
    pub pri: u32,
    /// The driver's order key.
    pub order: u64,
    /// The time at which the task was put.
    pub created: u64,
    /// The time at which its ttl elapses; [`NEVER`] without a ttl.
    pub expires_at: u64,
    /// The visibility timeout (ttr) in microseconds; [`NEVER`] without one.
    pub ttr: u64,
    /// The time at which its delay elapses; 0 if it is not delayed.
    pub ready_at: u64,
    /// How often the task had been taken when the record was written.
    pub takes: u32,
    /// The length of the body in bytes.
    pub size: u64,
    /// The checksum of a separate body, which has a row of its own; `None` for an inline body.
    pub body_checksum: Option<u64>,
    /// The sub-queue. Empty for the unnamed one.
    pub sub: Arc<str>,
}

impl Header {
    /// Returns the time at which the sweeper must handle the task while it is on `shelf`, or `None`
    /// for never.
    #[must_use]
    pub fn due(&self, shelf: Shelf) -> Option<u64> {
        let time = if shelf == Shelf::Delayed { self.ready_at } else { self.expires_at };
        (time != NEVER).then_some(time)
    }

    /// Returns the checksum of a body that is too large to be inline, or `None` for an inline body.
    #[must_use]
    pub fn checksum_of(body: &[u8]) -> Option<u64> {
        (body.len() > INLINE_MAX).then(|| xxh3_64(body))
    }
}

/// A body in the form in which it is stored.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a body is inline or it is not")]
pub enum Body {
    /// Stored in the record.
    Inline(Vec<u8>),
    /// Stored in a row of its own: the row and its checksum.
    Separate(Value, u64),
}

impl Body {
    /// Chooses the form by the length of the body.
    ///
    /// # Example
    /// ```
    /// use tubewell_drivers::{Body, INLINE_MAX};
    ///
    /// assert!(Body::new(vec![0; INLINE_MAX]).checksum().is_none());
    /// assert!(Body::new(vec![0; INLINE_MAX + 1]).checksum().is_some());
    /// ```
    #[must_use]
    pub fn new(bytes: Vec<u8>) -> Body {
        match Header::checksum_of(&bytes) {
            None => Body::Inline(bytes),
            Some(sum) => Body::Separate(bytes.into(), sum),
        }
    }

    /// Returns the header's [`body_checksum`](Header::body_checksum).
    #[must_use]
    pub fn checksum(&self) -> Option<u64> {
        match self {
            Body::Inline(_) => None,
            Body::Separate(_, sum) => Some(*sum),
        }
    }
}

impl Deref for Body {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Body::Inline(bytes) => bytes,
            Body::Separate(row, _) => row,
        }
    }
}

/// A decoded row of `tasks`.
#[derive(Clone, Debug)]
pub struct Record {
    /// The header of the task.
    pub header: Header,
    value: Value,
    body: usize,
}

impl Record {
    /// Decodes and checks a row of `tasks`.
    ///
    /// # Errors
    /// The version is unknown, the checksum is wrong, or the bytes are not a record.
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
        let inline = if header.body_checksum.is_some() { 0 } else { header.size };
        if u64::try_from(rest.len() - read) != Ok(inline) {
            return Err(damaged("its record (wrong length)"));
        }
        Ok(Record { header, value, body: FRAME + read })
    }

    /// Returns the inline body; empty if the body is separate.
    #[must_use]
    pub fn inline(&self) -> &[u8] {
        self.value.get(self.body..).unwrap_or_default()
    }

    /// Returns the header, and the row, which ends with the inline body.
    #[must_use]
    pub fn into_parts(self) -> (Header, Value) {
        (self.header, self.value)
    }
}

/// Encodes the row of `tasks` of a task. A separate body is left out.
#[must_use]
pub fn encode(id: u64, header: &Header, body: &[u8]) -> Value {
    let body = if header.body_checksum.is_none() { body } else { &[] };
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

/// Checks a separate body against its header.
///
/// # Errors
/// The checksum is wrong: it is not the body that was put.
pub fn check_body(id: u64, header: &Header, body: &[u8]) -> Result<(), RecordError> {
    if header.body_checksum == Some(xxh3_64(body)) {
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
            expires_at: NEVER,
            ttr: 5_000_000,
            ready_at: 0,
            takes: 2,
            size: body.len() as u64,
            body_checksum: Header::checksum_of(body),
            sub: "host".into(),
        }
    }

    #[test]
    fn record_reads_back_with_an_inline_or_separate_body() {
        for body in [vec![], vec![7; INLINE_MAX], vec![7; INLINE_MAX + 1]] {
            let header = header(&body);
            let record = Record::decode(9, encode(9, &header, &body)).unwrap();
            assert_eq!(record.header, header);
            if body.len() <= INLINE_MAX {
                assert_eq!(record.inline(), body);
            } else {
                assert!(record.inline().is_empty());
                check_body(9, &header, &body).unwrap();
                assert!(check_body(9, &header, &body[1..]).is_err());
            }
        }
    }

    #[test]
    fn decode_refuses_lengths_beyond_the_limit_without_allocating() {
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
