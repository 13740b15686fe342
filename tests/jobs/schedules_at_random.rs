//! Schedules under random calls, compared with a model of them: which runs are put, left out and
//! missed, over moves of the clock, closes and kills.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use tubewell::{
    Error, FIFO, ManualClock, Missed, Overlap, Put, Reschedule, Schedule, State, Store, Tube,
    TubeOptions,
};

use crate::not_before::at;
use crate::rng::Rng;
use crate::support::{StoreFile, assert_sound};

const SECOND: u64 = 1_000_000;
const KEYS: [&str; 3] = ["a", "b", "c"];
const TAGS: [&str; 3] = ["x", "y", "z"];
const CALLS: usize = 80;
const SEEDS: u64 = 8;

/// A schedule of the model. Times are microseconds since the beginning.
#[derive(Clone, Debug, PartialEq)]
struct Expected {
    interval: u64,
    next: u64,
    fired: Option<u64>,
    runs: u64,
    skipped: u64,
    times: Option<u64>,
    missed: Missed,
    within: Option<u64>,
    overlap: Overlap,
    tags: Vec<String>,
    tube: usize,
}

#[derive(Default)]
struct Model {
    now: u64,
    schedules: BTreeMap<&'static str, Expected>,
    /// The runs that are not over, by their keys, and those that are buried.
    open: BTreeMap<String, TaskOfRun>,
    buried: BTreeMap<String, TaskOfRun>,
}

/// The number of its tube, and its tags.
type TaskOfRun = (usize, Vec<String>);

impl Model {
    /// Time passes while the store is open: each run is put at its moment.
    fn advance(&mut self, by: u64) {
        let end = self.now + by;
        while let Some(next) = self.schedules.values().map(|schedule| schedule.next).min() {
            if next > end {
                break;
            }
            self.now = self.now.max(next);
            self.catch_up();
        }
        self.now = end;
    }

    /// All that is due now is done.
    fn catch_up(&mut self) {
        for key in KEYS {
            while self.schedules.get(key).is_some_and(|schedule| schedule.next <= self.now) {
                self.fire(key);
            }
        }
    }

    /// One moment of a schedule that is due.
    fn fire(&mut self, key: &'static str) {
        let mut schedule = self.schedules.remove(key).unwrap();
        let late = (self.now - schedule.next) / schedule.interval;
        let due: Vec<u64> = (0..=late).map(|n| schedule.next + n * schedule.interval).collect();
        let newest = match schedule.missed {
            Missed::All => due.len(),
            Missed::Latest(runs) => runs as usize,
            _ => 1,
        };
        let longest = if schedule.missed == Missed::Skip { 60 * SECOND } else { u64::MAX };
        let within = schedule.within.unwrap_or(u64::MAX).min(longest);
        let run = due
            .iter()
            .skip(due.len().saturating_sub(newest))
            .find(|moment| self.now - **moment <= within);
        let Some(run) = run.copied() else {
            schedule.next = due.last().unwrap() + schedule.interval;
            self.schedules.insert(key, schedule);
            return;
        };
        (schedule.next, schedule.fired) = (run + schedule.interval, Some(run));
        let last = format!("{key}-{}", schedule.runs);
        if schedule.overlap == Overlap::Skip && self.open.contains_key(&last) {
            schedule.skipped += 1;
        } else {
            schedule.runs += 1;
            let task = (schedule.tube, schedule.tags.clone());
            self.open.insert(format!("{key}-{}", schedule.runs), task);
        }
        if schedule.times != Some(schedule.runs) {
            self.schedules.insert(key, schedule);
        }
    }
}

/// The store under test, and how it is opened again.
struct Run {
    clock: ManualClock,
    path: PathBuf,
    files: Vec<StoreFile>,
    store: Option<Store>,
}

impl Run {
    fn tubes(&self) -> [Tube; 2] {
        ["one", "two"].map(|name| self.store.as_ref().unwrap().tube(name).unwrap())
    }

    fn open(&mut self) {
        let options = Store::options().clock(&self.clock);
        self.store = Some(options.open(&self.path).unwrap());
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
            self.tubes()[usize::from(found.tube == "two")].delete(found.info.id).unwrap();
            model.open.remove(&name);
            model.buried.remove(&name);
        }
    }

    fn check(&self, model: &Model, what: &str) {
        let mut schedules = BTreeMap::new();
        let [mut open, mut buried] = [BTreeMap::new(), BTreeMap::new()];
        for (number, tube) in self.tubes().iter().enumerate() {
            for stored in tube.schedules(None, 10).unwrap().schedules {
                let counts = (stored.runs, stored.skipped);
                schedules.insert(stored.key, (stored.next, counts, stored.tags, number));
            }
            for (state, found) in [(State::Ready, &mut open), (State::Buried, &mut buried)] {
                let tasks = tube.list(state, None, 10_000).unwrap().tasks;
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
            let tagged = self.store.as_ref().unwrap().tagged(tag, None, 1000).unwrap().tasks;
            let tagged: BTreeSet<String> =
                tagged.into_iter().map(|task| task.info.key.unwrap()).collect();
            let expected =
                open.iter().chain(&buried).filter(|(_, (_, tags))| tags.contains(&tag.to_owned()));
            assert_eq!(tagged, expected.map(|(key, _)| key.clone()).collect(), "{what}");
        }
    }
}

fn policy(rng: &mut Rng) -> (Missed, Option<u64>, Overlap, Option<u64>) {
    let missed = match rng.below(5) {
        0 => Missed::All,
        1 => Missed::Skip,
        n => Missed::Latest(u32::try_from(n - 1).unwrap()),
    };
    let within = (rng.below(3) == 0).then(|| rng.below(300) * SECOND);
    let overlap = if rng.below(2) == 0 { Overlap::Allow } else { Overlap::Skip };
    let times = (rng.below(4) == 0).then(|| 1 + rng.below(6));
    (missed, within, overlap, times)
}

fn tags(rng: &mut Rng) -> Vec<String> {
    TAGS.iter().filter(|_| rng.below(2) == 0).map(ToString::to_string).collect()
}

#[expect(clippy::too_many_lines, reason = "one arm for each call")]
fn call(rng: &mut Rng, run: &mut Run, model: &mut Model) -> String {
    let (key, tube) = (KEYS[rng.index(3)], rng.index(2));
    let interval = (10 + rng.below(90)) * SECOND;
    let micros = Duration::from_micros;
    match rng.below(12) {
        0 | 1 => {
            let (missed, within, overlap, times) = policy(rng);
            if !model.schedules.contains_key(key) {
                run.delete_runs(model, key);
            }
            let known = model.schedules.get(key);
            let times = times.filter(|times| known.is_none_or(|known| *times > known.runs));
            let mut schedule = Schedule::every(micros(interval)).key(key).missed(missed);
            let tags = tags(rng);
            let put = tags.iter().fold(Put::new("x"), |put, tag| put.tag(tag.as_str()));
            schedule = schedule.overlap(overlap).put(put);
            schedule = within.map(micros).into_iter().fold(schedule, Schedule::within);
            schedule = times.into_iter().fold(schedule, Schedule::times);
            run.tubes()[tube].schedule(schedule).unwrap();
            let expected = match known {
                None => Expected {
                    interval,
                    next: model.now,
                    fired: None,
                    runs: 0,
                    skipped: 0,
                    times,
                    missed,
                    within,
                    overlap,
                    tags,
                    tube,
                },
                Some(known) => {
                    let next = match known.fired {
                        Some(fired) if known.interval != interval => fired + interval,
                        _ => known.next,
                    };
                    let known = known.clone();
                    let known = Expected { interval, next, times, missed, within, ..known };
                    Expected { overlap, tags, tube, ..known }
                }
            };
            model.schedules.insert(key, expected);
            run.clock.advance(Duration::ZERO);
            model.catch_up();
            format!("schedule {key} every {interval} in {tube}")
        }
        2 => {
            let tags = (rng.below(2) == 0).then(|| tags(rng));
            let change = Reschedule::new().every(micros(interval));
            let change = tags.iter().fold(change, Reschedule::tags);
            let answer = run.tubes()[tube].reschedule(key, change);
            match model.schedules.get_mut(key) {
                None => assert!(matches!(answer, Err(Error::KeyNotFound { .. }))),
                Some(known) => {
                    answer.unwrap();
                    if let Some(fired) = known.fired.filter(|_| known.interval != interval) {
                        known.next = fired + interval;
                    }
                    (known.interval, known.tube) = (interval, tube);
                    known.tags = tags.unwrap_or_else(|| known.tags.clone());
                }
            }
            run.clock.advance(Duration::ZERO);
            model.catch_up();
            format!("reschedule {key} every {interval} in {tube}")
        }
        3 if rng.below(3) == 0 => {
            let answer = run.tubes()[tube].unschedule(key);
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
                claim.bury().unwrap();
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
                run.store.take().unwrap().close().unwrap();
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
    for seed in 0..SEEDS {
        let mut rng = Rng::new(seed);
        let file = StoreFile::new();
        let (clock, path) = (ManualClock::new(), file.path());
        let mut run = Run { clock, path, files: vec![file], store: None };
        run.open();
        for name in ["one", "two"] {
            run.store.as_ref().unwrap().create_tube(name, FIFO, TubeOptions::new()).unwrap();
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
    assert!(runs > 100, "{runs} runs");
}
