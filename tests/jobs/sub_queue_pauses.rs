//! Paused sub-queues.

use tubewell::driver::UTUBETTL;
use tubewell::expert::PausedSubQueue;
use tubewell::{Durability, Error, Put, TaskState, TubeOptions};

use super::files::{after_a_kill, create, create_with};
use super::support::*;

fn in_sub(name: &str) -> Put {
    Put::new("x".into()).sub_queue(name)
}

fn put_into(case: &Case, sub_queues: &[&str]) {
    case.tube.put_many(sub_queues.iter().map(|name| in_sub(name))).unwrap();
}

/// Names and milliseconds.
fn paused(tube: &tubewell::Tube) -> Vec<(String, Option<u128>)> {
    let each =
        |paused: PausedSubQueue| (paused.name, paused.resumes_in.map(|left| left.as_millis()));
    tube.query().paused_sub_queues().unwrap().into_iter().map(each).collect()
}

#[test]
fn paused_sub_queue_gives_no_task_until_its_pause_ends() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into(case, &["x", "y", "x", "z"]);
        case.tube.admin().pause_sub_queue("x", secs(10)).unwrap();
        case.tube.admin().pause_sub_queue("z", HUNDRED_YEARS).unwrap();
        case.tube.admin().pause_sub_queue("z", std::time::Duration::MAX).unwrap();
        assert_eq!(paused(&case.tube), [("x".into(), Some(10_000)), ("z".into(), None)]);
        assert_eq!(case.take_all(), [1]);
        match case.tube.claim(0).map(drop) {
            Err(Error::NotReady { id: 0, state: TaskState::Ready, why }) => {
                assert_eq!(why, "its sub-queue \"x\" is paused for 10s");
            }
            other => panic!("{other:?}"),
        }
        case.advance(9_999);
        assert_eq!(case.take(), None);
        case.advance(1);
        assert_eq!(case.take_all(), [0]);
        assert_eq!(paused(&case.tube), [("z".into(), None)]);
        case.tube.admin().unpause_sub_queue("z").unwrap();
        case.tube.admin().unpause_sub_queue("not paused").unwrap();
        assert_eq!((case.take_all(), paused(&case.tube)), (vec![3], Vec::new()));
    });
}

#[test]
fn claims_of_a_paused_sub_queue_go_on() {
    for_each_driver(SUB_QUEUED, |case| {
        put_into(case, &["x", "x", "x"]);
        assert_eq!(case.take(), Some(0));
        case.tube.admin().pause_sub_queue("x", secs(10)).unwrap();
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(case.take(), None);
        case.tube.admin().unpause_sub_queue("x").unwrap();
        assert_eq!(case.take(), Some(0));
        case.tube.admin().pause_sub_queue("x", secs(10)).unwrap();
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        put_into(case, &["x"]);
        case.tube.delete(1).unwrap();
        assert_eq!(case.take(), None);
        case.advance(10_000);
        assert_eq!((case.take(), case.take()), (Some(2), None));
    });
}

/// I10
#[test]
fn waiting_takers_get_tasks_when_the_pause_ends() {
    for_each_driver_with(SUB_QUEUED, TubeOptions::new().sub_queue_limit(9), |case| {
        case.tube.admin().pause_sub_queue("x", secs(10)).unwrap();
        case.tube.admin().pause_sub_queue("y", secs(20)).unwrap();
        let waiting: Vec<_> = (0..5).map(|_| case.begin_take()).collect();
        put_into(case, &["x", "y", "x", "y", "y"]);
        let mut waiting = waiting.into_iter();
        assert_sound(&case.store);
        case.advance(9_999);
        case.advance(1);
        assert_eq!(waiting.next().unwrap().id(), Some(0));
        assert_eq!(waiting.next().unwrap().id(), Some(2));
        let mut third = waiting.next().unwrap();
        assert!(third.is_pending());
        case.tube.admin().pause_sub_queue("y", secs(100)).unwrap();
        case.advance(10_000);
        assert!(third.is_pending());
        case.tube.admin().unpause_sub_queue("y").unwrap();
        assert_eq!(third.id(), Some(1));
        assert_eq!(waiting.next().unwrap().id(), Some(3));
        assert_eq!(waiting.next().unwrap().id(), Some(4));
    });
}

/// The timeline goes on while the machine is suspended.
#[test]
fn pause_ends_while_the_machine_is_suspended() {
    for_each_driver(SUB_QUEUED, |case| {
        case.tube.admin().pause_sub_queue("x", secs(10)).unwrap();
        put_into(case, &["x"]);
        let mut waiting = case.begin_take();
        case.clock.suspend(secs(9));
        case.advance(999);
        assert!(waiting.is_pending());
        case.advance(1);
        assert_eq!(waiting.id(), Some(0));
    });
}

#[test]
fn pauses_survive_a_close_a_kill_and_a_truncate() {
    for driver in SUB_QUEUED {
        for options in [TubeOptions::new(), TubeOptions::new().durability(Durability::relaxed())] {
            let file = StoreFile::new();
            let (store, tube) = create_with(&file, driver, options);
            tube.admin().pause_sub_queue("x", secs(100)).unwrap();
            tube.admin().pause_sub_queue("", secs(3_000_000)).unwrap();
            tube.admin().pause_sub_queue("a\0b", secs(10)).unwrap();
            tube.admin().pause_sub_queue("gone", secs(100)).unwrap();
            tube.admin().unpause_sub_queue("gone").unwrap();
            let (_dir, killed) = after_a_kill(&file);
            assert_eq!(paused(&killed.find_tube("case").unwrap()).len(), 3);
            assert_sound(&killed);
            tube.admin().truncate().unwrap();
            let store = file.reopen_after(store, secs(10));
            let tube = store.find_tube("case").unwrap();
            let left = [(String::new(), Some(2_999_990_000)), ("x".into(), Some(90_000))];
            assert_eq!(paused(&tube), left);
            tube.put_many(["x", "a\0b", ""].map(in_sub)).unwrap();
            assert_eq!((take(&tube), take(&tube)), (Some(1), None));
            assert_sound(&store);
            tube.admin().unpause_sub_queue("").unwrap();
            assert_eq!((take(&tube), take(&tube)), (Some(2), None));
        }
    }
}

#[test]
fn dropped_tube_leaves_no_pause_behind() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, UTUBETTL);
    tube.admin().pause_sub_queue("x", secs(100)).unwrap();
    store.drop_tube("case").unwrap();
    assert_sound(&store);
    let tube = store.create_tube("case", TubeOptions::new().driver(UTUBETTL)).unwrap();
    assert_eq!(paused(&tube), []);
    tube.put(in_sub("x")).unwrap();
    assert!(take(&tube).is_some());
    let store = file.reopen(store);
    assert_eq!(paused(&store.find_tube("case").unwrap()), []);
}

#[test]
fn pause_needs_a_driver_with_sub_queues_and_a_short_name() {
    for_each_driver(ALL, |case| {
        let made = case.tube.admin().pause_sub_queue("x", secs(1));
        if case.sub_queued() {
            made.unwrap();
            let long = "n".repeat(256);
            let refused = case.tube.admin().pause_sub_queue(&long, secs(1));
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
            case.tube.admin().pause_sub_queue(&long[1..], secs(1)).unwrap();
        } else {
            assert_unsupported(made, case.driver);
        }
    });
}
