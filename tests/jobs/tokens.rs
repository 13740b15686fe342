//! Tokens: a put that is made again within an hour puts nothing, and answers as the first one.

use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL, LIMFIFOTTL};
use tubewell::expert::Restore;
use tubewell::{
    Ending, Error, Filter, IDEMPOTENCY_KEY_TIME, Keep, MAX_IDEMPOTENCY_KEY,
    MAX_IDEMPOTENCY_KEY_TIME, OnKey, Outcome, Put, Receipt, Schedule, Store, TaskState, Tube,
    TubeOptions,
};

use super::executor::{block_on, with_timeout};
use super::support::*;
use super::wait::{DONE, Wait, end_of};

fn invalid<T>(answer: tubewell::Result<T>) {
    assert!(matches!(answer.err(), Some(Error::Invalid { .. })));
}

fn of(receipt: tubewell::Result<Receipt>) -> (u64, TaskState) {
    let receipt = receipt.unwrap();
    (receipt.id, receipt.state)
}

/// A second tube of the store of a case.
fn other(case: &Case) -> Tube {
    case.store.create_tube("other", TubeOptions::default().driver(FIFO)).unwrap()
}

#[test]
fn put_with_a_seen_token_returns_the_first_task_in_its_state() {
    let keep = TubeOptions::default().keep_done(Keep::new());
    for_each_driver_with(ALL, keep, |case| {
        let log = case.event_log();
        let put = || case.draft("x").idempotency_key("t");
        let id = case.add(put());
        let again = |state| {
            let (calls, tasks) = (case.calls(), case.tasks());
            log.read();
            assert_eq!(of(case.tube.put(put())), (id, state));
            assert_eq!(log.read(), []);
            assert_eq!((case.calls(), case.tasks()), (calls, tasks));
        };
        again(TaskState::Ready);
        let claim = case.tube.try_take().unwrap().unwrap();
        again(TaskState::Taken);
        claim.bury(None).unwrap();
        again(TaskState::Buried);
        case.tube.kick(id).unwrap();
        if case.timed() {
            case.tube.try_take().unwrap().unwrap().release_in(secs(1)).unwrap();
            again(TaskState::Delayed);
            case.advance(1_000);
        }
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        again(TaskState::Done);
        case.tube.admin().forget(id).unwrap();
        again(TaskState::Done);
        assert_eq!(case.put("x"), id + 1, "no id was used up");
    });
}

/// Whatever has removed the task, and before the sweeper has removed an expired one.
#[test]
fn task_that_has_left_its_tube_is_done_for_its_token() {
    for_each_driver(TIMED, |case| {
        let options = TubeOptions::default();
        let other = case.store.create_tube("other", options.driver(case.driver)).unwrap();
        let put = |token: &str| case.draft("x").idempotency_key(token);
        let again = |token: &str| of(case.tube.put(put(token)));
        let id = case.add(put("acked"));
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!(again("acked"), (id, TaskState::Done));
        let id = case.add(put("deleted"));
        case.tube.delete(id).unwrap();
        assert_eq!(again("deleted"), (id, TaskState::Done));
        let id = case.add(put("moved"));
        assert_eq!(case.tube.admin().move_to(&other, id), Ok(1));
        assert_eq!(again("moved"), (id, TaskState::Done));
        let id = case.add(put("advanced"));
        case.tube.try_take().unwrap().unwrap().end(Outcome::advance(&other, "y")).unwrap();
        assert_eq!(again("advanced"), (id, TaskState::Done));
        let id = case.add(put("expired").ttl(ZERO));
        assert_eq!(again("expired"), (id, TaskState::Done));
        case.advance(1);
        assert!(!case.tasks().contains_key("total"));
        assert_eq!(other.statistics().unwrap().tasks.total, 2);
    });
}

#[test]
fn token_is_forgotten_after_an_hour_and_no_sooner() {
    assert_eq!(IDEMPOTENCY_KEY_TIME, secs(3_600));
    for_each_driver(ALL, |case| {
        let put = || case.draft("x").idempotency_key("t");
        let id = case.add(put());
        case.clock.advance(ms(3_599_999));
        // A put that is made again does not lengthen the time.
        assert_eq!(case.add(put()), id);
        case.advance(1);
        assert_eq!(case.add(put()), id + 1);
        case.clock.advance(ms(3_599_999));
        assert_eq!(case.add(put()), id + 1);
        // The time goes on while the machine is suspended.
        case.clock.suspend(ms(1));
        case.advance(0);
        assert_eq!(case.add(put()), id + 2);
    });
}

#[test]
fn token_is_remembered_for_the_time_of_the_put_that_puts_the_task() {
    assert_eq!(MAX_IDEMPOTENCY_KEY_TIME, secs(366 * 24 * 3_600));
    for_each_driver(ALL, |case| {
        let put = |time| case.draft("x").idempotency_key("t").unique_for(time);
        for time in [secs(24 * 3_600), secs(1), MAX_IDEMPOTENCY_KEY_TIME] {
            let id = case.add(put(time));
            case.take();
            case.clock.advance(time.checked_sub(ms(1)).unwrap());
            // Its own time counts for nothing: neither a shorter nor a longer one.
            assert_eq!(case.add(put(ms(1))), id);
            assert_eq!(case.add(put(MAX_IDEMPOTENCY_KEY_TIME)), id);
            assert_eq!(case.add(case.draft("x").idempotency_key("t")), id);
            case.advance(1);
            assert_eq!(case.add(put(ms(1))), id + 1, "{time:?}");
            case.take();
            case.advance(1);
        }
    });
}

/// It begins when the put takes place, also for one that has waited for space.
#[test]
fn time_of_a_token_begins_with_the_admission_of_its_put() {
    with_timeout(|| {
        for_each_driver_with(&[LIMFIFOTTL], TubeOptions::new().capacity(1), |case| {
            let put = || Put::new("x").idempotency_key("t").unique_for(secs(10));
            case.put("first");
            let waiting = Wait::begin(case.tube.to_async().put_timeout(put(), NO_TIMEOUT));
            waiting.assert_waits();
            case.advance(60_000);
            case.tube.try_take().unwrap().unwrap().ack().unwrap();
            let id = end_of(waiting).unwrap().id;
            case.tube.try_take().unwrap().unwrap().ack().unwrap();
            case.clock.advance(ms(9_999));
            assert_eq!(case.add(put()), id);
            case.advance(1);
            assert_eq!(case.add(put()), id + 1);
        });
    });
}

#[test]
fn put_that_cannot_be_remembered_for_its_time_is_refused() {
    for_each_driver(ALL, |case| {
        let put = |time| Put::new("x").idempotency_key("t").unique_for(time);
        let longer = MAX_IDEMPOTENCY_KEY_TIME + Duration::from_micros(1);
        let refused = [
            (put(ZERO), "above zero"),
            (put(longer), "at most 366 days"),
            (put(Duration::MAX), "keep_done"),
            (Put::new("x").unique_for(secs(1)), "give the put an idempotency_key"),
        ];
        for (put, why) in refused {
            let Err(Error::Invalid { what }) = case.tube.put(put.clone()) else { panic!("{why}") };
            assert!(what.contains(why), "{what}");
            invalid(case.tube.put_timeout(put.clone(), ZERO));
            invalid(case.tube.put_many([Put::new("y"), put.clone()]));
            invalid(case.tube.put_and_wait(put.clone(), ZERO));
            invalid(case.tube.requeue("k", put.clone()));
            invalid(case.tube.schedule(Schedule::every("s", secs(1)), put.clone()));
            invalid(case.tube.admin().restore_many([Restore::new(put.clone())]));
            let id = case.put("first");
            let claim = case.tube.try_take().unwrap().unwrap();
            invalid(claim.end(Outcome::done().and_put(&case.tube, put)));
            case.tube.delete(id).unwrap();
        }
        assert!(!case.tasks().contains_key("total"));
        assert_eq!(case.add(put(MAX_IDEMPOTENCY_KEY_TIME)), 4, "nothing was remembered");
    });
}

#[test]
fn every_form_of_put_knows_the_token() {
    with_timeout(|| {
        for_each_driver(ALL, |case| {
            let (tube, key) = (&case.tube, "k");
            let put = || case.draft("x").idempotency_key("t");
            let deferred = tube.to_async().refuse_when_full();
            let forms: [&dyn Fn() -> u64; 9] = [
                &|| tube.put(put()).unwrap().id,
                &|| tube.put_timeout(put(), ZERO).unwrap().id,
                &|| block_on(tube.to_async().put_timeout(put(), NO_TIMEOUT)).unwrap().id,
                &|| tube.put_many([put()]).unwrap()[0].id,
                &|| deferred.put(put()).wait().unwrap().id,
                &|| block_on(deferred.put_many([put()])).unwrap()[0].id,
                &|| tube.put_and_wait(put(), ZERO).unwrap().0.id,
                &|| block_on(tube.to_async().put_and_wait(put(), ZERO)).unwrap().0.id,
                &|| tube.requeue(key, put()).unwrap().id,
            ];
            for (n, first) in forms.iter().enumerate() {
                let requeued = case.add(case.draft("x").key(key));
                let id = first();
                let is_requeue = n == forms.len() - 1;
                assert_eq!(id, if is_requeue { requeued } else { requeued + 1 }, "form {n}");
                for (m, again) in forms.iter().enumerate() {
                    assert_eq!(again(), id, "form {n}, then {m}");
                }
                tube.admin().delete(Filter::new().ids([id, requeued])).unwrap();
                case.clock.advance(IDEMPOTENCY_KEY_TIME);
            }
            assert!(!case.tasks().contains_key("total"));
        });
    });
}

#[test]
fn finish_and_spawn_know_the_token() {
    for_each_driver(ALL, |case| {
        let (tube, other) = (&case.tube, other(case));
        case.put("first");
        case.put("second");
        let put = |token: &str| Put::new("x").idempotency_key(token);
        let id = other.put(put("a")).unwrap().id;

        let first = tube.try_take().unwrap().unwrap();
        assert_eq!(first.spawn("one", &other, put("a")).unwrap(), id);
        let spawned = first.spawn("two", &other, put("b")).unwrap();
        assert_eq!(other.put(put("b")).unwrap().id, spawned);
        assert_eq!(tube.query().steps(first.id()).unwrap()[0].spawned(), Some(id));

        let finish = Outcome::done().and_put(&other, put("c")).and_put(&other, put("a"));
        first.end(finish.and_put(&other, put("c")).and_put(&other, put("d"))).unwrap();
        assert_eq!(other.statistics().unwrap().tasks.ready, 4, "a, b, c and d");
        assert_eq!(of(other.put(put("c"))), (spawned + 1, TaskState::Ready));
        assert_eq!(of(other.put(put("d"))), (spawned + 2, TaskState::Ready));

        // Of a token that is remembered in each of its tubes.
        let second = tube.try_take().unwrap().unwrap();
        second
            .end(
                Outcome::done()
                    .and_put(&other, put("e"))
                    .and_put(tube, case.draft("x").idempotency_key("e")),
            )
            .unwrap();
        assert_eq!((other.statistics().unwrap().tasks.ready, case.tasks()["ready"]), (5, 1));
    });
}

/// Both of a key and a token: the token counts first.
#[test]
fn finish_with_the_key_of_the_task_that_goes_on_and_a_seen_token_puts_nothing() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        case.add(case.draft("x").key("k"));
        let seen = other.put(Put::new("y").idempotency_key("t")).unwrap().id;
        let finish = Outcome::advance(&other, "next")
            .and_put(&other, Put::new("z").key("k").idempotency_key("t"));
        case.tube.try_take().unwrap().unwrap().end(finish).unwrap();
        assert_eq!(other.statistics().unwrap().tasks.ready, 2);
        assert_eq!(other.query().task(seen).unwrap().body, b"y");
    });
}

#[test]
fn batch_with_a_token_twice_puts_one_task() {
    for_each_driver(ALL, |case| {
        let put = |token: &str| case.draft("x").idempotency_key(token);
        let seen = case.add(put("seen"));
        let batch = [put("a"), case.draft("plain"), put("seen"), put("a"), put("b")];
        let receipts = case.tube.put_many(batch).unwrap();
        let ids: Vec<u64> = receipts.iter().map(|receipt| receipt.id).collect();
        assert_eq!(ids, [seen + 1, seen + 2, seen, seen + 1, seen + 3]);
        assert!(receipts.iter().all(|receipt| receipt.state == TaskState::Ready));
        assert_eq!(case.tasks()["ready"], 4);
        // The whole batch again.
        let batch = ["a", "b", "seen"].map(put);
        let again: Vec<u64> =
            case.tube.put_many(batch).unwrap().iter().map(|receipt| receipt.id).collect();
        assert_eq!((again, case.calls()["put"]), (vec![seen + 1, seen + 3, seen], 4));
    });
}

#[test]
fn refused_put_remembers_nothing() {
    for_each_driver_with(&[LIMFIFOTTL], TubeOptions::new().capacity(2), |case| {
        let put = |token: &str| Put::new("x").idempotency_key(token);
        case.put_all([0, 1]);
        assert!(matches!(case.tube.put(put("a")), Err(Error::Full { .. })));
        assert!(matches!(case.tube.put_many([put("a"), put("b")]), Err(Error::Full { .. })));
        case.tube.delete(0).unwrap();
        assert!(matches!(case.tube.put_many([put("a"), put("b")]), Err(Error::Full { .. })));
        assert_eq!(case.add(put("b")), 2);
        case.tube.admin().delete(Filter::new().ids([1, 2])).unwrap();
        case.add(Put::new("x").key("k"));
        let refused = case.tube.put_many([put("a"), put("c").key("k")]);
        assert!(matches!(refused, Err(Error::KeyInUse { .. })));
        assert!(matches!(case.tube.put(put("c").key("k")), Err(Error::KeyInUse { .. })));
        assert_eq!(case.add(put("a")), 4, "it was not put by the batches");
    });
}

/// Its first put has its place. No put that waits is overtaken.
#[test]
fn put_with_a_seen_token_needs_no_space() {
    with_timeout(|| {
        for_each_driver_with(&[LIMFIFOTTL], TubeOptions::new().capacity(1), |case| {
            let put = |token: &str| Put::new("x").idempotency_key(token);
            let id = case.add(put("a"));
            let waiting = Wait::begin(case.tube.to_async().put_timeout(put("b"), NO_TIMEOUT));
            assert_eq!(of(case.tube.put(put("a"))), (id, TaskState::Ready));
            assert_eq!(of(case.tube.put_timeout(put("a"), NO_TIMEOUT)), (id, TaskState::Ready));
            assert_eq!(case.tube.put_many([put("a"), put("a")]).unwrap()[1].id, id);
            // A put that waits has put nothing yet.
            assert!(matches!(case.tube.put(put("b")), Err(Error::Full { .. })));
            let second = Wait::begin(case.tube.to_async().put_timeout(put("b"), NO_TIMEOUT));
            let third = Wait::begin(case.tube.to_async().put_timeout(put("c"), NO_TIMEOUT));
            case.tube.try_take().unwrap().unwrap().ack().unwrap();
            assert_eq!(of(end_of(waiting)), (id + 1, TaskState::Ready));
            third.assert_waits();
            case.tube.try_take().unwrap().unwrap().ack().unwrap();
            // Admitted, and seen: it takes no place, so the third one follows.
            assert_eq!(of(end_of(second)), (id + 1, TaskState::Done));
            assert_eq!(of(end_of(third)), (id + 2, TaskState::Ready));
        });
    });
}

#[test]
fn put_that_keeps_remembers_nothing_and_one_that_replaces_does() {
    for_each_driver(ALL, |case| {
        let put =
            |token: &str, on_key| case.draft("x").key("k").idempotency_key(token).on_key(on_key);
        let id = case.add(case.draft("x").key("k"));
        assert_eq!(case.add(put("kept", OnKey::Keep)), id);
        case.tube.delete(id).unwrap();
        assert_eq!(case.add(put("kept", OnKey::Keep)), id + 1, "the first one has put nothing");

        assert_eq!(case.add(put("replaced", OnKey::Replace)), id + 1);
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(of(case.tube.put(put("replaced", OnKey::Replace))), (id + 1, TaskState::Taken));
        assert!(claim.is_current().unwrap(), "the task does not begin anew");
        claim.ack().unwrap();
        assert_eq!(case.add(put("replaced", OnKey::Replace)), id + 1);
        assert_eq!(
            case.tube.requeue("k", case.draft("x").idempotency_key("replaced")).unwrap().id,
            id + 1
        );
        assert!(!case.tasks().contains_key("total"));
    });
}

#[test]
fn token_is_of_its_tube_and_forgotten_with_it() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        let put = || case.draft("x").idempotency_key("t");
        let id = case.add(put());
        assert_eq!(other.put(Put::new("x").idempotency_key("t")).unwrap().id, id + 1);
        assert_eq!(
            (case.add(put()), other.put(Put::new("x").idempotency_key("t")).unwrap().id),
            (id, id + 1)
        );
        case.tube.admin().truncate().unwrap();
        assert_eq!(case.add(put()), id + 2);
        assert_eq!(other.put(Put::new("x").idempotency_key("t")).unwrap().id, id + 1);
        drop(other);
        case.store.drop_tube("other").unwrap();
        let other = case.store.create_tube("other", TubeOptions::default().driver(FIFO)).unwrap();
        assert_eq!(other.put(Put::new("x").idempotency_key("t")).unwrap().id, id + 3);
        assert_eq!(case.add(put()), id + 2);
    });
}

/// Its end is known if the tube keeps what is done.
#[test]
fn put_and_wait_of_a_seen_token_waits_for_the_first_task() {
    with_timeout(|| {
        for_each_driver_with(ALL, TubeOptions::new().keep_done(Keep::new()), |case| {
            let put = || case.draft("x").idempotency_key("t");
            let id = case.add(put());
            let wait = Wait::begin(case.tube.to_async().put_and_wait(put(), NO_TIMEOUT));
            case.tube.try_take().unwrap().unwrap().ack().unwrap();
            let (receipt, ending) = end_of(wait).unwrap();
            assert_eq!((receipt.id, ending), (id, Some(DONE)));
            let again = || case.tube.put_and_wait(put(), NO_TIMEOUT).unwrap();
            assert_eq!((again().0.state, again().1), (TaskState::Done, Some(DONE)));
            case.tube.admin().forget(id).unwrap();
            // Another task has the key of the put by now.
            case.add(case.draft("x").key("k"));
            let gone = case.tube.put_and_wait(put().key("k"), NO_TIMEOUT).unwrap();
            assert_eq!((gone.0.id, gone.1), (id, Some(Ending::Gone)));
        });
    });
}

#[test]
fn token_has_1_to_64_bytes() {
    for_each_driver(ALL, |case| {
        invalid(case.tube.put(case.draft("x").idempotency_key("")));
        let longest = "ä".repeat(MAX_IDEMPOTENCY_KEY / 2);
        invalid(case.tube.put(case.draft("x").idempotency_key(format!("{longest}a"))));
        invalid(
            case.tube.to_async().refuse_when_full().put(case.draft("x").idempotency_key("")).wait(),
        );
        let put = || case.draft("x").idempotency_key(longest.as_str());
        assert_eq!((case.add(put()), case.add(put())), (0, 0));
        assert_eq!(case.add(case.draft("x").idempotency_key(&longest[2..])), 1);
    });
}

#[test]
fn puts_that_are_no_puts_of_their_own_refuse_a_token() {
    for_each_driver(ALL, |case| {
        let other = other(case);
        let put = || Put::new("x").idempotency_key("t");
        invalid(case.tube.admin().restore_many([Restore::new(put())]));
        invalid(case.tube.schedule(Schedule::every("s", secs(1)), put()));
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        invalid(claim.end(Outcome::advance(&other, put())));
        assert_eq!(case.state(id), Some(TaskState::Ready));
        let claim = case.tube.try_take().unwrap().unwrap();
        invalid(claim.end(Outcome::advance(&other, put()).and_put(&other, "y")));
        assert_eq!(other.put(put()).unwrap().id, id + 1, "nothing was remembered");
    });
}

#[test]
fn contents_of_a_put_with_a_seen_token_are_not_compared() {
    for_each_driver(ALL, |case| {
        let id = case.add(case.draft("first").idempotency_key("t"));
        assert_eq!(case.add(case.draft("second").idempotency_key("t").tag("tag")), id);
        assert_eq!(case.tube.query().task(id).unwrap().body, b"first");
        assert!(case.store.list(Filter::new().tag("tag"), None, 10).unwrap().items.is_empty());
    });
}

#[test]
fn temporary_tube_remembers_tokens_as_long_as_its_tasks() {
    for_each_driver_with(ALL, TubeOptions::new().temporary(true), |case| {
        let put = || case.draft("x").idempotency_key("t");
        let id = case.add(put());
        case.take();
        assert_eq!(of(case.tube.put(put())), (id, TaskState::Taken));
        case.clock.advance(IDEMPOTENCY_KEY_TIME);
        assert_eq!(case.add(put()), id + 1);
    });
}

/// Two callers make the same put at the same time.
#[test]
fn concurrent_puts_with_one_token_put_one_task() {
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("case", TubeOptions::default().driver(FIFOTTL)).unwrap();
    for round in 0..50 {
        let put = || tube.put(Put::new("x").idempotency_key(format!("t{round}"))).unwrap().id;
        let ids = std::thread::scope(|scope| {
            let callers: Vec<_> = (0..4).map(|_| scope.spawn(put)).collect();
            callers.into_iter().map(|caller| caller.join().unwrap()).collect::<Vec<u64>>()
        });
        assert_eq!(ids, [round; 4]);
    }
    assert_eq!(tube.statistics().unwrap().tasks.total, 50);
    assert_sound(&store);
}

#[test]
fn finish_with_a_token_into_a_dropped_tube_is_refused_as_one_without() {
    for_each_driver(ALL, |case| {
        let gone = other(case);
        case.store.drop_tube("other").unwrap();
        for put in [case.draft("x"), case.draft("x").idempotency_key("t")] {
            case.tube.put(case.draft("first")).unwrap();
            let claim = case.tube.try_take().unwrap().unwrap();
            let refused = claim.end(Outcome::done().and_put(&gone, put));
            assert_eq!(refused, Err(Error::TubeDropped { name: "other".into() }));
        }
    });
}
