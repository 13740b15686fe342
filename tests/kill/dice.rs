//! Chance that a seed repeats, bodies that prove themselves, and the one look at the clock.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::ops::Range;
use std::time::{Duration, Instant};

/// A small generator (splitmix64). Nothing here needs a better one.
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// A generator of its own for a part of a run, so that parts do not disturb each other.
    pub fn apart(seed: u64, part: u64) -> Dice {
        let mut dice = Dice(seed ^ part.wrapping_mul(0xd6e8_feb8_6659_fd93));
        dice.roll();
        dice
    }

    pub fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    pub fn of(&mut self, range: Range<u64>) -> u64 {
        range.start + self.roll() % (range.end - range.start)
    }

    pub fn one_in(&mut self, many: u64) -> bool {
        self.of(0..many) == 0
    }

    pub fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.of(0..from.len() as u64)).unwrap()]
    }
}

/// How many rounds were asked for.
pub fn rounds_asked() -> Option<u64> {
    std::env::var("TUBEWELL_KILL_ROUNDS").ok().map(|text| text.parse().unwrap())
}

/// The seed of this run: `TUBEWELL_SEED`, or a fresh one for a long run, or else always the same.
pub fn seed() -> u64 {
    match std::env::var("TUBEWELL_SEED") {
        Ok(seed) => seed.parse().expect("TUBEWELL_SEED is a number"),
        Err(_) if rounds_asked().is_some() => RandomState::new().build_hasher().finish() >> 32,
        Err(_) => 20_260_101,
    }
}

/// A body that begins with its label and goes on with bytes that follow from it.
pub fn body(label: &str, filler: u64) -> Vec<u8> {
    let mut bytes = format!("{label}|{filler}|").into_bytes();
    let mut dice = Dice::new(label.bytes().fold(filler, |sum, byte| {
        sum.wrapping_mul(0x0100_0000_01b3).wrapping_add(u64::from(byte))
    }));
    bytes.extend((0..filler).map(|_| dice.roll().to_le_bytes()[0]));
    bytes
}

/// The label of a body, if each byte of it is as it was put.
pub fn label_of(bytes: &[u8]) -> Option<String> {
    let mut parts = bytes.splitn(3, |byte| *byte == b'|');
    let label = std::str::from_utf8(parts.next()?).ok()?;
    let filler = std::str::from_utf8(parts.next()?).ok()?.parse().ok()?;
    (filler <= bytes.len() as u64 && body(label, filler) == bytes).then(|| label.to_owned())
}

/// Sizes on both sides of those at which bodies are kept differently.
pub fn filler(dice: &mut Dice) -> u64 {
    match dice.of(0..40) {
        0..=3 => dice.of(900..1100),
        4..=6 => dice.of(3900..4300),
        7 => 20_000,
        _ => dice.of(0..200),
    }
}

/// A moment from which time is counted, to bound a test and never to decide one.
#[derive(Clone, Copy, Debug)]
pub struct Since(Instant);

impl Since {
    #[expect(clippy::disallowed_methods, reason = "bounds how long a test goes on or waits")]
    pub fn now() -> Since {
        Since(Instant::now())
    }

    pub fn over(self, limit: Duration) -> bool {
        self.0.elapsed() >= limit
    }
}
