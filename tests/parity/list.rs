//! Pages of a list with a limit of 0.

use tubewell::{FIFOTTL, Put, Store, TaskState, TubeOptions, UTUBE};

use super::support::{ms, timed_store};

const STATES: [TaskState; 4] =
    [TaskState::Ready, TaskState::Taken, TaskState::Delayed, TaskState::Buried];

/// Puts three tasks in each state.
fn fill(store: &Store, driver: &str) -> tubewell::Tube {
    let tube = store.create_tube(driver, TubeOptions::new().driver(driver)).unwrap();
    let put = |n: u32| {
        let put = Put::new("x");
        if driver == UTUBE { put.sub_queue(n.to_string()) } else { put.priority(n % 2) }
    };
    tube.put_many((0..3).map(put)).unwrap();
    for claim in tube.take_many(3, ms(0)).unwrap() {
        let _ = claim.detach();
    }
    for receipt in tube.put_many((3..6).map(put)).unwrap() {
        tube.admin().bury(receipt.id, None).unwrap();
    }
    tube.put_many((6..9).map(put)).unwrap();
    if driver == FIFOTTL {
        tube.put_many((9..12).map(|n| put(n).delay(ms(1000)))).unwrap();
    }
    tube
}

#[test]
fn list_with_limit_0_returns_where_the_first_page_begins() {
    for driver in [FIFOTTL, UTUBE] {
        let (store, _clock) = timed_store();
        let tube = fill(&store, driver);
        for state in STATES {
            let empty = tube.query().list(state, None, 0).unwrap();
            assert_eq!(empty.items, []);
            let start = empty.next.expect("a page with limit 0 is never the last one");
            assert_eq!(
                tube.query().list(state, Some(start.clone()), 0).unwrap().next,
                Some(start.clone())
            );
            let (all, from_start) = (
                tube.query().list(state, None, 10).unwrap(),
                tube.query().list(state, Some(start), 10).unwrap(),
            );
            assert_eq!(all, from_start, "{driver} {state:?}");
        }
    }
}

/// The first task of a store has order 0 and id 0: no cursor of a task is before it.
#[test]
fn start_cursor_does_not_skip_the_first_task_of_the_store() {
    let (store, _clock) = timed_store();
    let tube = store.create_tube("work", TubeOptions::new().driver(FIFOTTL)).unwrap();
    let start = tube.query().list(TaskState::Ready, None, 0).unwrap().next;
    let id = tube.put("first").unwrap().id;
    assert_eq!(id, 0);
    assert_eq!(tube.query().list(TaskState::Ready, start, 10).unwrap().items[0].id, id);
}

#[test]
fn list_with_limit_0_returns_the_given_cursor() {
    for driver in [FIFOTTL, UTUBE] {
        let (store, _clock) = timed_store();
        let tube = fill(&store, driver);
        for state in STATES {
            let Some(cursor) = tube.query().list(state, None, 2).unwrap().next else { continue };
            let empty = tube.query().list(state, Some(cursor.clone()), 0).unwrap();
            assert_eq!((empty.items, empty.next), (Vec::new(), Some(cursor)));
        }
    }
}

#[test]
fn list_of_done_tasks_is_empty_in_a_tube_that_keeps_none() {
    let (store, _clock) = timed_store();
    let tube = fill(&store, FIFOTTL);
    let page = tube.query().list(TaskState::Done, None, 10).unwrap();
    assert_eq!((page.items, page.next), (Vec::new(), None));
}
