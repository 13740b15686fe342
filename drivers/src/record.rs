//! The record of a task: its header, and its body if that is inline.
//!
//! The layout is a byte with the version and a flag, xxh3 of all that follows (8 bytes, big-endian),
//! the header in bincode's standard encoding, then an inline body. The flag says that the header ends
//! with [`More`], which plain tasks do not have. Invariant: a damaged record and a record under
//! another id do not decode. The checksum is seeded with the id and the first byte.

use std::num::NonZeroU64;
use std::ops::Deref;
use std::sync::Arc;

use bincode::Encode;
use bincode::enc::write::{SizeWriter, SliceWriter, Writer};
use bincode::error::{DecodeError, EncodeError};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::keys::Shelf;
use crate::limits::{INLINE_MAX, NEVER};
use crate::more::{HEADER_WITH_MORE_MAX, More, MoreError};
use crate::record_error::RecordError;
use crate::recur::Recur;
use crate::stored_entries::StoredEntries;
use crate::tables::Value;
use crate::traceparent::Traceparent;

/// The version that this release writes, and the newest that it reads.
const VERSION: u8 = 1;
/// The flag of a task that has [`More`].
const HAS_MORE: u8 = 1 << 7;
const WITH_MORE: u8 = VERSION | HAS_MORE;
/// The length of first byte and checksum. All versions have both in common: a record of a newer
/// release is recognised by its right checksum.
const FRAME: usize = 9;
/// More than the size of a plain header with the longest name. Larger lengths in it are refused.
const HEADER_MAX: usize = 4096;

/// The header of a task: all data but its body. Times are microseconds on the store's timeline.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Header {
    /// The priority. 0 is the most urgent.
    pub priority: u32,
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
    pub body_checksum: Option<NonZeroU64>,
    /// The sub-queue. Empty for the unnamed one.
    pub sub: Arc<str>,
    /// The fields that plain tasks do not have. [`edit_more`](Header::edit_more) changes them. An
    /// empty value is stored as `None`.
    pub more: Option<Arc<More>>,
}

impl Header {
    /// Returns the time at which the sweeper must handle the task while it is on `shelf`, or `None`
    /// for never: when its delay elapses, when it expires, until when it is kept, or the time of its
    /// next run.
    #[must_use]
    pub fn due(&self, shelf: Shelf) -> Option<u64> {
        let until = || self.more.as_ref().and_then(|more| more.until).unwrap_or(NEVER);
        let time = match shelf {
            // The ttl of a blocked task goes on.
            Shelf::Ready | Shelf::Blocked => self.expires_at,
            // Its delay has elapsed, or it has none, and it waits for its moment only.
            Shelf::Delayed | Shelf::Recurring if self.moment(shelf).is_some() => NEVER,
            Shelf::Delayed | Shelf::Recurring => self.ready_at,
            Shelf::Buried => self.expires_at.min(until()),
            Shelf::Done => until(),
        };
        (time != NEVER).then_some(time)
    }

    /// Returns the moment of the wall clock for which the task waits while it is on `shelf`, or
    /// `None` if it waits for none, or for its delay first.
    #[must_use]
    pub fn moment(&self, shelf: Shelf) -> Option<u64> {
        let waits = matches!(shelf, Shelf::Delayed | Shelf::Recurring) && self.ready_at == 0;
        self.not_before().filter(|_| waits)
    }

    /// Returns the moment of the wall clock before which the task is not ready.
    #[must_use]
    pub fn not_before(&self) -> Option<u64> {
        self.more.as_ref()?.not_before
    }

    /// Returns whether the ttl of the task, on `shelf`, has elapsed at `now`. It does not elapse while
    /// the task waits for its moment.
    #[must_use]
    pub fn is_expired(&self, shelf: Shelf, now: u64) -> bool {
        self.expires_at <= now && !(shelf == Shelf::Delayed && self.ttl_from().is_some())
    }

    /// Returns the time from which the ttl counts, if it does not count yet.
    #[must_use]
    pub fn ttl_from(&self) -> Option<u64> {
        self.more.as_ref()?.ttl_from
    }

    /// Returns the time since which the task has been ready, or since which it exists if it was ready
    /// from the beginning or its tube has no metrics.
    #[must_use]
    pub fn ready_since(&self) -> u64 {
        self.more.as_ref().and_then(|more| more.since).unwrap_or(self.created)
    }

    /// Returns the order of the task in the keys of `shelf`: the driver's order key, but on
    /// [`Done`](Shelf::Done) the time at which it was done, and on [`Buried`](Shelf::Buried) the time
    /// at which it was buried, if its tube does not keep all buried tasks. So the oldest one is the
    /// first.
    #[must_use]
    pub fn order_on(&self, shelf: Shelf) -> u64 {
        match shelf {
            Shelf::Ready | Shelf::Delayed | Shelf::Blocked | Shelf::Recurring => self.order,
            Shelf::Buried => match self.more.as_deref() {
                Some(More { ended: Some(ended), until: Some(_), .. }) => *ended,
                _ => self.order,
            },
            Shelf::Done => self.more.as_ref().and_then(|more| more.ended).unwrap_or_default(),
        }
    }

    /// Returns the number of attempts so far: the takes without the forgiven ones.
    #[must_use]
    pub fn attempts(&self) -> u32 {
        self.takes.saturating_sub(self.more.as_ref().map_or(0, |more| more.forgiven))
    }

    /// Returns how many attempts the task may have, or `None` if their number has no limit. `tube_limit`
    /// is the limit of the tube; the task's own one overrides it.
    #[must_use]
    pub fn max_attempts(&self, tube_limit: Option<u32>) -> Option<u32> {
        self.more.as_ref().and_then(|more| more.max_attempts).or(tube_limit)
    }

    /// Returns how many attempts are left, or `None` if their number has no limit. A limit
    /// of 0 leaves no attempt.
    #[must_use]
    pub fn attempts_left(&self, tube_limit: Option<u32>) -> Option<u32> {
        self.max_attempts(tube_limit).map(|limit| limit.saturating_sub(self.attempts()))
    }

    /// Returns how long a claim of the task may last; [`NEVER`](crate::NEVER) without a limit. `tube_limit`
    /// is the limit of the tube; the task's own one overrides it.
    #[must_use]
    pub fn max_runtime(&self, tube_limit: Option<u64>) -> u64 {
        self.own_max_runtime().or(tube_limit).unwrap_or(NEVER)
    }

    /// Returns how long a claim of the task may last, if the task has a limit of its own.
    #[must_use]
    pub fn own_max_runtime(&self) -> Option<u64> {
        self.more.as_ref()?.max_runtime
    }

    /// Returns where the task belongs in a trace.
    #[must_use]
    pub fn traceparent(&self) -> Option<Traceparent> {
        self.more.as_ref()?.traceparent
    }

    /// Returns how many parents must be done before the task can be taken.
    #[must_use]
    pub fn open_parents(&self) -> u32 {
        self.more.as_ref().map_or(0, |more| more.open_parents)
    }

    /// Returns the tags of the task, in the order in which they were added.
    #[must_use]
    pub fn tags(&self) -> &[Arc<str>] {
        self.more.as_ref().map_or(&[], |more| &more.tags)
    }

    /// Returns whether the task has this tag.
    #[must_use]
    pub fn has_tag(&self, tag: &str) -> bool {
        self.tags().iter().any(|own| **own == *tag)
    }

    /// Returns which entries of its history are stored; `None` for a task without a history.
    #[must_use]
    #[inline]
    pub fn history(&self) -> Option<StoredEntries> {
        self.more.as_ref()?.history
    }

    /// Returns whether steps of the task are stored.
    #[must_use]
    #[inline]
    pub fn has_steps(&self) -> bool {
        self.more.as_ref().is_some_and(|more| more.has_steps)
    }

    /// Returns what a recurring task says of its runs; `None` for any other task.
    #[must_use]
    pub fn recur(&self) -> Option<&Recur> {
        self.more.as_ref()?.recur.as_deref()
    }

    /// Changes the fields that plain tasks do not have. They are copied if they are shared, and
    /// removed if they are empty afterwards.
    ///
    /// # Example
    /// ```
    /// # use tubewell_drivers::{Header, NEVER};
    /// # let mut header = Header {
    /// #     priority: 0, order: 0, created: 1, expires_at: NEVER, ttr: NEVER, ready_at: 0, takes: 3,
    /// #     size: 0, body_checksum: None, sub: "".into(), more: None,
    /// # };
    /// header.edit_more(|more| more.forgiven += 1);
    /// assert_eq!(header.attempts_left(Some(5)), Some(3));
    /// header.edit_more(|more| more.forgiven = 0);
    /// assert!(header.more.is_none());
    /// ```
    pub fn edit_more(&mut self, edit: impl FnOnce(&mut More)) {
        if let Some(more) = &mut self.more {
            edit(Arc::make_mut(more));
        } else {
            let mut more = More::default();
            edit(&mut more);
            self.more = (!more.is_empty()).then(|| Arc::new(more));
        }
        self.more.take_if(|more| more.is_empty());
    }

    /// Returns the checksum of a body that is too large to be inline, or `None` for an inline body.
    #[must_use]
    pub fn checksum_of(body: &[u8]) -> Option<NonZeroU64> {
        (body.len() > INLINE_MAX).then(|| body_checksum(body))
    }
}

/// A body in the form in which it is stored.
#[derive(Clone, Debug)]
#[expect(clippy::exhaustive_enums, reason = "a body is inline or it is not")]
pub enum Body {
    /// Stored in the record.
    Inline(Vec<u8>),
    /// Stored in a row of its own: the row and its checksum.
    Separate(Value, NonZeroU64),
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
    pub fn checksum(&self) -> Option<NonZeroU64> {
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
    /// The checksum is wrong, the bytes are not a record, or a newer release has written it.
    pub fn decode(id: u64, value: Value) -> Result<Record, RecordError> {
        let damaged = |what: &str| RecordError::new(id, what);
        let (Some(&first), Some(sum), Some(rest)) =
            (value.first(), value.get(1..FRAME), value.get(FRAME..))
        else {
            return Err(damaged("its record (too short)"));
        };
        if checksum(first, id, rest).to_be_bytes() != sum {
            return Err(damaged("its record (wrong checksum)"));
        }
        let decoded = match first {
            VERSION => decode_plain(rest).map_err(MoreError::from),
            WITH_MORE => decode_with_more(rest),
            _ => {
                let version = first & !HAS_MORE;
                let what = format!("version {version}, this release reads version {VERSION}");
                Err(MoreError::Newer(what))
            }
        };
        let (header, read) = decoded.map_err(|error| match error {
            MoreError::Damaged => damaged("the header of its record"),
            MoreError::Newer(what) => RecordError::newer(id, &what),
        })?;
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

    /// Returns the row, which ends with the inline body.
    #[must_use]
    pub fn row(&self) -> &Value {
        &self.value
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
    let more = header.more.as_deref().filter(|more| !more.is_empty());
    let first = if more.is_none() { VERSION } else { WITH_MORE };
    let mut size = SizeWriter::default();
    let sized = encode_header(header, more, &mut size);
    let at = FRAME + size.bytes_written;
    let mut row: Value = std::iter::repeat_n(0, at + body.len()).collect();
    let bytes = Arc::make_mut(&mut row);
    let encoded = encode_header(header, more, &mut SliceWriter::new(&mut bytes[FRAME..at]));
    debug_assert!(sized.is_ok() && encoded.is_ok(), "writing to memory does not fail");
    bytes[at..].copy_from_slice(body);
    let sum = checksum(first, id, &bytes[FRAME..]);
    bytes[0] = first;
    bytes[1..FRAME].copy_from_slice(&sum.to_be_bytes());
    row
}

/// The checksum of a record. The seed is the id alone for plain tasks. It also covers the flag and
/// later versions, so that a damaged first byte is recognised as damage.
fn checksum(first: u8, id: u64, rest: &[u8]) -> u64 {
    xxh3_64_with_seed(rest, id ^ (u64::from(first ^ VERSION) << 56))
}

fn encode_header(
    header: &Header,
    more: Option<&More>,
    writer: &mut impl Writer,
) -> Result<(), EncodeError> {
    bincode::encode_into_writer(plain_fields(header), &mut *writer, bincode::config::standard())?;
    match more {
        None => Ok(()),
        Some(more) => bincode::encode_into_writer(more, writer, bincode::config::standard()),
    }
}

/// The xxh3 of a separate body; 1 instead of 0, which saves 8 bytes of each header in memory.
fn body_checksum(body: &[u8]) -> NonZeroU64 {
    NonZeroU64::new(xxh3_64(body)).unwrap_or(NonZeroU64::MIN)
}

/// The fields of a plain task. Their order is part of the format.
fn plain_fields(header: &Header) -> impl Encode {
    let Header { priority, order, created, expires_at, ttr, ready_at, takes, size, .. } = header;
    let (body_checksum, sub) = (&header.body_checksum, &header.sub);
    (priority, order, created, expires_at, ttr, ready_at, takes, size, body_checksum, sub)
}

/// Decodes a plain header, with the number of its bytes.
fn decode_plain(bytes: &[u8]) -> Result<(Header, usize), DecodeError> {
    let config = bincode::config::standard().with_limit::<HEADER_MAX>();
    let (fields, read) = bincode::decode_from_slice(bytes, config)?;
    let (priority, order, created, expires_at, ttr, ready_at, takes, size, body_checksum, sub) =
        fields;
    let header = Header {
        priority,
        order,
        created,
        expires_at,
        ttr,
        ready_at,
        takes,
        size,
        body_checksum,
        sub,
        more: None,
    };
    Ok((header, read))
}

/// Decodes a header that ends with [`More`], with the number of its bytes.
fn decode_with_more(bytes: &[u8]) -> Result<(Header, usize), MoreError> {
    let bytes = &bytes[..bytes.len().min(HEADER_WITH_MORE_MAX)];
    let (mut header, read) = decode_plain(bytes)?;
    let (more, read_more) = More::decode(&bytes[read..])?;
    header.more = (!more.is_empty()).then(|| Arc::new(more));
    Ok((header, read + read_more))
}

/// Checks a separate body against its header.
///
/// # Errors
/// The checksum is wrong: it is not the body that was put.
pub fn check_body(id: u64, header: &Header, body: &[u8]) -> Result<(), RecordError> {
    if header.body_checksum == Some(body_checksum(body)) {
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
            priority: 3,
            order: 3,
            created: 1,
            expires_at: NEVER,
            ttr: 5_000_000,
            ready_at: 0,
            takes: 2,
            size: body.len() as u64,
            body_checksum: Header::checksum_of(body),
            sub: "host".into(),
            more: None,
        }
    }

    fn header_with_more(body: &[u8]) -> Header {
        let mut header = header(body);
        header.edit_more(|more| {
            *more = More { forgiven: 1, group: Some("timeout".into()), ..More::default() };
        });
        header
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
        for header in [header(b"body"), header_with_more(b"body"), header_with_more(&[7; 2000])] {
            let value = encode(9, &header, b"body");
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

    #[test]
    fn damaged_version_is_reported_as_damage() {
        for header in [header(b"body"), header_with_more(b"body")] {
            let value = encode(9, &header, b"body");
            for version in (0..=u8::MAX).filter(|version| *version != value[0]) {
                let mut bad = value.to_vec();
                bad[0] = version;
                let error = Record::decode(9, bad.into()).unwrap_err();
                assert_eq!(error.what, "its record (wrong checksum)");
            }
        }
    }
}
