//! Schedules that are not due wake no thread of their store. A process of its own: all threads of
//! stores in it are those of this test.

#![cfg(target_os = "linux")]
#![allow(clippy::disallowed_methods, reason = "that threads are idle shows over real time")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::time::Duration;

use tubewell::{FIFO, Schedule, Store, TubeOptions};

const HOUR: Duration = Duration::from_secs(3600);

/// The name of a thread of a store, and how often it has begun to wait.
type Wait = (String, u64);

fn waits() -> Vec<Wait> {
    let mut waits = Vec::new();
    for thread in fs::read_dir("/proc/self/task").unwrap() {
        let path = thread.unwrap().path();
        let name = fs::read_to_string(path.join("comm")).unwrap().trim().to_owned();
        if name.starts_with("tubewell") {
            let status = fs::read_to_string(path.join("status")).unwrap();
            let mut lines = status.lines();
            let number = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
            waits.push((name, number.unwrap().trim().parse().unwrap()));
        }
    }
    waits.sort();
    waits
}

#[test]
fn schedules_that_are_not_due_wake_no_thread() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path().join("store")).unwrap();
    let jobs = store.create_tube("jobs", TubeOptions::new().driver(FIFO)).unwrap();
    let deferred = jobs.to_async();
    let later = std::time::SystemTime::now() + HOUR;
    let schedule = |n: u32| {
        let key = format!("k{n}");
        #[cfg(feature = "cron")]
        if n.is_multiple_of(2) {
            return Schedule::cron(key, "0 9 * * *", "UTC").starting(later);
        }
        Schedule::every(key, HOUR).starting(later)
    };
    let tickets: Vec<_> = (0..10_000).map(|n| deferred.schedule(schedule(n), "")).collect();
    for ticket in tickets {
        ticket.wait().unwrap();
    }

    // The sweeper wakes up every 30 seconds, and the idle work begins after five.
    let commits = store.admin().counters().unwrap().commits;
    let (mut before, mut quiet) = (waits(), 0);
    for _ in 0..60 {
        std::thread::sleep(Duration::from_millis(500));
        let now = waits();
        quiet = if now == before { quiet + 1 } else { 0 };
        before = now;
        if quiet == 8 {
            break;
        }
    }
    assert_eq!(quiet, 8, "no four seconds without a wake-up: {before:?}");
    assert_eq!((before.len(), store.admin().counters().unwrap().commits), (3, commits));
}
