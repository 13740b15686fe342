//! Codecs: how values become bodies, and bodies become values.

use serde::Serialize;
use serde::de::DeserializeOwned;

/// Any error, as handlers and codecs return it.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// How values of `T` become bodies and bodies become values. A typed tube has an object of it, see
/// [`Tube::typed_with`](crate::Tube::typed_with).
///
/// Bodies outlive the program that wrote them. A codec must decode what its earlier releases
/// encoded, and must refuse bytes that it does not understand.
///
/// # Example: a codec with a key
/// ```
/// use tubewell::expert::BoxError;
/// use tubewell::{Codec, Store};
///
/// /// Hides text from whoever looks into the file for a moment, and from nobody else.
/// struct Masked(u8);
///
/// impl Codec<String> for Masked {
///     fn name(&self) -> &str {
///         "masked"
///     }
///
///     fn encode(&self, value: &String) -> Result<Vec<u8>, BoxError> {
///         Ok(value.bytes().map(|byte| byte ^ self.0).collect())
///     }
///
///     fn decode(&self, body: &[u8]) -> Result<String, BoxError> {
///         Ok(String::from_utf8(body.iter().map(|byte| byte ^ self.0).collect())?)
///     }
/// }
///
/// let store = Store::in_memory()?;
/// let notes = store.tube("notes")?.typed_with(Masked(0x55));
/// notes.put("hello")?;
/// let claim = notes.try_take()?.unwrap();
/// assert_eq!(claim.value(), "hello");
/// assert_ne!(claim.body(), b"hello");
/// # Ok::<(), tubewell::Error>(())
/// ```
pub trait Codec<T>: Send + Sync + 'static {
    /// Its name, for errors.
    fn name(&self) -> &str;

    /// Encodes a value.
    ///
    /// # Errors
    /// The value cannot be encoded. The call that got it fails with
    /// [`Error::Codec`](crate::Error::Codec), and puts nothing.
    fn encode(&self, value: &T) -> Result<Vec<u8>, BoxError>;

    /// Decodes the value that all of `body` encodes.
    ///
    /// # Errors
    /// The bytes do not encode such a value, or bytes are left over.
    fn decode(&self, body: &[u8]) -> Result<T, BoxError>;
}

/// JSON, the codec of [`Tube::typed`](crate::Tube::typed).
///
/// Fields have their names in it: other programs and people can read a body, and a type can get new
/// fields that older bodies do not have, if they have a default.
///
/// # Example: a field that older bodies do not have
/// ```
/// use serde::{Deserialize, Serialize};
/// use tubewell::Store;
///
/// #[derive(Serialize, Deserialize)]
/// struct Resize {
///     picture: String,
///     #[serde(default)]
///     width: Option<u32>,
/// }
///
/// let store = Store::in_memory()?;
/// let tube = store.tube("resizes")?;
/// tube.put(r#"{"picture":"cat.jpg"}"#)?; // by an older release, or by the command
/// let resizes = tube.typed::<Resize>();
/// assert_eq!(resizes.take()?.value().width, None);
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "a value of it is written by its name")]
pub struct Json;

/// bincode 2 in its standard configuration: compact, and positional.
///
/// It does not write the names of fields. If a type gets a field, older bodies cannot be decoded, or
/// are decoded as other values: two fields of one type that change their order change the meaning of
/// stored bodies **without an error**. Put a version into the type, or use [`Json`].
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "a value of it is written by its name")]
pub struct Bincode;

/// UTF-8 text as it is, without the quotes of JSON: for a `Tube<String>`.
///
/// # Example
/// ```
/// use tubewell::{Store, Text};
///
/// let store = Store::in_memory()?;
/// let mails = store.tube("mails")?.typed_with(Text);
/// mails.put("to: ann")?;
/// assert_eq!(mails.try_take()?.unwrap().value(), "to: ann");
/// # Ok::<(), tubewell::Error>(())
/// ```
#[derive(Clone, Copy, Debug, Default)]
#[expect(clippy::exhaustive_structs, reason = "a value of it is written by its name")]
pub struct Text;

impl<T: Serialize + DeserializeOwned> Codec<T> for Json {
    fn name(&self) -> &'static str {
        "json"
    }

    fn encode(&self, value: &T) -> Result<Vec<u8>, BoxError> {
        Ok(serde_json::to_vec(value)?)
    }

    fn decode(&self, body: &[u8]) -> Result<T, BoxError> {
        Ok(serde_json::from_slice(body)?)
    }
}

/// The limit of memory for one decoded body, so that a damaged length cannot ask for all memory.
/// bincode counts integers at full width, of which the body may have a byte or two: hence 16 times
/// the largest body.
const DECODED_LIMIT: usize = 16 * crate::MAX_BODY;

impl<T: Serialize + DeserializeOwned> Codec<T> for Bincode {
    fn name(&self) -> &'static str {
        "bincode"
    }

    fn encode(&self, value: &T) -> Result<Vec<u8>, BoxError> {
        Ok(bincode::serde::encode_to_vec(value, bincode::config::standard())?)
    }

    fn decode(&self, body: &[u8]) -> Result<T, BoxError> {
        let config = bincode::config::standard().with_limit::<DECODED_LIMIT>();
        let (value, used) =
            bincode::serde::decode_from_slice(body, config).map_err(bincode_error)?;
        match body.len() - used {
            0 => Ok(value),
            left => Err(format!("{left} of {} bytes are left over", body.len()).into()),
        }
    }
}

/// bincode formats the message of a type as code. This returns the message itself.
fn bincode_error(error: bincode::error::DecodeError) -> BoxError {
    match error {
        bincode::error::DecodeError::OtherString(what) => what.into(),
        other => other.into(),
    }
}

impl Codec<String> for Text {
    fn name(&self) -> &'static str {
        "text"
    }

    fn encode(&self, value: &String) -> Result<Vec<u8>, BoxError> {
        Ok(value.clone().into_bytes())
    }

    fn decode(&self, body: &[u8]) -> Result<String, BoxError> {
        Ok(str::from_utf8(body)?.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Sample = (u64, String, Option<Vec<i32>>);

    fn sample() -> Sample {
        (u64::MAX, "grüße".into(), Some(vec![-1, 0, 1]))
    }

    fn assert_round_trip(codec: &impl Codec<Sample>) {
        let bytes = codec.encode(&sample()).unwrap();
        assert_eq!(codec.decode(&bytes).unwrap(), sample());
    }

    fn assert_other_lengths_are_refused(codec: &impl Codec<Sample>) {
        let mut bytes = codec.encode(&sample()).unwrap();
        for len in 0..bytes.len() {
            assert!(codec.decode(&bytes[..len]).is_err());
        }
        bytes.push(b'0');
        assert!(codec.decode(&bytes).is_err());
    }

    #[test]
    fn bincode_decodes_exactly_what_it_encodes() {
        assert_round_trip(&Bincode);
        assert_other_lengths_are_refused(&Bincode);
    }

    #[test]
    fn json_decodes_exactly_what_it_encodes() {
        assert_round_trip(&Json);
        assert_other_lengths_are_refused(&Json);
    }

    #[test]
    fn text_is_stored_as_it_is_and_other_bytes_are_refused() {
        assert_eq!(Text.encode(&"grüße".into()).unwrap(), "grüße".as_bytes());
        assert_eq!(Text.decode("grüße".as_bytes()).unwrap(), "grüße");
        assert!(Text.decode(&[0xff]).is_err());
    }

    #[test]
    fn bincode_error_has_the_message_of_the_type() {
        let error = Codec::<std::num::NonZero<u8>>::decode(&Bincode, &[0]).unwrap_err();
        assert!(!error.to_string().contains('('), "code instead of a message: {error}");
    }

    #[test]
    fn bincode_encoding_does_not_change() {
        let bytes = Bincode.encode(&(1u8, 300u32, "ab".to_owned(), Some(-1i64))).unwrap();
        assert_eq!(bytes, [1, 251, 44, 1, 2, b'a', b'b', 1, 1]);
    }

    #[test]
    fn damaged_length_is_refused_without_allocation() {
        let mut bytes = vec![253];
        bytes.extend(u64::MAX.to_le_bytes());
        assert!(Codec::<String>::decode(&Bincode, &bytes).is_err());
        assert!(Codec::<Vec<u64>>::decode(&Bincode, &bytes).is_err());
    }

    #[test]
    fn many_small_integers_are_within_the_limit() {
        let many = vec![1u64; 2 << 20];
        let bytes = Bincode.encode(&many).unwrap();
        assert_eq!(Codec::<Vec<u64>>::decode(&Bincode, &bytes).unwrap(), many);
    }
}
