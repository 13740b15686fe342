//! The rows that lead from the key of a task to the task, in the table `index`.
//!
//! A key is unique in the store, so its row is not in the space of a tube: the value names the space.

use super::{by_id, id_of, space_of};
use crate::record_error::RecordError;

/// The first byte of the keys of `index` that have the key of a task.
pub const KEY: u8 = b'k';

/// Returns the key of the row of a task's key.
#[must_use]
pub fn of_key(key: &str) -> Vec<u8> {
    let mut row = Vec::with_capacity(1 + key.len());
    row.push(KEY);
    row.extend_from_slice(key.as_bytes());
    row
}

/// Returns the task's key of the key of a row.
///
/// # Errors
/// It is not the key of such a row.
pub fn split_of_key(key: &[u8]) -> Result<&str, RecordError> {
    let split = || {
        let (&KEY, key) = key.split_first()? else { return None };
        std::str::from_utf8(key).ok()
    };
    split().ok_or_else(|| RecordError::new(0, "a key of the keys of tasks"))
}

/// Returns the value of the row of a task's key.
#[must_use]
pub fn keyed(space: u32, id: u64) -> Vec<u8> {
    by_id(space, id)
}

/// Returns space and id of the value of the row of a task's key.
///
/// # Errors
/// It is not such a value.
pub fn split_keyed(value: &[u8]) -> Result<(u32, u64), RecordError> {
    let split = || Some((space_of(value)?, id_of(value).filter(|_| value.len() == 12)?));
    split().ok_or_else(|| RecordError::new(0, "the row of the key of a task"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_read_back_and_invalid_bytes_are_refused() {
        for key in ["", "a", "häuser", &"x".repeat(255)] {
            assert_eq!(split_of_key(&of_key(key)), Ok(key));
        }
        assert_eq!(split_keyed(&keyed(7, 1 << 40)), Ok((7, 1 << 40)));
        for bytes in [&[][..], b"g", b"K", &[b'k', 0xff]] {
            assert!(split_of_key(bytes).is_err(), "{bytes:?}");
        }
        for bytes in [&[][..], &[0; 11], &[0; 13]] {
            assert!(split_keyed(bytes).is_err(), "{bytes:?}");
        }
    }
}
