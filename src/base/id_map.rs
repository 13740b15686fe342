//! Hash maps keyed by numbers that the store itself assigns: tubes, tasks, arrivals, sessions.
//!
//! No caller chooses these numbers, so none can make them collide. The hasher of the standard
//! library, which protects against chosen keys, took a third of the time of a put, take and ack in
//! a relaxed tube.

use std::collections::{HashMap, HashSet};
use std::hash::{BuildHasherDefault, Hasher};

pub(crate) type IdMap<K, V> = HashMap<K, V, BuildHasherDefault<SpreadHasher>>;
pub(crate) type IdSet<K> = HashSet<K, BuildHasherDefault<SpreadHasher>>;

/// Multiplicative hashing by 2^64 divided by the golden ratio, which spreads consecutive numbers.
#[derive(Default)]
pub(crate) struct SpreadHasher(u64);

impl Hasher for SpreadHasher {
    fn write(&mut self, bytes: &[u8]) {
        for part in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..part.len()].copy_from_slice(part);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    fn write_u64(&mut self, number: u64) {
        // A map uses the lowest and the highest bits of the hash. The middle bits of the product
        // depend on the most input bits, so the rotation moves them to both ends.
        self.0 = (self.0 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(32);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use std::hash::{BuildHasher, Hash};

    use super::*;

    /// The number of keys in the fullest of 1024 buckets, by the low bits of the hash.
    fn fullest<K: Hash>(keys: impl Iterator<Item = K>) -> usize {
        let mut buckets = vec![0; 1024];
        for key in keys {
            let hash = BuildHasherDefault::<SpreadHasher>::default().hash_one(key);
            buckets[usize::try_from(hash % 1024).unwrap()] += 1;
        }
        buckets.into_iter().max().unwrap()
    }

    #[test]
    fn hasher_spreads_numbers_at_any_step() {
        for shift in 0..32 {
            let most = fullest((0..1024_u64).map(|n| n << shift));
            assert!(most <= 8, "{most} of 1024 with a step of 2^{shift}");
        }
        let sessions = (0..1024).map(|_| crate::SessionId::random());
        assert!(fullest(sessions) <= 10);
    }
}
