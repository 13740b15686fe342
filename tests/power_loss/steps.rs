//! Jobs of several steps whose process is killed, or whose machine loses power, at every operation of
//! the disk. The next run goes on: a step whose call had returned is not run again, and each task
//! that a step puts is there once. A ledger outside of the store says what was run.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Claim, Durability, Error, FIFO, FIFOTTL, ManualClock, Put, Result, Store, TaskState, Tube,
    TubeOptions,
};

use crate::disk::{Disk, Medium};
use crate::every_operation::crash_at_every_operation;
use crate::rng::Rng;
use crate::size::amount;

const CACHE: usize = 1 << 20;
const JOBS: u64 = 1;
const PARTS: u64 = 3;

/// What happened to a step, at a position of the disk.
#[derive(Clone, Debug)]
struct Entry {
    at: usize,
    job: u64,
    step: String,
    what: What,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// Its effect: the step was run.
    Ran,
    /// Its call has returned.
    Returned,
    /// The ack of the job has returned.
    Acked,
}

/// A run of the jobs of a store.
struct Run {
    disk: Arc<Disk>,
    store: Store,
    jobs: Tube,
    parts: Tube,
    ledger: Vec<Entry>,
}

impl Run {
    /// Opens the store on this disk, with its tubes and its jobs.
    fn open(start: Medium, durability: Durability) -> Run {
        let disk = Disk::new(start, Duration::ZERO);
        let options = Store::options().clock(ManualClock::new()).cache_size(CACHE);
        let store = options.open_on(disk.storage()).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let create = |name, driver| {
            let options = TubeOptions::new().durability(durability);
            store.open_tube(name, options.driver(driver)).unwrap()
        };
        let (jobs, parts) = (create("jobs", FIFOTTL), create("parts", FIFO));
        Run { disk, jobs, parts, store, ledger: Vec::new() }
    }

    fn put_jobs(&self) {
        for job in 0..JOBS {
            self.jobs.put(Put::new(job.to_string()).key(format!("job {job}"))).unwrap();
        }
    }

    /// Takes jobs until none is ready. `interrupts`: an attempt ends in the middle now and then.
    fn work(&mut self, rng: &mut Rng, interrupts: bool) {
        while let Some(claim) = self.jobs.try_take().unwrap() {
            let job: u64 = std::str::from_utf8(claim.body()).unwrap().parse().unwrap();
            let stops_after = if interrupts { rng.index(16) } else { usize::MAX };
            match self.attempt(&claim, job, stops_after) {
                Ok(()) => {
                    claim.ack().unwrap();
                    self.note(job, "", What::Acked);
                }
                Err(Error::Overloaded) => drop(claim.release().unwrap()),
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// The steps of a job; fails after so many.
    fn attempt(&mut self, claim: &Claim, job: u64, stops_after: usize) -> Result<()> {
        let mut left = stops_after;
        let parts = self.step(claim, job, "split", PARTS, &mut left)?;
        assert_eq!(parts, PARTS);
        for part in 0..parts {
            let value =
                self.step(claim, job, &format!("part {part}"), job * 100 + part, &mut left)?;
            assert_eq!(value, job * 100 + part);
            let (name, parts) = (format!("child {part}"), self.parts.clone());
            let body = format!("{job} {part}");
            let put = Put::new(format!("{body} {}", "x".repeat(size(part))));
            let child = claim.spawn(&name, &parts, put)?;
            self.note(job, &name, What::Returned);
            assert!(parts.query().task(child).unwrap().body.starts_with(body.as_bytes()));
            left = left.checked_sub(1).ok_or(Error::Overloaded)?;
        }
        self.step(claim, job, "end", 0, &mut left).map(drop)
    }

    fn step(
        &mut self,
        claim: &Claim,
        job: u64,
        name: &str,
        value: u64,
        left: &mut usize,
    ) -> Result<u64> {
        let mut has_run = false;
        let position = self.disk.position();
        let (value, _) = claim.step(name, || {
            has_run = true;
            Ok::<_, Error>((value, vec![7_u8; size(value)]))
        })?;
        if has_run {
            let entry = Entry { at: position, job, step: name.into(), what: What::Ran };
            self.ledger.push(entry);
        }
        self.note(job, name, What::Returned);
        *left = left.checked_sub(1).ok_or(Error::Overloaded)?;
        Ok(value)
    }

    fn note(&mut self, job: u64, step: &str, what: What) {
        let at = self.disk.position();
        self.ledger.push(Entry { at, job, step: step.into(), what });
    }

    /// The tasks that the steps have put, each with their number.
    fn children(&self) -> BTreeMap<String, u64> {
        let mut found = BTreeMap::new();
        for task in self.parts.query().list(TaskState::Ready, None, 1000).unwrap().items {
            let words =
                String::from_utf8(self.parts.query().task(task.id).unwrap().body.to_vec()).unwrap();
            let label = words.split(' ').take(2).collect::<Vec<_>>().join(" ");
            *found.entry(label).or_default() += 1;
        }
        found
    }
}

/// The length of what a part stores: some have rows of their own, and some commits go directly to the
/// database.
fn size(part: u64) -> usize {
    [0, 2000, 300_000, 60_000][usize::try_from(part % 4).unwrap()]
}

/// The jobs and steps that the ledger has like this before a position.
fn entries(ledger: &[Entry], at: usize, what: What) -> BTreeSet<(u64, &str)> {
    let found = ledger.iter().filter(|entry| entry.at <= at && entry.what == what);
    found.map(|entry| (entry.job, entry.step.as_str())).collect()
}

/// Goes on from an image of a crash at this position.
fn go_on(image: Medium, ledger: &[Entry], at: usize, durability: Durability, what: &str) {
    let mut run = Run::open(image, durability);
    let children = run.children();
    assert!(children.values().all(|count| *count == 1), "{what}: {children:?}");
    let finished = entries(ledger, at, What::Returned);
    for (job, step) in &finished {
        if let Some(part) = step.strip_prefix("child ") {
            assert!(children.contains_key(&format!("{job} {part}")), "{what}: {children:?}");
        }
    }
    let acked: BTreeSet<u64> =
        entries(ledger, at, What::Acked).into_iter().map(|(job, _)| job).collect();
    for job in 0..JOBS {
        let is_there = run.store.by_key(&format!("job {job}")).unwrap().is_some();
        assert!(!(is_there && acked.contains(&job)), "{what}: job {job} is there again");
        // Its ack may be in the file although it has not returned.
        assert!(is_there || finished.contains(&(job, "end")), "{what}: job {job} is lost");
    }
    run.work(&mut Rng::new(1), false);
    for entry in run.ledger.iter().filter(|entry| entry.what == What::Ran) {
        let step = (entry.job, entry.step.as_str());
        assert!(!finished.contains(&step), "{what}: step {step:?} runs again");
    }
    let children = run.children();
    assert_eq!(children.len() as u64, JOBS * PARTS, "{what}: {children:?}");
    assert!(children.values().all(|count| *count == 1), "{what}: {children:?}");
    assert_eq!(run.jobs.statistics().unwrap().tasks.total, 0);
    assert_eq!(run.store.admin().verify().unwrap(), [""; 0]);
}

/// Kills and power cuts at every operation of a run. Returns the number of images.
fn run_seed(seed: u64, durability: Durability) -> usize {
    let mut rng = Rng::new(seed);
    let mut run = Run::open(Medium::default(), durability);
    run.store.flush().unwrap();
    run.put_jobs();
    run.store.flush().unwrap();
    let first = run.disk.position();
    run.work(&mut rng, true);
    let (log, ledger) = (run.disk.log(), run.ledger.clone());
    drop(run);
    let cuts_power = durability == Durability::Flush;
    crash_at_every_operation(&log, first, cuts_power, &mut rng, |image, at, what| {
        go_on(image, &ledger, at, durability, &format!("seed {seed}, {durability}, {what}"));
    })
}

#[test]
fn finished_steps_never_run_again_and_children_are_put_once_whatever_dies() {
    let never = Duration::from_secs(3600);
    let mut images = 0;
    for seed in 0..amount(1, 2, 500) {
        for durability in [Durability::Flush, Durability::Write { flush_within: never }] {
            images += run_seed(seed, durability);
        }
    }
    println!("{images} images");
    assert!(images > amount(30, 200, 200), "{images} images");
}
