//! Runs images on all cores, counts how they fare, and watches that none hangs or eats the memory.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::anatomy::{Anatomy, Place};
use crate::damage::Damage;
use crate::rng::Rng;
use crate::specimen::Specimen;
use crate::trial::{Fate, Home, trial_with};
use crate::watchdog::Watchdog;

/// After so many, more would tell nothing new.
const FAILURES: usize = 20;

pub struct Search {
    seed: u64,
    specimen: Specimen,
    anatomies: Vec<Anatomy>,
    tally: Mutex<BTreeMap<(bool, String, Fate), u64>>,
}

impl Search {
    pub fn new(seed: u64) -> Search {
        let specimen = Specimen::new(seed);
        let anatomies = specimen.images.iter().map(|image| Anatomy::of(&image.bytes)).collect();
        Search { seed, specimen, anatomies, tally: Mutex::default() }
    }

    /// Tries these images; what must not be is told in words.
    pub fn run(&self, images: Range<u64>) -> Vec<String> {
        let (next, failures) = (AtomicU64::new(images.start), Mutex::new(Vec::new()));
        let threads = std::thread::available_parallelism().map_or(2, usize::from);
        let _watchdog = Watchdog::new();
        std::thread::scope(|scope| {
            for _ in 0..threads {
                let (next, failures) = (&next, &failures);
                scope.spawn(move || {
                    loop {
                        let nth = next.fetch_add(1, Ordering::Relaxed);
                        if nth >= images.end || failures.lock().unwrap().len() >= FAILURES {
                            return;
                        }
                        let image = self.image(nth);
                        Watchdog::begins(image.to_string());
                        if let Err(told) = self.one(&image) {
                            let seed = self.seed;
                            failures.lock().unwrap().push(format!(
                                "seed {seed}, {image}: {told}\n  TUBEWELL_SEED={seed} \
                                 TUBEWELL_BIT_ROT_IMAGE={nth} cargo test --test bit_rot what_rots"
                            ));
                        }
                        Watchdog::ends();
                    }
                });
            }
        });
        failures.into_inner().unwrap()
    }

    pub fn tried(&self) -> u64 {
        self.tally.lock().unwrap().values().sum()
    }

    /// How many images of the closed file had their damage there and fared so.
    pub fn count(&self, place: &str, fate: Fate) -> u64 {
        let tally = self.tally.lock().unwrap();
        tally.get(&(true, place.to_owned(), fate)).copied().unwrap_or_default()
    }

    fn image(&self, nth: u64) -> Rotten {
        let which = usize::try_from(nth).unwrap() % self.specimen.images.len();
        let (image, anatomy) = (&self.specimen.images[which], &self.anatomies[which]);
        let mut rng = Rng::new(self.seed.wrapping_add(nth));
        let damage = Damage::random(&self.specimen, image, anatomy, &mut rng);
        let place = damage.place(anatomy);
        Rotten { nth, which, closed: image.closed, damage, place }
    }

    fn one(&self, rotten: &Rotten) -> Result<(), String> {
        let image = &self.specimen.images[rotten.which];
        let bytes = rotten.damage.done_to(&self.specimen, image);
        let (fate, _) = trial_with(
            &self.specimen,
            image,
            &Home::of(bytes),
            rotten.damage.may_cross(&rotten.place),
        )?;
        let place = rotten.place.to_string();
        *self.tally.lock().unwrap().entry((image.closed, place, fate)).or_default() += 1;
        Ok(())
    }
}

/// One image: which file, and what is wrong with it.
struct Rotten {
    nth: u64,
    which: usize,
    closed: bool,
    damage: Damage,
    place: Place,
}

impl fmt::Display for Rotten {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = if self.closed { "closed" } else { "killed" };
        let Rotten { nth, damage, place, .. } = self;
        write!(f, "image {nth}: {damage} in {place} of the {file} file")
    }
}

impl fmt::Display for Search {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((closed, what, fate), count) in &*self.tally.lock().unwrap() {
            let file = if *closed { "closed" } else { "killed" };
            writeln!(f, "{file} file, {what}: {count} {fate:?}")?;
        }
        Ok(())
    }
}
