//! How rows are named. Integers are big-endian, so that the order of bytes is the order of values.
//!
//! | table | key | value |
//! |---|---|---|
//! | tasks | space, place, (ready tasks of sub-queued tubes: length and name of the sub-queue,) order, id | record |
//! | bodies | space, id | body |
//! | places | space, id | place, order, sub-queue |
//! | heads | space, order, id | sub-queue |
//! | dues | time, id, space | place, order, sub-queue |
//!
//! A *space* is the number under which a tube's rows are kept; a truncated tube gets a new one.

use std::ops::Deref;
use std::sync::Arc;

use crate::RecordError;

/// Which part of a tube a task's row is in. A taken task stays at `Ready`: claims live in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shelf {
    /// May be taken, or is.
    Ready = 1,
    /// Waits for its time.
    Delayed = 2,
    /// Waits for a kick.
    Buried = 3,
}

impl Shelf {
    /// The three of them.
    pub const ALL: [Shelf; 3] = [Shelf::Ready, Shelf::Delayed, Shelf::Buried];

    fn from_byte(byte: u8) -> Option<Shelf> {
        Shelf::ALL.into_iter().find(|shelf| *shelf as u8 == byte)
    }
}

/// Where a task's row is, within its space; its sub-queue's name shared, or borrowed for a moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position<S = Arc<str>> {
    /// The part of the tube.
    pub shelf: Shelf,
    /// The driver's order key: least first.
    pub order: u64,
    /// The task.
    pub id: u64,
    /// Its sub-queue; empty for the unnamed one and in tubes without sub-queues.
    pub sub: S,
}

impl<S: Deref<Target = str>> Position<S> {
    /// Whether the row is where the id alone says, so that no row of `places` is needed.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.shelf == Shelf::Ready && self.order == 0 && self.sub.is_empty()
    }

    /// The value of the rows that point at this spot.
    #[must_use]
    pub fn pointer(&self) -> Vec<u8> {
        let mut value = Vec::with_capacity(9 + self.sub.len());
        value.push(self.shelf as u8);
        value.extend_from_slice(&self.order.to_be_bytes());
        value.extend_from_slice(self.sub.as_bytes());
        value
    }
}

impl Position {
    /// Reads a pointer back.
    ///
    /// # Errors
    /// The bytes are not a pointer.
    pub fn from_pointer(id: u64, value: &[u8]) -> Result<Position, RecordError> {
        let bad = || RecordError::new(id, "the pointer to its row");
        let shelf = value.first().copied().and_then(Shelf::from_byte).ok_or_else(bad)?;
        let order = number(value, 1).ok_or_else(bad)?;
        let sub = value.get(9..).and_then(|bytes| std::str::from_utf8(bytes).ok());
        Ok(Position { shelf, order, id, sub: sub.ok_or_else(bad)?.into() })
    }
}

/// The key of a task's row.
#[must_use]
pub fn task<S: Deref<Target = str>>(
    space: u32,
    sub_queued: bool,
    position: &Position<S>,
) -> Vec<u8> {
    let mut key = if sub_queued && position.shelf == Shelf::Ready {
        sub_prefix(space, &position.sub)
    } else {
        shelf_prefix(space, position.shelf)
    };
    rank(&mut key, position.order, position.id);
    key
}

/// Order and id, the last 16 bytes of a key of `tasks` or `heads`.
///
/// # Errors
/// The key is too short.
pub fn order_and_id(key: &[u8]) -> Result<(u64, u64), RecordError> {
    let bad = || RecordError::new(0, "a key");
    let at = key.len().checked_sub(16).ok_or_else(bad)?;
    Ok((number(key, at).ok_or_else(bad)?, number(key, at + 8).ok_or_else(bad)?))
}

/// The space and shelf of a key of `tasks`.
///
/// # Errors
/// The key is too short, or names no shelf.
pub fn space_and_shelf(key: &[u8]) -> Result<(u32, Shelf), RecordError> {
    let bad = || RecordError::new(0, "a key");
    let shelf = key.get(4).copied().and_then(Shelf::from_byte).ok_or_else(bad)?;
    Ok((space_of(key).ok_or_else(bad)?, shelf))
}

/// The space of a key of `tasks`, `bodies`, `places` or `heads`.
#[must_use]
pub fn space_of(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.get(..4)?.try_into().ok()?))
}

/// What all keys of a shelf begin with.
#[must_use]
pub fn shelf_prefix(space: u32, shelf: Shelf) -> Vec<u8> {
    begin(space, shelf, 0)
}

/// What the keys of all ready tasks of a sub-queue begin with.
#[must_use]
pub fn sub_prefix(space: u32, sub: &str) -> Vec<u8> {
    let mut key = begin(space, Shelf::Ready, 2 + sub.len());
    // The limit on names keeps the length within two bytes.
    let length = u16::try_from(sub.len()).unwrap_or(u16::MAX);
    key.extend_from_slice(&length.to_be_bytes());
    key.extend_from_slice(sub.as_bytes());
    key
}

/// What all keys of a space begin with.
#[must_use]
pub fn space_prefix(space: u32) -> Vec<u8> {
    space.to_be_bytes().to_vec()
}

/// The key of a task's row in `bodies` and in `places`.
#[must_use]
pub fn by_id(space: u32, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(12);
    key.extend_from_slice(&space.to_be_bytes());
    key.extend_from_slice(&id.to_be_bytes());
    key
}

/// The id of a key of `bodies` or `places`.
#[must_use]
pub fn id_of(key: &[u8]) -> Option<u64> {
    number(key, 4)
}

/// The key of a sub-queue's row in `heads`.
#[must_use]
pub fn head(space: u32, order: u64, id: u64) -> Vec<u8> {
    ranked(&space.to_be_bytes(), order, id)
}

/// A key of `tasks` or `heads`: what it begins with, then its rank.
#[must_use]
pub fn ranked(prefix: &[u8], order: u64, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(prefix.len() + 16);
    key.extend_from_slice(prefix);
    rank(&mut key, order, id);
    key
}

/// The key of a task's row in `dues`. What falls due at one moment does so in the order of ids.
#[must_use]
pub fn due(time: u64, space: u32, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(20);
    key.extend_from_slice(&time.to_be_bytes());
    key.extend_from_slice(&id.to_be_bytes());
    key.extend_from_slice(&space.to_be_bytes());
    key
}

/// Time, space and id of a key of `dues`.
///
/// # Errors
/// The key has another length.
pub fn split_due(key: &[u8]) -> Result<(u64, u32, u64), RecordError> {
    let bad = || RecordError::new(0, "a key of the dues");
    let space = key.get(16..).and_then(space_of).ok_or_else(bad)?;
    Ok((number(key, 0).ok_or_else(bad)?, space, number(key, 8).ok_or_else(bad)?))
}

/// The least key that is greater than all that begin with `prefix`.
#[must_use]
pub fn end_of(prefix: &[u8]) -> Vec<u8> {
    let mut end = prefix.to_vec();
    while let Some(last) = end.pop() {
        if last < u8::MAX {
            end.push(last + 1);
            return end;
        }
    }
    // Only a prefix of 0xff bytes has no successor; no table has such keys.
    vec![u8::MAX; prefix.len() + 32]
}

/// The least key greater than `key`.
#[must_use]
pub fn after(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// Begins a key of `tasks`, with room for so much more and its rank.
fn begin(space: u32, shelf: Shelf, more: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + more + 16);
    key.extend_from_slice(&space.to_be_bytes());
    key.push(shelf as u8);
    key
}

fn rank(key: &mut Vec<u8>, order: u64, id: u64) {
    key.extend_from_slice(&order.to_be_bytes());
    key.extend_from_slice(&id.to_be_bytes());
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_be_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(shelf: Shelf, order: u64, id: u64, sub: &str) -> Position {
        Position { shelf, order, id, sub: sub.into() }
    }

    #[test]
    fn keys_sort_as_their_numbers_do() {
        let key = |order, id| task(7, false, &position(Shelf::Ready, order, id, ""));
        assert!(key(0, 255) < key(0, 256));
        assert!(key(0, u64::MAX) < key(1, 0));
        assert!(task(7, false, &position(Shelf::Buried, 0, 0, "")) > key(u64::MAX, u64::MAX));
        assert!(due(9, 1, 1) < due(256, 0, 0));
    }

    #[test]
    fn sub_queues_do_not_mix_whatever_their_names() {
        for (one, other) in [("a", "aa"), ("", "a"), ("a\0", "a")] {
            let end = end_of(&sub_prefix(1, one));
            let key = task(1, true, &position(Shelf::Ready, 3, 4, other));
            assert!(
                !(key.starts_with(&sub_prefix(1, one)) || (key < end && key >= sub_prefix(1, one)))
            );
        }
    }

    #[test]
    fn a_pointer_reads_back_and_garbage_is_refused() {
        let at = position(Shelf::Delayed, 77, 5, "häuser");
        assert_eq!(Position::from_pointer(5, &at.pointer()).unwrap(), at);
        assert!(Position::from_pointer(5, &[]).is_err());
        assert!(Position::from_pointer(5, &[9; 12]).is_err());
        assert!(Position::from_pointer(5, &[1, 0, 0]).is_err());
    }

    #[test]
    fn the_end_of_a_prefix_is_beyond_all_that_begins_with_it() {
        assert_eq!(end_of(&[1, 2]), [1, 3]);
        assert_eq!(end_of(&[1, 255]), [2]);
        assert!(end_of(&[255]) > vec![255, 255, 255]);
    }
}
