//! Integrity and secrecy of a connection with a secret, between its socket and its frames. No I/O.
//!
//! Each side sends one frame of the kind `Handshake`, the client first, and then records only:
//! `u16` length of what follows, little-endian · a transport message of the Noise protocol framework. What the records
//! of one direction hold, one behind the other, are the frames; a record may hold several, or a part of one.
//!
//! The handshake is `Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s`. *NN*: the sides have no keys of their own that would have
//! to be made, stored and distributed. *psk0*: the secret is part of the first message, so that a stranger costs the
//! server some hashes and no key agreement, and gets nothing from it to test guesses on. The ephemeral keys keep what
//! was sent secret from those who learn the secret later.

#[cfg(test)]
mod tests;

use std::fmt;
use std::io;

use snow::{Builder, HandshakeState, StatelessTransportState};

use crate::frame::{self, Kind, Malformed, NO_CALL};
use crate::sync::Arc;

const PATTERN: &str = "Noise_NNpsk0_25519_ChaChaPoly_BLAKE2s";
/// Other programs with the same secret and the same pattern are told apart from this one.
const PROLOGUE: &[u8] = b"tubewell";
/// The key of Noise is used for nothing else that may be made from the same secret.
const LABEL: &[u8] = b"tubewell: pre-shared key of Noise";

/// The length of each of the two messages of a handshake: a public key, and a tag.
pub(crate) const MESSAGE: usize = 32 + TAG;
const TAG: usize = 16;
/// What stands before a record.
const HEAD: usize = 2;
/// The longest record that Noise has, and the most bytes of frames that one holds.
const RECORD: usize = u16::MAX as usize;
pub(crate) const CONTENT: usize = RECORD - TAG;
/// What a record adds to its content.
pub(crate) const OVERHEAD: usize = HEAD + TAG;
/// The capacity that a buffer for a part of a record keeps.
const KEPT: usize = 4096;

/// The key that a secret stands for.
#[derive(Clone)]
pub(crate) struct Key([u8; 32]);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(...)")
    }
}

/// Why there are no keys.
#[derive(Debug)]
pub(crate) enum Failed {
    /// The message of the other side was made with another secret, or was changed.
    Secret,
    /// The system has no random numbers.
    System(io::Error),
}

impl From<snow::Error> for Failed {
    fn from(error: snow::Error) -> Failed {
        match error {
            snow::Error::Decrypt | snow::Error::Input => Failed::Secret,
            error => Failed::System(io::Error::other(error.to_string())),
        }
    }
}

impl Key {
    /// The key of a secret of any length: the extraction of HKDF-SHA256, whose salt is the label.
    pub(crate) fn of(secret: &[u8]) -> Key {
        Key(hmac_sha256::HMAC::mac(secret, LABEL))
    }

    fn builder(&self) -> Result<Builder<'_>, snow::Error> {
        Builder::new(PATTERN.parse()?).prologue(PROLOGUE)?.psk(0, &self.0)
    }

    /// Begins a handshake as the client, and appends its frame to `out`.
    pub(crate) fn begin(&self, out: &mut Vec<u8>) -> Result<Begun, Failed> {
        begin(self.builder()?.build_initiator()?, out)
    }

    /// Answers the message of a client, and appends the frame of the server to `out`.
    pub(crate) fn answer(&self, message: &[u8], out: &mut Vec<u8>) -> Result<Keys, Failed> {
        answer(self.builder()?.build_responder()?, message, out)
    }
}

fn begin(mut state: HandshakeState, out: &mut Vec<u8>) -> Result<Begun, Failed> {
    put_message(&mut state, out)?;
    Ok(Begun(state))
}

fn answer(mut state: HandshakeState, message: &[u8], out: &mut Vec<u8>) -> Result<Keys, Failed> {
    take_message(&mut state, message)?;
    put_message(&mut state, out)?;
    Keys::new(state)
}

fn put_message(state: &mut HandshakeState, out: &mut Vec<u8>) -> Result<(), Failed> {
    let mut message = [0; MESSAGE];
    state.write_message(&[], &mut message)?;
    frame::put(out, Kind::Handshake, NO_CALL, &message);
    Ok(())
}

fn take_message(state: &mut HandshakeState, message: &[u8]) -> Result<(), Failed> {
    if message.len() != MESSAGE {
        return Err(Failed::Secret);
    }
    state.read_message(message, &mut [0; TAG])?;
    Ok(())
}

/// A handshake whose first message is sent.
pub(crate) struct Begun(HandshakeState);

impl Begun {
    /// Takes the message of the server.
    pub(crate) fn finish(mut self, message: &[u8]) -> Result<Keys, Failed> {
        take_message(&mut self.0, message)?;
        Keys::new(self.0)
    }
}

/// The keys of a connection, one for each direction.
pub(crate) struct Keys {
    pub(crate) sealer: Sealer,
    pub(crate) opener: Opener,
}

impl Keys {
    fn new(state: HandshakeState) -> Result<Keys, Failed> {
        let keys = Arc::new(StatelessTransportState::try_from(state)?);
        let sealer =
            Sealer { keys: keys.clone(), next: 0, clear: 0, record: Vec::new(), sent: 0, holds: 0 };
        Ok(Keys { sealer, opener: Opener { keys, next: 0, part: Vec::new() } })
    }
}

/// Puts what is sent into records.
#[derive(Debug)]
pub(crate) struct Sealer {
    keys: Arc<StatelessTransportState>,
    /// The number of the next record. Both sides count: none is accepted twice, or before its turn.
    next: u64,
    /// So many bytes are sent as they are, before the first record: the own message of the handshake.
    clear: usize,
    /// The record that is sent, how much of it was sent, and how many bytes it holds.
    record: Vec<u8>,
    sent: usize,
    holds: usize,
}

impl Sealer {
    /// The bytes to send next, if `rest` is what is not sent yet: none if all is sent. Each time the same ones, until
    /// they are [noted](Sealer::advance).
    pub(crate) fn next<'a>(&'a mut self, rest: &'a [u8]) -> io::Result<&'a [u8]> {
        if self.clear > 0 {
            return Ok(rest.get(..self.clear).unwrap_or(rest));
        }
        if self.record.is_empty() && !rest.is_empty() {
            self.seal(rest.get(..CONTENT).unwrap_or(rest))?;
        }
        Ok(self.record.get(self.sent..).unwrap_or_default())
    }

    /// So many bytes are sent. Returns of how many bytes of `rest` all is sent.
    pub(crate) fn advance(&mut self, bytes: usize) -> usize {
        if self.clear > 0 {
            let bytes = bytes.min(self.clear);
            self.clear -= bytes;
            return bytes;
        }
        self.sent = self.sent.saturating_add(bytes);
        if self.sent < self.record.len() {
            return 0;
        }
        self.record.clear();
        self.sent = 0;
        std::mem::take(&mut self.holds)
    }

    fn seal(&mut self, content: &[u8]) -> io::Result<()> {
        let length = content.len() + TAG;
        self.record.resize(HEAD + length, 0);
        let sealed = match self.record.split_first_chunk_mut::<HEAD>() {
            Some((head, message)) => {
                *head = u16::try_from(length).unwrap_or(u16::MAX).to_le_bytes();
                self.keys.write_message(self.next, content, message)
            }
            None => Err(snow::Error::Input),
        };
        if let Err(error) = sealed {
            self.record.clear();
            return Err(io::Error::other(format!("no further record can be made: {error}")));
        }
        // Noise refuses the last number, so this one is below it.
        self.next += 1;
        self.holds = content.len();
        Ok(())
    }

    /// Appends the records that hold all of `bytes` to `out`.
    pub(crate) fn seal_all(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> io::Result<()> {
        while !bytes.is_empty() {
            let next = self.next(bytes)?;
            out.extend_from_slice(next);
            let length = next.len();
            bytes = bytes.get(self.advance(length)..).unwrap_or_default();
        }
        Ok(())
    }

    /// The next so many bytes are sent as they are.
    pub(crate) fn begin_behind(&mut self, clear: usize) {
        self.clear = clear;
    }

    /// Gives memory back, if no record is sent.
    pub(crate) fn shrink(&mut self) {
        if self.record.is_empty() {
            self.record.shrink_to(KEPT);
        }
    }
}

/// Takes what has arrived out of its records.
pub(crate) struct Opener {
    keys: Arc<StatelessTransportState>,
    /// The number of the next record.
    next: u64,
    /// The beginning of a record whose rest has not arrived.
    part: Vec<u8>,
}

impl fmt::Debug for Opener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opener").field("next", &self.next).finish_non_exhaustive()
    }
}

impl Opener {
    /// Appends what the records in `bytes` hold to `out`. A record that is not whole is kept until its rest arrives. After
    /// an error the connection must be closed.
    pub(crate) fn open(&mut self, mut bytes: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        while !bytes.is_empty() {
            if self.part.is_empty()
                && let Some(length) = length_of(bytes)?
                && let Some((record, rest)) = bytes.split_at_checked(length)
            {
                self.open_record(record, out)?;
                bytes = rest;
                continue;
            }
            let wanted = length_of(&self.part)?.unwrap_or(HEAD);
            let missing = wanted.saturating_sub(self.part.len()).min(bytes.len());
            let (more, rest) = bytes.split_at(missing);
            self.part.extend_from_slice(more);
            bytes = rest;
            if length_of(&self.part)?.is_some_and(|length| length == self.part.len()) {
                let record = std::mem::take(&mut self.part);
                self.open_record(&record, out)?;
                self.part = record;
                self.part.clear();
            }
        }
        Ok(())
    }

    fn open_record(&mut self, record: &[u8], out: &mut Vec<u8>) -> Result<(), Malformed> {
        let message = record.get(HEAD..).unwrap_or_default();
        let before = out.len();
        out.resize(before + message.len().saturating_sub(TAG), 0);
        let content = out.get_mut(before..).unwrap_or_default();
        if self.keys.read_message(self.next, message, content).is_err() {
            out.truncate(before);
            return Err(Malformed::Record);
        }
        // Noise refuses the last number, so this one is below it.
        self.next += 1;
        Ok(())
    }

    /// Gives memory back, if no part of a record is kept.
    pub(crate) fn shrink(&mut self) {
        if self.part.is_empty() {
            self.part.shrink_to(KEPT);
        }
    }

    /// Bytes of memory held.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> usize {
        self.part.capacity()
    }
}

/// The length of the record that begins here, with its head, once that has arrived. A record holds at least a byte.
fn length_of(bytes: &[u8]) -> Result<Option<usize>, Malformed> {
    let Some((head, _)) = bytes.split_first_chunk::<HEAD>() else { return Ok(None) };
    let length = usize::from(u16::from_le_bytes(*head));
    if length <= TAG { Err(Malformed::Record) } else { Ok(Some(HEAD + length)) }
}
