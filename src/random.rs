//! Random numbers.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A random number. It tells runs of the store, sessions and journals from one another.
pub(crate) fn random_u64() -> u64 {
    let mut bytes = [0; 8];
    if getrandom::fill(&mut bytes).is_ok() {
        return u64::from_ne_bytes(bytes);
    }
    // Without a source of randomness, use the seed that std has for its hash maps.
    RandomState::new().build_hasher().finish()
}
