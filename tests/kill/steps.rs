//! Worker processes run jobs of several steps and are killed at random moments. A step whose call has
//! returned never runs again, and each task that a step puts is there once. The parent keeps the ledger
//! of what was run.
//!
//! A report is a letter and its arguments:
//!
//! * `c`: the store is open
//! * `r` tube job step: a step runs
//! * `R` tube job step: the call of a step has returned, also one that was stored before
//! * `a` and `A` tube job: a job is about to be acked; it was

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;

use tubewell::{Claim, Error, FIFO, FIFOTTL, Failure, Put, Store, TaskState, Tube};

use crate::durability::options_of;
use crate::listing::tasks_in;
use crate::moment::kill_at_random;
use crate::process::{Job, ReportWriter};
use crate::rng::Rng;

/// The mode of these workers.
pub const MODE: &str = "steps:";

const LINES: [(&str, &str); 2] = [("flush", FIFO), ("write", FIFOTTL)];
const STEPS: u64 = 9;
/// The jobs that are on their way in a tube.
const JOBS: u64 = 4;

/// A tube with jobs, and the one into which their steps put tasks.
struct Line {
    name: &'static str,
    jobs: Tube,
    parts: Tube,
}

impl Line {
    fn open(store: &Store, (name, driver): (&'static str, &'static str)) -> Line {
        let tube = |part: &str| {
            store.open_tube(&format!("{name}/{part}"), options_of(name).driver(driver)).unwrap()
        };
        Line { name, jobs: tube("jobs"), parts: tube("parts") }
    }
}

// ---- the worker

/// Does the job of this process.
pub fn run(job: &Job) {
    let reports = &ReportWriter::new();
    let store = Store::open(&job.path).unwrap();
    let lines = LINES.map(|line| Line::open(&store, line));
    reports.write("c");
    thread::scope(|scope| {
        for (part, line) in (0..).zip(&lines) {
            for thread in 0..2 {
                let mut rng = Rng::for_part(job.seed, 2 * part + thread);
                scope.spawn(move || {
                    loop {
                        work(&mut rng, reports, line);
                    }
                });
            }
        }
    });
}

fn work(rng: &mut Rng, reports: &ReportWriter, line: &Line) {
    if line.jobs.statistics().unwrap().tasks.ready < JOBS {
        line.jobs.put(Put::new("job")).unwrap();
    }
    let Some(claim) = line.jobs.try_take().unwrap() else { return };
    let ended = (0..STEPS).try_for_each(|step| {
        run_step(reports, line, &claim, step)?;
        if rng.one_in(12) { Err(Error::Overloaded) } else { Ok(()) }
    });
    let report = format!("{} {}", line.name, claim.id());
    match ended {
        Ok(()) => {
            reports.write(&format!("a {report}"));
            claim.ack().unwrap();
            reports.write(&format!("A {report}"));
        }
        Err(Error::Overloaded) if rng.one_in(2) => drop(claim),
        Err(error) => drop(claim.fail(Failure::new("crash", error.to_string())).unwrap()),
    }
}

/// Every third step puts a task.
fn run_step(reports: &ReportWriter, line: &Line, claim: &Claim, step: u64) -> Result<(), Error> {
    let (id, name) = (claim.id(), format!("step {step}"));
    let report = format!("{} {id} {step}", line.name);
    if step % 3 == 2 {
        claim.spawn(&name, &line.parts, format!("{id} {step}"))?;
    } else {
        let value = claim.step(&name, || {
            reports.write(&format!("r {report}"));
            Ok::<u64, Error>(id * STEPS + step)
        })?;
        assert_eq!(value, id * STEPS + step, "the value of another step");
    }
    reports.write(&format!("R {report}"));
    Ok(())
}

// ---- the parent

/// A step of a job, by its line.
type StepOf = (String, u64, u64);

/// What was run, of all runs.
#[derive(Debug, Default)]
pub struct Ledger {
    finished: BTreeSet<StepOf>,
    /// The jobs that were acked, and those whose ack was under way.
    acked: BTreeSet<(String, u64)>,
    ending: BTreeSet<(String, u64)>,
    runs: BTreeMap<StepOf, u64>,
}

impl Ledger {
    pub fn finished(&self) -> u64 {
        self.finished.len() as u64
    }

    /// How many steps were run more than once, since their process died before they had returned.
    pub fn repeated(&self) -> usize {
        self.runs.values().filter(|runs| **runs > 1).count()
    }

    fn add_reports(&mut self, reported: &[String]) {
        for line in reported {
            let words: Vec<&str> = line.split(' ').collect();
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            match words[..] {
                ["c"] => {}
                ["r", line, ..] => {
                    let step = (line.to_owned(), number(2), number(3));
                    assert!(!self.finished.contains(&step), "{step:?} runs again");
                    *self.runs.entry(step).or_default() += 1;
                }
                ["R", line, ..] => {
                    self.finished.insert((line.to_owned(), number(2), number(3)));
                }
                ["a", line, ..] => drop(self.ending.insert((line.to_owned(), number(2)))),
                ["A", line, ..] => drop(self.acked.insert((line.to_owned(), number(2)))),
                _ => panic!("not a report: {line:?}"),
            }
        }
    }

    /// Opens the store that the worker has left, and compares it with the ledger.
    fn check(&self, path: &Path) {
        let store = Store::open(path).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        for line in LINES {
            let Line { name, jobs, parts } = Line::open(&store, line);
            let mut children = BTreeSet::new();
            for task in tasks_in(&parts, TaskState::Ready) {
                let body =
                    String::from_utf8(parts.query().task(task.id).unwrap().body.to_vec()).unwrap();
                assert!(children.insert(body.clone()), "{name}: {body} was put twice");
            }
            let there: BTreeSet<u64> = [TaskState::Ready, TaskState::Buried]
                .into_iter()
                .flat_map(|state| tasks_in(&jobs, state))
                .map(|task| task.id)
                .collect();
            for (_, job, step) in self.finished.iter().filter(|(of, ..)| of == name) {
                let is_child = step % 3 == 2;
                assert!(!is_child || children.contains(&format!("{job} {step}")));
                let of_job = (name.to_owned(), *job);
                assert!(there.contains(job) || self.ending.contains(&of_job), "{of_job:?} is lost");
                if there.contains(job) {
                    assert!(!self.acked.contains(&of_job), "{of_job:?} is there again");
                    let stored = jobs.query().steps(*job).unwrap();
                    assert!(stored.iter().any(|stored| stored.name == format!("step {step}")));
                }
            }
        }
    }
}

pub fn run_round(path: &Path, rng: &mut Rng, round: u64, ledger: &mut Ledger) {
    let job = Job { mode: MODE.into(), path: path.to_owned(), seed: rng.next(), run: round };
    let reported = kill_at_random(&job, rng, 400);
    ledger.add_reports(&reported);
    ledger.check(path);
}
