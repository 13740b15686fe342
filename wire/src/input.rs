//! What has arrived from a peer, as frames: taken out of its records if there is a secret.

#[cfg(test)]
mod tests;

use crate::frame::{self, EMPTY, Frame, Kind, Malformed};
use crate::secure::{self, Opener};

/// The capacity that an empty input keeps for its next frame.
const KEPT: usize = 4096;
/// A longer body is read alone, into memory of its length.
const LONG: usize = 64 * 1024;

/// Bytes that have arrived and are not yet taken as frames.
#[derive(Debug, Default)]
pub(crate) struct Input {
    bytes: Vec<u8>,
    /// How many of them are taken.
    taken: usize,
    /// What arrives are records.
    opener: Option<Opener>,
    /// What was added last is no record.
    broken: Option<Malformed>,
}

impl Input {
    /// Adds bytes that have arrived.
    pub(crate) fn add(&mut self, bytes: &[u8]) {
        self.discard_taken();
        match &mut self.opener {
            None => self.bytes.extend_from_slice(bytes),
            Some(opener) if self.broken.is_none() => {
                self.broken = opener.open(bytes, &mut self.bytes).err();
            }
            Some(_) => {}
        }
    }

    /// From now on, what arrives are records.
    pub(crate) fn open_with(&mut self, opener: Opener) {
        self.opener = Some(opener);
    }

    /// Bytes that have arrived and are not taken.
    pub(crate) fn waiting(&self) -> usize {
        self.bytes.len().saturating_sub(self.taken)
    }

    /// Takes the next frame, if it is there as a whole. The body may have up to `limit` bytes. A frame that is
    /// refused is refused before its body has arrived.
    ///
    /// After an error the input is useless: the connection must be closed.
    pub(crate) fn next(&mut self, limit: usize) -> Result<Option<Frame<'_>>, Malformed> {
        let broken = self.broken;
        match self.take(limit) {
            Ok(None) => broken.map_or(Ok(None), Err),
            taken => taken,
        }
    }

    fn take(&mut self, limit: usize) -> Result<Option<Frame<'_>>, Malformed> {
        let rest = self.bytes.get(self.taken..).unwrap_or_default();
        let Some((frame, length)) = Frame::read(rest, limit)? else { return Ok(None) };
        self.taken += length;
        Ok(Some(frame))
    }

    /// The kind of the next frame and the length of its body, as soon as they have arrived.
    pub(crate) fn peek(&self) -> Option<(Kind, usize)> {
        frame::peek(self.bytes.get(self.taken..)?)
    }

    /// If the next frame is a long one, takes the memory for all of it at once, and returns how many of its bytes
    /// have not arrived: `add` must not be given more. The caller has checked its length.
    pub(crate) fn make_room(&mut self) -> Option<usize> {
        let (_, body) = self.peek().filter(|(_, body)| *body > LONG)?;
        self.discard_taken();
        let missing = (EMPTY + body).saturating_sub(self.bytes.len());
        if self.opener.is_none() {
            self.bytes.reserve_exact(missing);
            return Some(missing);
        }
        // The record that has the last of them may hold more, and most of it may be there.
        self.bytes.reserve_exact(missing + secure::CONTENT);
        Some(missing + secure::OVERHEAD)
    }

    /// Bytes held.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.bytes.capacity() + self.opener.as_ref().map_or(0, Opener::capacity)
    }

    /// Gives memory of taken frames back.
    pub(crate) fn discard_taken(&mut self) {
        self.opener.iter_mut().for_each(Opener::shrink);
        if self.taken == 0 {
            return;
        }
        self.bytes.drain(..self.taken.min(self.bytes.len()));
        self.taken = 0;
        if self.bytes.len() <= KEPT && self.bytes.capacity() > KEPT {
            self.bytes.shrink_to(KEPT);
        }
    }
}
