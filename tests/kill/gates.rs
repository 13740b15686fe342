//! A worker process changes the gates of tubes while others put and take, and is killed at a random
//! moment. Each tube then has the gates of its last acknowledged call, or of the call under way.
//!
//! A report is a letter and its arguments:
//!
//! * `c`: the store is open
//! * `a` and `A` tube limit: `max_taken` is about to be changed; it was changed. 0 is no limit
//! * `p` and `P` tube paused: the tube is about to be paused (1) or continued (0); it was

use std::path::Path;
use std::thread;
use std::time::Duration;

use tubewell::{FIFO, Put, Store, Tube, UTUBE};

use crate::durability::options_of;
use crate::executor::HANGS_AFTER;
use crate::options::only;
use crate::process::{ChildProcess, Job, ReportWriter};
use crate::rng::Rng;
use crate::values::Values;

/// The mode of these workers.
pub const MODE: &str = "gates:";

const HOUR: Duration = Duration::from_secs(3600);
const TUBES: [(&str, &str); 3] = [("flush", FIFO), ("write", UTUBE), ("relaxed", FIFO)];
/// The least limit of each run: a tube never has as many tasks.
const LEAST_LIMIT: u64 = 1_000_000;

// ---- the worker

/// Does the job of this process.
pub fn run(job: &Job) {
    let reports = &ReportWriter::new();
    let store = Store::open(&job.path).unwrap();
    let tubes = TUBES.map(|(name, driver)| {
        reports.write(&format!("a {name} 0"));
        let tube = store.open_tube(name, only(options_of(name)).driver(driver)).unwrap();
        reports.write(&format!("A {name} 0"));
        tube
    });
    reports.write("c");
    thread::scope(|scope| {
        for (part, tube) in (0..).zip(&tubes) {
            let rng = Rng::for_part(job.seed, part);
            scope.spawn(move || change_gates(rng, reports, tube, job.run));
            scope.spawn(move || put_and_take(tube));
        }
    });
}

fn change_gates(mut rng: Rng, reports: &ReportWriter, tube: &Tube, run: u64) {
    let name = tube.name();
    for n in 1.. {
        if rng.one_in(2) {
            let limit = LEAST_LIMIT * (run + 1) + n;
            let altered = options_of(name).max_taken(limit);
            reports.write(&format!("a {name} {limit}"));
            match rng.range(0..2) {
                0 => tube.admin().alter(only(altered)).unwrap(),
                _ => tube.to_async().admin().alter(only(altered)).wait().unwrap(),
            }
            reports.write(&format!("A {name} {limit}"));
            continue;
        }
        // The tube is open most of the time.
        for paused in [1, 0] {
            reports.write(&format!("p {name} {paused}"));
            match (paused, rng.one_in(2)) {
                (0, _) => tube.admin().unpause().unwrap(),
                (_, true) => tube.admin().pause().unwrap(),
                (_, false) => tube.admin().pause_for(HOUR).unwrap(),
            }
            reports.write(&format!("P {name} {paused}"));
        }
    }
}

fn put_and_take(tube: &Tube) {
    loop {
        if tube.statistics().unwrap().tasks.ready < 20 {
            tube.put(Put::new("x")).unwrap();
        }
        if let Some(claim) = tube.try_take().unwrap() {
            claim.ack().unwrap();
        }
    }
}

// ---- the parent

/// The gates of the tubes, by the name of the tube and the letter of the report.
#[derive(Default)]
pub struct Ledger(Values<(String, char), u64>);

impl Ledger {
    pub fn acknowledged(&self) -> u64 {
        self.0.acknowledged()
    }

    fn add_reports(&mut self, reported: &[String]) {
        for line in reported {
            let words: Vec<&str> = line.split(' ').collect();
            let [kind, name, value] = words[..] else { continue };
            let kind: char = kind.parse().unwrap();
            let gate = (name.to_owned(), kind.to_ascii_lowercase());
            let value = value.parse().unwrap();
            if kind.is_ascii_uppercase() {
                self.0.acknowledge(gate, value);
            } else {
                self.0.begin(gate, value);
            }
        }
    }

    fn check(&mut self, path: &Path) {
        let store = Store::open(path).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        for info in store.tubes().unwrap() {
            let found = [('a', info.max_taken.unwrap_or(0)), ('p', u64::from(info.paused))];
            for (gate, value) in found {
                self.0.found((info.name.clone(), gate), value);
            }
            let tube = store.find_tube(&info.name).unwrap();
            assert!(!info.paused || tube.try_take().unwrap().is_none());
            tube.admin().unpause().unwrap();
            self.0.set((info.name.clone(), 'p'), 0);
        }
    }
}

/// Kills a worker, and compares the gates of its tubes with its reports.
pub fn run_round(path: &Path, rng: &mut Rng, run: u64, ledger: &mut Ledger) {
    let job = Job { mode: MODE.into(), path: path.into(), seed: rng.next(), run };
    let mut worker = ChildProcess::start(&job);
    worker.read_lines(rng.range(1..60), HANGS_AFTER);
    ledger.add_reports(&worker.kill());
    ledger.check(path);
}
