//! How far the tasks are that another one waits for.

use tubewell::expert::ParentCounts;
use tubewell::{FIFO, OnParent, Put};

use super::files::{after_a_kill, create};
use super::parents_ends::settle;
use super::support::*;

/// Done, failed, open, and of these taken and buried.
fn counted(case: &Case, id: u64) -> [u64; 5] {
    let counts = case.tube.query().parent_counts(id).unwrap();
    let ParentCounts { total, done, failed, open, taken, buried, .. } = counts;
    assert_eq!(total, done + failed + open);
    assert_eq!(u64::from(case.info(id).open_parents), open);
    [done, failed, open, taken, buried]
}

fn parents<const N: usize>(case: &Case) -> [u64; N] {
    std::array::from_fn(|_| case.put("parent"))
}

fn after(case: &Case, ids: &[u64]) -> Put {
    case.draft("child").after(&case.tube, ids.iter().copied())
}

#[test]
fn parents_are_counted_while_a_task_waits_for_some() {
    for_each_driver(ALL, |case| {
        let [before, done, buried, taken, left] = parents(case);
        case.ack(before);
        let child = case.add(after(case, &[before, done, done, buried, taken, left, before]));
        assert_eq!(counted(case, child), [1, 0, 4, 0, 0]);
        case.ack(done);
        case.tube.admin().bury(buried, None).unwrap();
        settle(case);
        let claim = case.tube.claim(taken).unwrap();
        assert_eq!(counted(case, child), [2, 0, 3, 1, 1]);
        let further = case.put("parent");
        case.tube.admin().add_parents(child, &case.tube, &[further, done]).unwrap();
        assert_eq!(counted(case, child), [2, 0, 4, 1, 1]);
        case.tube.admin().remove_parents(child, Some(&[further])).unwrap();
        assert_eq!(counted(case, child), [2, 0, 3, 1, 1]);
        claim.ack().unwrap();
        case.ack(left);
        assert_eq!(counted(case, child), [4, 0, 1, 0, 1]);
        case.tube.kick(buried).unwrap();
        case.ack(buried);
        // As of a task that has never waited.
        assert_eq!(counted(case, child), [0; 5]);
        assert_not_found(case.tube.query().parent_counts(77), 77);
    });
}

#[test]
fn parents_that_have_failed_are_counted_by_the_rule_of_the_child() {
    for_each_driver(ALL, |case| {
        let [done, buried, left] = parents(case);
        let put = |rule| case.add(after(case, &[done, buried, left]).on_parent(rule));
        let [waits, released, follows] =
            [OnParent::Wait, OnParent::Release, OnParent::Bury].map(put);
        case.ack(done);
        case.tube.admin().bury(buried, None).unwrap();
        settle(case);
        assert_eq!(counted(case, waits), [1, 0, 2, 0, 1]);
        assert_eq!(counted(case, released), [1, 1, 1, 0, 0]);
        assert_eq!(counted(case, follows), [1, 0, 2, 0, 1]);
        case.ack(left);
        assert_eq!(counted(case, waits), [2, 0, 1, 0, 1]);
        // A task with a rule for parents tells of them to its end.
        assert_eq!(counted(case, released), [2, 1, 0, 0, 0]);
        assert_eq!(counted(case, follows), [2, 0, 1, 0, 1]);
    });
}

#[test]
fn counts_of_more_parents_than_a_call_looks_at_are_complete() {
    for_each_driver(&[FIFO], |case| {
        let put = case.tube.put_many(vec!["parent"; 2500]).unwrap();
        let ids: Vec<u64> = put.iter().map(|put| put.id).collect();
        let child = case.add(after(case, &ids));
        for id in [ids[0], ids[999], ids[1000], ids[2499]] {
            case.tube.admin().bury(id, None).unwrap();
        }
        let _claim = case.tube.claim(ids[1999]).unwrap();
        assert_eq!(counted(case, child), [0, 0, 2500, 1, 4]);
    });
}

#[test]
fn counts_survive_a_kill_and_a_move() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    let ids = tube.put_many(["a", "b", "c"]).unwrap().into_iter().map(|put| put.id);
    let ids: Vec<u64> = ids.collect();
    let child = tube.put(Put::new("child").after(&tube, ids.iter().copied())).unwrap().id;
    tube.claim(ids[0]).unwrap().ack().unwrap();
    let counts = tube.query().parent_counts(child).unwrap();
    assert_eq!((counts.done, counts.open, counts.total), (1, 2, 3));
    let (_copy, killed) = after_a_kill(&file);
    let tube = killed.find_tube(tube.name()).unwrap();
    assert_eq!(tube.query().parent_counts(child), Ok(counts));
    let other = killed.tube("other").unwrap();
    tube.admin().move_to(&other, child).unwrap();
    assert_eq!(other.query().parent_counts(child), Ok(counts));
    assert_sound(&killed);
    drop(store);
}
