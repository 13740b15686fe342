//! The keys of the failure groups, in the table `index`.

use super::{number, push_name, space_of};
use crate::record_error::RecordError;

/// The first byte of the keys of `index` that have a task of a failure group.
pub const GROUP: u8 = b'g';

/// The first byte of the keys of `index` that have the number of tasks of a failure group.
pub const GROUP_COUNT: u8 = b'G';

/// Returns the prefix of all keys of one kind of a space in `index`.
#[must_use]
pub fn index_prefix(kind: u8, space: u32) -> Vec<u8> {
    let mut key = Vec::with_capacity(5);
    key.push(kind);
    key.extend_from_slice(&space.to_be_bytes());
    key
}

/// Returns the prefix of the keys of all tasks of a failure group.
#[must_use]
pub fn group_prefix(space: u32, group: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(7 + group.len() + 16);
    key.push(GROUP);
    key.extend_from_slice(&space.to_be_bytes());
    push_name(&mut key, group);
    key
}

/// Returns space, group, end and id of a key of a task of a failure group.
///
/// # Errors
/// The key is not one.
pub fn split_group(key: &[u8]) -> Result<(u32, &str, u64, u64), RecordError> {
    let split = || {
        let (&GROUP, rest) = key.split_first()? else { return None };
        let (space, rest) = (space_of(rest)?, rest.get(4..)?);
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (group, rank) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        let is_whole = rank.len() == 16;
        let group = std::str::from_utf8(group).ok().filter(|_| is_whole)?;
        Some((space, group, number(rank, 0)?, number(rank, 8)?))
    };
    split().ok_or_else(|| RecordError::new(0, "a key of a failure group"))
}

/// Returns the key of the count of a failure group. The name ends the key, so that the counts are
/// in the order of the names.
#[must_use]
pub fn group_count(space: u32, group: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(5 + group.len());
    key.push(GROUP_COUNT);
    key.extend_from_slice(&space.to_be_bytes());
    key.extend_from_slice(group.as_bytes());
    key
}

/// Returns space and group of the key of the count of a failure group.
///
/// # Errors
/// The key is not one.
pub fn split_group_count(key: &[u8]) -> Result<(u32, &str), RecordError> {
    let split = || {
        let (&GROUP_COUNT, rest) = key.split_first()? else { return None };
        Some((space_of(rest)?, std::str::from_utf8(rest.get(4..)?).ok()?))
    };
    split().ok_or_else(|| RecordError::new(0, "a key of a failure group"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::{end_of, ranked};

    #[test]
    fn group_keys_read_back_and_invalid_bytes_are_refused() {
        for group in ["", "a", "häuser", &"x".repeat(255)] {
            let key = ranked(&group_prefix(7, group), 9, 1 << 40);
            assert_eq!(split_group(&key), Ok((7, group, 9, 1 << 40)));
            assert!(split_group(&key[..key.len() - 1]).is_err());
            assert!(split_group(&[&key[..], &[0]].concat()).is_err());
            let count = group_count(7, group);
            assert_eq!(split_group_count(&count), Ok((7, group)));
            assert!(split_group(&count).is_err() && split_group_count(&key).is_err());
        }
        assert!(split_group_count(&[GROUP_COUNT, 0, 0]).is_err());
        assert!(split_group_count(&[GROUP_COUNT, 0, 0, 0, 7, 0xff]).is_err());
        assert!(split_group(&[]).is_err() && split_group_count(&[]).is_err());
    }

    #[test]
    fn keys_of_different_groups_do_not_mix() {
        let key = |group, ended, id| ranked(&group_prefix(7, group), ended, id);
        assert!(key("a", 1, 2) < key("a", 1, 3) && key("a", 1, 3) < key("a", 2, 0));
        for (one, other) in [("a", "aa"), ("", "a"), ("a\0", "a"), ("a", "b")] {
            let prefix = group_prefix(7, one);
            let key = key(other, u64::MAX, u64::MAX);
            assert!(key < prefix || key >= end_of(&prefix));
        }
        assert!(group_count(7, "aa") < group_count(7, "b"));
    }
}
