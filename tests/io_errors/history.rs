//! Histories on a disk that fails: an entry is there exactly if its change is.

use std::sync::Arc;

use tubewell::{
    Durability, EventKind, FIFO, Failure, Keep, ManualClock, OnKey, Outcome, Put, Result, Store,
    TaskState, Tube, TubeOptions,
};

use crate::disk::Disk;
use crate::failing_call::{FailingCall, Resumed, fail_with_all_faults};
use crate::sampled;
use crate::size::amount;
use crate::support::{NEVER, open};

type Change = fn(&Tube, &Tube) -> Result<()>;

const CHANGES: [(&str, Change); 7] = [
    ("log", |tube, _| tube.admin().log(0, "text").map(drop)),
    ("log of a claim", |tube, _| tube.claim(0)?.log("text").map(drop)),
    ("fail", |tube, _| tube.claim(0)?.fail(Failure::new("group", "message")).map(drop)),
    ("ack", |tube, _| tube.claim(0)?.ack().map(drop)),
    ("move", |tube, other| tube.admin().move_to(other, 0).map(drop)),
    ("advance", |tube, other| tube.claim(0)?.end(Outcome::advance(other, "next")).map(drop)),
    ("replace", |tube, _| tube.put(Put::new("new").key("key").on_key(OnKey::Replace)).map(drop)),
];

/// The state of the task, and what the entries of its history say. Of a taken task it is that after
/// the end of its claim, and without what a claim leaves in memory.
#[derive(Clone, Debug, PartialEq)]
struct Contents(String, Option<TaskState>, Vec<(EventKind, Option<String>)>);

/// The disk of a closed store with a task that has some entries.
fn disk(durability: Durability) -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    let options = || TubeOptions::new().history(100).durability(durability).keep_done(Keep::new());
    let tube = store.create_tube("work", options().driver(FIFO)).unwrap();
    store.create_tube("other", options().driver(FIFO)).unwrap();
    tube.put(Put::new("x").key("key")).unwrap();
    for n in 0..5 {
        tube.admin().log(0, &n.to_string()).unwrap();
    }
    store.close().unwrap();
    disk
}

fn contents(store: &Store) -> Contents {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    for name in ["work", "other"] {
        let tube = store.find_tube(name).unwrap();
        let Ok(task) = tube.query().task(0) else { continue };
        let state = Some(task.info.state).filter(|state| *state == TaskState::Done);
        let entries = tube.query().history(0).unwrap();
        assert_eq!(entries[0].what, EventKind::Put);
        // A claim may end by the failure of its call or by that of its process, or not at all.
        let is_stored = |kind: &EventKind| {
            !matches!(kind, EventKind::Take | EventKind::Release | EventKind::Lost)
        };
        let entries = entries.into_iter().map(|entry| (entry.what, entry.text));
        return Contents(
            name.to_owned(),
            state,
            entries.filter(|(kind, _)| is_stored(kind)).collect(),
        );
    }
    panic!("the task is gone");
}

/// Further changes have entries.
fn goes_on(resumed: Resumed<'_, Contents>) -> bool {
    let Resumed { store, found, has_failed, .. } = resumed;
    let tube = store.find_tube(&found.0).unwrap();
    let before = tube.query().history(0).unwrap().pop().unwrap();
    tube.admin().log(0, "after").unwrap();
    let after = tube.query().history(0).unwrap().pop().unwrap();
    assert!(after.number > before.number && after.text.as_deref() == Some("after"));
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    has_failed
}

#[test]
fn failed_change_has_an_entry_exactly_if_it_is_made() {
    let mut runs = 0;
    for durability in [Durability::Flush, Durability::Write { flush_within: NEVER }] {
        let disk = disk(durability);
        for (name, change) in CHANGES {
            let change = |store: &Store| {
                let [tube, other] = ["work", "other"].map(|name| store.find_tube(name).unwrap());
                change(&tube, &other)
            };
            let change =
                FailingCall::new(&disk, &change, &contents, durability == Durability::Flush);
            let fails = |plan| goes_on(change.resume(plan));
            runs += fail_with_all_faults(name, sampled(19), fails);
        }
    }
    assert!(runs > amount(20, 60, 60), "{runs} runs");
}
