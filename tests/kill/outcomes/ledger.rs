//! What the parent knows of the results of the workers, and its comparison with the store.

use std::collections::BTreeMap;
use std::path::Path;

use tubewell::{Ending, Store, TaskState, Tube};

use super::{TUBES, word_for};
use crate::body;
use crate::listing::tasks_in;

/// What the parent knows of a task that was to end with a result. The numbers are those of reports.
#[derive(Clone, Copy, Debug)]
struct Task {
    began: u64,
    /// When its end was acknowledged.
    ended: Option<u64>,
    /// It was put back as done, so that it may not exist before its end.
    is_restored: bool,
    may_be_forgotten: bool,
    is_forgotten: bool,
}

impl Task {
    fn begun(began: u64) -> Task {
        let (may_be_forgotten, is_forgotten) = (false, false);
        Task { began, ended: None, is_restored: false, may_be_forgotten, is_forgotten }
    }
}

/// The results of all runs.
#[derive(Debug, Default)]
pub struct Ledger {
    tasks: BTreeMap<(String, u64), Task>,
    reports: u64,
    acknowledged: u64,
    /// Ends that were stored and not reported: the worker died in between.
    unreported: u64,
    forgotten: u64,
    restored: u64,
}

impl Ledger {
    pub fn summary(&self) -> String {
        let Ledger { acknowledged, unreported, forgotten, restored, .. } = self;
        format!(
            "{acknowledged} results, {unreported} without a report, {forgotten} forgotten, \
             {restored} tasks to restore"
        )
    }

    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    pub fn add_reports(&mut self, reported: &[String]) {
        for line in reported {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["c"] = words[..] {
                continue;
            }
            let [letter, tube, id] = words[..] else { panic!("not a report: {line:?}") };
            let key = (tube.to_owned(), id.parse().unwrap());
            self.reports += 1;
            let now = self.reports;
            if letter == "f" || letter == "r" {
                let is_restored = letter == "r";
                self.restored += u64::from(is_restored);
                let task = Task { is_restored, ..Task::begun(now) };
                let earlier = self.tasks.insert(key, task);
                // A task whose worker was killed is taken again.
                let again = earlier.is_none_or(|earlier| earlier.ended.is_none());
                assert!(again || tube.starts_with("relaxed"), "{line:?} after {earlier:?}");
                continue;
            }
            // A listed task is one that this ledger has, or one that a thread is about to report.
            let Some(task) = self.tasks.get_mut(&key) else { panic!("{line:?} of no task") };
            match letter {
                "F" => {
                    task.ended = Some(now);
                    self.acknowledged += 1;
                }
                "g" => task.may_be_forgotten = true,
                "G" => {
                    task.is_forgotten = true;
                    self.forgotten += 1;
                }
                _ => panic!("not a report: {line:?}"),
            }
        }
    }

    /// Opens the store that the workers have left, and compares its kept tasks with the ledger.
    pub fn check(&mut self, path: &Path) {
        let store = Store::open(path).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        for (name, count) in TUBES {
            let Ok(tube) = store.find_tube(name) else { continue };
            let kept = done_tasks(&tube);
            let statistics = tube.statistics().unwrap();
            assert_eq!(statistics.tasks.kept, kept.len() as u64, "{name}");
            assert!(count.is_none_or(|most| kept.len() as u64 <= most), "{name}: {kept:?}");
            for id in &kept {
                self.check_kept(&tube, *id);
            }
            self.check_missing(&tube, count, &kept);
            // The order of the ends is known now.
            self.tasks.retain(|(of, _), _| of != name);
            for id in kept {
                self.reports += 1;
                let task = Task { ended: Some(self.reports), ..Task::begun(self.reports) };
                self.tasks.insert((name.to_owned(), id), task);
            }
        }
    }

    /// A kept task has its body and its result.
    fn check_kept(&mut self, tube: &Tube, id: u64) {
        let name = tube.name();
        let task = self.tasks.get(&(name.to_owned(), id));
        let at = format!("task {id} of {name}: {task:?}");
        let may_be_kept = |task: &Task| !task.is_forgotten || name.starts_with("relaxed");
        assert!(task.is_some_and(may_be_kept), "{at}");
        self.unreported += u64::from(task.is_some_and(|task| task.ended.is_none()));
        let ending = tube.ending(id).unwrap();
        assert_eq!(word_for(ending.as_ref(), name, id), "done-with-result", "{at}");
        assert_eq!(
            body::label(&tube.query().task(id).unwrap().body).as_deref(),
            Some(name),
            "{at}"
        );
    }

    /// A task that is not kept was forgotten, has not ended, or its tube keeps newer ones.
    fn check_missing(&self, tube: &Tube, count: Option<u64>, kept: &[u64]) {
        let name = tube.name();
        let of_tube = || self.tasks.iter().filter(|((of, _), _)| of == name);
        for ((_, id), task) in of_tube().filter(|((_, id), _)| !kept.contains(id)) {
            let at = format!("task {id} of {name}: {task:?}");
            if task.is_restored && task.ended.is_none() {
                // The worker died before, or the id was used: of this task, or of another tube.
                continue;
            }
            // It was put with a flush or a write, and ends with its result only.
            let outcome = tube.ending(*id).unwrap();
            let has_ended = match outcome {
                None | Some(Ending::Buried { failure: None }) => false,
                Some(Ending::Gone) => true,
                other => panic!("{at}, {other:?}"),
            };
            if name.starts_with("relaxed") {
                continue;
            }
            assert!(has_ended || task.ended.is_none(), "an ended task came back: {at}");
            if !has_ended || task.may_be_forgotten {
                continue;
            }
            let may_be_newer = |other: &Task| other.ended.is_none_or(|ended| ended > task.began);
            let newer = of_tube().filter(|((_, of), other)| of != id && may_be_newer(other));
            let most = count.unwrap_or(u64::MAX);
            assert!(newer.count() as u64 >= most, "the result is lost: {at}");
        }
    }
}

/// The done tasks of a tube, the oldest first.
fn done_tasks(tube: &Tube) -> Vec<u64> {
    tasks_in(tube, TaskState::Done).iter().map(|task| task.id).collect()
}
