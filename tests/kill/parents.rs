//! A worker process puts tasks that wait for others, ends tasks, and moves and buries some. It is
//! killed at a random moment, or aborts in a call to the file by the thread that tells the children of
//! a parent. A task whose parents are not all over is then not ready, a task whose parents are over
//! becomes ready without a further call, and no edge is left behind.
//!
//! The body of a task names its parents: those with which it is put, and those that are added then.
//!
//! A report is a letter and the id of a task:
//!
//! * `p`: it was put
//! * `e` and `E`: it is about to be acked or deleted; it was

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::path::Path;
use std::sync::Mutex;
use std::thread;

use tubewell::{Error, FIFO, Filter, Outcome, Put, Store, TaskInfo, TaskState, Tube};

use crate::abort_points::{self, AbortPoint};
use crate::body;
use crate::durability::options_of;
use crate::executor::wait_until;
use crate::listing::tasks_in;
use crate::moment::kill_at_random;
use crate::process::{Job, ReportWriter};
use crate::rng::Rng;

/// The mode of these workers, which a point follows at which they abort.
pub const MODE: &str = "parents:";

const THREADS: u64 = 3;
/// A worker puts no tasks into a store with so many.
const TASKS: u64 = 500;
/// More children than one call or one step of a chore tells.
const MANY_CHILDREN: u64 = 330;
/// How many of the last tasks may become parents.
const RECENT: u64 = 40;

/// The points at which a worker aborts: calls to the file by the thread that tells children.
const POINTS: [&str; 7] = [
    "none",
    "writer-first",
    "writer-write",
    "writer-half",
    "writer-wrote",
    "writer-sync",
    "writer-synced",
];

fn open_tubes(store: &Store) -> [Tube; 2] {
    ["flush", "write"].map(|name| store.open_tube(name, options_of(name).driver(FIFO)).unwrap())
}

// ---- the worker

struct Worker {
    tubes: [Tube; 2],
    reports: ReportWriter,
    /// The last tasks that were put.
    recent: Mutex<VecDeque<u64>>,
}

/// Does the job of this process.
pub fn run(job: &Job) {
    let point = AbortPoint::parse(job.mode.strip_prefix(MODE).unwrap());
    let reports = ReportWriter::new();
    let store = abort_points::open(job, &point);
    let worker = &Worker { tubes: open_tubes(&store), reports, recent: Mutex::default() };
    thread::scope(|scope| {
        for part in 0..THREADS {
            let rng = Rng::for_part(job.seed, part);
            scope.spawn(move || worker.work(rng));
        }
    });
}

impl Worker {
    fn work(&self, mut rng: Rng) {
        loop {
            let total: u64 =
                self.tubes.iter().map(|tube| tube.statistics().unwrap().tasks.total).sum();
            let tube = &self.tubes[usize::from(rng.one_in(2))];
            match rng.range(0..16) {
                0 if total < TASKS => self.put_many(&mut rng, tube),
                0..=5 if total < TASKS => self.put(&mut rng, tube),
                6 => self.move_or_bury(&mut rng, tube),
                7 => self.delete(&mut rng, tube),
                _ => self.end(&mut rng, tube),
            }
        }
    }

    /// Some of the last tasks.
    fn some_recent(&self, rng: &mut Rng) -> Vec<u64> {
        let recent = self.recent.lock().unwrap();
        let most = rng.pick(&[0, 1, 1, 2, 4]);
        let mut nth = || usize::try_from(rng.range(0..RECENT)).unwrap();
        (0..most).filter_map(|_| recent.get(nth()).copied()).collect()
    }

    fn note_put(&self, id: u64) {
        self.reports.write(&format!("p {id}"));
        let mut recent = self.recent.lock().unwrap();
        recent.push_back(id);
        if recent.len() as u64 > RECENT {
            recent.pop_front();
        }
    }

    fn put(&self, rng: &mut Rng, tube: &Tube) {
        let (parents, added) = (self.some_recent(rng), self.some_recent(rng));
        let id = tube.put(child(tube, &parents, &added, body::random_filler(rng))).unwrap().id;
        self.note_put(id);
        if !added.is_empty() {
            // Another thread may have ended or moved it.
            let _ = tube.admin().add_parents(id, tube, &added);
        }
    }

    fn put_many(&self, rng: &mut Rng, tube: &Tube) {
        let parent = self.tubes[0].put(child(tube, &[], &[], 0)).unwrap().id;
        self.note_put(parent);
        let puts = (0..rng.pick(&[70, MANY_CHILDREN])).map(|_| child(tube, &[parent], &[], 0));
        for receipt in tube.put_many(puts).unwrap() {
            self.reports.write(&format!("p {}", receipt.id));
        }
    }

    fn move_or_bury(&self, rng: &mut Rng, tube: &Tube) {
        // Another thread may end it meanwhile.
        if let Some(id) = self.some_recent(rng).first() {
            if rng.one_in(2) {
                let _ = tube.admin().move_to(&self.tubes[usize::from(rng.one_in(2))], *id);
            } else {
                let _ = tube.admin().bury(*id, None);
            }
        }
        if rng.one_in(2) {
            tube.admin().kick(Filter::new().limit(100)).unwrap();
        }
    }

    fn delete(&self, rng: &mut Rng, tube: &Tube) {
        let Some(id) = self.some_recent(rng).first().copied() else { return };
        self.reports.write(&format!("e {id}"));
        match tube.delete(id) {
            Ok(_) => self.reports.write(&format!("E {id}")),
            Err(Error::HasDependents { .. } | Error::NotFound { .. }) => {}
            Err(error) => panic!("{error}"),
        }
    }

    fn end(&self, rng: &mut Rng, tube: &Tube) {
        let Some(claim) = tube.try_take().unwrap() else { return };
        let id = claim.id();
        self.reports.write(&format!("e {id}"));
        let ended = if rng.one_in(4) {
            let parents = self.some_recent(rng);
            let into = &self.tubes[usize::from(rng.one_in(2))];
            claim.end(Outcome::done().and_put(into, child(into, &parents, &[], 9)))
        } else {
            claim.ack()
        };
        match ended {
            Ok(_) => self.reports.write(&format!("E {id}")),
            // Another thread has moved, buried or deleted it.
            Err(error) => assert_eq!(error, Error::NotTaken { id }),
        }
    }
}

/// A task whose body names its parents. Those may be in both tubes.
fn child(tube: &Tube, parents: &[u64], added: &[u64], filler: u64) -> Put<Vec<u8>> {
    let put = Put::new(body::with_label(&format!("{parents:?};{added:?}"), filler));
    if parents.is_empty() { put } else { put.after(tube, parents.iter().copied()) }
}

// ---- the parent process

/// What the reports of all runs say of the tasks.
#[derive(Debug, Default)]
pub struct Ledger {
    put: BTreeSet<u64>,
    /// The tasks that may have ended, and whether that was acknowledged.
    ended: BTreeMap<u64, bool>,
}

/// A task of the store.
struct Stored {
    tube: usize,
    state: TaskState,
    parents: Vec<u64>,
    added: Vec<u64>,
}

impl Ledger {
    /// How many ends were acknowledged.
    pub fn acknowledged(&self) -> usize {
        self.ended.values().filter(|is_acknowledged| **is_acknowledged).count()
    }

    fn add_reports(&mut self, reported: &[String]) {
        for line in reported {
            let (letter, id) = line.split_once(' ').unwrap();
            let id = id.parse().unwrap();
            match letter {
                "p" => drop(self.put.insert(id)),
                "e" => drop(self.ended.entry(id).or_default()),
                "E" => drop(self.ended.insert(id, true)),
                _ => panic!("not a report: {line:?}"),
            }
        }
    }

    /// Opens the store that the worker has left, and compares its tasks with the ledger.
    fn check(&mut self, path: &Path, empties: bool) {
        let store = Store::open(path).unwrap();
        let tubes = open_tubes(&store);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let stored = stored(&tubes);
        for id in self.put.iter().filter(|id| !self.ended.contains_key(id)) {
            assert!(stored.contains_key(id), "task {id} is lost");
        }
        for (id, _) in self.ended.iter().filter(|(_, is_acknowledged)| **is_acknowledged) {
            assert!(!stored.contains_key(id), "task {id} has ended and is there again");
        }
        let is_open = |id: &u64| stored.contains_key(id);
        for (id, task) in stored.iter().filter(|(_, task)| task.state == TaskState::Ready) {
            assert!(!task.parents.iter().any(is_open), "task {id} is ready before its parents");
        }
        for (id, task) in &stored {
            let tube = &tubes[task.tube];
            let wanted: BTreeSet<u64> = task.parents.iter().copied().filter(is_open).collect();
            let may_have: BTreeSet<u64> = task.added.iter().copied().filter(is_open).collect();
            // The children of those that were over at the kill are told by a thread of the store.
            wait_until(|| tube.query().parents(*id).unwrap().iter().all(is_open));
            let parents = BTreeSet::from_iter(tube.query().parents(*id).unwrap());
            assert!(parents.is_superset(&wanted), "task {id} waits for {parents:?}");
            assert!(parents.difference(&wanted).all(|id| may_have.contains(id)));
            let state = tube.query().task(*id).unwrap().info.state;
            let is_blocked = state == TaskState::Blocked;
            assert!(state == TaskState::Buried || is_blocked != parents.is_empty(), "task {id}");
        }
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        if empties {
            self.end_all(&tubes, stored);
            assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        }
    }

    /// Acks all tasks, each after its parents.
    fn end_all(&mut self, tubes: &[Tube; 2], mut stored: BTreeMap<u64, Stored>) {
        for tube in tubes {
            tube.admin().kick(Filter::new().limit(10_000)).unwrap();
        }
        wait_until(|| {
            for tube in tubes {
                while let Some(claim) = tube.try_take().unwrap() {
                    let task = stored.remove(&claim.id()).unwrap();
                    assert!(!task.parents.iter().any(|id| stored.contains_key(id)));
                    self.ended.insert(claim.id(), true);
                    claim.ack().unwrap();
                }
            }
            stored.is_empty()
        });
    }
}

/// All tasks. A thread of the store may free some meanwhile: these are blocked or ready.
fn stored(tubes: &[Tube; 2]) -> BTreeMap<u64, Stored> {
    let mut stored = BTreeMap::new();
    for (number, tube) in tubes.iter().enumerate() {
        for state in [TaskState::Blocked, TaskState::Ready, TaskState::Buried] {
            for TaskInfo { id, .. } in tasks_in(tube, state) {
                let label =
                    body::label(&tube.query().task(id).unwrap().body).expect("the body is whole");
                let (parents, added) = label.split_once(';').unwrap();
                let [parents, added] = [parents, added].map(ids);
                stored.insert(id, Stored { tube: number, state, parents, added });
            }
        }
    }
    stored
}

/// The ids of a list as it is formatted by `{:?}`.
fn ids(text: &str) -> Vec<u64> {
    let text = text.trim_matches(['[', ']']);
    text.split(", ").filter(|id| !id.is_empty()).map(|id| id.parse().unwrap()).collect()
}

/// Kills a worker at a random moment, and compares the store with its reports.
pub fn run_round(path: &Path, rng: &mut Rng, run: u64, ledger: &mut Ledger) {
    let point = POINTS[usize::try_from(run).unwrap() % POINTS.len()];
    let mode = format!("{MODE}{point}:{}", rng.range(1..8));
    let job = Job { mode, path: path.to_owned(), seed: rng.next(), run };
    ledger.add_reports(&kill_at_random(&job, rng, 2000));
    // Without it the next worker recovers the store, and may be killed meanwhile.
    if !rng.one_in(3) {
        ledger.check(path, rng.one_in(3));
    }
}
