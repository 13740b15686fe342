//! Power loss: nothing acknowledged is lost, whatever the power cut took away.
//!
//! A store works on a disk that writes down everything it is told. From that log crash images are
//! built: what a disk may hold if the power went at some moment, given that it keeps only what was
//! synced and any part of the rest. Each image must open, be sound, and hold exactly what the
//! store held after some call, with everything that was acknowledged as durable. A third of them
//! lose power once more while they recover.
//!
//! * `TUBEWELL_POWER_LOSS_SECONDS` is how long the search goes on, with fresh seeds; by default it is
//!   short and its seeds are the same each time.
//! * `TUBEWELL_SEED` runs one seed, over and over: the writer thread adds some chance of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod check;
mod disk;
mod history;
mod images;
mod life;
mod load;
#[path = "../common/rng.rs"]
mod rng;
mod run;
mod state;

use std::collections::hash_map::RandomState;
use std::env;
use std::hash::BuildHasher;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use run::{Run, Tally};

/// Without being told otherwise.
const SECONDS: u64 = 14;
/// No canary may sing longer than this.
const CANARY_IMAGES: u64 = 5_000;

/// A moment after which nothing new is begun.
struct Budget(Instant);

impl Budget {
    #[expect(clippy::disallowed_methods, reason = "how long a search goes on is real time")]
    fn now() -> Instant {
        Instant::now()
    }

    fn of(seconds: u64) -> Budget {
        Budget(Budget::now() + Duration::from_secs(seconds))
    }

    fn is_left(&self) -> bool {
        Budget::now() < self.0
    }
}

fn number(name: &str) -> Option<u64> {
    env::var(name).ok().map(|value| value.parse().unwrap())
}

/// Runs seeds on all cores until the time is up or one of them fails.
fn search(seconds: Option<u64>, seed: Option<u64>, tally: &Tally) -> Option<String> {
    let budget = Budget::of(seconds.unwrap_or(SECONDS));
    let first = seconds.map_or(1, |_| RandomState::new().hash_one(0) >> 16);
    let next = AtomicU64::new(first);
    let (stop, failure) = (AtomicBool::new(false), Mutex::new(None));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let go_on = || budget.is_left() && !stop.load(Ordering::Relaxed);
                let run = Run { lies: None, believe: |_| (), tally, go_on: &go_on };
                while go_on() {
                    let seed = seed.unwrap_or_else(|| next.fetch_add(1, Ordering::Relaxed));
                    if let Err(told) = run.seed(seed) {
                        stop.store(true, Ordering::Relaxed);
                        failure.lock().unwrap().get_or_insert(format!(
                            "seed {seed}, {told}\n\nTUBEWELL_SEED={seed} cargo test --test power_loss nothing"
                        ));
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap()
}

#[test]
fn nothing_acknowledged_is_lost_in_a_power_cut() {
    let tally = Tally::default();
    let failure = search(number("TUBEWELL_POWER_LOSS_SECONDS"), number("TUBEWELL_SEED"), &tally);
    println!("{tally}");
    if let Some(told) = failure {
        panic!("{told}");
    }
}

#[test]
fn a_store_whose_making_was_cut_off_is_made_anew_or_whole() {
    let tally = Tally::default();
    let run = Run { lies: None, believe: |_| (), tally: &tally, go_on: &|| true };
    let made = run.creation(number("TUBEWELL_SEED").unwrap_or(1), 30);
    println!("{tally}");
    assert_eq!(made, Ok(()));
}

#[test]
fn a_compaction_that_is_cut_off_leaves_everything() {
    let tally = Tally::default();
    let run = Run { lies: None, believe: |_| (), tally: &tally, go_on: &|| true };
    let compacted = run.compaction(number("TUBEWELL_SEED").unwrap_or(1), 2);
    println!("{tally}");
    assert_eq!(compacted, Ok(()));
    assert!(tally.images.load(Ordering::Relaxed) > 80);
}

#[test]
fn a_pause_in_which_the_file_gives_room_back_is_cut_off_and_leaves_everything() {
    let tally = Tally::default();
    let run = Run { lies: None, believe: |_| (), tally: &tally, go_on: &|| true };
    let paused = run.pause(number("TUBEWELL_SEED").unwrap_or(1), 1);
    println!("{tally}");
    assert_eq!(paused, Ok(()));
    assert!(tally.images.load(Ordering::Relaxed) > 80);
}

/// Runs seeds that ought to fail; what the first of them that does so says.
fn canary(lies: Option<u64>, believe: fn(&mut history::History)) -> Option<String> {
    let tally = Tally::default();
    let go_on = || tally.images.load(Ordering::Relaxed) < CANARY_IMAGES;
    let run = Run { lies, believe, tally: &tally, go_on: &go_on };
    let told = (1..).take_while(|_| go_on()).find_map(|seed| run.seed(seed).err());
    println!("{tally}; then {told:?}");
    told
}

#[test]
fn a_disk_that_lies_about_its_syncs_is_found_out() {
    assert!(canary(Some(23), |_| ()).is_some());
}

#[test]
fn whoever_takes_a_relaxed_answer_for_a_promise_is_found_out() {
    let believe = |history: &mut history::History| {
        history.steps.iter_mut().for_each(|step| step.durable = true);
    };
    assert!(canary(None, believe).is_some_and(|told| told.contains("not one of")));
}

#[test]
fn ids_that_were_told_and_are_given_out_again_are_found_out() {
    let believe = |history: &mut history::History| {
        // As if each id had been told from a block that no commit has set aside.
        history.steps.iter_mut().for_each(|step| step.id = step.id.map(|id| id + (2 << 20)));
    };
    assert!(canary(None, believe).is_some_and(|told| told.contains("was given out before")));
}
