//! Updates of tasks that wait: body, priority and delay.

use tubewell::{
    Error, EventKind, Failure, Filter, Keep, MAX_BODY, Outcome, Put, TaskState, TubeOptions, Update,
};

use super::executor::block_on;
use super::files::{create, draft, failure, groups};
use super::support::*;

fn body(case: &Case, id: u64) -> Vec<u8> {
    case.tube.query().task(id).unwrap().body.to_vec()
}

/// Sizes on both sides of the limit up to which a body is in the record of its task.
#[test]
fn new_body_replaces_the_old_one_in_each_state() {
    let sizes = [0, 1, 1000, 1024, 1025, 50_000];
    for_each_driver(ALL, |case| {
        let [ready, buried] = [case.put("x"), case.put("x")];
        case.tube.admin().bury(buried, None).unwrap();
        let mut ids = vec![ready, buried];
        if case.timed() {
            ids.push(case.add(case.draft("x").delay(secs(1))));
        }
        for id in ids {
            for size in sizes.into_iter().chain(sizes.into_iter().rev()) {
                let new = vec![u8::try_from(size % 251).unwrap(); size];
                case.tube.update(id, Update::new().body(new.clone())).unwrap();
                assert_eq!(body(case, id), new);
                assert_eq!(case.info(id).size, size as u64);
            }
            case.tube.update(id, Update::new().body("last")).unwrap();
        }
        case.advance(1000);
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        for claim in case.tube.take_many(10, ZERO).unwrap() {
            assert_eq!(claim.body(), b"last");
            claim.ack().unwrap();
        }
    });
}

#[test]
fn updated_task_survives_a_reopen() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        let id = tube.put(draft(driver, "x")).unwrap().id;
        let large = vec![7; 5000];
        tube.update(id, Update::new().body(large.clone())).unwrap();
        let (_killed, copy) = super::files::after_a_kill(&file);
        assert_eq!(copy.find_tube("case").unwrap().query().task(id).unwrap().body.to_vec(), large);
        assert_sound(&copy);
        drop(tube);
        let store = file.reopen(store);
        let claim = store.find_tube("case").unwrap().try_take().unwrap().unwrap();
        assert_eq!(claim.body(), large);
        claim.ack().unwrap();
        assert_sound(&store);
    }
}

#[test]
fn update_of_several_fields_is_one_change() {
    for_each_driver(TIMED, |case| {
        let first = case.add(case.draft("a").priority(5));
        let second = case.add(case.draft("b").priority(5));
        let log = case.event_log();
        let all = Update::new().body("new").priority(1).delay(secs(10));
        assert_eq!(case.tube.update(second, all).unwrap().state, TaskState::Delayed);
        assert_eq!(log.read(), [(second, EventKind::Update, TaskState::Delayed)]);
        assert_eq!(case.take_all(), [first]);
        case.tube.claimed(first).and_then(tubewell::Claim::release).unwrap();
        case.advance(9_999);
        assert_eq!(case.info(second).due_in, Some(ms(1)));
        case.advance(1);
        assert_eq!(case.take_all(), [second, first]);
        assert_eq!(body(case, second), b"new");
        assert_eq!(case.calls()["update"], 1);
    });
}

/// A waiting take gets the task that an update makes ready.
#[test]
fn update_without_delay_makes_delayed_task_ready() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").delay(secs(3600)));
        let waiting = case.begin_take();
        case.tube.update(id, Update::new().delay(secs(1800))).unwrap();
        assert_eq!(case.info(id).due_in, Some(secs(1800)));
        assert_eq!(
            case.tube.update(id, Update::new().delay(ZERO)).unwrap().state,
            TaskState::Ready
        );
        assert_eq!(waiting.id(), Some(id));
    });
}

/// The ttl begins when the delay elapses, as after a put.
#[test]
fn new_delay_moves_the_end_of_the_ttl() {
    for_each_driver(TIMED, |case| {
        let put = |delay| case.add(case.draft("x").ttl(secs(5)).delay(delay));
        let [ready, later, sooner] = [put(ZERO), put(secs(10)), put(secs(10))];
        case.advance(4_000);
        let delay = |id, delay| _ = case.tube.update(id, Update::new().delay(delay)).unwrap();
        delay(ready, secs(10)); // has 1 s left
        delay(later, secs(20));
        delay(sooner, secs(1));
        let left = |id| case.info(id).ttl_left.unwrap();
        assert_eq!([left(ready), left(later), left(sooner)], [secs(11), secs(25), secs(6)]);
        case.advance(6_000);
        assert_eq!(case.state(sooner), None);
        case.advance(5_000);
        assert_eq!(case.state(ready), None);
        case.advance(13_999);
        assert_eq!(case.state(later), Some(TaskState::Ready));
        case.advance(1);
        assert_eq!(case.state(later), None);
    });
}

#[test]
fn delay_without_an_end_is_replaced_by_one_with_an_end() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").delay(std::time::Duration::MAX));
        case.tube.update(id, Update::new().delay(secs(1))).unwrap();
        assert_eq!(case.info(id).ttl_left, None);
        case.tube.update(id, Update::new().delay(std::time::Duration::MAX)).unwrap();
        assert_eq!(case.info(id).due_in, Some(std::time::Duration::MAX));
        case.advance(100_000);
        assert_eq!(case.take(), None);
        case.tube.update(id, Update::new().delay(ZERO)).unwrap();
        assert_eq!(case.take(), Some(id));
    });
}

#[test]
fn update_of_taken_done_or_unknown_task_is_refused() {
    for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
        case.put_all([0, 1]);
        let done = case.tube.claim(0).unwrap();
        done.end(Outcome::result("result")).unwrap();
        let claim = case.tube.claim(1).unwrap();
        let update = || Update::new().body("new");
        for (id, state) in [(0, TaskState::Done), (1, TaskState::Taken)] {
            let refused = case.tube.update(id, update()).unwrap_err();
            assert!(matches!(&refused, Error::NotReady { id: named, state: its, .. }
                if (*named, *its) == (id, state)));
            assert!(case.tube.update(id, Update::new()).is_err());
            let deferred = case.tube.to_async().update(id, update()).wait();
            assert_eq!(deferred.err(), Some(refused));
        }
        assert_not_found(case.tube.update(2, update()), 2);
        assert_eq!(claim.body(), b"task 1");
        assert_eq!([body(case, 0), body(case, 1)], [b"task 0", b"task 1"]);
        claim.ack().unwrap();
    });
}

#[test]
fn refused_update_changes_nothing_of_the_task() {
    for_each_driver(ALL, |case| {
        case.put("x");
        let update = Update::new().body("new");
        if !case.timed() {
            assert_unsupported(case.tube.update(0, update.clone().priority(0)), case.driver);
            assert_unsupported(case.tube.update(0, update.clone().delay(ZERO)), case.driver);
        }
        let large = case.tube.update(0, Update::new().body(vec![0; MAX_BODY + 1]));
        assert!(matches!(large, Err(Error::Invalid { .. })));
        case.tube.admin().bury(0, None).unwrap();
        if case.timed() {
            let refused = case.tube.update(0, update.priority(7).delay(secs(1)));
            assert!(matches!(refused, Err(Error::NotReady { state: TaskState::Buried, .. })));
        }
        assert_eq!(
            (body(case, 0), case.info(0).priority),
            (b"x".to_vec(), tubewell::DEFAULT_PRIORITY)
        );
        assert_eq!(case.calls().get("update"), None);
    });
}

#[test]
fn empty_update_returns_the_state_and_changes_nothing() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        case.tube.admin().bury(1, None).unwrap();
        let log = case.event_log();
        assert_eq!(case.tube.update(0, Update::new()).unwrap().state, TaskState::Ready);
        assert_eq!(case.tube.update(1, Update::new()).unwrap().state, TaskState::Buried);
        assert_eq!(log.read(), []);
    });
}

#[test]
fn updated_buried_task_keeps_its_group_and_its_failure() {
    for limit in [TubeOptions::new(), TubeOptions::new().keep_buried(Keep::new().count(2))] {
        for_each_driver_with(TIMED, limit, |case| {
            for _ in 0..2 {
                case.put("x");
            }
            for claim in case.tube.take_many(2, ZERO).unwrap() {
                claim.bury(Failure::new("timeout", "no answer")).unwrap();
                case.advance(1);
            }
            case.tube.update(0, Update::new().body(vec![1; 2000]).priority(900)).unwrap();
            assert_eq!(groups(&case.tube), [("timeout".to_owned(), 2)]);
            assert_eq!(failure(&case.tube, 0).unwrap().1, "no answer");
            let page = case
                .tube
                .query()
                .list(Filter::new().group("timeout").newest_first(), None, 10)
                .unwrap();
            assert!(page.items.iter().map(|task| task.id).eq([1, 0]));
            // The wait has its answer, since the task is buried.
            assert!(case.tube.wait_done(0, ZERO).unwrap().is_some());
            assert_eq!(case.tube.admin().kick(Filter::new().limit(2)).unwrap(), 2);
            assert_eq!(case.take_all(), [1, 0]);
        });
    }
}

#[test]
fn wait_for_the_end_of_a_task_outlives_its_updates() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").delay(secs(1)));
        let mut wait = std::pin::pin!(case.tube.to_async().wait_done(id, NO_TIMEOUT));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(wait.as_mut().poll(&mut context).is_pending());
        case.tube.update(id, Update::new().delay(ZERO)).unwrap();
        assert!(wait.as_mut().poll(&mut context).is_pending());
        case.tube.try_take().unwrap().unwrap().end(Outcome::result("result")).unwrap();
        let result = Some(b"result".to_vec());
        assert_eq!(block_on(wait), Ok(Some(tubewell::Ending::Done { result })));
    });
}

#[test]
fn update_moves_the_best_task_of_a_sub_queue_away() {
    for_each_driver(&[tubewell::UTUBETTL], |case| {
        let put = |priority| case.add(Put::new("x").sub_queue("one").priority(priority));
        let [first, second, third] = [put(1), put(2), put(3)];
        case.tube.update(first, Update::new().delay(secs(1))).unwrap();
        assert_eq!(case.take(), Some(second));
        case.tube.update(third, Update::new().priority(0)).unwrap();
        case.advance(1000);
        case.tube.claimed(second).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(third));
        case.tube.claimed(third).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.take(), Some(first));
    });
}

#[test]
fn typed_update_encodes_its_value() {
    let store = store_in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(tubewell::FIFOTTL)).unwrap();
    let numbers = tube.typed::<u64>();
    let [one, two] = [1, 2].map(|number| numbers.put(number).unwrap().id);
    numbers.update(one, Update::new().body(11_u64).priority(500)).unwrap();
    let deferred = numbers.to_async();
    deferred.update(two, Update::new().body(22_u64)).wait().unwrap();
    let values: Vec<u64> =
        numbers.take_many(9, ZERO).unwrap().iter().map(|claim| *claim.value()).collect();
    assert_eq!(values, [22, 11]);
    assert_sound(&store);
}
