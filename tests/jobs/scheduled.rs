//! Delayed tasks, the work that is due, and clocks that are set.

use std::collections::BTreeMap;
use std::sync::Barrier;
use std::thread;

use tubewell::{EventKind, Filter, Store, TaskState, TubeOptions};

use super::files::{create, draft};
use super::support::*;

/// The received events: the ids of the tasks, and the kinds.
fn read(events: &Events) -> Vec<(u64, EventKind)> {
    events.read().iter().map(|event| (event.id, event.kind)).collect()
}

/// B014
/// Difference: no call makes due tasks ready; the store does it by itself, at their moment.
#[test]
fn delayed_task_is_given_to_waiting_taker_at_its_moment() {
    for_each_driver(TIMED, |case| {
        case.advance(1_000_000);
        assert_eq!(case.add(case.draft("x").delay(secs(5))), 0);
        let mut waiting = case.begin_take();
        case.advance(4_000);
        assert_eq!(case.state(0), Some(TaskState::Delayed));
        assert!(waiting.is_pending());
        case.advance(1_000);
        assert_eq!(waiting.id(), Some(0));
        assert_eq!(case.state(0), Some(TaskState::Taken));
    });
}

/// B015
/// Difference: the time of a change is in the history of a task, if its tube keeps one.
#[test]
fn catch_up_makes_all_due_tasks_ready_in_order_of_their_moments() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        for (id, delay) in (0..).zip([30, 10, 60, 20]) {
            let put = draft(driver, &format!("{delay}")).delay(secs(delay));
            assert_eq!(tube.put(put).unwrap().id, id);
        }
        drop(tube);
        let store = file.reopen_after(store, secs(40));
        let events = Events::of(&store, Filter::new(), 100);
        store.admin().catch_up().unwrap();
        assert_eq!(read(&events), [1, 3, 0].map(|id| (id, EventKind::Delay)));
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tasks(&tube), counts([("ready", 3), ("delayed", 1), ("total", 4)]));

        // Nothing is due: nothing is written.
        let commit = store.flush().unwrap();
        let before = store.admin().counters().unwrap();
        store.admin().catch_up().unwrap();
        file.clock.advance(secs(19));
        store.admin().catch_up().unwrap();
        assert_eq!(store.flush().unwrap(), commit);
        let after = store.admin().counters().unwrap();
        assert_eq!((after.commits, after.writes), (before.commits, before.writes));
        assert_eq!(read(&events), []);
        file.clock.advance(secs(1));
        assert_eq!(read(&events), [(2, EventKind::Delay)]);
        assert_sound(&store);
    }
}

/// B016
#[test]
fn concurrent_catch_ups_make_each_due_task_ready_once() {
    const TASKS: u64 = 1500;
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let puts = (0..TASKS).map(|n| draft(driver, &n.to_string()).delay(ms(n + 1)));
        tube.put_many(puts).unwrap();
        drop(tube);
        let store = file.reopen_after(store, secs(10));
        let events = Events::of(&store, Filter::new(), 10_000);
        let barrier = Barrier::new(3);
        let catch_up = |store: &Store| {
            barrier.wait();
            store.admin().catch_up().unwrap();
        };
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| catch_up(&store));
            }
        });
        let mut times: BTreeMap<u64, u64> = BTreeMap::new();
        for (id, kind) in read(&events) {
            assert_eq!(kind, EventKind::Delay);
            *times.entry(id).or_default() += 1;
        }
        assert_eq!(times, (0..TASKS).map(|id| (id, 1)).collect());
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tasks(&tube), counts([("ready", TASKS), ("total", TASKS)]));
        let claims = tube.take_many(usize::MAX, ZERO).unwrap();
        assert!(claims.iter().map(tubewell::Claim::id).eq(0..TASKS));
        drop(claims);
        assert_sound(&store);
    }
}

/// I05
#[test]
fn wall_clock_set_back_changes_no_state_and_no_deadline() {
    for_each_driver_with(TIMED, TubeOptions::default().ttr(secs(60)), |case| {
        case.put_all([0, 1]);
        let delay = case.add(case.draft("due").delay(secs(10)));
        let later = case.add(case.draft("later").delay(secs(50)));
        assert_eq!(case.take(), Some(0));
        case.advance(10_000);
        assert_eq!(case.state(delay), Some(TaskState::Ready));

        let wall = case.store.admin().clock_report().unwrap().wall;
        case.clock.set_wall(wall.checked_sub(secs(3600)).unwrap());
        assert_eq!(
            case.store.admin().clock_report().unwrap().wall,
            wall.checked_sub(secs(3600)).unwrap()
        );
        case.advance(0);
        assert_eq!([0, 1, delay, later].map(|id| case.state(id).unwrap()), {
            [TaskState::Taken, TaskState::Ready, TaskState::Ready, TaskState::Delayed]
        });
        assert_eq!([0, later].map(|id| case.info(id).due_in), [Some(secs(50)), Some(secs(40))]);
        case.advance(49_999);
        assert_eq!([0, later].map(|id| case.state(id)), {
            [Some(TaskState::Taken), Some(TaskState::Ready)]
        });
        case.advance(1);
        assert_eq!(case.take_all(), [0, 1, delay, later]);
    });
}

/// I05
/// Difference: while the store is closed and the wall clock is behind, the timeline stands still.
/// Claims end at close, so no claim is extended by it.
#[test]
fn open_with_wall_clock_set_back_keeps_ready_tasks_ready() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let put = |put| tube.put(put).unwrap().id;
        let due = put(draft(driver, "due").delay(secs(10)));
        let later = put(draft(driver, "later").delay(secs(50)));
        let taken = put(draft(driver, "taken").ttr(secs(60)));
        file.clock.advance(secs(10));
        assert_eq!(take(&tube), Some(due));
        drop(tube);
        let wall = store.admin().clock_report().unwrap().wall;
        file.clock.set_wall(wall.checked_sub(secs(3600)).unwrap());
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        file.clock.advance(ZERO);
        assert_eq!([due, later, taken].map(|id| state(&tube, id).unwrap()), {
            [TaskState::Ready, TaskState::Delayed, TaskState::Ready]
        });
        assert_eq!(tube.query().task(later).unwrap().info.due_in, Some(secs(40)));
        assert_eq!((take(&tube), take(&tube)), (Some(due), Some(taken)));
        assert_eq!(tube.query().task(taken).unwrap().info.due_in, Some(secs(60)));
        file.clock.advance(secs(60));
        assert_eq!(state(&tube, taken), Some(TaskState::Ready));
        assert_sound(&store);
    }
}
