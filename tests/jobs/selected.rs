//! Calls on selected tasks: deletes and kicks by state and by failure group.

use tubewell::{Error, Failure, Filter, Keep, Put, TaskState, Tube, TubeOptions};

use super::executor::block_on;
use super::files::{create_with, groups};
use super::support::*;
use crate::stores;

fn select() -> Filter {
    Filter::new()
}

/// Puts tasks, takes them, and buries each in this group, one after the other.
fn bury_in(case: &Case, group: &str, tasks: usize) -> Vec<u64> {
    (0..tasks).map(|_| bury_one(case, group)).collect()
}

fn bury_one(case: &Case, group: &str) -> u64 {
    let id = case.put("x");
    case.advance(1);
    case.tube.claim(id).unwrap().bury(Failure::new(group, "message")).unwrap();
    id
}

fn ready(tube: &Tube) -> u64 {
    tube.statistics().unwrap().tasks.ready
}

/// Q118
#[test]
fn kick_of_a_group_makes_all_of_its_tasks_ready() {
    for_each_driver(ALL, |case| {
        let ids = bury_in(case, "g", 10);
        bury_in(case, "other", 1);
        assert_eq!(case.tube.admin().kick(select().group("g").limit(100)).unwrap(), 10);
        assert_eq!(groups(&case.tube), [("other".to_owned(), 1)]);
        assert_eq!(case.take_all(), ids);
    });
}

/// Q119
/// Difference: the tasks stay in their tube.
#[test]
fn kick_of_a_group_begins_with_the_tasks_buried_first() {
    for_each_driver(ALL, |case| {
        let first = case.put("x");
        let ids = bury_in(case, "g", 3);
        case.advance(1);
        case.tube.claim(first).unwrap().bury(Failure::new("g", "last")).unwrap();
        assert_eq!(case.tube.admin().kick(select().group("g").limit(2)).unwrap(), 2);
        assert_eq!(case.take_all(), ids[..2]);
        assert_eq!(case.tube.admin().kick(select().group("g").limit(1)).unwrap(), 1);
        assert_eq!(case.take_all(), ids[2..]);
        assert_eq!(groups(&case.tube), [("g".to_owned(), 1)]);
    });
}

/// Q120
#[test]
fn kick_of_unknown_group_kicks_nothing() {
    for_each_driver(ALL, |case| {
        bury_in(case, "g", 1);
        assert_eq!(case.tube.admin().kick(select().group("unknown")).unwrap(), 0);
        assert_eq!(case.tube.admin().kick(select().group("g").limit(0)).unwrap(), 0);
        assert_eq!(ready(&case.tube), 0);
    });
}

#[test]
fn kick_without_a_condition_follows_the_order_of_takes() {
    for_each_driver(TIMED, |case| {
        let ids = [3, 1, 2].map(|priority| case.add(case.draft("x").priority(priority)));
        for id in ids {
            case.tube.admin().bury(id, None).unwrap();
        }
        assert_eq!(case.tube.admin().kick(select().limit(2)).unwrap(), 2);
        assert_eq!(case.take_all(), [ids[1], ids[2]]);
        assert_eq!(case.tube.admin().kick(select().state(TaskState::Buried)).unwrap(), 1);
    });
}

#[test]
fn kicked_tasks_of_a_group_have_all_their_attempts_again() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(1), |case| {
        let id = case.put("x");
        for _ in 0..3 {
            case.tube.try_take().unwrap().unwrap().fail(Failure::new("g", "message")).unwrap();
            assert_eq!(case.state(id), Some(TaskState::Buried));
            assert_eq!(block_on(case.tube.to_async().admin().kick(select().group("g"))), Ok(1));
            assert_eq!(case.info(id).attempts_left, Some(1));
        }
    });
}

#[test]
fn delete_of_a_filter_deletes_the_tasks_of_one_state() {
    for state in
        [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Buried, TaskState::Done]
    {
        for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
            if state == TaskState::Delayed && !case.timed() {
                return;
            }
            for _ in 0..2 {
                case.put("ready");
                let [taken, done] = [case.put("taken"), case.put("done")];
                keep(case.tube.claim(taken).unwrap());
                case.tube.claim(done).unwrap().ack().unwrap();
                let buried = case.put("buried");
                case.tube.admin().bury(buried, None).unwrap();
                if case.timed() {
                    case.add(case.draft("delayed").delay(secs(10)));
                }
            }
            let listed = |state| case.tube.query().list(state, None, 10).unwrap().items;
            let first = listed(state)[0].id;
            assert_eq!(case.tube.admin().delete(select().state(state).limit(1)).unwrap(), 1);
            assert_eq!(case.state(first), None);
            assert_eq!(case.tube.admin().delete(select().state(state)).unwrap(), 1);
            let states = [
                TaskState::Ready,
                TaskState::Taken,
                TaskState::Delayed,
                TaskState::Buried,
                TaskState::Done,
            ];
            for other in states {
                let count = listed(other).len();
                let expected = match other {
                    other if other == state => 0,
                    TaskState::Delayed if !case.timed() => 0,
                    _ => 2,
                };
                assert_eq!(count, expected, "{other} after a delete of {state} tasks");
            }
            assert_eq!(case.calls()["delete"], 2);
        });
    }
}

#[test]
fn delete_of_a_filter_deletes_the_tasks_of_a_group() {
    for_each_driver(ALL, |case| {
        let ids = bury_in(case, "g", 3);
        bury_in(case, "other", 2);
        let plain = case.put("x");
        case.tube.admin().bury(plain, None).unwrap();
        assert_eq!(case.tube.admin().delete(select().group("g").limit(1)).unwrap(), 1);
        assert_eq!(case.state(ids[0]), None);
        let both = select().group("g").state(TaskState::Buried);
        assert_eq!(block_on(case.tube.to_async().admin().delete(both)), Ok(2));
        assert_eq!(groups(&case.tube), [("other".to_owned(), 2)]);
        assert_eq!(case.state(plain), Some(TaskState::Buried));
    });
}

#[test]
fn delete_of_a_filter_that_meets_a_parent_behind_a_taken_task_deletes_nothing() {
    for_each_driver(ALL, |case| {
        let taken = case.put("x");
        let _held = case.tube.claim(taken).unwrap();
        let first = case.put("x");
        let parent = case.put("x");
        let child = case.draft("x").after(&case.tube, [parent]);
        case.add(child);
        let refused = case.tube.admin().delete(select().state(TaskState::Ready).limit(2));
        assert!(matches!(refused, Err(Error::HasDependents { id, .. }) if id == parent));
        assert_eq!(case.tube.query().task(first).unwrap().info.state, TaskState::Ready);
    });
}

#[test]
fn selections_that_make_no_sense_are_refused() {
    for_each_driver(ALL, |case| {
        bury_in(case, "g", 1);
        let wrong = select().group("g").state(TaskState::Ready);
        for select in [select(), select().limit(1), wrong.clone()] {
            let deleted = case.tube.admin().delete(select.clone());
            assert!(matches!(deleted, Err(Error::Invalid { .. })));
            let deleted = block_on(case.tube.to_async().admin().delete(select));
            assert!(matches!(deleted, Err(Error::Invalid { .. })));
        }
        for select in [wrong, select().state(TaskState::Done)] {
            let kicked = case.tube.admin().kick(select.clone());
            assert!(matches!(kicked, Err(Error::Invalid { .. })));
            let kicked = block_on(case.tube.to_async().admin().kick(select));
            assert!(matches!(kicked, Err(Error::Invalid { .. })));
        }
        assert_eq!(case.state(0), Some(TaskState::Buried));
    });
}

/// Each step is a commit, and begins after the last task of the step before.
#[test]
fn many_selected_tasks_are_changed_in_steps() {
    for driver in all_or_few() {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, TubeOptions::new());
        let subs = |n: u64| {
            let put = Put::new("x");
            if SUB_QUEUED.contains(driver) { put.sub_queue(format!("{}", n % 2000)) } else { put }
        };
        let puts = tube.put_many((0..2000).map(subs)).unwrap();
        let claims = tube.take_many(700, ZERO).unwrap();
        for put in &puts[1900..] {
            tube.admin().bury(put.id, None).unwrap();
        }
        let before = store.admin().counters().unwrap().commits;
        assert_eq!(
            tube.admin().delete(select().state(TaskState::Ready).limit(1199)).unwrap(),
            1199
        );
        let commits = store.admin().counters().unwrap().commits - before;
        assert!((3..=4).contains(&commits), "{commits} commits");
        assert_eq!(tube.admin().delete(select().state(TaskState::Ready)).unwrap(), 1);
        assert_eq!(tube.statistics().unwrap().tasks.taken, 700);
        drop(claims);
        assert_eq!(tube.admin().kick(select()).unwrap(), 100);
        let _claims = tube.take_many(600, ZERO).unwrap();
        let taken = select().state(TaskState::Taken);
        assert_eq!(tube.admin().delete(taken).unwrap(), 600);
        assert_eq!(tube.statistics().unwrap().tasks.total, 200);
        assert_sound(&store);
    }
}

/// Tasks that are put meanwhile do not keep the call going.
#[test]
fn delete_of_a_filter_ends_although_tasks_are_put_meanwhile() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(tubewell::FIFO)).unwrap();
    tube.put_many(["x"; 1000]).unwrap();
    let same = tube.clone();
    let callback = move |event: &tubewell::Event| {
        if event.kind == tubewell::EventKind::Delete {
            _ = same.put("again").unwrap();
        }
    };
    let of_owner = stores::owner(&store).find_tube("case").unwrap();
    of_owner.on_task_change(Some(std::sync::Arc::new(callback))).unwrap();
    let deleted = tube.admin().delete(select().state(TaskState::Ready)).unwrap();
    assert!((512..=1000).contains(&deleted), "{deleted} tasks");
    of_owner.on_task_change(None).unwrap();
    assert_sound(&store);
}
