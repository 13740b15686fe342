//! The bytes of a peer, as they are decoded.

use crate::Error;

/// How many bytes of memory a byte of an answer may stand for, with its lists.
const ANSWER_MULTIPLE: usize = 64;
/// The same for a request. Its lists are short in comparison with what their bytes could say.
const REQUEST_MULTIPLE: usize = 32;
/// The memory that a short input may have in addition.
const ALLOWANCE: usize = 64 << 10;
/// The most memory that the lists of a request may take, however long it is: those of a `put_many` with as many tasks
/// and tags as it may have.
const REQUEST_MEMORY: usize = 256 << 20;

/// Why bytes are no value of their type, or more than may be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    #[error("{0}")]
    Invalid(&'static str),
    /// Found before any item is decoded.
    #[error("a list has {count} items, and a call accepts at most {most}")]
    TooMany { count: usize, most: usize },
    #[error("its lists need more memory than a call may have")]
    TooLarge,
}

impl From<Malformed> for Error {
    fn from(malformed: Malformed) -> Error {
        let advice = match malformed {
            Malformed::Invalid(_) => "use the same release on both sides",
            Malformed::TooMany { .. } | Malformed::TooLarge => "make several calls",
        };
        Error::invalid(format!("the bytes of a call are not valid: {malformed}; {advice}"))
    }
}

/// What is left of the bytes, and how much their lists may still take.
#[derive(Debug)]
pub(crate) struct Input<'a> {
    rest: &'a [u8],
    memory: usize,
    /// Any peer may send it: its lists are limited by their types.
    is_request: bool,
}

impl<'a> Input<'a> {
    /// The bytes of an answer, or of the first message of a connection, which is short.
    pub(crate) fn new(bytes: &'a [u8]) -> Input<'a> {
        Input { rest: bytes, memory: memory_for(bytes, ANSWER_MULTIPLE), is_request: false }
    }

    /// The bytes of a request.
    pub(crate) fn of_request(bytes: &'a [u8]) -> Input<'a> {
        let memory = memory_for(bytes, REQUEST_MULTIPLE).min(REQUEST_MEMORY);
        Input { rest: bytes, memory, is_request: true }
    }

    /// Refuses bytes that are left over.
    pub(crate) fn end(&self) -> Result<(), Malformed> {
        if self.rest.is_empty() { Ok(()) } else { Err(Malformed::Invalid("bytes after the end")) }
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

    pub(in crate::core) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
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

    /// The number of items of a list, each of which has at least one byte. `most`: how many a request may have. Their
    /// number is checked, and their `memory` granted, before it is allocated.
    pub(super) fn count(&mut self, most: usize, memory: usize) -> Result<usize, Malformed> {
        let count = usize::try_from(self.number()?).map_err(|_| TOO_SHORT)?;
        if self.is_request && count > most {
            return Err(Malformed::TooMany { count, most });
        }
        if count > self.rest.len() {
            return Err(TOO_SHORT);
        }
        let needed = count.saturating_mul(memory);
        self.memory = self.memory.checked_sub(needed).ok_or(Malformed::TooLarge)?;
        Ok(count)
    }
}

/// The last byte of the longest number has one bit.
const MOST_SHIFTED: u32 = 63;

pub(super) const TOO_SHORT: Malformed = Malformed::Invalid("they end too early");
pub(super) const TOO_LARGE: Malformed = Malformed::Invalid("a number is too large");
const TOO_LONG: Malformed = Malformed::Invalid("a number is longer than it needs to be");

fn memory_for(bytes: &[u8], multiple: usize) -> usize {
    bytes.len().saturating_mul(multiple).saturating_add(ALLOWANCE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn request_of_any_length_has_a_limited_memory() {
        assert_eq!(Input::of_request(&[0; 100]).memory, 3200 + ALLOWANCE);
        assert_eq!(Input::of_request(&vec![0; 65 << 20]).memory, REQUEST_MEMORY);
    }
}
