//! The encoding of the catalog's rows: a version byte, a checksum, then bincode. The drivers' crate
//! has the encoding of task records.
//!
//! A row decodes only if its version is known and its checksum is right.

use bincode::{Decode, Encode};
use tubewell_drivers::Value;
use xxhash_rust::xxh3::xxh3_64;

const VERSION: u8 = 1;
/// The bytes of the version and the checksum.
const FRAME: usize = 9;
/// Most rows fit into this many bytes, so that their encoding allocates once.
const USUAL_ROW: usize = 128;
/// More bytes than any row has. A length above it is refused before memory is allocated.
const ROW_MAX: usize = 1 << 20;

pub(crate) fn encode_row(row: &impl Encode) -> Value {
    let mut bytes = Vec::with_capacity(USUAL_ROW);
    bytes.resize(FRAME, 0);
    bytes[0] = VERSION;
    let encoded = bincode::encode_into_std_write(row, &mut bytes, bincode::config::standard());
    debug_assert!(encoded.is_ok(), "writing to memory does not fail");
    let sum = xxh3_64(&bytes[FRAME..]);
    bytes[1..FRAME].copy_from_slice(&sum.to_be_bytes());
    bytes.into()
}

/// Decodes a row. `None` if it is damaged or of an unknown version.
pub(crate) fn decode_row<T: Decode<()>>(row: &[u8]) -> Option<T> {
    let rest = checked(row)?;
    let (value, read) = bincode::decode_from_slice(rest, config()).ok()?;
    (read == rest.len()).then_some(value)
}

/// Decodes the first fields of a row. `None` if it is damaged or of an unknown version.
pub(crate) fn decode_prefix<T: Decode<()>>(row: &[u8]) -> Option<T> {
    let (value, _) = bincode::decode_from_slice(checked(row)?, config()).ok()?;
    Some(value)
}

fn config() -> impl bincode::config::Config {
    bincode::config::standard().with_limit::<ROW_MAX>()
}

/// The encoded value, if the version is known and the checksum is right.
fn checked(row: &[u8]) -> Option<&[u8]> {
    let (frame, rest) = (row.get(..FRAME)?, row.get(FRAME..)?);
    let sound = frame[0] == VERSION && frame[1..] == xxh3_64(rest).to_be_bytes();
    sound.then_some(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decode_rejects_damaged_rows() {
        let row = encode_row(&(7u32, String::from("name")));
        assert_eq!(decode_row::<(u32, String)>(&row), Some((7, "name".into())));
        assert_eq!(decode_prefix::<u32>(&row), Some(7));
        for at in 0..row.len() {
            let mut bad = row.to_vec();
            bad[at] ^= 1;
            assert_eq!(decode_row::<(u32, String)>(&bad), None);
            assert_eq!(decode_row::<(u32, String)>(&row[..at]), None);
        }
    }

    #[test]
    fn decode_rejects_lengths_above_the_limit() {
        // The encoded length of a text, without the text.
        for length in [u64::MAX, 1 << 40, 1 << 21] {
            assert_eq!(decode_row::<String>(&encode_row(&length)), None);
        }
    }
}
