//! Workers whose process is killed: a child process runs a worker, and SIGKILL ends it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::panic::resume_unwind;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tubewell::worker::{Ended, Job, Report, Worker};
use tubewell::{
    Counting, FIFO, FIFOTTL, Failure, Outcome, Result, Store, TaskState, Tube, TubeOptions,
};

use super::gate::Gate;
use super::process::{self, ChildProcess, ReportWriter};
use super::rng::Rng;
use super::support::*;
use crate::stores;

const MINUTE: Duration = Duration::from_secs(60);
const FORMS: [Form; 3] = [Form::Threads, Form::Future, Form::Spawned];

// ---- the child

/// Does the job of a child: opens the store, and runs a worker as the mode says until it is killed.
pub fn run(job: &process::Job) {
    let reports = Arc::new(ReportWriter::new());
    let idle = reports.clone();
    let store = stores::open(&job.path);
    let (mode, form) = job.mode.split_once(':').unwrap();
    let form = FORMS.into_iter().find(|known| format!("{known:?}") == form).unwrap();
    let tube = store.find_tube("case").unwrap();
    let worker = Worker::new(&store).concurrency(3);
    let worker = match mode {
        "hang" => hang(form, worker, &tube, reports),
        "random" => end_at_random(form, worker, &tube, reports),
        "finish" => finish(form, worker, &store, reports),
        "park" => park_films(form, worker, &tube, reports),
        other => panic!("unknown mode {other}"),
    };
    let _running = form.start(worker);
    tube.wait_drained(Duration::MAX).unwrap();
    idle.write("idle");
    // Returns when the parent is gone.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

fn report_attempt(reports: &ReportWriter, job: &Job) {
    reports.write(&format!("{} {}", job.id(), job.attempt()));
}

/// Reports each job, which then never ends.
fn hang(form: Form, worker: Worker, tube: &Tube, reports: Arc<ReportWriter>) -> Worker {
    let begin = move |job: &Job| report_attempt(&reports, job);
    form.on_gated(worker, tube, &Gate::default(), begin, |_| ())
}

/// Reports each job, and ends it in some way.
fn end_at_random(form: Form, worker: Worker, tube: &Tube, reports: Arc<ReportWriter>) -> Worker {
    form.on(worker, tube, move |job: &Job| {
        report_attempt(&reports, job);
        match Rng::new(job.id() * 100 + u64::from(job.attempt())).below(5) {
            0 => Outcome::release(),
            1 => Outcome::fail(Failure::new("group", "message")),
            2 => resume_unwind(Box::new("panic")),
            _ => Outcome::done(),
        }
    })
}

/// Passes each task on to the tube `next`, puts its child into the tube `children`, and reports
/// that once it is stored.
fn finish(form: Form, worker: Worker, store: &Store, reports: Arc<ReportWriter>) -> Worker {
    let [case, next, children] =
        ["case", "next", "children"].map(|it| store.find_tube(it).unwrap());
    let worker = form.on(worker, &case, move |job: &Job| {
        Outcome::advance(&next, job.body()).and_put(&children, job.body())
    });
    worker.watch(move |report: &Report| match report {
        Report::Ended { id, end: Ended::Advanced, .. } => reports.write(&id.to_string()),
        report => panic!("{report:?}"),
    })
}

/// Parks the claims of films and reports their tokens, and hangs at all other tasks.
fn park_films(form: Form, worker: Worker, tube: &Tube, reports: Arc<ReportWriter>) -> Worker {
    let begin = move |job: &Job| match job.body() {
        b"film" => {
            let token = job.park(MINUTE * 60).unwrap();
            reports.write(&format!("film {token}"));
        }
        _ => report_attempt(&reports, job),
    };
    form.on_gated(worker, tube, &Gate::default(), begin, |_| ())
}

// ---- the parent

struct StoreFile {
    _folder: TempDir,
    path: PathBuf,
}

impl StoreFile {
    /// A store with these tubes and so many tasks in the first of them.
    fn new(driver: &str, tubes: &[&str], options: &TubeOptions, tasks: u32) -> StoreFile {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("queue");
        let store = stores::open(&path);
        for name in tubes {
            store.create_tube(name, options.clone().driver(driver)).unwrap();
        }
        let tube = store.find_tube(tubes[0]).unwrap();
        tube.put_many((0..tasks).map(|n| n.to_string())).unwrap();
        stores::close(&store);
        StoreFile { _folder: folder, path }
    }

    fn open(&self) -> Store {
        let store = stores::open(&self.path);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        store
    }

    /// Runs a worker in a child, and kills it after so many reports, or earlier if it has no more
    /// to do. Returns all its reports.
    fn kill_after(&self, mode: &str, form: Form, reports: usize) -> Vec<String> {
        let mode = format!("worker/{mode}:{form:?}");
        let job = process::Job { mode, path: self.path.clone(), seed: 0, run: 0 };
        let mut child = ChildProcess::start(&job);
        for _ in 0..reports {
            if child.next_line(MINUTE).unwrap() == "idle" {
                break;
            }
        }
        let mut reported = child.kill();
        reported.retain(|report| report != "idle");
        reported
    }
}

fn ids(tube: &Tube, state: TaskState) -> Vec<u64> {
    tube.query().list(state, None, 1000).unwrap().items.iter().map(|info| info.id).collect()
}

fn attempt_of(report: &str) -> (u64, u32) {
    let (id, attempt) = report.split_once(' ').unwrap();
    (id.parse().unwrap(), attempt.parse().unwrap())
}

/// I02
#[test]
fn only_attempt_of_a_killed_worker_process_is_not_repeated() {
    for form in FORMS {
        for (driver, counting) in [(FIFO, Counting::Written), (FIFOTTL, Counting::Flushed)] {
            let options = TubeOptions::new().max_attempts(1).count_takes(counting);
            let file = StoreFile::new(driver, &["case"], &options, 5);
            let mut begun = BTreeSet::new();
            for jobs in [3, 2] {
                for report in file.kill_after("hang", form, jobs) {
                    let (id, attempt) = attempt_of(&report);
                    assert!(attempt == 1 && begun.insert(id), "{report}");
                }
                let store = file.open();
                let tube = store.find_tube("case").unwrap();
                assert!(ids(&tube, TaskState::Buried).into_iter().eq(begun.iter().copied()));
                for id in &begun {
                    let info = tube.query().task(*id).unwrap().info;
                    assert_eq!((info.attempts, &*info.failure.unwrap().group), (1, "lost"));
                }
            }
            let store = file.open();
            let tube = store.find_tube("case").unwrap();
            let worker = Worker::new(&store).on(&tube, |_: &Job| ());
            assert_eq!(worker.run_until_idle().unwrap().jobs(), 0);
            assert_eq!(begun.len(), 5);
        }
    }
}

/// I02
#[test]
fn no_task_is_attempted_too_often_by_killed_worker_processes() {
    const LIMIT: u32 = 3;
    for form in FORMS {
        let options = TubeOptions::new().max_attempts(LIMIT);
        let file = StoreFile::new(FIFO, &["case"], &options, 40);
        let mut attempts: BTreeMap<u64, u32> = BTreeMap::new();
        for reports in [1, 9, 17] {
            for report in file.kill_after("random", form, reports) {
                let (id, attempt) = attempt_of(&report);
                let before = attempts.insert(id, attempt).unwrap_or(0);
                assert!(attempt > before && attempt <= LIMIT, "task {id}: {before}, {attempt}");
            }
            let store = file.open();
            let tube = store.find_tube("case").unwrap();
            for (id, attempt) in &attempts {
                if let Ok(task) = tube.query().task(*id) {
                    assert!((*attempt..=LIMIT).contains(&task.info.attempts), "task {id}");
                }
            }
        }
        let store = file.open();
        let tube = store.find_tube("case").unwrap();
        let counted = attempts.clone();
        let fail = move |job: &Job| {
            let before = counted.get(&job.id()).copied().unwrap_or(0);
            assert!(job.attempt() > before && job.attempt() <= LIMIT);
            Outcome::fail(Failure::new("last", "message"))
        };
        Worker::new(&store).on(&tube, fail).concurrency(2).run_until_idle().unwrap();
        let tasks = tube.statistics().unwrap().tasks;
        assert_eq!(tasks.total, tasks.buried);
        assert!(!attempts.is_empty());
    }
}

/// I07
#[test]
fn task_and_its_child_are_both_stored_or_neither_when_the_worker_process_is_killed() {
    const TASKS: u32 = 60;
    for form in FORMS {
        let file = StoreFile::new(FIFO, &["case", "next", "children"], &TubeOptions::new(), TASKS);
        let check = |stored: &BTreeSet<u64>| {
            let store = file.open();
            let tube = |name: &str| store.find_tube(name).unwrap();
            let [left, next] = ["case", "next"].map(|name| ids(&tube(name), TaskState::Ready));
            assert_eq!(left.len() + next.len(), TASKS as usize);
            assert!(stored.iter().all(|id| next.contains(id)));
            let body = |tube: &Tube, id: &u64| tube.query().task(*id).unwrap().body;
            let children: Vec<u64> = ids(&tube("children"), TaskState::Ready);
            let mut children: Vec<_> =
                children.iter().map(|id| body(&tube("children"), id)).collect();
            let mut parents: Vec<_> = next.iter().map(|id| body(&tube("next"), id)).collect();
            children.sort_unstable();
            parents.sort_unstable();
            assert_eq!(children, parents);
            left.len()
        };
        let mut stored = BTreeSet::new();
        for reports in [1, 7, 16] {
            let reported = file.kill_after("finish", form, reports);
            stored.extend(reported.iter().map(|id| id.parse::<u64>().unwrap()));
            check(&stored);
        }
        while check(&stored) > 0 {
            let reported = file.kill_after("finish", form, 1);
            stored.extend(reported.iter().map(|id| id.parse::<u64>().unwrap()));
        }
    }
}

/// B024
#[test]
fn task_of_a_killed_worker_process_is_ready_unless_it_was_parked() -> Result<()> {
    for form in FORMS {
        let file = StoreFile::new(FIFO, &["case"], &TubeOptions::new().max_attempts(3), 1);
        let film = file.open().find_tube("case")?.put("film")?.id;
        let reports = file.kill_after("park", form, 2);
        let token = reports.iter().find_map(|report| report.strip_prefix("film ")).unwrap();
        let store = file.open();
        let tube = store.find_tube("case")?;
        assert_eq!(ids(&tube, TaskState::Taken), [film]);
        let work = || {
            let once = |job: &Job| assert_eq!(job.attempt(), 2);
            Worker::new(&store).on(&tube, once).run_until_idle()
        };
        assert_eq!((work()?.done, ids(&tube, TaskState::Taken)), (1, vec![film]));
        let claim = store.resume_claim(&token.parse()?)?;
        assert_eq!((claim.body(), claim.attempt()), (&b"film"[..], 1));
        assert_eq!(work()?.done, 0);
        drop(claim);
        assert_eq!(work()?.done, 1);
    }
    Ok(())
}
