//! Frames: what is on the wire.
//!
//! `u32` length of what follows · `u8` version · `u8` kind · `u64` number · body; integers are little-endian.

/// The version of the protocol that this crate speaks.
pub(crate) const VERSION: u8 = 1;
/// The oldest version that this crate speaks.
pub(crate) const OLDEST: u8 = 1;

/// The length of what stands between the length of a frame and its body.
const HEAD: usize = 10;
/// The length of a frame without a body.
pub(crate) const EMPTY: usize = 4 + HEAD;

/// The number of frames that belong to no call.
pub(crate) const NO_CALL: u64 = 0;

/// What a frame is. The numbers are the protocol and never change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Kind {
    /// The client's first frame.
    Hello = 1,
    /// The server accepts the client.
    Welcome = 2,
    /// The server refuses the client, or what it has sent.
    Refused = 3,
    /// A message of the handshake of a secret: the first frame of both sides then. Records follow; see `secure`.
    Handshake = 4,
    /// A call of the client.
    Call = 5,
    /// The one answer of a call.
    Answer = 6,
    /// The one answer of a call, whose receipt the client confirms with `Seen`.
    Tracked = 7,
    /// One of many answers of a call.
    Item = 8,
    /// The call has ended without an answer, or has no more items. The body may say why.
    End = 9,
    /// The client needs no answer any more.
    Cancel = 10,
    /// How many tracked answers the client has received so far, or items of the call with this number the
    /// application has taken so far.
    Seen = 11,
}

impl Kind {
    pub(crate) fn new(byte: u8) -> Option<Kind> {
        Some(match byte {
            1 => Kind::Hello,
            2 => Kind::Welcome,
            3 => Kind::Refused,
            4 => Kind::Handshake,
            5 => Kind::Call,
            6 => Kind::Answer,
            7 => Kind::Tracked,
            8 => Kind::Item,
            9 => Kind::End,
            10 => Kind::Cancel,
            11 => Kind::Seen,
            _ => return None,
        })
    }
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Frame<'a> {
    pub(crate) kind: Kind,
    pub(crate) number: u64,
    pub(crate) body: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame at the beginning of these bytes, and its length, if it is there as a whole. The body may have up to
    /// `limit` bytes. A frame that is refused is refused before its body has arrived.
    pub(crate) fn read(
        bytes: &'a [u8],
        limit: usize,
    ) -> Result<Option<(Frame<'a>, usize)>, Malformed> {
        let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length < HEAD {
            return Err(Malformed::TooShort { length: length as u64 });
        }
        if length - HEAD > limit {
            return Err(Malformed::TooLong { length: length as u64, limit: limit as u64 });
        }
        let Some((&[version, byte], _)) = rest.split_first_chunk::<2>() else { return Ok(None) };
        let kind = Kind::new(byte);
        // The layout of these is the same in all versions.
        let any_version = matches!(kind, Some(Kind::Hello | Kind::Refused | Kind::Handshake));
        if !any_version && !(OLDEST..=VERSION).contains(&version) {
            return Err(Malformed::Version { version });
        }
        let Some(kind) = kind else { return Err(Malformed::Kind { kind: byte }) };
        let Some(frame) = rest.get(..length) else { return Ok(None) };
        let rest = frame.get(2..).unwrap_or_default();
        let Some((number, body)) = rest.split_first_chunk::<8>() else { return Ok(None) };
        Ok(Some((Frame { kind, number: u64::from_le_bytes(*number), body }, 4 + length)))
    }
}

/// The kind of the frame at the beginning of these bytes and the length of its body, as soon as they have arrived.
pub(crate) fn peek(bytes: &[u8]) -> Option<(Kind, usize)> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    let kind = rest.get(1).copied().and_then(Kind::new)?;
    Some((kind, (u32::from_le_bytes(*length) as usize).checked_sub(HEAD)?))
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("a frame of {length} bytes is longer than the limit of {limit}")]
    TooLong { length: u64, limit: u64 },
    #[error("a frame of {length} bytes is too short")]
    TooShort { length: u64 },
    #[error("a frame of version {version} of the protocol")]
    Version { version: u8 },
    #[error("a frame of the unknown kind {kind}")]
    Kind { kind: u8 },
    #[error(
        "a record that is damaged, or not the next one: something between the two sides changes what they send"
    )]
    Record,
}

/// Appends a frame to `out`. The body must not be above the limit on frames, which is below 4 GiB.
pub(crate) fn put(out: &mut Vec<u8>, kind: Kind, number: u64, body: &[u8]) {
    put_version(out, VERSION, kind, number, body);
}

/// Appends a frame of another version.
pub(crate) fn put_version(out: &mut Vec<u8>, version: u8, kind: Kind, number: u64, body: &[u8]) {
    let length = u32::try_from(HEAD + body.len()).unwrap_or(u32::MAX);
    out.reserve(4 + HEAD + body.len());
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[version, kind as u8]);
    out.extend_from_slice(&number.to_le_bytes());
    out.extend_from_slice(body);
}

/// The longest body that a frame can have, whatever the limits say.
pub(crate) const LONGEST_BODY: usize = u32::MAX as usize - HEAD;

/// The body of a `Seen`.
pub(crate) fn put_count(out: &mut Vec<u8>, number: u64, count: u64) {
    put(out, Kind::Seen, number, &count.to_le_bytes());
}

/// Reads the body of a `Seen`.
pub(crate) fn count(body: &[u8]) -> Option<u64> {
    Some(u64::from_le_bytes(body.try_into().ok()?))
}
