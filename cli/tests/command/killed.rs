//! `work`, killed repeatedly while its commands run: finished tasks stay finished, all others are
//! tried again, none is lost.
//!
//! The choices are the same in every run; the exact moment of each kill is not.

use std::collections::BTreeSet;
use std::fs;

use rustix::process::Signal;

use crate::size::amount;
use crate::support::Sandbox;

/// Writes down that the task was begun and waits at the gate, where the worker may be killed. Then
/// writes down that it has finished.
const SCRIPT: &str = "echo $TUBEWELL_ID >> begun; echo begun $TUBEWELL_ID; \
     read x < gate; echo $TUBEWELL_ID >> finished; test $((TUBEWELL_ID % 5)) != 4";

fn rounds() -> u64 {
    amount(4, 6, 500)
}

/// The ids that scripts have written down.
fn ids(sandbox: &Sandbox, file: &str) -> BTreeSet<u64> {
    let text = fs::read_to_string(sandbox.dir.path().join(file)).unwrap_or_default();
    text.lines().map(|line| line.parse().unwrap()).collect()
}

/// The ids in the store, in any state.
fn stored(sandbox: &Sandbox) -> BTreeSet<u64> {
    sandbox.ids("list mail --all").into_iter().collect()
}

/// The ids that a killed worker reported as done, and as buried.
fn reported(lines: &[String]) -> [BTreeSet<u64>; 2] {
    ["done", "buried"].map(|outcome| {
        let lines = lines.iter().filter_map(|line| serde_json::from_str(line).ok());
        let lines: Vec<serde_json::Value> = lines.collect();
        let with = lines.iter().filter(|line| line["outcome"] == outcome);
        with.map(|line| line["id"].as_u64().unwrap()).collect()
    })
}

#[test]
fn killed_worker_loses_no_task() {
    kill_workers("flush");
}

/// No flush follows a write while a worker runs.
#[test]
fn killed_worker_of_a_written_tube_loses_no_task() {
    kill_workers("write(3600s)");
}

fn kill_workers(durability: &str) {
    let sandbox = Sandbox::empty();
    sandbox.ok(&format!("create mail --durability {durability}"));
    let mut gate = sandbox.gate();
    let mut put = BTreeSet::new();
    let (mut removed, mut buried) = (BTreeSet::new(), BTreeSet::new());
    for round in 0..rounds() {
        let tasks = 6 + round % 3;
        sandbox.feed("import mail", "body\n".repeat(usize::try_from(tasks).unwrap()).as_bytes());
        put = &put | &stored(&sandbox);
        let jobs = 1 + round % 4;
        let options = format!("mail --json --on-failure bury --jobs {jobs}");
        let mut running = sandbox.work(&options, SCRIPT);
        for _ in 0..jobs {
            running.notes("begun");
        }
        // Some scripts go on, so that acks and burials are under way at the kill.
        let released = usize::try_from(round % (jobs + 2)).unwrap();
        gate.open(released);
        if round % 2 == 0 && released > 0 {
            running.prints("outcome");
        }
        running.signal(Signal::KILL);
        assert_eq!(running.ends(), -9);
        let (begun, finished) = (ids(&sandbox, "begun"), ids(&sandbox, "finished"));
        // Scripts that still wait at the gate end without a worker.
        gate.open(usize::try_from(jobs).unwrap());
        let [done, set_aside] = reported(&running.rest_of_output());

        assert!(sandbox.ok("verify").starts_with("sound"));
        let left = stored(&sandbox);
        removed = &removed | &done;
        buried = &buried | &set_aside;
        assert!(removed.is_disjoint(&left), "round {round}: {removed:?} is back in {left:?}");
        let is_buried: BTreeSet<u64> =
            sandbox.ids("list mail --state buried --all").into_iter().collect();
        assert!(buried.is_subset(&is_buried), "round {round}: {buried:?} of {is_buried:?}");
        // Only a task whose script finished may be removed or buried without a report.
        for id in put.difference(&left).chain(&is_buried) {
            assert!(finished.contains(id) || removed.contains(id), "round {round}: {id} is lost");
            assert!(begun.contains(id), "round {round}: {id} was never begun");
        }
        removed = &removed | &put.difference(&left).copied().collect();
        let (ready, delayed, _) = sandbox.counts();
        assert_eq!(ready, (left.len() - is_buried.len()) as u64, "round {round}");
        assert_eq!(delayed, 0);
        buried = is_buried;
    }
    // A worker that is not killed does the rest.
    sandbox.ok("kick mail --all");
    let mut command = sandbox.command(&["work", "mail", "--once", "--jobs", "4"]);
    command.args(["--", "sh", "-c", "exit 0"]);
    crate::support::run(command, b"").expect(0);
    assert_eq!(sandbox.counts(), (0, 0, 0));
    println!("{} tasks, {} rounds", put.len(), rounds());
}
