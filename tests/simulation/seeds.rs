//! What the simulations of attempts, of outcomes, and of keys and gates share: the disk that fails, and the seeds.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{ManualClock, Store, Tube};

use crate::disk::{Crash, Disk, KINDS};
use crate::faults::{Fault, Plan};
use crate::rng::Rng;

/// Longer than the store waits before it opens a failed storage again.
pub const RECOVERY: Duration = Duration::from_secs(30);
const SEEDS: u64 = 20;
const STEPS: u64 = 150;

/// How often something was done.
pub type Coverage = BTreeMap<&'static str, u64>;

/// A simulation that one seed determines.
pub trait Simulated: Sized {
    /// So that simulations with the same seed differ.
    const SALT: u64;

    fn new(seed: u64) -> Self;
    /// A call, a move of the clock, a fault, or a crash.
    fn act(&mut self, rng: &mut Rng);
    /// Compares the store with the model. Reads the disk.
    fn check(&self);
    /// Repairs the disk, and waits until the store works again.
    fn recover(&mut self);
    fn crash(&mut self, rng: &mut Rng);
    fn disk(&self) -> &Disk;
    fn store(&self) -> &Store;
    fn into_log(self) -> (Vec<String>, Coverage);

    fn step(&mut self, rng: &mut Rng) {
        self.act(rng);
        if !self.disk().tripped() {
            // A comparison reads the disk.
            if !self.disk().is_armed() {
                self.check();
            }
        } else if rng.one_in(3) {
            self.recover();
        } else if rng.one_in(4) {
            self.crash(rng);
        }
    }

    fn run(seed: u64) -> (Vec<String>, Coverage) {
        let mut simulation = Self::new(seed);
        let mut rng = Rng::new(seed ^ Self::SALT);
        for _ in 0..STEPS {
            simulation.step(&mut rng);
        }
        if simulation.disk().tripped() {
            simulation.recover();
        }
        simulation.disk().repair();
        assert_eq!(simulation.store().verify().unwrap(), [""; 0]);
        simulation.into_log()
    }
}

/// Runs each seed twice. `TUBEWELL_SEED` runs one seed, `TUBEWELL_SIMULATION_SEEDS` that many. By
/// default all of `wanted` must be covered.
pub fn run_seeds<S: Simulated>(test: &str, wanted: &[&str]) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("TUBEWELL_SEED") {
        Some(seed) => seed..seed + 1,
        None => 1..number("TUBEWELL_SIMULATION_SEEDS").unwrap_or(SEEDS) + 1,
    };
    let mut coverage = Coverage::new();
    for seed in seeds.clone() {
        println!("TUBEWELL_SEED={seed} cargo test --test simulation {test}");
        let (trace, covered) = S::run(seed);
        assert_eq!(trace, S::run(seed).0, "two runs differ");
        for (what, times) in covered {
            *coverage.entry(what).or_default() += times;
        }
    }
    println!("{seeds:?}: {coverage:?}");
    if seeds == (1..SEEDS + 1) {
        for what in wanted {
            assert!(coverage.contains_key(what), "{what} is not covered");
        }
    }
}

pub fn open(clock: &ManualClock, disk: &Arc<Disk>) -> Store {
    let options = Store::options().clock(clock).cache_size(1 << 14).disk_reserve(1 << 16);
    options.open_on(disk.storage()).unwrap()
}

pub fn tubes_of(store: &Store, count: usize) -> Vec<Tube> {
    (0..count).map(|nth| store.tube(&nth.to_string()).unwrap()).collect()
}

/// Arms the disk with a random fault in one of its next calls.
pub fn arm(disk: &Disk, rng: &mut Rng) {
    let (kind, nth) = (rng.pick(&KINDS), 1 + rng.below(6));
    let (fault, lasting) = (rng.pick(&Fault::ALL), rng.one_in(2));
    disk.arm(Plan { kind, nth, fault, lasting });
}

pub fn random_crash(disk: &Disk, rng: &mut Rng) -> Crash {
    let partial = Crash::PartialPowerCut { kept: rng.index(disk.unflushed() + 1), torn: false };
    rng.pick(&[Crash::Kill, Crash::Kill, Crash::PowerCut, partial])
}
