//! Schedules under random calls, compared with a model of them: which runs are put, left out and
//! missed, over moves of the clock, closes and kills.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use tubewell::{Error, FIFO, Filter, Put, Store, TaskState, Tube, TubeOptions};

use super::not_before::at;
use super::recurring::{Change, KEYS, Model, Rule, SECOND, TAGS, Terms, draw_tags};
use super::rng::Rng;
use super::support::{StoreFile, assert_sound};
use crate::size::amount;
use crate::stores::{self, ManualClock};

const CALLS: usize = 80;
/// The times of cron expressions.
const CRON: [u64; 4] = [10 * SECOND, 15 * SECOND, 20 * SECOND, 30 * SECOND];

/// The store under test, and how it is opened again.
struct Run {
    clock: ManualClock,
    path: PathBuf,
    files: Vec<StoreFile>,
    store: Option<Store>,
}

impl Run {
    fn tubes(&self) -> [Tube; 2] {
        ["one", "two"].map(|name| self.store.as_ref().unwrap().find_tube(name).unwrap())
    }

    fn open(&mut self) {
        let options = Store::options().clock(&self.clock);
        self.store = Some(stores::open_with(&self.path, options));
        self.clock.advance(Duration::ZERO);
    }

    /// Deletes what an earlier schedule with this key has left, so that the runs of the next one have
    /// their keys.
    fn delete_runs(&self, model: &mut Model, key: &str) {
        let keys = model.open.keys().chain(model.buried.keys());
        let left: BTreeSet<String> =
            keys.filter(|name| name.starts_with(&format!("{key}-"))).cloned().collect();
        for name in left {
            let found = self.store.as_ref().unwrap().by_key(&name).unwrap().unwrap();
            self.tubes()[usize::from(found.tube == "two")].delete(found.id).unwrap();
            model.open.remove(&name);
            model.buried.remove(&name);
        }
    }

    fn check(&self, model: &Model, what: &str) {
        let mut schedules = BTreeMap::new();
        let [mut open, mut buried] = [BTreeMap::new(), BTreeMap::new()];
        for (number, tube) in self.tubes().iter().enumerate() {
            for stored in tube.schedules().list(None, 10).unwrap().items {
                let counts = (stored.runs, stored.skipped);
                schedules.insert(stored.key, (stored.next, counts, stored.tags, number));
            }
            for (state, found) in [(TaskState::Ready, &mut open), (TaskState::Buried, &mut buried)]
            {
                let tasks = tube.query().list(state, None, 10_000).unwrap().items;
                found
                    .extend(tasks.into_iter().map(|task| (task.key.unwrap(), (number, task.tags))));
            }
        }
        let expected: BTreeMap<String, _> = model
            .schedules
            .iter()
            .map(|(key, of)| {
                let next = at(Duration::from_micros(of.next));
                ((*key).to_owned(), (next, (of.runs, of.skipped), of.tags.clone(), of.tube))
            })
            .collect();
        assert_eq!(schedules, expected, "{what}");
        assert_eq!((&open, &buried), (&model.open, &model.buried), "{what}");
        for tag in TAGS {
            let tagged = self
                .store
                .as_ref()
                .unwrap()
                .list(Filter::new().tag(tag), None, 1000)
                .unwrap()
                .items;
            let tagged: BTreeSet<String> =
                tagged.into_iter().map(|task| task.key.unwrap()).collect();
            let expected =
                open.iter().chain(&buried).filter(|(_, (_, tags))| tags.contains(&tag.to_owned()));
            assert_eq!(tagged, expected.map(|(key, _)| key.clone()).collect(), "{what}");
        }
    }
}

fn call(rng: &mut Rng, run: &mut Run, model: &mut Model) -> String {
    let (key, tube) = (KEYS[rng.index(3)], rng.index(2));
    let interval = (10 + rng.below(90)) * SECOND;
    let rule = Rule::draw(rng, interval, &CRON);
    let micros = Duration::from_micros;
    match rng.below(12) {
        0 | 1 => {
            if !model.schedules.contains_key(key) {
                run.delete_runs(model, key);
            }
            let known = model.schedules.get(key).map_or(0, |known| known.runs);
            let (terms, tags) = (Terms::draw(rng, known, SECOND), draw_tags(rng));
            let put = tags.iter().fold(Put::new("x"), |put, tag| put.tag(tag.as_str()));
            run.tubes()[tube].schedule(terms.apply(rule.schedule(key)), put).unwrap();
            model.schedule(key, rule, terms, (tags, tube));
            run.clock.advance(Duration::ZERO);
            model.catch_up();
            format!("schedule {key}: {rule:?} in {tube}")
        }
        2 => {
            let change = Change::draw(rng, rule);
            let text = format!("{change:?} of {key} in {tube}");
            let answer = change.make(&run.tubes()[tube], key);
            if model.change(key, change, tube) {
                answer.unwrap();
            } else {
                assert!(matches!(answer, Err(Error::KeyNotFound { .. })));
            }
            run.clock.advance(Duration::ZERO);
            model.catch_up();
            text
        }
        3 if rng.below(3) == 0 => {
            let answer = run.tubes()[tube].schedules().remove(key);
            assert_eq!(answer.is_ok(), model.schedules.remove(key).is_some());
            format!("unschedule {key}")
        }
        3..=5 => {
            let Some(claim) = run.tubes()[tube].try_take().unwrap() else {
                return "no task".into();
            };
            let name = claim.key().unwrap().to_owned();
            let task = model.open.remove(&name).unwrap();
            if rng.below(3) == 0 {
                claim.bury(None).unwrap();
                model.buried.insert(name.clone(), task);
            } else {
                claim.ack().unwrap();
            }
            format!("end {name}")
        }
        6 | 7 => {
            // With a kill: what was flushed is there.
            let by = rng.below(600) * SECOND;
            let killed = StoreFile::new();
            let is_kill = rng.below(2) == 0;
            if is_kill {
                // A run that is left out is written with the next commit.
                run.store.as_ref().unwrap().flush().unwrap();
                std::fs::copy(&run.path, killed.path()).unwrap();
                run.path = killed.path();
            } else {
                stores::close(&run.store.take().unwrap());
            }
            run.store = None;
            run.files.push(killed);
            run.clock.advance(micros(by));
            run.open();
            model.now += by;
            model.catch_up();
            format!("{} for {by}", if is_kill { "killed" } else { "closed" })
        }
        _ => {
            let by = rng.below(200) * SECOND;
            run.clock.advance(micros(by));
            model.advance(by);
            format!("advance by {by}")
        }
    }
}

#[test]
fn schedules_do_what_their_model_does() {
    let mut runs = 0;
    for seed in 0..amount(2, 8, 2000) {
        let mut rng = Rng::new(seed);
        let file = StoreFile::new();
        let (clock, path) = (ManualClock::new(), file.path());
        let mut run = Run { clock, path, files: vec![file], store: None };
        run.open();
        for name in ["one", "two"] {
            run.store.as_ref().unwrap().create_tube(name, TubeOptions::new().driver(FIFO)).unwrap();
        }
        let mut model = Model::default();
        for n in 0..CALLS {
            let what = call(&mut rng, &mut run, &mut model);
            run.check(&model, &format!("seed {seed}, call {n}: {what}"));
            if n % 10 == 0 {
                assert_sound(run.store.as_ref().unwrap());
            }
        }
        runs += model.schedules.values().map(|schedule| schedule.runs).sum::<u64>();
    }
    assert!(runs > amount(25, 100, 100), "{runs} runs");
}
