//! Keys across tubes: a task that is put again through another tube moves there, and the tasks that
//! a finish puts have keys.

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL, UTUBETTL};
use tubewell::{
    Claim, Durability, Ending, Error, EventKind, Failure, Keep, OnKey, Outcome, Put, Session,
    Store, TaskState, Tube, TubeOptions,
};

use super::files::{attempts, failure};
use super::support::*;
use super::wait::{Wait, end_of, wait_for};

/// A task that replaces the one with the key `k`.
fn again(put: Put) -> Put {
    put.key("k").on_key(OnKey::Replace)
}

fn other_tube(case: &Case, options: TubeOptions) -> Tube {
    case.store.create_tube("other", options.driver(case.driver)).unwrap()
}

/// The tube and the id of the task that has a key.
fn place(store: &Store, key: &str) -> Option<(String, u64)> {
    store.by_key(key).unwrap().map(|task| (task.tube, task.id))
}

/// The refusal of a finish, and the claim, which stands.
fn refused_finish(session: &Session, tube: &Tube, claim: Claim, finish: Outcome) -> (Claim, Error) {
    let of_session = session.tube(tube).unwrap();
    let id = claim.detach().info.id;
    let refused = of_session.claimed(id).unwrap().end(finish).unwrap_err();
    (of_session.claimed(id).unwrap(), refused)
}

fn is_in_use<T>(answer: tubewell::Result<T>, id: u64) -> bool {
    matches!(answer.err(), Some(Error::KeyInUse { id: named, .. }) if named == id)
}

/// Brings a task into a state.
type Reach = fn(&Tube, u64);

/// Q009 Q021
/// Difference: the attempts are forgiven, and the number of takes stays.
#[test]
fn task_put_again_through_another_tube_moves_there() {
    let options = || TubeOptions::default().max_attempts(3).keep_done(Keep::new());
    for_each_driver_with(ALL, options(), |case| {
        let other = other_tube(case, options());
        let states: [Reach; 4] = [
            |_, _| {},
            |tube, id| assert_eq!(take(tube), Some(id)),
            |tube, id| assert_eq!(tube.admin().bury(id, None).unwrap().id, id),
            |tube, id| {
                assert_eq!(tube.admin().resolve(id, Outcome::result(b"result")).unwrap().id, id);
            },
        ];
        for (nth, reach) in states.into_iter().enumerate() {
            let id = case.add(again(case.draft("old")));
            reach(&case.tube, id);
            let requeued = if nth % 2 == 0 {
                other.put(again(case.draft("new"))).unwrap()
            } else {
                other.requeue("k", case.draft("new")).unwrap()
            };
            assert_eq!((requeued.id, requeued.state), (id, TaskState::Ready));
            assert_eq!(place(&case.store, "k"), Some(("other".to_owned(), id)));
            assert_not_found(case.tube.query().task(id), id);
            assert_eq!(other.query().task(id).unwrap().body, b"new");
            assert_eq!(attempts(&other, id), (0, Some(3)));
            assert_eq!(other.ending(id).unwrap(), None);
            assert_eq!(case.tube.statistics().unwrap().tasks.total, 0);
            assert_sound(&case.store);
            assert_eq!(take(&other), Some(id));
            other.delete(id).unwrap();
        }
        assert_eq!(other.statistics().unwrap().calls.put, 4);
        assert_eq!(other.statistics().unwrap().calls.arrive, 4);
    });
}

/// Q010 Q011
#[test]
fn task_put_again_elsewhere_keeps_the_options_that_the_put_leaves_out() {
    for_each_driver(&[UTUBETTL], |case| {
        let other = other_tube(case, TubeOptions::default().priority(7).ttr(secs(9)));
        let put = Put::new("old").key("k").priority(1).sub_queue("s").ttr(secs(5)).max_attempts(2);
        let id = case.add(put);
        other.put(again(Put::new("new".into()))).unwrap();
        let info = other.query().task(id).unwrap().info;
        assert_eq!((info.priority, info.sub_queue.as_deref()), (1, Some("s")));
        assert_eq!((info.ttr, info.attempts_left), (Some(secs(5)), Some(2)));

        case.add(again(
            Put::new("newer".into()).priority(2).sub_queue("t").ttr(secs(6)).max_attempts(3),
        ));
        let info = case.info(id);
        assert_eq!((info.priority, info.sub_queue.as_deref()), (2, Some("t")));
        assert_eq!((info.ttr, info.attempts_left), (Some(secs(6)), Some(3)));

        // What the tube does not have, the task leaves behind.
        let plain = case.store.create_tube("plain", TubeOptions::default().driver(FIFO)).unwrap();
        plain.put(again(Put::new("plain".into()))).unwrap();
        let info = plain.query().task(id).unwrap().info;
        assert_eq!(
            (info.priority, info.sub_queue, info.ttr),
            (tubewell::DEFAULT_PRIORITY, None, None)
        );
        other.put(again(Put::new("timed".into()))).unwrap();
        assert_eq!(
            (
                other.query().task(id).unwrap().info.priority,
                other.query().task(id).unwrap().info.ttr
            ),
            (7, Some(secs(9)))
        );
    });
}

/// Q018
#[test]
fn task_put_again_elsewhere_is_lost_to_its_holder() {
    for durability in [Durability::Flush, Durability::write(), Durability::relaxed()] {
        let options = || TubeOptions::default().durability(durability);
        for_each_driver_with(TIMED, options(), |case| {
            let other = other_tube(case, TubeOptions::default());
            let id = case.add(again(case.draft("old").ttr(secs(10))));
            let log = case.event_log();
            let claim = case.tube.try_take().unwrap().unwrap();
            claim.renew(secs(60)).unwrap();
            let taker = WaitingTake::begin(other.to_async().take_timeout(NO_TIMEOUT));
            other.put(again(Put::new("new".into()))).unwrap();
            assert_not_taken(claim.renew(secs(60)).and(Ok(())), id);
            assert_not_taken(claim.ack(), id);
            let lost = (id, EventKind::Lost, TaskState::Ready);
            let events = [(id, EventKind::Take, TaskState::Taken), lost];
            assert_eq!(
                log.read(),
                [&events[..], &[(id, EventKind::Move, TaskState::Done)]].concat()
            );
            let taken = taker.answer().unwrap().unwrap();
            assert_eq!((taken.id(), taken.body()), (id, &b"new"[..]));
            assert_sound(&case.store);
            taken.ack().unwrap();
        });
    }
}

/// The claim on the task ends, and so does its hold on its sub-queue in the tube that it leaves.
#[test]
fn task_put_again_elsewhere_frees_its_sub_queue() {
    for_each_driver(SUB_QUEUED, |case| {
        let other = other_tube(case, TubeOptions::default());
        for is_taken in [false, true] {
            let id = case.add(Put::new("x").key("k").sub_queue("s"));
            let next = case.add(Put::new("y").sub_queue("s"));
            if is_taken {
                assert_eq!(case.take(), Some(id));
            }
            other.put(again(Put::new("z".into()))).unwrap();
            assert_eq!((case.take(), take(&other)), (Some(next), Some(id)));
            assert_sound(&case.store);
            case.tube.claimed(next).and_then(tubewell::Claim::ack).unwrap();
            other.claimed(id).and_then(tubewell::Claim::ack).unwrap();
        }
    });
}

#[test]
fn waits_and_failures_follow_a_task_that_is_put_again_elsewhere() {
    for_each_driver(ALL, |case| {
        let other = other_tube(case, TubeOptions::default());
        let id = case.add(again(case.draft("old")));
        let wait = wait_for(&case.tube, id);
        let timeout = Failure::new("timeout", "no answer");
        case.tube.try_take().unwrap().unwrap().fail(timeout).unwrap();
        other.put(again(case.draft("new"))).unwrap();
        wait.assert_waits();
        assert_eq!(failure(&other, id).unwrap().0, "timeout");
        other.try_take().unwrap().unwrap().end(Outcome::result("result")).unwrap();
        let result = Ending::Done { result: Some(b"result".to_vec()) };
        assert_eq!(wait.answer(), Ok(Some(result)));
    });
}

/// A temporary tube and one of the file have no common commit.
#[test]
fn task_does_not_move_between_the_file_and_memory() {
    for_each_driver(ALL, |case| {
        let temporary = other_tube(case, TubeOptions::default().temporary(true));
        let id = case.add(case.draft("x").key("k"));
        temporary.put(case.draft("y").key("l")).unwrap();
        let refused = temporary.put(again(case.draft("z"))).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
        let refused = case.tube.requeue("l", case.draft("z")).err();
        assert!(matches!(refused, Some(Error::Invalid { .. })), "{refused:?}");
        assert_eq!(place(&case.store, "k"), Some(("case".to_owned(), id)));
        assert_eq!(place(&case.store, "l"), Some(("other".to_owned(), id + 1)));
    });
}

#[test]
fn full_tube_refuses_a_task_of_another_tube() {
    for_each_driver(&[LIMFIFOTTL], |case| {
        let full = other_tube(case, TubeOptions::default().capacity(1));
        let first = full.put("full").unwrap().id;
        let id = case.add(again(Put::new("old".into())));
        let is_full = |answer: tubewell::Result<()>| matches!(answer, Err(Error::Full { .. }));
        assert!(is_full(full.put(again(Put::new("new".into()))).map(drop)));
        assert!(is_full(full.put_many([again(Put::new("new".into()))]).map(drop)));
        assert_eq!(case.tube.query().task(id).unwrap().body, b"old");
        let waiting =
            Wait::begin(full.to_async().put_timeout(again(Put::new("new".into())), NO_TIMEOUT));
        full.delete(first).unwrap();
        assert_eq!(end_of(waiting).unwrap().id, id);
        assert_eq!(place(&case.store, "k"), Some(("other".to_owned(), id)));
    });
}

/// All or none, in all tubes.
#[test]
fn refused_put_many_moves_nothing() {
    for_each_driver(ALL, |case| {
        let other = other_tube(case, TubeOptions::default());
        let put = |key: &str| case.draft("x").key(key).on_key(OnKey::Replace);
        for key in ["a", "b", "c"] {
            case.add(put(key));
        }
        let rejected = case.draft("y").key("c");
        assert!(is_in_use(other.put_many([put("a"), put("b"), rejected]), 2));
        assert_eq!(case.tasks()["ready"], 3);
        assert_eq!(other.statistics().unwrap().tasks.total, 0);
        assert_sound(&case.store);
        let receipts = other.put_many([put("a"), put("new"), put("c")]).unwrap();
        assert_eq!(receipts.iter().map(|it| it.id).collect::<Vec<_>>(), [0, 3, 2]);
        assert_eq!((case.tasks()["ready"], other.statistics().unwrap().tasks.ready), (1, 3));
        assert_sound(&case.store);
    });
}

#[test]
fn moved_and_advanced_tasks_keep_their_keys() {
    for_each_driver(ALL, |case| {
        let other = other_tube(case, TubeOptions::default());
        let id = case.add(case.draft("x").key("k"));
        assert_eq!(case.tube.admin().move_to(&other, id), Ok(1));
        assert_eq!(place(&case.store, "k"), Some(("other".to_owned(), id)));
        let claim = other.try_take().unwrap().unwrap();
        claim.end(Outcome::advance(&case.tube, case.draft("y"))).unwrap();
        assert_eq!(place(&case.store, "k"), Some(("case".to_owned(), id)));
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.end(Outcome::advance(&other, case.draft("y").key("k"))).unwrap();
        assert_eq!(place(&case.store, "k"), Some(("other".to_owned(), id)));
        let session = case.store.session("").unwrap();
        let claim = session.take_any(&[&other], ZERO).unwrap().unwrap();
        let another = Outcome::advance(&case.tube, case.draft("z").key("l"));
        let (claim, refused) = refused_finish(&session, &other, claim, another);
        assert!(matches!(refused, Error::Invalid { .. }), "{refused:?}");
        claim.ack().unwrap();
        assert_eq!(place(&case.store, "k"), None);
    });
}

#[test]
fn tasks_put_by_a_finish_reject_keep_or_replace() {
    for_each_driver(ALL, |case| {
        let other = other_tube(case, TubeOptions::default());
        let old = other.put(case.draft("old").key("k")).unwrap().id;
        let put = |on_key| case.draft("new").key("k").on_key(on_key);
        let id = case.put("x");
        let session = case.store.session("").unwrap();
        let claim = session.take_any(&[&case.tube], ZERO).unwrap().unwrap();
        let rejected = Outcome::done().and_put(&other, put(OnKey::Reject));
        let (claim, refused) = refused_finish(&session, &case.tube, claim, rejected);
        assert!(is_in_use(Err::<(), _>(refused), old));
        assert_eq!(case.state(id), Some(TaskState::Taken), "nothing has happened");
        let twice = Outcome::done().and_put(&other, case.draft("a").key("a"));
        let twice = twice.and_put(&case.tube, case.draft("b").key("a"));
        let (claim, refused) = refused_finish(&session, &case.tube, claim, twice);
        assert!(is_in_use(Err::<(), _>(refused), id + 1));
        assert_eq!((case.state(id), place(&case.store, "a")), (Some(TaskState::Taken), None));
        assert_sound(&case.store);

        let kept =
            Outcome::done().and_put(&case.tube, put(OnKey::Keep)).and_put(&other, case.draft("y"));
        claim.end(kept).unwrap();
        assert_eq!(place(&case.store, "k"), Some(("other".to_owned(), old)));
        assert_eq!(other.query().task(old).unwrap().body, b"old");
        assert_eq!(other.statistics().unwrap().tasks.ready, 2);

        let next = case.put("z");
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.id(), next);
        claim.end(Outcome::done().and_put(&case.tube, put(OnKey::Replace))).unwrap();
        assert_eq!(place(&case.store, "k"), Some(("case".to_owned(), old)));
        assert_eq!(case.tube.query().task(old).unwrap().body, b"new");
        assert_sound(&case.store);
        assert_eq!(case.take(), Some(old));
    });
}

/// A task can put its own successor under its key, in the commit of its end.
#[test]
fn finished_task_passes_its_key_on() {
    for keep in [None, Some(Keep::new())] {
        let options = keep.into_iter().fold(TubeOptions::default(), TubeOptions::keep_done);
        for_each_driver_with(ALL, options, |case| {
            let id = case.add(case.draft("x").key("k"));
            let claim = case.tube.try_take().unwrap().unwrap();
            let put = case.draft("next").key("k").on_key(OnKey::Replace);
            claim.end(Outcome::result("done").and_put(&case.tube, put)).unwrap();
            let next = if keep.is_some() { id } else { id + 1 };
            assert_eq!(place(&case.store, "k"), Some(("case".to_owned(), next)));
            assert_eq!(case.tasks(), counts([("ready", 1), ("total", 1), ("done", 1)]));
            assert_sound(&case.store);
            let session = case.store.session("").unwrap();
            let claim = session.take_any(&[&case.tube], ZERO).unwrap().unwrap();
            assert_eq!((claim.id(), claim.body()), (next, &b"next"[..]));

            // It goes on with its key, so that it cannot pass it on.
            let other = other_tube(case, TubeOptions::default());
            let go_on = |on_key| {
                let put = case.draft("y").key("k").on_key(on_key);
                Outcome::advance(&other, case.draft("z")).and_put(&case.tube, put)
            };
            let (claim, refused) =
                refused_finish(&session, &case.tube, claim, go_on(OnKey::Replace));
            assert!(is_in_use(Err::<(), _>(refused), next));
            let (claim, refused) =
                refused_finish(&session, &case.tube, claim, go_on(OnKey::Reject));
            assert!(is_in_use(Err::<(), _>(refused), next));
            claim.end(go_on(OnKey::Keep)).unwrap();
            assert_eq!(place(&case.store, "k"), Some(("other".to_owned(), next)));
            assert_eq!(case.tasks().get("total"), None);
        });
    }
}

#[test]
fn tasks_put_again_elsewhere_survive_a_close_and_a_kill() {
    let file = StoreFile::new();
    let (store, tube) = super::files::create(&file, FIFOTTL);
    let other = store.create_tube("other", TubeOptions::default().driver(UTUBETTL)).unwrap();
    tube.put(again(Put::new("old".into()))).unwrap();
    other.put(again(Put::new("new".into()).delay(secs(5)).sub_queue("s"))).unwrap();
    drop((tube, other));
    let check = |store: &Store| {
        assert_eq!(place(store, "k"), Some(("other".to_owned(), 0)));
        assert_eq!(store.find_tube("other").unwrap().query().task(0).unwrap().body, b"new");
        assert_sound(store);
    };
    let (_killed, store_of_killed) = super::files::after_a_kill(&file);
    check(&store_of_killed);
    check(&file.reopen(store));
}
