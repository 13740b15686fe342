//! The behaviour of tubes, claims, sessions and workers, and of the assertions about them: suites of calls on
//! stores.
//!
//! A suite opens no store itself, but takes it from [`stores`]: one that is open in this process, or a
//! connection to one. The variable `TUBEWELL_STORES` says which, so that the suites are built once.
//! [`suites_hold_through_connections`] starts this program again for the second kind. What a suite expects
//! only of a store that is open in its process is left out there: [`owner_only`] has these tests, with the
//! reasons.
//!
//! [`model`] compares the library with the reference model, and [`remote`] is about connections themselves.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "../common/blocking_disk.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod blocking_disk;
#[cfg(unix)]
mod connection;
#[path = "../common/executor.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod executor;
#[path = "../common/options.rs"]
mod options;
#[cfg(unix)]
mod owner_only;
#[cfg(unix)]
#[path = "../kill/process.rs"]
#[allow(dead_code, reason = "other test targets use the rest")]
mod process;
#[path = "../common/rng.rs"]
mod rng;
#[path = "../common/size.rs"]
mod size;
#[cfg(unix)]
mod stores;
#[cfg(not(unix))]
#[path = "../common/stores.rs"]
mod stores;

#[path = "../catalogue/mod.rs"]
mod catalogue;
#[path = "../conformance/mod.rs"]
mod conformance;
#[path = "../jobs/mod.rs"]
mod jobs;
#[path = "../model/mod.rs"]
mod model;
#[path = "../parity/mod.rs"]
mod parity;
#[cfg(unix)]
#[path = "../remote/mod.rs"]
mod remote;
#[path = "../testing/mod.rs"]
mod testing;
#[path = "../threads/mod.rs"]
mod threads;
#[path = "../worker/mod.rs"]
mod worker;

/// The entry point of a child process, whose mode begins with its suite. Does nothing in the parent.
#[cfg(unix)]
#[test]
fn child_process_entry() {
    let Some(mut job) = process::Job::from_env() else { return };
    let (suite, mode) = job.mode.split_once('/').unwrap();
    let run = match suite {
        "jobs" => jobs::killed::run,
        "remote" => remote::child::run,
        "worker" => worker::killed::run,
        other => panic!("unknown suite {other}"),
    };
    job.mode = mode.to_owned();
    run(&job);
}

/// The suites that take their stores from [`stores`].
#[cfg(unix)]
const SUITES: [&str; 8] = [
    "catalogue::",
    "conformance::",
    "jobs::",
    "model::random_steps::",
    "parity::",
    "testing::",
    "threads::",
    "worker::",
];

/// Runs the suites in a process of their own, whose stores are connections. Prints the names and results of
/// the tests if one fails.
#[cfg(unix)]
#[test]
fn suites_hold_through_connections() {
    if stores::are_connections() {
        return;
    }
    let mut suites = std::process::Command::new(std::env::current_exe().unwrap());
    suites.args(SUITES).args(owner_only::left_out().flat_map(|name| ["--skip", name]));
    // A test is known by the name of its thread, which one thread for all tests has not.
    let threads = std::thread::available_parallelism().map_or(2, |all| all.get().max(2));
    suites.arg(format!("--test-threads={threads}")).env(stores::VARIABLE, stores::CONNECTIONS);
    let ended = suites.output().unwrap();
    let output = String::from_utf8_lossy(&ended.stdout);
    println!("{output}{}", String::from_utf8_lossy(&ended.stderr));
    println!("repeat one with {}={}", stores::VARIABLE, stores::CONNECTIONS);
    assert!(ended.status.success(), "a suite does not hold through connections");
}
