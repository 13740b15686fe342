//! Calls on tasks that wait for others, and on those for which they wait, on a disk that fails. Such a
//! call edits all of its tasks and edges or none. What it leaves to chores is carried out once the disk
//! works again.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{
    Durability, Failure, Filter, Keep, ManualClock, OnKey, OnParent, Outcome, Put, Result, Store,
    TaskState, Tube, TubeOptions, UTUBETTL,
};

use crate::disk::Disk;
use crate::failing_call::{FailingCall, fail_with_all_faults, fail_with_sampled_faults};
use crate::sampled;
use crate::size::amount;
use crate::support::{NEVER, RETRY_TIME, open};
use crate::two_tubes::{Call, TUBES, contents, for_each};

const RULES: [OnParent; 3] = [OnParent::Wait, OnParent::Release, OnParent::Bury];

/// The calls that add and remove edges.
const EDITS: [(&str, Call); 8] = [
    ("put", |work, next| next.put(task(2000).after(work, [0, 1, 3, 12])).map(drop)),
    ("put_many", |work, next| {
        let puts = [&[13][..], &[4, 5], &[]].map(|parents| task(20).after(next, parents.to_vec()));
        work.put_many(puts.map(|put| put.sub_queue("new"))).map(drop)
    }),
    ("add_parents to a ready task", |work, next| {
        next.admin().add_parents(13, work, &[0, 2, 9]).map(drop)
    }),
    ("add_parents to a delayed task", |work, _| {
        work.admin().add_parents(14, work, &[12]).map(drop)
    }),
    ("add_parents to a blocked task", |work, next| {
        next.admin().add_parents(4, work, &[2, 12]).map(drop)
    }),
    ("remove_parents", |_, next| next.admin().remove_parents(4, None).map(drop)),
    ("remove_parents of a buried task", |work, _| {
        work.admin().remove_parents(11, Some(&[1])).map(drop)
    }),
    ("remove_parents of a delayed task", |work, _| work.admin().remove_parents(10, None).map(drop)),
];

/// The calls that end or change parents.
const OF_PARENTS: [(&str, Call); 11] = [
    ("ack", |work, _| work.claim(0)?.ack().map(drop)),
    ("resolve of a buried task", |work, _| {
        work.admin().resolve(3, Outcome::result(b"by hand")).map(drop)
    }),
    ("bury", |work, _| work.admin().bury(0, None).map(drop)),
    ("bury_with", |work, _| work.claim(0)?.bury(failure()).map(drop)),
    ("finish", |work, next| {
        let finish = Outcome::result(vec![b'r'; 3000]);
        let finish = finish.and_put(next, task(9).after(work, [1, 9])).and_put(next, task(2000));
        work.claim(0)?.end(finish).map(drop)
    }),
    ("advance", |work, next| work.claim(0)?.end(Outcome::advance(next, task(2000))).map(drop)),
    ("advance with parents", |work, next| {
        work.claim(0)?.end(Outcome::advance(next, task(20).after(work, [1, 3]))).map(drop)
    }),
    ("move", |work, next| work.admin().move_to(next, 0).map(drop)),
    ("replace", |work, _| work.put(replacement("key").sub_queue("new").after(work, [1])).map(drop)),
    ("replace in another tube", |_, next| next.put(replacement("key")).map(drop)),
    ("truncate", |work, _| work.admin().truncate()),
];

/// The calls that end or change children.
const OF_CHILDREN: [(&str, Call); 12] = [
    ("bury", |_, next| next.admin().bury(4, None).map(drop)),
    ("delete", |_, next| next.delete(5).map(drop)),
    ("delete_many", |work, _| work.admin().delete(Filter::new().ids([9, 10, 11, 12])).map(drop)),
    ("delete of a filter", |work, _| {
        work.admin().delete(Filter::new().state(TaskState::Blocked)).map(drop)
    }),
    ("resolve", |_, next| next.admin().resolve(4, ()).map(drop)),
    ("kick", |work, _| {
        work.admin().kick(Filter::new().limit(9)).map(|kicked| assert_eq!(kicked, 2))
    }),
    ("kick_task", |work, _| work.kick(11).map(drop)),
    ("move", |work, next| next.admin().move_to(work, 4).map(drop)),
    ("move of a buried task", |work, next| work.admin().move_to(next, 11).map(drop)),
    ("move_all", |work, next| next.admin().move_to(work, Filter::new()).map(drop)),
    ("replace", |work, next| next.put(replacement("child").after(work, [2, 12])).map(drop)),
    ("truncate", |_, next| next.admin().truncate()),
];

/// The calls after which a parent has more children than are told at once.
const WITH_CHORES: [(&str, Call); 5] = [
    ("ack", |work, _| work.claim(0)?.ack().map(drop)),
    ("finish", |work, next| {
        let finish = Outcome::result("result").and_put(next, task(9));
        work.claim(0)?.end(finish).map(drop)
    }),
    ("resolve", |work, _| work.admin().resolve(0, ()).map(drop)),
    ("bury", |work, _| work.claim(0)?.bury(failure()).map(drop)),
    ("truncate", |work, _| work.admin().truncate()),
];

fn task(size: usize) -> Put<Vec<u8>> {
    Put::new(vec![b'n'; size])
}

fn replacement(key: &str) -> Put<Vec<u8>> {
    task(2000).key(key).on_key(OnKey::Replace)
}

fn failure() -> Failure {
    Failure::new("new", "m".repeat(200))
}

/// A store with two tubes. The tasks of the second one are in one sub-queue.
fn create(disk: &Arc<Disk>, durability: Durability) -> (Store, [Tube; 2]) {
    let store = open(disk, &ManualClock::new());
    let options = TubeOptions::new().durability(durability).keep_done(Keep::new().count(9));
    let tubes = TUBES.map(|name| store.create_tube(name, options.clone().driver(UTUBETTL)));
    (store, tubes.map(Result::unwrap))
}

/// The disk of a closed store with parents and children in both tubes.
fn disk(durability: Durability) -> Arc<Disk> {
    let disk = Disk::new(None);
    let (store, [work, next]) = create(&disk, durability);
    let sub = |n: u64| Put::new("x".repeat(20).into_bytes()).sub_queue(format!("sub {n}"));
    let add = |tube: &Tube, put: Put<Vec<u8>>, id: u64| assert_eq!(tube.put(put).unwrap().id, id);
    for n in 0..4 {
        add(&work, if n == 2 { sub(n).key("key") } else { sub(n) }, n);
    }
    work.claim(3).unwrap().bury(Failure::new("old", "message")).unwrap();
    let child = |parents: &[u64]| Put::new(b"child".to_vec()).after(&work, parents.to_vec());
    add(&next, child(&[0, 1]).key("child"), 4);
    add(&next, child(&[0, 2]).on_parent(OnParent::Release), 5);
    add(&next, child(&[0]).on_parent(OnParent::Bury), 6);
    add(&next, child(&[2]), 7);
    add(&next, child(&[3]), 8);
    add(&work, sub(1).after(&next, [4, 6]), 9);
    add(&work, sub(1).after(&work, [0]).delay(NEVER), 10);
    add(&work, sub(0).after(&work, [0, 1]), 11);
    work.admin().bury(11, None).unwrap();
    add(&work, sub(1), 12);
    add(&next, Put::new(b"free".to_vec()), 13);
    add(&work, sub(0).delay(NEVER), 14);
    store.close().unwrap();
    disk
}

/// The disk of a closed store with a parent of many children, which follow all rules.
fn disk_of_many(durability: Durability, children: usize) -> Arc<Disk> {
    let disk = Disk::new(None);
    let (store, [work, next]) = create(&disk, durability);
    work.put(Put::new("parent").sub_queue("sub")).unwrap();
    let put = |n: usize| Put::new("child").after(&work, [0]).on_parent(RULES[n % RULES.len()]);
    next.put_many((0..children).map(put)).unwrap();
    store.close().unwrap();
    disk
}

/// Makes each of the calls on a disk that fails. Returns the number of runs.
fn fail_each(
    calls: &[(&str, Call)],
    read_step: usize,
    disk: impl Fn(Durability) -> Arc<Disk>,
) -> usize {
    let mut runs = 0;
    for_each(calls, disk, |name, call| {
        let after_chores = call.after_chores();
        let call = call.or_after(after_chores.clone());
        fail_with_sampled_faults(name, read_step, &mut runs, |plan| {
            let mut resumed = call.resume(plan);
            resumed.repeat_if_refused();
            resumed.do_chores(&after_chores);
            resumed.close()
        });
    });
    runs
}

#[test]
fn failed_edit_of_edges_is_whole_or_changes_nothing() {
    let runs = fail_each(&EDITS, sampled(7), disk);
    assert!(runs > amount(15, 60, 60), "{runs} runs");
}

#[test]
fn failed_call_on_a_parent_is_whole_or_changes_nothing() {
    let runs = fail_each(&OF_PARENTS, sampled(9), disk);
    assert!(runs > amount(25, 100, 100), "{runs} runs");
}

#[test]
fn failed_call_on_a_child_is_whole_or_changes_nothing() {
    let runs = fail_each(&OF_CHILDREN, sampled(9), disk);
    assert!(runs > amount(25, 100, 100), "{runs} runs");
}

type Delete = fn(&Store) -> Result<u64>;

/// A chain through both tubes, by the ids of its tasks or by that of the first one.
const DELETES: [(&str, Delete); 2] = [
    ("ids", |store| store.admin().delete(Filter::new().ids([0, 4, 5, 6, 9, 10, 11]))),
    ("dependents", |store| store.admin().delete_with_dependents([0], 7)),
];

#[test]
fn failed_delete_of_a_chain_deletes_all_of_it_or_nothing() {
    let mut runs = 0;
    for durability in [Durability::Flush, Durability::Write { flush_within: NEVER }] {
        let disk = disk(durability);
        for (name, delete) in DELETES {
            let delete = |store: &Store| delete(store).map(drop);
            let is_flushed = durability == Durability::Flush;
            let delete = FailingCall::new(&disk, &delete, &contents, is_flushed);
            fail_with_sampled_faults(name, sampled(9), &mut runs, |plan| delete.fails(plan));
        }
    }
    assert!(runs > amount(5, 20, 20), "{runs} runs");
}

#[test]
fn failed_end_of_a_parent_of_many_children_frees_all_of_them_or_none() {
    let runs = fail_each(&WITH_CHORES, sampled(31), |durability| disk_of_many(durability, 70));
    assert!(runs > amount(8, 30, 30), "{runs} runs");
}

/// The states and the number of open parents of all children.
type Children = Vec<(TaskState, u32)>;

/// The chores fail, also those that a run has left to the next one.
#[test]
fn failed_chores_are_carried_out_when_the_disk_works_again() {
    const CHILDREN: u64 = 330;
    let children = |store: &Store| -> Children {
        assert_eq!(store.admin().verify().unwrap(), [""; 0]);
        let next = store.find_tube(TUBES[1]).unwrap();
        let list = |state| next.query().list(state, None, 1000).unwrap().items;
        let mut infos =
            [TaskState::Ready, TaskState::Blocked, TaskState::Buried].map(list).concat();
        infos.retain(|info| info.id <= CHILDREN);
        infos.sort_unstable_by_key(|info| info.id);
        assert!(infos.iter().map(|info| info.id).eq(1..=CHILDREN));
        infos.into_iter().map(|info| (info.state, info.open_parents)).collect()
    };
    let disk = disk_of_many(Durability::Flush, 330);
    let mut runs = 0;
    for (name, call) in WITH_CHORES {
        let marked = disk.after_power_cut();
        let store = open(&marked, &ManualClock::new());
        call(&store.find_tube(TUBES[0]).unwrap(), &store.find_tube(TUBES[1]).unwrap()).unwrap();
        // Closed later, so that the chores are left to the runs.
        let marked = marked.after_kill();
        let before = children(&open(&marked.after_kill(), &ManualClock::new()));
        let after = carry_out(&marked.after_kill(), &children);
        assert_ne!(before, after, "{name}");
        let fails = |plan| {
            let (disk, clock) = (marked.after_kill(), ManualClock::new());
            let store = open(&disk, &clock);
            disk.fail(plan);
            clock.advance(Duration::ZERO);
            let failed = disk.has_failed();
            for copy in [disk.after_kill(), disk.after_power_cut()] {
                let found = children(&open(&copy, &ManualClock::new()));
                let mut steps = found.iter().zip(before.iter().zip(&after));
                let is_step = steps.all(|(child, (old, new))| child == old || child == new);
                assert!(is_step, "{name}, {plan:?}");
                assert_eq!(carry_out(&copy, &children), after, "{name}, {plan:?}");
            }
            disk.repair();
            clock.advance(RETRY_TIME);
            assert_eq!(children(&store), after, "{name}, {plan:?}");
            failed
        };
        runs += fail_with_all_faults(name, sampled(1499), fails);
    }
    assert!(runs > amount(8, 30, 30), "{runs} runs");
}

/// The children in the next run, once the chores are done.
fn carry_out(disk: &Arc<Disk>, children: &dyn Fn(&Store) -> Children) -> Children {
    let clock = ManualClock::new();
    let store = open(disk, &clock);
    clock.advance(Duration::ZERO);
    children(&store)
}
