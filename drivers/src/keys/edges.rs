//! The keys of the edges from parents to children, in the table `index`.
//!
//! An edge has two rows, one for each direction. Their values name the space of the other task. Ids
//! are unique in the store, so the keys have no space.

use super::{number, space_of};
use crate::record_error::RecordError;

/// The first byte of the keys of `index` that lead from a parent to its children.
pub const CHILD: u8 = b'c';

/// The first byte of the keys of `index` that lead from a child to its parents.
pub const PARENT: u8 = b'p';

/// Returns the prefix of the keys that lead to the children of a task.
#[must_use]
pub fn children_prefix(parent: u64) -> Vec<u8> {
    with_id(CHILD, parent)
}

/// Returns the prefix of the keys that lead to the parents of a task.
#[must_use]
pub fn parents_prefix(child: u64) -> Vec<u8> {
    with_id(PARENT, child)
}

/// Returns the key that leads from a parent to a child.
#[must_use]
pub fn child_edge(parent: u64, child: u64) -> Vec<u8> {
    let mut key = children_prefix(parent);
    key.extend_from_slice(&child.to_be_bytes());
    key
}

/// Returns the key that leads from a child to a parent.
#[must_use]
pub fn parent_edge(child: u64, parent: u64) -> Vec<u8> {
    let mut key = parents_prefix(child);
    key.extend_from_slice(&parent.to_be_bytes());
    key
}

/// Returns the kind of a key of an edge, the id of the task that it begins with, and that of the
/// other one.
///
/// # Errors
/// The key is not one.
pub fn split_edge(key: &[u8]) -> Result<(u8, u64, u64), RecordError> {
    let split = || {
        let (&kind, rest) = key.split_first()?;
        let is_edge = (kind == CHILD || kind == PARENT) && rest.len() == 16;
        is_edge.then_some((kind, number(rest, 0)?, number(rest, 8)?))
    };
    split().ok_or_else(|| RecordError::new(0, "a key of an edge"))
}

/// Returns the space that the value of an edge names.
///
/// # Errors
/// The value is not that of an edge.
pub fn edge_space(id: u64, value: &[u8]) -> Result<u32, RecordError> {
    let space = if value.len() == 4 { space_of(value) } else { None };
    space.ok_or_else(|| RecordError::new(id, "the space of an edge"))
}

/// Returns the key of the row of `meta` that says that a parent is over, and that its children are
/// still to be freed.
#[must_use]
pub fn freed(parent: u64) -> Vec<u8> {
    [b"freed/".as_slice(), &parent.to_be_bytes()].concat()
}

fn with_id(kind: u8, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(17);
    key.push(kind);
    key.extend_from_slice(&id.to_be_bytes());
    key
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::end_of;

    #[test]
    fn edge_keys_read_back_and_invalid_bytes_are_refused() {
        let (child, parent) = (child_edge(7, 1 << 40), parent_edge(1 << 40, 7));
        assert_eq!(split_edge(&child), Ok((CHILD, 7, 1 << 40)));
        assert_eq!(split_edge(&parent), Ok((PARENT, 1 << 40, 7)));
        for key in [&child, &parent] {
            assert!(split_edge(&key[..16]).is_err());
            assert!(split_edge(&[&key[..], &[0]].concat()).is_err());
            assert!(split_edge(&[b"g", &key[1..]].concat()).is_err());
        }
        assert!(split_edge(&[]).is_err());
        assert_eq!(edge_space(7, &[0, 0, 1, 2]), Ok(258));
        assert!(edge_space(7, &[0, 0, 1]).is_err() && edge_space(7, &[0; 5]).is_err());
    }

    #[test]
    fn edges_of_different_parents_do_not_mix() {
        let prefix = children_prefix(7);
        for (parent, child) in [(6, u64::MAX), (8, 0), (7 << 8, 1)] {
            let key = child_edge(parent, child);
            assert!(key < prefix || key >= end_of(&prefix));
        }
        assert!(child_edge(7, 0) >= prefix && child_edge(7, u64::MAX) < end_of(&prefix));
        assert!(child_edge(7, 255) < child_edge(7, 256));
    }
}
