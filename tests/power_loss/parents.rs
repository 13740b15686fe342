//! Power cuts among tasks that wait for others, in tubes of different durability: an image has the
//! contents after some call, and everything up to the last flush. No edge is left behind, and no task
//! is blocked forever.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Durability, Error, FIFO, Filter, ManualClock, OnParent, Put, Result, Store, TaskState, Tube,
    TubeOptions, UTUBE,
};

use crate::disk::{Disk, Medium};
use crate::images::crash;
use crate::rng::Rng;
use crate::size::amount;

const CACHE: usize = 1 << 20;
const STEPS: usize = 60;
/// More than an ack frees with its own commit.
const MANY_CHILDREN: usize = 90;
const RULES: [OnParent; 3] = [OnParent::Wait, OnParent::Release, OnParent::Bury];
const STATES: [TaskState; 5] =
    [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Blocked, TaskState::Buried];

/// The tube, the state and the open parents of each task.
type Contents = BTreeMap<u64, (usize, TaskState, Vec<u64>)>;

/// What a store has after a call.
struct Step {
    /// The positions of the disk before the call, and after it.
    issued: usize,
    returned: usize,
    /// Whether the contents are flushed when it returns.
    is_flushed: bool,
    /// Whether it makes several commits, each of which changes a part of the tasks.
    has_parts: bool,
    contents: Contents,
}

struct Load {
    disk: Arc<Disk>,
    clock: ManualClock,
    store: Store,
    tubes: Vec<Tube>,
    rng: Rng,
    steps: Vec<Step>,
}

fn tubes(store: &Store) -> Result<Vec<Tube>> {
    let kinds = [
        ("flush", FIFO, Durability::Flush),
        ("write", UTUBE, Durability::write()),
        ("relaxed", FIFO, Durability::relaxed()),
    ];
    let create = |(name, driver, durability)| {
        let options = TubeOptions::new().durability(durability);
        store.open_tube(name, options.driver(driver))
    };
    kinds.into_iter().map(create).collect()
}

impl Load {
    fn begin(seed: u64) -> Load {
        let disk = Disk::new(Medium::default(), Duration::ZERO);
        let clock = ManualClock::new();
        let store = Store::options().clock(&clock).cache_size(CACHE).open_on(disk.storage());
        let store = store.unwrap();
        let tubes = tubes(&store).unwrap();
        let mut load = Load { disk, clock, store, tubes, rng: Rng::new(seed), steps: Vec::new() };
        load.note_step(0, true, false);
        load
    }

    fn note_step(&mut self, issued: usize, is_flushed: bool, has_parts: bool) {
        let returned = self.disk.position();
        let contents = contents(&self.tubes);
        self.steps.push(Step { issued, returned, is_flushed, has_parts, contents });
    }

    /// A random task.
    fn task(&mut self) -> Option<u64> {
        let tasks = &self.steps.last().unwrap().contents;
        let nth = self.rng.index(tasks.len().max(1));
        tasks.keys().nth(nth).copied()
    }

    fn some_tasks(&mut self) -> Vec<u64> {
        (0..self.rng.index(4)).filter_map(|_| self.task()).collect()
    }

    fn child(&mut self, tube: &Tube, parents: Vec<u64>) -> Put<Vec<u8>> {
        let rule = RULES[self.rng.index(RULES.len())];
        let put = Put::new(vec![7; self.rng.index(300)]);
        if parents.is_empty() { put } else { put.after(tube, parents).on_parent(rule) }
    }

    fn step(&mut self) {
        let issued = self.disk.position();
        let nth = self.rng.index(self.tubes.len());
        let tube = self.tubes[nth].clone();
        let (parents, task) = (self.some_tasks(), self.task().unwrap_or(0));
        let has_parts = self.rng.one_in(6);
        let called = match self.rng.below(20) {
            _ if has_parts => {
                // The chores.
                self.clock.advance(Duration::ZERO);
                Ok(())
            }
            0 => {
                let puts: Vec<_> =
                    (0..MANY_CHILDREN).map(|_| self.child(&tube, vec![task])).collect();
                tube.put_many(puts).map(drop)
            }
            1..6 => {
                let put = self.child(&tube, parents);
                tube.put(put).map(drop)
            }
            6..11 => tube.try_take().unwrap().map_or(Ok(()), |claim| claim.ack().map(drop)),
            11 => tube.admin().add_parents(task, &tube, &parents).map(drop),
            12 => tube.admin().remove_parents(task, None).map(drop),
            13 | 14 => tube.admin().bury(task, None).map(drop),
            15 => tube.admin().kick(Filter::new().limit(20)).map(drop),
            16 => tube.delete(task).map(drop),
            17 => tube.admin().resolve(task, ()).map(drop),
            18 => tube.admin().move_to(&self.tubes[self.rng.index(3)], task).map(drop),
            _ if self.rng.one_in(4) => tube.admin().truncate(),
            _ => self.store.flush().map(drop),
        };
        if let Err(error) = &called {
            assert!(!matches!(error, Error::Io { .. } | Error::Corrupt { .. }), "{error}");
        }
        // A call that changes nothing waits for nothing.
        let before = &self.steps.last().unwrap().contents;
        let is_flushed = nth == 0 && *before != contents(&self.tubes) && !has_parts;
        self.note_step(issued, is_flushed, has_parts);
    }
}

/// The tasks of a store. A taken one is ready after a power cut.
fn contents(tubes: &[Tube]) -> Contents {
    let mut found = Contents::new();
    for (number, tube) in tubes.iter().enumerate() {
        for state in STATES {
            for info in tube.query().list(state, None, 10_000).unwrap().items {
                let parents = tube.query().parents(info.id).unwrap();
                assert_eq!(parents.len(), info.open_parents as usize);
                let state = if state == TaskState::Taken { TaskState::Ready } else { state };
                assert_eq!(found.insert(info.id, (number, state, parents)), None);
            }
        }
    }
    found
}

/// Whether a part of a step of chores is done. These remove no task, and they add no parent.
fn is_between(found: &Contents, before: &Contents, after: &Contents) -> bool {
    found.keys().eq(before.keys())
        && found.iter().all(|(id, (tube, state, parents))| {
            let (before, after) = (&before[id], &after[id]);
            *tube == before.0
                && [before.1, after.1].contains(state)
                && parents.iter().all(|parent| before.2.contains(parent))
                && after.2.iter().all(|parent| parents.contains(parent))
        })
}

/// Opens the image of a power cut at this position of the log.
fn check(image: Medium, steps: &[Step], at: usize) {
    let (disk, clock) = (Disk::new(image, Duration::ZERO), ManualClock::new());
    let options = Store::options().clock(&clock).cache_size(CACHE);
    let store = options.open_on(disk.storage()).unwrap();
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tubes = tubes(&store).unwrap();
    let found = contents(&tubes);
    let last_flushed = steps.iter().rposition(|step| step.is_flushed && step.returned <= at);
    let first = last_flushed.unwrap_or(0);
    let known = (first..steps.len()).take_while(|nth| *nth == 0 || steps[*nth].issued <= at);
    let mut fits = known.map(|nth| {
        let before = &steps[nth.saturating_sub(1)].contents;
        let is_part = steps[nth].has_parts && nth > first;
        found == steps[nth].contents || is_part && is_between(&found, before, &steps[nth].contents)
    });
    assert!(fits.any(|it| it), "at {at}, from step {first}: {found:?}");
    clock.advance(Duration::ZERO);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    end_all(&tubes, &clock);
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
}

/// Acks all tasks: none is blocked forever.
fn end_all(tubes: &[Tube], clock: &ManualClock) {
    let mut progress = true;
    while progress {
        progress = false;
        for tube in tubes {
            progress |= tube.admin().kick(Filter::new().limit(10_000)).unwrap() > 0;
            while let Some(claim) = tube.try_take().unwrap() {
                claim.ack().unwrap();
                progress = true;
            }
        }
        clock.advance(Duration::ZERO);
    }
    assert_eq!(contents(tubes), Contents::new());
}

/// Returns the number of images that were checked.
fn run_seed(seed: u64) -> usize {
    let mut load = Load::begin(seed);
    for _ in 0..STEPS {
        load.step();
    }
    assert_eq!(load.store.admin().verify().unwrap(), [""; 0]);
    let (log, created) = (load.disk.log(), load.steps[0].returned);
    let mut rng = load.rng.clone();
    for _ in 0..12 {
        let at = created + rng.index(log.len() - created + 1);
        let image = crash(&Medium::default(), &log, at, &mut rng);
        let checked = std::panic::AssertUnwindSafe(|| check(image, &load.steps, at));
        if let Err(panic) = std::panic::catch_unwind(checked) {
            eprintln!("seed {seed}");
            std::panic::resume_unwind(panic);
        }
    }
    12
}

#[test]
fn edges_survive_power_cuts() {
    let images: usize = (0..amount(4, 16, 5000)).map(run_seed).sum();
    println!("{images} images");
    assert!(images > amount(35, 150, 150));
}
