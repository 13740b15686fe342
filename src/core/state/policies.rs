//! What a tube does with its tasks beyond its driver. Policies do not depend on the driver, except
//! that those with a time need a timed one.

use bincode::de::Decoder;
use bincode::de::read::Reader;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use tubewell_drivers::NEVER;

use crate::micros::micros_ceil;
use crate::{Error, Result, TubeOptions};

/// The policies of a tube. The default is none of them, and takes no bytes in the catalog, so that
/// earlier releases can read a store without policies.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Policies {
    /// How long one claim may last, in microseconds.
    pub(crate) max_runtime: Option<u64>,
}

/// A policy as the catalog stores it. The order is part of the format; a new one needs a format
/// number of its own.
#[derive(Clone, Debug, PartialEq, Eq, Encode, Decode)]
enum Policy {
    MaxRuntime(u64),
}

impl Policies {
    pub(crate) fn new(options: &TubeOptions) -> Result<Policies> {
        let max_runtime = options.max_runtime.map(micros_ceil);
        if max_runtime == Some(0) {
            return Err(Error::invalid(
                "the max_runtime of a tube must be above zero; leave it out for no limit",
            ));
        }
        Ok(Policies { max_runtime: max_runtime.filter(|time| *time != NEVER) })
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Policies::default()
    }

    fn to_stored(&self) -> Vec<Policy> {
        let Policies { max_runtime } = self;
        Vec::from_iter(max_runtime.map(Policy::MaxRuntime))
    }

    fn from_stored(stored: Vec<Policy>) -> Policies {
        let mut policies = Policies::default();
        for policy in stored {
            match policy {
                Policy::MaxRuntime(time) => policies.max_runtime = Some(time),
            }
        }
        policies
    }
}

impl Encode for Policies {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Result<(), EncodeError> {
        if self.is_empty() { Ok(()) } else { self.to_stored().encode(encoder) }
    }
}

impl<C> Decode<C> for Policies {
    /// Policies are the last field of a definition: without them the row ends here.
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Policies, DecodeError> {
        if decoder.reader().peek_read(1).is_none() {
            return Ok(Policies::default());
        }
        Vec::decode(decoder).map(Policies::from_stored)
    }
}

bincode::impl_borrow_decode!(Policies);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::{decode_row, encode_row};

    #[test]
    fn definition_without_policies_has_no_bytes_for_them() {
        let with = |policies: Policies| encode_row(&(7u32, policies));
        assert_eq!(with(Policies::default()), encode_row(&7u32));
        let policies = Policies { max_runtime: Some(5_000_000) };
        let row = with(policies.clone());
        assert_eq!(decode_row::<(u32, Policies)>(&row), Some((7, policies)));
        assert_eq!(
            decode_row::<(u32, Policies)>(&encode_row(&7u32)),
            Some((7, Policies::default()))
        );
        assert_eq!(decode_row::<u32>(&row), None, "an earlier release reads the row");
    }
}
