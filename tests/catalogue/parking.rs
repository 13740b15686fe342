//! Group D: bury, kick, delete and peek.

use tubewell::driver::{FIFO, UTUBE};
use tubewell::{Error, EventKind, State, WhenFull};

use crate::support::*;

/// D01
#[test]
fn a_ready_task_is_buried_and_no_longer_taken() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        let receipt = case.tube.bury(0).unwrap();
        assert_eq!((receipt.id, receipt.state), (0, State::Buried));
        assert_eq!(case.state(0), Some(State::Buried));
        assert_eq!(case.take_all(), [1]);
    });
}

/// D02
#[test]
fn a_holder_buries_its_task() {
    each(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.tube.bury(0).unwrap().state, State::Buried);
        assert_eq!(case.state(0), Some(State::Buried));
        assert_eq!(case.take(), None);
    });
}

/// D03
#[test]
fn anybody_may_bury_a_taken_task() {
    each(ALL, |case| {
        case.put_all([0]);
        let holder = case.stranger();
        assert_eq!(take(&holder), Some(0));
        assert_eq!(case.tube.bury(0).unwrap().state, State::Buried);
        assert_not_taken(holder.ack(0), 0);
        assert_eq!(case.state(0), Some(State::Buried));
    });
}

/// D04
#[test]
fn a_buried_task_stays_buried_when_its_delay_is_over() {
    each(TIMED, |case| {
        case.add(case.draft("x").delay(ms(300)));
        assert_eq!(case.tube.bury(0).unwrap().state, State::Buried);
        case.advance(1000);
        assert_eq!(case.state(0), Some(State::Buried));
        assert_eq!(case.tube.kick(1).unwrap(), 1);
        assert_eq!(case.state(0), Some(State::Ready));
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.calls().get("delay"), None);
    });
}

/// D05
#[test]
fn a_buried_task_buried_again_stays_as_it_is() {
    each(ALL, |case| {
        case.put_all([0]);
        case.tube.bury(0).unwrap();
        let record = case.record();
        let receipt = case.tube.bury(0).unwrap();
        assert_eq!((receipt.id, receipt.state), (0, State::Buried));
        assert_eq!(record.read(), []);
        assert_eq!(case.calls(), counts([("put", 1), ("bury", 1)]));
    });
}

/// D06, D13, D16
#[test]
fn a_task_that_does_not_exist_is_not_found() {
    each(ALL, |case| {
        assert_not_found(case.tube.bury(99), 99);
        assert_not_found(case.tube.delete(99), 99);
        assert_not_found(case.tube.peek(99), 99);
        assert_not_found(case.tube.peek(u64::MAX), u64::MAX);
        assert_eq!(case.calls(), counts([]));
    });
}

/// D07
#[test]
fn a_kicked_task_is_ready() {
    each(ALL, |case| {
        case.put_all([0]);
        case.tube.bury(0).unwrap();
        assert_eq!(case.tube.kick(1).unwrap(), 1);
        assert_eq!(case.state(0), Some(State::Ready));
    });
}

/// D08, Q04, Q05
/// Here: fewer than none cannot be asked for.
#[test]
fn a_kick_of_nothing_kicks_nothing() {
    each(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.tube.kick(10).unwrap(), 0);
        case.tube.bury(0).unwrap();
        assert_eq!(case.tube.kick(0).unwrap(), 0);
        assert_eq!(case.state(0), Some(State::Buried));
    });
}

/// Q06
/// Here: a kick past the end has begun nothing, so what comes after it is in the file as ever.
#[test]
fn what_comes_after_a_kick_past_the_end_is_kept() {
    for driver in ALL {
        let disk = Disk::new();
        let store = disk.open();
        let tube = store.create_tube("case", driver, tubewell::TubeOptions::default()).unwrap();
        let kicked = tube.put("kicked").unwrap().id;
        tube.bury(kicked).unwrap();
        assert_eq!(tube.kick(5).unwrap(), 1);
        assert_eq!(tube.kick(5).unwrap(), 0);
        let after = tube.put("after it").unwrap().id;
        drop(tube);
        let store = disk.reopen(store);
        let tube = store.tube("case").unwrap();
        for id in [kicked, after] {
            assert_eq!(take(&tube), Some(id));
            tube.ack(id).unwrap();
        }
        assert_sound(&store);
    }
}

/// D09, Q05
#[test]
fn the_lowest_ids_are_kicked_first_and_no_more_than_there_are() {
    each(ALL, |case| {
        case.put_all([0, 1, 2, 3]);
        for id in [3, 1, 0, 2] {
            case.tube.bury(id).unwrap();
        }
        assert_eq!(case.tube.kick(3).unwrap(), 3);
        assert_eq!(case.state(3), Some(State::Buried));
        assert_eq!(case.tube.kick(u64::MAX).unwrap(), 1);
        assert_eq!(case.take_all(), [0, 1, 2, 3]);
        assert_eq!(case.calls().get("kick"), Some(&4));
    });
}

/// D10, G07
#[test]
fn kicked_tasks_go_to_those_who_wait() {
    each(ALL, |case| {
        case.put_all([0, 1, 2, 3]);
        for id in 0..4 {
            case.tube.bury(id).unwrap();
        }
        let waiting = [case.wait(), case.wait(), case.wait()];
        assert_eq!(case.tube.kick(3).unwrap(), 3);
        assert_eq!(waiting.map(Waiting::id), [Some(0), Some(1), Some(2)]);
        for id in 0..3 {
            assert_eq!(case.state(id), Some(State::Taken));
        }
        assert_eq!(case.state(3), Some(State::Buried));
    });
}

/// D12
#[test]
fn a_task_is_deleted_in_every_state() {
    each(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.bury(1).unwrap();
        let mut last = 2;
        if case.timed() {
            last = case.add(case.draft("late").delay(secs(10)));
            assert_eq!(case.state(last), Some(State::Delayed));
        }
        for id in 0..=last {
            let receipt = case.tube.delete(id).unwrap();
            assert_eq!((receipt.id, receipt.state), (id, State::Done));
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
fn anybody_may_delete_a_taken_task() {
    each(ALL, |case| {
        case.put_all([0]);
        let holder = case.stranger();
        assert_eq!(take(&holder), Some(0));
        assert_eq!(case.tube.delete(0).unwrap().state, State::Done);
        assert_not_taken(holder.ack(0), 0);
    });
}

/// D15
#[test]
fn peek_shows_every_state_and_changes_nothing() {
    each(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.bury(1).unwrap();
        let mut expected = vec![State::Taken, State::Buried, State::Ready];
        if case.timed() {
            case.add(case.draft("task 3").delay(secs(10)));
            expected.push(State::Delayed);
        }
        let before = (case.tasks(), case.calls());
        let record = case.record();
        for _ in 0..2 {
            for (id, state) in (0..).zip(&expected) {
                let task = case.tube.peek(id).unwrap();
                assert_eq!(task.info.state, *state);
                assert_eq!(task.data, format!("task {id}").into_bytes());
            }
        }
        assert_eq!((case.tasks(), case.calls()), before);
        assert_eq!(record.read(), []);
        case.tube.ack(0).unwrap();
    });
}

/// D18
#[test]
fn a_task_comes_back_from_its_burial_unchanged() {
    each(ALL, |case| {
        case.put("before");
        case.put("the one");
        case.tube.bury(1).unwrap();
        assert_eq!(case.tube.kick(1).unwrap(), 1);
        assert_eq!(case.take(), Some(0));
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!((claim.id(), claim.data()), (1, &b"the one"[..]));
        claim.ack().unwrap();
    });
}

/// B13, D09
#[test]
fn a_kick_of_one_reports_the_one_that_it_kicked() {
    each(&[FIFO, UTUBE], |case| {
        case.put_all([0, 1]);
        case.tube.bury(1).unwrap();
        case.tube.bury(0).unwrap();
        let record = case.record();
        assert_eq!(case.tube.kick(1).unwrap(), 1);
        assert_eq!(record.read(), [(0, EventKind::Kick, State::Ready)]);
        assert_eq!(case.state(1), Some(State::Buried));
    });
}

/// Here: a kick that names its task.
#[test]
fn kick_task_kicks_the_named_task_alone() {
    each(ALL, |case| {
        case.put_all([0, 1, 2]);
        for id in [0, 1, 2] {
            case.tube.bury(id).unwrap();
        }
        let record = case.record();
        let receipt = case.tube.kick_task(1).unwrap();
        assert_eq!((receipt.id, receipt.state), (1, State::Ready));
        assert_eq!(record.read(), [(1, EventKind::Kick, State::Ready)]);
        assert_eq!([0, 1, 2].map(|id| case.state(id).unwrap()), {
            [State::Buried, State::Ready, State::Buried]
        });
        assert_eq!(case.calls(), counts([("put", 3), ("bury", 3), ("kick", 1)]));
        assert_eq!(case.tasks(), counts([("ready", 1), ("buried", 2), ("total", 3)]));
        assert_eq!(case.take_all(), [1]);
    });
}

#[test]
fn kick_task_gives_the_task_to_a_waiting_taker_in_its_old_place() {
    each(ALL, |case| {
        case.put_all([0, 1, 2]);
        case.tube.bury(1).unwrap();
        case.tube.deferred(WhenFull::Block).kick_task(1).unwrap().wait().unwrap();
        assert_eq!(case.take_all(), [0, 1, 2]);
        case.tube.bury(2).unwrap();
        let waiting = case.wait();
        assert_eq!(case.tube.kick_task(2).unwrap().state, State::Ready);
        assert_eq!(waiting.id(), Some(2));
    });
}

#[test]
fn kick_task_refuses_tasks_that_are_missing_or_not_buried() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        assert_eq!(case.take(), Some(0));
        let mut ids = vec![0, 1];
        if case.timed() {
            ids.push(case.add(case.draft("late").delay(secs(10))));
        }
        let (tasks, calls, record) = (case.tasks(), case.calls(), case.record());
        for id in ids {
            assert_eq!(case.tube.kick_task(id), Err(Error::NotBuried { id }));
        }
        assert_not_found(case.tube.kick_task(99), 99);
        assert_eq!((case.tasks(), case.calls()), (tasks, calls));
        assert_eq!(record.read(), []);
        case.tube.ack(0).unwrap();
        assert_not_found(case.tube.kick_task(0), 0);
    });
}

#[test]
fn kick_task_survives_a_restart() {
    for driver in ALL {
        let disk = Disk::new();
        let store = disk.open();
        let tube = store.create_tube("case", driver, tubewell::TubeOptions::default()).unwrap();
        for id in 0..3 {
            assert_eq!(tube.put("x").unwrap().id, id);
            tube.bury(id).unwrap();
        }
        tube.kick_task(2).unwrap();
        drop(tube);
        let store = disk.reopen(store);
        let tube = store.tube("case").unwrap();
        assert_eq!(take(&tube), Some(2));
        assert_eq!(take(&tube), None);
        assert_sound(&store);
    }
}
