//! Simulations of single concepts, each determined by a seed.

use crate::rng::Rng;
use crate::world::{Coverage, Upset, World};

const SEEDS: u64 = 20;
const STEPS: u64 = 150;

/// A simulation that one seed determines.
pub trait Simulated: Sized {
    /// So that simulations with the same seed differ.
    const SALT: u64;
    /// What it holds of a claim.
    type Claim;

    fn new(seed: u64) -> Self;
    /// A call, a move of the clock, a fault, or a crash.
    fn act(&mut self, rng: &mut Rng);
    /// Compares the store with the model. Reads the disk.
    fn compare(&self);
    /// Compares the store with what must be left of it, and continues with what is there.
    fn learn(&mut self, upset: Upset);
    fn world(&self) -> &World;
    fn world_and_claims(&mut self) -> (&mut World, &mut Vec<Self::Claim>);
    fn into_world(self) -> World;

    fn recover(&mut self) {
        self.world_and_claims().0.recover();
        self.learn(Upset::Outage);
    }

    fn crash(&mut self, rng: &mut Rng) {
        let (world, claims) = self.world_and_claims();
        let upset = world.crash(claims, rng);
        self.learn(upset);
    }

    /// Closes the store, unless its disk has failed, and opens it.
    fn reopen(&mut self) {
        if self.world().disk.tripped() {
            return;
        }
        let (world, claims) = self.world_and_claims();
        let upset = world.reopen(claims);
        self.learn(upset);
    }

    fn step(&mut self, rng: &mut Rng) {
        self.act(rng);
        let disk = &self.world().disk;
        if !disk.tripped() {
            // A comparison reads the disk.
            if !disk.is_armed() {
                self.compare();
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
        if simulation.world().disk.tripped() {
            simulation.recover();
        }
        let world = simulation.world();
        world.disk.repair();
        assert_eq!(world.store.verify().unwrap(), [""; 0]);
        let World { trace, coverage, .. } = simulation.into_world();
        (trace, coverage)
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
