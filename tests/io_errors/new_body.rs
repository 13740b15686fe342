//! A claim that replaces the body of its task (`Claim::checkpoint`) on a disk that fails. The body
//! moves between the record and a row of its own, or to another row.

use std::collections::BTreeSet;
use std::sync::Arc;

use tubewell::{Durability, Error, FIFO, ManualClock, Result, Store, TaskState, TubeOptions};

use crate::disk::Disk;
use crate::failing_call::fail_with_all_faults;
use crate::faults::Plan;
use crate::sampled;
use crate::size::amount;
use crate::support::{NEVER, Outcome, RETRY_TIME, open};

/// Lengths of the old and the new body. The record has bodies of up to 1 KiB, the journal has no
/// commit of more than 256 KiB.
const LENGTHS: [(usize, usize); 6] =
    [(20, 30), (20, 5000), (5000, 20), (5000, 3000), (20, 270_000), (270_000, 20)];

/// A task whose body is replaced, and the bodies that it may have.
struct Replacement {
    durability: Durability,
    old: Vec<u8>,
    new: Vec<u8>,
}

impl Replacement {
    /// The disk of a closed store with the task.
    fn disk(&self) -> Arc<Disk> {
        let disk = Disk::new(None);
        let store = open(&disk, &ManualClock::new());
        let options = TubeOptions::new().durability(self.durability);
        store.create_tube("work", options.driver(FIFO)).unwrap().put(self.old.clone()).unwrap();
        store.close().unwrap();
        disk
    }

    /// Claims the task and replaces its body while calls fail. Returns whether a call failed.
    fn fails(&self, disk: &Arc<Disk>, plan: Plan) -> bool {
        let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
        let store = open(&disk, &clock);
        let tube = store.find_tube("work").unwrap();
        disk.fail(plan);
        let claimed = tube.claim(0);
        let stored = match &claimed {
            Ok(_) => claimed.and_then(|mut claim| {
                let stored = claim.checkpoint(self.new.clone()).map(drop);
                self.check_handle(claim.body(), &stored);
                stored
            }),
            Err(error) => Err(error.clone()),
        };
        let is_refused = Outcome::of(&stored) == Outcome::Refused;
        let (old, new) = (self.old.clone(), self.new.clone());
        let decided = if is_refused { old.clone() } else { new.clone() };
        let is_flushed = stored.is_ok() && self.durability == Durability::Flush;
        let any = BTreeSet::from([old, new]);
        let only = BTreeSet::from([decided.clone()]);
        let is_known = stored.is_ok() || is_refused;
        for (copy, allowed) in [
            (disk.after_kill(), if is_known { &only } else { &any }),
            (disk.after_power_cut(), if is_flushed || is_refused { &only } else { &any }),
        ] {
            let found = body(&open(&copy, &ManualClock::new()));
            assert!(allowed.contains(&found), "{plan:?}: {stored:?}, a body of {}", found.len());
        }
        let failed = disk.has_failed();
        assert!(failed || stored.is_ok(), "{plan:?}: {stored:?}");
        disk.repair();
        clock.advance(RETRY_TIME);
        store.flush().unwrap();
        assert!(body(&store) == decided, "{plan:?}: {stored:?}");
        // The task is ready: the claim has ended.
        assert!(*tube.try_take().unwrap().unwrap().body() == *decided, "{plan:?}: {stored:?}");
        store.close().unwrap();
        for disk in [disk.clone(), disk.after_power_cut()] {
            let reopened = open(&disk, &ManualClock::new());
            assert!(body(&reopened) == decided, "{plan:?}: {stored:?}");
        }
        failed
    }

    /// After an unknown outcome the handle may have either body.
    fn check_handle(&self, data: &[u8], stored: &Result<()>) {
        match stored {
            Ok(()) => assert!(data == self.new, "the handle has the old body"),
            Err(Error::OutcomeUnknown { .. }) => assert!(data == self.old || data == self.new),
            Err(_) => assert!(data == self.old, "the handle has the new body after {stored:?}"),
        }
    }
}

/// The body of the only task.
fn body(store: &Store) -> Vec<u8> {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let tube = store.find_tube("work").unwrap();
    let ready = tube.query().list(TaskState::Ready, None, 10).unwrap().items;
    assert_eq!(ready.iter().map(|task| task.id).collect::<Vec<_>>(), [0]);
    tube.query().task(0).unwrap().body.into()
}

#[test]
fn failed_checkpoint_of_claim_leaves_old_or_new_body() {
    let mut runs = 0;
    for durability in [Durability::Flush, Durability::Write { flush_within: NEVER }] {
        for (old, new) in LENGTHS {
            // The database takes a large body in many writes.
            let step = sampled(if old.max(new) > 256 << 10 { 11 } else { 1 });
            let (old, new) = (vec![b'o'; old], vec![b'n'; new]);
            let replacement = Replacement { durability, old, new };
            let disk = replacement.disk();
            let name = format!("{} to {} bytes", replacement.old.len(), replacement.new.len());
            runs += fail_with_all_faults(&name, step, |plan| replacement.fails(&disk, plan));
        }
    }
    println!("{runs} runs");
    assert!(runs > amount(40, 100, 100), "{runs} runs");
}
