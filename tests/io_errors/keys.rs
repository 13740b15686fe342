//! Puts with keys on a disk that fails. Such a put edits rows of the key and of the task that has it,
//! which may be in another tube: all of them or none.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Durability, Ending, Failure, Keep, ManualClock, OnKey, Put, Result, State, Store, Task, Tube,
    TubeOptions, UTUBE,
};

use crate::disk::Disk;
use crate::faults::{Fault, Kind, Plan};
use crate::sampled;
use crate::support::{NEVER, Outcome, RETRY_TIME, open};

/// Faults, and whether each lasts.
const FAULTS: [(Fault, bool); 4] =
    [(Fault::Device, false), (Fault::Device, true), (Fault::Short, false), (Fault::Full, true)];

const TUBES: [&str; 2] = ["work", "next"];

type Call = fn(&Tube, &Tube) -> Result<()>;

const CALLS: [(&str, Call); 8] = [
    ("new key", |work, _| work.put(keyed("new", 2000)).map(drop)),
    ("replace in the tube", |work, _| work.put(replacing("work 0", 20)).map(drop)),
    ("replace of a taken task", |work, _| {
        let _claim = work.claim(1)?;
        work.put(replacing("work 1", 2000)).map(drop)
    }),
    ("replace of a task that is done", |work, _| work.put(replacing("work 2", 20)).map(drop)),
    ("replace from another tube", |_, next| next.put(replacing("work 0", 20)).map(drop)),
    ("replace of a buried task from another tube", |_, next| {
        next.put(replacing("work 3", 2000)).map(drop)
    }),
    ("requeue", |work, _| work.requeue("work 3", Put::new(vec![b'q'; 9])).map(drop)),
    ("many", |work, _| {
        let kept = keyed("next 1", 9).on_key(OnKey::Keep);
        let without = Put::new(vec![b'w'; 3000]).sub_queue("sub 0");
        let puts = [keyed("new", 9), replacing("work 0", 2000), kept, without];
        let puts = puts.into_iter().chain([replacing("next 0", 20), keyed("newer", 2000)]);
        work.put_many(puts).map(drop)
    }),
];

fn keyed(key: &str, size: usize) -> Put {
    Put::new(vec![b'k'; size]).sub_queue("sub 1").key(key)
}

fn replacing(key: &str, size: usize) -> Put {
    keyed(key, size).on_key(OnKey::Replace)
}

/// What a tube has: its tasks, the endings of those that are done, and its failure groups.
#[derive(Clone, Debug, PartialEq)]
struct Contents(Vec<Task>, Vec<Ending>, Vec<(String, u64)>);

/// The disk of a closed store with eight tasks in one tube and four in the other. A quarter of them is
/// buried, and another quarter done. Half of the bodies are large.
fn disk(durability: Durability) -> Arc<Disk> {
    let disk = Disk::new(None);
    let store = open(&disk, &ManualClock::new());
    for (name, count) in TUBES.into_iter().zip([8, 4]) {
        let options = TubeOptions::new().durability(durability).keep_done(Keep::new().count(9));
        let tube = store.create_tube(name, UTUBE, options).unwrap();
        for n in 0..count {
            let body = vec![b'x'; if n % 2 == 0 { 2000 } else { 20 }];
            let put = Put::new(body).sub_queue(format!("sub {}", n % 3));
            let id = tube.put(put.key(format!("{name} {n}"))).unwrap().id;
            match n % 4 {
                2 => {
                    tube.claim(id).unwrap().ack_with(vec![b'r'; 300]).unwrap();
                }
                3 => {
                    let failure = Failure::new("crash", "m".repeat(200));
                    tube.claim(id).unwrap().bury_with(failure).unwrap();
                }
                _ => {}
            }
        }
    }
    store.close().unwrap();
    disk
}

/// Every task is found by its key too.
fn contents(store: &Store) -> [Contents; 2] {
    assert_eq!(store.verify().unwrap(), [""; 0]);
    TUBES.map(|name| {
        let tube = store.tube(name).unwrap();
        let list = |state| tube.list(state, None, 1000).unwrap().tasks;
        let listed = [State::Ready, State::Buried, State::Done].map(list).concat();
        let tasks = listed.iter().map(|info| {
            let mut task = tube.peek(info.id).unwrap();
            if let Some(key) = &task.info.key {
                let found = store.by_key(key).unwrap().unwrap();
                assert_eq!((found.tube.as_str(), found.info.id), (name, info.id), "{key}");
            }
            // These go on with the clock, and with calls that were refused.
            task.info.failure.iter_mut().for_each(|failure| failure.ago = Duration::ZERO);
            (task.info.takes, task.info.attempts) = (0, 0);
            task
        });
        let tasks = tasks.collect();
        let done = list(State::Done);
        let done = done.into_iter().map(|task| tube.outcome(task.id).unwrap().unwrap());
        let groups = tube.groups().unwrap().into_iter().map(|group| (group.name, group.count));
        Contents(tasks, done.collect(), groups.collect())
    })
}

fn call_on(store: &Store, call: Call) -> Result<()> {
    let [work, next] = TUBES.map(|name| store.tube(name).unwrap());
    call(&work, &next)
}

/// Makes the call while calls of the disk fail. Returns whether one has failed.
fn fails(
    disk: &Arc<Disk>,
    plan: Plan,
    call: Call,
    is_flushed: bool,
    all: &[[Contents; 2]; 2],
) -> bool {
    let (disk, clock) = (disk.after_power_cut(), ManualClock::new());
    let store = open(&disk, &clock);
    disk.fail(plan);
    let called = call_on(&store, call);
    let is_refused = Outcome::of(&called) == Outcome::Refused;
    let check = |store: &Store, may_be_before: bool, may_be_after: bool| {
        let found = contents(store);
        let is_allowed = may_be_before && found == all[0] || may_be_after && found == all[1];
        assert!(is_allowed, "{plan:?}: {called:?}, {found:?}");
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
        call_on(&store, call).unwrap();
        check(&store, false, true);
    }
    store.close().unwrap();
    for disk in [disk.clone(), disk.after_power_cut()] {
        check(&open(&disk, &ManualClock::new()), false, true);
    }
    failed
}

/// I07
#[test]
fn failed_put_with_a_key_edits_all_rows_or_none() {
    let mut runs = 0;
    for durability in [Durability::Flush, Durability::Write { flush_within: NEVER }] {
        let disk = disk(durability);
        for (name, call) in CALLS {
            let store = open(&disk.after_power_cut(), &ManualClock::new());
            let before = contents(&store);
            call_on(&store, call).unwrap();
            let all = [before, contents(&store)];
            assert_ne!(all[0], all[1]);
            for kind in [Kind::Read, Kind::Write, Kind::Sync] {
                let step = if kind == Kind::Read { sampled(5) } else { 1 };
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
    assert!(runs > 60, "{runs} runs");
}
