//! Calls that end a task which is kept, on a disk that fails. Such a call moves the task, writes its
//! result or its failure, changes the count of a group, and forgets an older task.

use std::sync::Arc;

use tubewell::expert::Restore;
use tubewell::{
    Durability, Ending, Error, Failure, Filter, Keep, ManualClock, Outcome, Put, Result, Store,
    TaskState, Tube, TubeOptions, UTUBE,
};

use crate::disk::Disk;
use crate::failing_call::{FailingCall, fail_with_all_faults};
use crate::sampled;
use crate::size::amount;
use crate::support::{NEVER, open};

/// The tasks of the disk have the ids below this.
const TASKS: u64 = 5;

type End = fn(&Tube) -> Result<()>;

const ENDS: [(&str, End); 8] = [
    ("ack", |tube| tube.claim(2)?.end(Outcome::result(vec![b'r'; 3000])).map(drop)),
    ("bury", |tube| tube.claim(2)?.bury(Failure::new("new", "m".repeat(3000))).map(drop)),
    ("bury in the group", |tube| tube.claim(4)?.bury(Failure::new("old", "m")).map(drop)),
    ("resolve", |tube| tube.admin().resolve(1, Outcome::result(b"by hand")).map(drop)),
    ("forget", |tube| tube.admin().forget(0).map(drop)),
    ("kick", |tube| tube.admin().kick(Filter::new().limit(9)).map(drop)),
    ("delete", |tube| tube.delete(1).map(drop)),
    ("restore", |tube| tube.admin().restore_many(restored()).map(drop)),
];

/// A task that is done, and one that is ready.
fn restored() -> [Restore; 2] {
    let done = Restore::new(vec![b'y'; 2000]).id(TASKS).done(Some(vec![b'r'; 3000]));
    [done, Restore::new("z").id(TASKS + 1)]
}

/// What a store has: the state and the ending of each task, and the groups.
#[derive(Clone, Debug, PartialEq)]
struct Contents(Vec<(Option<TaskState>, Option<Ending>)>, Vec<(String, u64)>);

/// The disk of a closed store with a task that is done, one that is buried and three that are ready.
fn disk(durability: Durability, keep: Keep) -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    let options = TubeOptions::new().durability(durability).keep_done(keep).keep_buried(keep);
    let tube = store.create_tube("work", options.driver(UTUBE)).unwrap();
    for sub in ["a", "b", "c", "c", "d"] {
        tube.put(Put::new(vec![b'x'; 2000]).sub_queue(sub)).unwrap();
    }
    tube.claim(0).unwrap().end(Outcome::result("result")).unwrap();
    tube.claim(1).unwrap().bury(Failure::new("old", "message")).unwrap();
    store.close().unwrap();
    disk
}

fn contents(store: &Store) -> Contents {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tube = store.find_tube("work").unwrap();
    let tasks = (0..TASKS + 2).map(|id| {
        // A claim ends with the process, or with the call that failed.
        let state = tube.query().task(id).ok().map(|task| task.info.state);
        let state = if state == Some(TaskState::Taken) { Some(TaskState::Ready) } else { state };
        let ending = match tube.ending(id) {
            // Whether its id was skipped after a kill does not matter.
            Err(Error::NotFound { .. }) | Ok(Some(Ending::Gone)) if id >= TASKS => None,
            ending => ending.unwrap(),
        };
        let ending = ending.map(|ending| match ending {
            Ending::Buried { failure: Some(failure) } => {
                Ending::Done { result: Some(failure.group.into_bytes()) }
            }
            other => other,
        });
        (state, ending)
    });
    let tasks = tasks.collect();
    let groups = tube.query().groups().unwrap().into_iter().map(|group| (group.name, group.count));
    Contents(tasks, groups.collect())
}

#[test]
fn failed_end_of_kept_task_is_whole_or_changes_nothing() {
    let mut runs = 0;
    for durability in [Durability::Flush, Durability::Write { flush_within: NEVER }] {
        let [disk, keeping] =
            [Keep::new().count(1), Keep::new()].map(|keep| disk(durability, keep));
        let is_flushed = durability == Durability::Flush;
        for (name, end) in ENDS {
            let end = |store: &Store| end(&store.find_tube("work").unwrap());
            // After it if an older task could not be forgotten.
            let kept = FailingCall::new(&keeping, &end, &contents, is_flushed).after().clone();
            let end = FailingCall::new(&disk, &end, &contents, is_flushed).or_after(kept);
            let fails = |plan| end.resume(plan).close();
            runs += fail_with_all_faults(name, sampled(9), fails);
        }
    }
    assert!(runs > amount(30, 100, 100), "{runs} runs");
}
