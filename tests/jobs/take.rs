//! Take.

use tubewell::{Claim, TaskState};

use super::files::{create, draft};
use super::support::*;

/// Q037
#[test]
fn take_many_returns_first_tasks_then_the_rest() {
    for_each_driver(ALL, |case| {
        for _ in 0..10 {
            case.put("x");
        }
        let ids = |claims: &[Claim]| claims.iter().map(Claim::id).collect::<Vec<u64>>();
        let first = case.tube.take_many(7, ZERO).unwrap();
        assert_eq!(ids(&first), [0, 1, 2, 3, 4, 5, 6]);
        let rest = case.tube.take_many(10, ZERO).unwrap();
        assert_eq!(ids(&rest), [7, 8, 9]);
    });
}

/// Q039
#[test]
fn take_of_no_tasks_returns_none_and_changes_nothing() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let log = case.event_log();
        for timeout in [ZERO, secs(1), NO_TIMEOUT] {
            assert_eq!(case.tube.take_many(0, timeout).unwrap().len(), 0);
        }
        assert_eq!(log.read(), []);
        assert_eq!(case.calls(), counts([("put", 2)]));
        assert_eq!(case.tasks(), counts([("ready", 2), ("total", 2)]));
        assert_eq!(case.info(0).takes, 0);
        assert_eq!(case.take_all(), [0, 1]);
        assert_eq!(case.tube.take_many(0, NO_TIMEOUT).unwrap().len(), 0, "the tube is empty");
    });
}

/// B002
/// Difference: a take that returns a task writes nothing either: claims are in memory.
#[test]
fn take_returns_oldest_task_and_writes_nothing() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        for body in ["oldest", "newest"] {
            tube.put(draft(driver, body)).unwrap();
        }
        let ids = |state| {
            let page = tube.query().list(state, None, 10).unwrap();
            page.items.iter().map(|info| info.id).collect::<Vec<u64>>()
        };
        let writes = || {
            let counters = store.admin().counters().unwrap();
            (counters.commits, counters.flushes, counters.writes)
        };
        let before = writes();
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.body()), (0, &b"oldest"[..]));
        assert_eq!((ids(TaskState::Taken), ids(TaskState::Ready)), (vec![0], vec![1]));
        assert_eq!(take(&tube), Some(1));
        assert_eq!(take(&tube), None);
        assert_eq!(writes(), before);
        claim.ack().unwrap();
        assert_ne!(writes(), before, "the counters count");
        assert_sound(&store);
    }
}
