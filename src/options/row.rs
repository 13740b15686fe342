//! The options in the row of a tube: six that every row has, then the others that are not the default,
//! each with its number. A row without them ends before.

use std::time::Duration;

use bincode::de::Decoder;
use bincode::de::read::Reader;
use bincode::enc::Encoder;
use bincode::error::DecodeError;
use bincode::{Decode, Encode};
use tubewell_drivers::NEVER;

use super::declare::{Policies, TubeOptions};
use super::stored::{
    Encoded, Numbered, PAUSED, damaged, decode_durability, encode_durability, put,
};
use super::times::micros;
use crate::base::micros::duration;

impl Encode for Policies {
    fn encode<E: Encoder>(&self, encoder: &mut E) -> Encoded {
        (micros(self.ttl), micros(self.ttr), self.priority).encode(encoder)?;
        let durability = self.durability.map(encode_durability);
        (self.capacity, self.temporary, durability).encode(encoder)?;
        let options = self.options();
        let count = options.count() + u64::from(self.paused.is_some());
        if count == 0 {
            return Ok(());
        }
        count.encode(encoder)?;
        if let Some(until) = &self.paused {
            put(PAUSED, until, encoder)?;
        }
        Numbered::put(&options, encoder)
    }
}

impl<C> Decode<C> for Policies {
    fn decode<D: Decoder<Context = C>>(decoder: &mut D) -> Result<Policies, DecodeError> {
        let mut options = TubeOptions::new();
        let time = |micros| if micros == NEVER { Duration::MAX } else { duration(micros) };
        options.ttl = Some(Some(u64::decode(decoder).map(time)?));
        options.ttr = Some(Some(u64::decode(decoder).map(time)?));
        options.priority = Some(Some(u32::decode(decoder)?));
        options.capacity = Some(Some(u64::decode(decoder)?));
        options.temporary = Some(Some(bool::decode(decoder)?));
        options.durability = Some(Option::decode(decoder)?.map(decode_durability));
        let mut paused = None;
        if decoder.reader().peek_read(1).is_some() {
            for _ in 0..u64::decode(decoder)? {
                match u32::decode(decoder)? {
                    PAUSED => paused = Some(u64::decode(decoder)?),
                    number => options.get(number, decoder)?,
                }
            }
        }
        options.check().map_err(|_| damaged("an option outside its limits"))?;
        Ok(Policies { paused, ..Policies::in_effect(&options) })
    }
}

bincode::impl_borrow_decode!(Policies);
