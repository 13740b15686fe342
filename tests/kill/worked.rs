//! Workers whose jobs spawn, sleep and join, and whose process is killed at random moments. A job goes
//! on at the step that had not ended: no step that has returned runs again, a child is there once and is
//! not worked on again after its end, a sleep lasts its time, and a join ends after the ends of its tasks.
//! The parent keeps the ledger of what was run.
//!
//! A report is a letter and its arguments:
//!
//! * `c`: the store is open
//! * `r` and `R` job step: a step runs; its call has returned
//! * `P` job part id: the call that puts a part has returned
//! * `s` and `S` job moment: a job calls `sleep`, at milliseconds since 1970; the sleep is over
//! * `j` job: a join is over
//! * `p` and `D` id: a part is worked on; its end is stored
//! * `e` and `E` job: the handler is about to return; the end of the job is stored

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::worker::{Ended, Job as WorkerJob, Order, Report, Worker};
use tubewell::{Backoff, Error, FIFO, FIFOTTL, Result, Store, TaskState, Tube};

use crate::durability::options_of;
use crate::listing::tasks_in;
use crate::moment::kill_at_random;
use crate::process::{Job, ReportWriter};
use crate::rng::Rng;

/// The mode of these workers.
pub const MODE: &str = "worked:";

const LINES: [&str; 2] = ["flush", "write"];
/// The jobs that are on their way in a tube.
const JOBS: u64 = 6;
const PARTS: u64 = 2;
const REST: Duration = Duration::from_millis(20);
/// What the clocks of two processes may differ by, and more.
const TOLERANCE: u64 = 5;

fn tubes(store: &Store, line: &str) -> [Tube; 2] {
    [("jobs", FIFOTTL), ("parts", FIFO)].map(|(part, driver)| {
        store.open_tube(&format!("{line}/{part}"), options_of(line).driver(driver)).unwrap()
    })
}

// ---- the worker

/// Does the job of this process.
pub fn run(job: &Job) {
    let reports = Arc::new(ReportWriter::new());
    let store = Store::open(&job.path).unwrap();
    let (written, seed) = (reports.clone(), job.seed);
    let worker = Worker::new(&store).concurrency(4).order(Order::RoundRobin);
    // The parent waits for the end of all jobs.
    let mut worker = worker.backoff(Backoff::none());
    worker = worker.watch(move |report| ended(report, &written));
    for line in LINES {
        let [jobs, parts] = tubes(&store, line);
        let there = jobs.statistics().unwrap().tasks.total;
        jobs.put_many((there..JOBS).map(|_| "job")).unwrap();
        let (of_jobs, of_parts) = (reports.clone(), reports.clone());
        let (more, to) = (jobs.clone(), parts.clone());
        worker = worker.on(&jobs, move |job: &WorkerJob| {
            let mut rng = Rng::for_part(seed, job.id() * 1000 + u64::from(job.takes()));
            work(&mut rng, &of_jobs, line, job, &to)?;
            more.put("job").map(drop)
        });
        worker = worker.on(&parts, move |job: &WorkerJob| {
            of_parts.write(&format!("p {line} {}", job.id()));
        });
    }
    reports.write("c");
    let _running = worker.start().unwrap();
    // Returns when the parent is gone.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn ended(report: &Report, reports: &ReportWriter) {
    let Report::Ended { end, tube, id, .. } = report else { panic!("{report:?}") };
    let (line, of) = tube.split_once('/').unwrap();
    match (of, end) {
        ("parts", Ended::Done) => reports.write(&format!("D {line} {id}")),
        ("jobs", Ended::Done) => reports.write(&format!("E {line} {id}")),
        ("jobs", Ended::Suspended | Ended::Failed) => {}
        _ => panic!("{report:?}"),
    }
}

fn work(
    rng: &mut Rng,
    reports: &ReportWriter,
    line: &str,
    job: &WorkerJob,
    parts: &Tube,
) -> Result<()> {
    let id = job.id();
    let value = |rng: &mut Rng, name: &str| {
        let value = job.step(name, || {
            reports.write(&format!("r {line} {id} {name}"));
            Ok::<String, Error>(format!("{id} {name}"))
        })?;
        assert_eq!(value, format!("{id} {name}"), "the value of another step");
        reports.write(&format!("R {line} {id} {name}"));
        if rng.one_in(12) { Err(Error::Overloaded) } else { Ok(()) }
    };
    value(rng, "first")?;
    let mut ids = Vec::new();
    for part in 0..PARTS {
        let child = job.spawn(&format!("part{part}"), parts, format!("{id} {part}"))?;
        reports.write(&format!("P {line} {id} {part} {child}"));
        ids.push(child);
    }
    reports.write(&format!("s {line} {id} {}", millis()));
    job.sleep("rest", REST)?;
    reports.write(&format!("S {line} {id} {}", millis()));
    job.join("both", parts, &ids)?;
    reports.write(&format!("j {line} {id}"));
    value(rng, "last")?;
    reports.write(&format!("e {line} {id}"));
    Ok(())
}

#[allow(clippy::disallowed_methods, reason = "two processes compare their times")]
fn millis() -> u128 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_millis()
}

// ---- the parent

/// A job or a part, by its line and its id.
type Of = (String, u64);

/// What was run, of all runs.
#[derive(Debug, Default)]
pub struct Ledger {
    /// The steps whose calls have returned, by job and name.
    finished: BTreeSet<(Of, String)>,
    /// The ids of the parts, by job and number.
    parts: BTreeMap<(Of, u64), u64>,
    worked_on: BTreeSet<Of>,
    done: BTreeSet<Of>,
    /// When a job has first called `sleep`.
    slept: BTreeMap<Of, u64>,
    ending: BTreeSet<Of>,
    ended: BTreeSet<Of>,
    sleeps: u64,
    joins: u64,
}

impl Ledger {
    /// How many sleeps, joins and jobs have ended.
    pub fn ends(&self) -> [u64; 3] {
        [self.sleeps, self.joins, self.ended.len() as u64]
    }

    fn add_reports(&mut self, reported: &[String]) {
        for report in reported {
            let words: Vec<&str> = report.split(' ').collect();
            if words == ["c"] {
                continue;
            }
            let number = |at: usize| words[at].parse::<u64>().unwrap();
            let of: Of = (words[1].to_owned(), number(2));
            assert!(
                !self.ended.contains(&of) || matches!(words[0], "p" | "D"),
                "{report:?}: again"
            );
            match words[0] {
                "r" => {
                    let step = (of, words[3].to_owned());
                    assert!(!self.finished.contains(&step), "{report:?} runs again");
                }
                "R" => drop(self.finished.insert((of, words[3].to_owned()))),
                "P" => {
                    let id = *self.parts.entry((of, number(3))).or_insert_with(|| number(4));
                    assert_eq!(id, number(4), "{report:?}: it was put again");
                }
                "s" => drop(self.slept.entry(of).or_insert_with(|| number(3))),
                "S" => {
                    let least = self.slept[&of] + u64::try_from(REST.as_millis()).unwrap();
                    assert!(number(3) + TOLERANCE >= least, "{report:?}: it slept since {least}");
                    self.sleeps += 1;
                }
                "j" => {
                    for part in 0..PARTS {
                        let part = (of.0.clone(), self.parts[&(of.clone(), part)]);
                        assert!(self.worked_on.contains(&part), "{report:?}: {part:?} is not done");
                    }
                    self.joins += 1;
                }
                "p" => {
                    assert!(!self.done.contains(&of), "{report:?}: it was done");
                    self.worked_on.insert(of);
                }
                "D" => drop(self.done.insert(of)),
                "e" => drop(self.ending.insert(of)),
                "E" => drop(self.ended.insert(of)),
                _ => panic!("not a report: {report:?}"),
            }
        }
    }

    /// Opens the store that the worker has left, and compares it with the ledger.
    fn check(&self, path: &Path) {
        let store = Store::open(path).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        for line in LINES {
            let [jobs, parts] = tubes(&store, line);
            // In the order in which the open store makes jobs ready, so that none is between two lists.
            let states =
                [TaskState::Delayed, TaskState::Blocked, TaskState::Ready, TaskState::Buried];
            let there: BTreeSet<u64> = states
                .into_iter()
                .flat_map(|state| tasks_in(&jobs, state))
                .map(|task| task.id)
                .collect();
            for (of, step) in self.finished.iter().filter(|(of, _)| of.0 == line) {
                self.check_job(of, &there, step, &jobs);
            }
            let mut bodies = BTreeSet::new();
            let children: BTreeSet<u64> = tasks_in(&parts, TaskState::Ready)
                .into_iter()
                .map(|task| {
                    let body = parts.query().task(task.id).unwrap().body;
                    assert!(bodies.insert(body.to_vec()), "{body:?} was put twice");
                    task.id
                })
                .collect();
            for ((of, _), id) in self.parts.iter().filter(|((of, _), _)| of.0 == line) {
                let part = (line.to_owned(), *id);
                let is_there = children.contains(id);
                assert!(is_there || self.worked_on.contains(&part), "{part:?} of {of:?} is lost");
                assert!(!is_there || !self.done.contains(&part), "{part:?} is there again");
            }
        }
    }

    fn check_job(&self, of: &Of, there: &BTreeSet<u64>, step: &str, jobs: &Tube) {
        if !there.contains(&of.1) {
            assert!(self.ending.contains(of), "{of:?} is lost");
            return;
        }
        assert!(!self.ended.contains(of), "{of:?} is there again");
        let stored = jobs.query().steps(of.1).unwrap();
        assert!(stored.iter().any(|stored| stored.name == step), "{of:?}: {step} is not stored");
    }
}

pub fn run_round(path: &Path, rng: &mut Rng, round: u64, ledger: &mut Ledger) {
    let job = Job { mode: MODE.into(), path: path.to_owned(), seed: rng.next(), run: round };
    let reported = kill_at_random(&job, rng, 600);
    ledger.add_reports(&reported);
    ledger.check(path);
}
