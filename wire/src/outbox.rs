//! Output that the socket has not taken yet. No I/O: a thread that writes takes a chunk and gives it back.

use std::io;

use crate::frame::{self, Kind};
use crate::secure::Sealer;

/// Capacity that an empty buffer keeps.
const KEPT: usize = 64 * 1024;

/// Frames to write, and whether some thread writes them now.
///
/// One thread at a time writes. What is appended meanwhile is left to it, so that frames of many threads
/// share one write.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Frames behind those of the chunk.
    queued: Vec<u8>,
    /// The chunk that was written in part, or an empty buffer to use again.
    chunk: Vec<u8>,
    /// How much of `chunk` is written.
    done: usize,
    /// Bytes of the chunk that a thread is writing now.
    writing: Option<usize>,
    /// What is written are records. Whoever writes has it.
    sealer: Option<Box<Sealer>>,
    /// The socket takes no more until it says that it is writable.
    blocked: bool,
    /// Counts the connections: a chunk of an earlier one is dropped.
    generation: u64,
    /// All bytes that were appended and that were written, since the connection began.
    appended: u64,
    written: u64,
}

/// Bytes that one thread writes.
#[derive(Debug)]
pub(crate) struct Chunk {
    bytes: Vec<u8>,
    done: usize,
    begun: usize,
    generation: u64,
    sealer: Option<Box<Sealer>>,
    /// The socket has taken something.
    pub(crate) is_advanced: bool,
}

impl Chunk {
    /// What the socket is to take next: nothing if all is written.
    pub(crate) fn next(&mut self) -> io::Result<&[u8]> {
        let rest = self.bytes.get(self.done..).unwrap_or_default();
        match &mut self.sealer {
            Some(sealer) => sealer.next(rest),
            None => Ok(rest),
        }
    }

    /// Notes that the socket has taken this many bytes of them. Bytes in a record are written when all of it is: before,
    /// the peer can make nothing of it.
    pub(crate) fn advance(&mut self, bytes: usize) {
        self.is_advanced |= bytes > 0;
        let done = self.sealer.as_mut().map_or(bytes, |sealer| sealer.advance(bytes));
        self.done = self.done.saturating_add(done).min(self.bytes.len());
    }
}

impl Outbox {
    /// Appends a frame, and returns the position at which it begins.
    pub(crate) fn append(&mut self, kind: Kind, number: u64, body: &[u8]) -> u64 {
        self.append_with(|out| frame::put(out, kind, number, body))
    }

    /// Appends what `put` appends, whole frames, and returns the position at which they begin.
    pub(crate) fn append_with(&mut self, put: impl FnOnce(&mut Vec<u8>)) -> u64 {
        let before = self.queued.len();
        put(&mut self.queued);
        let start = self.appended;
        self.appended += self.queued.len().saturating_sub(before) as u64;
        start
    }

    /// Bytes not yet written.
    pub(crate) fn unsent(&self) -> usize {
        let written_in_part = self.chunk.len().saturating_sub(self.done);
        self.queued.len() + self.writing.unwrap_or(written_in_part)
    }

    /// All bytes that the socket may have taken since the connection began. What a thread writes now is
    /// counted.
    pub(crate) fn may_be_written(&self) -> u64 {
        self.written + self.writing.unwrap_or_default() as u64
    }

    /// Whether the socket must say that it is writable before more is written.
    pub(crate) fn is_blocked(&self) -> bool {
        self.blocked
    }

    /// Takes the bytes to write, unless there are none, another thread writes, or the socket takes no more.
    /// The caller must give the chunk back.
    pub(crate) fn take(&mut self) -> Option<Chunk> {
        if self.writing.is_some() || self.blocked {
            return None;
        }
        if self.done >= self.chunk.len() {
            if self.queued.is_empty() {
                return None;
            }
            self.chunk.clear();
            self.done = 0;
            std::mem::swap(&mut self.chunk, &mut self.queued);
        }
        let bytes = std::mem::take(&mut self.chunk);
        let done = std::mem::take(&mut self.done);
        self.writing = Some(bytes.len() - done);
        let (generation, sealer) = (self.generation, self.sealer.take());
        Some(Chunk { bytes, done, begun: done, generation, sealer, is_advanced: false })
    }

    /// Gives a chunk back, written as far as it was. `blocked`: the socket takes no more for now.
    pub(crate) fn give_back(&mut self, chunk: Chunk, blocked: bool) {
        if chunk.generation != self.generation {
            return;
        }
        self.writing = None;
        self.blocked = blocked;
        self.written += (chunk.done - chunk.begun) as u64;
        self.chunk = chunk.bytes;
        self.done = chunk.done;
        self.sealer = chunk.sealer;
        if self.done >= self.chunk.len() {
            self.chunk.clear();
            self.done = 0;
            self.chunk.shrink_to(KEPT);
            self.sealer.iter_mut().for_each(|sealer| sealer.shrink());
            // The next chunk is this buffer.
            if self.queued.is_empty() && self.queued.capacity() > KEPT {
                self.queued.shrink_to(KEPT);
            }
        }
    }

    /// What is appended from now on is written in records. No thread writes.
    pub(crate) fn seal_with(&mut self, mut sealer: Sealer) {
        sealer.begin_behind(self.unsent());
        self.sealer = Some(Box::new(sealer));
    }

    /// The socket is writable again.
    pub(crate) fn unblock(&mut self) {
        self.blocked = false;
    }

    /// Begins with another connection, and forgets what was not written.
    pub(crate) fn reset(&mut self) {
        let generation = self.generation + 1;
        *self = Outbox { generation, ..Outbox::default() };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(frames: u64) -> Outbox {
        let mut outbox = Outbox::default();
        for number in 0..frames {
            assert_eq!(outbox.append(Kind::Cancel, number, b""), number * 14);
        }
        outbox
    }

    #[test]
    fn frames_appended_while_a_thread_writes_share_its_next_chunk() {
        let mut outbox = filled(2);
        let mut chunk = outbox.take().unwrap();
        assert_eq!(chunk.next().unwrap().len(), 28);
        outbox.append(Kind::Cancel, 2, b"");
        outbox.append(Kind::Cancel, 3, b"");
        assert!(outbox.take().is_none(), "one thread writes");
        assert_eq!(outbox.unsent(), 56);
        chunk.advance(28);
        outbox.give_back(chunk, false);
        assert_eq!(outbox.take().unwrap().next().unwrap().len(), 28);
    }

    #[test]
    fn a_chunk_that_was_written_in_part_goes_on_where_it_ended() {
        let mut outbox = filled(2);
        let mut chunk = outbox.take().unwrap();
        let expected = chunk.next().unwrap()[5..].to_vec();
        chunk.advance(5);
        assert_eq!(outbox.may_be_written(), 28, "while a thread writes");
        outbox.give_back(chunk, true);
        assert_eq!((outbox.unsent(), outbox.may_be_written()), (23, 5));
        outbox.append(Kind::Cancel, 2, b"");
        assert!(outbox.take().is_none(), "the socket is full");
        outbox.unblock();
        let mut chunk = outbox.take().unwrap();
        assert_eq!(chunk.next().unwrap(), expected);
        chunk.advance(23);
        outbox.give_back(chunk, false);
        assert_eq!((outbox.unsent(), outbox.may_be_written()), (14, 28));
    }

    #[test]
    fn a_chunk_of_an_earlier_connection_is_forgotten() {
        let mut outbox = filled(1);
        let chunk = outbox.take().unwrap();
        outbox.reset();
        outbox.append(Kind::Cancel, 9, b"");
        let next = outbox.take().unwrap();
        outbox.give_back(chunk, true);
        assert!(!outbox.is_blocked());
        assert!(outbox.take().is_none(), "one thread writes");
        outbox.give_back(next, false);
        assert_eq!(outbox.unsent(), 14);
    }

    /// The peer can make nothing of a part of a record: the calls in it were not made.
    #[test]
    fn frames_in_a_record_are_written_when_all_of_it_is() {
        let (key, mut message) = (crate::secure::Key::of(b"secret"), Vec::new());
        let _begun = key.begin(&mut message).ok().unwrap();
        let keys = key.answer(&message[frame::EMPTY..], &mut Vec::new()).ok().unwrap();
        let mut outbox = filled(1);
        outbox.seal_with(keys.sealer);
        outbox.append(Kind::Cancel, 1, b"");
        let mut chunk = outbox.take().unwrap();
        assert_eq!(chunk.next().unwrap().len(), 14, "what was there before is sent as it is");
        chunk.advance(14);
        let record = chunk.next().unwrap().to_vec();
        assert_eq!(record.len(), 14 + crate::secure::OVERHEAD);
        chunk.advance(20);
        assert!(chunk.is_advanced);
        outbox.give_back(chunk, true);
        assert_eq!((outbox.unsent(), outbox.may_be_written()), (14, 14));
        outbox.unblock();
        let mut chunk = outbox.take().unwrap();
        assert_eq!(chunk.next().unwrap(), &record[20..]);
        chunk.advance(12);
        assert!(chunk.next().unwrap().is_empty());
        outbox.give_back(chunk, false);
        assert_eq!((outbox.unsent(), outbox.may_be_written()), (0, 28));
    }

    #[test]
    fn memory_of_long_frames_is_given_back() {
        let mut outbox = Outbox::default();
        for _ in 0..3 {
            outbox.append(Kind::Call, 1, &vec![0; 1 << 20]);
            let mut chunk = outbox.take().unwrap();
            chunk.advance(usize::MAX);
            outbox.give_back(chunk, false);
        }
        assert!(outbox.chunk.capacity() + outbox.queued.capacity() <= 2 * KEPT);
    }
}
