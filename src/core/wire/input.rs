//! The bytes of a peer, as they are decoded.

use crate::Error;

/// How many bytes of memory a byte of the input may stand for: the lists of an answer.
const USUAL_MULTIPLE: usize = 64;
/// The same for the lists of a call. They are short in comparison with what their bytes could say.
const CALL_MULTIPLE: usize = 16;
/// The memory that a short input may have in addition.
const ALLOWANCE: usize = 64 << 10;

/// Bytes that are no value of their type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    pub(crate) what: &'static str,
}

impl From<Malformed> for Error {
    fn from(Malformed { what }: Malformed) -> Error {
        Error::invalid(format!(
            "the bytes of a call are not valid: {what}; use the same release on both sides"
        ))
    }
}

/// What is left of the bytes, and how much memory their lists may still take.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
    memory: usize,
}

impl<'a> Input<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes, memory: memory_for(bytes, USUAL_MULTIPLE) }
    }

    /// Refuses bytes that are left over.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed { what: "bytes after the end" }) }
    }

    /// Grants less memory from here on: the bytes are a call, which any peer may send.
    pub(super) fn limit_to_call(&mut self) {
        self.memory = self.memory.min(memory_for(self.rest, CALL_MULTIPLE));
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Malformed> {
        let (byte, rest) = self.rest.split_first().ok_or(TOO_SHORT)?;
        self.rest = rest;
        Ok(*byte)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(TOO_SHORT)?;
        self.rest = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        self.take(N)?.try_into().map_err(|_| TOO_SHORT)
    }

    /// A number: seven bits to a byte, the least first. It has one encoding only.
    pub(super) fn number(&mut self) -> Result<u64, Malformed> {
        let (mut number, mut shift) = (0, 0);
        loop {
            let byte = self.byte()?;
            let part = u64::from(byte & 0x7f);
            if shift > MOST_SHIFTED || shift == MOST_SHIFTED && part > 1 {
                return Err(TOO_LARGE);
            }
            number |= part << shift;
            if byte < 0x80 {
                let is_shortest = byte > 0 || shift == 0;
                return if is_shortest { Ok(number) } else { Err(TOO_LONG) };
            }
            shift += 7;
        }
    }

    /// The length of a text or of bytes, which follow.
    pub(super) fn bytes(&mut self) -> Result<&'a [u8], Malformed> {
        let length = usize::try_from(self.number()?).map_err(|_| TOO_SHORT)?;
        self.take(length)
    }

    /// The number of items of a list, each of which has at least one byte. Their memory is granted
    /// before it is allocated.
    pub(super) fn count_of<T>(&mut self) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| TOO_SHORT)?;
        if count > self.rest.len() {
            return Err(TOO_SHORT);
        }
        let needed = count.saturating_mul(size_of::<T>());
        let left = self.memory.checked_sub(needed);
        self.memory = left.ok_or(Malformed { what: "a list has too many items" })?;
        Ok(count)
    }
}

/// The last byte of the longest number has one bit.
const MOST_SHIFTED: u32 = 63;

pub(super) const TOO_SHORT: Malformed = Malformed { what: "they end too early" };
pub(super) const TOO_LARGE: Malformed = Malformed { what: "a number is too large" };
const TOO_LONG: Malformed = Malformed { what: "a number is longer than it needs to be" };

fn memory_for(bytes: &[u8], multiple: usize) -> usize {
    bytes.len().saturating_mul(multiple).saturating_add(ALLOWANCE)
}
