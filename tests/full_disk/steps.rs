//! Jobs of several steps on a full disk: what a step would store is refused with `DiskFull`, what
//! is stored already is returned, and the job goes on at its step once there is space.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tubewell::worker::{Ended, Job, Report, Worker};
use tubewell::{
    Claim, Error, FIFO, FIFOTTL, ManualClock, Result, Store, TaskState, Tube, TubeOptions,
};

use super::disk::Disk;
use super::{MIB, fill, options, written};

const HOUR: Duration = Duration::from_secs(3600);
/// Larger than what a full disk leaves inside the file.
const LARGE: usize = 60_000;

/// A store on a disk that is full from [`Case::fill`] on.
struct Case {
    disk: Arc<Disk>,
    clock: ManualClock,
    store: Store,
    jobs: Tube,
    parts: Tube,
    /// The steps that have run.
    ran: Arc<Mutex<Vec<&'static str>>>,
}

impl Case {
    fn new(of_tubes: &TubeOptions) -> Case {
        let (disk, clock) = (Disk::with_capacity(4 * MIB), ManualClock::new());
        let store = options().clock(&clock).open_on(Disk::storage(&disk)).unwrap();
        let jobs = store.create_tube("jobs", of_tubes.clone().driver(FIFOTTL)).unwrap();
        let parts = store.create_tube("parts", of_tubes.clone().driver(FIFO)).unwrap();
        store.create_tube("other", of_tubes.clone().driver(FIFO)).unwrap();
        Case { disk, clock, store, jobs, parts, ran: Arc::default() }
    }

    /// Puts tasks until the disk is full.
    fn fill(&self) {
        assert!(fill(&self.store, &["other"]) > 300);
    }

    fn ran(&self) -> Vec<&'static str> {
        self.ran.lock().unwrap().clone()
    }

    fn step(&self, job: &Claim, name: &'static str, size: usize) -> Result<usize> {
        job.step(name, || run(&self.ran, name, size)).map(|value| value.len())
    }

    /// What a kill of the process would leave: the names of the steps of a job, and how many
    /// children there are.
    fn after_kill(&self, id: u64) -> (Vec<String>, u64) {
        let disk = Disk::storage(&self.disk.after_kill());
        let store = options().clock(ManualClock::new()).open_on(disk).unwrap();
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let [jobs, parts] = ["jobs", "parts"].map(|name| store.find_tube(name).unwrap());
        let steps = jobs.query().steps(id).unwrap().into_iter().map(|step| step.name).collect();
        (steps, parts.statistics().unwrap().tasks.total)
    }
}

#[expect(clippy::unnecessary_wraps, reason = "a step returns a result")]
fn run(ran: &Mutex<Vec<&'static str>>, name: &'static str, size: usize) -> Result<Vec<u8>> {
    ran.lock().unwrap().push(name);
    Ok(vec![7; size])
}

fn assert_disk_full<T: std::fmt::Debug>(answer: &Result<T>) {
    assert!(matches!(answer, Err(Error::DiskFull { .. })), "{answer:?}");
}

#[test]
fn full_disk_refuses_steps_and_spawns_and_the_claim_goes_on_with_them_once_there_is_space() {
    for of_tubes in [TubeOptions::new(), written()] {
        let case = Case::new(&of_tubes);
        let id = case.jobs.put("job").unwrap().id;
        let job = case.jobs.try_take().unwrap().unwrap();
        assert_eq!(case.step(&job, "before", 100), Ok(100));
        let child = job.spawn("child", &case.parts, "child").unwrap();
        drop(job);
        case.fill();

        let job = case.jobs.try_take().unwrap().unwrap();
        // What is stored needs no space.
        assert_eq!(case.step(&job, "before", 100), Ok(100));
        assert_eq!(job.spawn("child", &case.parts, "child"), Ok(child));
        for _ in 0..2 {
            assert_disk_full(&case.step(&job, "large", LARGE));
            assert_disk_full(&job.spawn("large child", &case.parts, vec![1; LARGE]));
        }
        assert!(job.is_current().unwrap());
        assert_eq!(job.steps().unwrap().len(), 2);
        let stored = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(case.after_kill(id), (stored(&["before", "child"]), 1));
        assert_eq!(case.ran(), ["before", "large", "large"]);

        case.disk.add_space(8 * MIB);
        assert_eq!(case.step(&job, "large", LARGE), Ok(LARGE));
        let second = job.spawn("large child", &case.parts, vec![1; LARGE]).unwrap();
        assert_eq!(case.parts.query().task(second).unwrap().body.len(), LARGE);
        let all = stored(&["before", "child", "large", "large child"]);
        assert_eq!(case.after_kill(id), (all, 2));
        job.ack().unwrap();
        assert_eq!(case.ran(), ["before", "large", "large", "large"]);
        assert_eq!(case.store.admin().verify().unwrap(), [""; 0]);
        case.store.close().unwrap();
    }
}

/// How the jobs of a run of a worker have ended, and in which state their tasks are then.
fn work(case: &Case, child: u64) -> Vec<(Ended, TaskState)> {
    let ends: Arc<Mutex<Vec<(Ended, TaskState)>>> = Arc::default();
    let (seen, ran, parts) = (ends.clone(), case.ran.clone(), case.parts.clone());
    let steps = move |job: &Job| -> Result<()> {
        job.step("before", || run(&ran, "before", 100))?;
        job.sleep("rest", HOUR)?;
        job.join("child", &parts, &[child])?;
        job.step("large", || run(&ran, "large", LARGE)).map(drop)
    };
    let watch = move |report: &Report| match report {
        Report::Ended { end, state, .. } => seen.lock().unwrap().push((*end, *state)),
        Report::Error(Error::DiskFull { .. }) => {}
        report => panic!("{report:?}"),
    };
    Worker::new(&case.store).on(&case.jobs, steps).limit(1).watch(watch).run_until_idle().unwrap();
    ends.lock().unwrap().split_off(0)
}

/// Sleeps and joins go on: they are small, and need no space to be given back.
#[test]
fn job_sleeps_and_joins_on_a_full_disk_and_goes_on_at_the_step_that_did_not_fit() {
    for of_tubes in [TubeOptions::new(), written()] {
        let case = Case::new(&of_tubes);
        case.jobs.put("job").unwrap();
        let child = case.parts.put("child").unwrap().id;
        let job = case.jobs.try_take().unwrap().unwrap();
        assert_eq!(case.step(&job, "before", 100), Ok(100));
        drop(job);
        case.fill();
        assert_eq!(work(&case, child), [(Ended::Suspended, TaskState::Delayed)]);
        case.clock.advance(HOUR);
        assert_eq!(work(&case, child), [(Ended::Suspended, TaskState::Blocked)]);
        case.parts.try_take().unwrap().unwrap().ack().unwrap();
        for _ in 0..2 {
            assert_eq!(work(&case, child), [(Ended::Snoozed, TaskState::Delayed)]);
            case.clock.advance(Duration::from_secs(5));
        }
        case.disk.add_space(8 * MIB);
        assert_eq!(work(&case, child), [(Ended::Done, TaskState::Done)]);
        assert_eq!(case.ran(), ["before", "large", "large", "large"]);
        assert_eq!(case.jobs.statistics().unwrap().tasks.total, 0);
        assert_eq!(case.store.admin().verify().unwrap(), [""; 0]);
        case.store.close().unwrap();
    }
}
