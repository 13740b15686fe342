//! Delete of tasks and drop of tubes: cancel and forget.

use tubewell::{Error, TaskState, TubeOptions};

use super::support::*;

/// Q090
#[test]
fn delete_removes_task_in_every_state() {
    for_each_driver(ALL, |case| {
        let mut states = vec![TaskState::Taken, TaskState::Buried, TaskState::Ready];
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.admin().bury(1, None).unwrap();
        if case.timed() {
            case.add(case.draft("x").delay(secs(10)));
            states.push(TaskState::Delayed);
        }
        for (id, state) in (0..).zip(&states) {
            assert_eq!(case.state(id), Some(*state));
            assert_eq!(case.tube.delete(id).unwrap().state, TaskState::Done);
            assert_eq!(case.state(id), None);
            assert_eq!(case.tube.query().list(*state, None, 10).unwrap().items, []);
        }
        assert_eq!(case.tasks(), counts([("done", states.len() as u64)]));
        case.advance(20_000);
        assert_eq!(case.take(), None);
    });
}

/// Q091
#[test]
fn renew_and_touch_of_deleted_task_are_refused() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(secs(60)));
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube.delete(0).unwrap();
        assert_not_taken(claim.renew(secs(60)), 0);
        assert_not_taken(claim.touch(secs(60)), 0);
        assert_not_taken(case.tube.claimed(0).and_then(|claim| claim.renew(secs(60))), 0);
        assert_not_taken(claim.ack(), 0);
        assert_eq!(case.calls(), counts([("put", 1), ("take", 1), ("delete", 1)]));
        assert_eq!(case.state(0), None);
    });
}

/// Q201
#[test]
fn dropped_tube_is_not_listed() {
    for_each_driver(ALL, |case| {
        let names =
            || case.store.tubes().unwrap().into_iter().map(|tube| tube.name).collect::<Vec<_>>();
        case.store.create_tube("other", TubeOptions::default().driver(case.driver)).unwrap();
        assert_eq!(names(), ["case", "other"]);
        case.store.drop_tube("other").unwrap();
        assert_eq!(names(), ["case"]);
    });
}

/// Q201
/// Difference: a tube with tasks is dropped, unless it is in use: a task of it is taken, or a call
/// waits in it.
#[test]
fn drop_of_tube_with_tasks_fails_only_while_it_is_in_use() {
    for_each_driver(ALL, |case| {
        let assert_busy = || match case.store.drop_tube("case") {
            Err(Error::TubeBusy { name, .. }) => assert_eq!(name, "case"),
            other => panic!("not refused: {other:?}"),
        };
        case.put_all([0, 1, 2]);
        case.tube.admin().bury(2, None).unwrap();
        assert_eq!(case.take_all(), [0, 1]);
        assert_busy();
        assert_eq!(case.store.tubes().unwrap().len(), 1);
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_busy();
        case.tube.claimed(1).and_then(tubewell::Claim::release).unwrap();

        let waiting = case.store.create_tube("waiting", TubeOptions::default().driver(case.driver));
        let waiting = WaitingTake::begin(waiting.unwrap().to_async().take_timeout(NO_TIMEOUT));
        assert!(matches!(case.store.drop_tube("waiting"), Err(Error::TubeBusy { .. })));
        drop(waiting);
        case.store.drop_tube("waiting").unwrap();

        assert_eq!(case.tasks(), counts([("ready", 2), ("buried", 1), ("total", 3)]));
        case.store.drop_tube("case").unwrap();
        assert_eq!(case.store.tubes().unwrap().len(), 0);
        assert_eq!(
            case.tube.query().task(0).err(),
            Some(Error::TubeDropped { name: "case".into() })
        );
    });
}
