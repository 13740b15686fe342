//! Bodies of tasks: bytes, and the values that codecs make of them.

mod bytes;
mod codec;
mod coder;
mod kind;

pub use bytes::Bytes;
pub use codec::{Bincode, BoxError, Codec, Json, Text};
pub(crate) use coder::{Coder, Decoded};
pub(crate) use kind::kind_of;
