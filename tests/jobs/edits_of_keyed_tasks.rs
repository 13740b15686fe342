//! Changes and deletes of tasks with a key.

use tubewell::{Error, Failure, Filter, Put, TaskState, Update};

use super::files::create;
use super::support::*;

#[test]
fn changed_task_keeps_its_key() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").key("a").priority(5));
        let found = || case.store.by_key("a").unwrap().map(|task| task.id);
        let update = |update: Update| _ = case.tube.update(id, update).unwrap();
        case.tube.admin().set_priority(id, 1).unwrap();
        assert_eq!(found(), Some(id));
        update(Update::new().body(vec![1; 3000]).delay(secs(1)));
        assert_eq!(found(), Some(id));
        update(Update::new().delay(ZERO));
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube.admin().set_priority(id, 7).unwrap();
        claim.bury(Failure::new("g", "message")).unwrap();
        case.tube.admin().set_priority(id, 3).unwrap();
        assert_eq!(case.tube.admin().kick(Filter::new().group("g")).unwrap(), 1);
        assert_eq!(found(), Some(id));
        let refused = case.tube.put(case.draft("y").key("a"));
        assert!(matches!(refused, Err(Error::KeyInUse { .. })), "{refused:?}");
        assert_eq!(case.info(id).key.as_deref(), Some("a"));
    });
}

#[test]
fn key_of_deleted_task_is_free() {
    type Delete = fn(&Case, u64);
    let deletes: [Delete; 4] = [
        |case, id| _ = case.tube.cancel(id).unwrap(),
        |case, id| _ = case.tube.admin().delete(Filter::from(id).state(TaskState::Ready)).unwrap(),
        |case, id| assert_eq!(case.tube.admin().delete(Filter::new().ids([id, id])).unwrap(), 1),
        |case, _| {
            assert_eq!(case.tube.admin().delete(Filter::new().state(TaskState::Ready)).unwrap(), 1);
        },
    ];
    for delete in deletes {
        for_each_driver(ALL, |case| {
            for _ in 0..2 {
                let id = case.add(case.draft("x").key("a"));
                delete(case, id);
                assert_eq!(case.store.by_key("a").unwrap(), None);
            }
        });
    }
}

#[test]
fn keyed_task_with_new_priority_is_found_after_a_reopen() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let id = tube.put(Put::new("x").key("a").priority(9)).unwrap().id;
        tube.admin().set_priority(id, 2).unwrap();
        drop(tube);
        let store = file.reopen(store);
        let task = store.by_key("a").unwrap().unwrap();
        assert_eq!((task.id, task.priority), (id, 2));
        assert_sound(&store);
    }
}

/// The last claim holds the shared limit of its sub-queue until it ends, whatever its priority.
#[test]
fn taken_task_with_new_priority_holds_its_sub_queue_until_its_claim_ends() {
    for limit in [1, 2] {
        let options = tubewell::TubeOptions::new().sub_queue_limit(limit).shared_limits(true);
        for_each_driver_with(&[tubewell::UTUBETTL], options.clone(), |case| {
            let other =
                case.store.create_tube("other", options.clone().driver(case.driver)).unwrap();
            let put = |tube: &tubewell::Tube| {
                tube.put(Put::new("x").sub_queue("s").priority(5)).unwrap().id
            };
            let taken: Vec<u64> = (0..limit).map(|_| put(&case.tube)).collect();
            let claims = case.tube.take_many(9, ZERO).unwrap();
            assert!(claims.iter().map(tubewell::Claim::id).eq(taken.iter().copied()));
            let (next, elsewhere) = (put(&case.tube), put(&other));
            for id in &taken {
                case.tube.admin().set_priority(*id, 9).unwrap();
            }
            case.tube.admin().set_priority(next, 1).unwrap();
            other.admin().set_priority(elsewhere, 8).unwrap();
            assert_eq!((take(&case.tube), take(&other)), (None, None));
            drop(claims);
            assert_eq!(take(&case.tube), Some(next));
            case.tube.claimed(next).and_then(tubewell::Claim::ack).unwrap();
            assert_eq!(take(&other), Some(elsewhere));
            other.claimed(elsewhere).and_then(tubewell::Claim::ack).unwrap();
            for id in taken {
                assert_eq!(take(&case.tube), Some(id));
                case.tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
            }
        });
    }
}
