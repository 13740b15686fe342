//! Codecs: how values become bodies, and bodies become values.

use std::fmt;

use serde::Serialize;
use serde::de::DeserializeOwned;
use tubewell_drivers::PUT_MANY_TASKS;

use crate::{Error, Result};

/// Encodes values as bytes and decodes them.
///
/// Bodies outlive the program that wrote them. A codec must decode what its earlier releases
/// encoded, and must refuse bytes that it does not understand.
pub trait Codec: Send + Sync + 'static {
    /// Encodes a value.
    ///
    /// # Errors
    /// [`Error::Codec`] if the value cannot be encoded. Nothing was put.
    fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>>;

    /// Decodes the value that all of `bytes` encode.
    ///
    /// # Errors
    /// [`Error::Codec`] if the bytes do not encode such a value, or if bytes are left over.
    fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T>;
}

/// The default codec, which is compact: bincode 2 in its standard configuration.
///
/// It does not write the names of fields. If the fields of a type change, or change their order,
/// older bodies cannot be decoded. Put a version into the type, or use a self-describing codec.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Bincode;

/// The limit of memory for one decoded body, so that a damaged length cannot ask for all memory.
/// bincode counts integers at full width, of which the body may have a byte or two: hence 16 times
/// the largest body.
const DECODED_LIMIT: usize = 16 * crate::MAX_BODY;

impl Codec for Bincode {
    fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
        bincode::serde::encode_to_vec(value, bincode::config::standard()).map_err(codec_error)
    }

    fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
        let config = bincode::config::standard().with_limit::<DECODED_LIMIT>();
        let (value, used) =
            bincode::serde::decode_from_slice(bytes, config).map_err(bincode_error)?;
        match bytes.len() - used {
            0 => Ok(value),
            left => Err(codec_error(format_args!("{left} of {} bytes are left over", bytes.len()))),
        }
    }
}

/// A codec for bodies that other programs and people read, or whose type grows new fields: JSON.
///
/// # Example: a field that older bodies do not have
/// ```
/// use serde::{Deserialize, Serialize};
/// use tubewell::{FIFO, Json, Store, TubeOptions};
///
/// #[derive(Serialize, Deserialize)]
/// struct Resize {
///     picture: String,
///     #[serde(default)]
///     width: Option<u32>,
/// }
///
/// let store = Store::in_memory()?;
/// let tube = store.create_tube("resizes", FIFO, TubeOptions::new())?;
/// tube.put(r#"{"picture":"cat.jpg"}"#)?; // by an older release, or by the command
/// let resizes = tube.typed_with::<Resize, Json>();
/// assert_eq!(resizes.take(None)?.unwrap().value().width, None);
/// # Ok::<(), tubewell::Error>(())
/// ```
#[cfg(feature = "json")]
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Json;

#[cfg(feature = "json")]
impl Codec for Json {
    fn encode<T: Serialize>(value: &T) -> Result<Vec<u8>> {
        serde_json::to_vec(value).map_err(codec_error)
    }

    fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(codec_error)
    }
}

/// Encodes the bodies of one `put_many`. Stops one value behind its limit, which refuses them.
pub(super) fn encode_all<'a, T: Serialize + 'a, C: Codec>(
    values: impl IntoIterator<Item = &'a T>,
) -> Result<Vec<Vec<u8>>> {
    values.into_iter().take(PUT_MANY_TASKS + 1).map(C::encode).collect()
}

/// bincode formats the message of a type as code. This returns the message itself.
fn bincode_error(error: bincode::error::DecodeError) -> Error {
    match error {
        bincode::error::DecodeError::OtherString(what) => Error::Codec { what },
        other => codec_error(other),
    }
}

pub(super) fn codec_error(what: impl fmt::Display) -> Error {
    Error::Codec { what: what.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sample = (u64, String, Option<Vec<i32>>);

    fn sample() -> Sample {
        (u64::MAX, "grüße".into(), Some(vec![-1, 0, 1]))
    }

    fn assert_round_trip<C: Codec>() {
        let bytes = C::encode(&sample()).unwrap();
        assert_eq!(C::decode::<Sample>(&bytes).unwrap(), sample());
    }

    fn assert_other_lengths_are_refused<C: Codec>() {
        let mut bytes = C::encode(&sample()).unwrap();
        for len in 0..bytes.len() {
            assert!(matches!(C::decode::<Sample>(&bytes[..len]), Err(Error::Codec { .. })));
        }
        bytes.push(b'0');
        assert!(matches!(C::decode::<Sample>(&bytes), Err(Error::Codec { .. })));
    }

    #[test]
    fn bincode_decodes_exactly_what_it_encodes() {
        assert_round_trip::<Bincode>();
        assert_other_lengths_are_refused::<Bincode>();
    }

    #[cfg(feature = "json")]
    #[test]
    fn json_decodes_exactly_what_it_encodes() {
        assert_round_trip::<Json>();
        assert_other_lengths_are_refused::<Json>();
    }

    #[test]
    fn bincode_error_has_the_message_of_the_type() {
        let error = Bincode::decode::<std::num::NonZero<u8>>(&[0]).unwrap_err();
        assert!(!error.to_string().contains('('), "code instead of a message: {error}");
    }

    #[test]
    fn bincode_encoding_does_not_change() {
        let bytes = Bincode::encode(&(1u8, 300u32, "ab", Some(-1i64))).unwrap();
        assert_eq!(bytes, [1, 251, 44, 1, 2, b'a', b'b', 1, 1]);
    }

    #[test]
    fn damaged_length_is_refused_without_allocation() {
        let mut bytes = vec![253];
        bytes.extend(u64::MAX.to_le_bytes());
        assert!(Bincode::decode::<String>(&bytes).is_err());
        assert!(Bincode::decode::<Vec<u64>>(&bytes).is_err());
    }

    #[test]
    fn many_small_integers_are_within_the_limit() {
        let many = vec![1u64; 2 << 20];
        let bytes = Bincode::encode(&many).unwrap();
        assert_eq!(Bincode::decode::<Vec<u64>>(&bytes).unwrap(), many);
    }
}
