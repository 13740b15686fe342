//! A worker process pauses sub-queues and changes shared limits while others hold tasks of the
//! sub-queues, and is killed at a random moment. Each sub-queue then has the pause, and each name
//! the limit, of its last acknowledged call, or of the call under way. The claims of the process are
//! over, so that each sub-queue has all of its places again; a rate has gone on.
//!
//! A report is a letter and its arguments:
//!
//! * `c`: the store is open
//! * `p` and `P` tube name pause: a sub-queue is about to be paused; it was. 0 is no pause, 1 one
//!   without an end, 2 one for an hour
//! * `l` and `L` - name limit: a limit is about to be set, or removed (0); it was
//! * `r` tube name: a task of a sub-queue with a rate was taken

use std::collections::BTreeMap;
use std::path::Path;
use std::thread;
use std::time::Duration;

use tubewell::{Put, Rate, Store, TaskState, Tube, UTUBE, UTUBETTL};

use crate::durability::options_of;
use crate::listing::tasks_in;
use crate::moment::kill_at_random;
use crate::process::{Job, ReportWriter};
use crate::rng::Rng;
use crate::values::Values;

/// The mode of these workers.
pub const MODE: &str = "limits:";

const HOUR: Duration = Duration::from_secs(3600);
/// The sub-queues of each tube, and the names of the limits.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
/// How many tasks of a sub-queue may be taken, where no shared limit says it.
const LIMIT: u32 = 2;
const TUBES: [&str; 4] = ["own/flush", "own/write", "shared/flush", "shared/write"];
/// The tube with a rate: one task of a sub-queue in each hour.
const RATED: &str = "rated/flush";

fn create(store: &Store, name: &str) -> Tube {
    let options = options_of(name);
    if name == RATED {
        let options = options.sub_queue_rate(Rate::per(1, HOUR));
        return store.open_tube(name, options.driver(UTUBE)).unwrap();
    }
    let options = options.sub_queue_limit(LIMIT).shared_limits(name.starts_with("shared"));
    let driver = if name.ends_with("flush") { UTUBE } else { UTUBETTL };
    store.open_tube(name, options.driver(driver)).unwrap()
}

// ---- the worker

/// Does the job of this process.
pub fn run(job: &Job) {
    let reports = &ReportWriter::new();
    let store = &Store::open(&job.path).unwrap();
    let rated = &create(store, RATED);
    let tubes = TUBES.map(|name| create(store, name));
    reports.write("c");
    thread::scope(|scope| {
        for (part, tube) in (0..).zip(&tubes) {
            let rng = Rng::for_part(job.seed, part);
            scope.spawn(move || pause_sub_queues(rng, reports, tube));
            let rng = Rng::for_part(job.seed, 10 + part);
            scope.spawn(move || hold_tasks(rng, tube));
        }
        let rng = Rng::for_part(job.seed, 20);
        scope.spawn(move || set_limits(rng, reports, store));
        scope.spawn(move || take_rated(reports, rated));
    });
}

fn pause_sub_queues(mut rng: Rng, reports: &ReportWriter, tube: &Tube) {
    loop {
        let (name, pause) = (rng.pick(&NAMES), rng.range(0..3));
        let report = format!("{} {name} {pause}", tube.name());
        reports.write(&format!("p {report}"));
        match pause {
            0 => tube.admin().unpause_sub_queue(name).unwrap(),
            1 => tube.admin().pause_sub_queue(name, Duration::MAX).unwrap(),
            _ => tube.admin().pause_sub_queue(name, HOUR).unwrap(),
        }
        reports.write(&format!("P {report}"));
    }
}

/// Holds up to six tasks at a time, and ends the oldest claim in some way.
fn hold_tasks(mut rng: Rng, tube: &Tube) {
    let mut claims = Vec::new();
    loop {
        if tube.statistics().unwrap().tasks.total < 16 {
            tube.put(Put::new("x").sub_queue(rng.pick(&NAMES))).unwrap();
        }
        claims.extend(tube.try_take().unwrap());
        if claims.len() > 5 {
            let claim = claims.remove(0);
            match rng.range(0..3) {
                0 => drop(claim),
                1 => drop(claim.release().unwrap()),
                _ => drop(claim.ack().unwrap()),
            }
        }
    }
}

fn set_limits(mut rng: Rng, reports: &ReportWriter, store: &Store) {
    loop {
        let (name, most) = (rng.pick(&NAMES), rng.range(0..4));
        reports.write(&format!("l - {name} {most}"));
        match u32::try_from(most).unwrap() {
            0 => store.admin().remove_limit(name).unwrap(),
            most => store.admin().set_limit(name, most).unwrap(),
        }
        reports.write(&format!("L - {name} {most}"));
    }
}

/// Takes what the rate allows.
fn take_rated(reports: &ReportWriter, tube: &Tube) {
    for name in NAMES {
        tube.put(Put::new("x").sub_queue(name)).unwrap();
    }
    while let Some(claim) = tube.take_timeout(Duration::MAX).unwrap() {
        reports.write(&format!("r {RATED} {}", claim.sub_queue().unwrap()));
        drop(claim);
    }
}

// ---- the parent

/// The pauses of the sub-queues of each tube, the limits, and the takes from the tube with a rate.
#[derive(Default)]
pub struct Ledger {
    pauses: Values<(String, String), u64>,
    limits: Values<String, u64>,
    rated: BTreeMap<String, u64>,
}

impl Ledger {
    pub fn acknowledged(&self) -> u64 {
        self.pauses.acknowledged().min(self.limits.acknowledged())
    }

    fn add_reports(&mut self, reported: &[String]) {
        for line in reported {
            let words: Vec<&str> = line.split(' ').collect();
            let (letter, tube, name, value) = match words[..] {
                ["c"] => continue,
                ["r", _, name] => {
                    *self.rated.entry(name.to_owned()).or_default() += 1;
                    continue;
                }
                [letter, tube, name, value] => (letter, tube, name, value.parse().unwrap()),
                _ => panic!("not a report: {line:?}"),
            };
            let sub_queue = (tube.to_owned(), name.to_owned());
            match letter {
                "p" => self.pauses.begin(sub_queue, value),
                "P" => self.pauses.acknowledge(sub_queue, value),
                "l" => self.limits.begin(sub_queue.1, value),
                "L" => self.limits.acknowledge(sub_queue.1, value),
                _ => panic!("not a report: {line:?}"),
            }
        }
    }

    /// Opens the store that the worker has left, and compares it with the ledger.
    fn check(&mut self, path: &Path) {
        let store = Store::open(path).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let takes = self.rated.values().max().copied().unwrap_or(0);
        assert!(takes <= 1, "a rate has given more takes than one in an hour: {:?}", self.rated);
        if let Ok(rated) = store.find_tube(RATED) {
            assert!(rated.try_take().unwrap().is_none());
        }
        self.check_limits(&store);
        // A worker may have been killed before it had created all tubes.
        let tubes: Vec<Tube> = TUBES.iter().filter_map(|name| store.find_tube(name).ok()).collect();
        for tube in &tubes {
            self.check_pauses(tube);
        }
        check_places(&store, &tubes);
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    }

    fn check_limits(&mut self, store: &Store) {
        let limits = store.admin().limits().unwrap();
        for name in NAMES {
            let limit = limits.iter().find(|limit| limit.name == name);
            self.limits.found(name.to_owned(), limit.map_or(0, |limit| u64::from(limit.most)));
            assert_eq!(limit.map_or(0, |limit| limit.taken), 0, "places of {name}");
        }
    }

    /// Compares the pauses of a tube, and ends them.
    fn check_pauses(&mut self, tube: &Tube) {
        let paused = tube.query().paused_sub_queues().unwrap();
        for name in NAMES {
            let found = match paused.iter().find(|paused| paused.name == name) {
                None => 0,
                Some(paused) if paused.resumes_in.is_none() => 1,
                Some(_) => 2,
            };
            let sub_queue = (tube.name().to_owned(), name.to_owned());
            self.pauses.found(sub_queue.clone(), found);
            tube.admin().unpause_sub_queue(name).unwrap();
            self.pauses.set(sub_queue, 0);
        }
    }
}

/// Takes all that the limits allow: no place of a sub-queue is held by a process that has ended.
fn check_places(store: &Store, tubes: &[Tube]) {
    let limits = store.admin().limits().unwrap();
    let mut shared: BTreeMap<String, u64> = BTreeMap::new();
    let (mut taken_shared, mut expected_shared) = (0, 0);
    let mut claims = Vec::new();
    for tube in tubes {
        let ready = ready_by_sub_queue(tube);
        let taken = tube.take_many(100, Duration::ZERO).unwrap();
        let count = taken.len() as u64;
        claims.extend(taken);
        if tube.name().starts_with("shared") {
            taken_shared += count;
            for (name, ready) in ready {
                *shared.entry(name).or_default() += ready;
            }
        } else {
            let allowed: u64 = ready.values().map(|ready| (*ready).min(LIMIT.into())).sum();
            assert_eq!(count, allowed, "takes from {}: {ready:?}", tube.name());
        }
    }
    for (name, ready) in &shared {
        let limit = limits.iter().find(|limit| limit.name == *name);
        expected_shared += (*ready).min(limit.map_or(LIMIT, |limit| limit.most).into());
    }
    assert_eq!(taken_shared, expected_shared, "takes with shared limits: {shared:?}, {limits:?}");
}

fn ready_by_sub_queue(tube: &Tube) -> BTreeMap<String, u64> {
    let mut ready = BTreeMap::new();
    for task in tasks_in(tube, TaskState::Ready) {
        *ready.entry(task.sub_queue.unwrap()).or_default() += 1;
    }
    ready
}

/// Kills a worker at a random moment, and compares the store with its reports.
pub fn run_round(path: &Path, rng: &mut Rng, run: u64, ledger: &mut Ledger) {
    let job = Job { mode: MODE.into(), path: path.into(), seed: rng.next(), run };
    ledger.add_reports(&kill_at_random(&job, rng, 200));
    // Without it the next worker recovers the store, and may be killed meanwhile.
    if rng.one_in(2) {
        ledger.check(path);
    }
}
