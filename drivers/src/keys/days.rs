//! The keys of the table `days`.

use super::space_of;
use crate::record_error::RecordError;

/// Returns the key of the numbers of a tube on a day.
#[must_use]
pub fn day(space: u32, day: u32) -> Vec<u8> {
    [space.to_be_bytes(), day.to_be_bytes()].concat()
}

/// Returns space and day of a key of `days`.
///
/// # Errors
/// The key has another length.
pub fn split_day(key: &[u8]) -> Result<(u32, u32), RecordError> {
    let split = || {
        let (space, day) = (space_of(key)?, key.get(4..)?);
        Some((space, u32::from_be_bytes(day.try_into().ok()?)))
    };
    split().ok_or_else(|| RecordError::new(0, "a key of the days"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn day_key_reads_back_and_invalid_bytes_are_refused() {
        let key = day(7, 20_780);
        assert_eq!(split_day(&key), Ok((7, 20_780)));
        assert!(split_day(&key[..7]).is_err() && split_day(&[&key[..], &[0]].concat()).is_err());
        assert!(day(7, 255) < day(7, 256) && day(7, u32::MAX) < day(8, 0));
    }
}
