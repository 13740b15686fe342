//! The rows of the tasks that wait for a moment of the wall clock, in the table `index`.
//!
//! They sort by the moment, over all tubes, as the dues do by the time.

use super::{due, split_due};
use crate::record_error::RecordError;

/// The first byte of the keys of `index` that have a moment of the wall clock.
pub const MOMENT: u8 = b'm';

/// Returns the key of the row of a task that waits for this moment.
#[must_use]
pub fn moment(time: u64, space: u32, id: u64) -> Vec<u8> {
    let mut key = Vec::with_capacity(21);
    key.push(MOMENT);
    key.extend_from_slice(&due(time, space, id));
    key
}

/// Returns moment, space and id of the key of such a row.
///
/// # Errors
/// It is not the key of such a row.
pub fn split_moment(key: &[u8]) -> Result<(u64, u32, u64), RecordError> {
    match key.split_first() {
        Some((&MOMENT, rest)) if rest.len() == 20 => split_due(rest),
        _ => Err(RecordError::new(0, "a key of the moments")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_of_a_moment_reads_back_and_other_keys_are_refused() {
        let key = moment(9, 7, 1 << 40);
        assert_eq!(split_moment(&key), Ok((9, 7, 1 << 40)));
        assert!(split_moment(&key[..20]).is_err());
        assert!(split_moment(&[&key[..], b"x"].concat()).is_err());
        assert!(split_moment(&[b"k", &key[1..]].concat()).is_err());
        assert!(moment(9, 1, 1) < moment(256, 0, 0));
    }
}
