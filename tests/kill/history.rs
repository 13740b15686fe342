//! A worker process adds entries to the history of a task, which it takes and gives back meanwhile,
//! and is killed at a random moment. The last of its entries is then the last acknowledged one, or
//! that of the call under way.
//!
//! A report is a letter and its arguments:
//!
//! * `c`: the store is open
//! * `l` and `L` tube number: an entry is about to be added; it was

use std::path::Path;
use std::thread;

use tubewell::expert::HistoryEntry;
use tubewell::{EventKind, FIFO, Failure, OnKey, Put, Store, Tube};

use crate::durability::options_of;
use crate::moment::kill_at_random;
use crate::process::{Job, ReportWriter};
use crate::rng::Rng;
use crate::values::Values;

/// The mode of these workers.
pub const MODE: &str = "history:";

/// The longest way between two entries of the worker is shorter than a history.
const ENTRIES: u32 = 12;
const TUBES: [&str; 3] = ["log/flush", "log/write", "counted/flush"];

fn create(store: &Store, name: &str) -> Tube {
    let options = options_of(name).history(ENTRIES);
    let is_counted = name.starts_with("counted");
    let options = if is_counted { options.max_attempts(u32::MAX) } else { options };
    store.open_tube(name, options.driver(FIFO)).unwrap()
}

// ---- the worker

/// Does the job of this process.
pub fn run(job: &Job) {
    let reports = &ReportWriter::new();
    let store = &Store::open(&job.path).unwrap();
    let tubes = TUBES.map(|name| create(store, name));
    reports.write("c");
    thread::scope(|scope| {
        for (part, tube) in (0..).zip(&tubes) {
            let mut rng = Rng::for_part(job.seed, part);
            let first = job.run * 1_000_000 + 1;
            scope.spawn(move || {
                for number in first.. {
                    add_entry(&mut rng, reports, tube, number);
                }
            });
        }
    });
}

fn add_entry(rng: &mut Rng, reports: &ReportWriter, tube: &Tube, number: u64) {
    let id = tube.put(Put::new("x").key(tube.name()).on_key(OnKey::Keep)).unwrap().id;
    let report = format!("{} {number}", tube.name());
    reports.write(&format!("l {report}"));
    let claim = rng.one_in(2).then(|| tube.claim(id).unwrap());
    match &claim {
        Some(claim) => claim.log(&number.to_string()).unwrap(),
        None => tube.admin().log(id, &number.to_string()).unwrap(),
    };
    reports.write(&format!("L {report}"));
    let Some(claim) = claim else { return };
    match rng.range(0..3) {
        0 => drop(claim),
        1 => drop(claim.release()),
        _ => drop(claim.fail(Failure::new("crash", "message"))),
    }
}

// ---- the parent

/// The last entry of the worker in each tube.
#[derive(Default)]
pub struct Ledger(Values<String, u64>);

impl Ledger {
    pub fn acknowledged(&self) -> u64 {
        self.0.acknowledged()
    }

    fn add_reports(&mut self, reported: &[String]) {
        for line in reported {
            let words: Vec<&str> = line.split(' ').collect();
            match words[..] {
                ["c"] => {}
                ["l", tube, number] => self.0.begin(tube.to_owned(), number.parse().unwrap()),
                ["L", tube, number] => {
                    self.0.acknowledge(tube.to_owned(), number.parse().unwrap());
                }
                _ => panic!("not a report: {line:?}"),
            }
        }
    }

    /// Opens the store that the worker has left, and compares it with the ledger.
    fn check(&mut self, path: &Path) {
        let store = Store::open(path).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        for name in TUBES {
            let Ok(Some(task)) = store.by_key(name) else { continue };
            let entries = store.find_tube(name).unwrap().query().history(task.id).unwrap();
            self.0.found(name.to_owned(), last_of_worker(&entries));
            let [put, rest @ ..] = &entries[..] else { panic!("{name} has no entries") };
            assert_eq!((put.number, put.what), (0, EventKind::Put));
            let is_next = |pair: &[HistoryEntry]| pair[0].number + 1 == pair[1].number;
            assert!(rest.windows(2).all(is_next) && entries.len() <= ENTRIES as usize);
        }
    }
}

/// The number in the last entry of the worker; 0 if there is none.
fn last_of_worker(entries: &[HistoryEntry]) -> u64 {
    let last = entries.iter().rfind(|entry| entry.what == EventKind::Log);
    last.map_or(0, |entry| entry.text.as_ref().unwrap().parse().unwrap())
}

pub fn run_round(path: &Path, rng: &mut Rng, round: u64, ledger: &mut Ledger) {
    let job = Job { mode: MODE.into(), path: path.to_owned(), seed: rng.next(), run: round };
    let reported = kill_at_random(&job, rng, 300);
    ledger.add_reports(&reported);
    ledger.check(path);
}
