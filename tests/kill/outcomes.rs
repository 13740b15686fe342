//! A worker process ends tasks with results, and is killed at a random moment. It reports each end
//! before and after its call, so that the parent has a ledger of the results. Every acknowledged
//! result of a flushed or written tube is there after the reopen, unless its tube has kept newer
//! ones instead.
//!
//! A report is a letter and its arguments:
//!
//! * `c`: the store is open
//! * `f` and `F` tube id: a task is about to end with a result; it has ended
//! * `r` tube id: a task of another store is about to be put back as done; `F` then
//! * `g` and `G` tube id: a kept task is about to be forgotten; it was forgotten
//! * `q` tube id ending: a caller that has put a task was told how it has ended

mod ledger;

use std::path::Path;
use std::thread;
use std::time::Duration;

use tubewell::expert::Restore;
use tubewell::{Ending, Error, FIFO, Failure, Keep, Outcome, Put, Store, TaskState, Tube, UTUBE};

use crate::body;
use crate::durability::options_of;
use crate::moment::kill_at_random;
use crate::process::{Job, ReportWriter};
use crate::rng::Rng;

pub use ledger::Ledger;

/// The prefix of the modes of these workers.
pub const MODE: &str = "outcomes:";
/// Ends tasks with results until it is killed.
const ACKS: &str = "outcomes:acks";
/// Ends tasks whose callers wait for their end, until it is killed.
const ANSWERS: &str = "outcomes:answers";

const HOUR: Duration = Duration::from_secs(3600);
/// The ready tasks of a tube.
const TASKS: u64 = 4;
/// How far ahead of the next id the ids of restored tasks are, so that no put is assigned them.
const AHEAD: u64 = 1000;
/// The group of reported failures.
const CRASH: &str = "crash";

/// The durability of a tube, and how many done tasks it keeps.
const TUBES: [(&str, Option<u64>); 7] = [
    ("flush/fifo", None),
    ("flush/fifo/few", Some(5)),
    ("flush/utube/one", Some(1)),
    ("write/fifo", None),
    ("write/utube/few", Some(5)),
    ("write/fifo/one", Some(1)),
    ("relaxed/fifo/few", Some(5)),
];
const ANSWERED: [&str; 2] = ["flush/fifo/answered", "write/fifo/answered"];

// ---- the worker

/// Does the job of this process.
pub fn run(job: &Job) {
    let reports = &ReportWriter::new();
    let store = Store::open(&job.path).unwrap();
    if job.mode == ANSWERS {
        let tubes = ANSWERED.map(|name| create_tube(&store, name, None));
        reports.write("c");
        return answer_callers(job, reports, &tubes);
    }
    let tubes = TUBES.map(|(name, count)| create_tube(&store, name, count));
    reports.write("c");
    thread::scope(|scope| {
        for part in 0..2 {
            let (rng, tubes) = (Rng::for_part(job.seed, part), &tubes);
            let restored_from = move |next: u64| next + AHEAD * (1 + part);
            let store = &store;
            scope.spawn(move || {
                let restore = |rng: &mut Rng, tube: &Tube| {
                    restore(rng, reports, tube, restored_from(store.admin().next_id().unwrap()));
                };
                end_tasks(rng, reports, tubes, restore);
            });
        }
    });
}

fn create_tube(store: &Store, name: &str, count: Option<u64>) -> Tube {
    let driver = if name.split('/').nth(1) == Some("utube") { UTUBE } else { FIFO };
    // The age does not elapse, but half of the tubes have the rows of it.
    let keep = count.map_or(Keep::new(), |count| Keep::new().count(count));
    let keep = if driver == UTUBE { keep.age(HOUR) } else { keep };
    store.open_tube(name, options_of(name).keep_done(keep).driver(driver)).unwrap()
}

/// Takes tasks and ends them with results. Now and then it puts back done ones.
fn end_tasks(
    mut rng: Rng,
    reports: &ReportWriter,
    tubes: &[Tube],
    restore: impl Fn(&mut Rng, &Tube),
) {
    let mut tickets = Vec::new();
    loop {
        let nth = rng.range(0..tubes.len() as u64);
        let tube = &tubes[usize::try_from(nth).unwrap()];
        if rng.one_in(8) {
            forget(reports, tube);
        }
        if rng.one_in(8) {
            restore(&mut rng, tube);
        }
        while tube.statistics().unwrap().tasks.ready < TASKS {
            tube.put(new_put(&mut rng, tube)).unwrap();
        }
        let Some(claim) = tube.try_take().unwrap() else { continue };
        let (id, name) = (claim.id(), tube.name());
        let result = body::with_label(&label(name, id), body::random_filler(&mut rng));
        reports.write(&format!("f {name} {id}"));
        match rng.range(0..4) {
            0 => {
                let ticket = claim.into_async().end(Outcome::result(result));
                tickets.push((name.to_owned(), id, ticket));
            }
            1 => {
                claim.bury(None).unwrap();
                tube.admin().resolve(id, Outcome::result(result.clone())).unwrap();
                reports.write(&format!("F {name} {id}"));
            }
            _ => {
                claim.end(Outcome::result(result)).unwrap();
                reports.write(&format!("F {name} {id}"));
            }
        }
        if tickets.len() > 4 {
            for (name, id, ticket) in tickets.drain(..) {
                ticket.wait().unwrap();
                reports.write(&format!("F {name} {id}"));
            }
        }
    }
}

fn new_put(rng: &mut Rng, tube: &Tube) -> Put<Vec<u8>> {
    let put = Put::new(body::with_label(tube.name(), body::random_filler(rng)));
    if tube.driver() == UTUBE { put.sub_queue(rng.range(0..4).to_string()) } else { put }
}

/// Forgets the task that was done first. Another thread may do so too, or end a task instead of
/// which it is not kept.
fn forget(reports: &ReportWriter, tube: &Tube) {
    let kept = tube.query().list(TaskState::Done, None, 1).unwrap().items;
    let Some(oldest) = kept.first() else { return };
    let (name, id) = (tube.name(), oldest.id);
    reports.write(&format!("g {name} {id}"));
    if tube.admin().forget(id).is_ok() {
        reports.write(&format!("G {name} {id}"));
    }
}

/// Puts a few tasks back as done, with ids from this one on. The other thread may have taken these
/// ids meanwhile.
fn restore(rng: &mut Rng, reports: &ReportWriter, tube: &Tube, first: u64) {
    let name = tube.name();
    let ids = first..=first + rng.range(0..3);
    let done = |id: u64| {
        let result = body::with_label(&label(name, id), body::random_filler(rng));
        Restore::new(new_put(rng, tube)).id(id).takes(1).done(Some(result))
    };
    let tasks: Vec<Restore> = ids.clone().map(done).collect();
    ids.clone().for_each(|id| reports.write(&format!("r {name} {id}")));
    match tube.admin().restore_many(tasks) {
        Ok(_) => ids.for_each(|id| reports.write(&format!("F {name} {id}"))),
        Err(Error::IdUsed { .. }) => {}
        Err(other) => panic!("restore: {other}"),
    }
}

fn label(tube: &str, id: u64) -> String {
    format!("{tube} {id}")
}

/// Callers put tasks and wait for their end, and a worker ends them.
fn answer_callers(job: &Job, reports: &ReportWriter, tubes: &[Tube]) {
    thread::scope(|scope| {
        for (part, tube) in (0..).zip(tubes) {
            let mut rng = Rng::for_part(job.seed, part);
            scope.spawn(move || {
                loop {
                    let (put, name) = (new_put(&mut rng, tube), tube.name());
                    let (receipt, ending) = tube.put_and_wait(put, Duration::MAX).unwrap();
                    let ending = word_for(ending.as_ref(), name, receipt.id);
                    reports.write(&format!("q {name} {} {ending}", receipt.id));
                }
            });
            let mut rng = Rng::for_part(job.seed, 10 + part);
            scope.spawn(move || {
                loop {
                    let claim = tube.take().unwrap();
                    let result = body::with_label(
                        &label(tube.name(), claim.id()),
                        body::random_filler(&mut rng),
                    );
                    match rng.range(0..6) {
                        0 => claim.ack(),
                        1 => claim.bury(Failure::new(CRASH, "it fails")),
                        2 => tube.delete(claim.id()),
                        _ => claim.end(Outcome::result(result)),
                    }
                    .unwrap();
                }
            });
        }
    });
}

/// How a task has ended, as a word. Its result must be the one that belongs to it.
fn word_for(ending: Option<&Ending>, tube: &str, id: u64) -> &'static str {
    match ending {
        Some(Ending::Done { result: None }) => "done",
        Some(Ending::Done { result: Some(result) }) => {
            let found = body::label(result);
            assert_eq!(found, Some(label(tube, id)), "the result of task {id} of {tube}");
            "done-with-result"
        }
        Some(Ending::Buried { failure: Some(failure) }) if failure.group == CRASH => "buried",
        Some(Ending::Deleted | Ending::Gone) => "gone",
        other => panic!("task {id} of {tube} has ended with {other:?}"),
    }
}

// ---- the parent

/// Starts a worker and kills it at a random moment. Returns its reports.
fn kill_worker(mode: &str, path: &Path, rng: &mut Rng, run: u64) -> Vec<String> {
    let job = Job { mode: mode.into(), path: path.to_owned(), seed: rng.next(), run };
    kill_at_random(&job, rng, 300)
}

/// Kills a worker that acks with results.
pub fn run_round(path: &Path, rng: &mut Rng, run: u64, ledger: &mut Ledger) {
    ledger.add_reports(&kill_worker(ACKS, path, rng, run));
    // Without it the next worker recovers the store, and may be killed meanwhile.
    if rng.one_in(2) {
        ledger.check(path);
    }
}

/// Kills a process whose callers wait for answers. Returns how many they have got.
pub fn run_round_of_callers(path: &Path, rng: &mut Rng, run: u64) -> u64 {
    let reported = kill_worker(ANSWERS, path, rng, run);
    let store = Store::open(path).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let mut answers = 0;
    for line in &reported {
        let words: Vec<&str> = line.split(' ').collect();
        let ["q", name, id, answered] = words[..] else { continue };
        let (tube, id) = (store.find_tube(name).unwrap(), id.parse().unwrap());
        let found = tube.ending(id).unwrap();
        assert_eq!(word_for(found.as_ref(), name, id), answered, "{line:?}: {found:?}");
        answers += 1;
    }
    for tube in store.tubes().unwrap() {
        // The callers of these tasks are gone.
        store.find_tube(&tube.name).unwrap().admin().truncate().unwrap();
    }
    answers
}
