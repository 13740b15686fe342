//! What is damaged: a store of every kind of tube and task, as it was closed and as it was killed,
//! with what it held after each commit.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Claim, FIFO, FIFOTTL, LIMFIFOTTL, ManualClock, Put, Receipt, State, Store, StoreOptions, Tube,
    TubeOptions, UTUBE, UTUBETTL,
};

use crate::disk::Disk;
use crate::rng::Rng;

const TUBES: [(&str, &str); 7] = [
    ("ash", FIFO),
    ("birch", FIFOTTL),
    ("cedar", UTUBE),
    ("elm", UTUBETTL),
    ("fir", LIMFIFOTTL),
    ("gone", FIFOTTL),
    ("oak", UTUBETTL),
];
/// Tasks that are put before anything else happens.
const FIRST: usize = 84;
const CALLS: usize = 90;
/// An older version of the file is kept after so many calls.
const KEEP: usize = 15;

/// What is stored: the tube and the state of each task. A taken one is stored as ready.
pub type Tasks = BTreeMap<u64, (&'static str, State)>;

/// One task as it was put.
pub struct Original {
    pub tube: &'static str,
    pub body: Vec<u8>,
}

/// A file, and what is known of it.
pub struct Image {
    pub bytes: Vec<u8>,
    /// The store was closed in good order.
    pub closed: bool,
    /// The number of its last commit.
    pub last: u64,
}

impl Image {
    fn new(bytes: Vec<u8>, closed: bool) -> Image {
        let store = options(&clock()).open_on(Disk::new(bytes.clone()).plug()).unwrap();
        Image { bytes, closed, last: store.counters().opened_at }
    }
}

pub struct Specimen {
    pub images: Vec<Image>,
    /// Whole files as they were before.
    pub older: Vec<Vec<u8>>,
    pub originals: HashMap<u64, Original>,
    /// What was stored after each commit that changed a task; two answers where that is open.
    /// Other commits may lie between.
    pub history: BTreeMap<u64, Vec<Arc<Tasks>>>,
}

/// The moment at which everything happens, until a trial lets time pass.
pub fn clock() -> ManualClock {
    ManualClock::at(Duration::from_secs(1_767_225_600))
}

pub fn options(clock: &ManualClock) -> StoreOptions {
    StoreOptions::default().cache_size(1 << 20).clock(clock)
}

impl Specimen {
    /// The same for the same seed, but for how far the rows of dropped tubes have been removed.
    pub fn new(seed: u64) -> Specimen {
        let mut making = Making::new(seed);
        for nth in 0..FIRST {
            making.put(TUBES[nth % TUBES.len()].0);
        }
        for nth in 0..CALLS {
            making.call();
            if nth == CALLS / 2 {
                // More than the journal takes: everything goes to the engine.
                making.put_of("birch", 280 << 10);
            }
            if nth % KEEP == 0 {
                making.keep();
            }
        }
        making.end()
    }

    /// What a store should hold that says that this is its last commit.
    pub fn at(&self, commit: u64) -> &[Arc<Tasks>] {
        self.history.range(..=commit).next_back().map_or(&[], |(_, tasks)| tasks)
    }
}

struct Making {
    rng: Rng,
    disk: Disk,
    store: Store,
    tasks: Tasks,
    held: Vec<(u64, Claim)>,
    specimen: Specimen,
}

impl Making {
    fn new(seed: u64) -> Making {
        let disk = Disk::new(Vec::new());
        let store = options(&clock()).open_on(disk.plug()).unwrap();
        for (name, driver) in TUBES {
            let options = TubeOptions::new();
            let options = if driver == LIMFIFOTTL { options.capacity(1000) } else { options };
            store.create_tube(name, driver, options).unwrap();
        }
        let mut making = Making {
            rng: Rng::new(seed),
            disk,
            store,
            tasks: Tasks::new(),
            held: Vec::new(),
            specimen: Specimen {
                images: Vec::new(),
                older: Vec::new(),
                originals: HashMap::new(),
                history: BTreeMap::from([(0, vec![Arc::default()])]),
            },
        };
        making.keep();
        making
    }

    fn tube(&self, name: &str) -> Tube {
        self.store.tube(name).unwrap()
    }

    fn keep(&mut self) {
        self.specimen.older.push(self.disk.copy());
    }

    fn note(&mut self, commit: u64) {
        self.specimen.history.insert(commit, vec![Arc::new(self.tasks.clone())]);
    }

    fn put(&mut self, name: &'static str) {
        let size = match self.rng.below(10) {
            0 => 0,
            1..=5 => self.rng.below(200),
            6..=7 => self.rng.below(1024),
            8 => 1025 + self.rng.below(2000),
            _ => 4000 + self.rng.below(16_000),
        };
        self.put_of(name, size);
    }

    fn put_of(&mut self, name: &'static str, size: u64) {
        let driver = TUBES.iter().find(|(tube, _)| *tube == name).unwrap().1;
        let body: Vec<u8> = (0..size).map(|_| self.rng.next().to_le_bytes()[0]).collect();
        let mut put = Put::new(body.clone());
        let mut state = State::Ready;
        if driver.ends_with("ttl") {
            put = put.pri(u32::try_from(self.rng.below(4)).unwrap());
            if self.rng.one_in(4) {
                put = put.ttl(Duration::from_secs(86_400 + self.rng.below(3600)));
            }
            if self.rng.one_in(5) {
                put = put.delay(Duration::from_secs(60 + self.rng.below(3600)));
                state = State::Delayed;
            }
        }
        if driver.starts_with('u') && !self.rng.one_in(5) {
            put = put.sub_queue(format!("host-{}.example.org", self.rng.below(5)));
        }
        let Receipt { id, commit, .. } = self.tube(name).put(put).unwrap();
        self.specimen.originals.insert(id, Original { tube: name, body });
        self.tasks.insert(id, (name, state));
        self.note(commit);
    }

    fn call(&mut self) {
        let name = TUBES[self.rng.index(TUBES.len())].0;
        match self.rng.below(8) {
            0..=2 => self.put(name),
            3..=4 => self.take(name),
            5 => self.end_a_hold(),
            6 => self.set_aside(name),
            _ => self.kick(name),
        }
    }

    fn kick(&mut self, name: &'static str) {
        let tube = self.tube(name);
        let first = tube.list(State::Buried, None, 2).unwrap().tasks;
        let commits = self.store.counters().commits;
        if tube.kick(2).unwrap() > 0 {
            for task in first {
                self.tasks.get_mut(&task.id).unwrap().1 = State::Ready;
            }
            self.note(commits + 1);
        }
    }

    fn take(&mut self, name: &'static str) {
        if let Some(claim) = self.tube(name).try_take().unwrap() {
            self.held.push((claim.id(), claim));
        }
    }

    fn end_a_hold(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let (id, claim) = self.held.swap_remove(self.rng.index(self.held.len()));
        let receipt = if self.rng.one_in(4) {
            self.tasks.get_mut(&id).unwrap().1 = State::Buried;
            claim.bury().unwrap()
        } else {
            self.tasks.remove(&id);
            claim.ack().unwrap()
        };
        self.note(receipt.commit);
    }

    fn set_aside(&mut self, name: &'static str) {
        let free = |id: &u64| self.held.iter().all(|(held, _)| held != id);
        let here = self.tasks.iter().filter(|(id, task)| task.0 == name && free(id));
        let here: Vec<u64> = here.map(|(id, _)| *id).collect();
        if here.is_empty() {
            return;
        }
        let id = here[self.rng.index(here.len())];
        let receipt = if self.rng.one_in(3) {
            self.tasks.remove(&id);
            self.tube(name).delete(id).unwrap()
        } else {
            self.tasks.get_mut(&id).unwrap().1 = State::Buried;
            self.tube(name).bury(id).unwrap()
        };
        if receipt.commit > *self.specimen.history.last_key_value().unwrap().0 {
            self.note(receipt.commit);
        }
    }

    /// A tube is dropped and one truncated, some tasks are held: so it is killed, and then closed.
    fn end(mut self) -> Specimen {
        (0..8).for_each(|_| self.put("oak"));
        self.take("ash");
        self.take("cedar");
        self.put("birch");
        self.held.retain(|(_, claim)| !["gone", "oak"].contains(&claim.tube()));
        for name in ["gone", "oak"] {
            let commits = self.store.counters().commits;
            let before = Arc::new(self.tasks.clone());
            self.tasks.retain(|_, task| task.0 != name);
            if name == "gone" {
                self.store.drop_tube(name).unwrap();
            } else {
                self.tube(name).truncate().unwrap();
            }
            // The rows of the other tube may have gone in a commit of their own meanwhile.
            let after = Arc::new(self.tasks.clone());
            self.specimen.history.insert(commits + 1, vec![after, before]);
        }
        (0..3).for_each(|_| self.put("oak"));
        let killed = self.disk.copy();
        self.specimen.images.push(Image::new(killed, false));
        drop(std::mem::take(&mut self.held));
        self.store.close().unwrap();
        self.specimen.images.push(Image::new(self.disk.copy(), true));
        self.specimen
    }
}
