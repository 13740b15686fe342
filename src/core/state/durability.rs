//! The stored form of a tube's durability.

use super::tube::Definition;
use crate::Durability;
use crate::micros::{duration, micros_ceil};
use tubewell_drivers::NEVER;

/// Set in the stored durability of a written tube. No relaxed tube has a delay of that many
/// microseconds but one without a limit.
const WRITE: u64 = 1 << 63;
/// The longest stored time until a written change is flushed, in microseconds.
const WRITE_MAX: u64 = 1 << 62;
const WRITE_AND_MAX: u64 = WRITE | WRITE_MAX;

pub(crate) fn encode_durability(durability: Durability) -> u64 {
    match durability {
        Durability::Flush => 0,
        Durability::Write { flush_within } => WRITE | micros_ceil(flush_within).min(WRITE_MAX),
        Durability::Relaxed { max_delay } => match micros_ceil(max_delay).saturating_add(1) {
            delay if delay < WRITE => delay,
            _ => NEVER,
        },
    }
}

impl Definition {
    /// The durability that the tube was created with; `None` for the store's.
    pub(crate) fn durability(&self) -> Option<Durability> {
        self.durability.map(|stored| match stored {
            0 => Durability::Flush,
            WRITE..=WRITE_AND_MAX => Durability::Write { flush_within: duration(stored - WRITE) },
            relaxed => Durability::Relaxed { max_delay: duration(relaxed - 1) },
        })
    }
}
