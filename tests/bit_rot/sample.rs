//! The files to be damaged: a store with every kind of tube, task and row, as a kill and as a clean
//! close leave it, and the tasks that it had after each commit.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Claim, FIFO, FIFOTTL, Filter, LIMFIFOTTL, ManualClock, Put, Receipt, Store, StoreOptions,
    TaskState, Tube, TubeOptions, UTUBE, UTUBETTL,
};

use crate::disk::Disk;
use crate::every_row::{self, Found};
use crate::rng::Rng;
use crate::salvaged::Salvage;

const TUBES: [(&str, &str); 7] = [
    ("ash", FIFO),
    ("birch", FIFOTTL),
    ("cedar", UTUBE),
    ("elm", UTUBETTL),
    ("fir", LIMFIFOTTL),
    ("gone", FIFOTTL),
    ("oak", UTUBETTL),
];
/// Tasks that are put before the other calls.
const FIRST_PUTS: usize = 84;
const CALLS: usize = 90;
/// A version of the file is kept after this many calls.
const CALLS_PER_VERSION: usize = 15;

/// The tube and the stored state of each task. A taken task is stored as ready.
pub type Tasks = BTreeMap<u64, (&'static str, TaskState)>;

/// One task as it was put.
pub struct Original {
    pub tube: &'static str,
    pub body: Vec<u8>,
}

/// An undamaged file.
pub struct Image {
    pub bytes: Vec<u8>,
    /// Whether the store was closed cleanly; otherwise its process was killed.
    pub closed: bool,
    pub last_commit: u64,
    /// What calls return that read all kinds of rows.
    pub found: Found,
    pub salvaged: Salvage,
}

impl Image {
    fn new(bytes: Vec<u8>, closed: bool) -> Image {
        let store = options(&clock()).open_on(Disk::new(bytes.clone()).storage()).unwrap();
        let (last_commit, found) =
            (store.admin().counters().unwrap().opened_at, every_row::read(&store));
        let salvaged = Salvage::of(&bytes).unwrap();
        Image { bytes, closed, last_commit, found, salvaged }
    }
}

pub struct Sample {
    pub images: Vec<Image>,
    /// Older versions of the file.
    pub older: Vec<Vec<u8>>,
    pub originals: HashMap<u64, Original>,
    /// The tasks after each commit that changed a task; two possible sets where the test cannot
    /// know. There may be other commits in between.
    pub history: BTreeMap<u64, Vec<Arc<Tasks>>>,
}

/// The time of all calls, since 1970.
pub const CLOCK_START: Duration = Duration::from_secs(1_767_225_600);

/// The clock of all calls. Only a check lets time pass.
pub fn clock() -> ManualClock {
    ManualClock::at(CLOCK_START)
}

pub fn options(clock: &ManualClock) -> StoreOptions {
    StoreOptions::default().cache_size(1 << 20).clock(clock)
}

impl Sample {
    /// The same for the same seed, except for how many rows of dropped tubes have been removed.
    pub fn new(seed: u64) -> Sample {
        let mut builder = SampleBuilder::new(seed);
        for nth in 0..FIRST_PUTS {
            builder.put(TUBES[nth % TUBES.len()].0);
        }
        for nth in 0..CALLS {
            builder.random_call();
            if nth == CALLS / 2 {
                // Too large for the journal: the commit empties the journal into the tables.
                builder.put_with_size("birch", 280 << 10);
            }
            if nth % CALLS_PER_VERSION == 0 {
                builder.keep_version();
            }
        }
        builder.finish()
    }

    /// The possible sets of tasks of a store whose last commit is this one.
    pub fn tasks_at(&self, commit: u64) -> &[Arc<Tasks>] {
        self.history.range(..=commit).next_back().map_or(&[], |(_, tasks)| tasks)
    }
}

struct SampleBuilder {
    rng: Rng,
    disk: Disk,
    store: Store,
    tasks: Tasks,
    claims: Vec<(u64, Claim)>,
    sample: Sample,
}

impl SampleBuilder {
    fn new(seed: u64) -> SampleBuilder {
        let disk = Disk::new(Vec::new());
        let store = options(&clock()).open_on(disk.storage()).unwrap();
        for (name, driver) in TUBES {
            let options = match name {
                "birch" => TubeOptions::new().history(3),
                "oak" => TubeOptions::new().history(2).metrics(9),
                _ => TubeOptions::new(),
            };
            let options = if driver == LIMFIFOTTL { options.capacity(1000) } else { options };
            store.create_tube(name, options.driver(driver)).unwrap();
        }
        let mut builder = SampleBuilder {
            rng: Rng::new(seed),
            disk,
            store,
            tasks: Tasks::new(),
            claims: Vec::new(),
            sample: Sample {
                images: Vec::new(),
                older: Vec::new(),
                originals: HashMap::new(),
                history: BTreeMap::from([(0, vec![Arc::default()])]),
            },
        };
        builder.keep_version();
        let SampleBuilder { rng, store, tasks, sample, .. } = &mut builder;
        every_row::fill(store, rng, |commit, stored, original| {
            tasks.clone_from(stored);
            sample.history.insert(commit, vec![Arc::new(tasks.clone())]);
            sample.originals.extend(original);
        });
        builder.keep_version();
        builder
    }

    fn tube(&self, name: &str) -> Tube {
        self.store.find_tube(name).unwrap()
    }

    fn keep_version(&mut self) {
        self.sample.older.push(self.disk.copy());
    }

    fn record(&mut self, commit: u64) {
        self.sample.history.insert(commit, vec![Arc::new(self.tasks.clone())]);
    }

    fn put(&mut self, name: &'static str) {
        let size = match self.rng.below(10) {
            0 => 0,
            1..=5 => self.rng.below(200),
            6..=7 => self.rng.below(1024),
            8 => 1025 + self.rng.below(2000),
            _ => 4000 + self.rng.below(16_000),
        };
        self.put_with_size(name, size);
    }

    fn put_with_size(&mut self, name: &'static str, size: u64) {
        let driver = TUBES.iter().find(|(tube, _)| *tube == name).unwrap().1;
        let body: Vec<u8> = (0..size).map(|_| self.rng.next().to_le_bytes()[0]).collect();
        let mut put = Put::new(body.clone());
        let mut state = TaskState::Ready;
        if driver.ends_with("ttl") {
            put = put.priority(u32::try_from(self.rng.below(4)).unwrap());
            if self.rng.one_in(4) {
                put = put.ttl(Duration::from_secs(86_400 + self.rng.below(3600)));
            }
            if self.rng.one_in(5) {
                put = put.delay(Duration::from_secs(60 + self.rng.below(3600)));
                state = TaskState::Delayed;
            }
        }
        if driver.starts_with('u') && !self.rng.one_in(5) {
            put = put.sub_queue(format!("host-{}.example.org", self.rng.below(5)));
        }
        if self.rng.one_in(3) {
            put = put.tag("all").tag("other");
        }
        let Receipt { id, commit, .. } = self.tube(name).put(put).unwrap();
        self.sample.originals.insert(id, Original { tube: name, body });
        self.tasks.insert(id, (name, state));
        self.record(commit);
    }

    fn random_call(&mut self) {
        let name = TUBES[self.rng.index(TUBES.len())].0;
        match self.rng.below(8) {
            0..=2 => self.put(name),
            3..=4 => self.take(name),
            5 => self.finish_claim(),
            6 => self.delete_or_bury(name),
            _ => self.kick(name),
        }
    }

    fn kick(&mut self, name: &'static str) {
        let tube = self.tube(name);
        let first = tube.query().list(TaskState::Buried, None, 2).unwrap().items;
        let commits = self.store.admin().counters().unwrap().commits;
        if tube.admin().kick(Filter::new().limit(2)).unwrap() > 0 {
            for task in first {
                self.tasks.get_mut(&task.id).unwrap().1 = TaskState::Ready;
            }
            self.record(commits + 1);
        }
    }

    fn take(&mut self, name: &'static str) {
        if let Some(claim) = self.tube(name).try_take().unwrap() {
            self.claims.push((claim.id(), claim));
        }
    }

    fn finish_claim(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let (id, claim) = self.claims.swap_remove(self.rng.index(self.claims.len()));
        let receipt = if self.rng.one_in(4) {
            self.tasks.get_mut(&id).unwrap().1 = TaskState::Buried;
            claim.bury(None).unwrap()
        } else {
            self.tasks.remove(&id);
            claim.ack().unwrap()
        };
        self.record(receipt.commit);
    }

    fn delete_or_bury(&mut self, name: &'static str) {
        let unclaimed = |id: &u64| self.claims.iter().all(|(claimed, _)| claimed != id);
        let tasks = self.tasks.iter().filter(|(id, task)| task.0 == name && unclaimed(id));
        let ids: Vec<u64> = tasks.map(|(id, _)| *id).collect();
        if ids.is_empty() {
            return;
        }
        let id = ids[self.rng.index(ids.len())];
        let receipt = if self.rng.one_in(3) {
            self.tasks.remove(&id);
            self.tube(name).delete(id).unwrap()
        } else {
            self.tasks.get_mut(&id).unwrap().1 = TaskState::Buried;
            self.tube(name).admin().bury(id, None).unwrap()
        };
        if receipt.commit > *self.sample.history.last_key_value().unwrap().0 {
            self.record(receipt.commit);
        }
    }

    /// Drops a tube and truncates another while some tasks are claimed. Then copies the file,
    /// closes the store and copies the file again.
    fn finish(mut self) -> Sample {
        (0..8).for_each(|_| self.put("oak"));
        self.take("ash");
        self.take("cedar");
        // A take that is counted.
        self.take(every_row::TUBE);
        self.put("birch");
        self.claims.retain(|(_, claim)| !["gone", "oak"].contains(&claim.tube()));
        for name in ["gone", "oak"] {
            let commits = self.store.admin().counters().unwrap().commits;
            let before = Arc::new(self.tasks.clone());
            self.tasks.retain(|_, task| task.0 != name);
            if name == "gone" {
                self.store.drop_tube(name).unwrap();
            } else {
                self.tube(name).admin().truncate().unwrap();
            }
            // A commit that removes rows of the other tube may come before this one.
            let after = Arc::new(self.tasks.clone());
            self.sample.history.insert(commits + 1, vec![after, before]);
        }
        (0..3).for_each(|_| self.put("oak"));
        let killed = self.disk.copy();
        self.sample.images.push(Image::new(killed, false));
        drop(std::mem::take(&mut self.claims));
        self.store.close().unwrap();
        self.sample.images.push(Image::new(self.disk.copy(), true));
        self.sample
    }
}
