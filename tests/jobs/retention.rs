//! Retention: how many done and buried tasks are kept, and for how long.

use tubewell::driver::{FIFO, FIFOTTL, UTUBE};
use tubewell::{
    Cursor, Ending, EventKind, Filter, Keep, Outcome, Page, Put, Store, TaskInfo, TaskState, Tube,
    TubeOptions,
};

use super::files::{after_a_kill, create_with, draft};
use super::support::*;
use crate::stores;

fn keep_done(keep: Keep) -> TubeOptions {
    TubeOptions::new().keep_done(keep)
}

fn ack_next(tube: &Tube, result: &str) -> u64 {
    tube.try_take().unwrap().unwrap().end(Outcome::result(result)).unwrap().id
}

/// Puts tasks and acks each of them, a second after the one before.
fn ack_tasks(case: &Case, count: u64) {
    for n in 0..count {
        let id = case.put("x");
        assert_eq!((id, ack_next(&case.tube, &format!("result {n}"))), (n, n));
        case.advance(1_000);
    }
}

fn done(result: &str) -> Ending {
    Ending::Done { result: Some(result.as_bytes().to_vec()) }
}

fn kept(tube: &Tube) -> u64 {
    tube.statistics().unwrap().tasks.kept
}

fn ids(page: &Page<TaskInfo>) -> Vec<u64> {
    page.items.iter().map(|task| task.id).collect()
}

/// All tasks in a state, in pages.
fn listed(tube: &Tube, state: TaskState) -> Vec<u64> {
    let (mut ids, mut cursor) = (Vec::new(), None::<Cursor>);
    loop {
        let page = tube.query().list(state, cursor, 50).unwrap();
        ids.extend(page.items.iter().map(|task| task.id));
        cursor = page.next;
        if cursor.is_none() {
            return ids;
        }
    }
}

/// Q076
#[test]
fn last_outcomes_are_kept_by_count() {
    for_each_driver_with(ALL, keep_done(Keep::new().count(5)), |case| {
        ack_tasks(case, 10);
        for id in 0..10 {
            let expected = if id < 5 { Ending::Gone } else { done(&format!("result {id}")) };
            assert_eq!(case.tube.ending(id), Ok(Some(expected)));
            assert_eq!(case.state(id), (id >= 5).then_some(TaskState::Done));
        }
        assert_eq!(kept(&case.tube), 5);
    });
}

/// A task with a lower id may end at the moment at which another one was forgotten.
#[test]
fn tasks_that_end_at_one_moment_are_kept_by_their_ids() {
    for_each_driver_with(&[FIFO, FIFOTTL], keep_done(Keep::new().count(1)), |case| {
        let put: [u64; 3] = std::array::from_fn(|_| case.put("x"));
        let [first, second, third] =
            std::array::from_fn(|_| case.tube.try_take().unwrap().unwrap());
        for claim in [second, third, first] {
            claim.ack().unwrap();
        }
        assert_eq!(listed(&case.tube, TaskState::Done), [put[2]]);
    });
}

/// Q077
#[test]
fn nothing_is_kept_by_default() {
    for_each_driver(ALL, |case| {
        ack_tasks(case, 10);
        for id in 0..10 {
            assert_eq!(case.tube.ending(id), Ok(Some(Ending::Gone)));
            assert_not_found(case.tube.query().task(id), id);
        }
        assert!(listed(&case.tube, TaskState::Done).is_empty());
        assert_eq!(case.tasks(), counts([("done", 10)]));
    });
}

/// Q078
#[test]
fn ack_with_count_of_zero_is_done_and_keeps_nothing() {
    for_each_driver_with(ALL, keep_done(Keep::new().count(0)), |case| {
        case.put_all([0]);
        let receipt =
            case.tube.try_take().unwrap().unwrap().end(Outcome::result("result")).unwrap();
        assert_eq!((receipt.id, receipt.state), (0, TaskState::Done));
        assert_eq!(case.tube.ending(0), Ok(Some(Ending::Gone)));
        assert_eq!(case.state(0), None);
        assert!(listed(&case.tube, TaskState::Done).is_empty());
        assert_eq!(kept(&case.tube), 0);
    });
}

/// Q079
#[test]
fn outcome_older_than_its_age_is_gone_when_a_later_task_ends() {
    for_each_driver_with(ALL, keep_done(Keep::new().age(secs(100))), |case| {
        case.put_all([0, 1]);
        assert_eq!(ack_next(&case.tube, "first"), 0);
        case.advance(99_000);
        assert_eq!(case.tube.ending(0), Ok(Some(done("first"))));
        case.advance(2_000);
        assert_eq!(ack_next(&case.tube, "second"), 1);
        assert_eq!([0, 1].map(|id| case.state(id)), [None, Some(TaskState::Done)]);
        assert_eq!(listed(&case.tube, TaskState::Done), [1]);
    });
}

/// Q080
#[test]
fn count_of_one_keeps_the_last_outcome() {
    for_each_driver_with(ALL, keep_done(Keep::new().count(1)), |case| {
        case.put_all([0, 1]);
        ack_next(&case.tube, "first");
        assert_eq!(listed(&case.tube, TaskState::Done), [0]);
        case.advance(1);
        ack_next(&case.tube, "second");
        assert_eq!(case.tube.ending(0), Ok(Some(Ending::Gone)));
        assert_eq!(case.tube.ending(1), Ok(Some(done("second"))));
        assert_eq!(listed(&case.tube, TaskState::Done), [1]);
    });
}

/// Q081
/// Difference: done tasks are listed oldest first.
#[test]
fn done_tasks_are_listed_in_the_order_of_their_ends_in_disjoint_pages() {
    for_each_driver_with(ALL, keep_done(Keep::new()), |case| {
        for _ in 0..100 {
            case.put("x");
        }
        let mut claims = case.tube.take_many(100, ZERO).unwrap();
        claims.reverse();
        for claim in claims {
            claim.ack().unwrap();
            case.advance(1);
        }
        let first = case.tube.query().list(TaskState::Done, None, 50).unwrap();
        let second = case.tube.query().list(TaskState::Done, first.next.clone(), 50).unwrap();
        assert_eq!(ids(&first), (50..100).rev().collect::<Vec<u64>>());
        assert_eq!(ids(&second), (0..50).rev().collect::<Vec<u64>>());
        assert_eq!(second.next, None);
    });
}

/// Q082
#[test]
fn sweeper_forgets_outcomes_of_an_idle_store() {
    for_each_driver_with(ALL, keep_done(Keep::new().age(secs(100))), |case| {
        case.put_all([0]);
        ack_next(&case.tube, "result");
        let log = case.event_log();
        case.advance(99_999);
        assert_eq!(log.read(), []);
        case.advance(1);
        case.store.flush().unwrap();
        assert_eq!(log.read(), [(0, EventKind::Forget, TaskState::Done)]);
    });
}

#[test]
fn outcome_of_age_zero_is_forgotten_without_delay() {
    for temporary in [false, true] {
        let options = keep_done(Keep::new().age(ZERO)).temporary(temporary);
        for_each_driver_with(ALL, options, |case| {
            case.put_all([0, 1]);
            ack_next(&case.tube, "first");
            case.tube.admin().resolve(1, Outcome::result(b"second")).unwrap();
            case.advance(0);
            assert_eq!([0, 1].map(|id| case.state(id)), [None; 2]);
            assert_eq!(case.tube.ending(0), Ok(Some(Ending::Gone)));
            case.store.flush().unwrap();
            assert_eq!(kept(&case.tube), 0);
        });
    }
}

#[test]
fn done_tasks_are_listed_once_while_tasks_end_and_are_forgotten() {
    for_each_driver_with(ALL, keep_done(Keep::new().count(6)), |case| {
        ack_tasks(case, 6);
        let first = case.tube.query().list(TaskState::Done, None, 2).unwrap();
        assert_eq!(ids(&first), [0, 1]);
        // Two new ones forget the two of the first page. One of the second page is forgotten too.
        for id in 6..8 {
            assert_eq!((case.put("x"), ack_next(&case.tube, "x")), (id, id));
            case.advance(1);
        }
        case.tube.admin().forget(2).unwrap();
        let second = case.tube.query().list(TaskState::Done, first.next, 2).unwrap();
        assert_eq!(ids(&second), [3, 4]);
        case.tube.delete(4).unwrap();
        let third = case.tube.query().list(TaskState::Done, second.next, 9).unwrap();
        assert_eq!((ids(&third), third.next), (vec![5, 6, 7], None));
        assert_eq!(kept(&case.tube), 4);
    });
}

#[test]
fn acks_of_one_batch_are_kept_and_trimmed() {
    for_each_driver_with(ALL, keep_done(Keep::new().count(3)), |case| {
        case.put_all([0, 1, 2, 3, 4, 5, 6, 7]);
        let taken = case.take_all();
        assert_eq!(taken.len(), 8);
        for ids in [&[0, 1, 2, 3][..], &[4, 5, 4]] {
            let claims = ids.iter().map(|id| case.tube.claimed(*id).unwrap()).collect();
            let answers = tubewell::Claim::end_many(claims, |_| Outcome::done()).unwrap();
            let failed = answers.iter().filter(|answer| answer.is_err()).count();
            assert_eq!(failed, usize::from(ids[0] != 0));
            case.advance(1);
        }
        assert_eq!(listed(&case.tube, TaskState::Done), [3, 4, 5]);
        let claims = case.tube.query().list(TaskState::Taken, None, 9).unwrap();
        assert_eq!(ids(&claims), [6, 7]);
        assert_eq!((kept(&case.tube), case.tasks()["done"]), (3, 6));
        case.tube.admin().release(Filter::new()).unwrap();
    });
}

#[test]
fn outcomes_survive_kill_backup_and_compaction() {
    for driver in ALL {
        let file = StoreFile::new();
        let keep = Keep::new().count(10).age(secs(60));
        let (store, tube) = create_with(&file, driver, keep_done(keep));
        let large = "x".repeat(5_000);
        for (id, result) in [(0, "small"), (1, &*large), (2, "")] {
            tube.put(&*large).unwrap();
            assert_eq!(ack_next(&tube, result), id);
        }
        let assert_outcomes = |store: &Store| {
            let tube = store.find_tube("case").unwrap();
            for (id, result) in [(0, "small"), (1, &*large), (2, "")] {
                assert_eq!(tube.ending(id), Ok(Some(done(result))));
                assert_eq!(tube.query().task(id).unwrap().body, large.as_bytes());
            }
            assert_eq!(listed(&tube, TaskState::Done), [0, 1, 2]);
            assert_eq!((kept(&tube), tube.statistics().unwrap().tasks.total), (3, 0));
            assert_eq!(take(&tube), None);
            assert_sound(store);
        };
        assert_outcomes(&store);
        let (killed_file, killed) = after_a_kill(&file);
        assert_outcomes(&killed);
        stores::close(&killed);
        drop(killed);
        Store::options().clock(&file.clock).compact(killed_file.path(), |_, _| {}).unwrap();
        assert_outcomes(&open_copy(&file, &killed_file));
        let copy = StoreFile::new();
        store.admin().backup(copy.path()).unwrap();
        let store = open_copy(&file, &copy);
        assert_outcomes(&store);
        file.clock.advance(secs(60));
        let tube = store.find_tube("case").unwrap();
        assert!(listed(&tube, TaskState::Done).is_empty());
        assert_eq!(tube.ending(1), Ok(Some(Ending::Gone)));
        assert_sound(&store);
    }
}

/// Opens a copy of a store, on the clock of the original.
fn open_copy(original: &StoreFile, copy: &StoreFile) -> Store {
    stores::open_with(copy.path(), Store::options().clock(&original.clock))
}

#[test]
fn truncate_and_drop_remove_outcomes() {
    for driver in ALL {
        let file = StoreFile::new();
        let options = keep_done(Keep::new().age(secs(60)));
        let (store, tube) = create_with(&file, driver, options.clone());
        let end_one = |tube: &Tube| {
            tube.put(draft(driver, "x")).unwrap();
            ack_next(tube, "result")
        };
        let first = end_one(&tube);
        tube.admin().truncate().unwrap();
        assert_eq!(tube.ending(first), Ok(Some(Ending::Gone)));
        let second = end_one(&tube);
        assert_eq!((listed(&tube, TaskState::Done), kept(&tube)), (vec![second], 1));
        store.drop_tube("case").unwrap();
        let tube = store.create_tube("case", options.driver(driver)).unwrap();
        assert_eq!(tube.ending(second), Ok(Some(Ending::Gone)));
        let third = end_one(&tube);
        // The dues of the first two are left over from the truncated and the dropped tube.
        file.clock.advance(secs(60));
        assert_eq!(tube.ending(third), Ok(Some(Ending::Gone)));
        assert_eq!(tube.statistics().unwrap().calls.forget, 1);
        drop(tube);
        let store = file.reopen(store);
        assert_eq!(kept(&store.find_tube("case").unwrap()), 0);
        assert_sound(&store);
    }
}

#[test]
fn many_outcomes_that_are_due_at_open_are_forgotten() {
    for driver in [FIFO, UTUBE] {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, keep_done(Keep::new().age(secs(60))));
        for _ in 0..10 {
            tube.put_many((0..1000).map(|n| draft(driver, &n.to_string()))).unwrap();
            let taken = tube.take_many(1000, ZERO).unwrap();
            assert_eq!(tubewell::Claim::end_many(taken, |_| Outcome::done()).unwrap().len(), 1000);
        }
        assert_eq!(kept(&tube), 10_000);
        drop(tube);
        let store = file.reopen_after(store, secs(60));
        let tube = store.find_tube("case").unwrap();
        tube.put("x").unwrap();
        assert_eq!(take(&tube), Some(10_000));
        store.admin().catch_up().unwrap();
        assert_eq!(
            (listed(&tube, TaskState::Done), tube.ending(77)),
            (vec![], Ok(Some(Ending::Gone)))
        );
        store.flush().unwrap();
        let statistics = tube.statistics().unwrap();
        assert_eq!((statistics.tasks.kept, statistics.calls.forget), (0, 10_000));
        assert_sound(&store);
    }
}

#[test]
fn ids_that_a_kill_skips_are_gone() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, keep_done(Keep::new()));
    tube.put("x").unwrap();
    assert_not_found(tube.ending(5), 5);
    let (_file, killed) = after_a_kill(&file);
    let tube = killed.find_tube("case").unwrap();
    assert!(killed.admin().next_id().unwrap() > 1, "no id is skipped");
    for id in [1, killed.admin().next_id().unwrap() - 1] {
        assert_eq!(tube.ending(id), Ok(Some(Ending::Gone)));
        assert_eq!(tube.wait_done(id, NO_TIMEOUT), Ok(Some(Ending::Gone)));
        assert_not_found(tube.admin().forget(id), id);
        assert_not_found(tube.admin().resolve(id, ()), id);
    }
    assert_not_found(
        tube.ending(killed.admin().next_id().unwrap()),
        killed.admin().next_id().unwrap(),
    );
    assert_eq!(tube.ending(0), Ok(None));
    assert_sound(&killed);
    drop(store);
}

#[test]
fn outcomes_of_a_temporary_tube_end_with_the_run() {
    let file = StoreFile::new();
    let options = keep_done(Keep::new().count(2).age(secs(60))).temporary(true);
    let (store, tube) = create_with(&file, FIFOTTL, options);
    for id in 0..3 {
        tube.put(Put::new("x").priority(7)).unwrap();
        assert_eq!(ack_next(&tube, "result"), id);
        file.clock.advance(secs(1));
    }
    assert_eq!(listed(&tube, TaskState::Done), [1, 2]);
    assert_eq!(
        (tube.ending(0), tube.query().task(1).unwrap().info.priority),
        (Ok(Some(Ending::Gone)), 7)
    );
    file.clock.advance(secs(58));
    assert_eq!(listed(&tube, TaskState::Done), [2]);
    drop(tube);
    let store = file.reopen(store);
    let tube = store.find_tube("case").unwrap();
    assert_eq!((listed(&tube, TaskState::Done), kept(&tube)), (vec![], 0));
    assert_sound(&store);
}
