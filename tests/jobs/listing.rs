//! Peek, list and counts.

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::{Error, Failure, Filter, Page, TaskInfo, TaskState, TubeOptions};

use super::executor::block_on;
use super::files::create;
use super::support::*;
use crate::stores;

const STATES: [TaskState; 4] =
    [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Buried];

fn ids(page: &Page<TaskInfo>) -> Vec<u64> {
    page.items.iter().map(|info| info.id).collect()
}

/// Q023
/// Difference: no call reads many tasks by their ids; each peek answers for one task.
#[test]
fn peek_of_unknown_id_returns_not_found() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::default().driver(case.driver)).unwrap();
        case.put_all([0]);
        let elsewhere = other.put("elsewhere").unwrap().id;
        for unknown in [elsewhere, 2, u64::MAX] {
            assert_not_found(case.tube.query().task(unknown), unknown);
            assert_not_found(block_on(case.tube.to_async().query().task(unknown)), unknown);
            assert_not_found(case.tube.query().task_info(unknown), unknown);
        }
        let known: Vec<u64> = [99, 0, elsewhere]
            .into_iter()
            .filter_map(|id| case.tube.query().task(id).ok())
            .map(|task| task.info.id)
            .collect();
        assert_eq!(known, [0]);
    });
}

#[test]
fn description_of_a_task_is_that_of_the_task_with_its_body() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        case.tube.admin().bury(1, Failure::new("smtp", "421")).unwrap();
        let taken = case.take().unwrap();
        for id in [1, 2, taken] {
            let task = case.tube.query().task(id).unwrap();
            assert_eq!(case.tube.query().task_info(id).unwrap(), task.info);
            assert_eq!(block_on(case.tube.to_async().query().task_info(id)).unwrap(), task.info);
        }
    });
}

/// Q030, T002
/// Difference: tubes are created, and an unknown one is an error.
#[test]
fn list_of_empty_tube_is_empty_and_unknown_tube_is_an_error() {
    for_each_driver(ALL, |case| {
        for state in STATES {
            assert_eq!(case.tube.query().list(state, None, 10).unwrap(), Page::default());
        }
        let unknown = case.store.find_tube("unknown").err();
        assert!(matches!(unknown, Some(Error::TubeNotFound { .. })), "{unknown:?}");
    });
}

/// T003, Q195
#[test]
fn put_task_is_listed_as_ready() {
    for_each_driver(ALL, |case| {
        for count in 1..=3 {
            let id = case.put("x");
            let page = case.tube.query().list(TaskState::Ready, None, 10).unwrap();
            assert_eq!(ids(&page), (0..count).collect::<Vec<u64>>());
            assert_eq!(page.items.last(), Some(&case.info(id)));
            assert_eq!(page.next, None);
        }
        for state in [TaskState::Taken, TaskState::Delayed, TaskState::Buried] {
            assert_eq!(ids(&case.tube.query().list(state, None, 10).unwrap()), [0_u64; 0]);
        }
        assert_eq!(case.take(), Some(0));
        assert_eq!(ids(&case.tube.query().list(TaskState::Ready, None, 10).unwrap()), [1, 2]);
    });
}

/// Q191, Q197
#[test]
fn task_with_elapsed_delay_is_listed_and_counted_as_ready() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("due").delay(secs(10)));
        case.add(case.draft("later").delay(secs(30)));
        case.advance(20_000);
        assert_eq!(ids(&case.tube.query().list(TaskState::Delayed, None, 10).unwrap()), [1]);
        assert_eq!(ids(&case.tube.query().list(TaskState::Ready, None, 10).unwrap()), [0]);
        assert_eq!(case.tasks(), counts([("ready", 1), ("delayed", 1), ("total", 2)]));
        assert_eq!(case.store.statistics().unwrap()["case"].tasks.ready, 1);
    });
}

/// Q191, Q197
/// Difference: after an open, lists and counts are right once the store has caught up.
#[test]
fn delay_that_elapsed_while_store_was_closed_is_listed_and_counted_as_ready() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        tube.put(tubewell::Put::new("due").delay(secs(10))).unwrap();
        tube.put(tubewell::Put::new("later").delay(secs(30))).unwrap();
        drop(tube);
        let store = file.reopen_after(store, secs(20));
        store.admin().catch_up().unwrap();
        let tube = store.find_tube("case").unwrap();
        assert_eq!(ids(&tube.query().list(TaskState::Delayed, None, 10).unwrap()), [1]);
        assert_eq!(ids(&tube.query().list(TaskState::Ready, None, 10).unwrap()), [0]);
        assert_eq!(tasks(&tube), counts([("ready", 1), ("delayed", 1), ("total", 2)]));
        assert_sound(&store);
    }
}

/// T033
#[test]
fn list_skips_and_counts_tasks_that_it_cannot_read() {
    let bodies = ["first", "damaged 1", "second", "damaged 2", "damaged 3", "last"];
    for driver in [FIFO, FIFOTTL] {
        let file = StoreFile::new();
        let store = file.open();
        store
            .create_tube("case", TubeOptions::new().driver(driver))
            .unwrap()
            .put_many(bodies)
            .unwrap();
        stores::close(&store);
        let mut bytes = std::fs::read(file.path()).unwrap();
        for body in bodies.iter().filter(|body| body.starts_with("damaged")) {
            let found: Vec<usize> = (0..bytes.len() - body.len())
                .filter(|at| bytes[*at..].starts_with(body.as_bytes()))
                .collect();
            assert!(!found.is_empty());
            for at in found {
                bytes[at] ^= 1;
            }
        }
        std::fs::write(file.path(), bytes).unwrap();
        let store = file.open();
        let tube = store.find_tube("case").unwrap();
        let page = tube.query().list(TaskState::Ready, None, 10).unwrap();
        assert_eq!((ids(&page), page.damaged, page.next), (vec![0, 2, 5], 3, None));
        // The second filter reads many rows at once.
        for filter in [Filter::from(TaskState::Ready), Filter::from(TaskState::Ready).sub_queue("")]
        {
            let page = tube.query().list(&filter, None, 2).unwrap();
            assert_eq!((ids(&page), page.damaged), (vec![0, 2], 1));
            let page = tube.query().list(&filter, page.next, 2).unwrap();
            assert_eq!((ids(&page), page.damaged, page.next), (vec![5], 2, None));
        }
        let findings = store.admin().verify().unwrap();
        for id in [1, 3, 4] {
            assert!(findings.iter().any(|it| it.contains(&format!("task {id}:"))), "{findings:?}");
        }
    }
}

/// T033
#[test]
fn list_skips_tasks_that_vanish_between_two_pages() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3, 4, 5]);
        let first = case.tube.query().list(TaskState::Ready, None, 2).unwrap();
        assert_eq!(ids(&first), [0, 1]);
        assert!(first.next.is_some());
        // The task of the cursor, and tasks of the next page.
        for id in [1, 2, 4] {
            case.tube.delete(id).unwrap();
        }
        case.tube.admin().bury(3, None).unwrap();
        let second = case.tube.query().list(TaskState::Ready, first.next, 2).unwrap();
        assert_eq!((ids(&second), second.next), (vec![5], None));
        assert_not_found(case.tube.query().task(2), 2);
    });
}
