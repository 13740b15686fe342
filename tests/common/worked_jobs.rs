//! A job of a worker that has every kind of step: a value, two tasks that are put, a sleep, a join
//! and a last value. A ledger outside of the store says what has run, and what was answered.

use std::collections::BTreeMap;
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell::worker::{Ended, Job, Report, Worker};
use tubewell::{
    Durability, Error, FIFO, FIFOTTL, ManualClock, Put, Result, Store, Tube, TubeOptions,
};

#[path = "patience.rs"]
#[allow(clippy::duplicate_mod, reason = "other files of a test target include it, too")]
mod patience;
use patience::HANGS_AFTER;

/// The steps in the order of the work.
pub const NAMES: [&str; 6] = ["first", "part 0", "part 1", "rest", "both", "last"];
const REST: Duration = Duration::from_secs(100);
const TICK: Duration = Duration::from_secs(50);

/// What has happened to a step, to a child, or to the job.
#[derive(Clone, Debug, PartialEq)]
pub enum What {
    /// It was worked on: the effect has happened.
    Ran,
    /// Its call has returned; so has that of a sleep or a join that has suspended the job.
    Answered,
    /// The call has returned [`OutcomeUnknown`](Error::OutcomeUnknown).
    Unknown,
    /// The sleep, or the join, is over.
    Over,
    /// A contradiction that the worker has seen, or its panic.
    Wrong(String),
}

#[derive(Clone, Debug)]
pub struct Entry {
    /// The position of the disk.
    pub at: usize,
    time: Duration,
    name: String,
    pub what: What,
    /// That of a child.
    id: Option<u64>,
}

impl Entry {
    /// The time of the clock.
    pub fn time(&self) -> Duration {
        self.time
    }
}

/// The position of the disk.
pub type Position = Arc<dyn Fn() -> usize + Send + Sync>;

#[derive(Clone)]
struct Ledger {
    entries: Arc<Mutex<Vec<Entry>>>,
    position: Position,
    clock: ManualClock,
}

impl Ledger {
    fn add(&self, name: &str, what: What, id: Option<u64>) {
        let (at, time) = ((self.position)(), self.clock.now());
        self.entries.lock().unwrap().push(Entry { at, time, name: name.into(), what, id });
    }

    /// Notes how the call of a step has returned.
    fn answered<T>(&self, name: &str, answer: Result<T>, id: fn(&T) -> Option<u64>) -> Result<T> {
        match &answer {
            Ok(value) => self.add(name, What::Answered, id(value)),
            Err(Error::Interrupted { .. }) => self.add(name, What::Answered, None),
            Err(Error::OutcomeUnknown { .. }) => self.add(name, What::Unknown, None),
            Err(_) => {}
        }
        answer
    }

    /// Notes how a job has ended. Returns false if a step, a take or an end has failed with the
    /// storage.
    fn hears(&self, report: &Report) -> bool {
        match report {
            Report::Ended { end: Ended::Done, tube, id, .. } if &**tube == "parts" => {
                self.add("child", What::Answered, Some(*id));
            }
            Report::Ended { end: Ended::Done, .. } => self.add("job", What::Answered, None),
            Report::Ended { end: Ended::Suspended, .. } => {}
            Report::Ended { end: Ended::Panicked, failure, .. } => {
                self.add("job", What::Wrong(format!("{failure:?}")), None);
            }
            _ => return false,
        }
        true
    }

    fn value(&self, job: &Job, name: &str, size: usize) -> Result<()> {
        let run = || {
            self.add(name, What::Ran, None);
            Ok::<_, Error>(vec![7_u8; size])
        };
        self.answered(name, job.step(name, run), |_| None).map(drop)
    }

    /// The work of the job.
    fn work(&self, job: &Job, parts: &Tube) -> Result<()> {
        self.value(job, NAMES[0], 100)?;
        let mut ids = Vec::new();
        for (name, size) in [(NAMES[1], 10), (NAMES[2], 70_000)] {
            let child = Put::new(format!("{name} {}", "x".repeat(size)));
            ids.push(self.answered(name, job.spawn(name, parts, child), |id| Some(*id))?);
        }
        self.answered(NAMES[3], job.sleep(NAMES[3], REST), |()| None)?;
        self.add(NAMES[3], What::Over, None);
        self.answered(NAMES[4], job.join(NAMES[4], parts, &ids), |()| None)?;
        self.add(NAMES[4], What::Over, None);
        if ids.iter().any(|id| parts.query().task(*id).is_ok()) {
            self.add(NAMES[4], What::Wrong("a child is not done".into()), None);
        }
        self.value(job, NAMES[5], 3000)
    }
}

/// A store with the job, and what was worked on in this run of it.
pub struct Workshop {
    pub store: Store,
    pub clock: ManualClock,
    jobs: Tube,
    parts: Tube,
    ledger: Ledger,
}

impl Workshop {
    /// Opens the tubes, and creates them if they are not there.
    pub fn new(
        store: Store,
        clock: ManualClock,
        durability: Durability,
        position: Position,
    ) -> Workshop {
        let create = |name, driver| {
            let options = TubeOptions::new().durability(durability);
            store.open_tube(name, options.driver(driver)).unwrap()
        };
        let (jobs, parts) = (create("jobs", FIFOTTL), create("parts", FIFO));
        let ledger = Ledger { entries: Arc::default(), position, clock: clock.clone() };
        Workshop { store, clock, jobs, parts, ledger }
    }

    pub fn put_job(&self) {
        self.jobs.put(Put::new("job").key("job")).unwrap();
        self.store.flush().unwrap();
    }

    pub fn entries(&self) -> Vec<Entry> {
        let entries = self.ledger.entries.lock().unwrap().clone();
        for entry in &entries {
            assert!(!matches!(entry.what, What::Wrong(_)), "{entry:?}");
        }
        entries
    }

    /// Works until no task is left, or until the storage has failed. Returns whether no task is
    /// left.
    pub fn work(&self) -> bool {
        for _ in 0..12 {
            if !self.run_worker(&self.jobs, u64::MAX) {
                return false;
            }
            let Ok(jobs) = self.jobs.statistics() else { return false };
            if jobs.tasks.blocked > 0 && !self.run_worker(&self.parts, 1) {
                return false;
            }
            if jobs.tasks.total == 0 {
                return true;
            }
            self.clock.advance(TICK);
        }
        panic!("the job does not end: {:?}", self.entries());
    }

    /// Runs a worker until no task is ready. Returns false if the storage has failed: the worker then
    /// stops, and does not wait until an end can be stored.
    fn run_worker(&self, tube: &Tube, limit: u64) -> bool {
        let is_idle = || tube.statistics().map(|statistics| statistics.tasks.ready == 0);
        if is_idle().unwrap_or(true) {
            return is_idle().is_ok();
        }
        let (sender, reports) = channel();
        let worker = self.worker(tube).limit(limit);
        let ledger = self.ledger.clone();
        let worker = worker.watch(move |report| {
            let _ = sender.send(ledger.hears(report));
        });
        // A worker does not start while the storage fails.
        let Ok(worker) = worker.start() else { return false };
        let mut is_well = true;
        while is_well {
            is_well = reports.recv_timeout(HANGS_AFTER).unwrap();
            if limit == 1 || is_idle().unwrap_or(true) {
                break;
            }
        }
        let stop = if is_well { Duration::MAX } else { Duration::ZERO };
        let has_stopped = worker.stop(stop).is_ok();
        let has_ended_well = worker.wait().is_ok();
        is_well && has_stopped && has_ended_well && reports.try_iter().all(|is_well| is_well)
    }

    fn worker(&self, tube: &Tube) -> Worker {
        let (ledger, parts, is_job) =
            (self.ledger.clone(), self.parts.clone(), tube.name() == "jobs");
        let handler = move |job: &Job| -> Result<()> {
            if is_job {
                return ledger.work(job, &parts);
            }
            ledger.add(&child_name(job.body()), What::Ran, Some(job.id()));
            Ok(())
        };
        Worker::new(&self.store).on(tube, handler)
    }

    /// A step whose outcome was unknown is stored once the storage works again.
    pub fn assert_unknown_is_stored(&self, what: &str) {
        let Some(stored) = self.stored() else { return };
        let unknown = self.entries().into_iter().filter(|entry| entry.what == What::Unknown);
        for entry in unknown {
            assert!(stored.contains(&entry.name), "{what}: {entry:?}, {stored:?}");
        }
    }

    /// The steps of the job that are stored; `None` if the job is not there.
    fn stored(&self) -> Option<Vec<String>> {
        let job = self.store.by_key("job").unwrap()?;
        let mut names: Vec<String> =
            self.jobs.query().steps(job.id).unwrap().into_iter().map(|step| step.name).collect();
        names.sort_by_key(|name| NAMES.iter().position(|known| known == name));
        Some(names)
    }

    /// The children that are there, by the step that has put them.
    fn children(&self, what: &str) -> BTreeMap<String, u64> {
        let mut found = BTreeMap::new();
        for state in [tubewell::TaskState::Ready, tubewell::TaskState::Taken] {
            for task in self.parts.query().list(state, None, 100).unwrap().items {
                let name = child_name(&self.parts.query().task(task.id).unwrap().body);
                assert!(found.insert(name, task.id).is_none(), "{what}: a child was put twice");
            }
        }
        found
    }

    /// Goes on with the job and checks that it goes on where it was. `before`: the ledger of the run
    /// before. `all`: that of its whole run, also of what came after the crash that this store has
    /// recovered from. `keeps_answers`: what was answered must be there.
    pub fn go_on(&self, before: &[Entry], all: &[Entry], keeps_answers: bool, what: &str) {
        let stored = self.stored();
        let children = self.children(what);
        check_stored(stored.as_deref(), before, keeps_answers, what);
        let names = stored.clone().unwrap_or_else(|| NAMES.map(Into::into).to_vec());
        for part in [NAMES[1], NAMES[2]] {
            let is_stored = names.iter().any(|name| name == part);
            let was_worked_on = all.iter().any(|e| e.name == part && e.what == What::Ran);
            let is_there = children.contains_key(part);
            assert!(is_stored || !is_there, "{what}: {part} without its step");
            assert!(!is_stored || is_there || was_worked_on, "{what}: {part} is lost");
        }
        let begin = self.entries().len();
        assert!(self.work(), "{what}");
        let after = self.entries().split_off(begin);
        for entry in &after {
            let is_step = [NAMES[0], NAMES[5]].contains(&&*entry.name) && entry.what == What::Ran;
            let runs_again = is_step && names.contains(&entry.name);
            assert!(!runs_again, "{what}: {entry:?} runs again");
        }
        check_children(before, &after, &children, keeps_answers, what);
        let rests = names.iter().any(|name| name == NAMES[3]);
        check_sleep(if rests { all } else { &after }, &after, what);
        assert_eq!(self.store.admin().verify().unwrap(), [""; 0], "{what}");
        assert_eq!(self.parts.statistics().unwrap().tasks.total, 0, "{what}");
    }
}

fn child_name(body: &[u8]) -> String {
    String::from_utf8(body.iter().copied().take(NAMES[1].len()).collect()).unwrap()
}

/// The stored steps are the first ones of the work, and those that were answered are among them.
fn check_stored(stored: Option<&[String]>, before: &[Entry], keeps_answers: bool, what: &str) {
    let answered =
        |name: &str| before.iter().any(|entry| entry.name == name && entry.what == What::Answered);
    let Some(stored) = stored else {
        assert!(!keeps_answers || answered(NAMES[5]), "{what}: the job is lost");
        return;
    };
    // A join that is over at once in its next attempt is stored by that.
    assert!(stored.iter().eq(&NAMES[..stored.len()]), "{what}: {stored:?}");
    if keeps_answers {
        assert!(!answered("job"), "{what}: the job is there again");
        for name in NAMES.iter().filter(|name| answered(name)) {
            assert!(stored.iter().any(|stored| stored == name), "{what}: {name} is not stored");
        }
    }
}

/// Each child has one id, and one whose end was answered is not worked on again.
fn check_children(
    before: &[Entry],
    after: &[Entry],
    children: &BTreeMap<String, u64>,
    keeps_answers: bool,
    what: &str,
) {
    for entry in after.iter().filter(|entry| entry.id.is_some()) {
        let there = children.get(&entry.name);
        assert!(there.is_none_or(|id| entry.id == Some(*id)), "{what}: {entry:?}, {there:?}");
        let is_known = |old: &&Entry| old.name == entry.name && old.id.is_some() && keeps_answers;
        let old = before.iter().filter(is_known).find(|old| old.name != "child");
        assert!(old.is_none_or(|old| old.id == entry.id), "{what}: {old:?}, {entry:?}");
        let is_done = |old: &Entry| old.name == "child" && old.id == entry.id;
        let runs_again = entry.what == What::Ran && before.iter().any(is_done) && keeps_answers;
        assert!(!runs_again, "{what}: {entry:?} is worked on again");
    }
}

/// A sleep begins once. `began`: the ledger in which it has begun.
fn check_sleep(began: &[Entry], after: &[Entry], what: &str) {
    let begin = began.iter().find(|entry| entry.name == NAMES[3]).map(|entry| entry.time);
    let over = |entry: &&Entry| entry.name == NAMES[3] && entry.what == What::Over;
    let over = after.iter().find(over).map(|entry| entry.time);
    if let (Some(begin), Some(over)) = (begin, over) {
        assert!(over >= begin + REST, "{what}: {begin:?} to {over:?}");
    }
}
