//! Calls that edit many tasks at once, on a disk that fails: a kick of buried tasks with their
//! failure groups, and a restore. Such a call edits all of them or none.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tubewell::expert::{LastFailure, Restore};
use tubewell::{
    Durability, Ending, Failure, Filter, Keep, ManualClock, Put, Result, Store, TaskInfo,
    TaskState, Tube, TubeOptions, UTUBE,
};

use crate::disk::Disk;
use crate::failing_call::{FailingCall, fail_with_sampled_faults};
use crate::sampled;
use crate::size::amount;
use crate::support::{NEVER, open};

/// Longer than a run takes, so that nothing falls due.
const AGE: Duration = Duration::from_secs(1 << 20);

/// Tasks, most of them buried.
const TASKS: u64 = 32;
const GROUPS: [&str; 3] = ["crash", "timeout", "unreadable"];

type Call = fn(&Tube) -> Result<()>;

const CALLS: [(&str, Call); 3] = [
    ("kick", |tube| {
        tube.admin()
            .kick(Filter::new().limit(1000))
            .map(|kicked| assert_eq!(kicked, TASKS - TASKS.div_ceil(4)))
    }),
    ("kick a part", |tube| {
        tube.admin().kick(Filter::new().limit(13)).map(|kicked| assert_eq!(kicked, 13))
    }),
    ("restore", |tube| tube.admin().restore_many((0..20).map(restore)).map(drop)),
];

/// A task to restore: ready, done with a result, or buried with a failure or without one.
fn restore(n: u64) -> Restore {
    let group = GROUPS[usize::try_from(n % 3).unwrap()];
    let sub_queue = format!("sub {}", n % 7);
    let restore = Restore::new(Put::new(vec![b'r'; 300]).sub_queue(sub_queue)).takes(2);
    match n % 4 {
        0 if n.is_multiple_of(8) => restore,
        0 => restore.done(Some(vec![b'd'; 100])),
        1 => restore.buried(true),
        _ => restore.buried(true).group(group).failure(LastFailure::new(group, "message", 2)),
    }
}

/// What a store has: its tasks with the results of the done ones, its failure groups and the tasks of
/// these.
#[derive(Clone, Debug, PartialEq)]
struct Contents(Vec<TaskInfo>, Vec<Ending>, Vec<(String, u64, Vec<u64>)>);

/// The disk of a closed store: a quarter of the tasks is ready, the others are buried.
fn disk(durability: Durability) -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    let keep = Keep::new().age(AGE);
    let options = TubeOptions::new().durability(durability).keep_done(keep).keep_buried(keep);
    let tube = store.create_tube("work", options.driver(UTUBE)).unwrap();
    for n in 0..TASKS {
        let sub_queue = format!("sub {}", n % 5);
        tube.put(Put::new(vec![b'x'; 700]).sub_queue(sub_queue)).unwrap();
        let group = GROUPS[usize::try_from(n % 3).unwrap()];
        match n % 4 {
            0 => {}
            1 => drop(tube.admin().bury(n, None).unwrap()),
            _ => bury_with(&tube, n, group),
        }
    }
    store.close().unwrap();
    disk
}

fn bury_with(tube: &Tube, id: u64, group: &str) {
    tube.claim(id).unwrap().bury(Failure::new(group, "m".repeat(200))).unwrap();
}

fn contents(store: &Store) -> Contents {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tube = store.find_tube("work").unwrap();
    let list = |state| tube.query().list(state, None, 1000).unwrap().items;
    let mut tasks = [TaskState::Ready, TaskState::Buried, TaskState::Done].map(list).concat();
    for task in &mut tasks {
        // These go on with the clock.
        task.ttl_left = None;
        task.put_at = UNIX_EPOCH;
        task.ended_at = None;
        task.failure.iter_mut().for_each(|failure| failure.ago = Duration::ZERO);
    }
    let group_of = |group: tubewell::expert::FailureGroup| {
        let listed = tube
            .query()
            .list(Filter::new().group(&group.name).newest_first(), None, 1000)
            .unwrap()
            .items;
        (group.name, group.count, listed.into_iter().map(|task| task.id).collect())
    };
    let done = list(TaskState::Done).into_iter().map(|task| tube.ending(task.id).unwrap().unwrap());
    let groups = tube.query().groups().unwrap().into_iter().map(group_of);
    Contents(tasks, done.collect(), groups.collect())
}

#[test]
fn failed_call_on_many_tasks_edits_all_or_none() {
    let mut runs = 0;
    for durability in [Durability::Flush, Durability::Write { flush_within: NEVER }] {
        let disk = disk(durability);
        for (name, call) in CALLS {
            let call = |store: &Store| call(&store.find_tube("work").unwrap());
            let is_flushed = durability == Durability::Flush;
            let call = FailingCall::new(&disk, &call, &contents, is_flushed);
            fail_with_sampled_faults(name, sampled(7), &mut runs, |plan| call.fails(plan));
        }
    }
    assert!(runs > amount(8, 30, 30), "{runs} runs");
}
