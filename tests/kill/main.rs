//! A child process works on a store until it is killed, is stopped, or aborts at a named point. The
//! parent then opens the store and compares it with the reports of the child.
//!
//! A killed process leaves the operating system's page cache intact: these tests do not show that a
//! change was flushed. `tests/power_loss` does.
//!
//! A child is this test program, started again with a job in an environment variable. A
//! seed (`TUBEWELL_SEED`) repeats all choices, but not the moment at which a child dies.

#![cfg(unix)]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

mod abort_points;
mod attempts;
mod body;
mod durability;
#[allow(dead_code, reason = "other test targets use the rest")]
#[path = "../common/executor.rs"]
mod executor;
mod expected;
mod gates;
mod history;
mod keys;
mod limits;
mod listing;
mod moment;
mod movement;
#[path = "../common/options.rs"]
mod options;
mod outcomes;
mod parents;
mod process;
mod rng;
mod sigstop;
#[path = "../common/size.rs"]
mod size;
mod steps;
mod tokens;
mod values;
mod worked;
mod workload;

use std::collections::BTreeMap;
use std::path::Path;

use executor::HANGS_AFTER;
use expected::Expected;
use moment::kill_at_random;
use process::{ChildProcess, Job};
use rng::Rng;
use size::{amount, first_seed};
use tempfile::TempDir;
use workload::WRITTEN_ONLY;

fn kills() -> u64 {
    amount(6, 12, 5000)
}

fn stops() -> u64 {
    amount(6, 6, 5000)
}

fn workers() -> u64 {
    amount(8, 16, 5000)
}

fn callers() -> u64 {
    amount(6, 6, 5000)
}

/// The entry point of a child. Does nothing in the parent.
#[test]
fn child_process_entry() {
    let job = Job::from_env();
    if job.is_some() {
        end_with_first_panic();
    }
    match job {
        Some(job) if job.mode.starts_with(attempts::MODE) => attempts::run(&job),
        Some(job) if job.mode.starts_with(outcomes::MODE) => outcomes::run(&job),
        Some(job) if job.mode.starts_with(gates::MODE) => gates::run(&job),
        Some(job) if job.mode.starts_with(history::MODE) => history::run(&job),
        Some(job) if job.mode.starts_with(keys::MODE) => keys::run(&job),
        Some(job) if job.mode.starts_with(limits::MODE) => limits::run(&job),
        Some(job) if job.mode.starts_with(movement::MODE) => movement::run(&job),
        Some(job) if job.mode.starts_with(parents::MODE) => parents::run(&job),
        Some(job) if job.mode.starts_with(steps::MODE) => steps::run(&job),
        Some(job) if job.mode.starts_with(tokens::MODE) => tokens::run(&job),
        Some(job) if job.mode.starts_with(worked::MODE) => worked::run(&job),
        Some(job) => workload::run(&job),
        None => {}
    }
}

/// Ends the process when a thread of it panics. The other threads would go on until they are killed,
/// and the parent would not notice.
fn end_with_first_panic() {
    let print = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        print(panic);
        std::process::exit(101);
    }));
}

/// Calls `round` with the seed and the number of the round, so many times.
fn run_rounds(test: &str, rounds: u64, mut round: impl FnMut(u64, u64)) {
    let seed = first_seed(20_260_101);
    for number in 0..rounds {
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| round(seed, number)));
        if let Err(panic) = ended {
            eprintln!(
                "round {number}; repeat with: TUBEWELL_SEED={seed} TUBEWELL_TESTS={} \
                 cargo test --test kill {test}",
                amount("quick", "full", "soak")
            );
            std::panic::resume_unwind(panic);
        }
    }
    println!("{test}: {rounds} rounds, seed {seed}");
}

/// Runs the rounds of a test on one store, each with its generator and its number. Returns their
/// ledger.
fn ledger_of<L: Default>(
    test: &str,
    rounds: u64,
    round: impl Fn(&Path, &mut Rng, u64, &mut L),
) -> L {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.tubewell");
    let mut ledger = L::default();
    run_rounds(test, rounds, |seed, number| {
        round(&path, &mut Rng::for_part(seed, number), number, &mut ledger);
    });
    ledger
}

#[test]
fn acknowledged_changes_survive_sigkill() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.tubewell");
    let mut expected = Expected::default();
    let mut lines = 0;
    run_rounds("acknowledged_changes_survive_sigkill", kills(), |seed, round| {
        let mut rng = Rng::for_part(seed, round);
        let mode = if rng.one_in(3) { format!("{WRITTEN_ONLY}load") } else { "load".into() };
        let job = Job { mode, path: path.clone(), seed: rng.next(), run: round };
        let reported = kill_at_random(&job, &mut rng, 400);
        lines += reported.len();
        expected.add_reports(round, &reported);
        expected.check(&path, &mut rng);
    });
    println!("{lines} acknowledgements; {}", expected.summary());
    assert!(lines > amount(40, 100, 100), "the children did nothing");
}

/// Aborts children at these points, one after the other, and compares the store after each. Returns
/// how many children aborted at each point.
fn abort_at_points(
    test: &str,
    prefix: &str,
    points: &[&'static str],
) -> BTreeMap<&'static str, u64> {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.tubewell");
    let mut expected = Expected::default();
    let mut reached = BTreeMap::new();
    let all = points.len() as u64;
    run_rounds(test, amount(all, all, 5000), |seed, round| {
        let mut rng = Rng::for_part(seed, round);
        let point = points[usize::try_from(round).unwrap() % points.len()];
        let (thread, call) = point.split_once('-').unwrap_or_default();
        let nth = rng.range(match (thread, call) {
            ("caller" | "writer" | "checkpoint", "write" | "half" | "wrote") => 1..100,
            ("sweeper" | "events", _) => 1..4,
            ("writer" | "checkpoint", _) => 1..8,
            _ => 1..20,
        });
        let mode = format!("{prefix}{point}:{nth}");
        let job = Job { mode, path: path.clone(), seed: rng.next(), run: round };
        let mut child = ChildProcess::start(&job);
        let aborted = child.read_lines(1000, HANGS_AFTER);
        let reported = child.kill();
        *reached.entry(point).or_default() += u64::from(aborted);
        expected.add_reports(round, &reported);
        expected.check(&path, &mut rng);
    });
    println!("aborted in {reached:?}; {}", expected.summary());
    reached
}

/// The number of children that aborted in this thread.
fn aborts_in(reached: &BTreeMap<&'static str, u64>, thread: &str) -> u64 {
    reached.iter().filter(|(point, _)| point.starts_with(thread)).map(|(_, aborts)| aborts).sum()
}

#[test]
fn acknowledged_changes_survive_abort_at_any_point() {
    let test = "acknowledged_changes_survive_abort_at_any_point";
    let reached = abort_at_points(test, "", &abort_points::ABORT_POINTS);
    for thread in ["caller", "writer", "checkpoint", "sweeper", "events"] {
        let aborts = aborts_in(&reached, thread);
        assert!(aborts > 0, "no abort in the {thread} thread: {reached:?}");
    }
}

#[test]
fn written_changes_survive_abort_at_any_point() {
    let test = "written_changes_survive_abort_at_any_point";
    let reached = abort_at_points(test, WRITTEN_ONLY, &abort_points::WRITTEN_POINTS);
    let aborts = aborts_in(&reached, "caller");
    assert!(aborts > 2, "few aborts in a caller: {reached:?}");
}

/// I02
#[test]
fn attempts_are_never_fewer_than_hand_outs_of_killed_workers() {
    let test = "attempts_are_never_fewer_than_hand_outs_of_killed_workers";
    let ledger = ledger_of(test, workers(), attempts::run_round);
    println!("{}", ledger.summary());
    assert!(ledger.hand_outs() > amount(20, 50, 50), "the workers did nothing");
}

#[test]
fn task_that_kills_every_worker_is_buried_as_lost_at_its_limit() {
    let folder = TempDir::new().unwrap();
    attempts::kill_every_holder(&folder.path().join("store.tubewell"));
}

#[test]
fn acknowledged_results_survive_sigkill() {
    let ledger = ledger_of("acknowledged_results_survive_sigkill", workers(), outcomes::run_round);
    println!("{}", ledger.summary());
    assert!(ledger.acknowledged() > amount(20, 50, 50), "the workers did nothing");
}

#[test]
fn answer_to_put_and_wait_is_not_taken_back_by_sigkill() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("store.tubewell");
    let mut answers = 0;
    let test = "answer_to_put_and_wait_is_not_taken_back_by_sigkill";
    run_rounds(test, callers(), |seed, round| {
        let mut rng = Rng::for_part(seed, round);
        answers += outcomes::run_round_of_callers(&path, &mut rng, round);
    });
    println!("{answers} answers");
    assert!(answers > 20, "the callers got no answers");
}

/// I07
#[test]
fn finish_is_whole_or_nothing_after_sigkill() {
    let ledger =
        ledger_of("finish_is_whole_or_nothing_after_sigkill", workers(), movement::run_round);
    println!("{} steps", ledger.acknowledged());
    assert!(ledger.acknowledged() > amount(20, 50, 50), "the workers did nothing");
}

/// I08
#[test]
fn tasks_wait_for_their_parents_after_sigkill() {
    let ledger =
        ledger_of("tasks_wait_for_their_parents_after_sigkill", workers(), parents::run_round);
    println!("{} ends", ledger.acknowledged());
    assert!(ledger.acknowledged() > amount(20, 50, 50), "the workers did nothing");
}

#[test]
fn acknowledged_gates_survive_sigkill() {
    let ledger = ledger_of("acknowledged_gates_survive_sigkill", kills(), gates::run_round);
    println!("{} acknowledgements", ledger.acknowledged());
    assert!(ledger.acknowledged() > amount(20, 50, 50), "the workers did nothing");
}

#[test]
fn keys_have_their_acknowledged_tasks_after_sigkill() {
    let ledger =
        ledger_of("keys_have_their_acknowledged_tasks_after_sigkill", workers(), keys::run_round);
    println!("{}", ledger.summary());
    assert!(ledger.acknowledged() > amount(20, 50, 50), "the workers did nothing");
}

#[test]
fn pauses_and_limits_of_sub_queues_survive_sigkill_and_claims_free_their_places() {
    let test = "pauses_and_limits_of_sub_queues_survive_sigkill_and_claims_free_their_places";
    let ledger = ledger_of(test, workers(), limits::run_round);
    println!("{} acknowledgements", ledger.acknowledged());
    assert!(ledger.acknowledged() > amount(8, 20, 20), "the workers did nothing");
}

#[test]
fn acknowledged_entries_of_histories_survive_sigkill() {
    let test = "acknowledged_entries_of_histories_survive_sigkill";
    let ledger = ledger_of(test, kills(), history::run_round);
    println!("{} acknowledgements", ledger.acknowledged());
    assert!(ledger.acknowledged() > amount(20, 50, 50), "the workers did nothing");
}

#[test]
fn finished_steps_do_not_run_again_after_sigkill() {
    let test = "finished_steps_do_not_run_again_after_sigkill";
    let ledger = ledger_of(test, kills(), steps::run_round);
    println!("{} steps, {} of them were repeated", ledger.finished(), ledger.repeated());
    assert!(ledger.finished() > amount(20, 50, 50), "the workers did nothing");
}

#[test]
fn jobs_that_sleep_and_join_go_on_at_the_step_that_had_not_ended_after_sigkill() {
    let test = "jobs_that_sleep_and_join_go_on_at_the_step_that_had_not_ended_after_sigkill";
    let ledger = ledger_of(test, kills(), worked::run_round);
    println!("ends of sleeps, of joins and of jobs: {:?}", ledger.ends());
    assert!(ledger.ends().iter().all(|ends| *ends > amount(3, 10, 10)), "the workers did nothing");
}

#[test]
fn puts_made_again_with_their_tokens_put_nothing_after_sigkill() {
    let test = "puts_made_again_with_their_tokens_put_nothing_after_sigkill";
    let ledger = ledger_of(test, kills(), tokens::run_round);
    println!("{} puts, {} were made again", ledger.acknowledged(), ledger.made_again());
    assert!(
        ledger.acknowledged() > amount(20, 50, 50) && ledger.made_again() > 0,
        "the workers did nothing"
    );
}

#[test]
fn stopped_process_cannot_ack_expired_claim() {
    let folder = TempDir::new().unwrap();
    let mut acked_by = [0_u64; 2];
    run_rounds("stopped_process_cannot_ack_expired_claim", stops(), |seed, round| {
        let mut rng = Rng::for_part(seed, round);
        let path = folder.path().join(format!("store{round}.tubewell"));
        let second = sigstop::run_round(path, &mut rng, round);
        acked_by[usize::from(second)] += 1;
    });
    println!("acked by the first holder, by the second: {acked_by:?}");
}
