//! Simulations of single concepts, each determined by a seed.

use crate::model::Micros;
use crate::rng::Rng;
use crate::size::{amount, repeated_seed, seeds};
use crate::world::{Coverage, Upset, World};

const STEPS: u64 = 150;
/// So many seeds run twice in a quick run, and all in longer ones.
pub const REPEATED: u64 = 4;
/// What every simulation must cover.
const UPSETS: [&str; 5] = ["close", "outage", "Kill", "PowerCut", "PartialPowerCut"];

/// The checks of a simulation.
pub trait Checked {
    /// Compares the store with the model. Reads the disk.
    fn compare(&self);
    /// Compares the store with what must be left of it, and continues with what is there. The model is
    /// right afterwards.
    fn learn(&mut self, upset: Upset);
}

/// A simulation that one seed determines.
pub trait Simulated: Checked + Sized {
    /// So that simulations with the same seed differ.
    const SALT: u64;
    /// Whether all is flushed before half of the crashes, so that it is known what must be left.
    const FLUSHES: bool = false;
    /// The longest time for which the store is closed; 0 for none.
    const CLOSED_FOR: Micros = 0;

    fn new(seed: u64) -> Self;
    /// A call, a move of the clock, a fault, or a crash.
    fn act(&mut self, rng: &mut Rng);
    fn world(&mut self) -> &mut World;

    fn recover(&mut self) {
        self.world().recover();
        self.go_on_after(Upset::Outage);
    }

    fn crash(&mut self, rng: &mut Rng) {
        let world = self.world();
        world.is_flushed = Self::FLUSHES && rng.one_in(2) && world.store.flush().is_ok();
        world.closed_for = rng.below(Self::CLOSED_FOR + 1);
        let upset = world.crash(rng);
        self.go_on_after(upset);
    }

    /// Closes the store, unless its disk has failed, and opens it.
    fn reopen(&mut self, rng: &mut Rng) {
        let world = self.world();
        if !world.disk.tripped() {
            world.closed_for = rng.below(Self::CLOSED_FOR + 1);
            let upset = world.reopen();
            self.go_on_after(upset);
        }
    }

    fn go_on_after(&mut self, upset: Upset) {
        self.learn(upset);
        let world = self.world();
        (world.is_unsure, world.is_flushed) = (false, false);
    }

    fn step(&mut self, rng: &mut Rng) {
        self.act(rng);
        let world = self.world();
        if !world.disk.tripped() {
            // A comparison reads the disk.
            if !world.disk.is_armed() && !world.is_unsure {
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
        assert_eq!(world.store.admin().verify().unwrap(), [""; 0]);
        (std::mem::take(&mut world.trace), std::mem::take(&mut world.coverage))
    }
}

/// Runs each seed, and each one or a few of them twice. All of `wanted` must be covered, and all upsets.
pub fn run_seeds<S: Simulated>(test: &str, wanted: &[&str]) {
    let seeds = seeds(amount(20, 20, 100_000));
    let mut coverage = Coverage::new();
    for seed in seeds.clone() {
        println!("TUBEWELL_SEED={seed} cargo test --test simulation {test}");
        let (trace, covered) = S::run(seed);
        if seed - seeds.start < amount(REPEATED, u64::MAX, u64::MAX) {
            assert_eq!(trace, S::run(seed).0, "two runs differ");
        }
        for (what, times) in covered {
            *coverage.entry(what).or_default() += times;
        }
    }
    println!("{seeds:?}: {coverage:?}");
    if repeated_seed().is_none() {
        for what in wanted.iter().chain(&UPSETS) {
            assert!(coverage.contains_key(what), "{what} is not covered");
        }
    }
}
