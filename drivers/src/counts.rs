//! The counts of a tube: how many tasks are on each shelf.

use bincode::de::Decoder;
use bincode::de::read::Reader;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};

use crate::keys::Shelf;

/// The number of tasks of a tube on each shelf.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Tasks that are ready or taken.
    pub ready: u64,
    /// Tasks that are delayed.
    pub delayed: u64,
    /// Tasks that are buried.
    pub buried: u64,
    /// Tasks that are done and kept.
    pub done: u64,
    /// Tasks that are blocked.
    pub blocked: u64,
    /// Edges from tasks of the tube, the parents, to tasks of any tube.
    pub edges: u64,
    /// Tasks that are recurring: schedules.
    pub recurring: u64,
}

impl Counts {
    /// Returns the number of tasks that are not over: those that count against a capacity.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.ready + self.delayed + self.buried + self.blocked
    }

    /// Returns the number of all stored tasks of the tube, with those that are done and kept, and the
    /// schedules.
    #[must_use]
    pub fn stored(&self) -> u64 {
        self.total() + self.done + self.recurring
    }

    /// Returns the count of one shelf.
    pub fn on(&mut self, shelf: Shelf) -> &mut u64 {
        match shelf {
            Shelf::Ready => &mut self.ready,
            Shelf::Delayed => &mut self.delayed,
            Shelf::Buried => &mut self.buried,
            Shelf::Blocked => &mut self.blocked,
            Shelf::Done => &mut self.done,
            Shelf::Recurring => &mut self.recurring,
        }
    }
}

impl Encode for Counts {
    /// Most tubes have no tasks that are done and kept, no parents and no schedules: their row has no
    /// bytes for them.
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        (self.ready, self.delayed, self.buried).encode(encoder)?;
        let has_schedules = self.recurring != 0;
        let has_parents = self.blocked != 0 || self.edges != 0 || has_schedules;
        if self.done != 0 || has_parents {
            self.done.encode(encoder)?;
        }
        if has_parents {
            (self.blocked, self.edges).encode(encoder)?;
        }
        if has_schedules { self.recurring.encode(encoder) } else { Ok(()) }
    }
}

impl<C> Decode<C> for Counts {
    /// The counts are the last field of their row: it ends behind the last one that is not zero.
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Counts, DecodeError> {
        let (ready, delayed, buried) = Decode::decode(decoder)?;
        let is_end = |decoder: &mut D| decoder.reader().peek_read(1).is_none();
        let done = if is_end(decoder) { 0 } else { Decode::decode(decoder)? };
        let (blocked, edges) = if is_end(decoder) { (0, 0) } else { Decode::decode(decoder)? };
        let recurring = if is_end(decoder) { 0 } else { Decode::decode(decoder)? };
        Ok(Counts { ready, delayed, buried, done, blocked, edges, recurring })
    }
}

bincode::impl_borrow_decode!(Counts);

#[cfg(test)]
mod tests {
    use super::*;

    fn encode(value: impl Encode) -> Vec<u8> {
        bincode::encode_to_vec(value, bincode::config::standard()).unwrap()
    }

    fn decode<T: Decode<()>>(bytes: &[u8]) -> Option<T> {
        let (value, read) = bincode::decode_from_slice(bytes, bincode::config::standard()).ok()?;
        (read == bytes.len()).then_some(value)
    }

    #[test]
    fn counts_without_kept_tasks_are_three_numbers() {
        for (ready, delayed, buried) in [(0, 0, 0), (1, 250, 251), (u64::MAX, 1 << 40, 3)] {
            let mut counts = Counts { ready, delayed, buried, ..Counts::default() };
            let row = encode((ready, delayed, buried));
            assert_eq!(encode(counts), row);
            assert_eq!(decode(&row), Some(counts));
            for done in [1, 251, u64::MAX] {
                counts.done = done;
                let row = encode(counts);
                assert_eq!(decode(&row), Some(counts));
                assert_eq!(decode::<(u64, u64, u64)>(&row), None);
                assert_eq!(decode::<Counts>(&row[..row.len() - 1]).is_some(), done == 1);
            }
        }
        assert_eq!(decode::<Counts>(&[1, 2]), None);
    }

    #[test]
    fn counts_with_parents_are_six_numbers() {
        for (done, blocked, edges) in [(0, 1, 0), (0, 0, 1), (7, 251, u64::MAX)] {
            let counts = Counts { ready: 1, done, blocked, edges, ..Counts::default() };
            let row = encode(counts);
            assert_eq!(row, encode((1_u64, 0_u64, 0_u64, done, blocked, edges)));
            assert_eq!(decode(&row), Some(counts));
            assert_eq!(decode::<(u64, u64, u64, u64)>(&row), None);
        }
    }

    #[test]
    fn counts_with_schedules_are_seven_numbers() {
        for (blocked, recurring) in [(0, 1), (250, u64::MAX)] {
            let counts = Counts { ready: 1, blocked, recurring, ..Counts::default() };
            let row = encode(counts);
            assert_eq!(row, encode((1_u64, 0_u64, 0_u64, 0_u64, blocked, 0_u64, recurring)));
            assert_eq!(decode(&row), Some(counts));
        }
    }

    #[test]
    fn kept_tasks_and_schedules_are_stored_and_not_in_the_total() {
        let mut counts = Counts { ready: 1, delayed: 2, buried: 3, done: 4, ..Counts::default() };
        (counts.blocked, counts.edges, counts.recurring) = (5, 6, 7);
        assert_eq!((counts.total(), counts.stored()), (11, 22));
    }
}
