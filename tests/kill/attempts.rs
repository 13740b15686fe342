//! A worker process takes tasks with a limited number of attempts, and is killed at a random
//! moment. It reports each task that it was handed out before it begins the work, so that the parent
//! has a ledger of the hand-outs. No task may have fewer attempts than that, and none may be handed
//! out more often than it may be attempted.
//!
//! A report is a letter and its arguments:
//!
//! * `c`: the store is open
//! * `a` tube id attempt: a task was handed out
//! * `n` tube: no task was handed out
//! * `f` and `F` tube id attempt: a task is about to be acked; it was acked
//! * `e` and `E` tube id attempt: a failure is about to be reported; it was reported
//! * `d` tube id attempt: a claim is about to be dropped

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tubewell::{
    Backoff, Claim, Counting, FIFO, FIFOTTL, Failure, Store, TaskInfo, TaskState, Tube,
};

use crate::durability::options_of;
use crate::executor::HANGS_AFTER;
use crate::listing::tasks_in;
use crate::moment::kill_at_random;
use crate::process::{ChildProcess, Job, ReportWriter};
use crate::rng::Rng;

/// The prefix of the modes of these workers.
pub const MODE: &str = "attempts:";
/// Takes and ends tasks until it is killed.
const BUSY: &str = "attempts:busy";
/// Takes one task of each tube, and waits to be killed.
const HOLDING: &str = "attempts:holding";

const MS: Duration = Duration::from_millis(1);
/// The ready tasks of a tube.
const TASKS: u64 = 4;
/// A group of reported failures.
const CRASH: &str = "crash";

/// The durability and the counting of a tube, and how often its tasks may be attempted.
const TUBES: [(&str, u32); 9] = [
    ("flush/written", 3),
    ("flush/flushed", 3),
    ("flush/written/backoff", 3),
    ("write/written", 3),
    ("write/flushed", 3),
    ("relaxed/written", 3),
    ("relaxed/flushed", 3),
    ("flush/flushed/once", 1),
    ("relaxed/written/once", 1),
];

// ---- the worker

/// Does the job of this process.
pub fn run(job: &Job) {
    let reports = ReportWriter::new();
    let store = Store::open(&job.path).unwrap();
    let tubes = TUBES.map(|(name, limit)| create_tube(&store, name, limit));
    reports.write("c");
    if job.mode == HOLDING {
        let claims = tubes.each_ref().map(|tube| take_alone(&reports, tube));
        let _ = std::io::stdin().read(&mut [0]);
        drop(claims);
        return;
    }
    let (reports, tubes) = (&reports, &tubes);
    thread::scope(|scope| {
        for part in 0..2 {
            let mut rng = Rng::for_part(job.seed, part);
            scope.spawn(move || {
                loop {
                    let nth = rng.range(0..TUBES.len() as u64);
                    work_on(&mut rng, reports, &tubes[usize::try_from(nth).unwrap()]);
                }
            });
        }
    });
}

fn create_tube(store: &Store, name: &str, limit: u32) -> Tube {
    let words: Vec<&str> = name.split('/').collect();
    let counting = if words[1] == "written" { Counting::Written } else { Counting::Flushed };
    let mut options = options_of(name).max_attempts(limit).count_takes(counting);
    let with_backoff = words.get(2) == Some(&"backoff");
    if with_backoff {
        options = options.backoff(Backoff::constant(MS));
    }
    store.open_tube(name, options.driver(if with_backoff { FIFOTTL } else { FIFO })).unwrap()
}

/// Takes a task, and ends it in some way.
fn work_on(rng: &mut Rng, reports: &ReportWriter, tube: &Tube) {
    while tube.statistics().unwrap().tasks.ready < TASKS {
        tube.put("work").unwrap();
    }
    let Some(claim) = tube.try_take().unwrap() else { return };
    report("a", reports, &claim);
    let report = |letter: &str| report(letter, reports, &claim);
    match rng.range(0..6) {
        0 => {
            report("f");
            tube.claimed(claim.id()).and_then(tubewell::Claim::ack).unwrap();
            report("F");
        }
        1..3 => {
            report("d");
            drop(claim);
        }
        _ => {
            report("e");
            tube.claimed(claim.id())
                .and_then(|claim| claim.fail(Failure::new(CRASH, "it fails")))
                .unwrap();
            report("E");
        }
    }
}

fn take_alone(reports: &ReportWriter, tube: &Tube) -> Option<Claim> {
    if tube.statistics().unwrap().tasks.total == 0 {
        tube.put("poison").unwrap();
    }
    let claim = tube.take_timeout(MS * 100).unwrap();
    match &claim {
        Some(claim) => report("a", reports, claim),
        None => reports.write(&format!("n {}", tube.name())),
    }
    claim
}

fn report(letter: &str, reports: &ReportWriter, claim: &Claim) {
    let (tube, id, attempt) = (claim.tube(), claim.id(), claim.attempt());
    reports.write(&format!("{letter} {tube} {id} {attempt}"));
}

// ---- the parent

/// What the parent knows of a task.
#[derive(Clone, Debug, Default)]
struct Task {
    handed_out: u32,
    /// The last report of the last hand-out.
    last: char,
}

/// The hand-outs of all runs.
#[derive(Debug, Default)]
pub struct Ledger {
    tasks: BTreeMap<(String, u64), Task>,
    hand_outs: u64,
    /// Attempts that were counted without a report: the worker died in between.
    unreported: u64,
    lost: u64,
}

impl Ledger {
    pub fn summary(&self) -> String {
        let Ledger { hand_outs, unreported, lost, .. } = self;
        format!("{hand_outs} hand-outs, {unreported} counted without a report, {lost} tasks lost")
    }

    pub fn hand_outs(&self) -> u64 {
        self.hand_outs
    }

    fn add_reports(&mut self, reported: &[String]) {
        for line in reported {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["c"] | ["n", _] = words[..] {
                continue;
            }
            let [letter, tube, id, attempt] = words[..] else { panic!("not a report: {line:?}") };
            let task = self.tasks.entry((tube.to_owned(), id.parse().unwrap())).or_default();
            let attempt = attempt.parse::<u32>().unwrap();
            if letter == "a" {
                let expected = task.handed_out + 1..=limit_of(tube);
                assert!(expected.contains(&attempt), "{line:?} after {task:?}");
                self.unreported += u64::from(attempt - task.handed_out - 1);
                task.handed_out = attempt;
                self.hand_outs += 1;
            }
            // Another thread may report its hand-out before this one reports the end of its own.
            if attempt == task.handed_out {
                task.last = letter.chars().next().unwrap();
            }
        }
    }

    /// Opens the store that the workers have left, and compares its tasks with the ledger. Removes
    /// the tasks that were buried.
    fn check(&mut self, path: &Path) {
        let store = Store::open(path).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        for name in store.tubes().unwrap().into_iter().map(|tube| tube.name) {
            let tube = store.find_tube(&name).unwrap();
            let mut found = tasks_of(&tube);
            let known = self.tasks.iter_mut().filter(|((of, _), _)| *of == name);
            for ((_, id), task) in known {
                match found.remove(id) {
                    Some(info) => self.unreported += u64::from(compare(&name, &info, task)),
                    None => {
                        assert!(task.last == 'f' || task.last == 'F', "{id} is gone: {task:?}");
                    }
                }
            }
            // All others were put, and perhaps taken when their worker died.
            for info in found.values() {
                let mut task = Task::default();
                self.unreported += u64::from(compare(&name, info, &mut task));
                self.tasks.insert((name.clone(), info.id), task);
            }
            for info in tasks_of(&tube).values().filter(|info| info.state == TaskState::Buried) {
                self.lost += u64::from(group_of(info) == "lost");
                tube.delete(info.id).unwrap();
                self.tasks.remove(&(name.clone(), info.id));
            }
        }
        self.tasks.retain(|_, task| task.last != 'f' && task.last != 'F');
    }
}

/// Compares a task with its hand-outs. Returns how many attempts were not reported.
fn compare(tube: &str, info: &TaskInfo, task: &mut Task) -> u32 {
    let limit = limit_of(tube);
    let at = format!("{tube}: {info:?}, {task:?}");
    assert!(task.handed_out <= info.attempts && info.attempts <= limit, "{at}");
    assert_eq!(info.attempts_left, Some(limit - info.attempts), "{at}");
    let is_relaxed = tube.starts_with("relaxed");
    let unreported = info.attempts - task.handed_out;
    // An ack or a failure in a relaxed tube may be forgotten with its process.
    assert!(task.last != 'F' || is_relaxed, "an acked task came back: {at}");
    if info.attempts < limit {
        assert!(matches!(info.state, TaskState::Ready | TaskState::Delayed), "{at}");
    } else {
        assert_eq!(info.state, TaskState::Buried, "{at}");
        let groups: &[&str] = match task.last {
            _ if unreported > 0 => &["lost"],
            'a' | 'f' | 'F' => &["lost"],
            'd' => &["released", "lost"],
            'E' if !is_relaxed => &[CRASH],
            _ => &[CRASH, "lost"],
        };
        assert!(groups.contains(&group_of(info)), "{at}");
        assert_eq!(info.failure.as_ref().map(|failure| failure.attempt), Some(limit), "{at}");
    }
    task.handed_out = info.attempts;
    task.last = ' ';
    unreported
}

fn group_of(info: &TaskInfo) -> &str {
    info.failure.as_ref().map_or("", |failure| &failure.group)
}

fn limit_of(tube: &str) -> u32 {
    TUBES.iter().find(|(name, _)| *name == tube).unwrap().1
}

fn tasks_of(tube: &Tube) -> BTreeMap<u64, TaskInfo> {
    let mut found = BTreeMap::new();
    // Delayed before ready: a task that becomes due meanwhile is listed twice, never omitted.
    for state in [TaskState::Delayed, TaskState::Buried, TaskState::Ready, TaskState::Taken] {
        found.extend(tasks_in(tube, state).into_iter().map(|info| (info.id, info)));
    }
    found
}

/// Kills a worker at a random moment.
pub fn run_round(path: &Path, rng: &mut Rng, run: u64, ledger: &mut Ledger) {
    let job = Job { mode: BUSY.into(), path: path.to_owned(), seed: rng.next(), run };
    ledger.add_reports(&kill_at_random(&job, rng, 200));
    // Without it the next worker ends the claims of this one, and may be killed meanwhile.
    if rng.one_in(2) {
        ledger.check(path);
    }
}

/// Kills the workers that hold a task of each tube, until no worker gets one.
pub fn kill_every_holder(path: &Path) {
    let mut ledger = Ledger::default();
    for run in 0..4 {
        let job = Job { mode: HOLDING.into(), path: path.to_owned(), seed: 0, run };
        let mut child = ChildProcess::start(&job);
        assert!(!child.read_lines(1 + TUBES.len() as u64, HANGS_AFTER));
        let reported = child.kill();
        let handed_out = reported.iter().filter(|line| line.starts_with('a')).count();
        let with_attempt = |limit: u32| u64::from(limit) > run;
        let expected = TUBES.iter().filter(|(_, limit)| with_attempt(*limit)).count();
        assert_eq!(handed_out, expected, "run {run}: {reported:?}");
        ledger.add_reports(&reported);
    }
    assert_eq!(ledger.unreported, 0);
    ledger.check(path);
    assert_eq!(ledger.lost, TUBES.len() as u64);
}
