//! A real process under load is killed at a random moment, stopped, or breaks off by itself at a
//! named one; its store is opened here and compared with what it had reported by then.
//!
//! A killed process leaves the system's page cache alone: what these tests do not show is that
//! anything was flushed. Power cuts have tests of their own.
//!
//! The tests start this very program again as a child, told by an environment variable what to
//! do. A short run makes the same choices each time; `TUBEWELL_KILL_ROUNDS` sets the number of
//! rounds and makes fresh ones, `TUBEWELL_SEED` repeats them. When exactly a child dies is never
//! repeated.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod breaking;
mod child;
mod dice;
mod ledger;
mod parent;
mod stopped;

use std::time::Duration;

use dice::Dice;
use ledger::Ledger;
use parent::{Child, Job};
use tempfile::TempDir;

/// Rounds of a short run.
const KILLS: u64 = 12;
const ABORTS: u64 = breaking::MOMENTS.len() as u64;
const STOPS: u64 = 6;

/// What a child does; nothing unless this program was started as one.
#[test]
fn child() {
    if let Some(job) = Job::of_this_process() {
        child::work(&job);
    }
}

/// As many rounds as were asked for, or these few. Answers how many.
fn rounds(test: &str, few: u64, mut round: impl FnMut(u64, u64)) -> u64 {
    let seed = dice::seed();
    let many = dice::rounds_asked().unwrap_or(few);
    for number in 0..many {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| round(seed, number)));
        if let Err(panic) = ended {
            eprintln!(
                "round {number}; repeat with: TUBEWELL_SEED={seed} TUBEWELL_KILL_ROUNDS={} cargo test --test kill {test}",
                number + 1
            );
            std::panic::resume_unwind(panic);
        }
    }
    println!("{test}: {many} rounds, seed {seed}");
    many
}

#[test]
fn whatever_was_acknowledged_outlives_a_killed_process() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.tubewell");
    let mut ledger = Ledger::default();
    let mut lines = 0;
    rounds("whatever_was_acknowledged", KILLS, |seed, round| {
        let mut dice = Dice::apart(seed, round);
        let job = Job { task: "load".into(), path: path.clone(), seed: dice.roll(), life: round };
        let mut child = Child::start(&job);
        // Some die while they open the store, most at work.
        let patience = match dice.of(0..4) {
            0 => Duration::from_micros(dice.of(0..30_000)),
            _ => Duration::from_secs(60),
        };
        child.read_until(dice.of(1..400), patience);
        let reported = child.kill();
        lines += reported.len();
        ledger.enter(round, &reported);
        ledger.check(&path, &mut dice);
    });
    println!("{lines} acknowledgements; {}", ledger.summary());
    assert!(lines > 100, "the children did nothing");
}

#[test]
fn whatever_was_acknowledged_outlives_an_abort_at_any_named_moment() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.tubewell");
    let mut ledger = Ledger::default();
    let mut reached = std::collections::BTreeMap::<&str, u64>::new();
    let many = rounds("whatever_was_acknowledged_outlives_an_abort", ABORTS, |seed, round| {
        let mut dice = Dice::apart(seed, round);
        let moment = breaking::MOMENTS[usize::try_from(round).unwrap() % breaking::MOMENTS.len()];
        let nth = dice.of(match moment {
            "caller-write" | "writer-write" | "caller-half" | "writer-half" => 1..100,
            _ if moment.starts_with("sweeper") || moment.starts_with("events") => 1..4,
            _ if moment.starts_with("writer") => 1..8,
            _ => 1..20,
        });
        let task = format!("{moment}:{nth}");
        let job = Job { task, path: path.clone(), seed: dice.roll(), life: round };
        let mut child = Child::start(&job);
        let aborted = child.read_until(1000, Duration::from_secs(60));
        let reported = child.kill();
        *reached.entry(moment).or_default() += u64::from(aborted);
        ledger.enter(round, &reported);
        ledger.check(&path, &mut dice);
    });
    println!("aborted in {reached:?}; {}", ledger.summary());
    for thread in ["caller", "writer", "sweeper", "events"] {
        let of_thread = reached.iter().filter(|(moment, _)| moment.starts_with(thread));
        let aborts: u64 = of_thread.map(|(_, aborts)| aborts).sum();
        assert!(aborts > 0 || many < ABORTS, "the {thread} was never broken off: {reached:?}");
    }
}

#[test]
fn a_process_that_was_stopped_across_a_ttr_does_not_finish_what_another_has() {
    let folder = TempDir::new().unwrap();
    let mut won = [0_u64; 2];
    rounds("a_process_that_was_stopped", STOPS, |seed, round| {
        let mut dice = Dice::apart(seed, round);
        let path = folder.path().join(format!("store{round}.tubewell"));
        let winner = stopped::round(path, &mut dice, round);
        won[usize::from(winner)] += 1;
    });
    println!("finished by the first holder, by the second: {won:?}");
}
