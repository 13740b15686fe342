//! Deterministic simulation in one thread, with one clock, from one seed: tubes of every durability,
//! producers, consumers that crash, stall, detach claims and ack late or twice, administrators, disk
//! faults, kills and power cuts. Every answer is compared with a model. At the end the faults stop
//! and all tubes must drain.
//!
//! The same seed gives the same run: seeds run twice, and the two traces are compared.
//! `TUBEWELL_SEED=… cargo test --test simulation` runs one seed and shrinks its steps on failure.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a panic fails the test")]

mod attempts;
#[path = "../common/by_id.rs"]
mod by_id;
mod claims;
mod consumers;
mod crashes;
mod deferred_calls;
mod disk;
#[path = "../common/family.rs"]
mod family;
#[path = "../common/faults.rs"]
mod faults;
#[path = "../common/faulty_disk.rs"]
mod faulty_disk;
mod histories;
mod keys_and_gates;
mod model;
mod moments;
mod outcomes;
mod parents;
mod parked;
mod plan;
mod producers;
#[path = "../common/recurring.rs"]
mod recurring;
mod regressions;
#[path = "../common/rng.rs"]
mod rng;
mod schedules;
mod seeds;
mod simulator;
#[path = "../common/size.rs"]
mod size;
mod waiters;
mod world;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

use plan::{Step, draw};
use rng::Rng;
use seeds::REPEATED;
use simulator::Simulator;
use size::amount;

const STEPS: usize = 250;

/// The result of a run.
struct Run {
    trace: Vec<String>,
    coverage: BTreeMap<String, u64>,
    calls: u64,
    /// The first difference between the store and the model.
    failed: Option<String>,
}

fn run(seed: u64, steps: &[Step]) -> Run {
    let mut simulator = Simulator::new(seed);
    let outcome = catch_unwind(AssertUnwindSafe(|| {
        for step in steps {
            simulator.step(*step);
        }
        simulator.drain_all(&mut Rng::new(seed));
    }));
    let failed = outcome.err().map(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default()
    });
    simulator.disk.repair();
    let Simulator { trace, coverage, calls, .. } = simulator;
    Run { trace, coverage, calls, failed }
}

/// Runs a seed, or runs it twice. Panics if it fails or if the two runs differ.
fn check(seed: u64, is_repeated: bool) -> Run {
    let plan = draw(seed, STEPS);
    let first = run(seed, &plan);
    if let Some(why) = &first.failed {
        let short = shrink(seed, plan);
        let last = run(seed, &short);
        let actions: Vec<_> = short.iter().map(|step| step.action).collect();
        eprintln!("{actions:?}\n{}", last.trace.join("\n"));
        panic!(
            "{why}\nTUBEWELL_SEED={seed} cargo test --test simulation; shrunk to {} steps: {}",
            short.len(),
            last.failed.unwrap_or_default(),
        );
    }
    if !is_repeated {
        return first;
    }
    let second = run(seed, &plan);
    assert_eq!(second.failed, None, "TUBEWELL_SEED={seed} fails in the second run only");
    let first_difference =
        first.trace.iter().zip(&second.trace).position(|(one, other)| one != other);
    if first_difference.is_some() || first.trace.len() != second.trace.len() {
        let at = first_difference.unwrap_or(first.trace.len().min(second.trace.len()));
        let around = at.saturating_sub(12)..(at + 3);
        panic!(
            "two runs of TUBEWELL_SEED={seed} differ at line {at}:\n{:#?}\n{:#?}",
            first.trace.get(around.clone()),
            second.trace.get(around)
        );
    }
    first
}

/// Removes steps as long as the run still fails.
fn shrink(seed: u64, mut steps: Vec<Step>) -> Vec<Step> {
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let mut size = steps.len() / 2;
    while size > 0 {
        let mut at = 0;
        while at < steps.len() {
            let mut fewer = steps.clone();
            fewer.drain(at..(at + size).min(steps.len()));
            if run(seed, &fewer).failed.is_some() {
                steps = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    std::panic::set_hook(hook);
    steps
}

#[test]
fn store_matches_model_drains_and_is_deterministic() {
    let seeds = size::seeds(amount(40, 40, 100_000));
    let mut coverage: BTreeMap<String, u64> = BTreeMap::new();
    let mut calls = 0;
    for (done, seed) in seeds.clone().enumerate() {
        let is_repeated = (done as u64) < amount(REPEATED, u64::MAX, u64::MAX);
        let run = check(seed, is_repeated);
        calls += run.calls;
        for (what, times) in run.coverage {
            *coverage.entry(what).or_default() += times;
        }
        if done % 100 == 99 {
            println!("{} seeds, {calls} calls", done + 1);
        }
    }
    println!("{seeds:?}; {calls} calls; {coverage:#?}");
    if size::repeated_seed().is_none() {
        check_coverage(&coverage);
    }
}

/// Checks that the default seeds cover all drivers, verbs, faults and refusals.
fn check_coverage(coverage: &BTreeMap<String, u64>) {
    let mut all: Vec<String> = REQUIRED_COVERAGE.map(str::to_owned).into();
    for driver in ["fifo", "fifottl", "limfifottl", "utube", "utubettl"] {
        all.push(format!("taken from {driver}"));
        all.extend(["done", "unavailable"].map(|outcome| format!("put {driver}: {outcome}")));
        all.extend(["done", "not taken"].map(|outcome| format!("ack {driver}: {outcome}")));
    }
    for verb in
        ["ack deferred", "put deferred", "delete deferred", "put_many", "bury", "delete", "touch"]
    {
        all.push(format!("{verb}: done"));
    }
    for verb in ["checkpoint", "checkpoint deferred", "claim", "revoke"] {
        all.push(format!("{verb}: done"));
    }
    for verb in
        ["bury by id", "release delayed", "create", "drop_tube", "truncate", "kick", "flush"]
    {
        all.push(format!("{verb}: done"));
    }
    for level in ["temporary", "relaxed", "written", "flushed"] {
        all.push(format!("{level} change"));
    }
    for level in ["written", "flushed"] {
        all.push(format!("{level} change of unknown outcome"));
    }
    for crash in ["Kill", "PowerCut", "PartialPowerCut"] {
        all.extend(["", " during an outage"].map(|when| format!("crash: {crash}{when}")));
    }
    for fault in ["Device", "Full", "Short"] {
        all.extend(["once", "lasting"].map(|how| format!("fault: {fault} {how}")));
    }
    all.extend(["Any", "Read", "Write", "Sync", "SetLen"].map(|kind| format!("fault: {kind}")));
    let missed: Vec<_> = all.into_iter().filter(|what| !coverage.contains_key(what)).collect();
    assert_eq!(missed, [""; 0], "not covered by the default seeds");
    // Which verbs a fault hits depends on the seeds; it must hit this many.
    let count_ending = |how: &str| coverage.keys().filter(|what| what.ends_with(how)).count();
    assert!(count_ending(": unknown") >= 10, "{coverage:#?}");
    assert!(count_ending(": unavailable") >= 20, "{coverage:#?}");
    assert!(count_ending(": disk full") >= 2, "{coverage:#?}");
}

const REQUIRED_COVERAGE: [&str; 35] = [
    "ack deferred: not taken",
    "ack twice: not taken",
    "ack unclaimed: not taken",
    "ack_many: done",
    "ack_many: not taken",
    "checkpoint: not taken",
    "claim detached",
    "claim dropped",
    "claim: not found",
    "claim: not ready",
    "claim: session ended",
    "close: done",
    "close: storage failed",
    "crash: changes lost",
    "crash: written changes lost",
    "crash: during a commit",
    "disk: full",
    "drop_tube: busy",
    "end session: done",
    "kick nothing: done",
    "open: storage failed",
    "peek: done",
    "peek: not found",
    "put limfifottl: full",
    "put_many: full",
    "release: done",
    "release_all: done",
    "renew: done",
    "revoke: not found",
    "revoke: not taken",
    "session dropped",
    "storage resumed",
    "wait: storage failed",
    "wait: task",
    "wait: timed out",
];
