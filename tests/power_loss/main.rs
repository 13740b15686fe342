//! Power loss: every change acknowledged as flushed survives a power cut, and so does a written or
//! relaxed change once its flush was due. Of later changes, only the newest are lost. A take that is
//! counted with a flush is an attempt after every power cut. A task that is kept after its end has
//! its result or its failure, and is in the counts, after every power cut. A task has its moment of the
//! wall clock. A tube has its limits and its pause. The numbers by day are those that were last written.
//!
//! A store runs on a disk that logs every operation. The tests build crash images from the log. An
//! image is what the disk may have after a power cut: everything that was synced, and any part of
//! the rest. Each image must open, pass `verify`, and have exactly the contents that the store had
//! after some call, with every change that has to be durable. A third of the images lose
//! power a second time during recovery or shortly after it.
//!
//! `TUBEWELL_SEED` runs one seed repeatedly. Its runs differ, since the writer thread's timing does.

#![allow(clippy::unwrap_used, reason = "a panic fails the test")]

mod attempts;
#[path = "../common/by_id.rs"]
mod by_id;
mod check;
mod disk;
mod due_flush;
mod entries;
mod every_operation;
mod gates;
mod history;
mod image_run;
mod images;
mod load;
mod metrics;
mod moments;
#[path = "../common/options.rs"]
mod options;
mod outcomes;
mod parents;
#[path = "../common/rng.rs"]
mod rng;
mod schedules;
mod seed_runner;
#[path = "../common/size.rs"]
mod size;
mod state;
mod steps;
mod tokens;
#[cfg(feature = "redb")]
mod transact;
mod worked_jobs;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use seed_runner::{SeedRunner, Tally};
use size::{amount, first_seed, repeated_seed};

/// A planted defect must be found within this many images.
const MAX_IMAGES_BEFORE_FAILURE: u64 = 5_000;

/// The time at which a search stops.
struct Budget(Instant);

impl Budget {
    #[expect(clippy::disallowed_methods, reason = "the length of a search is real time")]
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

/// Runs seeds on all cores until the time is up or a seed fails; returns the failure.
fn search(seconds: u64, tally: &Tally) -> Option<String> {
    let budget = Budget::of(seconds);
    let (repeated, next) = (repeated_seed(), AtomicU64::new(first_seed(1)));
    let (stop, failure) = (AtomicBool::new(false), Mutex::new(None));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let may_continue = || budget.is_left() && !stop.load(Ordering::Relaxed);
                let runner = SeedRunner::without_defects(tally, &may_continue);
                while may_continue() {
                    let seed = repeated.unwrap_or_else(|| next.fetch_add(1, Ordering::Relaxed));
                    if let Err(problem) = runner.seed(seed) {
                        stop.store(true, Ordering::Relaxed);
                        failure.lock().unwrap().get_or_insert(format!(
                            "seed {seed}, {problem}\n\n\
                             TUBEWELL_SEED={seed} cargo test --test power_loss acknowledged"
                        ));
                    }
                }
            });
        }
    });
    failure.into_inner().unwrap()
}

#[test]
fn acknowledged_changes_survive_power_loss() {
    let tally = Tally::default();
    let failure = search(amount(4, 14, 3600), &tally);
    println!("{tally}");
    if let Some(problem) = failure {
        panic!("{problem}");
    }
}

#[test]
fn power_loss_during_creation_leaves_openable_store() {
    let tally = Tally::default();
    let runner = SeedRunner::without_defects(&tally, &|| true);
    let made = runner.creation(first_seed(1), amount(6, 30, 3000));
    println!("{tally}");
    assert_eq!(made, Ok(()));
}

#[test]
fn power_loss_during_compaction_loses_nothing() {
    let tally = Tally::default();
    let runner = SeedRunner::without_defects(&tally, &|| true);
    let compacted = runner.compaction(first_seed(1), amount(1, 2, 200));
    println!("{tally}");
    assert_eq!(compacted, Ok(()));
    assert!(tally.images.load(Ordering::Relaxed) > amount(40, 80, 80));
}

#[test]
fn power_loss_while_file_shrinks_loses_nothing() {
    let tally = Tally::default();
    let runner = SeedRunner::without_defects(&tally, &|| true);
    let shrunk = runner.shrinking(first_seed(1), amount(1, 1, 100));
    println!("{tally}");
    assert_eq!(shrunk, Ok(()));
    assert!(tally.images.load(Ordering::Relaxed) > 80);
}

#[test]
fn power_loss_while_tasks_go_from_tube_to_tube_loses_nothing() {
    let tally = Tally::default();
    let runner = SeedRunner::without_defects(&tally, &|| true);
    let moves = runner.moves(first_seed(1), amount(2, 4, 1000));
    println!("{tally}; {moves:?} moves");
    assert!(moves.unwrap() > amount(5, 10, 10), "few tasks were moved");
}

/// Cuts the power during the checkpoints of long loads, in which most calls do not flush.
fn lose_power_during_checkpoints(is_threaded: bool) {
    let tally = Tally::default();
    let runner = SeedRunner::without_defects(&tally, &|| true);
    let checkpoints = runner.checkpoints(first_seed(1), amount(30, 90, 9000), is_threaded);
    println!("{tally}; at least {checkpoints:?} checkpoints in a load");
    assert!(checkpoints.unwrap() > 2);
}

#[test]
fn power_loss_during_checkpoint_loses_nothing() {
    lose_power_during_checkpoints(false);
}

#[test]
fn power_loss_during_checkpoint_beside_other_calls_loses_nothing() {
    lose_power_during_checkpoints(true);
}

/// Runs seeds with a planted defect; returns the first failure, if the search finds one. A quick run begins
/// with a seed that finds it.
fn first_failure(
    quick: u64,
    lossy_one_in: Option<u64>,
    edit_history: fn(&mut history::History),
) -> Option<String> {
    let tally = Tally::default();
    let may_continue = || tally.images.load(Ordering::Relaxed) < MAX_IMAGES_BEFORE_FAILURE;
    let runner =
        SeedRunner { lossy_one_in, edit_history, tally: &tally, may_continue: &may_continue };
    let failure = |seed| Some(format!("seed {seed}, {}", runner.seed(seed).err()?));
    let problem = (amount(quick, 1, 1)..).take_while(|_| may_continue()).find_map(failure);
    println!("{tally}; then {problem:?}");
    problem
}

#[test]
fn search_detects_disk_that_loses_synced_writes() {
    assert!(first_failure(1, Some(23), |_| ()).is_some());
}

#[test]
fn search_detects_relaxed_changes_counted_as_durable() {
    let edit_history = |history: &mut history::History| {
        history.steps.iter_mut().for_each(|step| step.durable_from = step.answered);
    };
    assert!(
        first_failure(1, None, edit_history).is_some_and(|problem| problem.contains("none of the"))
    );
}

#[test]
fn search_detects_takes_counted_too_late() {
    let edit_history = |history: &mut history::History| {
        // As if each take had been counted with a flush.
        let takes = history.steps.iter_mut().filter(|step| step.what == "counted take");
        takes.for_each(|step| step.durable_from = step.answered);
    };
    assert!(
        first_failure(8, None, edit_history)
            .is_some_and(|problem| problem.contains("after \"counted take\""))
    );
}

#[test]
fn search_detects_done_tasks_without_their_results() {
    let edit_history = |history: &mut history::History| {
        // As if acks were stored without their results.
        for step in &mut history.steps {
            Arc::make_mut(&mut step.contents).remove_results();
        }
    };
    assert!(
        first_failure(1, None, edit_history).is_some_and(|problem| problem.contains("none of the"))
    );
}

#[test]
fn search_detects_tasks_without_their_moments() {
    let edit_history = |history: &mut history::History| {
        // As if tasks were stored without the moments for which they wait.
        for step in &mut history.steps {
            Arc::make_mut(&mut step.contents).remove_moments();
        }
    };
    assert!(
        first_failure(1, None, edit_history).is_some_and(|problem| problem.contains("none of the"))
    );
}

#[test]
fn search_detects_forgotten_tasks_that_come_back() {
    let edit_history = |history: &mut history::History| {
        // As if each forgotten task had been removed with a flush.
        let forgets = history.steps.iter_mut().filter(|step| step.what == "forget");
        forgets.for_each(|step| step.durable_from = step.answered);
    };
    assert!(
        first_failure(1, None, edit_history)
            .is_some_and(|problem| problem.contains("after \"forget\""))
    );
}

#[test]
fn search_detects_restored_tasks_that_are_lost() {
    let edit_history = |history: &mut history::History| {
        // As if each call had restored its tasks with a flush.
        let restores = history.steps.iter_mut().filter(|step| step.what == "restore_many");
        restores.for_each(|step| step.durable_from = step.answered);
    };
    assert!(
        first_failure(8, None, edit_history)
            .is_some_and(|problem| problem.contains("after \"restore_many\""))
    );
}

#[test]
fn search_detects_receipts_in_memory_of_unflushed_commits() {
    let edit_history = |history: &mut history::History| {
        // As if each had named the commit after the last one that is flushed.
        history.receipts.iter_mut().for_each(|receipt| receipt.1 += 1);
    };
    assert!(
        first_failure(1, None, edit_history)
            .is_some_and(|problem| problem.contains("of a receipt"))
    );
}

#[test]
fn search_detects_reused_ids() {
    let edit_history = |history: &mut history::History| {
        // As if each id had come from a block that no commit has reserved.
        history.steps.iter_mut().for_each(|step| step.id = step.id.map(|id| id + (2 << 20)));
    };
    assert!(
        first_failure(1, None, edit_history)
            .is_some_and(|problem| problem.contains("was used before"))
    );
}
