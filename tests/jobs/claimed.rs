//! The claim that a session has on a task, by the id of the task.

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::{AsyncClaim, Claim, Error, Outcome, Put, Session, TaskState, Tube, TubeOptions};

use super::support::*;

/// A session, and the tube in it.
fn session(case: &Case) -> (Session, Tube) {
    let session = case.store.session("").unwrap();
    let tube = session.tube(&case.tube).unwrap();
    (session, tube)
}

/// Takes the next task, and leaves it to the session.
fn take(tube: &Tube) -> u64 {
    tube.try_take().unwrap().unwrap().detach().info.id
}

#[test]
fn claimed_task_has_its_body_and_attempts_and_ends_by_its_claim() {
    for_each_driver_with(ALL, TubeOptions::default().max_attempts(3), |case| {
        let (_session, tube) = session(case);
        for body in ["small".to_owned(), "large ".repeat(2000)] {
            let id = case.add(case.draft(&body).tag("red"));
            assert_not_taken(tube.claimed(id), id);
            assert_eq!(take(&tube), id);
            let claim = tube.claimed(id).unwrap();
            assert_eq!((claim.id(), claim.tube(), claim.body()), (id, "case", body.as_bytes()));
            assert_eq!((claim.attempt(), claim.attempts_left(), claim.takes()), (1, Some(2), 1));
            assert_eq!(claim.tags().collect::<Vec<_>>(), ["red"]);
            assert!(claim.is_current().unwrap());
            assert_eq!(claim.owner().unwrap(), case.tube.query().owner(id).unwrap());
            drop(claim);
            assert_eq!(case.state(id), Some(TaskState::Taken));
            drop(tube.claimed(id).unwrap().into_async());
            let (_, claim) = tube.claimed(id).unwrap().into_parts();
            let _ = claim.detach();
            assert_eq!(case.state(id), Some(TaskState::Taken));
            tube.claimed(id).unwrap().ack().unwrap();
            assert_not_taken(tube.claimed(id), id);
        }
        assert_sound(&case.store);
    });
}

#[test]
fn claimed_task_has_the_body_of_the_last_checkpoint() {
    for_each_driver(ALL, |case| {
        let (_session, tube) = session(case);
        let id = case.put("small");
        take(&tube);
        for body in ["large ".repeat(2000), "small again".to_owned(), "larger ".repeat(3000)] {
            let mut claim = tube.claimed(id).unwrap();
            claim.checkpoint(body.as_str()).unwrap();
            assert_eq!(claim.body(), body.as_bytes());
            assert_eq!(tube.claimed(id).unwrap().body(), body.as_bytes());
        }
        tube.claimed(id).unwrap().ack().unwrap();
        assert_sound(&case.store);
    });
}

/// The first handle, which was not detached, is of a claim that its session has parked since.
#[test]
fn claim_that_another_session_resumed_is_not_ended_by_an_earlier_handle() {
    for_each_driver_with(ALL, TubeOptions::default().max_attempts(3), |case| {
        let (_session, tube) = session(case);
        let (other, of_other) = session(case);
        let refused: fn(Claim) = |claim| _ = claim.ack().unwrap_err();
        let refused_later: fn(Claim) = |claim| _ = claim.into_async().ack().wait().unwrap_err();
        for let_go in [drop, refused, refused_later] {
            let id = case.put("x");
            let first = tube.try_take().unwrap().unwrap();
            let token = tube.claimed(id).unwrap().park(secs(60)).unwrap();
            let resumed = other.resume_claim(&token).unwrap();
            let_go(first);
            assert!(resumed.is_current().unwrap());
            drop(of_other.claimed(id).unwrap());
            resumed.ack().unwrap();
        }
        assert_sound(&case.store);
    });
}

#[test]
fn claimed_task_of_another_type_or_tube_stays_taken() {
    for_each_driver(ALL, |case| {
        let (session, tube) = session(case);
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let other = session.tube(&other).unwrap();
        let id = case.put("no number");
        take(&tube);
        assert_not_taken(other.claimed(id), id);
        let error = tube.typed::<u64>().claimed(id).unwrap_err();
        let text = format!("task {id} of tube \"case\"");
        assert!(matches!(&error, Error::Codec { what } if what.starts_with(&text)), "{error}");
        assert_eq!(case.state(id), Some(TaskState::Taken));
        tube.claimed(id).unwrap().ack().unwrap();
        assert_sound(&case.store);
    });
}

/// Nobody else may end it, and it ends as any claim does.
#[test]
fn task_is_claimed_by_its_session_until_the_claim_ends() {
    for_each_driver(&[FIFOTTL], |case| {
        let (session, tube) = session(case);
        let id = case.add(Put::new("x").ttr(secs(10)));
        take(&tube);
        assert_not_taken(case.tube_in_new_session().claimed(id), id);
        assert_not_taken(tube.claimed(id + 1), id + 1);
        let claim = tube.claimed(id).unwrap();
        claim.renew(secs(20)).unwrap();
        case.advance(10_000);
        assert_eq!(claim.expires_in().unwrap(), Some(secs(10)));
        let token = claim.park(secs(30)).unwrap();
        assert_not_taken(tube.claimed(id), id);
        let _ = session.resume_claim(&token).unwrap().detach();
        case.advance(30_000);
        assert_not_taken(tube.claimed(id), id);
        assert_eq!(case.state(id), Some(TaskState::Ready));
        take(&tube);
        session.end().unwrap();
        assert_eq!(tube.claimed(id).err(), Some(Error::SessionEnded));
        assert_eq!(case.state(id), Some(TaskState::Ready));
    });
}

#[test]
fn claims_of_a_closed_store_are_not_found() {
    let store = crate::stores::in_memory();
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    store.close().unwrap();
    assert_eq!(tube.claimed(0).err(), Some(Error::Closed));
}

#[test]
fn refused_end_leaves_the_claimed_task_to_its_session() {
    for_each_driver(&[FIFO], |case| {
        let (_session, tube) = session(case);
        let full = TubeOptions::new().capacity(1);
        let full =
            case.store.create_tube("full", full.driver(tubewell::driver::LIMFIFOTTL)).unwrap();
        full.put("fills it").unwrap();
        let id = case.put("x");
        take(&tube);
        let claim = || tube.claimed(id).unwrap();
        assert_unsupported(claim().release_in(secs(1)), FIFO);
        assert_unsupported(claim().end(Outcome::snooze(secs(1))), FIFO);
        assert!(matches!(claim().end(Outcome::advance(&full, "y")), Err(Error::Full { .. })));
        let later = || claim().into_async();
        assert_unsupported(later().release_in(secs(1)).wait(), FIFO);
        assert!(matches!(
            later().end(Outcome::advance(&full, "y")).wait(),
            Err(Error::Full { .. })
        ));
        let elsewhere = tubewell::Store::in_memory().unwrap();
        elsewhere.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap().put("z").unwrap();
        let other =
            elsewhere.find_tube("case").unwrap().to_async().try_take().wait().unwrap().unwrap();
        let refused = AsyncClaim::end_many(vec![later(), other], |_| Outcome::done()).wait();
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        assert_eq!(elsewhere.statistics().unwrap()["case"].tasks.ready, 1);
        assert_eq!((case.state(id), claim().attempt()), (Some(TaskState::Taken), 1));
        later().ack().wait().unwrap();
        assert_sound(&case.store);
    });
}

#[test]
fn claim_that_was_found_is_not_that_of_the_next_take_of_its_session() {
    for_each_driver(ALL, |case| {
        let (_session, tube) = session(case);
        let id = case.put("x");
        take(&tube);
        let first = tube.claimed(id).unwrap();
        tube.claimed(id).unwrap().release().unwrap();
        assert_eq!(take(&tube), id);
        assert!(!first.is_current().unwrap());
        assert_not_taken(first.ack(), id);
        assert_eq!(case.state(id), Some(TaskState::Taken));
        tube.claimed(id).unwrap().ack().unwrap();
        assert_sound(&case.store);
    });
}

#[test]
fn claimed_task_of_a_temporary_tube_has_its_body() {
    for_each_driver_with(ALL, TubeOptions::default().temporary(true), |case| {
        let (_session, tube) = session(case);
        let id = case.put("x");
        take(&tube);
        assert_eq!(tube.claimed(id).unwrap().body(), b"x");
        tube.claimed(id).unwrap().ack().unwrap();
    });
}

#[test]
fn resumed_claim_is_parked_again_after_a_refused_end() {
    for_each_driver(&[FIFOTTL], |case| {
        let plain = case.store.create_tube("plain", TubeOptions::new().driver(FIFO)).unwrap();
        let id = case.put("x");
        let token = case.tube.try_take().unwrap().unwrap().park(secs(60)).unwrap();
        let (session, tube) = session(case);
        let _ = session.resume_claim(&token).unwrap().detach();
        let refused =
            tube.claimed(id).unwrap().end(Outcome::advance(&plain, Put::new("y").delay(secs(1))));
        assert_unsupported(refused, FIFO);
        let claim = tube.claimed(id).unwrap();
        let left = claim.expires_in().unwrap();
        assert_eq!(left, Some(secs(60)));
        assert_eq!(claim.park(secs(60)).unwrap(), token);
        drop((session, tube));
        assert_eq!(case.state(id), Some(TaskState::Taken));
        case.store.resume_claim(&token).unwrap().ack().unwrap();
        assert_sound(&case.store);
    });
}
