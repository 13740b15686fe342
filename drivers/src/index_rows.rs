//! The rows that follow from the header of a task: where its record is, and its index rows.
//!
//! Invariant: this file alone decides which index rows a task has. The ledger writes the difference
//! between those before and after a change, a purge removes them, and the verification compares
//! them with the tables in both directions. Heads and counts concern several tasks, and are not
//! here: `failure_groups` has the counts of the groups, and `tags` those of the tags.

use crate::keys::{self, Position, Shelf};
use crate::limits::NEVER;
use crate::record::Header;
use crate::tables::{Table, Value};

/// A row that leads to the record of one task. It owns nothing: key and value are encoded when they
/// are written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IndexRow<'a> {
    space: u32,
    id: u64,
    index: Index<'a>,
    value: Target<'a>,
}

/// What the value of an index row says.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Target<'a> {
    /// Nothing: the key of the row leads to the task.
    Empty,
    /// A pointer to this position.
    Position(Position<&'a str>),
    /// The space and the id of the task.
    Task,
    /// The space of the task.
    Space,
}

/// An index, with the part of the row's key that is neither the space nor the id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Index<'a> {
    /// The positions by id.
    Places,
    /// The tasks by the time at which they are due.
    Dues(u64),
    /// The tasks of a failure group by the time at which they were buried.
    Group(&'a str, u64),
    /// The tasks by their keys.
    Key(&'a str),
    /// The tasks that wait for a moment of the wall clock, by that moment.
    Moment(u64),
    /// The tasks by their tags.
    Tag(&'a str),
}

/// Returns the index rows of a task, each with another key. A task at its default position that is
/// never due has none.
///
/// # Example
/// ```
/// use tubewell_drivers::{Header, NEVER, Shelf, Table, index_rows};
///
/// # let header = Header {
/// #     priority: 100, order: 100, created: 1, expires_at: NEVER, ttr: NEVER, ready_at: 900, takes: 0,
/// #     size: 0, body_checksum: None, sub: "".into(), more: None,
/// # };
/// assert_eq!(index_rows(7, 1, Shelf::Ready, &header).count(), 0);
/// let delayed: Vec<Table> =
///     index_rows(7, 1, Shelf::Delayed, &header).map(|row| row.table()).collect();
/// assert_eq!(delayed, [Table::Places, Table::Dues]);
/// ```
pub fn index_rows(
    space: u32,
    id: u64,
    shelf: Shelf,
    header: &Header,
) -> impl Iterator<Item = IndexRow<'_>> + Clone {
    let position = position_of(id, shelf, header);
    let place = (!position.is_default()).then_some(Index::Places);
    let due = header.due(shelf).map(Index::Dues);
    let group = group_of(shelf, header).map(|(group, ended)| Index::Group(group, ended));
    let key = key_of(header).map(Index::Key);
    let moment = header.moment(shelf).filter(|moment| *moment != NEVER).map(Index::Moment);
    let tags = header.tags().iter().map(|tag| Index::Tag(tag));
    let indexes = place.into_iter().chain(due).chain(group).chain(key).chain(moment).chain(tags);
    indexes.map(move |index| {
        let value = match index {
            Index::Places | Index::Dues(_) | Index::Moment(_) => Target::Position(position.clone()),
            Index::Group(..) => Target::Empty,
            Index::Key(_) => Target::Task,
            Index::Tag(_) => Target::Space,
        };
        IndexRow { space, id, index, value }
    })
}

/// Returns the position of a task with this shelf and header.
#[must_use]
pub fn position_of(id: u64, shelf: Shelf, header: &Header) -> Position<&str> {
    Position { shelf, order: header.order_on(shelf), id, sub: &header.sub }
}

/// Returns the failure group of a task with this shelf and header, and when it was buried.
pub(crate) fn group_of(shelf: Shelf, header: &Header) -> Option<(&str, u64)> {
    let more = header.more.as_deref().filter(|_| shelf == Shelf::Buried)?;
    Some((more.group.as_deref()?, more.ended.unwrap_or_default()))
}

/// Returns the key of a task with this header.
fn key_of(header: &Header) -> Option<&str> {
    header.more.as_deref()?.key.as_deref()
}

impl IndexRow<'_> {
    /// Returns the table of the row.
    #[must_use]
    pub fn table(&self) -> Table {
        match self.index {
            Index::Places => Table::Places,
            Index::Dues(_) => Table::Dues,
            Index::Group(..) | Index::Key(_) | Index::Moment(_) | Index::Tag(_) => Table::Index,
        }
    }

    /// Returns the key of the row.
    #[must_use]
    pub fn key(&self) -> Vec<u8> {
        match self.index {
            Index::Places => keys::by_id(self.space, self.id),
            Index::Dues(time) => keys::due(time, self.space, self.id),
            Index::Group(group, ended) => {
                keys::ranked(&keys::group_prefix(self.space, group), ended, self.id)
            }
            Index::Key(key) => keys::of_key(key),
            Index::Moment(time) => keys::moment(time, self.space, self.id),
            Index::Tag(tag) => keys::tagged(tag, self.id),
        }
    }

    /// Returns the value of the row.
    #[must_use]
    pub fn value(&self) -> Value {
        match &self.value {
            Target::Empty => Value::default(),
            Target::Position(position) => position.pointer().into(),
            Target::Task => keys::keyed(self.space, self.id).into(),
            Target::Space => keys::space_prefix(self.space).into(),
        }
    }

    /// Returns the time at which the task is due, if this is its row in `dues`.
    pub(crate) fn due(&self) -> Option<u64> {
        if let Index::Dues(time) = self.index { Some(time) } else { None }
    }

    /// Returns the moment for which the task waits, if this is its row by that moment.
    pub(crate) fn moment(&self) -> Option<u64> {
        if let Index::Moment(time) = self.index { Some(time) } else { None }
    }

    /// Returns whether the task of another space can have a row with this key: not while this task
    /// exists, but once its tube was truncated or dropped.
    pub(crate) fn may_pass_on(&self) -> bool {
        matches!(self.index, Index::Key(_))
    }

    /// Returns whether both rows have the same table and key.
    pub(crate) fn has_key_of(&self, other: &IndexRow<'_>) -> bool {
        (self.space, self.id, self.index) == (other.space, other.id, other.index)
    }
}
