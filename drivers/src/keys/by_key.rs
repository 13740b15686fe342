//! The rows that lead from the key of a task to the task, in the table `index`.
//!
//! A key is unique in the store, so its row is not in the space of a tube: the value names the space.
//! The row of a long key has its SHA-256, since the keys of rows are copied when a page splits. The
//! record of the task has the whole key, and a look-up compares it.

use super::{by_id, id_of, space_of};
use crate::record_error::RecordError;

/// The first byte of the keys of `index` that have the key of a task.
pub const KEY: u8 = b'k';

/// The longest key that is in its row as it is, in bytes.
const PLAIN_MAX: usize = 255;

/// Precedes the hash of a longer key. No key begins with it, since it is not UTF-8.
const HASHED: u8 = 0xff;

/// Returns the key of the row of a task's key.
#[must_use]
pub fn of_key(key: &str) -> Vec<u8> {
    if key.len() > PLAIN_MAX {
        let hash = hmac_sha256::Hash::hash(key.as_bytes());
        return [&[KEY, HASHED][..], &hash].concat();
    }
    let mut row = Vec::with_capacity(1 + key.len());
    row.push(KEY);
    row.extend_from_slice(key.as_bytes());
    row
}

/// Returns whether this may be the key of the row of a task's key.
#[must_use]
pub fn is_of_key(row: &[u8]) -> bool {
    match row {
        [KEY, HASHED, hash @ ..] => hash.len() == 32,
        [KEY, key @ ..] => std::str::from_utf8(key).is_ok(),
        _ => false,
    }
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
        for key in ["", "a", "häuser", &"x".repeat(PLAIN_MAX)] {
            assert_eq!(of_key(key), [b"k", key.as_bytes()].concat());
            assert!(is_of_key(&of_key(key)));
        }
        assert_eq!(split_keyed(&keyed(7, 1 << 40)), Ok((7, 1 << 40)));
        for bytes in [&[][..], b"g", b"K", &[b'k', 0xff], &[b'k', 0xc3]] {
            assert!(!is_of_key(bytes), "{bytes:?}");
        }
        for bytes in [&[][..], &[0; 11], &[0; 13]] {
            assert!(split_keyed(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn row_of_a_long_key_has_its_hash() {
        let row = of_key(&"a".repeat(256));
        // printf 'a%.0s' {1..256} | sha256sum
        let begin = [0x02, 0xd7, 0x16, 0x0d, 0x77, 0xe1, 0x8c, 0x64];
        assert_eq!((row.len(), &row[..2], &row[2..10]), (34, &[KEY, HASHED][..], &begin[..]));
        assert!(is_of_key(&row));
        assert_ne!(row, of_key(&("a".repeat(255) + "b")));
    }
}
