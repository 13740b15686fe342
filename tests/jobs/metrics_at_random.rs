//! Random calls on a tube with metrics, compared with an oracle that keeps every duration. In between
//! the clock moves, over midnights too, and the store is closed.

use std::collections::BTreeMap;
use std::time::Duration;

use tubewell::driver::{FIFOTTL, UTUBETTL};
use tubewell::expert::{Date, Day, Summary};
use tubewell::{Claim, Failure, Put, Store, Tube, TubeOptions};

use super::files::create_with;
use super::metrics::DAY;
use super::rng::Rng;
use super::support::*;
use crate::size::amount;
use crate::stores;

const KEPT: u32 = 4;
const TTR: u64 = 400;
const ATTEMPTS: u32 = 3;

/// The numbers of a day, from all durations.
#[derive(Clone, Debug, Default, PartialEq)]
struct Numbers {
    puts: u64,
    takes: u64,
    acks: u64,
    failed: u64,
    failures: u64,
    lost: u64,
    retried: u64,
    waits: Vec<u64>,
    runs: Vec<u64>,
}

/// Where a task is, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Ready { since: u64 },
    Delayed { until: u64 },
    Taken { at: u64, deadline: u64 },
    Buried { at: u64 },
}

#[derive(Clone, Copy, Debug)]
struct Task {
    place: Place,
    attempts: u32,
}

struct Run {
    rng: Rng,
    file: StoreFile,
    store: Store,
    tube: Tube,
    tasks: BTreeMap<u64, Task>,
    claims: BTreeMap<u64, Claim>,
    days: BTreeMap<u64, Numbers>,
    /// The first day, which begins with the test.
    first: Date,
    now: u64,
}

impl Run {
    fn new(seed: u64, driver: &'static str) -> Run {
        let mut rng = Rng::new(seed);
        let options = TubeOptions::new()
            .metrics(KEPT)
            .max_attempts(ATTEMPTS)
            .ttr(ms(TTR))
            .temporary(rng.one_in(4));
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, options);
        let (tasks, claims, days) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
        let first = store.today().unwrap();
        Run { rng, file, store, tube, tasks, claims, days, first, now: 0 }
    }

    fn day(&mut self) -> &mut Numbers {
        self.days.entry(self.now / 86_400_000).or_default()
    }

    fn step(&mut self) {
        match self.rng.below(20) {
            0..=4 => self.put(),
            5..=9 => self.take(),
            10..=14 => self.end_claim(),
            15 => self.kick(),
            16..=17 => self.advance(100),
            18 if self.rng.one_in(4) => self.advance(86_400_000),
            19 if self.rng.one_in(4) => self.reopen(),
            19 if self.rng.one_in(8) => self.truncate(),
            _ => self.advance(1),
        }
    }

    fn put(&mut self) {
        let mut put = Put::new("x");
        if self.tube.driver() == UTUBETTL {
            put = put.sub_queue(format!("{}", self.rng.next()));
        }
        let delay = if self.rng.one_in(3) { self.rng.below(300) } else { 0 };
        let id = self.tube.put(put.delay(ms(delay))).unwrap().id;
        let place = match delay {
            0 => Place::Ready { since: self.now },
            delay => Place::Delayed { until: self.now + delay },
        };
        self.tasks.insert(id, Task { place, attempts: 0 });
        self.day().puts += 1;
    }

    fn take(&mut self) {
        let Some(claim) = self.tube.try_take().unwrap() else { return };
        let id = claim.id();
        self.claims.insert(id, claim);
        let now = self.now;
        let task = self.tasks.get_mut(&id).unwrap();
        let Place::Ready { since } = task.place else { panic!("{id} is {task:?}") };
        task.place = Place::Taken { at: now, deadline: now + TTR };
        task.attempts += 1;
        let is_retry = task.attempts > 1;
        let day = self.day();
        day.takes += 1;
        day.waits.push(now - since);
        day.retried += u64::from(is_retry);
    }

    fn end_claim(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let at = self.rng.index(self.claims.len());
        let id = *self.claims.keys().nth(at).unwrap();
        let claim = self.claims.remove(&id).unwrap();
        let now = self.now;
        let task = self.tasks[&id];
        let Place::Taken { at, .. } = task.place else { panic!("{id} is {task:?}") };
        match self.rng.below(6) {
            0..=1 => {
                claim.ack().unwrap();
                self.tasks.remove(&id);
                let day = self.day();
                day.acks += 1;
                day.runs.push(now - at);
            }
            2 => {
                claim.fail(Failure::new("timeout", "why")).unwrap();
                self.day().failures += 1;
                self.give_back(id, 0, true);
            }
            3 => {
                let delay = self.rng.below(300);
                claim.release_in(ms(delay)).unwrap();
                self.give_back(id, delay, false);
            }
            4 => {
                claim.bury(Failure::new("bad", "why")).unwrap();
                self.day().failures += 1;
                self.tasks.get_mut(&id).unwrap().place = Place::Buried { at: now };
            }
            _ => {
                assert_eq!(self.tube.admin().revoke(id), Ok(1));
                let task = self.tasks.get_mut(&id).unwrap();
                task.attempts -= 1;
                task.place = Place::Ready { since: now };
            }
        }
    }

    /// A claim ends, and its task goes back or, after its last attempt, is buried.
    fn give_back(&mut self, id: u64, delay: u64, is_counted: bool) {
        let now = self.now;
        let task = self.tasks.get_mut(&id).unwrap();
        let is_spent = task.attempts >= ATTEMPTS;
        task.place = match delay {
            _ if is_spent => Place::Buried { at: now },
            0 => Place::Ready { since: now },
            delay => Place::Delayed { until: now + delay },
        };
        self.day().failures += u64::from(is_spent && !is_counted);
    }

    fn kick(&mut self) {
        let is_buried = |task: &Task| matches!(task.place, Place::Buried { .. });
        let buried = self.tasks.iter().filter(|(_, task)| is_buried(task)).map(|(id, _)| *id);
        let buried: Vec<u64> = buried.collect();
        if buried.is_empty() {
            return;
        }
        let id = buried[self.rng.index(buried.len())];
        if self.rng.one_in(3) {
            self.tube.delete(id).unwrap();
            self.tasks.remove(&id);
            return;
        }
        self.tube.kick(id).unwrap();
        self.tasks.insert(id, Task { place: Place::Ready { since: self.now }, attempts: 0 });
    }

    fn truncate(&mut self) {
        self.tube.admin().truncate().unwrap();
        self.tasks.clear();
        self.claims.clear();
    }

    /// Moves the clock to each moment at which something falls due, and past it.
    fn advance(&mut self, about: u64) {
        let end = self.now + self.rng.below(about + 1);
        while let Some((at, id)) = self.next_due().filter(|(at, _)| *at <= end) {
            self.move_to(at);
            let task = self.tasks[&id];
            match task.place {
                Place::Delayed { .. } => {
                    self.tasks.get_mut(&id).unwrap().place = Place::Ready { since: at };
                }
                _ => {
                    self.claims.remove(&id);
                    self.day().lost += 1;
                    self.give_back(id, 0, false);
                }
            }
        }
        self.move_to(end);
    }

    fn next_due(&self) -> Option<(u64, u64)> {
        let due = |task: &Task| match task.place {
            Place::Delayed { until } => Some(until),
            Place::Taken { deadline, .. } => Some(deadline),
            _ => None,
        };
        self.tasks.iter().filter_map(|(id, task)| Some((due(task)?, *id))).min()
    }

    fn move_to(&mut self, at: u64) {
        self.file.clock.advance(ms(at - self.now));
        self.now = at;
    }

    /// Closes the store and opens it again: claims end, and their attempts count.
    fn reopen(&mut self) {
        let temporary = self.store.tubes().unwrap()[0].temporary;
        for (id, _) in std::mem::take(&mut self.claims) {
            self.give_back(id, 0, false);
        }
        self.tube = {
            assert_sound(&self.store);
            stores::close(&self.store);
            self.store = self.file.open();
            self.store.find_tube("case").unwrap()
        };
        if temporary {
            self.tasks.clear();
            self.days.clear();
        }
    }

    fn check(&mut self) {
        let today = self.now / 86_400_000;
        self.days.retain(|day, _| day + u64::from(KEPT) > today);
        let mut expected = self.days.clone();
        for task in self.tasks.values() {
            if let Place::Buried { at } = task.place
                && let Some(day) = expected.get_mut(&(at / 86_400_000))
            {
                day.failed += 1;
            }
        }
        let first = self.first;
        let found = self.tube.query().days(first..=self.store.today().unwrap()).unwrap();
        let dates: Vec<_> = found.iter().map(|day| day.date).collect();
        let wanted: Vec<_> =
            expected.keys().map(|day| first.plus_days(i32::try_from(*day).unwrap())).collect();
        assert_eq!(dates, wanted);
        for (day, numbers) in found.iter().zip(expected.values()) {
            assert_eq!(counters(day), counters_of(numbers), "{}", day.date);
            compare(&day.wait, &numbers.waits);
            compare(&day.run, &numbers.runs);
            assert_eq!(self.tube.query().day(day.date).unwrap(), *day);
        }
    }
}

fn counters(day: &Day) -> [u64; 7] {
    [day.puts, day.takes, day.acks, day.failed, day.failures, day.lost, day.retried]
}

fn counters_of(it: &Numbers) -> [u64; 7] {
    [it.puts, it.takes, it.acks, it.failed, it.failures, it.lost, it.retried]
}

/// Compares a summary with all durations, in milliseconds.
#[expect(clippy::cast_precision_loss, reason = "deviations are compared roughly")]
fn compare(summary: &Summary, millis: &[u64]) {
    let count = millis.len() as u64;
    assert_eq!(summary.count, count);
    let durations: Vec<Duration> = millis.iter().map(|it| ms(*it)).collect();
    assert_eq!(summary.max, durations.iter().copied().max().unwrap_or_default());
    let nanos: u128 = durations.iter().map(Duration::as_nanos).sum();
    assert_eq!(summary.mean.as_nanos(), nanos.checked_div(u128::from(count)).unwrap_or(0));
    let mean = nanos as f64 / 1e9 / (count as f64).max(1.0);
    let squares: f64 = durations.iter().map(|it| (it.as_secs_f64() - mean).powi(2)).sum();
    let std = if count < 2 { 0.0 } else { (squares / (count as f64 - 1.0)).sqrt() };
    assert!((summary.std.as_secs_f64() - std).abs() <= 1e-6 * (1.0 + std), "{summary:?}");
    let mut rest = durations;
    for bin in summary.bins() {
        let before = rest.len();
        rest.retain(|it| *it < bin.from || bin.to.is_some_and(|to| *it >= to));
        assert_eq!((before - rest.len()) as u64, bin.count, "{bin:?}");
    }
    assert!(rest.is_empty(), "{rest:?} are in no bin");
}

#[test]
fn numbers_agree_with_an_oracle_at_random() {
    for seed in 0..amount(3, 10, 2000) {
        for driver in [FIFOTTL, UTUBETTL] {
            println!("seed {seed}");
            let mut run = Run::new(seed, driver);
            for _ in 0..150 {
                run.step();
                run.check();
            }
            assert_sound(&run.store);
        }
    }
    assert_eq!(DAY, ms(86_400_000));
}
