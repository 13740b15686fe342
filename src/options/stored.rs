//! The values of options in the row of a tube, by their types.

use std::time::Duration;

use bincode::de::Decoder;
use bincode::enc::Encoder;
use bincode::error::{DecodeError, EncodeError};
use bincode::{Decode, Encode};
use tubewell_drivers::NEVER;

use crate::base::micros::{duration, micros_ceil};
use crate::{Backoff, Counting, Durability, Keep, Rate};

/// The number of the pause, which is no option.
pub(super) const PAUSED: u32 = 8;

/// Set in the stored durability of a written tube. No relaxed tube has a delay of that many
/// microseconds but one without a limit.
const WRITE: u64 = 1 << 63;
/// The longest stored time until a written change is flushed, in microseconds.
const WRITE_MAX: u64 = 1 << 62;
const WRITE_AND_MAX: u64 = WRITE | WRITE_MAX;

pub(super) type Encoded = Result<(), EncodeError>;

/// The options with a number.
pub(super) trait Numbered {
    /// How many are given.
    fn count(&self) -> u64;

    fn put(&self, encoder: &mut impl Encoder) -> Encoded;

    /// Reads the option with this number.
    fn get(&mut self, number: u32, decoder: &mut impl Decoder) -> Result<(), DecodeError>;
}

/// The type of an option with a number.
pub(super) trait Stored: Sized {
    fn put(&self, encoder: &mut impl Encoder) -> Encoded;

    fn get(decoder: &mut impl Decoder) -> Result<Self, DecodeError>;
}

pub(super) fn put(number: u32, value: &impl Stored, encoder: &mut impl Encoder) -> Encoded {
    number.encode(encoder)?;
    value.put(encoder)
}

pub(super) fn damaged(what: &'static str) -> DecodeError {
    DecodeError::Other(what)
}

/// The durability as a row has it.
pub(super) fn whole_durability(durability: Durability) -> Durability {
    decode_durability(encode_durability(durability))
}

pub(super) fn encode_durability(durability: Durability) -> u64 {
    match durability {
        Durability::Flush => 0,
        Durability::Write { flush_within } => WRITE | micros_ceil(flush_within).min(WRITE_MAX),
        Durability::Relaxed { max_delay } => match micros_ceil(max_delay).saturating_add(1) {
            delay if delay < WRITE => delay,
            _ => NEVER,
        },
    }
}

pub(super) fn decode_durability(stored: u64) -> Durability {
    match stored {
        0 => Durability::Flush,
        WRITE..=WRITE_AND_MAX => Durability::Write { flush_within: duration(stored - WRITE) },
        relaxed => Durability::Relaxed { max_delay: duration(relaxed - 1) },
    }
}

macro_rules! as_it_is {
    ($($type:ty),+) => {$(
        impl Stored for $type {
            fn put(&self, encoder: &mut impl Encoder) -> Encoded {
                self.encode(encoder)
            }

            fn get(decoder: &mut impl Decoder) -> Result<$type, DecodeError> {
                Decode::decode(decoder)
            }
        }
    )+};
}

as_it_is!(u32, u64);

/// It is stored if it is true.
impl Stored for bool {
    fn put(&self, _: &mut impl Encoder) -> Encoded {
        Ok(())
    }

    fn get(_: &mut impl Decoder) -> Result<bool, DecodeError> {
        Ok(true)
    }
}

impl Stored for Duration {
    fn put(&self, encoder: &mut impl Encoder) -> Encoded {
        micros_ceil(*self).encode(encoder)
    }

    fn get(decoder: &mut impl Decoder) -> Result<Duration, DecodeError> {
        u64::decode(decoder).map(duration)
    }
}

/// 0 for `Lazily`, 1 for `Flushed`. `Written` is the default.
impl Stored for Counting {
    fn put(&self, encoder: &mut impl Encoder) -> Encoded {
        u8::from(*self == Counting::Flushed).encode(encoder)
    }

    fn get(decoder: &mut impl Decoder) -> Result<Counting, DecodeError> {
        let is_flushed = u8::decode(decoder)? > 0;
        Ok(if is_flushed { Counting::Flushed } else { Counting::Lazily })
    }
}

impl Stored for Backoff {
    fn put(&self, encoder: &mut impl Encoder) -> Encoded {
        let Backoff { first, factor, cap, jitter } = *self;
        (micros_ceil(first), factor, micros_ceil(cap), jitter).encode(encoder)
    }

    fn get(decoder: &mut impl Decoder) -> Result<Backoff, DecodeError> {
        let (first, factor, cap, jitter) = Decode::decode(decoder)?;
        Ok(Backoff { first: duration(first), factor, cap: duration(cap), jitter })
    }
}

impl Stored for Keep {
    fn put(&self, encoder: &mut impl Encoder) -> Encoded {
        (self.count, self.age.map(micros_ceil)).encode(encoder)
    }

    fn get(decoder: &mut impl Decoder) -> Result<Keep, DecodeError> {
        let (count, age): (_, Option<u64>) = Decode::decode(decoder)?;
        Ok(Keep { count, age: age.map(duration) })
    }
}

/// The takes, and their time.
impl Stored for Rate {
    fn put(&self, encoder: &mut impl Encoder) -> Encoded {
        (self.count, self.micros()).encode(encoder)
    }

    fn get(decoder: &mut impl Decoder) -> Result<Rate, DecodeError> {
        let (count, period) = Decode::decode(decoder)?;
        Ok(Rate::per(count, duration(period)))
    }
}
