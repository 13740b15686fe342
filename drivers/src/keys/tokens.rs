//! The rows of the tokens of puts, in the table `index`: by token, and by the time at which it is
//! forgotten.

use super::groups::index_prefix;
use super::{number, space_of};
use crate::record_error::RecordError;

/// The first byte of the keys of `index` that have a token.
pub const TOKEN: u8 = b'o';

/// The first byte of the keys of `index` that have a token by the time at which it is forgotten.
pub const TOKEN_BY_TIME: u8 = b'O';

/// Returns the key of the row of a token. A token is of the space of its tube.
#[must_use]
pub fn token(space: u32, token: &str) -> Vec<u8> {
    let mut key = index_prefix(TOKEN, space);
    key.extend_from_slice(token.as_bytes());
    key
}

/// Returns space and token of the key of the row of a token.
///
/// # Errors
/// It is not the key of such a row.
pub fn split_token(key: &[u8]) -> Result<(u32, &str), RecordError> {
    let split = || {
        let (&TOKEN, rest) = key.split_first()? else { return None };
        Some((space_of(rest)?, std::str::from_utf8(rest.get(4..)?).ok()?))
    };
    split().ok_or_else(bad)
}

/// Returns the key of the row of a token by time. Such rows are in the order of the times, over all
/// tubes.
#[must_use]
pub fn token_by_time(time: u64, space: u32, token: &str) -> Vec<u8> {
    let mut key = Vec::with_capacity(13 + token.len());
    key.push(TOKEN_BY_TIME);
    key.extend_from_slice(&time.to_be_bytes());
    key.extend_from_slice(&space.to_be_bytes());
    key.extend_from_slice(token.as_bytes());
    key
}

/// Returns time, space and token of the key of the row of a token by time.
///
/// # Errors
/// It is not the key of such a row.
pub fn split_token_by_time(key: &[u8]) -> Result<(u64, u32, &str), RecordError> {
    let split = || {
        let (&TOKEN_BY_TIME, rest) = key.split_first()? else { return None };
        let token = std::str::from_utf8(rest.get(12..)?).ok()?;
        Some((number(rest, 0)?, space_of(rest.get(8..)?)?, token))
    };
    split().ok_or_else(bad)
}

fn bad() -> RecordError {
    RecordError::new(0, "a key of the tokens")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::end_of;

    #[test]
    fn token_keys_read_back_and_invalid_bytes_are_refused() {
        for text in ["", "a", "häuser", &"x".repeat(64)] {
            assert_eq!(split_token(&token(7, text)), Ok((7, text)));
            assert_eq!(split_token_by_time(&token_by_time(9, 7, text)), Ok((9, 7, text)));
            assert!(split_token(&token_by_time(9, 7, text)).is_err());
            assert!(split_token_by_time(&token(7, text)).is_err());
        }
        for bytes in [&[][..], b"o", b"o123", b"o1234\xff", b"g1234"] {
            assert!(split_token(bytes).is_err(), "{bytes:?}");
        }
        for bytes in [&[][..], b"O", b"O12345678123", b"O123456781234\xff"] {
            assert!(split_token_by_time(bytes).is_err(), "{bytes:?}");
        }
    }

    #[test]
    fn tokens_sort_by_time_and_those_of_spaces_do_not_mix() {
        assert!(token_by_time(255, 9, "z") < token_by_time(256, 1, "a"));
        let prefix = index_prefix(TOKEN, 7);
        assert!(token(7, "a").starts_with(&prefix));
        assert!(token(8, "a") >= end_of(&prefix) && token(6, "a") < prefix);
    }
}
