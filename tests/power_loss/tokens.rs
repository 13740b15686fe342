//! Puts with tokens in a store whose process is killed, or whose machine loses power, at every operation
//! of the disk. The next run makes all of them again: one that had returned puts nothing, and each task
//! is there once.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Durability, FIFOTTL, IDEMPOTENCY_KEY_TIME, ManualClock, OnKey, Put, Store, TaskState, Tube,
    TubeOptions,
};

use crate::disk::{Disk, Medium};
use crate::every_operation::crash_at_every_operation;
use crate::rng::Rng;
use crate::size::amount;

const CACHE: usize = 1 << 20;
const PUTS: u64 = 14;

/// A put that has returned at a position of the disk, with the id of its task.
#[derive(Clone, Copy)]
struct Entry {
    at: usize,
    n: u64,
    id: u64,
}

struct Run {
    disk: Arc<Disk>,
    clock: ManualClock,
    store: Store,
    tube: Tube,
}

impl Run {
    fn open(start: Medium, durability: Durability) -> Run {
        let (disk, clock) = (Disk::new(start, Duration::ZERO), ManualClock::new());
        let options = Store::options().clock(&clock).cache_size(CACHE);
        let store = options.open_on(disk.storage()).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let options = TubeOptions::new().durability(durability);
        let tube = store.open_tube("case", options.driver(FIFOTTL)).unwrap();
        Run { disk, clock, store, tube }
    }

    /// Puts tasks whose tokens are old when the others are put, and removed with them.
    fn put_old(&self) {
        let old = |n: u64| {
            Put::new("old").idempotency_key(format!("old {n}")).ttl(Duration::from_secs(60))
        };
        self.tube.put_many((0..PUTS).map(old)).unwrap();
        self.tube.put(Put::new("first").key("k")).unwrap();
        self.clock.advance(IDEMPOTENCY_KEY_TIME);
        self.store.flush().unwrap();
    }

    fn put(&self, n: u64) -> u64 {
        let put = || put_of(n);
        match n % 3 {
            0 => self.tube.put_many([put(), put()]).unwrap()[1].id,
            _ => self.tube.put(put()).unwrap().id,
        }
    }

    /// The tasks by their bodies.
    fn tasks(&self) -> BTreeMap<Vec<u8>, Vec<u64>> {
        let mut tasks: BTreeMap<Vec<u8>, Vec<u64>> = BTreeMap::new();
        for task in self.tube.query().list(TaskState::Ready, None, 1000).unwrap().items {
            let body = self.tube.query().task(task.id).unwrap().body.to_vec();
            tasks.entry(body).or_default().push(task.id);
        }
        tasks
    }
}

/// The put of a number. Some commits go directly to the database, and some puts replace a task.
fn put_of(n: u64) -> Put<String> {
    let size = [0, 2000, 300_000, 60_000][usize::try_from(n % 4).unwrap()];
    let put = Put::new(format!("{n} {}", "x".repeat(size))).idempotency_key(format!("token {n}"));
    if n % 5 == 4 { put.key("k").on_key(OnKey::Replace) } else { put }
}

/// Makes the puts again from an image of a crash at this position.
fn go_on(image: Medium, ledger: &[Entry], at: usize, durability: Durability, what: &str) {
    let run = Run::open(image, durability);
    let before = run.tasks();
    assert!(before.values().all(|ids| ids.len() == 1), "{what}: {before:?}");
    for entry in ledger.iter().filter(|entry| entry.at <= at) {
        assert_eq!(run.put(entry.n), entry.id, "{what}: put {}", entry.n);
    }
    assert_eq!(run.tasks(), before, "{what}: a put that had returned was made again");
    for round in 0..2 {
        let ids: Vec<u64> = (0..PUTS).map(|n| run.put(n)).collect();
        let tasks = run.tasks();
        assert!(tasks.values().all(|ids| ids.len() == 1), "{what}, round {round}: {tasks:?}");
        let is_there = |id: &u64| tasks.values().any(|ids| ids[0] == *id);
        assert!(ids.iter().all(is_there), "{what}, round {round}: {ids:?} of {tasks:?}");
    }
    assert_eq!(run.store.admin().verify().unwrap(), [""; 0], "{what}");
}

/// Kills and power cuts at every operation of a run. Returns the number of images.
fn run_seed(seed: u64, durability: Durability) -> usize {
    let mut rng = Rng::new(seed);
    let run = Run::open(Medium::default(), durability);
    run.put_old();
    let first = run.disk.position();
    let put = |n| {
        let id = run.put(n);
        Entry { at: run.disk.position(), n, id }
    };
    let ledger: Vec<Entry> = (0..PUTS).map(put).collect();
    let log = run.disk.log();
    drop(run);
    let cuts_power = durability == Durability::Flush;
    crash_at_every_operation(&log, first, cuts_power, &mut rng, |image, at, what| {
        go_on(image, &ledger, at, durability, &format!("seed {seed}, {durability}, {what}"));
    })
}

#[test]
fn puts_are_made_again_with_their_tokens_whatever_dies() {
    let never = Duration::from_secs(3600);
    let mut images = 0;
    for durability in [Durability::Flush, Durability::Write { flush_within: never }] {
        images += run_seed(images as u64, durability);
    }
    println!("{images} images");
    assert!(images > amount(20, 60, 60), "{images} images");
}
