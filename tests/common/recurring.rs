//! A model of schedules in tubes without a capacity: which runs are put, left out and missed. Times
//! are microseconds since the beginning.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::collections::BTreeMap;
use std::time::Duration;

use tubewell::{Missed, Overlap, Put, Receipt, Result, Schedule, Tube};

use super::rng::Rng;

pub const SECOND: u64 = 1_000_000;
pub const KEYS: [&str; 3] = ["a", "b", "c"];
pub const TAGS: [&str; 3] = ["x", "y", "z"];

#[derive(Clone, Debug, PartialEq)]
pub struct Recurring {
    pub rule: Rule,
    pub next: u64,
    pub fired: Option<u64>,
    pub runs: u64,
    pub skipped: u64,
    pub terms: Terms,
    pub tags: Vec<String>,
    /// The number of its tube.
    pub tube: usize,
}

/// When its runs are, each a time after the one before.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    Every(u64),
    /// Each so many seconds, by a cron expression: at the multiples of this time, which divides a
    /// minute.
    Cron(u64),
}

/// When it ends, and what becomes of runs that are missed or overlap.
#[derive(Clone, Debug, PartialEq)]
pub struct Terms {
    pub times: Option<u64>,
    pub missed: Missed,
    pub within: Option<u64>,
    pub overlap: Overlap,
}

/// The number of its tube, and its tags.
pub type TaskOfRun = (usize, Vec<String>);

#[derive(Clone, Default)]
pub struct Model {
    pub now: u64,
    pub schedules: BTreeMap<&'static str, Recurring>,
    /// The runs that are not over, by their keys, and those that are buried.
    pub open: BTreeMap<String, TaskOfRun>,
    pub buried: BTreeMap<String, TaskOfRun>,
}

impl Model {
    /// Stores a schedule, or brings the one with this key in line.
    pub fn schedule(
        &mut self,
        key: &'static str,
        rule: Rule,
        terms: Terms,
        (tags, tube): (Vec<String>, usize),
    ) {
        let known = self.schedules.get(key);
        let new = (rule.first(self.now), None);
        let (next, fired) = known.map_or(new, |known| known.moments_with(rule, self.now));
        let schedule = Recurring {
            rule,
            next,
            fired,
            runs: known.map_or(0, |known| known.runs),
            skipped: known.map_or(0, |known| known.skipped),
            terms,
            tags,
            tube,
        };
        self.schedules.insert(key, schedule);
    }

    /// Changes a schedule, which goes on in this tube. False if there is none.
    pub fn change(&mut self, key: &str, change: Change, tube: usize) -> bool {
        let Some(known) = self.schedules.get_mut(key) else { return false };
        match change {
            Change::Rule(rule) => {
                (known.next, known.fired) = known.moments_with(rule, self.now);
                known.rule = rule;
            }
            Change::Tags(tags) => known.tags = tags,
        }
        known.tube = tube;
        true
    }

    /// Time passes while the store is open: each run is put at its moment.
    pub fn advance(&mut self, by: u64) {
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
    pub fn catch_up(&mut self) {
        for key in KEYS {
            while self.schedules.get(key).is_some_and(|schedule| schedule.next <= self.now) {
                self.fire(key);
            }
        }
    }

    /// One moment of a schedule that is due.
    fn fire(&mut self, key: &'static str) {
        let mut schedule = self.schedules.remove(key).unwrap();
        let interval = schedule.rule.interval();
        let late = (self.now - schedule.next) / interval;
        let due: Vec<u64> = (0..=late).map(|n| schedule.next + n * interval).collect();
        let terms = &schedule.terms;
        let newest = match terms.missed {
            Missed::All => due.len(),
            Missed::Latest(runs) => runs as usize,
            _ => 1,
        };
        let longest = if terms.missed == Missed::Skip { 60 * SECOND } else { u64::MAX };
        let within = terms.within.unwrap_or(u64::MAX).min(longest);
        let run = due
            .iter()
            .skip(due.len().saturating_sub(newest))
            .find(|moment| self.now - **moment <= within);
        let Some(run) = run.copied() else {
            schedule.next = due.last().unwrap() + interval;
            self.schedules.insert(key, schedule);
            return;
        };
        (schedule.next, schedule.fired) = (run + interval, Some(run));
        let last = format!("{key}-{}", schedule.runs);
        if schedule.terms.overlap == Overlap::Skip && self.open.contains_key(&last) {
            schedule.skipped += 1;
        } else {
            schedule.runs += 1;
            let task = (schedule.tube, schedule.tags.clone());
            self.open.insert(format!("{key}-{}", schedule.runs), task);
        }
        if schedule.terms.times != Some(schedule.runs) {
            self.schedules.insert(key, schedule);
        }
    }
}

impl Recurring {
    /// The next moment, and the last one that was due, with this rule from now on. None is due now.
    fn moments_with(&self, rule: Rule, now: u64) -> (u64, Option<u64>) {
        match (self.rule, rule, self.fired) {
            _ if rule == self.rule => (self.next, self.fired),
            (Rule::Every(_), Rule::Every(interval), Some(fired)) => (fired + interval, self.fired),
            (Rule::Every(_), Rule::Every(_), None) => (self.next, None),
            (Rule::Cron(_), Rule::Every(interval), _) => (now + interval, None),
            (Rule::Every(_), Rule::Cron(_), _) => (rule.first(now), None),
            (Rule::Cron(_), Rule::Cron(_), _) => (rule.first(now), self.fired),
        }
    }
}

impl Rule {
    /// An interval or, with the feature `cron`, in one half of the cases an expression with one of
    /// these times.
    pub fn draw(rng: &mut Rng, interval: u64, cron: &[u64]) -> Rule {
        if cfg!(feature = "cron") && rng.below(2) == 0 {
            return Rule::Cron(cron[rng.index(cron.len())]);
        }
        Rule::Every(interval)
    }

    pub fn interval(self) -> u64 {
        let (Rule::Every(interval) | Rule::Cron(interval)) = self;
        interval
    }

    /// The first moment of a schedule that is stored now.
    fn first(self, now: u64) -> u64 {
        match self {
            Rule::Every(_) => now,
            Rule::Cron(interval) => (now / interval + 1) * interval,
        }
    }

    pub fn schedule(self, key: &str) -> Schedule {
        match self {
            Rule::Every(interval) => Schedule::every(key, Duration::from_micros(interval)),
            #[cfg(feature = "cron")]
            Rule::Cron(_) => Schedule::cron(key, self.expression(), "UTC"),
            #[cfg(not(feature = "cron"))]
            Rule::Cron(_) => unreachable!(),
        }
    }

    fn expression(self) -> String {
        format!("*/{} * * * * *", self.interval() / SECOND)
    }
}

impl Terms {
    /// Ends after more runs than there were. `unit`: how late runs may be is some of these.
    pub fn draw(rng: &mut Rng, runs: u64, unit: u64) -> Terms {
        let missed = match rng.below(5) {
            0 => Missed::All,
            1 => Missed::Skip,
            n => Missed::Latest(u32::try_from(n - 1).unwrap()),
        };
        let within = (rng.below(3) == 0).then(|| rng.below(300) * unit);
        let overlap = if rng.below(2) == 0 { Overlap::Allow } else { Overlap::Skip };
        let times = (rng.below(4) == 0).then(|| 1 + rng.below(6));
        Terms { times: times.filter(|times| *times > runs), missed, within, overlap }
    }

    pub fn apply(&self, schedule: Schedule) -> Schedule {
        let schedule = schedule.missed(self.missed).overlap(self.overlap);
        let within = self.within.map(Duration::from_micros);
        let schedule = within.into_iter().fold(schedule, Schedule::within);
        self.times.into_iter().fold(schedule, Schedule::times)
    }
}

/// A change of a stored schedule: when its runs are, or the tags of their task.
#[derive(Debug)]
pub enum Change {
    Rule(Rule),
    Tags(Vec<String>),
}

impl Change {
    pub fn draw(rng: &mut Rng, rule: Rule) -> Change {
        if rng.below(2) == 0 { Change::Rule(rule) } else { Change::Tags(draw_tags(rng)) }
    }

    pub fn make(&self, tube: &Tube, key: &str) -> Result<Receipt> {
        match self {
            Change::Rule(rule) => tube.schedules().change(rule.schedule(key)),
            Change::Tags(tags) => {
                let put = tags.iter().fold(Put::new("changed"), |put, tag| put.tag(tag.as_str()));
                tube.schedules().change_task(key, put)
            }
        }
    }
}

pub fn draw_tags(rng: &mut Rng) -> Vec<String> {
    TAGS.iter().filter(|_| rng.below(2) == 0).map(ToString::to_string).collect()
}
