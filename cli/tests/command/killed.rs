//! `work`, killed with its commands running, again and again: what was finished stays finished,
//! everything else is tried again, and nothing is lost.
//!
//! The choices are the same each time; when exactly the process dies is not.
//! `TUBEWELL_KILL_ROUNDS` sets the number of rounds.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::Signal;

use crate::support::Bench;

/// Puts down that the task was begun, and waits until it is let in: this is when the worker may be
/// killed. Then puts down that it is over.
const SCRIPT: &str = "echo $TUBEWELL_ID >> begun; echo begun $TUBEWELL_ID; \
     read x < gate; echo $TUBEWELL_ID >> over; test $((TUBEWELL_ID % 5)) != 4";

fn rounds() -> u64 {
    std::env::var("TUBEWELL_KILL_ROUNDS").map_or(6, |text| text.parse().unwrap())
}

/// The ids that scripts have put down.
fn ids(bench: &Bench, file: &str) -> BTreeSet<u64> {
    let text = fs::read_to_string(bench.dir.path().join(file)).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// The ids that are in the store, in whatever state.
fn there(bench: &Bench) -> BTreeSet<u64> {
    bench.json("list mail --all").iter().map(|task| task["id"].as_u64().unwrap()).collect()
}

/// The ids that a dead worker had told to be done, and those it had told to be buried.
fn told(lines: &[String]) -> [BTreeSet<u64>; 2] {
    ["done", "buried"].map(|outcome| {
        let lines = lines.iter().filter_map(|line| serde_json::from_str(line).ok());
        let lines: Vec<serde_json::Value> = lines.collect();
        let with = lines.iter().filter(|line| line["outcome"] == outcome);
        with.map(|line| line["id"].as_u64().unwrap()).collect()
    })
}

#[test]
fn a_worker_that_is_killed_with_commands_running_loses_nothing_round_after_round() {
    let bench = Bench::with(&[]);
    let mut gate = bench.gate();
    let mut put = BTreeSet::new();
    let (mut gone, mut buried) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..rounds() {
        let tasks = 6 + round % 3;
        bench.feed("import mail", "body\n".repeat(usize::try_from(tasks).unwrap()).as_bytes());
        put = &put | &there(&bench);
        let jobs = 1 + round % 4;
        let options = format!("mail --json --on-failure bury --jobs {jobs}");
        let mut running = bench.work(&options, SCRIPT);
        for _ in 0..jobs {
            running.remarks("begun");
        }
        // Some are let in, so that acks and burials are under way when the end comes.
        let let_in = usize::try_from(round % (jobs + 2)).unwrap();
        gate.open(let_in);
        if round % 2 == 0 && let_in > 0 {
            running.says("outcome");
        }
        running.signal(Signal::KILL);
        assert_eq!(running.ends(), -9);
        let (begun, over) = (ids(&bench, "begun"), ids(&bench, "over"));
        // Whoever still waits at the gate goes, and finds no worker to tell.
        gate.open(usize::try_from(jobs).unwrap());
        let [done, set_aside] = told(&running.rest_of_output());

        assert!(bench.ok("verify").starts_with("sound"));
        let left = there(&bench);
        gone = &gone | &done;
        buried = &buried | &set_aside;
        assert!(gone.is_disjoint(&left), "round {round}: {gone:?} is back in {left:?}");
        let is_buried: BTreeSet<u64> = bench
            .json("list mail --state buried --all")
            .iter()
            .map(|task| task["id"].as_u64().unwrap())
            .collect();
        assert!(buried.is_subset(&is_buried), "round {round}: {buried:?} of {is_buried:?}");
        // Only what a script got to the end of may be gone or buried without having been told.
        for id in put.difference(&left).chain(&is_buried) {
            assert!(over.contains(id) || gone.contains(id), "round {round}: {id} is lost");
            assert!(begun.contains(id), "round {round}: {id} was never begun");
        }
        gone = &gone | &put.difference(&left).copied().collect();
        let (ready, delayed, _) = bench.counts();
        assert_eq!(ready, (left.len() - is_buried.len()) as u64, "round {round}");
        assert_eq!(delayed, 0);
        buried = is_buried;
    }
    // What is left is done by a worker that is let live.
    bench.ok("kick mail --all");
    let mut command = bench.command(&["work", "mail", "--once", "--jobs", "4"]);
    command.args(["--", "sh", "-c", "exit 0"]);
    crate::support::run(command, b"").expect(0);
    assert_eq!(bench.counts(), (0, 0, 0));
    println!("{} tasks, {} rounds", put.len(), rounds());
}
