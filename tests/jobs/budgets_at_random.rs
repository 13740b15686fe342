//! Random work on a storage that fails, loses power and is killed at random: no task is handed out
//! more often than its budget allows.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Poll, Waker};
use std::thread;

use tubewell::{
    AsyncClaim, Backoff, Claim, Counting, Durability, Error, Failure, Result, Store, TaskState,
    Tube, TubeOptions,
};

use super::executor::{poll, with_timeout};
use super::failing_disk::Disk;
use super::faults::{Fault, Kind, Plan};
use super::files::draft;
use super::rng::Rng;
use super::support::*;
use crate::size::amount;
use crate::stores::{self, ManualClock};

const STEPS: u64 = 250;

/// A run of the store, and what was handed out in all runs.
struct World {
    rng: Rng,
    driver: &'static str,
    limit: u32,
    counting: Counting,
    disk: Arc<Disk>,
    clock: ManualClock,
    store: Store,
    tube: Tube,
    held: Vec<Claim>,
    /// How often each task was handed out since it was kicked.
    handed_out: BTreeMap<u64, u32>,
    takes: u64,
    cuts: u64,
}

fn open(disk: &Arc<Disk>, clock: &ManualClock) -> Store {
    stores::serve(Store::options().clock(clock).cache_size(0).open_on(disk.storage()).unwrap())
}

impl World {
    fn new(seed: u64) -> World {
        let mut rng = Rng::new(seed);
        let (disk, clock) = (Disk::new(None), ManualClock::new());
        let store = open(&disk, &clock);
        let (driver, limit) = (rng.pick(ALL), u32::try_from(1 + rng.below(3)).unwrap());
        let counting = rng.pick(&[Counting::Written, Counting::Flushed]);
        let levels = [Durability::Flush, Durability::write(), Durability::relaxed()];
        let mut options = TubeOptions::new()
            .max_attempts(limit)
            .count_takes(counting)
            .durability(rng.pick(&levels));
        if TIMED.contains(&driver) {
            options = options.ttr(secs(5)).reclaim_delay(secs(rng.below(3)));
            options = options.backoff(Backoff::constant(secs(rng.below(2))));
        }
        println!("seed {seed}, {driver}, limit {limit}, {options:?}");
        let tube = store.create_tube("case", options.driver(driver)).unwrap();
        let (held, handed_out) = (Vec::new(), BTreeMap::new());
        World {
            rng,
            driver,
            limit,
            counting,
            disk,
            clock,
            store,
            tube,
            held,
            handed_out,
            takes: 0,
            cuts: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.below(32) {
            0..=3 => drop(self.tube.put(draft(self.driver, "x"))),
            4..=9 => {
                let taken = self.tube.try_take();
                self.hand_out(taken);
            }
            10 | 11 => {
                let id = self.rng.below(self.store.admin().next_id().unwrap().max(1));
                let taken = self.tube.claim(id).map(Some);
                self.hand_out(taken);
            }
            12 => self.take_many(),
            13 => self.drop_future(),
            14 => self.take_for_session(),
            15 => self.kick(),
            16 => self.clock.advance(secs(self.rng.below(4))),
            17 | 18 => self.fail_storage(),
            19..=21 => self.repair(),
            22 => self.cut_power(),
            _ => self.end_claim(),
        }
    }

    fn hand_out(&mut self, taken: Result<Option<Claim>>) {
        let Ok(Some(claim)) = taken else { return };
        let count = self.handed_out.entry(claim.id()).or_default();
        *count += 1;
        self.takes += 1;
        assert!(*count <= self.limit, "task {} was handed out {count} times", claim.id());
        assert!(claim.attempt() >= *count, "task {}: {}", claim.id(), claim.attempt());
        self.held.push(claim);
    }

    fn take_many(&mut self) {
        for claim in self.tube.take_many(3, ZERO).unwrap_or_default() {
            self.hand_out(Ok(Some(claim)));
        }
    }

    /// A future that is dropped hands out nothing, unless it is ready.
    fn drop_future(&mut self) {
        let mut take = Box::pin(self.tube.to_async().try_take());
        if let Poll::Ready(taken) = poll(&mut take, Waker::noop()) {
            self.hand_out(taken.map(|claim| claim.map(AsyncClaim::into_blocking)));
        }
    }

    /// Takes in a session that ends.
    fn take_for_session(&mut self) {
        let session = self.store.session("").unwrap();
        let Ok(tube) = session.tube(&self.tube) else { return };
        let taken = tube.try_take();
        self.hand_out(taken);
        drop(session.end());
    }

    /// Ends a claim in a way that uses an attempt, or acks its task.
    fn end_claim(&mut self) {
        if self.held.is_empty() {
            return;
        }
        let claim = self.held.swap_remove(self.rng.index(self.held.len()));
        match self.rng.below(6) {
            0 => drop(claim.ack()),
            1 | 2 => drop(claim.fail(Failure::new("group", "message"))),
            3 => drop(claim.release()),
            4 => drop(claim.bury(None)),
            _ => drop(claim),
        }
    }

    fn kick(&mut self) {
        let Ok(buried) = self.tube.query().list(TaskState::Buried, None, 3) else { return };
        for info in buried.items {
            match self.tube.kick(info.id) {
                Ok(_) | Err(Error::OutcomeUnknown { .. }) => {
                    self.handed_out.remove(&info.id);
                }
                Err(_) => {}
            }
        }
    }

    fn fail_storage(&mut self) {
        let kind = self.rng.pick(&[Kind::Any, Kind::Read, Kind::Write, Kind::Sync]);
        let fault = self.rng.pick(&Fault::ALL);
        let (nth, lasting) = (1 + self.rng.below(12), !self.rng.one_in(3));
        self.disk.fail(Plan { kind, nth, fault, lasting });
    }

    /// Repairs the disk, and advances the clock until the store works again. A call that failed
    /// before the repair may be reported after it.
    fn repair(&mut self) {
        self.disk.repair();
        loop {
            self.clock.advance(secs(10));
            match self.store.admin().verify() {
                Err(Error::Unavailable { .. }) => thread::yield_now(),
                found => return assert_eq!(found.unwrap(), [""; 0]),
            }
        }
    }

    /// The store as it is after a power cut, a kill or a close.
    fn cut_power(&mut self) {
        self.cuts += 1;
        if self.rng.one_in(3) {
            self.repair();
            drop(self.store.close());
        }
        // A power cut forgets takes that were written and not flushed.
        let disk = match self.counting {
            Counting::Flushed if self.rng.one_in(2) => self.disk.after_power_cut(),
            _ => self.disk.after_kill(),
        };
        // The old run ends on its own disk.
        self.disk.repair();
        self.held.clear();
        self.store = open(&disk, &self.clock);
        self.tube = self.store.find_tube("case").unwrap();
        self.disk = disk;
        assert_sound(&self.store);
    }
}

#[test]
fn no_task_is_handed_out_more_often_than_its_budget_whatever_fails() {
    let runs = amount(10, 40, 10_000);
    let (takes, cuts) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    for seed in 0..runs {
        let (takes, cuts) = (takes.clone(), cuts.clone());
        with_timeout(move || {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.repair();
            takes.fetch_add(world.takes, Ordering::SeqCst);
            cuts.fetch_add(world.cuts, Ordering::SeqCst);
        });
    }
    let (takes, cuts) = (takes.load(Ordering::SeqCst), cuts.load(Ordering::SeqCst));
    assert!(takes > runs * 20 && cuts > runs * 3, "{takes} takes, {cuts} runs of the store");
}
