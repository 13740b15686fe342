//! A child process works on a store until it is killed, is stopped, or aborts at a named point. The
//! parent then opens the store and compares it with the reports of the child.
//!
//! A killed process leaves the operating system's page cache intact: these tests do not show that a
//! change was flushed. `tests/power_loss` does.
//!
//! A child is this test program, started again with a job in an environment variable. By default a
//! test makes a few rounds with a fixed seed. `TUBEWELL_KILL_ROUNDS` sets the number of rounds and
//! draws a fresh seed; `TUBEWELL_SEED` sets the seed. A seed repeats all choices, but not the
//! moment at which a child dies.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod abort_points;
mod body;
mod expected;
mod process;
mod rng;
mod sigstop;
mod workload;

use std::time::Duration;

use expected::Expected;
use process::{ChildProcess, Job};
use rng::Rng;
use tempfile::TempDir;

/// Rounds by default.
const KILLS: u64 = 12;
const ABORTS: u64 = abort_points::ABORT_POINTS.len() as u64;
const STOPS: u64 = 6;

/// The entry point of a child. Does nothing in the parent.
#[test]
fn child_process_entry() {
    if let Some(job) = Job::from_env() {
        workload::run(&job);
    }
}

/// Calls `round` with the seed and the number of the round: `TUBEWELL_KILL_ROUNDS` times, or
/// `default` times. Returns the number of rounds.
fn run_rounds(test: &str, default: u64, mut round: impl FnMut(u64, u64)) -> u64 {
    let seed = rng::seed();
    let rounds = rng::requested_rounds().unwrap_or(default);
    for number in 0..rounds {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| round(seed, number)));
        if let Err(panic) = ended {
            eprintln!(
                "round {number}; repeat with: TUBEWELL_SEED={seed} TUBEWELL_KILL_ROUNDS={} \
                 cargo test --test kill {test}",
                number + 1
            );
            std::panic::resume_unwind(panic);
        }
    }
    println!("{test}: {rounds} rounds, seed {seed}");
    rounds
}

#[test]
fn acknowledged_changes_survive_sigkill() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.tubewell");
    let mut expected = Expected::default();
    let mut lines = 0;
    run_rounds("acknowledged_changes_survive_sigkill", KILLS, |seed, round| {
        let mut rng = Rng::for_part(seed, round);
        let job = Job { mode: "load".into(), path: path.clone(), seed: rng.next(), run: round };
        let mut child = ChildProcess::start(&job);
        // One in four children is killed early, most of these while they open the store.
        let timeout = match rng.range(0..4) {
            0 => Duration::from_micros(rng.range(0..30_000)),
            _ => Duration::from_secs(60),
        };
        child.read_lines(rng.range(1..400), timeout);
        let reported = child.kill();
        lines += reported.len();
        expected.add_reports(round, &reported);
        expected.check(&path, &mut rng);
    });
    println!("{lines} acknowledgements; {}", expected.summary());
    assert!(lines > 100, "the children did nothing");
}

#[test]
fn acknowledged_changes_survive_abort_at_any_point() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.tubewell");
    let mut expected = Expected::default();
    let mut reached = std::collections::BTreeMap::<&str, u64>::new();
    let test = "acknowledged_changes_survive_abort_at_any_point";
    let rounds = run_rounds(test, ABORTS, |seed, round| {
        let mut rng = Rng::for_part(seed, round);
        let points = abort_points::ABORT_POINTS;
        let point = points[usize::try_from(round).unwrap() % points.len()];
        let nth = rng.range(match point {
            "caller-write" | "writer-write" | "caller-half" | "writer-half" => 1..100,
            _ if point.starts_with("sweeper") || point.starts_with("events") => 1..4,
            _ if point.starts_with("writer") => 1..8,
            _ => 1..20,
        });
        let mode = format!("{point}:{nth}");
        let job = Job { mode, path: path.clone(), seed: rng.next(), run: round };
        let mut child = ChildProcess::start(&job);
        let aborted = child.read_lines(1000, Duration::from_secs(60));
        let reported = child.kill();
        *reached.entry(point).or_default() += u64::from(aborted);
        expected.add_reports(round, &reported);
        expected.check(&path, &mut rng);
    });
    println!("aborted in {reached:?}; {}", expected.summary());
    for thread in ["caller", "writer", "sweeper", "events"] {
        let of_thread = reached.iter().filter(|(point, _)| point.starts_with(thread));
        let aborts: u64 = of_thread.map(|(_, aborts)| aborts).sum();
        assert!(aborts > 0 || rounds < ABORTS, "no abort in the {thread} thread: {reached:?}");
    }
}

#[test]
fn stopped_process_cannot_ack_expired_claim() {
    let folder = TempDir::new().unwrap();
    let mut acked_by = [0_u64; 2];
    run_rounds("stopped_process_cannot_ack_expired_claim", STOPS, |seed, round| {
        let mut rng = Rng::for_part(seed, round);
        let path = folder.path().join(format!("store{round}.tubewell"));
        let second = sigstop::run_round(path, &mut rng, round);
        acked_by[usize::from(second)] += 1;
    });
    println!("acked by the first holder, by the second: {acked_by:?}");
}
