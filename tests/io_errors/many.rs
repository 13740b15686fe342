//! Calls that edit many tasks at once, on a disk that fails: a kick of buried tasks with their
//! failure groups, and a restore. Such a call edits all of them or none.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Durability, Ending, Failure, Keep, LastFailure, ManualClock, Put, Restore, Result, State,
    Store, TaskInfo, Tube, TubeOptions, UTUBE,
};

use crate::disk::Disk;
use crate::faults::{Fault, Kind, Plan};
use crate::sampled;
use crate::support::{NEVER, Outcome, RETRY_TIME, open};

/// Longer than a run takes, so that nothing falls due.
const AGE: Duration = Duration::from_secs(1 << 20);

/// Faults, and whether each lasts.
const FAULTS: [(Fault, bool); 4] =
    [(Fault::Device, false), (Fault::Device, true), (Fault::Short, false), (Fault::Full, true)];

/// Tasks, most of them buried.
const TASKS: u64 = 32;
const GROUPS: [&str; 3] = ["crash", "timeout", "unreadable"];

type Call = fn(&Tube) -> Result<()>;

const CALLS: [(&str, Call); 3] = [
    ("kick", |tube| tube.kick(1000).map(|kicked| assert_eq!(kicked, TASKS - TASKS.div_ceil(4)))),
    ("kick a part", |tube| tube.kick(13).map(|kicked| assert_eq!(kicked, 13))),
    ("restore", |tube| tube.restore_many((0..20).map(restore)).map(drop)),
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
    let tube = store.create_tube("work", UTUBE, options).unwrap();
    for n in 0..TASKS {
        let sub_queue = format!("sub {}", n % 5);
        tube.put(Put::new(vec![b'x'; 700]).sub_queue(sub_queue)).unwrap();
        let group = GROUPS[usize::try_from(n % 3).unwrap()];
        match n % 4 {
            0 => {}
            1 => drop(tube.bury(n).unwrap()),
            _ => bury_with(&tube, n, group),
        }
    }
    store.close().unwrap();
    disk
}

fn bury_with(tube: &Tube, id: u64, group: &str) {
    tube.claim(id).unwrap().bury_with(Failure::new(group, "m".repeat(200))).unwrap();
}

fn contents(store: &Store) -> Contents {
    assert_eq!(store.verify().unwrap(), [""; 0]);
    let tube = store.tube("work").unwrap();
    let list = |state| tube.list(state, None, 1000).unwrap().tasks;
    let mut tasks = [State::Ready, State::Buried, State::Done].map(list).concat();
    for task in &mut tasks {
        // These go on with the clock.
        task.ttl_left = None;
        task.failure.iter_mut().for_each(|failure| failure.ago = Duration::ZERO);
    }
    let group_of = |group: tubewell::FailureGroup| {
        let listed = tube.list_group(&group.name, None, 1000).unwrap().tasks;
        (group.name, group.count, listed.into_iter().map(|task| task.id).collect())
    };
    let done = list(State::Done).into_iter().map(|task| tube.outcome(task.id).unwrap().unwrap());
    let groups = tube.groups().unwrap().into_iter().map(group_of);
    Contents(tasks, done.collect(), groups.collect())
}

/// Makes the call while calls of the disk fail. Returns whether one has failed.
fn fails(disk: &Arc<Disk>, plan: Plan, call: Call, is_flushed: bool, all: &[Contents; 2]) -> bool {
    let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
    let store = open(&disk, &clock);
    let tube = store.tube("work").unwrap();
    disk.fail(plan);
    let called = call(&tube);
    let is_refused = Outcome::of(&called) == Outcome::Refused;
    let check = |store: &Store, may_be_before: bool, may_be_after: bool| {
        let found = contents(store);
        let is_allowed = may_be_before && found == all[0] || may_be_after && found == all[1];
        assert!(is_allowed, "{plan:?}: {called:?}, {found:?}");
        found
    };
    let reopened = open(&disk.after_kill(), &ManualClock::new());
    check(&reopened, called.is_err(), !is_refused);
    let reopened = open(&disk.after_power_cut(), &ManualClock::new());
    check(&reopened, called.is_err() || !is_flushed, !is_refused);
    let failed = disk.has_failed();
    assert!(failed || called.is_ok(), "{plan:?}: {called:?}");
    disk.repair();
    clock.advance(RETRY_TIME);
    store.flush().unwrap();
    check(&store, is_refused, !is_refused);
    if is_refused {
        call(&tube).unwrap();
        check(&store, false, true);
    }
    store.close().unwrap();
    for disk in [disk.clone(), disk.after_power_cut()] {
        check(&open(&disk, &ManualClock::new()), false, true);
    }
    failed
}

#[test]
fn failed_call_on_many_tasks_edits_all_or_none() {
    let mut runs = 0;
    for durability in [Durability::Flush, Durability::Write { flush_within: NEVER }] {
        let disk = disk(durability);
        for (name, call) in CALLS {
            let store = open(&disk.after_power_cut(), &ManualClock::new());
            let before = contents(&store);
            call(&store.tube("work").unwrap()).unwrap();
            let all = [before, contents(&store)];
            assert_ne!(all[0], all[1]);
            for kind in [Kind::Read, Kind::Write, Kind::Sync] {
                let step = if kind == Kind::Read { sampled(7) } else { 1 };
                for (fault, lasting) in
                    FAULTS.into_iter().skip(runs % sampled(2)).step_by(sampled(2))
                {
                    let plan = |nth| Plan { kind, nth, fault, lasting };
                    let is_flushed = durability == Durability::Flush;
                    let fails = |nth: &u64| fails(&disk, plan(*nth), call, is_flushed, &all);
                    // The samples begin at different reads.
                    let from = 1 + (runs % step) as u64;
                    let count = (from..100_000).step_by(step).take_while(fails).count();
                    println!("{name}, {kind:?} {fault:?} {lasting}: {count} runs");
                    runs += count;
                }
            }
        }
    }
    assert!(runs > 30, "{runs} runs");
}
