//! Changes of tasks, and deletes of many, on a disk that fails. Such a call moves records, changes
//! heads, places and dues, and moves a body between the record and a row of its own.

use std::sync::Arc;
use std::time::{Duration, UNIX_EPOCH};

use tubewell::{
    Durability, Failure, Filter, ManualClock, Put, Result, Store, TaskState, Tube, TubeOptions,
    UTUBETTL, Update,
};

use crate::disk::Disk;
use crate::failing_call::{FailingCall, Resumed, fail_with_all_faults};
use crate::sampled;
use crate::size::amount;
use crate::support::{NEVER, open};

const HOUR: Duration = Duration::from_secs(3600);

/// The tasks of the disk have the ids below this: ready, ready, ready, delayed, buried, buried.
const TASKS: u64 = 6;

type Edit = fn(&Tube) -> Result<()>;

const EDITS: [(&str, Edit); 17] = [
    ("priority of the head", |tube| tube.admin().set_priority(0, 9).map(drop)),
    ("priority of a later task", |tube| tube.admin().set_priority(1, 0).map(drop)),
    ("priority of a taken task", |tube| {
        let _claim = tube.claim(0)?;
        tube.admin().set_priority(0, 9).map(drop)
    }),
    ("priority of a buried task", |tube| tube.admin().set_priority(4, 9).map(drop)),
    ("larger body", |tube| tube.update(1, Update::new().body(vec![b'y'; 3000])).map(drop)),
    ("all fields", |tube| {
        let update = Update::new().body("small").priority(7).delay(HOUR);
        tube.update(2, update).map(drop)
    }),
    ("no delay", |tube| tube.update(3, Update::new().delay(Duration::ZERO)).map(drop)),
    ("new tags", |tube| tube.admin().add_tags(1, ["all", "new", "newer"]).map(drop)),
    ("tags of a taken task", |tube| {
        let _claim = tube.claim(0)?;
        tube.admin().add_tags(0, ["new"]).map(drop)
    }),
    ("fewer tags", |tube| tube.admin().remove_tags(4, ["all", "buried"]).map(drop)),
    ("other tags and another place", |tube| {
        tube.update(2, Update::new().tags(["new"]).priority(7).body("small")).map(drop)
    }),
    ("delete a tag", |tube| tube.admin().delete(Filter::new().tag("buried")).map(drop)),
    ("a moment", |tube| {
        let in_2126 = UNIX_EPOCH + Duration::from_secs(4_922_899_200);
        tube.update(1, Update::new().not_before(in_2126)).map(drop)
    }),
    ("cancel", |tube| tube.cancel(0).map(drop)),
    ("delete many", |tube| tube.admin().delete(Filter::new().ids([0, 1, 3, 4, 99])).map(drop)),
    ("delete a state", |tube| tube.admin().delete(Filter::new().state(TaskState::Ready)).map(drop)),
    ("kick a group", |tube| tube.admin().kick(Filter::new().group("old")).map(drop)),
];

/// The state of a task, its priority, its body, whether its delay has an end, and its tags.
type Found = (TaskState, u32, Vec<u8>, bool, Vec<String>);

/// What a store has: its tasks, and the failure groups.
#[derive(Clone, Debug, PartialEq)]
struct Contents(Vec<Option<Found>>, Vec<(String, u64)>);

/// The disk of a closed store with the tasks.
fn disk(durability: Durability) -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    let options = TubeOptions::new().durability(durability).priority(5).ttl(24 * HOUR);
    let tube = store.create_tube("work", options.driver(UTUBETTL)).unwrap();
    for (sub, size, delay) in [
        ("a", 2000, Duration::ZERO),
        ("a", 20, Duration::ZERO),
        ("b", 2000, Duration::ZERO),
        ("b", 20, HOUR),
        ("c", 20, Duration::ZERO),
        ("d", 2000, Duration::ZERO),
    ] {
        let put = Put::new(vec![b'x'; size]).sub_queue(sub).delay(delay).tag("all");
        tube.put(if sub > "b" { put.tag("buried") } else { put }).unwrap();
    }
    for id in [4, 5] {
        tube.claim(id).unwrap().bury(Failure::new("old", "message")).unwrap();
    }
    store.close().unwrap();
    disk
}

fn contents(store: &Store) -> Contents {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tube = store.find_tube("work").unwrap();
    let tasks = (0..TASKS).map(|id| {
        let task = tube.query().task(id).ok()?;
        // A claim ends with the process, or with the call that failed.
        let is_taken = task.info.state == TaskState::Taken;
        let state = if is_taken { TaskState::Ready } else { task.info.state };
        let is_due = state == TaskState::Delayed && task.info.due_in.is_some();
        Some((state, task.info.priority, task.body.to_vec(), is_due, task.info.tags))
    });
    let tasks: Vec<Option<Found>> = tasks.collect();
    for tag in ["all", "buried", "new", "newer"] {
        let has =
            |task: &Option<Found>| task.iter().any(|task| task.4.iter().any(|own| own == tag));
        let expected = (0..TASKS).zip(&tasks).filter(|(_, task)| has(task)).map(|(id, _)| id);
        let found = store.list(Filter::new().tag(tag), None, 99).unwrap().items;
        let found: Vec<u64> = found.iter().map(|task| task.id).collect();
        assert_eq!(found, expected.collect::<Vec<u64>>(), "the tag {tag}");
    }
    let groups = tube.query().groups().unwrap().into_iter().map(|group| (group.name, group.count));
    Contents(tasks, groups.collect())
}

/// Every ready task can be taken.
fn take_all(resumed: Resumed<'_, Contents>) -> bool {
    let Resumed { store, found, has_failed, .. } = resumed;
    let ready = found.0.iter().flatten().filter(|task| task.0 == TaskState::Ready).count();
    let tube = store.find_tube("work").unwrap();
    let mut taken = 0;
    while let Some(claim) = tube.try_take().unwrap() {
        taken += 1;
        claim.bury(None).unwrap();
    }
    assert_eq!(taken, ready, "{found:?}");
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    has_failed
}

#[test]
fn failed_edit_is_whole_or_changes_nothing() {
    let mut runs = 0;
    for durability in [Durability::Flush, Durability::Write { flush_within: NEVER }] {
        let disk = disk(durability);
        for (name, edit) in EDITS {
            let edit = |store: &Store| edit(&store.find_tube("work").unwrap());
            let edit = FailingCall::new(&disk, &edit, &contents, durability == Durability::Flush);
            let fails = |plan| take_all(edit.resume(plan));
            runs += fail_with_all_faults(name, sampled(19), fails);
        }
    }
    assert!(runs > amount(30, 100, 100), "{runs} runs");
}
