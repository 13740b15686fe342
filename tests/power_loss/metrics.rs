//! The numbers by day over power cuts: they are those of the last commit that wrote them. They are never
//! ahead of the tasks in the image, and `failed` is that of the tasks.
//!
//! The numbers are written by the first commit of a run, by the first one of a day, and by a commit 10
//! seconds after the last time. In a tube with durability flush the test knows these commits. In other
//! tubes the writer thread commits when it is due: there the numbers lack at most what was counted in
//! the 10 seconds before the last flush.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tubewell::expert::{Date, Summary};
use tubewell::{
    Claim, Counting, Durability, FIFO, Failure, ManualClock, Store, StoreOptions, TaskState, Tube,
    TubeOptions,
};

use crate::disk::{Disk, Medium, Op};
use crate::images::{Playback, SyncMode};
use crate::rng::Rng;

const DAY: Duration = Duration::from_secs(86_400);
/// The numbers are written at most this often.
const WRITE_EVERY: Duration = Duration::from_secs(10);
/// How many days the tube keeps.
const KEPT: i32 = 3;
const STEPS: usize = 50;

/// The numbers of a day.
#[derive(Clone, Debug, Default, PartialEq)]
struct Numbers {
    /// Puts, takes, acks, failures, lost, retried.
    counters: [u64; 6],
    failed: u64,
    wait: Summary,
    run: Summary,
}

/// Positions in the counters.
const PUTS: usize = 0;
const TAKES: usize = 1;
const ACKS: usize = 2;
const FAILURES: usize = 3;
const LOST: usize = 4;

type Days = BTreeMap<Date, Numbers>;

/// The store after a call.
#[derive(Clone, Debug)]
struct Step {
    /// For messages.
    #[expect(dead_code, reason = "it is printed")]
    what: &'static str,
    /// The disk's position at the call and at the answer.
    issued: usize,
    answered: usize,
    /// A power cut after the answer keeps the changes of this step and of all before it.
    is_durable: bool,
    now: Duration,
    /// Each task as it is after the end of the process.
    tasks: BTreeMap<u64, TaskState>,
    /// How many takes are counted of tasks that are taken.
    open_takes: u64,
    /// What was counted by then.
    days: Days,
    /// The first and the last step whose numbers may be the written ones.
    written: (usize, usize),
}

/// What the run of a store has left.
struct Ledger {
    log: Vec<Op>,
    steps: Vec<Step>,
}

/// A run of a store.
struct Run {
    durability: Durability,
    counting: Counting,
    rng: Rng,
    clock: ManualClock,
    now: Duration,
    disk: Arc<Disk>,
    store: Store,
    tube: Tube,
    claims: Vec<Claim>,
    steps: Vec<Step>,
    /// The puts, takes, acks and failures of each day.
    done: BTreeMap<Date, [u64; 4]>,
    /// The time of the last commit that wrote the numbers.
    written_at: Option<Duration>,
}

impl Run {
    fn new(durability: Durability, counting: Counting, seed: u64) -> Run {
        let (clock, disk) = (ManualClock::new(), Disk::new(Medium::default(), Duration::ZERO));
        let store = Store::options().clock(&clock).open_on(disk.storage()).unwrap();
        let options = TubeOptions::new().metrics(u32::try_from(KEPT).unwrap());
        let options = options.durability(durability).max_attempts(1000).count_takes(counting);
        let tube = store.create_tube("tube", options.driver(FIFO)).unwrap();
        store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        let (rng, now) = (Rng::new(seed), Duration::ZERO);
        let mut run = Run {
            durability,
            counting,
            rng,
            clock,
            now,
            disk,
            store,
            tube,
            claims: Vec::new(),
            steps: Vec::new(),
            done: BTreeMap::new(),
            written_at: None,
        };
        run.note("create", 0, true, false);
        run
    }

    fn ledger(mut self) -> Ledger {
        while self.steps.len() < STEPS {
            self.step();
        }
        Ledger { log: self.disk.log(), steps: self.steps }
    }

    fn step(&mut self) {
        let issued = self.disk.position();
        match self.rng.below(16) {
            0..=2 => {
                self.tube.put("x").unwrap();
                self.count(PUTS, 1);
                self.note("put", issued, false, true);
            }
            3 => {
                self.tube.put_many(["y", "z"]).unwrap();
                self.count(PUTS, 2);
                self.note("put_many", issued, false, true);
            }
            4..=7 => {
                let Some(claim) = self.tube.try_take().unwrap() else { return };
                self.claims.push(claim);
                self.count(TAKES, 1);
                self.note("take", issued, false, self.counting == Counting::Flushed);
            }
            8..=11 if !self.claims.is_empty() => {
                let at = self.rng.index(self.claims.len());
                let claim = self.claims.swap_remove(at);
                let failure = Failure::new("group", "why");
                let receipt = match self.rng.below(5) {
                    0..=1 => claim.ack(),
                    2..=3 => claim.fail(failure),
                    _ => claim.bury(failure),
                };
                let is_acked = self.tube.query().task(receipt.unwrap().id).is_err();
                self.count(if is_acked { ACKS } else { FAILURES }, 1);
                self.note("end", issued, false, true);
            }
            12 => {
                // A commit that no other edit cancels.
                self.store.find_tube("other").unwrap().put("x").unwrap();
                self.store.flush().unwrap();
                self.note("flush", issued, true, true);
            }
            13..=14 => {
                let by = self.rng.pick(&[1, 4, 9, 10]);
                self.advance(Duration::from_secs(by));
            }
            15 if self.rng.one_in(3) => self.advance(DAY),
            _ => {}
        }
    }

    fn count(&mut self, what: usize, count: u64) {
        self.done.entry(self.store.today().unwrap()).or_default()[what] += count;
    }

    fn advance(&mut self, by: Duration) {
        self.clock.advance(by);
        self.now += by;
    }

    /// Records the store after a call.
    fn note(&mut self, what: &'static str, issued: usize, is_durable: bool, commits: bool) {
        let (nth, days) = (self.steps.len(), days_of(&self.tube, self.store.today().unwrap()));
        for (date, numbers) in &days {
            assert_eq!(numbers.counters[..4], self.done[date]);
        }
        let last = self.steps.last();
        let mut written = last.map_or((0, 0), |last| last.written);
        if self.durability == Durability::Flush {
            let begins_day = last.is_some_and(|last| last.days.keys().max() < days.keys().max());
            if begins_day {
                self.written_at = None;
            }
            let is_due = self.written_at.is_none_or(|at| self.now >= at + WRITE_EVERY);
            if commits && is_due && !days.is_empty() {
                (self.written_at, written) = (Some(self.now), (nth, nth));
            }
        } else {
            if what == "flush" {
                let is_old = |step: &Step| step.now + WRITE_EVERY <= self.now;
                written.0 = self.steps.iter().rposition(is_old).unwrap_or(0);
            }
            written.1 = nth;
        }
        let of_states = [TaskState::Ready, TaskState::Taken, TaskState::Buried].map(|state| {
            let tasks = self.tube.query().list(state, None, 1000).unwrap().items;
            let after = if state == TaskState::Taken { TaskState::Ready } else { state };
            tasks.into_iter().map(move |task| (task.id, after))
        });
        let is_counted = self.counting != Counting::Lazily;
        self.steps.push(Step {
            what,
            issued,
            answered: self.disk.position(),
            is_durable: is_durable || self.durability == Durability::Flush && commits,
            now: self.now,
            tasks: of_states.into_iter().flatten().collect(),
            open_takes: if is_counted { self.claims.len() as u64 } else { 0 },
            days,
            written,
        });
    }
}

fn days_of(tube: &Tube, today: Date) -> Days {
    let days = tube.query().days(today.plus_days(1 - KEPT)..=today).unwrap().into_iter();
    let days = days.map(|day| {
        let counters = [day.puts, day.takes, day.acks, day.failures, day.lost, day.retried];
        let numbers = Numbers { counters, failed: day.failed, wait: day.wait, run: day.run };
        (day.date, numbers)
    });
    days.filter(|(_, numbers)| *numbers != Numbers::default()).collect()
}

/// How many images have forgotten numbers, and how many have numbers of several days.
#[derive(Debug, Default)]
struct Tally {
    images: u32,
    forgotten: u32,
    of_days: u32,
    with_lost: u32,
}

impl Ledger {
    /// The steps that an image at this position may have been left by.
    fn candidates(&self, position: usize) -> &[Step] {
        let durable = |step: &Step| step.is_durable && step.answered <= position;
        let least = self.steps.iter().rposition(durable).unwrap_or(0);
        let most = self.steps.iter().rposition(|step| step.issued < position).unwrap_or(0);
        &self.steps[least..=most.max(least)]
    }

    /// Whether these are the numbers of a store that has the contents of `step` and was opened on this
    /// day.
    fn fits(&self, found: &Days, step: &Step, today: Date) -> bool {
        let (first, last) = step.written;
        self.steps[first..=last].iter().any(|written| {
            let mut expected = written.days.clone();
            for numbers in expected.values_mut() {
                numbers.failed = 0;
            }
            for (date, numbers) in step.days.iter().filter(|(_, numbers)| numbers.failed > 0) {
                expected.entry(*date).or_default().failed = numbers.failed;
            }
            expected.entry(today).or_default().counters[LOST] += step.open_takes;
            expected.retain(|date, numbers| {
                *date >= today.plus_days(1 - KEPT) && *numbers != Numbers::default()
            });
            expected == *found
        })
    }

    fn check(&self, medium: Medium, position: usize, tally: &mut Tally) {
        let candidates = self.candidates(position);
        let now = candidates.last().unwrap().now;
        let clock = ManualClock::new();
        clock.advance(now);
        let disk = Disk::new(medium, Duration::ZERO);
        let open = || StoreOptions::default().clock(&clock).open_on(disk.storage()).unwrap();
        let store = open();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let Ok(tube) = store.find_tube("tube") else { return };
        let today = store.today().unwrap();
        let found = days_of(&tube, today);
        let mut tasks = BTreeMap::new();
        for state in [TaskState::Ready, TaskState::Taken, TaskState::Buried] {
            let listed = tube.query().list(state, None, 1000).unwrap().items;
            tasks.extend(listed.into_iter().map(|task| (task.id, state)));
        }
        let fitting =
            candidates.iter().rfind(|step| step.tasks == tasks && self.fits(&found, step, today));
        let Some(fitting) = fitting else {
            panic!("at {position}: {found:#?} with {tasks:?}, expected one of {candidates:#?}")
        };
        tally.images += 1;
        tally.forgotten += u32::from(found != fitting.days && fitting.open_takes == 0);
        tally.of_days += u32::from(found.len() > 1);
        tally.with_lost += u32::from(fitting.open_takes > 0);
        count_after_recovery(&store, &tube);
        let counted = days_of(&tube, today);
        assert_ne!(counted, found);
        drop(tube);
        store.close().unwrap();
        let store = open();
        assert_eq!(days_of(&store.find_tube("tube").unwrap(), today), counted, "after a close");
    }
}

/// The next run counts on.
fn count_after_recovery(store: &Store, tube: &Tube) {
    let today = store.today().unwrap();
    let before = days_of(tube, today).remove(&today).unwrap_or_default().counters;
    tube.put("after").unwrap();
    tube.try_take().unwrap().unwrap().ack().unwrap();
    let after = days_of(tube, today)[&today].counters;
    assert_eq!([0, 1, 2].map(|nth| after[nth] - before[nth]), [1; 3]);
}

fn cut_the_power_everywhere(
    (durability, counting): (Durability, Counting),
    seeds: u64,
    tally: &mut Tally,
) {
    for seed in 0..seeds {
        let ledger = Run::new(durability, counting, seed).ledger();
        let mut rng = Rng::new(seed);
        let mut playback = Playback::new(Medium::default(), &ledger.log, SyncMode::Reliable);
        for position in 0..=ledger.log.len() {
            playback.play_to(position);
            if position > 0 && matches!(ledger.log[position - 1], Op::Sync { .. }) {
                ledger.check(playback.synced().clone(), position, tally);
            }
            if playback.has_unsynced_writes() {
                ledger.check(playback.crash(&mut rng).0, position, tally);
            }
        }
    }
}

#[test]
fn numbers_after_a_power_cut_are_those_that_were_last_written() {
    for (durability, counting, seeds) in [
        (Durability::Flush, Counting::Lazily, 1),
        (Durability::Flush, Counting::Flushed, 1),
        (Durability::write(), Counting::Lazily, 1),
        (Durability::relaxed(), Counting::Lazily, 2),
    ] {
        let mut tally = Tally::default();
        cut_the_power_everywhere((durability, counting), seeds, &mut tally);
        println!("{durability}, {counting:?}: {tally:?}");
        assert!(tally.images > 30 && tally.forgotten > 5 && tally.of_days > 1, "{tally:?}");
        assert_eq!(tally.with_lost > 5, counting != Counting::Lazily, "{tally:?}");
    }
}
