//! Workers whose process is killed: a child process takes tasks, and SIGKILL ends it.

use std::collections::BTreeMap;
use std::io::Read;
use std::time::Duration;

use tubewell::expert::Restore;
use tubewell::{Counting, Failure, Filter, Put, Store, TaskState, Tube, TubeOptions};

use super::files::{attempts, draft, failure, group_of_buried};
use super::process::{ChildProcess, Job, ReportWriter};
use super::rng::Rng;
use super::schedules_killed::{work_on_runs, work_on_same_schedules};
use super::support::{ALL, StoreFile, ZERO, assert_sound, keep, state, take};
use super::traceparents::HERE;
use crate::stores;

const MINUTE: Duration = Duration::from_secs(60);

// ---- the child

/// Does the job of a child: opens the store, takes tasks as the mode says, and waits for its end. A
/// report has the id and the attempt of a task that was handed out.
pub fn run(job: &Job) {
    let reports = ReportWriter::new();
    let store = stores::open(&job.path);
    let session = store.session("child").unwrap();
    let tube = session.tube(&store.find_tube("case").unwrap()).unwrap();
    let report = |claim: &tubewell::Claim| {
        reports.write(&format!("{} {}", claim.id(), claim.attempt()));
    };
    match job.mode.split_once(':').unwrap_or((&job.mode, "")) {
        ("open", _) => {}
        ("take", count) => {
            for _ in 0..count.parse::<u64>().unwrap() {
                let claim = tube.try_take().unwrap().unwrap();
                report(&claim);
                keep(claim);
            }
        }
        ("fail", group) => {
            let claim = tube.try_take().unwrap().unwrap();
            report(&claim);
            claim.fail(Failure::new(group, "row 7 has no end")).unwrap();
        }
        ("put", text) => {
            tube.put(Put::new("x").traceparent(text)).unwrap();
        }
        ("runs", _) => work_on_runs(&tube, &reports),
        ("same", _) => work_on_same_schedules(&tube, &reports),
        ("work", _) => work(&tube, &mut Rng::new(job.seed), report),
        (other, _) => panic!("unknown mode {other}"),
    }
    reports.write("idle");
    // Returns when the parent is gone.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Takes until no task is ready, and ends most claims in some way.
fn work(tube: &Tube, rng: &mut Rng, report: impl Fn(&tubewell::Claim)) {
    let mut held = Vec::new();
    while let Some(claim) = tube.try_take().unwrap() {
        report(&claim);
        match rng.below(5) {
            0 => held.push(claim),
            1 => drop(claim),
            2 => drop(claim.ack().unwrap()),
            3 => drop(claim.fail(Failure::new("group", "message")).unwrap()),
            _ => drop(claim.release().unwrap()),
        }
    }
    for claim in held {
        keep(claim);
    }
}

// ---- the parent

fn start(mode: &str, file: &StoreFile, seed: u64) -> ChildProcess {
    ChildProcess::start(&Job { mode: format!("jobs/{mode}"), path: file.path(), seed, run: 0 })
}

/// Runs a child until it waits, and kills it. Returns its reports but the last.
fn kill_when_idle(mode: &str, file: &StoreFile) -> Vec<String> {
    let mut child = start(mode, file, 0);
    while child.next_line(MINUTE).unwrap() != "idle" {}
    let mut reported = child.kill();
    assert_eq!(reported.pop().as_deref(), Some("idle"));
    reported
}

/// A store file with these tasks.
fn file_with(driver: &str, options: TubeOptions, tasks: u32) -> StoreFile {
    let file = StoreFile::new();
    let store = stores::open(file.path());
    let tube = store.create_tube("case", options.driver(driver)).unwrap();
    tube.put_many((0..tasks).map(|n| draft(driver, &n.to_string()))).unwrap();
    stores::close(&store);
    file
}

fn open(file: &StoreFile) -> (Store, Tube) {
    let store = stores::open(file.path());
    let tube = store.find_tube("case").unwrap();
    assert_sound(&store);
    (store, tube)
}

#[test]
fn traceparent_survives_a_kill() {
    for driver in ALL {
        let file = file_with(driver, TubeOptions::new(), 0);
        assert!(kill_when_idle(&format!("put:{HERE}"), &file).is_empty());
        let (_store, tube) = open(&file);
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!(claim.traceparent().as_deref(), Some(HERE));
    }
}

/// T068 B031 B032
#[test]
fn task_that_kills_each_worker_process_is_buried_at_its_limit() {
    for driver in ALL {
        let file = file_with(driver, TubeOptions::new().max_attempts(4), 2);
        assert_eq!(kill_when_idle("fail:parser", &file), ["0 1"]);
        for attempt in 2..=4 {
            assert_eq!(kill_when_idle("take:1", &file), [format!("0 {attempt}")]);
        }
        let (store, tube) = open(&file);
        assert_eq!(group_of_buried(&tube, 0).as_deref(), Some("lost"));
        let (_, message, attempt) = failure(&tube, 0).unwrap();
        let cause = "the process of its worker ended in attempt 4, the last one; attempt 1 failed \
                     with parser: row 7 has no end";
        assert_eq!((message.as_str(), attempt), (cause, 4));
        assert_eq!(
            tube.query().task(0).unwrap().info.failure.unwrap().owner.as_deref(),
            Some("child")
        );
        // The task behind it was not touched.
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.attempt()), (1, 1));
        claim.ack().unwrap();
        assert_eq!((take(&tube), tube.admin().kick(Filter::new().limit(1))), (None, Ok(1)));
        assert_eq!(attempts(&tube, 0), (0, Some(4)));
        assert_sound(&store);
    }
}

/// I02
#[test]
fn only_attempt_of_a_killed_worker_is_not_repeated() {
    for counting in [Counting::Written, Counting::Flushed] {
        for driver in ALL {
            let options = TubeOptions::new().max_attempts(1).count_takes(counting);
            let file = file_with(driver, options, 1);
            assert_eq!(kill_when_idle("take:1", &file), ["0 1"]);
            for _ in 0..2 {
                let (_store, tube) = open(&file);
                assert_eq!((state(&tube, 0), take(&tube)), (Some(TaskState::Buried), None));
                assert_eq!(group_of_buried(&tube, 0).as_deref(), Some("lost"));
                assert_eq!(attempts(&tube, 0), (1, Some(0)));
            }
        }
    }
}

/// B022 B023
/// Difference: no other session takes over a claim. The task is ready for any taker, its attempt is
/// counted, and the claim of the dead session is unknown.
#[test]
fn task_of_a_killed_worker_is_ready_for_the_next_one() {
    for driver in ALL {
        let file = file_with(driver, TubeOptions::new().max_attempts(5), 1);
        assert_eq!(kill_when_idle("take:1", &file), ["0 1"]);
        let (store, tube) = open(&file);
        assert_eq!((state(&tube, 0), tube.query().owner(0)), (Some(TaskState::Ready), Ok(None)));
        assert_eq!((attempts(&tube, 0), failure(&tube, 0)), ((1, Some(4)), None));
        let session = store.session("next").unwrap();
        let claim = session.tube(&tube).unwrap().try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.attempt()), (0, 2));
        let owner = tube.query().owner(0).unwrap().unwrap();
        assert_eq!(owner.label.as_deref(), Some("next"));
        claim.ack().unwrap();
        assert_sound(&store);
    }
}

/// B035
#[test]
fn all_tasks_of_a_killed_worker_come_back() {
    for driver in ALL {
        let file = file_with(driver, TubeOptions::new().max_attempts(5), 12);
        assert_eq!(kill_when_idle("take:10", &file).len(), 10);
        let (store, tube) = open(&file);
        assert_eq!(tube.statistics().unwrap().tasks.ready, 12);
        let counted = (0..12).map(|id| attempts(&tube, id).0);
        assert!(counted.eq((0..12).map(|id| u32::from(id < 10))));
        let claims = tube.take_many(20, ZERO).unwrap();
        assert!(claims.iter().map(tubewell::Claim::id).eq(0..12));
        drop(claims);
        assert_sound(&store);
    }
}

/// B036
#[test]
fn recovery_that_is_killed_is_repeated_and_counts_once() {
    for driver in ALL {
        let file = file_with(driver, TubeOptions::new().max_attempts(2), 2);
        assert_eq!(kill_when_idle("take:2", &file).len(), 2);
        for _ in 0..3 {
            assert_eq!(kill_when_idle("open", &file).len(), 0);
        }
        let (store, tube) = open(&file);
        assert_eq!([0, 1].map(|id| attempts(&tube, id)), [(1, Some(1)); 2]);
        stores::close(&store);
        drop((store, tube));
        assert_eq!(kill_when_idle("take:2", &file).len(), 2);
        for _ in 0..3 {
            assert_eq!(kill_when_idle("open", &file).len(), 0);
        }
        let (_store, tube) = open(&file);
        for id in [0, 1] {
            assert_eq!(group_of_buried(&tube, id).as_deref(), Some("lost"));
            assert_eq!(attempts(&tube, id), (2, Some(0)));
        }
    }
}

/// B030 I02
#[test]
fn killed_takes_are_counted_at_any_moment_and_no_budget_is_exceeded() {
    let mut rng = Rng::new(30);
    for (counting, limit) in
        [(Counting::Written, 1), (Counting::Flushed, 1), (Counting::Written, 3)]
    {
        for driver in ALL {
            let options = TubeOptions::new().max_attempts(limit).count_takes(counting);
            let file = file_with(driver, options, 40);
            let mut handed_out: BTreeMap<u64, u32> = BTreeMap::new();
            let mut acked = 0;
            for _ in 0..4 {
                let mut child = start("work", &file, rng.next());
                for _ in 0..=rng.below(20) {
                    if child.next_line(MINUTE).unwrap() == "idle" {
                        break;
                    }
                }
                for line in child.kill() {
                    let Some((id, attempt)) = line.split_once(' ') else { continue };
                    let (id, attempt) = (id.parse().unwrap(), attempt.parse::<u32>().unwrap());
                    let before = handed_out.insert(id, attempt).unwrap_or(0);
                    assert!(attempt > before && attempt <= limit, "task {id}: {line}");
                }
                let (_store, tube) = open(&file);
                acked = 0;
                for (id, attempt) in &handed_out {
                    match state(&tube, *id) {
                        None => acked += 1,
                        Some(state) => {
                            let (counted, left) = attempts(&tube, *id);
                            assert!(counted >= *attempt, "task {id}: {counted} of {attempt}");
                            assert_eq!(state == TaskState::Buried, left == Some(0), "task {id}");
                        }
                    }
                }
            }
            assert!(handed_out.len() > 5 && acked < 40, "the children did nothing");
        }
    }
}

#[test]
fn restored_attempts_count_after_a_kill() {
    let file = file_with(tubewell::FIFO, TubeOptions::new().max_attempts(3), 0);
    let (store, tube) = open(&file);
    let id = tube.admin().restore_many([Restore::new("x").takes(2)]).unwrap()[0].id;
    stores::close(&store);
    drop((store, tube));
    assert_eq!(kill_when_idle("take:1", &file), [format!("{id} 3")]);
    let (_store, tube) = open(&file);
    assert_eq!((state(&tube, id), attempts(&tube, id)), (Some(TaskState::Buried), (3, Some(0))));
}
