//! Group D: bury, kick, delete and peek.

use tubewell::driver::{FIFO, UTUBE};
use tubewell::{Error, EventKind, Filter, Keep, TaskState, TubeOptions};

use super::support::*;

#[test]
fn task_buried_again_is_kicked_before_later_ones() {
    for keep in [None, Some(Keep::new().count(9))] {
        let options = keep.into_iter().fold(TubeOptions::new(), TubeOptions::keep_buried);
        for_each_driver_with(ALL, options, |case| {
            case.put_all([0, 1, 2, 3, 4]);
            (0..5).for_each(|id| _ = case.tube.admin().bury(id, None).unwrap());
            let kick = |count, kicked: &[u64]| {
                let count_of_kicked = kicked.len() as u64;
                assert_eq!(case.tube.admin().kick(Filter::new().limit(count)), Ok(count_of_kicked));
                let ready = case.tube.query().list(TaskState::Ready, None, 9).unwrap().items;
                assert_eq!(ready.iter().map(|task| task.id).collect::<Vec<_>>(), kicked);
                assert_sound(&case.store);
                for id in kicked {
                    case.tube.admin().bury(*id, None).unwrap();
                }
            };
            kick(2, &[0, 1]);
            kick(1, &[0]);
            kick(1, &[0]);
            kick(3, &[0, 1, 2]);
            case.tube.delete(0).unwrap();
            kick(9, &[1, 2, 3, 4]);
            assert_eq!(case.tube.admin().kick(Filter::new().limit(3)), Ok(3));
            assert_eq!(case.tube.admin().bury(2, None).unwrap().state, TaskState::Buried);
            assert_eq!(case.tube.admin().kick(Filter::new().limit(9)), Ok(2));
            assert_eq!(case.tube.admin().kick(Filter::new().limit(9)), Ok(0));
        });
    }
}

/// D01
#[test]
fn buried_task_is_not_taken() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let receipt = case.tube.admin().bury(0, None).unwrap();
        assert_eq!((receipt.id, receipt.state), (0, TaskState::Buried));
        assert_eq!(case.state(0), Some(TaskState::Buried));
        assert_eq!(case.take_all(), [1]);
    });
}

/// D02
#[test]
fn holder_can_bury_taken_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.tube.admin().bury(0, None).unwrap().state, TaskState::Buried);
        assert_eq!(case.state(0), Some(TaskState::Buried));
        assert_eq!(case.take(), None);
    });
}

/// D03
#[test]
fn other_session_can_bury_taken_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let holder = case.tube_in_new_session();
        assert_eq!(take(&holder), Some(0));
        assert_eq!(case.tube.admin().bury(0, None).unwrap().state, TaskState::Buried);
        assert_not_taken(holder.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_eq!(case.state(0), Some(TaskState::Buried));
    });
}

/// D04
#[test]
fn buried_task_stays_buried_when_delay_elapses() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").delay(ms(300)));
        assert_eq!(case.tube.admin().bury(0, None).unwrap().state, TaskState::Buried);
        case.advance(1000);
        assert_eq!(case.state(0), Some(TaskState::Buried));
        assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
        assert_eq!(case.state(0), Some(TaskState::Ready));
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.calls().get("delay"), None);
    });
}

/// D05
#[test]
fn bury_of_buried_task_changes_nothing() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        case.tube.admin().bury(0, None).unwrap();
        let log = case.event_log();
        let receipt = case.tube.admin().bury(0, None).unwrap();
        assert_eq!((receipt.id, receipt.state), (0, TaskState::Buried));
        assert_eq!(log.read(), []);
        assert_eq!(case.calls(), counts([("put", 1), ("bury", 1)]));
    });
}

/// D06, D13, D16
#[test]
fn bury_delete_and_peek_of_missing_task_return_not_found() {
    for_each_driver(ALL, |case| {
        assert_not_found(case.tube.admin().bury(99, None), 99);
        assert_not_found(case.tube.delete(99), 99);
        assert_not_found(case.tube.query().task(99), 99);
        assert_not_found(case.tube.query().task(u64::MAX), u64::MAX);
        assert_eq!(case.calls(), counts([]));
    });
}

/// D07
#[test]
fn kick_makes_task_ready() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
        assert_eq!(case.state(0), Some(TaskState::Ready));
    });
}

/// D08, Q04, Q05
/// Difference: the API has no negative count.
#[test]
fn kick_of_no_tasks_returns_zero() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.tube.admin().kick(Filter::new().limit(10)).unwrap(), 0);
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(0)).unwrap(), 0);
        assert_eq!(case.state(0), Some(TaskState::Buried));
    });
}

/// Q06
/// Difference: a kick of more tasks than are buried leaves no open transaction, so the next put is
/// durable.
#[test]
fn put_after_kick_of_more_than_buried_survives_restart() {
    for driver in ALL {
        let file = StoreFile::new();
        let store = file.open();
        let tube =
            store.create_tube("case", tubewell::TubeOptions::default().driver(driver)).unwrap();
        let kicked = tube.put("kicked").unwrap().id;
        tube.admin().bury(kicked, None).unwrap();
        assert_eq!(tube.admin().kick(Filter::new().limit(5)).unwrap(), 1);
        assert_eq!(tube.admin().kick(Filter::new().limit(5)).unwrap(), 0);
        let after = tube.put("after it").unwrap().id;
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        for id in [kicked, after] {
            assert_eq!(take(&tube), Some(id));
            tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
        }
        assert_sound(&store);
    }
}

/// D09, Q05
#[test]
fn kick_orders_by_id_and_stops_at_buried_count() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3]);
        for id in [3, 1, 0, 2] {
            case.tube.admin().bury(id, None).unwrap();
        }
        assert_eq!(case.tube.admin().kick(Filter::new().limit(3)).unwrap(), 3);
        assert_eq!(case.state(3), Some(TaskState::Buried));
        assert_eq!(case.tube.admin().kick(Filter::new()).unwrap(), 1);
        assert_eq!(case.take_all(), [0, 1, 2, 3]);
        assert_eq!(case.calls().get("kick"), Some(&4));
    });
}

/// D10, G07
#[test]
fn kicked_tasks_are_given_to_waiting_takers() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3]);
        for id in 0..4 {
            case.tube.admin().bury(id, None).unwrap();
        }
        let waiting = [case.begin_take(), case.begin_take(), case.begin_take()];
        assert_eq!(case.tube.admin().kick(Filter::new().limit(3)).unwrap(), 3);
        assert_eq!(waiting.map(WaitingTake::id), [Some(0), Some(1), Some(2)]);
        for id in 0..3 {
            assert_eq!(case.state(id), Some(TaskState::Taken));
        }
        assert_eq!(case.state(3), Some(TaskState::Buried));
    });
}

/// D12
#[test]
fn delete_removes_task_in_every_state() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.admin().bury(1, None).unwrap();
        let mut last = 2;
        if case.timed() {
            last = case.add(case.draft("late").delay(secs(10)));
            assert_eq!(case.state(last), Some(TaskState::Delayed));
        }
        for id in 0..=last {
            let receipt = case.tube.delete(id).unwrap();
            assert_eq!((receipt.id, receipt.state), (id, TaskState::Done));
            assert_eq!(case.state(id), None);
            assert_not_found(case.tube.delete(id), id);
        }
        assert_eq!(case.tasks(), counts([("done", last + 1)]));
        case.advance(20_000);
        assert_eq!(case.take(), None);
    });
}

/// D14
#[test]
fn other_session_can_delete_taken_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let holder = case.tube_in_new_session();
        assert_eq!(take(&holder), Some(0));
        assert_eq!(case.tube.delete(0).unwrap().state, TaskState::Done);
        assert_not_taken(holder.claimed(0).and_then(tubewell::Claim::ack), 0);
    });
}

/// D15
#[test]
fn peek_returns_every_state_and_changes_nothing() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.admin().bury(1, None).unwrap();
        let mut expected = vec![TaskState::Taken, TaskState::Buried, TaskState::Ready];
        if case.timed() {
            case.add(case.draft("task 3").delay(secs(10)));
            expected.push(TaskState::Delayed);
        }
        let before = (case.tasks(), case.calls());
        let log = case.event_log();
        for _ in 0..2 {
            for (id, state) in (0..).zip(&expected) {
                let task = case.tube.query().task(id).unwrap();
                assert_eq!(task.info.state, *state);
                assert_eq!(task.body, format!("task {id}").into_bytes());
            }
        }
        assert_eq!((case.tasks(), case.calls()), before);
        assert_eq!(log.read(), []);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
    });
}

/// D18
#[test]
fn kicked_task_keeps_position_and_body() {
    for_each_driver(ALL, |case| {
        case.put("first");
        case.put("buried");
        case.tube.admin().bury(1, None).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
        assert_eq!(case.take(), Some(0));
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.body()), (1, &b"buried"[..]));
        claim.ack().unwrap();
    });
}

/// B13, D09
#[test]
fn kick_of_one_delivers_event_of_kicked_task() {
    for_each_driver(&[FIFO, UTUBE], |case| {
        case.put_all([0, 1]);
        case.tube.admin().bury(1, None).unwrap();
        case.tube.admin().bury(0, None).unwrap();
        let log = case.event_log();
        assert_eq!(case.tube.admin().kick(Filter::new().limit(1)).unwrap(), 1);
        assert_eq!(log.read(), [(0, EventKind::Kick, TaskState::Ready)]);
        assert_eq!(case.state(1), Some(TaskState::Buried));
    });
}

/// Difference: `kick_task` kicks one task by its id.
#[test]
fn kick_task_kicks_the_named_task_alone() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        for id in [0, 1, 2] {
            case.tube.admin().bury(id, None).unwrap();
        }
        let events = case.event_log();
        let receipt = case.tube.kick(1).unwrap();
        assert_eq!((receipt.id, receipt.state), (1, TaskState::Ready));
        assert_eq!(events.read(), [(1, EventKind::Kick, TaskState::Ready)]);
        assert_eq!([0, 1, 2].map(|id| case.state(id).unwrap()), {
            [TaskState::Buried, TaskState::Ready, TaskState::Buried]
        });
        assert_eq!(case.calls(), counts([("put", 3), ("bury", 3), ("kick", 1)]));
        assert_eq!(case.tasks(), counts([("ready", 1), ("buried", 2), ("total", 3)]));
        assert_eq!(case.take_all(), [1]);
    });
}

#[test]
fn kick_task_gives_the_task_to_a_waiting_taker_in_its_old_place() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        case.tube.admin().bury(1, None).unwrap();
        case.tube.to_async().kick(1).wait().unwrap();
        assert_eq!(case.take_all(), [0, 1, 2]);
        case.tube.admin().bury(2, None).unwrap();
        let waiting = case.begin_take();
        assert_eq!(case.tube.kick(2).unwrap().state, TaskState::Ready);
        assert_eq!(waiting.id(), Some(2));
    });
}

#[test]
fn kick_task_refuses_tasks_that_are_missing_or_not_buried() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        assert_eq!(case.take(), Some(0));
        let mut ids = vec![0, 1];
        if case.timed() {
            ids.push(case.add(case.draft("late").delay(secs(10))));
        }
        let (tasks, calls, events) = (case.tasks(), case.calls(), case.event_log());
        for id in ids {
            assert_eq!(case.tube.kick(id), Err(Error::NotBuried { id }));
        }
        assert_not_found(case.tube.kick(99), 99);
        assert_eq!((case.tasks(), case.calls()), (tasks, calls));
        assert_eq!(events.read(), []);
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_not_found(case.tube.kick(0), 0);
    });
}

#[test]
fn kick_task_survives_a_restart() {
    for driver in ALL {
        let file = StoreFile::new();
        let store = file.open();
        let tube =
            store.create_tube("case", tubewell::TubeOptions::default().driver(driver)).unwrap();
        for id in 0..3 {
            assert_eq!(tube.put("x").unwrap().id, id);
            tube.admin().bury(id, None).unwrap();
        }
        tube.kick(2).unwrap();
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(take(&tube), Some(2));
        assert_eq!(take(&tube), None);
        assert_sound(&store);
    }
}
