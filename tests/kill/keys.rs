//! A worker process puts, replaces, moves, delays, ends and deletes tasks with keys, and is killed at
//! a random moment. Each key then has the task of its last acknowledged call, or of the call under way;
//! a task that a look-up has returned is not taken back; and no two tasks have one key. A task with a key
//! is found by its tags, too.
//!
//! A key belongs to one thread, so that its calls are in order. A report is a letter and its
//! arguments; an id that is not known yet is 0:
//!
//! * `c`: the store is open
//! * `o` key id version tube place: the task that an open has found. `o` key `-`: no task has the key
//! * `k` and `K` key id version tube place, or key `-`: the task of a key is about to become so, or
//!   to be removed; it was
//! * `q` key id: another thread has found a task by its key

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tubewell::{
    Error, FIFO, FIFOTTL, Filter, Keep, OnKey, Outcome, Put, Store, TaskState, Tube, UTUBE, Update,
};

use crate::body;
use crate::durability::options_of;
use crate::listing::tasks_in;
use crate::moment::kill_at_random;
use crate::process::{Job, ReportWriter};
use crate::rng::Rng;
use crate::values::Values;

/// The mode of these workers.
pub const MODE: &str = "keys:";

const HOUR: Duration = Duration::from_secs(3600);
const THREADS: u64 = 3;
const KEYS_OF_THREAD: u64 = 3;

/// The tubes: their durability, driver, and whether they keep what is done.
const TUBES: [(&str, &str, bool); 4] = [
    ("flush/kept", FIFO, true),
    ("flush/plain", UTUBE, false),
    ("write/kept", FIFOTTL, true),
    ("write/plain", FIFO, false),
];

fn open_tubes(store: &Store) -> Vec<Tube> {
    let open = |(name, driver, keeps): (&str, &str, bool)| {
        let options = options_of(name);
        let options = if keeps { options.keep_done(Keep::new().age(HOUR)) } else { options };
        // No task is refused to a claim because others of its sub-queue are taken.
        let options = if driver == UTUBE { options.sub_queue_limit(u32::MAX) } else { options };
        store.open_tube(name, options.driver(driver)).unwrap()
    };
    TUBES.map(open).into()
}

fn keys_of(thread: u64) -> impl Iterator<Item = String> {
    (0..KEYS_OF_THREAD).map(move |n| format!("key-{thread}-{n}"))
}

/// The task of a key: its id, the version of its body, its tube and its place.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Keyed {
    id: u64,
    version: u64,
    tube: usize,
    place: Place,
}

/// Where a task is that no process has taken.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Place {
    Ready,
    /// It waits for a moment, [`later`].
    Later,
    Buried,
    Done,
}

/// A moment that comes after the test.
fn later() -> SystemTime {
    UNIX_EPOCH + Duration::from_secs(4_102_444_800)
}

impl Keyed {
    /// The task that has this key.
    fn read(store: &Store, tubes: &[Tube], key: &str) -> Option<Keyed> {
        let found = store.by_key(key).unwrap()?;
        let tube = tubes.iter().position(|tube| tube.name() == found.tube).unwrap();
        let place = match found.state {
            TaskState::Ready => Place::Ready,
            TaskState::Delayed if found.not_before == Some(later()) => Place::Later,
            TaskState::Buried => Place::Buried,
            TaskState::Done => Place::Done,
            other => panic!("the task with {key:?} is {other}"),
        };
        assert_eq!(found.key.as_deref(), Some(key));
        let body = tubes[tube].query().task(found.id).unwrap().body;
        let (label, version) = body::label_and_version(&body).unwrap();
        assert_eq!(label, key, "the body of the task with {key:?}");
        Some(Keyed { id: found.id, version, tube, place })
    }

    fn from_words(words: &[&str]) -> Option<Keyed> {
        let [id, version, tube, place] = words else { return None };
        let place = [Place::Ready, Place::Later, Place::Buried, Place::Done]
            .into_iter()
            .find(|known| format!("{known:?}") == *place)
            .unwrap();
        let number = |text: &str| text.parse().unwrap();
        let tube = usize::try_from(number(tube)).unwrap();
        Some(Keyed { id: number(id), version: number(version), tube, place })
    }
}

/// The arguments of a report.
fn words_of(key: &str, task: Option<Keyed>) -> String {
    match task {
        None => format!("{key} -"),
        Some(Keyed { id, version, tube, place }) => {
            format!("{key} {id} {version} {tube} {place:?}")
        }
    }
}

// ---- the worker

/// Does the job of this process.
pub fn run(job: &Job) {
    let reports = &ReportWriter::new();
    let store = &Store::open(&job.path).unwrap();
    let tubes = &open_tubes(store);
    reports.write("c");
    let keys: &Vec<String> = &(0..THREADS).flat_map(keys_of).collect();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let mut worker = Worker {
                rng: Rng::for_part(job.seed, thread),
                reports,
                store,
                tubes,
                // No version is used twice.
                version: (job.run + 1) * 1_000_000,
            };
            scope.spawn(move || worker.work(keys_of(thread).collect()));
        }
        let rng = Rng::for_part(job.seed, THREADS);
        scope.spawn(move || look_up(rng, reports, store, keys));
    });
}

/// Looks keys up, and reports each task the first time.
fn look_up(mut rng: Rng, reports: &ReportWriter, store: &Store, keys: &[String]) {
    let mut known = BTreeSet::new();
    loop {
        let key = &keys[usize::try_from(rng.range(0..keys.len() as u64)).unwrap()];
        if let Some(found) = store.by_key(key).unwrap()
            && known.insert(found.id)
        {
            reports.write(&format!("q {key} {}", found.id));
        }
    }
}

/// A thread of the process, with keys of its own.
struct Worker<'a> {
    rng: Rng,
    reports: &'a ReportWriter,
    store: &'a Store,
    tubes: &'a [Tube],
    version: u64,
}

impl Worker<'_> {
    fn work(&mut self, keys: Vec<String>) {
        let mut tasks: Vec<(String, Option<Keyed>)> = Vec::new();
        for key in keys {
            let task = Keyed::read(self.store, self.tubes, &key);
            self.reports.write(&format!("o {}", words_of(&key, task)));
            tasks.push((key, task));
        }
        loop {
            let nth = self.rng.range(0..tasks.len() as u64);
            let (key, task) = &mut tasks[usize::try_from(nth).unwrap()];
            match *task {
                None => *task = self.put_new(key),
                Some(found) => *task = self.step(key, found),
            }
        }
    }

    /// Reports a call before and after it. It returns the id of the task.
    fn call(
        &self,
        key: &str,
        becomes: Option<Keyed>,
        call: impl FnOnce() -> tubewell::Result<u64>,
    ) -> Option<Keyed> {
        self.reports.write(&format!("k {}", words_of(key, becomes)));
        let id = call().unwrap();
        let task = becomes.map(|task| Keyed { id, ..task });
        self.reports.write(&format!("K {}", words_of(key, task)));
        task
    }

    fn put_new(&mut self, key: &str) -> Option<Keyed> {
        let (put, task) = self.new_put(key, 0);
        let on_key = self.rng.pick(&[OnKey::Reject, OnKey::Keep, OnKey::Replace]);
        self.put_as(key, put.on_key(on_key), task)
    }

    /// Puts a task, in one of three ways.
    fn put_as(&mut self, key: &str, put: Put<Vec<u8>>, task: Keyed) -> Option<Keyed> {
        let (tube, way) = (&self.tubes[task.tube], self.rng.range(0..3));
        self.call(key, Some(task), || match way {
            0 => tube.to_async().put(put).wait().map(|receipt| receipt.id),
            1 => tube.put_many([put, Put::new(b"beside".to_vec())]).map(|receipts| receipts[0].id),
            _ => tube.put(put).map(|receipt| receipt.id),
        })
    }

    /// A put with the key and a new body, and the task that it makes.
    fn new_put(&mut self, key: &str, id: u64) -> (Put<Vec<u8>>, Keyed) {
        self.version += 1;
        let filler = body::random_filler(&mut self.rng);
        let tube = usize::try_from(self.rng.range(0..self.tubes.len() as u64)).unwrap();
        let put = Put::new(body::with_version(key, self.version, filler)).key(key).tag(key);
        let put = put.tag(format!("version {}", self.version % 5));
        (put, Keyed { id, version: self.version, tube, place: Place::Ready })
    }

    fn step(&mut self, key: &str, task: Keyed) -> Option<Keyed> {
        let tube = &self.tubes[task.tube];
        let is_ready = task.place == Place::Ready;
        let has_times = TUBES[task.tube].1 == FIFOTTL;
        match self.rng.range(0..12) {
            0..2 => {
                self.repeat(key, task);
                Some(task)
            }
            10.. if has_times && is_ready => self.change_moment(key, task, Place::Later),
            // It may not go on to a tube without times.
            2..9 | 10.. if task.place == Place::Later => {
                self.change_moment(key, task, Place::Ready)
            }
            2 => {
                let (put, new) = self.new_put(key, task.id);
                self.put_as(key, put.on_key(OnKey::Replace), new)
            }
            3 => {
                let (put, new) = self.new_put(key, task.id);
                let tube = &self.tubes[new.tube];
                self.call(key, Some(new), || tube.requeue(key, put).map(|receipt| receipt.id))
            }
            4..6 if is_ready => {
                let kept = TUBES[task.tube].2.then_some(Keyed { place: Place::Done, ..task });
                let claim = tube.claim(task.id).unwrap();
                self.call(key, kept, || {
                    claim.end(Outcome::result("done")).map(|receipt| receipt.id)
                })
            }
            6 if is_ready => {
                let (put, new) = self.new_put(key, task.id);
                let (claim, next) = (tube.claim(task.id).unwrap(), &self.tubes[new.tube]);
                self.call(key, Some(new), || {
                    claim.end(Outcome::advance(next, put)).map(|receipt| receipt.id)
                })
            }
            7 if is_ready => {
                let buried = Keyed { place: Place::Buried, ..task };
                self.call(key, Some(buried), || {
                    tube.admin().bury(task.id, None).map(|receipt| receipt.id)
                })
            }
            8 if task.place != Place::Done => {
                let further = usize::try_from(self.rng.range(1..self.tubes.len() as u64)).unwrap();
                let to = (task.tube + further) % self.tubes.len();
                let (moved, into) = (Keyed { tube: to, ..task }, &self.tubes[to]);
                self.call(key, Some(moved), || tube.admin().move_to(into, task.id).map(|_| task.id))
            }
            9 => self.call(key, None, || match task.place {
                Place::Done => tube.admin().forget(task.id).map(|receipt| receipt.id),
                _ => tube.delete(task.id).map(|receipt| receipt.id),
            }),
            _ => Some(task),
        }
    }

    /// Lets a task wait for a moment, or no longer.
    fn change_moment(&mut self, key: &str, task: Keyed, place: Place) -> Option<Keyed> {
        let moment = (place == Place::Later).then(later);
        let change = Update::new().not_before(moment);
        let tube = &self.tubes[task.tube];
        self.call(key, Some(Keyed { place, ..task }), || {
            tube.update(task.id, change).map(|receipt| receipt.id)
        })
    }

    /// Repeats a put, which changes nothing.
    fn repeat(&mut self, key: &str, task: Keyed) {
        let (put, new) = self.new_put(key, 0);
        let tube = &self.tubes[new.tube];
        if self.rng.one_in(2) {
            assert_eq!(tube.put(put.on_key(OnKey::Keep)).unwrap().id, task.id);
            return;
        }
        match tube.put(put) {
            Err(Error::KeyInUse { id, .. }) => assert_eq!(id, task.id),
            other => panic!("a second put with {key:?}: {other:?}"),
        }
    }
}

// ---- the parent

/// The tasks of the keys.
#[derive(Default)]
pub struct Ledger {
    tasks: Values<String, Option<Keyed>>,
    /// The ids that each key has had.
    ids: BTreeMap<String, BTreeSet<u64>>,
    answered: u64,
}

impl Ledger {
    pub fn summary(&self) -> String {
        let acknowledged = self.tasks.acknowledged();
        format!("{acknowledged} acknowledgements, {} look-ups before them", self.answered)
    }

    pub fn acknowledged(&self) -> u64 {
        self.tasks.acknowledged()
    }

    fn add_reports(&mut self, reported: &[String]) {
        for line in reported {
            let words: Vec<&str> = line.split(' ').collect();
            if let ["c"] = words[..] {
                continue;
            }
            let [letter, key, ref rest @ ..] = words[..] else { panic!("not a report: {line:?}") };
            if letter == "q" {
                self.add_answer(key, rest[0].parse().unwrap());
                continue;
            }
            let task = Keyed::from_words(rest);
            if let Some(task) = task {
                self.ids.entry(key.to_owned()).or_default().insert(task.id);
            }
            match letter {
                "k" => self.tasks.begin(key.to_owned(), task),
                "K" => self.tasks.acknowledge(key.to_owned(), task),
                "o" => self.found(key, task),
                _ => panic!("not a report: {line:?}"),
            }
        }
    }

    /// A look-up has returned a task. If only the call under way can have put it, that call is not
    /// taken back.
    fn add_answer(&mut self, key: &str, id: u64) {
        // The report may be late, and tell of a task that was replaced since.
        if !self.ids.entry(key.to_owned()).or_default().insert(id) {
            return;
        }
        let values = self.tasks.of(key.to_owned());
        let put = values.iter().position(|task| task.is_some_and(|task| task.id == 0));
        let put = put.unwrap_or_else(|| panic!("{key:?} has task {id}, which was not put"));
        values.drain(..put);
        values[0].as_mut().unwrap().id = id;
        self.answered += 1;
    }

    /// A run has this task of a key. The id of a new one is not known before.
    fn found(&mut self, key: &str, task: Option<Keyed>) {
        let values = self.tasks.of(key.to_owned());
        for value in values.iter_mut().flatten().filter(|value| value.id == 0) {
            let is_this = |task: &Keyed| Keyed { id: 0, ..*task } == *value;
            value.id = task.filter(is_this).map_or(0, |task| task.id);
        }
        self.tasks.found(key.to_owned(), task);
    }

    /// Opens the store that the worker has left, and compares the tasks of the keys with the ledger.
    fn check(&mut self, path: &Path) {
        let store = Store::open(path).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let tubes = open_tubes(&store);
        let mut by_key = BTreeMap::new();
        for tube in &tubes {
            for state in [TaskState::Ready, TaskState::Delayed, TaskState::Buried, TaskState::Done]
            {
                for task in tasks_in(tube, state) {
                    let Some(key) = task.key else { continue };
                    let other = by_key.insert(key.clone(), task.id);
                    assert_eq!(other, None, "task {} has {key:?} too", task.id);
                }
            }
        }
        for key in (0..THREADS).flat_map(keys_of) {
            let task = Keyed::read(&store, &tubes, &key);
            assert_eq!(by_key.remove(&key), task.map(|task| task.id), "the task with {key:?}");
            assert_eq!(
                tagged(&store, &key),
                Vec::from_iter(task.map(|task| task.id)),
                "the tasks with the tag {key:?}"
            );
            if let Some(task) = task {
                self.ids.entry(key.clone()).or_default().insert(task.id);
            }
            self.found(&key, task);
        }
        assert!(by_key.is_empty(), "{by_key:?}");
        // The tasks beside those with keys are many.
        for tube in &tubes {
            let without_key = |page: tubewell::Page<tubewell::TaskInfo>| {
                let tasks = page.items.into_iter().filter(|task| task.key.is_none());
                tasks.map(|task| task.id).collect::<Vec<_>>()
            };
            tube.admin()
                .delete(
                    Filter::new().ids(without_key(
                        tube.query().list(TaskState::Ready, None, 10_000).unwrap(),
                    )),
                )
                .unwrap();
        }
    }
}

/// The tasks with a tag, which all have a second one: that of their versions.
fn tagged(store: &Store, tag: &str) -> Vec<u64> {
    let page = store.list(Filter::new().tag(tag), None, 1000).unwrap();
    for task in &page.items {
        assert_eq!((task.tags.len(), &*task.tags[0]), (2, tag), "{task:?}");
    }
    page.items.iter().map(|task| task.id).collect()
}

/// Kills a worker at a random moment, and compares the store with its reports.
pub fn run_round(path: &Path, rng: &mut Rng, run: u64, ledger: &mut Ledger) {
    let job = Job { mode: MODE.into(), path: path.into(), seed: rng.next(), run };
    ledger.add_reports(&kill_at_random(&job, rng, 300));
    // Without it the next worker recovers the store, and may be killed meanwhile.
    if rng.one_in(2) {
        ledger.check(path);
    }
}
