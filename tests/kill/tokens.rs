//! Worker processes put tasks with tokens and ack them, and are killed at random moments. The parent
//! makes their puts again: one that was acknowledged answers with the same id and puts nothing, and one
//! whose outcome is not known is there once afterwards.
//!
//! A token is used by one thread. The body of a task is the token of its put. A report is a letter and
//! its arguments:
//!
//! * `c`: the store is open
//! * `p` tube token: a put is about to be made. `P` tube token id: it has returned
//! * `d` and `D` tube token id: a task is about to be acked; it was

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::thread;
use std::time::Duration;

use tubewell::{FIFO, FIFOTTL, Put, Store, TaskState, Tube};

use crate::durability::options_of;
use crate::listing::tasks_in;
use crate::moment::kill_at_random;
use crate::process::{Job, ReportWriter};
use crate::rng::Rng;

/// The mode of these workers.
pub const MODE: &str = "tokens:";

const TUBES: [(&str, &str); 2] = [("flush", FIFO), ("write", FIFOTTL)];
const THREADS: u64 = 2;

fn open_tubes(store: &Store) -> [Tube; 2] {
    TUBES.map(|(name, driver)| store.open_tube(name, options_of(name).driver(driver)).unwrap())
}

fn with_token(token: &str) -> Put<&str> {
    Put::new(token).idempotency_key(token)
}

// ---- the worker

/// Does the job of this process.
pub fn run(job: &Job) {
    let reports = &ReportWriter::new();
    let store = Store::open(&job.path).unwrap();
    let tubes = open_tubes(&store);
    reports.write("c");
    thread::scope(|scope| {
        for (part, tube) in (0..).zip(&tubes) {
            for thread in 0..THREADS {
                let mut rng = Rng::for_part(job.seed, THREADS * part + thread);
                let prefix = format!("{}-{thread}", job.run);
                scope.spawn(move || {
                    for n in 0.. {
                        put(&mut rng, reports, tube, &format!("{prefix}-{n}"));
                        if rng.one_in(2) {
                            ack(reports, tube);
                        }
                    }
                });
            }
        }
    });
}

/// Puts a task in one of several ways, and sometimes once more.
fn put(rng: &mut Rng, reports: &ReportWriter, tube: &Tube, token: &str) {
    let put = || with_token(token);
    reports.write(&format!("p {} {token}", tube.name()));
    let id = match rng.range(0..4) {
        0 => tube.to_async().put(put()).wait().unwrap().id,
        1 => tube.put_many([put(), put()]).unwrap()[1].id,
        2 => tube.put_timeout(put(), Duration::MAX).unwrap().id,
        _ => tube.put(put()).unwrap().id,
    };
    if rng.one_in(3) {
        assert_eq!(tube.put(put()).unwrap().id, id);
    }
    reports.write(&format!("P {} {token} {id}", tube.name()));
}

fn ack(reports: &ReportWriter, tube: &Tube) {
    let Some(claim) = tube.try_take().unwrap() else { return };
    let token = std::str::from_utf8(claim.body()).unwrap();
    let report = format!("{} {token} {}", tube.name(), claim.id());
    reports.write(&format!("d {report}"));
    claim.ack().unwrap();
    reports.write(&format!("D {report}"));
}

// ---- the parent

/// A put, by its tube and its token.
type PutOf = (String, String);

/// What was put and acked, of all runs.
#[derive(Default)]
pub struct Ledger {
    ids: BTreeMap<PutOf, u64>,
    /// The puts whose outcome is not known.
    unknown: BTreeSet<PutOf>,
    /// The tasks that were acked, and those whose ack was under way.
    acked: BTreeSet<PutOf>,
    ending: BTreeSet<PutOf>,
    made_again: u64,
}

impl Ledger {
    pub fn acknowledged(&self) -> usize {
        self.ids.len()
    }

    /// How many puts of an unknown outcome were made again.
    pub fn made_again(&self) -> u64 {
        self.made_again
    }

    fn add_reports(&mut self, reported: &[String]) {
        for line in reported {
            let words: Vec<&str> = line.split(' ').collect();
            let [letter, rest @ ..] = &words[..] else { panic!("not a report: {line:?}") };
            let [tube, token, id @ ..] = rest else { continue };
            let put = ((*tube).to_owned(), (*token).to_owned());
            let id = || id[0].parse::<u64>().unwrap();
            match *letter {
                "p" => drop(self.unknown.insert(put)),
                "P" => {
                    self.unknown.remove(&put);
                    self.note(put, id());
                }
                "d" => {
                    self.note(put.clone(), id());
                    self.ending.insert(put);
                }
                "D" => drop(self.acked.insert(put)),
                _ => panic!("not a report: {line:?}"),
            }
        }
    }

    fn note(&mut self, put: PutOf, id: u64) {
        let known = self.ids.insert(put.clone(), id);
        assert!(known.is_none_or(|known| known == id), "{put:?} has the ids {known:?} and {id}");
    }

    /// Opens the store that the worker has left, and makes its puts again.
    fn check(&mut self, path: &Path) {
        let store = Store::open(path).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        for tube in open_tubes(&store) {
            let again = |token: &str| tube.put(with_token(token)).unwrap();
            let of_tube = |put: &&PutOf| put.0 == tube.name();
            for put in self.unknown.iter().filter(of_tube) {
                let id = again(&put.1).id;
                let known = self.ids.insert(put.clone(), id);
                assert!(known.is_none_or(|known| known == id), "{put:?} was put twice");
                self.made_again += 1;
            }
            let puts = tube.statistics().unwrap().calls.put;
            let mut gone = BTreeSet::new();
            for (put, id) in self.ids.iter().filter(|(put, _)| of_tube(put)) {
                let receipt = again(&put.1);
                assert_eq!(receipt.id, *id, "{put:?}");
                if receipt.state == TaskState::Done {
                    gone.insert(put.clone());
                }
            }
            assert_eq!(tube.statistics().unwrap().calls.put, puts);
            let gone_by_an_ack = gone.iter().all(|put| self.ending.contains(put));
            assert!(gone_by_an_ack, "an acknowledged put is lost");
            assert!(self.acked.iter().filter(of_tube).all(|put| gone.contains(put)));
            let mut there = BTreeSet::new();
            for task in tasks_in(&tube, TaskState::Ready) {
                let token =
                    String::from_utf8(tube.query().task(task.id).unwrap().body.to_vec()).unwrap();
                let put = (tube.name().to_owned(), token);
                assert_eq!(self.ids.get(&put), Some(&task.id), "{put:?} is there twice");
                there.insert(put);
            }
            let all = self.ids.keys().filter(of_tube).count();
            assert_eq!(there.len() + gone.len(), all, "{}", tube.name());
        }
        self.unknown.clear();
    }
}

pub fn run_round(path: &Path, rng: &mut Rng, round: u64, ledger: &mut Ledger) {
    let job = Job { mode: MODE.into(), path: path.to_owned(), seed: rng.next(), run: round };
    let reported = kill_at_random(&job, rng, 400);
    ledger.add_reports(&reported);
    ledger.check(path);
}
