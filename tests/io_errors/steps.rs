//! Steps on a disk that fails: a step is there with what it causes, or neither is.

use std::sync::Arc;

use tubewell::{
    Durability, Error, FIFO, Keep, ManualClock, OnKey, Put, Restore, Result, State, Step, StepKind,
    Store, Tube, TubeOptions,
};

use crate::disk::Disk;
use crate::failing_call::{FailingCall, Resumed, fail_with_all_faults};
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
    ("move", |tube, other| tube.move_to(0, other).map(drop)),
    ("advance", |tube, other| tube.claim(0)?.advance(other, "next").map(drop)),
    ("replace", |tube, _| tube.put(Put::new("new").key("key").on_key(OnKey::Replace)).map(drop)),
    ("restore", |tube, _| {
        let step = Step::new("restored", StepKind::Value, "value");
        tube.restore_many([Restore::new("restored").steps(vec![step])]).map(drop)
    }),
];

/// Each task: its tube, id, body, state if it is done, and steps.
type Contents = Vec<(String, u64, Vec<u8>, bool, Vec<Step>)>;

/// The disk of a closed store with a task that has some steps, one of which has put a task.
fn disk(durability: Durability, keeps: bool) -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    let mut options = TubeOptions::new().durability(durability);
    if keeps {
        options = options.keep_done(Keep::new());
    }
    let tube = store.create_tube("work", FIFO, options.clone()).unwrap();
    let other = store.create_tube("other", FIFO, options).unwrap();
    tube.put(Put::new("x").key("key")).unwrap();
    let job = tube.claim(0).unwrap();
    for n in 0..5_u8 {
        job.step(&format!("step {n}"), || Ok::<u8, Error>(n)).unwrap();
    }
    job.spawn("child", &other, Put::new("child").key("child")).unwrap();
    drop(job);
    store.close().unwrap();
    disk
}

fn contents(store: &Store) -> Contents {
    assert_eq!(store.verify().unwrap(), [""; 0]);
    let mut tasks = Vec::new();
    for name in ["work", "other"] {
        let tube = store.tube(name).unwrap();
        for state in [State::Ready, State::Taken, State::Done] {
            for info in tube.list(state, None, 100).unwrap().tasks {
                let (body, steps) =
                    (tube.peek(info.id).unwrap().data, tube.steps(info.id).unwrap());
                assert_eq!(info.has_steps, !steps.is_empty());
                tasks.push((name.to_owned(), info.id, body, state == State::Done, steps));
            }
        }
    }
    tasks.sort_by_key(|(_, id, ..)| *id);
    tasks
}

/// Further steps are stored, and no step that is there runs again.
fn goes_on(resumed: Resumed<'_, Contents>) -> bool {
    let Resumed { store, found, has_failed, .. } = resumed;
    for (name, id, _, is_done, steps) in found {
        if is_done {
            continue;
        }
        let tube = store.tube(&name).unwrap();
        // The claim of a call that has failed may stand.
        let _ = tube.revoke(id);
        let job = tube.claim(id).unwrap();
        for step in steps.iter().filter(|step| step.kind == StepKind::Value) {
            let run = job.step_with::<Raw, Vec<u8>, Error>(&step.name, || panic!("it is stored"));
            assert_eq!(run.unwrap(), step.value);
        }
        job.step("after", || Ok::<u8, Error>(1)).unwrap();
        assert_eq!(job.steps().unwrap().len(), steps.len() + 1);
        job.ack().unwrap();
    }
    assert_eq!(store.verify().unwrap(), [""; 0]);
    has_failed
}

/// Values as they are stored.
struct Raw;

impl tubewell::Codec for Raw {
    fn encode<T: serde::Serialize>(value: &T) -> Result<Vec<u8>> {
        tubewell::Bincode::encode(value)
    }

    fn decode<T: serde::de::DeserializeOwned>(bytes: &[u8]) -> Result<T> {
        // As a sequence with its length.
        tubewell::Bincode::decode(&tubewell::Bincode::encode(&bytes)?)
    }
}

#[test]
fn failed_call_has_its_step_and_what_it_causes_or_neither() {
    let mut runs = 0;
    for (durability, keeps) in
        [(Durability::Flush, true), (Durability::Write { flush_within: NEVER }, false)]
    {
        let disk = disk(durability, keeps);
        for (name, call) in CALLS {
            let call = |store: &Store| {
                let [tube, other] = ["work", "other"].map(|name| store.tube(name).unwrap());
                call(&tube, &other)
            };
            let call = FailingCall::new(&disk, &call, &contents, durability == Durability::Flush);
            let fails = |plan| goes_on(call.resume(plan));
            runs += fail_with_all_faults(name, 1, fails);
        }
    }
    assert!(runs > 300, "{runs} runs");
}
