//! Schedules in a process that is killed.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::{FIFO, Missed, Overlap, Schedule, TaskInfo, TaskState, Tube, TubeOptions};

use super::process::{ChildProcess, Job, ReportWriter};
use super::rng::Rng;
use super::support::{StoreFile, assert_sound, ms, secs};
use crate::stores;

const MINUTE: Duration = Duration::from_secs(60);

/// In the child: takes and acks runs, and reports the number of each after its ack.
pub fn work_on_runs(tube: &Tube, reports: &ReportWriter) {
    loop {
        let claim = tube.take().unwrap();
        let run = tube.query().task(claim.id()).unwrap().info.spawned_by.unwrap().run;
        claim.ack().unwrap();
        reports.write(&run.to_string());
    }
}

/// In the child: stores the same schedules at each start, reports each run that it takes, and then
/// acks it.
pub fn work_on_same_schedules(tube: &Tube, reports: &ReportWriter) {
    for schedule in same_schedules() {
        tube.schedule(schedule, "").unwrap();
    }
    reports.write("stored");
    loop {
        let claim = tube.take().unwrap();
        reports.write(&Run::of(&tube.query().task(claim.id()).unwrap().info).to_text());
        claim.ack().unwrap();
    }
}

const INTERVAL: Duration = ms(5);

fn same_schedules() -> Vec<Schedule> {
    vec![
        Schedule::every("all", INTERVAL).missed(Missed::All),
        Schedule::every("latest", INTERVAL).missed(Missed::Latest(1)),
        #[cfg(feature = "cron")]
        Schedule::cron("cron", "* * * * * *", "UTC").missed(Missed::All),
    ]
}

/// A run that was put: the key and the id of its schedule, its number, the id of its task, its moment,
/// and when it was put.
#[derive(Clone, Debug, PartialEq)]
struct Run {
    key: String,
    numbers: [u64; 5],
}

impl Run {
    fn of(info: &TaskInfo) -> Run {
        let run = info.spawned_by.unwrap();
        let micros = |time: SystemTime| {
            u64::try_from(time.duration_since(UNIX_EPOCH).unwrap().as_micros()).unwrap()
        };
        let key = info.key.as_ref().unwrap().split('-').next().unwrap().to_owned();
        let (moment, put_at) = (micros(run.moment), micros(info.put_at));
        Run { key, numbers: [run.schedule, run.run, info.id, moment, put_at] }
    }

    fn to_text(&self) -> String {
        let numbers = self.numbers.map(|number| number.to_string());
        format!("{} {}", self.key, numbers.join(" "))
    }

    fn parse(text: &str) -> Run {
        let (key, numbers) = text.split_once(' ').unwrap();
        let numbers: Vec<u64> = numbers.split(' ').map(|it| it.parse().unwrap()).collect();
        Run { key: key.to_owned(), numbers: numbers.try_into().unwrap() }
    }
}

/// The runs that are still there.
fn ready_runs(tube: &Tube) -> Vec<Run> {
    let (mut runs, mut after) = (Vec::new(), None);
    loop {
        let page = tube.query().list(TaskState::Ready, after, 1000).unwrap();
        runs.extend(page.items.iter().map(Run::of));
        after = page.next;
        if after.is_none() {
            return runs;
        }
    }
}

/// Checks the runs of a schedule, by their numbers.
fn check_moments(key: &str, runs: &BTreeMap<u64, Run>) {
    let last = *runs.keys().next_back().unwrap();
    assert_eq!(runs.len() as u64, last, "{key}: a run is lost");
    let schedules: BTreeSet<u64> = runs.values().map(|run| run.numbers[0]).collect();
    assert_eq!(schedules.len(), 1, "{key}: it is the same schedule all the time");
    let moments: Vec<u64> = runs.values().map(|run| run.numbers[3]).collect();
    let interval = if key == "cron" { secs(1) } else { INTERVAL };
    let interval = u64::try_from(interval.as_micros()).unwrap();
    for (before, after) in moments.iter().zip(&moments[1..]) {
        let by = after.checked_sub(*before).unwrap();
        let is_next = if key == "latest" { by > 0 && by % interval == 0 } else { by == interval };
        assert!(is_next, "{key}: {after} follows {before}");
    }
    if key == "latest" {
        for run in runs.values() {
            let [.., moment, put_at] = run.numbers;
            assert!((moment..moment + interval).contains(&put_at), "{run:?} is not the newest one");
        }
    }
}

#[test]
fn kills_neither_miss_nor_double_a_moment_of_the_same_schedules() {
    let file = StoreFile::new();
    let store = stores::open(file.path());
    store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    stores::close(&store);
    let (mut rng, mut reported) = (Rng::new(5), Vec::new());
    for run in 1..=10 {
        let job = Job { mode: "jobs/same".into(), path: file.path(), seed: 0, run };
        let mut child = ChildProcess::start(&job);
        for _ in 0..=rng.below(60) {
            child.next_line(MINUTE).unwrap();
        }
        let lines = child.kill();
        reported.extend(lines.iter().filter(|line| *line != "stored").map(|line| Run::parse(line)));
    }
    let store = stores::open(file.path());
    let tube = store.find_tube("case").unwrap();
    let put: Vec<_> = tube.schedules().list(None, 9).unwrap().items;
    for stored in &put {
        tube.schedules().remove(&stored.key).unwrap();
    }
    assert_sound(&store);
    let mut runs: BTreeMap<String, BTreeMap<u64, Run>> = BTreeMap::new();
    for run in reported.into_iter().chain(ready_runs(&tube)) {
        // A run that was taken and not acked was there again, as the same task.
        let of_schedule = runs.entry(run.key.clone()).or_default();
        let known = of_schedule.entry(run.numbers[1]).or_insert_with(|| run.clone());
        assert_eq!(*known, run);
    }
    for stored in put {
        let runs = runs.remove(&stored.key).unwrap_or_default();
        // The open store may have put more until it was unscheduled.
        assert!(runs.len() as u64 >= stored.runs, "{stored:?}: {} runs", runs.len());
        if !runs.is_empty() {
            check_moments(&stored.key, &runs);
        }
    }
    assert_eq!(runs, BTreeMap::new());
}

/// Each run is put once: it is acked, or still there, over many kills.
#[test]
fn kill_neither_loses_nor_doubles_a_run() {
    let file = StoreFile::new();
    let store = stores::open(file.path());
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    let every = |key: &str| Schedule::every(key, Duration::from_millis(2));
    tube.schedule(every("R").missed(Missed::All), "run").unwrap();
    drop(tube);
    stores::close(&store);
    let (mut rng, mut acked) = (Rng::new(3), BTreeSet::new());
    for kill in 1..=6 {
        let job = Job { mode: "jobs/runs".into(), path: file.path(), seed: 0, run: kill };
        let mut child = ChildProcess::start(&job);
        for _ in 0..rng.below(40) {
            child.next_line(MINUTE).unwrap();
        }
        for line in child.kill() {
            let run: u64 = line.parse().unwrap();
            assert!(acked.insert(run), "run {run} was acked twice");
        }
        let store = stores::open(file.path());
        let tube = store.find_tube("case").unwrap();
        tube.schedules().remove("R").unwrap();
        assert_sound(&store);
        let mut there = BTreeSet::new();
        let mut after = None;
        loop {
            let page = tube.query().list(TaskState::Ready, after, 1000).unwrap();
            for run in page.items.iter().map(|task| task.spawned_by.unwrap().run) {
                assert!(there.insert(run), "run {run} was put twice");
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        // The last ack before the kill may not have been reported.
        let last = there.last().copied().max(acked.last().copied()).unwrap_or(0);
        let missing: Vec<u64> =
            (1..=last).filter(|run| !there.contains(run) && !acked.contains(run)).collect();
        assert!(missing.len() as u64 <= kill, "runs {missing:?} of {last} are lost");
        let doubled: Vec<u64> = there.intersection(&acked).copied().collect();
        assert!(doubled.is_empty(), "runs {doubled:?} were acked, and are there again");
        // It goes on where it was.
        let next = every("R").missed(Missed::All).overlap(Overlap::Allow).restored(None, last, 0);
        tube.schedule(next, "run").unwrap();
        drop(tube);
        stores::close(&store);
    }
}
