//! A body as bytes.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use tubewell_drivers::Value;

/// A body as bytes: it is read as a slice, and cheap to clone.
///
/// The body of a task of a tube without a type ([`Tube`](crate::Tube) alone). It does not implement
/// `Serialize`, so that a typed tube cannot have it by mistake.
///
/// # Example
/// ```
/// use tubewell::Bytes;
///
/// let body = Bytes::from("to: ann");
/// assert_eq!(body.len(), 7);
/// assert!(body.starts_with(b"to:"));
/// assert_eq!(body.text(), "to: ann");
/// ```
#[derive(Clone, Default)]
pub struct Bytes {
    row: Value,
    /// Where the body begins in the row.
    start: usize,
}

impl Bytes {
    /// The bytes as text. What is not UTF-8 is replaced by `U+FFFD`.
    #[must_use]
    pub fn text(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(self)
    }

    /// The last bytes of a row, of which a header says how many they are.
    pub(crate) fn tail(row: Value, size: u64) -> Bytes {
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        Bytes { start: row.len().saturating_sub(size), row }
    }

    /// A row that ends with these bytes.
    pub(crate) fn into_row(self) -> Value {
        self.row
    }
}

impl Deref for Bytes {
    type Target = [u8];

    #[inline]
    fn deref(&self) -> &[u8] {
        self.row.get(self.start..).unwrap_or_default()
    }
}

impl AsRef<[u8]> for Bytes {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "b\"{}\"", self.escape_ascii())
    }
}

impl Eq for Bytes {}

impl<B: AsRef<[u8]> + ?Sized> PartialEq<B> for Bytes {
    fn eq(&self, other: &B) -> bool {
        **self == *other.as_ref()
    }
}

impl Ord for Bytes {
    fn cmp(&self, other: &Bytes) -> Ordering {
        (**self).cmp(other)
    }
}

impl PartialOrd for Bytes {
    fn partial_cmp(&self, other: &Bytes) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Hash for Bytes {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl From<Bytes> for Vec<u8> {
    fn from(bytes: Bytes) -> Vec<u8> {
        bytes.to_vec()
    }
}

impl<const N: usize> From<[u8; N]> for Bytes {
    fn from(bytes: [u8; N]) -> Bytes {
        Bytes::from(bytes.as_slice())
    }
}

impl<const N: usize> From<&[u8; N]> for Bytes {
    fn from(bytes: &[u8; N]) -> Bytes {
        Bytes { row: bytes.as_slice().into(), start: 0 }
    }
}

macro_rules! from {
    ($($given:ty),*) => {$(
        impl From<$given> for Bytes {
            fn from(given: $given) -> Bytes {
                Bytes { row: Vec::from(given).into(), start: 0 }
            }
        }
    )*};
}

from!(&str, String, Vec<u8>, &[u8], Box<[u8]>);
