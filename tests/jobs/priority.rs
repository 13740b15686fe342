//! Priorities that change after the put.

use tubewell::{
    Durability, Error, EventKind, Failure, Filter, Keep, Outcome, Put, Store, TaskState,
    TubeOptions,
};

use super::executor::block_on;
use super::files::{create, create_with, draft};
use super::support::*;
use crate::stores;

/// Q035
/// Difference: the lowest number is the most urgent one.
#[test]
fn ready_task_with_new_priority_is_in_its_new_place() {
    for_each_driver(TIMED, |case| {
        let a = case.add(case.draft("a").priority(2));
        let b = case.add(case.draft("b").priority(1));
        let order = || {
            let claims = case.tube.take_many(10, ZERO).unwrap();
            claims.iter().map(tubewell::Claim::id).collect::<Vec<_>>()
        };
        assert_eq!(order(), [b, a]);
        assert_eq!(case.tube.admin().set_priority(a, 0).unwrap().state, TaskState::Ready);
        assert_eq!(order(), [a, b]);
        assert_eq!(case.info(a).priority, 0);
        case.tube.admin().set_priority(a, 7).unwrap();
        assert_eq!(order(), [b, a]);
        assert_eq!(case.calls()["update"], 2);
    });
}

/// Q041
#[test]
fn same_priority_again_changes_nothing() {
    for_each_driver(TIMED, |case| {
        let a = case.add(case.draft("a").priority(5));
        let b = case.add(case.draft("b").priority(5));
        let log = case.event_log();
        assert_eq!(case.tube.admin().set_priority(b, 5).unwrap().state, TaskState::Ready);
        assert_eq!(log.read(), []);
        assert_eq!(case.calls().get("update"), None);
        assert_eq!(case.take_all(), [a, b]);
        assert_eq!(case.tube.admin().set_priority(b, 5).unwrap().state, TaskState::Taken);
    });
}

/// Q041
#[test]
fn task_moved_to_priority_of_others_is_among_them_by_id() {
    for_each_driver(TIMED, |case| {
        let ids = [5, 1, 5, 1].map(|priority| case.add(case.draft("x").priority(priority)));
        case.tube.admin().set_priority(ids[0], 1).unwrap();
        case.tube.admin().set_priority(ids[1], 5).unwrap();
        assert_eq!(case.take_all(), [ids[0], ids[3], ids[1], ids[2]]);
    });
}

/// Q210
#[test]
fn set_priority_refuses_unknown_tasks_and_drivers_without_priorities() {
    for_each_driver(ALL, |case| {
        case.put("x");
        if case.timed() {
            assert_not_found(case.tube.admin().set_priority(7, 1), 7);
        } else {
            assert_unsupported(case.tube.admin().set_priority(0, 1), case.driver);
            assert_unsupported(case.tube.admin().set_priority(7, 1), case.driver);
        }
        assert_eq!(case.info(0).priority, tubewell::DEFAULT_PRIORITY);
    });
}

/// Q211
#[test]
fn priority_is_stored_in_every_state() {
    let keep = TubeOptions::new().keep_done(Keep::new());
    let limited = keep.clone().keep_buried(Keep::new().count(10));
    for options in [keep, limited] {
        for driver in TIMED {
            let file = StoreFile::new();
            let (store, tube) = create_with(&file, driver, options.clone());
            let put = |put: Put| tube.put(put).unwrap().id;
            let [ready, taken, buried, failed, done] =
                ["ready", "taken", "buried", "failed", "done"]
                    .map(|name| put(draft(driver, name).priority(9)));
            let delayed = put(draft(driver, "delayed").priority(9).delay(secs(10)));
            let mut claim = tube.claim(taken).unwrap();
            tube.admin().bury(buried, None).unwrap();
            tube.claim(failed).unwrap().bury(Failure::new("group", "message")).unwrap();
            tube.claim(done).unwrap().end(Outcome::result("result")).unwrap();
            let states = [
                (ready, TaskState::Ready),
                (taken, TaskState::Taken),
                (buried, TaskState::Buried),
                (failed, TaskState::Buried),
                (done, TaskState::Done),
                (delayed, TaskState::Delayed),
            ];
            for (priority, (id, state)) in (1..).zip(states) {
                assert_eq!(tube.admin().set_priority(id, priority).unwrap().state, state);
                let info = tube.query().task(id).unwrap().info;
                assert_eq!((info.priority, info.state), (priority, state));
            }
            assert_eq!(claim.priority(), 9, "that of the take");
            claim.checkpoint("half done").unwrap();
            assert_sound(&store);
            drop((claim, tube));
            let store = file.reopen(store);
            let tube = store.find_tube("case").unwrap();
            for (priority, (id, _)) in (1..).zip(states) {
                assert_eq!(tube.query().task(id).unwrap().info.priority, priority, "{id}");
            }
            assert_eq!(tube.query().task(taken).unwrap().body, b"half done");
            assert_eq!(tube.admin().kick(Filter::new().limit(9)).unwrap(), 2);
            file.clock.advance(secs(10));
            let order = [ready, taken, buried, failed, delayed];
            assert_eq!(order.map(|_| take(&tube)), order.map(Some));
            assert_sound(&store);
        }
    }
}

/// Q211
#[test]
fn taken_task_with_new_priority_is_in_its_new_place_when_released() {
    for_each_driver(TIMED, |case| {
        let [a, b, c] = ["a", "b", "c"].map(|name| case.add(case.draft(name).priority(5)));
        let claim = case.tube.claim(c).unwrap();
        assert_eq!(case.tube.admin().set_priority(c, 1).unwrap().state, TaskState::Taken);
        assert!(claim.is_current().unwrap());
        assert_eq!(
            case.tube.query().list(TaskState::Taken, None, 10).unwrap().items[0].priority,
            1
        );
        claim.renew(secs(60)).unwrap();
        claim.release().unwrap();
        assert_eq!(case.take_all(), [c, a, b]);
        case.tube.admin().set_priority(a, 9).unwrap();
        case.tube.admin().release(Filter::new()).unwrap();
        assert_eq!(case.take_all(), [c, b, a]);
        case.tube.admin().set_priority(a, 0).unwrap();
        assert_eq!(
            case.tube.claimed(a).and_then(tubewell::Claim::ack).unwrap().state,
            TaskState::Done
        );
    });
}

/// Q042, Q146
/// Difference: there is no place before all others. A task that must come first gets a priority.
#[test]
fn revoked_task_is_taken_first_with_more_urgent_priority() {
    for_each_driver(TIMED, |case| {
        let old = case.add(case.draft("old").priority(205));
        let claim = case.tube.try_take().unwrap().unwrap();
        case.add(case.draft("urgent").priority(1));
        assert_eq!(case.tube.admin().revoke(old), Ok(1));
        case.tube.admin().set_priority(old, 0).unwrap();
        assert_not_taken(claim.ack(), old);
        assert_eq!(case.take(), Some(old));
    });
}

#[test]
fn parked_claim_stands_after_a_new_priority_and_a_reopen() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let id = tube.put(draft(driver, "parked").priority(5)).unwrap().id;
        let other = tube.put(draft(driver, "other").priority(2)).unwrap().id;
        let token = tube.claim(id).unwrap().park(secs(60)).unwrap();
        tube.admin().set_priority(id, 1).unwrap();
        drop(tube);
        let store = file.reopen(store);
        let claim = store.resume_claim(&token).unwrap();
        assert_eq!((claim.id(), claim.body(), claim.priority()), (id, &b"parked"[..], 1));
        claim.release().unwrap();
        let tube = store.find_tube("case").unwrap();
        assert_eq!([take(&tube), take(&tube)], [Some(id), Some(other)]);
        drop(tube);
        assert_sound(&store);
    }
}

#[test]
fn counted_attempt_of_task_with_new_priority_is_lost_with_its_process() {
    let options = TubeOptions::new().max_attempts(2);
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, options.clone());
        let id = tube.put(draft(driver, "x").priority(5)).unwrap().id;
        let claim = tube.try_take().unwrap().unwrap();
        tube.admin().set_priority(id, 1).unwrap();
        let (_killed, copy) = super::files::after_a_kill(&file);
        let info = copy.find_tube("case").unwrap().query().task(id).unwrap().info;
        assert_eq!((info.state, info.attempts, info.priority), (TaskState::Ready, 1, 1));
        assert_sound(&copy);
        drop(claim);
        assert_sound(&store);
    }
}

/// The best task of a free sub-queue changes, and a busy one stays busy.
#[test]
fn priorities_within_one_sub_queue_choose_its_next_task() {
    for_each_driver(&[tubewell::UTUBETTL], |case| {
        let put = |priority| case.add(Put::new("x").sub_queue("one").priority(priority));
        let ids: Vec<u64> = (0..20).map(|_| put(10)).collect();
        case.tube.admin().set_priority(ids[19], 1).unwrap();
        assert_eq!(case.take_all(), [ids[19]]);
        case.tube.admin().set_priority(ids[12], 0).unwrap();
        case.tube.admin().set_priority(ids[0], 11).unwrap();
        case.tube.admin().set_priority(ids[19], 12).unwrap();
        assert_eq!(case.take(), None, "the sub-queue is busy");
        case.tube.claimed(ids[19]).and_then(tubewell::Claim::release).unwrap();
        let mut order = Vec::new();
        while let Some(id) = case.take() {
            order.push(id);
            case.tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
        }
        let middle = (1..19).filter(|n| *n != 12).map(|n| ids[n]);
        let expected: Vec<u64> =
            [ids[12]].into_iter().chain(middle).chain([ids[0], ids[19]]).collect();
        assert_eq!(order, expected);
    });
}

/// Some of the tasks are in memory for the next takes, and most are not.
#[test]
fn tasks_of_a_long_backlog_are_taken_by_their_new_priorities() {
    for_each_driver(TIMED, |case| {
        let many: Vec<Put> = (0..5000).map(|_| case.draft("x").priority(500)).collect();
        let ids: Vec<u64> =
            case.tube.put_many(many).unwrap().iter().map(|receipt| receipt.id).collect();
        assert_eq!(case.take(), Some(ids[0]));
        for (priority, nth) in [(3, 4_999), (2, 2_500), (1, 20), (0, 1), (900, 2), (800, 3_000)] {
            case.tube.admin().set_priority(ids[nth], priority).unwrap();
        }
        assert_eq!(case.take(), Some(ids[1]));
        case.tube.admin().set_priority(ids[3], 499).unwrap();
        let taken = case.take_all();
        assert_eq!(taken[..5], [ids[20], ids[2_500], ids[4_999], ids[3], ids[4]]);
        assert_eq!(taken[taken.len() - 2..], [ids[3_000], ids[2]]);
        assert_eq!(taken.len(), 4_998);
    });
}

#[test]
fn new_priority_is_one_event_in_each_state() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").priority(5));
        let log = case.event_log();
        case.tube.admin().set_priority(id, 4).unwrap();
        case.take();
        case.tube.admin().set_priority(id, 3).unwrap();
        case.tube.admin().bury(id, None).unwrap();
        case.tube.admin().set_priority(id, 2).unwrap();
        let update = EventKind::Update;
        assert_eq!(
            log.read(),
            [
                (id, update, TaskState::Ready),
                (id, EventKind::Take, TaskState::Taken),
                (id, update, TaskState::Taken),
                (id, EventKind::Bury, TaskState::Buried),
                (id, update, TaskState::Buried),
            ]
        );
    });
}

/// Its earlier changes are still to be flushed, or nothing waits for a flush.
#[test]
fn deferred_priorities_of_one_task_are_in_order() {
    for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
        let options = TubeOptions::new().durability(durability);
        for driver in TIMED {
            let file = StoreFile::new();
            let (store, tube) = create_with(&file, driver, options.clone());
            tube.put(draft(driver, "other").priority(5)).unwrap();
            let deferred = tube.to_async();
            let put = deferred.put(draft(driver, "x").priority(9));
            let tickets = [7, 8, 1].map(|priority| deferred.admin().set_priority(1, priority));
            let id = block_on(put).unwrap().id;
            for ticket in tickets {
                assert_eq!(block_on(ticket).unwrap().id, id);
            }
            assert_eq!(take(&tube), Some(id));
            assert_eq!(tube.statistics().unwrap().calls.update, 3);
            assert_sound(&store);
        }
    }
}

#[test]
fn set_priority_of_expired_task_is_not_found() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").ttl(ZERO));
        assert_not_found(case.tube.admin().set_priority(id, 1), id);
        assert_not_found(case.tube.update(id, tubewell::Update::new().priority(1)), id);
    });
}

/// A driver of the application that is not registered in this run.
#[test]
fn set_priority_needs_the_driver_and_its_order() {
    struct ByLength;
    impl tubewell::driver::Driver for ByLength {
        fn name(&self) -> &'static str {
            "by-length"
        }
        fn traits(&self) -> tubewell::driver::Traits {
            tubewell::driver::Traits { timed: true, ..tubewell::driver::Traits::default() }
        }
        fn order(&self, task: &tubewell::driver::Draft<'_>) -> u64 {
            u64::from(task.priority) * 10_000 + task.body.len() as u64
        }
    }
    let file = StoreFile::new();
    let store: Store = file.open();
    stores::owner(&store).admin().register_driver(ByLength).unwrap();
    let tube = store.create_tube("case", TubeOptions::new().driver("by-length")).unwrap();
    let put = |body: &[u8]| tube.put(Put::new(body).priority(1)).unwrap().id;
    let [long, short, middle] = [&[b'x'; 3000][..], b"x", b"xx"].map(put);
    tube.admin().set_priority(long, 0).unwrap();
    tube.admin().set_priority(short, 2).unwrap();
    tube.admin().set_priority(middle, 2).unwrap();
    drop(tube);
    let store = file.reopen(store);
    let tube = store.find_tube("case").unwrap();
    assert!(matches!(tube.admin().set_priority(long, 1), Err(Error::DriverUnknown { .. })));
    stores::owner(&store).admin().register_driver(ByLength).unwrap();
    let update = tubewell::Update::new().body([b'y'; 5000]);
    tube.update(short, update).unwrap();
    assert_eq!([take(&tube), take(&tube), take(&tube)], [long, middle, short].map(Some));
    assert_sound(&store);
}
