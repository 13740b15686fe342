//! Checks damaged images on all cores and counts their outcomes, under a watchdog.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::panic::catch_unwind;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::check::{Medium, Outcome, check_with};
use crate::damage::Damage;
use crate::file_map::{FileMap, Location};
use crate::rng::Rng;
use crate::salvaged::Salvage;
use crate::sample::Sample;
use crate::watchdog::Watchdog;

/// A run ends after this many failures.
const MAX_FAILURES: usize = 20;

pub struct Runner {
    seed: u64,
    sample: Sample,
    maps: Vec<FileMap>,
    /// The number of images by closed or killed, location and outcome.
    tally: Mutex<BTreeMap<(bool, String, Outcome), u64>>,
}

impl Runner {
    pub fn new(seed: u64) -> Runner {
        let sample = Sample::new(seed);
        let maps = sample.images.iter().map(|image| FileMap::new(&image.bytes)).collect();
        Runner { seed, sample, maps, tally: Mutex::default() }
    }

    /// Checks the images with these numbers. Returns a description of each failure.
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
                        if nth >= images.end || failures.lock().unwrap().len() >= MAX_FAILURES {
                            return;
                        }
                        let image = self.image(nth);
                        Watchdog::begin(image.to_string());
                        if let Err(failure) = self.check(&image) {
                            let seed = self.seed;
                            failures.lock().unwrap().push(format!(
                                "seed {seed}, {image}: {failure}\n  TUBEWELL_SEED={seed} \
                                 TUBEWELL_BIT_ROT_IMAGE={nth} \
                                 cargo test --test bit_rot damage_is_detected"
                            ));
                        }
                        Watchdog::end();
                    }
                });
            }
        });
        failures.into_inner().unwrap()
    }

    /// The number of images of the closed file with damage at this location and this outcome.
    pub fn count(&self, location: &str, outcome: Outcome) -> u64 {
        let tally = self.tally.lock().unwrap();
        tally.get(&(true, location.to_owned(), outcome)).copied().unwrap_or_default()
    }

    fn image(&self, nth: u64) -> DamagedImage {
        let which = usize::try_from(nth).unwrap() % self.sample.images.len();
        let (image, map) = (&self.sample.images[which], &self.maps[which]);
        let mut rng = Rng::new(self.seed.wrapping_add(nth));
        let damage = Damage::random(&self.sample, image, map, &mut rng);
        let location = damage.location(map);
        DamagedImage { nth, which, closed: image.closed, damage, location }
    }

    fn check(&self, damaged: &DamagedImage) -> Result<(), String> {
        let image = &self.sample.images[damaged.which];
        let bytes = damaged.damage.apply(&self.sample, image);
        let read_only = damaged.damage.may_alias_pages(&damaged.location);
        let salvaged = catch_unwind(|| Salvage::of(&bytes)).map_err(|_| "the salvage panicked")?;
        let wrong = salvaged.map(|found| found.wrong(&self.sample, image)).unwrap_or_default();
        if !wrong.is_empty() {
            return Err(wrong.join("; "));
        }
        let medium = Medium::in_memory(bytes);
        let (outcome, _) = check_with(&self.sample, image, &medium, read_only)?;
        let location = damaged.location.to_string();
        *self.tally.lock().unwrap().entry((image.closed, location, outcome)).or_default() += 1;
        Ok(())
    }
}

/// One image: the file that it is made from, and its damage.
struct DamagedImage {
    nth: u64,
    which: usize,
    closed: bool,
    damage: Damage,
    location: Location,
}

impl fmt::Display for DamagedImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let file = if self.closed { "closed" } else { "killed" };
        let DamagedImage { nth, damage, location, .. } = self;
        write!(f, "image {nth}: {damage} in {location} of the {file} file")
    }
}

impl fmt::Display for Runner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for ((closed, location, outcome), count) in &*self.tally.lock().unwrap() {
            let file = if *closed { "closed" } else { "killed" };
            writeln!(f, "{file} file, {location}: {count} {outcome:?}")?;
        }
        Ok(())
    }
}
