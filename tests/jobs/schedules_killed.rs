//! Schedules in a process that is killed.

use std::collections::BTreeSet;
use std::time::Duration;

use tubewell::{FIFO, Missed, Overlap, Schedule, State, Tube, TubeOptions};

use super::process::{ChildProcess, Job, ReportWriter};
use super::rng::Rng;
use super::support::{StoreFile, assert_sound};
use crate::stores;

const MINUTE: Duration = Duration::from_secs(60);

/// In the child: takes and acks runs, and reports the number of each after its ack.
pub fn work_on_runs(tube: &Tube, reports: &ReportWriter) {
    loop {
        let claim = tube.take(None).unwrap().unwrap();
        let run = tube.peek(claim.id()).unwrap().info.spawned_by.unwrap().run;
        claim.ack().unwrap();
        reports.write(&run.to_string());
    }
}

/// Each run is put once: it is acked, or still there, over many kills.
#[test]
fn kill_neither_loses_nor_doubles_a_run() {
    let file = StoreFile::new();
    let store = stores::open(file.path());
    let tube = store.create_tube("case", FIFO, TubeOptions::new()).unwrap();
    let every = |key: &str| Schedule::every(Duration::from_millis(2)).key(key).put("run");
    tube.schedule(every("R").missed(Missed::All)).unwrap();
    drop(tube);
    stores::close(&store);
    let (mut rng, mut acked) = (Rng::new(3), BTreeSet::new());
    for kill in 1..=6 {
        let job = Job { mode: "runs".into(), path: file.path(), seed: 0, run: kill };
        let mut child = ChildProcess::start(&job);
        for _ in 0..rng.below(40) {
            child.next_line(MINUTE).unwrap();
        }
        for line in child.kill() {
            let run: u64 = line.parse().unwrap();
            assert!(acked.insert(run), "run {run} was acked twice");
        }
        let store = stores::open(file.path());
        let tube = store.tube("case").unwrap();
        tube.unschedule("R").unwrap();
        assert_sound(&store);
        let mut there = BTreeSet::new();
        let mut after = None;
        loop {
            let page = tube.list(State::Ready, after, 1000).unwrap();
            for run in page.tasks.iter().map(|task| task.spawned_by.unwrap().run) {
                assert!(there.insert(run), "run {run} was put twice");
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        // The last ack before the kill may not have been reported.
        let last = there.last().copied().max(acked.last().copied()).unwrap_or(0);
        let missing: Vec<u64> =
            (1..=last).filter(|run| !there.contains(run) && !acked.contains(run)).collect();
        assert!(missing.len() as u64 <= kill, "runs {missing:?} of {last} are lost");
        let doubled: Vec<u64> = there.intersection(&acked).copied().collect();
        assert!(doubled.is_empty(), "runs {doubled:?} were acked, and are there again");
        // It goes on where it was.
        let next = every("R").missed(Missed::All).overlap(Overlap::Allow).restored(None, last, 0);
        tube.schedule(next).unwrap();
        drop(tube);
        stores::close(&store);
    }
}
