//! Two tubes of a store, for calls that change the tasks of both.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tubewell::{Durability, Ending, Result, Store, Task, TaskState, Tube};

use crate::disk::Disk;
use crate::failing_call::{FailingCall, fail_with_sampled_faults};
use crate::sampled;
use crate::support::NEVER;

pub const TUBES: [&str; 2] = ["work", "next"];

/// A call on both tubes.
pub type Call = fn(&Tube, &Tube) -> Result<()>;

/// What a tube has: its tasks with their parents and children, the endings of those that are done, and
/// its failure groups.
#[derive(Clone, Debug, PartialEq)]
pub struct Contents(Vec<StoredTask>, Vec<Ending>, Vec<(String, u64)>);

/// A task, its parents and its children.
type StoredTask = (Task, [Vec<u64>; 2]);

const STATES: [TaskState; 5] =
    [TaskState::Ready, TaskState::Delayed, TaskState::Blocked, TaskState::Buried, TaskState::Done];

/// Makes each of the calls on a disk that fails. `disk` makes the disk of a closed store. Returns the
/// number of runs.
pub fn fail_each(calls: &[(&str, Call)], disk: impl Fn(Durability) -> Arc<Disk>) -> usize {
    let mut runs = 0;
    for_each(calls, disk, |name, call| {
        fail_with_sampled_faults(name, sampled(5), &mut runs, |plan| call.fails(plan));
    });
    runs
}

/// Passes on each of the calls, once for each durability. `disk` makes the disk of a closed store.
pub fn for_each(
    calls: &[(&str, Call)],
    disk: impl Fn(Durability) -> Arc<Disk>,
    mut pass_on: impl FnMut(&str, FailingCall<'_, [Contents; 2]>),
) {
    for durability in [Durability::Flush, Durability::Write { flush_within: NEVER }] {
        let disk = disk(durability);
        for (name, call) in calls {
            let call = |store: &Store| {
                let [work, next] = TUBES.map(|name| store.find_tube(name).unwrap());
                call(&work, &next)
            };
            let is_flushed = durability == Durability::Flush;
            pass_on(name, FailingCall::new(&disk, &call, &contents, is_flushed));
        }
    }
}

/// Every task is found by its key too.
pub fn contents(store: &Store) -> [Contents; 2] {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    TUBES.map(|name| {
        let tube = store.find_tube(name).unwrap();
        let list = |state| tube.query().list(state, None, 1000).unwrap().items;
        let listed = STATES.map(list).concat();
        let tasks = listed.iter().map(|info| {
            let mut task = tube.query().task(info.id).unwrap();
            if let Some(key) = &task.info.key {
                let found = store.by_key(key).unwrap().unwrap();
                assert_eq!((found.tube.as_str(), found.id), (name, info.id), "{key}");
            }
            // These go on with the clock, and with calls that were refused.
            task.info.failure.iter_mut().for_each(|failure| failure.ago = Duration::ZERO);
            (task.info.takes, task.info.attempts) = (0, 0);
            (task.info.ttl_left, task.info.due_in) = (None, None);
            task.info.put_at = UNIX_EPOCH;
            task.info.ended_at = None;
            let edges = [tube.query().parents(info.id), tube.query().children(info.id)];
            (task, edges.map(Result::unwrap))
        });
        let tasks = tasks.collect();
        let done = list(TaskState::Done);
        let done = done.into_iter().map(|task| tube.ending(task.id).unwrap().unwrap());
        let groups =
            tube.query().groups().unwrap().into_iter().map(|group| (group.name, group.count));
        Contents(tasks, done.collect(), groups.collect())
    })
}
