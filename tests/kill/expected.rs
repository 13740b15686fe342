//! The contents that the store must have after the reports of all runs, and their comparison with
//! the store.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use tubewell::{Claim, ClaimToken, Error, FIFO, Outcome, Store, TaskState, TubeOptions};

use crate::abort_points::{AbortPoint, CustomDriver};
use crate::body;
use crate::listing::tasks_in;
use crate::rng::Rng;

/// A tube with more tasks than this is emptied before the next run.
const MAX_TASKS: u64 = 200;

/// Whether a change has been made. `Maybe`: its call had begun and not returned.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
enum Certainty {
    #[default]
    No,
    Maybe,
    Yes,
}

#[derive(Clone, Debug, Default)]
struct Task {
    tube: String,
    id: u64,
    removed: Certainty,
    buried: Certainty,
    /// The version of its body.
    version: u64,
    /// The version that a call was about to store.
    next_version: Option<u64>,
    parked: Certainty,
    /// The token of its claim, if it was parked in this run.
    token: Option<ClaimToken>,
}

/// The tasks of one `put_many`.
#[derive(Clone, Copy, Debug)]
struct Group {
    count: u64,
    removed: Certainty,
}

#[derive(Debug, Default)]
pub struct Expected {
    run: u64,
    tasks: BTreeMap<String, Task>,
    groups: BTreeMap<String, Group>,
    /// The labels of this run's relaxed puts, in order.
    relaxed: Vec<String>,
    /// How many of them are certainly in the file.
    relaxed_in_file: usize,
    max_id: Option<u64>,
    /// How many puts the tubes with metrics have counted, as the last run has left them.
    counted: BTreeMap<String, u64>,
    compared: u64,
    unreported: u64,
    relaxed_lost: u64,
    replaced: u64,
    resumed: u64,
}

impl Expected {
    pub fn summary(&self) -> String {
        format!(
            "{} tasks compared, {} put without a report, {} relaxed puts lost, {} bodies replaced, \
             {} claims resumed",
            self.compared, self.unreported, self.relaxed_lost, self.replaced, self.resumed
        )
    }

    /// Adds the reports of a child.
    pub fn add_reports(&mut self, run: u64, reported: &[String]) {
        self.run = run;
        for line in reported {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["p", tube, label, id] => self.add_task(tube, label, id.parse().unwrap()),
                ["t", tube, label, id, version] => {
                    self.add_task(tube, label, id.parse().unwrap());
                    let task = self.task(label);
                    assert_eq!(
                        task.version,
                        version.parse::<u64>().unwrap(),
                        "the taken body of {label}"
                    );
                }
                ["v", label, version] => {
                    self.task(label).next_version = Some(version.parse().unwrap());
                }
                ["V", label, version] => {
                    let task = self.task(label);
                    (task.version, task.next_version) = (version.parse().unwrap(), None);
                    self.replaced += 1;
                }
                ["r", label, id] => {
                    self.max_id = self.max_id.max(id.parse().ok());
                    self.relaxed.push(label.to_owned());
                }
                ["s", _] => self.relaxed_in_file = self.relaxed.len(),
                ["m", label, count] => {
                    let group = Group { count: count.parse().unwrap(), removed: Certainty::No };
                    self.groups.insert(label.to_owned(), group);
                }
                ["x" | "X", "bulk"] => {
                    let removed = if words[0] == "x" { Certainty::Maybe } else { Certainty::Yes };
                    for group in self.groups.values_mut() {
                        group.removed = group.removed.max(removed);
                    }
                }
                ["f", label] => self.task(label).removed = Certainty::Maybe,
                ["F", label] => self.task(label).removed = Certainty::Yes,
                ["b", label] => self.task(label).buried = Certainty::Maybe,
                ["B", label] => self.task(label).buried = Certainty::Yes,
                ["h", label] => {
                    let task = self.task(label);
                    (task.parked, task.token) = (Certainty::Maybe, None);
                }
                ["u", label] => self.task(label).parked = Certainty::Maybe,
                ["H", label, token] => {
                    let task = self.task(label);
                    (task.parked, task.token) = (Certainty::Yes, Some(token.parse().unwrap()));
                }
                ["U", label] => self.task(label).parked = Certainty::No,
                ["k" | "K", tube] => {
                    let buried = if words[0] == "k" { Certainty::Maybe } else { Certainty::No };
                    let of_tube =
                        |task: &&mut Task| task.tube == tube && task.buried != Certainty::No;
                    self.tasks.values_mut().filter(of_tube).for_each(|task| task.buried = buried);
                }
                ["d" | "D", _] | ["c"] => {}
                _ => panic!("not a report: {line:?}"),
            }
        }
    }

    fn task(&mut self, label: &str) -> &mut Task {
        self.tasks.get_mut(label).unwrap_or_else(|| panic!("{label} was never taken"))
    }

    /// Adds a task that was certainly put: its put was acknowledged, or it was taken.
    fn add_task(&mut self, tube: &str, label: &str, id: u64) {
        self.max_id = self.max_id.max(Some(id));
        let new = Task { tube: tube.to_owned(), id, ..Task::default() };
        let task = self.tasks.entry(label.to_owned()).or_insert(new);
        assert_eq!((task.id, &*task.tube), (id, tube), "{label}");
    }

    /// Opens the store that a child has left, compares it, and prepares it for the next run.
    pub fn check(&mut self, path: &Path, rng: &mut Rng) {
        let reported = self.max_id;
        let driver = CustomDriver(AbortPoint::parse("none"));
        let store = Store::options().driver(driver).open(path).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0], "verify");
        let mut found = BTreeMap::new();
        for tube in store.tubes().unwrap() {
            list_tasks(&store, &tube.name, &mut found);
        }
        self.compared += found.len() as u64;
        self.max_id = self.max_id.max(found.values().map(|it| it.id).max());
        self.compare_numbers(&store);
        self.compare_groups(&mut found);
        self.compare_relaxed(&mut found);
        self.compare_tokens(&store);
        self.compare_tasks(found);
        self.end_parked_claims(&store, rng);
        let probe = store.open_tube("probe", TubeOptions::new().driver(FIFO)).unwrap();
        let id = probe.put("an id").unwrap().id;
        assert!(Some(id) > self.max_id, "id {id} after {:?}, {reported:?} reported", self.max_id);
        self.max_id = Some(id);
        probe.delete(id).unwrap();
        self.empty_large_tubes(&store);
        if rng.one_in(2) {
            store.close().unwrap();
        }
    }

    /// A killed run may forget what it has counted, but not what was written before, and it counts
    /// nothing that did not happen.
    fn compare_numbers(&mut self, store: &Store) {
        let today = store.today().unwrap();
        for info in store.tubes().unwrap().into_iter().filter(|info| info.metrics > 0) {
            let tube = store.find_tube(&info.name).unwrap();
            let days = tube.query().days(today.plus_days(-999)..=today).unwrap();
            let puts = days.iter().map(|day| day.puts).sum();
            let before = self.counted.insert(info.name.clone(), puts).unwrap_or(0);
            let next_id = store.admin().next_id().unwrap();
            assert!((before..=next_id).contains(&puts), "{}: {puts} after {before}", info.name);
            for day in &days {
                assert_eq!((day.wait.count, day.run.count), (day.takes, day.acks));
            }
        }
    }

    fn compare_tasks(&mut self, found: BTreeMap<String, Found>) {
        for (label, task) in &mut self.tasks {
            let state = found.get(label).map(|it| it.state);
            let matches = match state {
                None => task.removed != Certainty::No,
                Some(state) => {
                    let buried = task.buried == Certainty::Maybe
                        || (task.buried == Certainty::Yes) == (state == TaskState::Buried);
                    let parked = task.parked == Certainty::Maybe
                        || (task.parked == Certainty::Yes) == (state == TaskState::Taken);
                    task.removed != Certainty::Yes && buried && parked
                }
            };
            assert!(matches, "{label} is found {state:?}, but reported {task:?}");
            if let Some(it) = found.get(label) {
                let has_version =
                    it.version == task.version || Some(it.version) == task.next_version;
                assert!(has_version, "{label} has body {}, but reported {task:?}", it.version);
                (task.version, task.next_version) = (it.version, None);
            }
            task.parked =
                if state == Some(TaskState::Taken) { Certainty::Yes } else { Certainty::No };
            task.removed = if state.is_none() { Certainty::Yes } else { Certainty::No };
            task.buried =
                if state == Some(TaskState::Buried) { Certainty::Yes } else { Certainty::No };
        }
        for (label, it) in found {
            // A task without a report: the process died during its put.
            let run = label.split('.').next().unwrap().parse::<u64>().unwrap();
            let reported = self.tasks.get(&label);
            assert!(reported.is_some() || run == self.run, "{label} was put in no run: {it:?}");
            self.unreported += u64::from(reported.is_none());
            let buried = it.state == TaskState::Buried;
            let is_new = !buried && it.version == 0 && it.state != TaskState::Taken;
            assert!(reported.is_some() || is_new, "{label} was changed without a report: {it:?}");
            self.add_task(&it.tube, &label, it.id);
        }
        self.tasks.retain(|_, task| task.removed != Certainty::Yes);
    }

    /// No token of a claim that has certainly ended resumes it.
    fn compare_tokens(&self, store: &Store) {
        for (label, task) in &self.tasks {
            let has_ended = task.removed == Certainty::Yes || task.parked == Certainty::No;
            if let Some(token) = task.token.as_ref().filter(|_| has_ended) {
                let resumed = store.resume_claim(token);
                assert!(
                    matches!(resumed, Err(Error::NotTaken { .. })),
                    "{label}: {token:?}: {resumed:?}"
                );
            }
        }
    }

    /// Resumes and ends the claims that are parked. One whose token was not reported is revoked.
    fn end_parked_claims(&mut self, store: &Store, rng: &mut Rng) {
        for (label, task) in &mut self.tasks {
            let token = task.token.take();
            if std::mem::take(&mut task.parked) == Certainty::No {
                continue;
            }
            let Some(token) = token else {
                assert_eq!(store.find_tube(&task.tube).unwrap().admin().revoke(task.id), Ok(1));
                continue;
            };
            let claim = store.resume_claim(&token).unwrap();
            assert_eq!(body::label(claim.body()).as_ref(), Some(label));
            self.resumed += 1;
            if rng.one_in(2) {
                claim.ack().unwrap();
                task.removed = Certainty::Yes;
            }
        }
        self.tasks.retain(|_, task| task.removed != Certainty::Yes);
    }

    /// Either all tasks of a group are in the store or none. A truncate removes all groups or none.
    fn compare_groups(&mut self, found: &mut BTreeMap<String, Found>) {
        let mut present: BTreeMap<String, (u64, u64)> = BTreeMap::new();
        for label in found.iter().filter(|(_, it)| it.tube == "bulk").map(|(label, _)| label) {
            let mut parts = label.rsplitn(3, '.');
            let count = parts.next().unwrap().parse().unwrap();
            let group = parts.nth(1).unwrap().to_owned();
            present.entry(group).or_insert((0, count)).0 += 1;
        }
        found.retain(|_, it| it.tube != "bulk");
        for (group, (listed, count)) in &present {
            assert_eq!(listed, count, "only a part of group {group}");
            let of_this_run = group.starts_with(&format!("{}.", self.run));
            assert!(self.groups.contains_key(group) || of_this_run, "{group} came back");
        }
        let mut maybe_truncated = BTreeSet::new();
        for (name, group) in &self.groups {
            let is_present = present.contains_key(name);
            match group.removed {
                Certainty::No => assert!(is_present, "{name} of {} is lost", group.count),
                Certainty::Yes => assert!(!is_present, "{name} came back"),
                Certainty::Maybe => drop(maybe_truncated.insert(is_present)),
            }
        }
        assert!(maybe_truncated.len() < 2, "a truncate removed only a part of the groups");
        let left = |(name, (_, count))| (name, Group { count, removed: Certainty::No });
        self.groups = present.into_iter().map(left).collect();
    }

    /// A kill may lose the latest relaxed puts. It loses none before a flush or a written put that
    /// was acknowledged, and none before one that is present.
    fn compare_relaxed(&mut self, found: &mut BTreeMap<String, Found>) {
        let prefix = format!("{}.", self.run);
        let mut numbers: Vec<u64> = found
            .iter()
            .filter(|(label, it)| it.tube == "relaxed" && label.starts_with(&prefix))
            .map(|(label, _)| label.rsplit('.').next().unwrap().parse().unwrap())
            .collect();
        numbers.sort_unstable();
        assert!(numbers.iter().copied().eq(0..numbers.len() as u64), "a gap: {numbers:?}");
        let lost = self.relaxed.len().saturating_sub(numbers.len());
        let kept = self.relaxed.len() - lost;
        assert!(kept >= self.relaxed_in_file, "{numbers:?} of {:?}", self.relaxed);
        self.relaxed_lost += lost as u64;
        (self.relaxed, self.relaxed_in_file) = (Vec::new(), 0);
    }

    /// Removes the tasks of large tubes, which would make each round slower than the last.
    fn empty_large_tubes(&mut self, store: &Store) {
        for info in store.tubes().unwrap() {
            let tube = store.find_tube(&info.name).unwrap();
            if tube.statistics().unwrap().tasks.total <= MAX_TASKS {
                continue;
            }
            if info.name == "bulk" {
                tube.admin().truncate().unwrap();
                self.groups.clear();
                continue;
            }
            let claims = tube.take_many(10_000, std::time::Duration::ZERO).unwrap();
            for claim in &claims {
                let label = body::label(claim.body()).unwrap();
                assert!(self.tasks.remove(&label).is_some(), "{label} is not expected");
            }
            for result in Claim::end_many(claims, |_| Outcome::done()).unwrap() {
                result.unwrap();
            }
        }
    }
}

/// A task in the store.
#[derive(Debug)]
struct Found {
    tube: String,
    state: TaskState,
    id: u64,
    /// The version of its body.
    version: u64,
}

fn list_tasks(store: &Store, name: &str, found: &mut BTreeMap<String, Found>) {
    let tube = store.find_tube(name).unwrap();
    // Delayed before ready: a task that becomes due meanwhile is listed twice, never omitted.
    for state in [TaskState::Delayed, TaskState::Buried, TaskState::Ready, TaskState::Taken] {
        for info in tasks_in(&tube, state) {
            let task = tube.query().task(info.id).unwrap();
            let (label, version) = body::label_and_version(&task.body)
                .unwrap_or_else(|| panic!("{name}: the body of {} has changed", info.id));
            let it = Found { tube: name.to_owned(), state, id: info.id, version };
            let earlier = found.insert(label, it);
            assert!(earlier.is_none_or(|it| it.id == info.id), "{} twice", info.id);
        }
    }
}
