//! A worker process passes tasks through three tubes with `finish`, which also puts a mail for each
//! step, and moves some of them aside and back. It is killed at a random moment. A task is then in
//! one tube, or done after its last step; it has a mail for each step that it has left behind, and
//! none for the step in which it is; and no step that was acknowledged is taken back.
//!
//! A report is a letter and its arguments:
//!
//! * `c`: the store is open
//! * `p` line id: a task was put into the first tube of a line
//! * `f` and `F` line id step: a step of a task is about to be finished; it was finished

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;

use tubewell::{Error, FIFO, FIFOTTL, Filter, Outcome, Put, Store, TaskState, Tube, UTUBE};

use crate::body;
use crate::durability::options_of;
use crate::listing::tasks_in;
use crate::moment::kill_at_random;
use crate::process::{Job, ReportWriter};
use crate::rng::Rng;

/// The mode of these workers.
pub const MODE: &str = "movement:";

/// The tasks that are on their way in a line.
const TASKS: u64 = 6;

/// The lines, with the drivers of their three tubes.
const LINES: [(&str, [&str; STEPS]); 2] =
    [("flush", [FIFO, UTUBE, FIFOTTL]), ("write", [UTUBE, FIFO, UTUBE])];
const STEPS: usize = 3;

/// The tubes of a line: those of its steps, one for tasks that were moved aside from each of them, and
/// one for mails.
struct Line {
    name: &'static str,
    steps: Vec<Tube>,
    aside: Vec<Tube>,
    mails: Tube,
}

impl Line {
    fn open(store: &Store, (name, drivers): (&'static str, [&str; STEPS])) -> Line {
        let tube = |part: &str, driver: &str| {
            store.open_tube(&format!("{name}/{part}"), options_of(name).driver(driver)).unwrap()
        };
        let numbered = |part: &str| {
            let tubes = drivers.iter().enumerate();
            tubes.map(|(step, driver)| tube(&format!("{part}{step}"), driver)).collect()
        };
        Line { name, steps: numbered("step"), aside: numbered("aside"), mails: tube("mails", FIFO) }
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
                let rng = Rng::for_part(job.seed, 2 * part + thread);
                scope.spawn(move || work(rng, reports, line));
            }
        }
    });
}

/// The error of a claim whose task another thread has moved aside.
const MOVED: fn(u64) -> Error = |id| Error::NotTaken { id };

fn work(mut rng: Rng, reports: &ReportWriter, line: &Line) {
    let mut tickets = Vec::new();
    loop {
        let step = usize::try_from(rng.range(0..STEPS as u64)).unwrap();
        let tube = &line.steps[step];
        if step == 0 && tube.statistics().unwrap().tasks.ready < TASKS {
            let id = tube.put(new_put(&mut rng, tube, "task")).unwrap().id;
            reports.write(&format!("p {} {id}", line.name));
        }
        if rng.one_in(6) {
            move_aside(&mut rng, line, step);
        }
        let Some(claim) = tube.try_take().unwrap() else { continue };
        let id = claim.id();
        assert!(body::label(claim.body()).is_some(), "the body of task {id} has changed");
        let mail = body::with_label(&format!("{id} {step}"), body::random_filler(&mut rng));
        let end = match line.steps.get(step + 1) {
            Some(next) => Outcome::advance(next, new_put(&mut rng, next, "task")),
            None => Outcome::done(),
        };
        let finish = end.and_put(&line.mails, mail);
        let report = format!("{} {id} {step}", line.name);
        reports.write(&format!("f {report}"));
        if rng.one_in(3) {
            tickets.push((report, id, claim.into_async().end(finish)));
        } else {
            match claim.end(finish) {
                Ok(_) => reports.write(&format!("F {report}")),
                Err(error) => assert_eq!(error, MOVED(id)),
            }
        }
        if tickets.len() > 3 {
            for (report, id, ticket) in tickets.drain(..) {
                match ticket.wait() {
                    Ok(_) => reports.write(&format!("F {report}")),
                    Err(error) => assert_eq!(error, MOVED(id)),
                }
            }
        }
    }
}

/// Moves a task of a step aside, and perhaps all of those back. Another thread may have it by now.
fn move_aside(rng: &mut Rng, line: &Line, step: usize) {
    let (tube, aside) = (&line.steps[step], &line.aside[step]);
    let listed = tube.query().list(TaskState::Ready, None, 1).unwrap().items;
    if let Some(task) = listed.first() {
        let _ = tube.admin().move_to(aside, task.id);
    }
    if rng.one_in(2) {
        aside.admin().move_to(tube, Filter::new()).unwrap();
    }
}

fn new_put(rng: &mut Rng, tube: &Tube, label: &str) -> Put<Vec<u8>> {
    let put = Put::new(body::with_label(label, body::random_filler(rng)));
    if tube.driver() == UTUBE { put.sub_queue(rng.range(0..4).to_string()) } else { put }
}

// ---- the parent

/// What the reports say of a task: the step in which it is at least, and the step in which it is at
/// most.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    least: u64,
    most: u64,
}

/// The tasks of all runs.
#[derive(Debug, Default)]
pub struct Ledger {
    tasks: BTreeMap<(String, u64), Progress>,
    acknowledged: u64,
}

impl Ledger {
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    fn add_reports(&mut self, reported: &[String]) {
        for line in reported {
            let words: Vec<&str> = line.split(' ').collect();
            let (letter, name, id, step) = match words[..] {
                ["c"] => continue,
                ["p", name, id] => ("p", name, id, 0),
                [letter, name, id, step] => (letter, name, id, step.parse().unwrap()),
                _ => panic!("not a report: {line:?}"),
            };
            // A put may be reported after the first step of its task.
            let key = (name.to_owned(), id.parse().unwrap());
            let task = self.tasks.entry(key).or_default();
            match letter {
                "f" => task.most = task.most.max(step + 1),
                "F" => {
                    task.least = task.least.max(step + 1);
                    self.acknowledged += 1;
                }
                _ => assert_eq!(letter, "p", "not a report: {line:?}"),
            }
        }
    }

    /// Opens the store that the worker has left, and compares its tasks with the ledger.
    fn check(&self, path: &Path) {
        let store = Store::open(path).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        for line in LINES {
            // A worker may have been killed before it had created all tubes.
            let line = Line::open(&store, line);
            let mails = mails(&line.mails);
            let mut found: BTreeMap<u64, u64> = BTreeMap::new();
            for tubes in [&line.steps, &line.aside] {
                for (step, tube) in (0..).zip(tubes) {
                    for id in ids(tube) {
                        assert_eq!(found.insert(id, step), None, "task {id} is in two tubes");
                        let body = tube.query().task(id).unwrap().body;
                        assert!(body::label(&body).is_some(), "the body of task {id} has changed");
                    }
                }
            }
            let known = self.tasks.iter().filter(|((name, _), _)| name == line.name);
            for ((_, id), Progress { least, most }) in known {
                let step = found.get(id).copied().unwrap_or(STEPS as u64);
                let at = format!("task {id} of {} is in step {step}", line.name);
                assert!(step >= *least, "{at}, {least} was acknowledged");
                assert!(step <= *most, "{at}, {most} was not begun");
            }
            for id in found.keys().chain(mails.keys()) {
                let step = found.get(id).copied().unwrap_or(STEPS as u64);
                let sent = mails.get(id).cloned().unwrap_or_default();
                assert_eq!(sent, (0..step).collect::<Vec<_>>(), "the mails of task {id}");
            }
        }
    }
}

fn ids(tube: &Tube) -> Vec<u64> {
    tasks_in(tube, TaskState::Ready).iter().map(|task| task.id).collect()
}

/// The steps for which each task has mails.
fn mails(tube: &Tube) -> BTreeMap<u64, Vec<u64>> {
    let mut mails: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
    for id in ids(tube) {
        let label = body::label(&tube.query().task(id).unwrap().body).unwrap();
        let (of, step) = label.split_once(' ').unwrap();
        mails.entry(of.parse().unwrap()).or_default().push(step.parse().unwrap());
    }
    for steps in mails.values_mut() {
        steps.sort_unstable();
    }
    mails
}

/// Kills a worker at a random moment, and compares the store with its reports.
pub fn run_round(path: &Path, rng: &mut Rng, run: u64, ledger: &mut Ledger) {
    let job = Job { mode: MODE.into(), path: path.to_owned(), seed: rng.next(), run };
    ledger.add_reports(&kill_at_random(&job, rng, 300));
    // Without it the next worker recovers the store, and may be killed meanwhile.
    if rng.one_in(2) {
        ledger.check(path);
    }
}
