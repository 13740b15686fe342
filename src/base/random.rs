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

/// A random id of 16 bytes, of a session, a client or a store.
pub(crate) fn random_id() -> [u8; 16] {
    (u128::from(random_u64()) << 64 | u128::from(random_u64())).to_be_bytes()
}
