//! The checksum of the rows of notes, of the history and of steps: each begins with the xxh3 of what
//! follows (8 bytes, big-endian). The seed says which row it is, so that a row at another place is
//! recognised as damage.

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::tables::Value;

/// The length of the checksum.
const CHECKSUM: usize = 8;

/// Encodes a row that contains these parts.
pub(crate) fn frame<const N: usize>(seed: u64, parts: [&[u8]; N]) -> Value {
    let length: usize = parts.iter().map(|part| part.len()).sum();
    let mut row: Vec<u8> = Vec::with_capacity(CHECKSUM + length);
    row.extend_from_slice(&[0; CHECKSUM]);
    for part in parts {
        row.extend_from_slice(part);
    }
    if let Some((sum, content)) = row.split_at_mut_checked(CHECKSUM) {
        sum.copy_from_slice(&checksum(seed, content));
    }
    row.into()
}

/// Returns what a row contains; `None` if the checksum is wrong.
pub(crate) fn unframe(seed: u64, row: &[u8]) -> Option<&[u8]> {
    let (sum, content) = row.split_at_checked(CHECKSUM)?;
    (sum == checksum(seed, content)).then_some(content)
}

fn checksum(seed: u64, content: &[u8]) -> [u8; CHECKSUM] {
    xxh3_64_with_seed(content, seed).to_be_bytes()
}
