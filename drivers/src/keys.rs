//! The keys of rows. Integers are big-endian, so that keys sort like their numbers.
//!
//! | table | key | value |
//! |---|---|---|
//! | tasks | space, shelf, \[sub-queue: length, name\], order, id | record |
//! | bodies | space, id | body |
//! | places | space, id | pointer: shelf, order, sub-queue |
//! | heads | space, order, id | sub-queue |
//! | dues | time, id, space | pointer: shelf, order, sub-queue |
//! | claims | space, id | a parked claim |
//! | index | `g`, space, group: length, name, end, id | empty |
//! | index | `G`, space, group: name | the number of the group's tasks |
//! | index | `k`, key of a task, or 0xff and its hash | space, id |
//! | index | `c`, parent, child | the space of the child |
//! | index | `p`, child, parent | the space of the parent |
//! | index | `m`, moment, id, space | pointer: shelf, order, sub-queue |
//! | index | `t`, tag: length, name, id | space |
//! | index | `n`, tag | the number of the rows of the tag |
//! | index | `o`, space, token | a put |
//! | index | `O`, end, space, token | empty |
//! | notes | space, id, kind | a note |
//! | notes | space, id, `h`, number | an entry of the history |
//! | notes | space, id, `s`, name | a step |
//! | days | space, day | the numbers of a tube |
//!
//! The key of `tasks` has the sub-queue for ready tasks of sub-queued tubes only. A *space* is the
//! number of a tube's rows in the tables; a truncated tube gets a new space.

mod by_key;
mod days;
mod edges;
mod groups;
mod moments;
mod notes;
mod tags;
mod tokens;

use std::ops::Deref;
use std::sync::Arc;

use crate::limits::DEFAULT_ORDER;
use crate::record_error::RecordError;
pub use by_key::{KEY, is_of_key, keyed, of_key, split_keyed};
pub use days::{day, split_day};
pub use edges::{
    CHILD, PARENT, child_edge, children_prefix, edge_space, freed, parent_edge, parents_prefix,
    split_edge,
};
pub use groups::{
    GROUP, GROUP_COUNT, group_count, group_prefix, index_prefix, split_group, split_group_count,
};
pub use moments::{MOMENT, moment, split_moment};
pub use notes::{HISTORY, NoteRow, STEP, history, history_entry, note, split_note, step, steps};
pub use tags::{
    TAG, TAG_COUNT, split_tag_count, split_tagged, tag_count, tag_prefix, tagged, tagged_space,
};
pub use tokens::{TOKEN, TOKEN_BY_TIME, split_token, split_token_by_time, token, token_by_time};

/// The part of a tube that a task's row is in. The row of a taken task stays on `Ready`, because
/// claims are kept in memory only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Shelf {
    /// Ready or taken.
    Ready = 1,
    /// Delayed, until its delay elapses.
    Delayed = 2,
    /// Buried, until it is kicked.
    Buried = 3,
    /// Blocked, until the last of its open parents is done.
    Blocked = 4,
    /// Done, and kept with its outcome. Such a task is in the order in which it was done.
    Done = 5,
    /// Recurring: a schedule, which puts tasks and is never taken itself.
    Recurring = 6,
}

impl Shelf {
    /// All shelves.
    pub const ALL: [Shelf; 6] = [
        Shelf::Ready,
        Shelf::Delayed,
        Shelf::Buried,
        Shelf::Blocked,
        Shelf::Done,
        Shelf::Recurring,
    ];

    fn from_byte(byte: u8) -> Option<Shelf> {
        Shelf::ALL.into_iter().find(|shelf| *shelf as u8 == byte)
    }
}

/// The position of a task's row in its space. `S` is the name of the sub-queue, shared or borrowed.
///
/// # Example
/// ```
/// use tubewell_drivers::{Position, Shelf};
///
/// let position = Position { shelf: Shelf::Delayed, order: 5, id: 17, sub: "host".into() };
/// assert_eq!(Position::from_pointer(17, &position.pointer())?, position);
/// # Ok::<(), tubewell_drivers::RecordError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Position<S = Arc<str>> {
    /// The part of the tube.
    pub shelf: Shelf,
    /// The driver's order key; on shelf [`Done`](Shelf::Done) the time at which the task was done. The
    /// least comes first.
    pub order: u64,
    /// The id of the task.
    pub id: u64,
    /// The sub-queue. Empty for the unnamed one, and in tubes without sub-queues.
    pub sub: S,
}

impl<S: Deref<Target = str>> Position<S> {
    /// Returns whether the position follows from the id alone. Such a task has no row in `places`.
    #[must_use]
    pub fn is_default(&self) -> bool {
        self.shelf == Shelf::Ready && self.order == DEFAULT_ORDER && self.sub.is_empty()
    }

    /// Returns the value of the rows that point at this position.
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
    /// Decodes a pointer to the task `id`.
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

/// Returns the key of a task's row in `tasks`.
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
    push_rank(&mut key, position.order, position.id);
    key
}

/// Returns order and id of a key of `tasks` or `heads`: its last 16 bytes.
///
/// # Errors
/// The key is too short.
pub fn order_and_id(key: &[u8]) -> Result<(u64, u64), RecordError> {
    let bad = || RecordError::new(0, "a key");
    let at = key.len().checked_sub(16).ok_or_else(bad)?;
    Ok((number(key, at).ok_or_else(bad)?, number(key, at + 8).ok_or_else(bad)?))
}

/// Returns space and shelf of a key of `tasks`.
///
/// # Errors
/// The key is too short, or its shelf is unknown.
pub fn space_and_shelf(key: &[u8]) -> Result<(u32, Shelf), RecordError> {
    let bad = || RecordError::new(0, "a key");
    let shelf = key.get(4).copied().and_then(Shelf::from_byte).ok_or_else(bad)?;
    Ok((space_of(key).ok_or_else(bad)?, shelf))
}

/// Returns the space of a key of `tasks`, `bodies`, `places`, `heads`, `claims`, `notes` or `days`,
/// or `None` if it is too short.
#[must_use]
pub fn space_of(key: &[u8]) -> Option<u32> {
    Some(u32::from_be_bytes(key.get(..4)?.try_into().ok()?))
}

/// Returns the prefix of all keys of a shelf.
#[must_use]
pub fn shelf_prefix(space: u32, shelf: Shelf) -> Vec<u8> {
    shelf_key(space, shelf, 0)
}

/// Returns the prefix of the keys of all ready tasks of a sub-queue.
#[must_use]
pub fn sub_prefix(space: u32, sub: &str) -> Vec<u8> {
    let mut key = shelf_key(space, Shelf::Ready, 2 + sub.len());
    push_name(&mut key, sub);
    key
}

/// Returns the prefix of all keys of a space.
#[must_use]
pub fn space_prefix(space: u32) -> Vec<u8> {
    space.to_be_bytes().to_vec()
}

/// Returns the key of a task's row in `bodies`, `places` and `claims`.
#[must_use]
pub fn by_id(space: u32, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(12);
    key.extend_from_slice(&space.to_be_bytes());
    key.extend_from_slice(&id.to_be_bytes());
    key
}

/// Returns space and id of a key of `bodies`, `places` or `claims`.
///
/// # Errors
/// The key has another length.
pub fn split_by_id(key: &[u8]) -> Result<(u32, u64), RecordError> {
    let split = || Some((space_of(key)?, id_of(key).filter(|_| key.len() == 12)?));
    split().ok_or_else(|| RecordError::new(0, "a key of a task"))
}

/// Returns the space that these bytes are, at the end of a key of `meta`; `None` if there are more bytes
/// or fewer.
#[must_use]
pub fn whole_space(bytes: &[u8]) -> Option<u32> {
    space_of(bytes).filter(|_| bytes.len() == 4)
}

/// Returns the id of a key of `bodies`, `places`, `claims` or `notes`, or `None` if the key is too short.
#[must_use]
pub fn id_of(key: &[u8]) -> Option<u64> {
    number(key, 4)
}

/// Returns the key of a sub-queue's row in `heads`.
#[must_use]
pub fn head(space: u32, order: u64, id: u64) -> Vec<u8> {
    ranked(&space.to_be_bytes(), order, id)
}

/// Returns space, order and id of a key of `heads`.
///
/// # Errors
/// The key has another length.
pub fn split_head(key: &[u8]) -> Result<(u32, u64, u64), RecordError> {
    let split =
        || Some((whole_space(key.get(..4)?)?, key.get(4..).filter(|rank| rank.len() == 16)?));
    let (space, rank) = split().ok_or_else(|| RecordError::new(0, "a key of the heads"))?;
    order_and_id(rank).map(|(order, id)| (space, order, id))
}

/// Returns a key of `tasks` or `heads`: a prefix, then order and id.
#[must_use]
pub fn ranked(prefix: &[u8], order: u64, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(prefix.len() + 16);
    key.extend_from_slice(prefix);
    push_rank(&mut key, order, id);
    key
}

/// Returns the key of a task's row in `dues`. Tasks that are due at the same time are in the order
/// of their ids.
#[must_use]
pub fn due(time: u64, space: u32, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(20);
    key.extend_from_slice(&time.to_be_bytes());
    key.extend_from_slice(&id.to_be_bytes());
    key.extend_from_slice(&space.to_be_bytes());
    key
}

/// Returns time, space and id of a key of `dues`.
///
/// # Errors
/// The key has another length.
pub fn split_due(key: &[u8]) -> Result<(u64, u32, u64), RecordError> {
    let bad = || RecordError::new(0, "a key of the dues");
    let space = key.get(16..).and_then(whole_space).ok_or_else(bad)?;
    Ok((number(key, 0).ok_or_else(bad)?, space, number(key, 8).ok_or_else(bad)?))
}

/// Returns the least key that is greater than all keys with this prefix.
///
/// # Example
/// ```
/// use tubewell_drivers::keys::end_of;
///
/// assert_eq!(end_of(&[1, 2]), [1, 3]);
/// assert_eq!(end_of(&[1, 255]), [2]);
/// ```
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

/// Returns the least key that is greater than `key`.
#[must_use]
pub fn after(key: &[u8]) -> Vec<u8> {
    let mut next = Vec::with_capacity(key.len() + 1);
    next.extend_from_slice(key);
    next.push(0);
    next
}

/// The beginning of a key of `tasks`, with capacity for `more` bytes and the rank.
fn shelf_key(space: u32, shelf: Shelf, more: usize) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + more + 16);
    key.extend_from_slice(&space.to_be_bytes());
    key.push(shelf as u8);
    key
}

/// The limits of names keep their length within two bytes.
fn push_name(key: &mut Vec<u8>, name: &str) {
    let length = u16::try_from(name.len()).unwrap_or(u16::MAX);
    key.extend_from_slice(&length.to_be_bytes());
    key.extend_from_slice(name.as_bytes());
}

fn push_rank(key: &mut Vec<u8>, order: u64, id: u64) {
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
    fn keys_sort_like_their_numbers() {
        let key = |order, id| task(7, false, &position(Shelf::Ready, order, id, ""));
        assert!(key(0, 255) < key(0, 256));
        assert!(key(0, u64::MAX) < key(1, 0));
        assert!(task(7, false, &position(Shelf::Buried, 0, 0, "")) > key(u64::MAX, u64::MAX));
        assert!(due(9, 1, 1) < due(256, 0, 0));
    }

    #[test]
    fn keys_of_different_sub_queues_do_not_mix() {
        for (one, other) in [("a", "aa"), ("", "a"), ("a\0", "a")] {
            let end = end_of(&sub_prefix(1, one));
            let key = task(1, true, &position(Shelf::Ready, 3, 4, other));
            assert!(
                !(key.starts_with(&sub_prefix(1, one)) || (key < end && key >= sub_prefix(1, one)))
            );
        }
    }

    /// Each kind of key that has one length, in all tables.
    #[test]
    fn keys_that_are_longer_or_shorter_are_refused() {
        type Reads = fn(&[u8]) -> bool;
        let decoders: [(&str, Vec<u8>, Reads); 12] = [
            ("due", due(9, 7, 1 << 40), |key| split_due(key).is_ok()),
            ("moment", moment(9, 7, 1 << 40), |key| split_moment(key).is_ok()),
            ("head", head(7, 9, 1 << 40), |key| split_head(key).is_ok()),
            ("by id", by_id(7, 1 << 40), |key| split_by_id(key).is_ok()),
            ("keyed", keyed(7, 1 << 40), |value| split_keyed(value).is_ok()),
            ("space", space_prefix(7), |bytes| whole_space(bytes).is_some()),
            ("day", day(7, 9), |key| split_day(key).is_ok()),
            ("child", child_edge(7, 9), |key| split_edge(key).is_ok()),
            ("parent", parent_edge(7, 9), |key| split_edge(key).is_ok()),
            ("note", note(7, 9, crate::Note::Failure), |key| split_note(key).is_ok()),
            ("entry", history_entry(7, 9, 1), |key| split_note(key).is_ok()),
            ("tag", tagged("red", 9), |key| split_tagged(key).is_ok()),
        ];
        for (name, key, reads) in decoders {
            assert!(reads(&key), "{name}");
            assert!(!reads(&key[..key.len() - 1]), "{name}: shorter");
            assert!(!reads(&[&key[..], &[0]].concat()), "{name}: longer");
            assert!(!reads(&[]), "{name}: empty");
        }
        assert_eq!(split_head(&head(7, 9, 1 << 40)), Ok((7, 9, 1 << 40)));
        assert_eq!(split_by_id(&by_id(7, 1 << 40)), Ok((7, 1 << 40)));
        assert_eq!(split_due(&due(9, 7, 1 << 40)), Ok((9, 7, 1 << 40)));
    }

    #[test]
    fn pointer_reads_back_and_invalid_bytes_are_refused() {
        let at = position(Shelf::Delayed, 77, 5, "häuser");
        assert_eq!(Position::from_pointer(5, &at.pointer()).unwrap(), at);
        assert!(Position::from_pointer(5, &[]).is_err());
        assert!(Position::from_pointer(5, &[9; 12]).is_err());
        assert!(Position::from_pointer(5, &[7; 12]).is_err(), "no shelf has this number");
        assert!(Position::from_pointer(5, &[1, 0, 0]).is_err());
    }

    #[test]
    fn end_of_is_greater_than_all_keys_with_the_prefix() {
        assert_eq!(end_of(&[1, 2]), [1, 3]);
        assert_eq!(end_of(&[1, 255]), [2]);
        assert!(end_of(&[255]) > vec![255, 255, 255]);
    }
}
