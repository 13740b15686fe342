//! Schedules under simulation, in tubes of every durability: while the disk works, the schedules and
//! their runs are those of a model. After a fault, a kill or a power cut, no run is lost or put twice:
//! each was put with the move of its schedule to the next one.

mod recovery;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use tubewell::{Durability, Error, FIFO, Put, Result, TaskState, TubeOptions};

use crate::recurring::{Change, KEYS, Model, Rule, SECOND, Terms, draw_tags};
use crate::rng::Rng;
use crate::seeds::{Simulated, run_seeds};
use crate::world::World;

/// The times are some of these, so that an outage does not have thousands of runs.
const UNIT: u64 = 100_000;
/// The times of cron expressions.
const CRON: [u64; 4] = [SECOND, 2 * SECOND, 3 * SECOND, 5 * SECOND];

/// The task of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Run {
    id: u64,
    key: String,
    tube: usize,
    tags: Vec<String>,
    state: TaskState,
    /// Microseconds since the beginning.
    moment: u64,
}

/// The id of its schedule, and its number.
type RunNo = (u64, u64);

struct Simulation {
    world: World,
    durability: [Durability; 3],
    model: Model,
    /// All runs that were seen, with the ids of their tasks and their tubes.
    seen: BTreeMap<RunNo, (u64, usize)>,
    /// The runs that a call has ended, whatever its answer.
    ended: BTreeSet<RunNo>,
    /// The tasks whose end was answered, with their tubes.
    over: BTreeMap<u64, usize>,
}

impl Simulated for Simulation {
    const SALT: u64 = 0x5C4E;
    const FLUSHES: bool = true;
    const CLOSED_FOR: u64 = 60 * UNIT;

    fn new(seed: u64) -> Simulation {
        let mut rng = Rng::new(seed);
        let levels = [Durability::Flush, Durability::write(), Durability::relaxed()];
        // In half of the runs a kill loses nothing that was answered.
        let durability = if rng.one_in(2) { [levels[0], levels[1], levels[0]] } else { levels };
        let options = durability.map(|durability| TubeOptions::new().durability(durability));
        Simulation {
            world: World::new(FIFO, options),
            durability,
            model: Model::default(),
            seen: BTreeMap::new(),
            ended: BTreeSet::new(),
            over: BTreeMap::new(),
        }
    }

    fn act(&mut self, rng: &mut Rng) {
        let counts = |model: &Model| {
            let counts = model.schedules.values().map(|it| (it.runs, it.skipped));
            counts.fold((0, 0), |sum, of| (sum.0 + of.0, sum.1 + of.1))
        };
        let before = counts(&self.model);
        match rng.below(40) {
            0..8 => self.schedule(rng),
            8..11 => self.reschedule(rng),
            11 => self.unschedule(rng),
            12..20 => self.take(rng),
            20..24 => self.end_claim(rng),
            24..33 => {
                let by = rng.below(40 * UNIT);
                self.world.advance(by);
                self.model.advance(by);
            }
            33 => drop(self.world.store.flush()),
            34 => self.world.arm(rng),
            35..39 => self.crash(rng),
            _ => self.reopen(rng),
        }
        // What is due is put.
        self.world.clock.advance(Duration::ZERO);
        self.model.catch_up();
        let after = counts(&self.model);
        for (what, grows) in [("run", after.0 > before.0), ("skipped run", after.1 > before.1)] {
            if grows {
                self.world.cover(what);
            }
        }
        let disk = &self.world.disk;
        self.world.is_unsure |= disk.tripped();
        if !disk.tripped() && !disk.is_armed() {
            self.seen.extend(self.runs().into_iter().map(|(no, run)| (no, (run.id, run.tube))));
        }
    }

    fn world(&mut self) -> &mut World {
        &mut self.world
    }
}

impl Simulation {
    /// The answer of a call. `None` if the disk has failed: it may have taken place.
    fn done<T>(&mut self, verb: &'static str, answer: Result<T>) -> Option<T> {
        self.world.done(verb, answer).0
    }

    fn schedule(&mut self, rng: &mut Rng) {
        let (key, tube, rule) = (rng.pick(&KEYS), rng.index(3), draw_rule(rng));
        if !self.model.schedules.contains_key(key) {
            self.delete_runs(key);
        }
        if self.world.is_unsure {
            return;
        }
        let known = self.model.schedules.get(key).map_or(0, |known| known.runs);
        let (terms, tags) = (Terms::draw(rng, known, UNIT / 4), draw_tags(rng));
        let put = tags.iter().fold(Put::new(key), |put, tag| put.tag(tag.as_str()));
        let answer = self.world.tubes[tube].schedule(terms.apply(rule.schedule(key)), put);
        if self.done("schedule", answer).is_some() {
            self.model.schedule(key, rule, terms, (tags, tube));
        }
    }

    fn reschedule(&mut self, rng: &mut Rng) {
        let (key, tube) = (rng.pick(&KEYS), rng.index(3));
        let rule = draw_rule(rng);
        let change = Change::draw(rng, rule);
        let answer = change.make(&self.world.tubes[tube], key);
        if matches!(answer, Err(Error::KeyNotFound { .. })) {
            return assert!(self.world.is_unsure || !self.model.schedules.contains_key(key));
        }
        if self.done("reschedule", answer).is_some() {
            let is_known = self.model.change(key, change, tube);
            assert!(self.world.is_unsure || is_known);
        }
    }

    fn unschedule(&mut self, rng: &mut Rng) {
        let key = rng.pick(&KEYS);
        let answer = self.world.tubes[0].schedules().remove(key);
        if matches!(answer, Err(Error::KeyNotFound { .. })) {
            return assert!(self.world.is_unsure || !self.model.schedules.contains_key(key));
        }
        if self.done("unschedule", answer).is_some() {
            let known = self.model.schedules.remove(key);
            assert!(self.world.is_unsure || known.is_some());
        }
    }

    /// Deletes what an earlier schedule with this key has left, so that the runs of the next one have
    /// their keys.
    fn delete_runs(&mut self, key: &str) {
        let prefix = format!("{key}-");
        self.world.claims.retain(|claim| !claim.key().unwrap().starts_with(&prefix));
        if self.world.disk.is_armed() || self.world.disk.tripped() {
            self.world.is_unsure = true;
            return;
        }
        for (no, run) in self.runs() {
            if run.key.starts_with(&prefix) {
                self.world.tubes[run.tube].delete(run.id).unwrap();
                self.world.cover("delete");
                self.ended.insert(no);
                self.over.insert(run.id, run.tube);
                self.model.open.remove(&run.key);
                self.model.buried.remove(&run.key);
            }
        }
    }

    fn take(&mut self, rng: &mut Rng) {
        let nth = rng.index(3);
        let answer = self.world.tubes[nth].try_take();
        let Some(claim) = self.done("take", answer).flatten() else { return };
        assert!(!self.over.contains_key(&claim.id()), "task {} is over", claim.id());
        self.world.claims.push(claim);
    }

    fn end_claim(&mut self, rng: &mut Rng) {
        let Some(claim) = self.world.random_claim(rng) else { return };
        let seen = self.seen.iter().find(|(_, (id, _))| *id == claim.id()).map(|(no, _)| *no);
        let Some(no) = seen.filter(|_| claim.is_current().unwrap() && !self.world.is_unsure) else {
            return;
        };
        let (id, key) = (claim.id(), claim.key().unwrap().to_owned());
        let run = self.model.open[&key].clone();
        if rng.one_in(4) {
            if self.done("bury", claim.bury(None)).is_some() {
                self.model.open.remove(&key);
                self.model.buried.insert(key, run);
            }
            return;
        }
        self.ended.insert(no);
        if self.done("ack", claim.ack()).is_some() {
            self.over.insert(id, run.0);
            self.model.open.remove(&key);
        }
    }
}

fn draw_rule(rng: &mut Rng) -> Rule {
    let interval = (2 + rng.below(30)) * UNIT;
    Rule::draw(rng, interval, &CRON)
}

#[test]
fn schedules_match_model_and_survive_faults_kills_and_power_cuts() {
    let wanted = [
        "schedule",
        "reschedule",
        "unschedule",
        "take",
        "ack",
        "bury",
        "delete",
        "run",
        "missed run",
        "skipped run",
        "exact",
        "learned",
    ];
    run_seeds::<Simulation>("schedules_match", &wanted);
}
