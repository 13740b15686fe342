//! Outages, crashes and closes; the comparison with the model, and what must be left after them.

use std::collections::BTreeMap;

use tubewell::{Durability, Filter, TaskState};

use super::{Run, RunNo, Simulation};
use crate::recurring::TAGS;
use crate::seeds::Checked;
use crate::world::{Upset, since_begin};

const STATES: [TaskState; 3] = [TaskState::Ready, TaskState::Taken, TaskState::Buried];

impl Checked for Simulation {
    fn learn(&mut self, upset: Upset) {
        let is_exact = match upset {
            Upset::Close => !self.world.is_unsure,
            Upset::Crash(_) => self.world.is_flushed && !self.world.is_unsure,
            Upset::Outage => false,
        };
        self.model.now = self.world.now;
        let is_late = |next: u64, interval: u64| next + interval <= self.model.now;
        if is_exact && self.model.schedules.values().any(|it| is_late(it.next, it.rule.interval()))
        {
            self.world.cover("missed run");
        }
        self.world.settle();
        self.model.catch_up();
        self.over.retain(|_, nth| upset.keeps_all(self.durability[*nth]));
        self.check_runs();
        if is_exact {
            self.world.cover("exact");
            self.compare();
        } else {
            self.world.cover("learned");
            self.begin_anew();
        }
    }

    fn compare(&self) {
        let mut schedules = BTreeMap::new();
        for (nth, tube) in self.world.tubes.iter().enumerate() {
            for stored in tube.schedules().list(None, 10).unwrap().items {
                let counts = (stored.runs, stored.skipped);
                let view = (since_begin(stored.next), counts, stored.tags, nth);
                schedules.insert(stored.key, view);
            }
        }
        let expected = self.model.schedules.iter().map(|(key, of)| {
            ((*key).to_owned(), (of.next, (of.runs, of.skipped), of.tags.clone(), of.tube))
        });
        assert_eq!(schedules, expected.collect(), "{:?}", self.durability);
        let (buried, open): (Vec<Run>, Vec<Run>) =
            self.runs().into_values().partition(|run| run.state == TaskState::Buried);
        let by_key = |runs: Vec<Run>| -> BTreeMap<String, _> {
            runs.into_iter().map(|run| (run.key, (run.tube, run.tags))).collect()
        };
        let (open, buried) = (by_key(open), by_key(buried));
        assert_eq!((&open, &buried), (&self.model.open, &self.model.buried));
        for tag in TAGS {
            let tagged = self.world.store.list(Filter::new().tag(tag), None, 10_000).unwrap().items;
            let all = open.values().chain(buried.values());
            let count = all.filter(|(_, tags)| tags.iter().any(|own| own == tag)).count();
            assert_eq!(tagged.len(), count, "the tasks with the tag {tag}");
        }
    }
}

impl Simulation {
    /// Checks that the runs of each schedule are those that it has put, each once.
    fn check_runs(&self) {
        let runs = self.runs();
        for (no, run) in &runs {
            assert!(!self.over.contains_key(&run.id), "{no:?} is back: {run:?}");
            let next = runs.range((no.0, no.1 + 1)..(no.0 + 1, 0)).next();
            assert!(next.is_none_or(|(_, next)| next.moment > run.moment), "{run:?}, {next:?}");
        }
        for (nth, tube) in self.world.tubes.iter().enumerate() {
            for stored in tube.schedules().list(None, 10).unwrap().items {
                let is_put = |no: RunNo| runs.contains_key(&no) || self.ended.contains(&no);
                for number in 1..=stored.runs {
                    assert!(is_put((stored.id, number)), "run {number} of {stored:?} is lost");
                }
                let of_schedule = (stored.id, 0)..(stored.id + 1, 0);
                let last = runs.range(of_schedule.clone()).next_back();
                assert!(last.is_none_or(|(no, _)| no.1 <= stored.runs), "{stored:?}: {last:?}");
                // One that was seen is flushed.
                for (no, (id, of)) in self.seen.range(of_schedule) {
                    if self.is_flush(nth) && self.is_flush(*of) {
                        assert!(no.1 <= stored.runs, "{no:?} was there, {stored:?}");
                        let run = runs.get(no);
                        assert!(run.is_none_or(|run| run.id == *id), "{no:?} is put twice");
                    }
                }
            }
        }
    }

    fn is_flush(&self, nth: usize) -> bool {
        self.durability[nth] == Durability::Flush
    }

    /// Removes the schedules, and continues with the runs that are there.
    fn begin_anew(&mut self) {
        for tube in &self.world.tubes {
            for stored in tube.schedules().list(None, 10).unwrap().items {
                tube.schedules().remove(&stored.key).unwrap();
            }
        }
        self.model.schedules.clear();
        self.model.open.clear();
        self.model.buried.clear();
        for run in self.runs().into_values() {
            let is_buried = run.state == TaskState::Buried;
            let runs = if is_buried { &mut self.model.buried } else { &mut self.model.open };
            runs.insert(run.key, (run.tube, run.tags));
        }
        self.world.store.flush().unwrap();
    }

    /// All tasks of runs.
    pub(super) fn runs(&self) -> BTreeMap<RunNo, Run> {
        let mut runs = BTreeMap::new();
        for (tube, handle) in self.world.tubes.iter().enumerate() {
            for info in
                STATES.iter().flat_map(|it| handle.query().list(*it, None, 10_000).unwrap().items)
            {
                let by = info.spawned_by.unwrap();
                let run = Run {
                    id: info.id,
                    key: info.key.unwrap(),
                    tube,
                    tags: info.tags,
                    state: info.state,
                    moment: since_begin(by.moment),
                };
                assert!(run.key.ends_with(&format!("-{}", by.run)), "{run:?}");
                let again = runs.insert((by.schedule, by.run), run);
                assert_eq!(again, None, "the run {by:?} is put twice");
            }
        }
        runs
    }
}
