//! Limits and pauses of sub-queues on a disk that fails.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tubewell::expert::PausedSubQueue;
use tubewell::{Claim, ManualClock, Put, Rate, Result, Store, TaskState, TubeOptions, UTUBE};

use crate::disk::Disk;
use crate::failing_call::FailingCall;
use crate::faults::{Fault, Kind, Plan};
use crate::sampled;
use crate::size::amount;
use crate::support::{Outcome, RETRY_TIME, open};

/// Longer than a run takes.
const HOUR: Duration = Duration::from_secs(3600);
const MINUTE: Duration = Duration::from_secs(60);

type Call = fn(&Store) -> Result<()>;

/// The calls on a store with a limit and a paused sub-queue.
const CALLS: [(&str, Call); 6] = [
    ("pause_sub_queue", |store| store.find_tube("pages")?.admin().pause_sub_queue("b", HOUR)),
    ("unpause_sub_queue", |store| store.find_tube("pages")?.admin().unpause_sub_queue("a")),
    ("deferred unpause_sub_queue", |store| {
        store.find_tube("pages")?.to_async().admin().unpause_sub_queue("a").wait()
    }),
    ("set_limit", |store| store.admin().set_limit("new", 3)),
    ("set_limit to another", |store| store.admin().set_limit("a", 1)),
    ("remove_limit", |store| store.admin().remove_limit("a")),
];

fn shared() -> TubeOptions {
    TubeOptions::new().shared_limits(true).sub_queue_limit(3)
}

/// The disk of a closed store with a limit and a paused sub-queue.
fn disk() -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    let tube = store.create_tube("pages", shared().driver(UTUBE)).unwrap();
    tube.admin().pause_sub_queue("a", HOUR).unwrap();
    store.admin().set_limit("a", 2).unwrap();
    tube.put_many((0..8).map(|n| Put::new(vec![b'x'; 700]).sub_queue(["a", "b"][n % 2]))).unwrap();
    store.close().unwrap();
    disk
}

type Limits = (Vec<(String, u32)>, Vec<String>);

fn limits(store: &Store) -> Limits {
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    let limits = store.admin().limits().unwrap().into_iter().map(|limit| (limit.name, limit.most));
    let paused = store.find_tube("pages").unwrap().query().paused_sub_queues().unwrap();
    (limits.collect(), paused.into_iter().map(|PausedSubQueue { name, .. }| name).collect())
}

#[test]
fn failed_change_of_a_limit_or_a_pause_is_made_wholly_or_not_at_all() {
    let (disk, mut runs) = (disk(), 0);
    for (what, call) in CALLS {
        let call = FailingCall::new(&disk, &call, &limits, true);
        for (kind, lasting) in [(Kind::Read, false), (Kind::Write, true), (Kind::Sync, false)] {
            let plan = |nth| Plan { kind, nth, fault: Fault::Device, lasting };
            let count = (1..100_000).take_while(|nth| call.fails(plan(*nth))).count();
            println!("{what}, {kind:?} {lasting}: {count} runs");
            runs += count;
        }
    }
    assert!(runs > amount(3, 12, 12), "{runs} runs");
}

/// The disk of a closed store with tasks in sub-queues of which several may be taken.
fn disk_with_tasks(options: TubeOptions) -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    let tube = store.create_tube("pages", options.driver(UTUBE)).unwrap();
    let puts = (0..300).map(|n| Put::new(vec![b'x'; 300]).sub_queue((n % 30).to_string()));
    tube.put_many(puts).unwrap();
    store.close().unwrap();
    disk
}

/// Takes and acks all tasks while calls of the disk fail, and again when it is repaired. Returns
/// whether a call has failed.
fn takes_all(disk: &Arc<Disk>, plan: Plan, most: usize) -> bool {
    let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
    let store = open(&disk, &clock);
    clock.advance(MINUTE);
    let tube = store.find_tube("pages").unwrap();
    disk.fail(plan);
    let mut claims: Vec<Claim> = Vec::new();
    for _ in 0..150 {
        match tube.try_take() {
            Ok(Some(claim)) => claims.push(claim),
            Ok(None) => clock.advance(Duration::from_secs(1)),
            Err(error) => {
                Outcome::of::<()>(&Err(error));
                disk.repair();
                clock.advance(RETRY_TIME);
            }
        }
        let mut taken = BTreeMap::<&str, usize>::new();
        for claim in &claims {
            *taken.entry(claim.sub_queue().unwrap()).or_default() += 1;
        }
        assert!(taken.values().all(|taken| *taken <= most), "{plan:?}: {taken:?}");
        if claims.len() >= 40 {
            for claim in claims.drain(..) {
                Outcome::of(&claim.ack());
            }
        }
    }
    drop(claims);
    let failed = disk.has_failed();
    disk.repair();
    clock.advance(RETRY_TIME);
    store.flush().unwrap();
    // What is left can be taken, as many of each sub-queue as may be.
    let ready = tube.query().list(TaskState::Ready, None, 1000).unwrap().items;
    let mut left = BTreeMap::<String, usize>::new();
    for task in ready {
        *left.entry(task.sub_queue.unwrap()).or_default() += 1;
    }
    clock.advance(MINUTE);
    let claims = tube.take_many(1000, Duration::ZERO).unwrap();
    let expected: usize = left.values().map(|left| (*left).min(most)).sum();
    assert_eq!(claims.len(), expected, "{plan:?}: {left:?}");
    assert_eq!(store.admin().verify().unwrap(), [""; 0]);
    failed
}

/// A read that fails in a take or behind an ack must not lose a sub-queue: it is offered again.
#[test]
fn failed_read_loses_no_sub_queue_with_a_limit() {
    let second = Duration::from_secs(1);
    let limited = TubeOptions::new().sub_queue_limit(3);
    let rated = limited.clone().sub_queue_rate(Rate::per(3, second));
    let cooled = limited.clone().sub_queue_cooldown(second);
    for options in [limited, rated, cooled, shared()] {
        let disk = disk_with_tasks(options);
        let step = sampled(23);
        let mut runs = 0;
        for nth in (1..100_000).step_by(step) {
            let plan = Plan { kind: Kind::Read, nth, fault: Fault::Device, lasting: false };
            if !takes_all(&disk, plan, 3) {
                break;
            }
            runs += 1;
        }
        println!("{runs} runs");
        assert!(runs > 0);
    }
}
