//! Steps on a disk that fails: a step is there with what it causes, or neither is.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::Duration;

use tubewell::expert::{Restore, Step, StepKind};
use tubewell::worker::{Job, Report, Worker};
use tubewell::{
    Durability, Error, FIFOTTL, Keep, ManualClock, OnKey, Outcome, Put, Result, Store, TaskState,
    Tube, TubeOptions,
};

use crate::HANGS_AFTER;
use crate::disk::Disk;
use crate::failing_call::{FailingCall, Resumed, fail_with_all_faults};
use crate::size::amount;
use crate::support::{NEVER, open};

type Call = fn(&Tube, &Tube) -> Result<()>;

const CALLS: [(&str, Call); 9] = [
    ("step", |tube, _| tube.claim(0)?.step("new", || Ok::<_, Error>(vec![7_u8; 2000])).map(drop)),
    ("spawn", |tube, other| tube.claim(0)?.spawn("new", other, "new child").map(drop)),
    ("spawn over a key", |tube, other| {
        let put = Put::new("new").key("child").on_key(OnKey::Replace);
        tube.claim(0)?.spawn("new", other, put).map(drop)
    }),
    ("ack", |tube, _| tube.claim(0)?.ack().map(drop)),
    ("delete", |tube, _| tube.delete(0).map(drop)),
    ("move", |tube, other| tube.admin().move_to(other, 0).map(drop)),
    ("advance", |tube, other| tube.claim(0)?.end(Outcome::advance(other, "next")).map(drop)),
    ("replace", |tube, _| tube.put(Put::new("new").key("key").on_key(OnKey::Replace)).map(drop)),
    ("restore", |tube, _| {
        let step = Step::new("restored", StepKind::Value, "7");
        tube.admin().restore_many([Restore::new("restored").steps(vec![step])]).map(drop)
    }),
];

type JobCall = fn(&Job, &Tube) -> Result<()>;

/// The steps that give the task of a job back: only a worker has them.
const JOB_CALLS: [(&str, JobCall); 2] = [
    ("join", |job, other| job.join("new", other, &[CHILD])),
    ("sleep", |job, _| job.sleep("new", REST)),
];

/// The task that a step has put.
const CHILD: u64 = 1;
const REST: Duration = Duration::from_secs(100);

/// Each task: its tube, id, body, whether it is done, its steps, and the tasks that it waits for.
type Contents = Vec<(String, u64, Vec<u8>, bool, Vec<Step>, Vec<u64>)>;

/// The disk of a closed store with a task that has some steps, one of which has put a task.
fn disk(durability: Durability, keeps: bool) -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    let mut options = TubeOptions::new().durability(durability);
    if keeps {
        options = options.keep_done(Keep::new());
    }
    let tube = store.create_tube("work", options.clone().driver(FIFOTTL)).unwrap();
    let other = store.create_tube("other", options.driver(FIFOTTL)).unwrap();
    tube.put(Put::new("x").key("key")).unwrap();
    let job = tube.claim(0).unwrap();
    for n in 0..5_u8 {
        job.step(&format!("step {n}"), || Ok::<u8, Error>(n)).unwrap();
    }
    let child = job.spawn("child", &other, Put::new("child").key("child")).unwrap();
    assert_eq!(child, CHILD);
    drop(job);
    store.close().unwrap();
    disk
}

fn contents(store: &Store) -> Contents {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let mut tasks = Vec::new();
    for name in ["work", "other"] {
        let tube = store.find_tube(name).unwrap();
        for state in [
            TaskState::Ready,
            TaskState::Taken,
            TaskState::Delayed,
            TaskState::Blocked,
            TaskState::Done,
        ] {
            for info in tube.query().list(state, None, 100).unwrap().items {
                let (body, steps) = (
                    tube.query().task(info.id).unwrap().body.into(),
                    tube.query().steps(info.id).unwrap(),
                );
                let parents = tube.query().parents(info.id).unwrap();
                assert_eq!(info.has_steps, !steps.is_empty());
                assert_eq!(state == TaskState::Blocked, !parents.is_empty());
                let is_done = state == TaskState::Done;
                tasks.push((name.to_owned(), info.id, body, is_done, steps, parents));
            }
        }
    }
    tasks.sort_by_key(|(_, id, ..)| *id);
    tasks
}

/// Further steps are stored, and no step that is there runs again.
fn goes_on(resumed: Resumed<'_, Contents>) -> bool {
    let Resumed { store, clock, found, has_failed, .. } = resumed;
    // A sleep is over.
    clock.advance(REST);
    // The child comes first: the task may wait for it.
    for (name, id, _, is_done, steps, _) in found.into_iter().rev() {
        if is_done {
            continue;
        }
        let tube = store.find_tube(&name).unwrap();
        // The claim of a call that has failed may stand.
        let _ = tube.admin().revoke(id);
        let job = tube.claim(id).unwrap();
        for step in steps.iter().filter(|step| step.kind == StepKind::Value) {
            let run = job.step::<serde_json::Value, Error>(&step.name, || panic!("it is stored"));
            assert_eq!(run.unwrap().to_string().as_bytes(), step.value);
        }
        job.step("after", || Ok::<u8, Error>(1)).unwrap();
        assert_eq!(job.steps().unwrap().len(), steps.len() + 1);
        job.ack().unwrap();
    }
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    has_failed
}

/// Makes a call of a job, in a worker that ends with the answer or with its first error.
fn in_job(store: &Store, call: JobCall) -> Result<()> {
    let [tube, other] = tubes(store);
    let (sender, answers) = channel();
    let is_first = Arc::new(AtomicBool::new(true));
    let answer = move |make: &dyn Fn() -> Result<()>| {
        if is_first.swap(false, Ordering::SeqCst) {
            sender.send(make()).unwrap();
        }
    };
    let answered = answer.clone();
    let handler = move |job: &Job| {
        answered(&|| match call(job, &other) {
            Err(Error::Interrupted { .. }) => Ok(()),
            answer => answer,
        });
        Outcome::detach()
    };
    let watch = move |report: &Report| {
        if let Report::Error(error) = report {
            answer(&|| Err(error.clone()));
        }
    };
    let worker = Worker::new(store).on(&tube, handler).watch(watch).limit(1).start()?;
    let answer = answers.recv_timeout(HANGS_AFTER).unwrap();
    // The end of the job may fail, too.
    let _ = worker.stop(Duration::ZERO);
    let _ = worker.wait();
    answer
}

fn tubes(store: &Store) -> [Tube; 2] {
    ["work", "other"].map(|name| store.find_tube(name).unwrap())
}

#[test]
fn failed_call_has_its_step_and_what_it_causes_or_neither() {
    let mut runs = 0;
    for (durability, keeps) in
        [(Durability::Flush, true), (Durability::Write { flush_within: NEVER }, false)]
    {
        let disk = disk(durability, keeps);
        let mut fail = |name, call: &dyn Fn(&Store) -> Result<()>| {
            let call = FailingCall::new(&disk, call, &contents, durability == Durability::Flush);
            runs += fail_with_all_faults(name, 1, |plan| goes_on(call.resume(plan)));
        };
        for (name, call) in CALLS {
            fail(name, &|store| {
                let [tube, other] = tubes(store);
                call(&tube, &other)
            });
        }
        for (name, call) in JOB_CALLS {
            fail(name, &|store| in_job(store, call));
        }
    }
    assert!(runs > amount(100, 400, 400), "{runs} runs");
}
