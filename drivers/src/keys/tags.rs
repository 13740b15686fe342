//! The keys of the tags of tasks, in the table `index`.
//!
//! A tag may be that of tasks in any tube, so its rows are not in the space of one: the value of a
//! row names the space.

use super::{number, push_name, space_of};
use crate::record_error::RecordError;

/// The first byte of the keys of `index` that have a tag and a task that has it.
pub const TAG: u8 = b't';

/// The first byte of the keys of `index` that have the number of the rows of a tag.
pub const TAG_COUNT: u8 = b'n';

/// Returns the prefix of the keys of all tasks with a tag.
#[must_use]
pub fn tag_prefix(tag: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(3 + tag.len() + 8);
    key.push(TAG);
    push_name(&mut key, tag);
    key
}

/// Returns the key of a task with a tag. They are in the order of the ids.
#[must_use]
pub fn tagged(tag: &str, id: u64) -> Vec<u8> {
    let mut key = tag_prefix(tag);
    key.extend_from_slice(&id.to_be_bytes());
    key
}

/// Returns tag and id of the key of a task with a tag.
///
/// # Errors
/// The key is not one.
pub fn split_tagged(key: &[u8]) -> Result<(&str, u64), RecordError> {
    let split = || {
        let (&TAG, rest) = key.split_first()? else { return None };
        let (length, rest) = rest.split_first_chunk::<2>()?;
        let (tag, id) = rest.split_at_checked(usize::from(u16::from_be_bytes(*length)))?;
        let tag = std::str::from_utf8(tag).ok().filter(|_| id.len() == 8)?;
        Some((tag, number(id, 0)?))
    };
    split().ok_or_else(bad)
}

/// Returns the space of the value of the row of a task with a tag.
///
/// # Errors
/// It is not such a value.
pub fn tagged_space(value: &[u8]) -> Result<u32, RecordError> {
    space_of(value).filter(|_| value.len() == 4).ok_or_else(bad)
}

/// Returns the key of the count of a tag. The tag ends the key, so that the counts are in the order
/// of the tags.
#[must_use]
pub fn tag_count(tag: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(1 + tag.len());
    key.push(TAG_COUNT);
    key.extend_from_slice(tag.as_bytes());
    key
}

/// Returns the tag of the key of its count.
///
/// # Errors
/// The key is not one.
pub fn split_tag_count(key: &[u8]) -> Result<&str, RecordError> {
    let split = || {
        let (&TAG_COUNT, tag) = key.split_first()? else { return None };
        std::str::from_utf8(tag).ok()
    };
    split().ok_or_else(bad)
}

fn bad() -> RecordError {
    RecordError::new(0, "a row of a tag")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::end_of;

    #[test]
    fn tag_keys_read_back_and_invalid_bytes_are_refused() {
        for tag in ["", "a", "häuser", &"x".repeat(255)] {
            let key = tagged(tag, 1 << 40);
            assert_eq!(split_tagged(&key), Ok((tag, 1 << 40)));
            assert!(split_tagged(&key[..key.len() - 1]).is_err());
            assert!(split_tagged(&[&key[..], &[0]].concat()).is_err());
            assert_eq!(split_tag_count(&tag_count(tag)), Ok(tag));
            assert!(split_tag_count(&key).is_err() && split_tagged(&tag_count(tag)).is_err());
        }
        assert_eq!(tagged_space(&7_u32.to_be_bytes()), Ok(7));
        for bytes in [&[][..], &[0; 3], &[0; 5]] {
            assert!(tagged_space(bytes).is_err(), "{bytes:?}");
        }
        assert!(split_tag_count(&[TAG_COUNT, 0xff]).is_err());
        assert!(split_tagged(&[]).is_err() && split_tag_count(&[]).is_err());
    }

    #[test]
    fn keys_of_different_tags_do_not_mix() {
        assert!(tagged("a", 255) < tagged("a", 256));
        for (one, other) in [("a", "aa"), ("", "a"), ("a\0", "a"), ("a", "b")] {
            let (prefix, key) = (tag_prefix(one), tagged(other, u64::MAX));
            assert!(key < prefix || key >= end_of(&prefix));
        }
    }
}
