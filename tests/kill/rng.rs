//! Random numbers that a seed repeats.

use std::ops::Range;

/// A splitmix64 generator.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Rng {
        Rng(seed)
    }

    /// A generator for one part of a run. The numbers of one part do not depend on other parts.
    pub fn for_part(seed: u64, part: u64) -> Rng {
        let mut rng = Rng(seed ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93));
        rng.next();
        rng
    }

    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn range(&mut self, range: Range<u64>) -> u64 {
        range.start + self.next() % (range.end - range.start)
    }

    pub fn one_in(&mut self, n: u64) -> bool {
        self.range(0..n) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.range(0..from.len() as u64)).unwrap()]
    }
}
