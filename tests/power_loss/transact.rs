//! Power cuts in transactions of the application: its rows, the acks and the puts are in an image
//! together or not at all, and those of finished transactions are.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use tubewell::redb::{ReadableTable, TableDefinition};
use tubewell::{
    Durability, Error, FIFO, ManualClock, Outcome, Result, Store, TaskState, Tube, TubeOptions,
};

use crate::disk::{Disk, Medium};
use crate::images::crash;
use crate::rng::Rng;
use crate::size::amount;

/// The task that was put for each task whose work is done.
const DONE: TableDefinition<u64, u64> = TableDefinition::new("done");
const CACHE: usize = 1 << 20;

/// A transaction: the task that it has acked, and the positions of the disk between which it ran.
#[derive(Clone, Copy, Debug)]
struct Done {
    task: u64,
    begun: usize,
    returned: usize,
}

struct Load {
    disk: Arc<Disk>,
    store: Store,
    work: Tube,
    next: Tube,
    rng: Rng,
    done: Vec<Done>,
}

impl Load {
    fn begin(start: Medium, seed: u64) -> Load {
        let disk = Disk::new(start, Duration::ZERO);
        let options = Store::options().clock(ManualClock::new()).cache_size(CACHE);
        let store = options.open_on(disk.storage()).unwrap();
        let mut rng = Rng::new(seed);
        let durability =
            [Durability::Flush, Durability::write(), Durability::relaxed()][rng.index(3)];
        let create = |name, durability| {
            let options = TubeOptions::new().durability(durability);
            match store.create_tube(name, options.driver(FIFO)) {
                Err(Error::TubeExists { .. }) => store.find_tube(name),
                created => created,
            }
        };
        let work = create("work", Durability::Flush).unwrap();
        let next = create("next", durability).unwrap();
        Load { disk, work, next, store, rng, done: Vec::new() }
    }

    fn run(&mut self, steps: usize) {
        for _ in 0..steps {
            match self.rng.below(8) {
                0..3 => self.put(),
                3..7 => self.transact(),
                _ => drop(self.store.flush().unwrap()),
            }
        }
    }

    fn put(&mut self) {
        let size = if self.rng.one_in(20) { 280_000 } else { self.rng.index(3000) };
        self.work.put(vec![7; size]).unwrap();
    }

    fn transact(&mut self) {
        let Some(claim) = self.work.try_take().unwrap() else { return self.put() };
        let (begun, fails) = (self.disk.position(), self.rng.one_in(5));
        let size = self.rng.index(2000);
        let ended = self.store.transact(|tx| -> Result<()> {
            let put = tx.put(&self.next, vec![8; size])?;
            let before = tx.open_table(DONE)?.insert(claim.id(), put)?.map(|row| row.value());
            assert_eq!(before, None, "the task was done before");
            tx.end(&claim, Outcome::done())?;
            if fails { Err(Error::Overloaded) } else { Ok(()) }
        });
        assert_eq!(ended.is_err(), fails, "{ended:?}");
        if !fails {
            let returned = self.disk.position();
            self.done.push(Done { task: claim.id(), begun, returned });
        }
    }
}

/// The done tasks of a store, each with the task that was put for it; checks that the queue agrees.
fn read(store: &Store) -> BTreeMap<u64, u64> {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let done = store.view(|view| -> Result<BTreeMap<u64, u64>> {
        let Some(done) = view.open_table(DONE)? else { return Ok(BTreeMap::new()) };
        let mut found = BTreeMap::new();
        for row in done.iter()? {
            let row = row?;
            found.insert(row.0.value(), row.1.value());
        }
        Ok(found)
    });
    let done = done.unwrap();
    let ready = |name: &str| -> BTreeSet<u64> {
        let Ok(tube) = store.find_tube(name) else { return BTreeSet::new() };
        let page = tube.query().list(TaskState::Ready, None, 10_000).unwrap();
        page.items.iter().map(|task| task.id).collect()
    };
    let (work, next) = (ready("work"), ready("next"));
    assert!(done.keys().all(|task| !work.contains(task)), "{done:?} and {work:?}");
    assert_eq!(next, done.values().copied().collect());
    done
}

/// Opens an image of a crash at this position. Returns the done tasks.
fn check(
    image: Medium,
    done: &[Done],
    at: usize,
    before: &BTreeMap<u64, u64>,
) -> (Store, Arc<Disk>) {
    let disk = Disk::new(image, Duration::ZERO);
    let options = Store::options().clock(ManualClock::new()).cache_size(CACHE);
    let store = options.open_on(disk.storage()).unwrap();
    let mut found = read(&store);
    for task in before.keys() {
        assert!(found.remove(task).is_some(), "task {task} is not done any more");
    }
    for it in done {
        let is_found = found.remove(&it.task).is_some();
        assert!(is_found || it.returned > at, "{it:?} is lost at {at}");
        assert!(!is_found || it.begun <= at, "{it:?} at {at}");
    }
    assert!(found.is_empty(), "{found:?} at {at}");
    (store, disk)
}

/// Returns the number of images that were checked.
fn run_seed(seed: u64) -> usize {
    let mut load = Load::begin(Medium::default(), seed);
    load.run(40);
    let (log, done, mut rng) = (load.disk.log(), load.done.clone(), load.rng.clone());
    // Killed: nothing is written any more that is not in the log.
    let created = log.len().min(done.first().map_or(log.len(), |first| first.begun));
    let none = BTreeMap::new();
    let mut images = 0;
    for _ in 0..25 {
        let at = created + rng.index(log.len() - created + 1);
        let image = crash(&Medium::default(), &log, at, &mut rng);
        let (store, disk) = check(image.clone(), &done, at, &none);
        images += 1;
        if !rng.one_in(3) {
            continue;
        }
        // A second power cut, in the run that follows.
        let before = read(&store);
        store.close().unwrap();
        drop(disk);
        let mut second = Load::begin(image.clone(), seed ^ 1);
        second.run(6);
        let log = second.disk.log();
        let at = rng.index(log.len() + 1);
        let image = crash(&image, &log, at, &mut rng);
        check(image, &second.done, at, &before);
        images += 1;
    }
    images
}

#[test]
fn transactions_survive_power_cuts_wholly_or_not_at_all() {
    let images: usize = (0..amount(3, 12, 5000)).map(run_seed).sum();
    println!("{images} images");
    assert!(images > amount(70, 300, 300));
}
