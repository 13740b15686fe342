//! Claims: a chosen task, its owner, what a lost claim may still do, and the end of a claim by
//! somebody else.

use std::time::Duration;

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::{Claim, Error, Put, Session, TaskState, Tube, TubeOptions};

use super::support::*;
use crate::stores;

/// A session with a label, and the tube in it.
fn worker(case: &Case, label: &str) -> (Session, Tube) {
    let session = case.store.session(label).unwrap();
    let tube = session.tube(&case.tube).unwrap();
    (session, tube)
}

fn label_of(tube: &Tube, id: u64) -> Option<String> {
    tube.query().owner(id).unwrap().map(|owner| owner.label.unwrap().to_string())
}

/// Every verb of this claim is refused, and the task stays as it is.
fn assert_stale(case: &Case, claim: Claim) {
    let id = claim.id();
    let mut claim = claim;
    let before = (case.tube.query().task(id).unwrap(), case.tube.query().owner(id).unwrap());
    assert!(!claim.is_current().unwrap());
    assert_eq!(claim.expires_in().unwrap(), Some(ZERO));
    assert_eq!(claim.owner().unwrap(), None);
    assert_not_taken(claim.checkpoint("late"), id);
    assert_not_taken(claim.renew(secs(5)), id);
    assert_not_taken(claim.touch(secs(5)), id);
    let claim = claim.into_async();
    assert_not_taken(claim.renew(secs(5)).wait(), id);
    assert_not_taken(claim.touch(secs(5)).wait(), id);
    // An end consumes the claim: another one for each driver.
    match ALL.iter().position(|driver| *driver == case.driver) {
        Some(0) => assert_not_taken(claim.ack().wait(), id),
        Some(1) => assert_not_taken(claim.release().wait(), id),
        Some(2) => assert_not_taken(claim.bury(None).wait(), id),
        Some(3) => assert_not_taken(claim.park(ZERO).wait(), id),
        _ => assert_not_taken(claim.into_blocking().park(ZERO), id),
    }
    assert_eq!((case.tube.query().task(id).unwrap(), case.tube.query().owner(id).unwrap()), before);
}

/// Q036 T006 B004
/// Difference: the takes of a task are counted up, not its remaining attempts down. The owner is a
/// session and its label, not a process id.
#[test]
fn taken_task_has_an_owner_and_a_count_of_takes() {
    for_each_driver(ALL, |case| {
        let (_session, tube) = worker(case, "w");
        assert!(tube.try_take().unwrap().is_none());
        let id = case.put("a");
        assert_eq!(case.tube.query().owner(id).unwrap(), None);
        let claim = tube.claim(id).unwrap();
        assert_eq!((claim.takes(), claim.body()), (1, &b"a"[..]));
        let owner = case.tube.query().owner(id).unwrap().unwrap();
        assert_eq!((owner.session, owner.label.as_deref()), (tube.session(), Some("w")));
        assert_eq!((owner.held, owner.is_parked), (ZERO, false));
        assert_eq!(claim.owner().unwrap().unwrap(), owner);
        assert_eq!(case.state(id), Some(TaskState::Taken));
        assert!(case.tube.query().list(TaskState::Ready, None, 10).unwrap().items.is_empty());
        case.advance(250);
        assert_eq!(claim.owner().unwrap().unwrap().held, ms(250));
        assert_eq!(case.calls(), counts([("put", 1), ("take", 1)]));
        claim.ack().unwrap();
        assert_eq!(case.tube.query().owner(id), Err(Error::NotFound { id }));
    });
}

/// T010 T011 T012
#[test]
fn claimed_task_cannot_be_claimed_again_and_its_claim_is_not_extended() {
    let options = TubeOptions::default().ttr(secs(10));
    for_each_driver_with(TIMED, options, |case| {
        let (_a, tube) = worker(case, "a");
        let (_b, other) = worker(case, "b");
        let id = case.put("x");
        let claim = tube.claim(id).unwrap();
        case.advance(4000);
        for again in [&tube, &other] {
            let error = again.claim(id).unwrap_err();
            assert!(matches!(error, Error::NotReady { state: TaskState::Taken, .. }), "{error:?}");
            assert!(error.to_string().contains("session \"a\""), "{error}");
        }
        assert_eq!(claim.expires_in().unwrap(), Some(secs(6)));
        assert_eq!(other.try_take().unwrap().map(|claim| claim.id()), None);
        assert_eq!(case.tube.query().list(TaskState::Taken, None, 10).unwrap().items.len(), 1);
        claim.ack().unwrap();
    });
}

#[test]
fn claim_says_why_a_task_is_not_ready() {
    for_each_driver(ALL, |case| {
        let id = case.put("buried");
        case.tube.admin().bury(id, None).unwrap();
        let error = case.tube.claim(id).unwrap_err();
        assert!(matches!(error, Error::NotReady { state: TaskState::Buried, .. }), "{error:?}");
        assert!(error.is_transient());
        if case.timed() {
            let id = case.add(case.draft("delayed").delay(secs(3)));
            let error = case.tube.claim(id).unwrap_err();
            assert!(
                matches!(error, Error::NotReady { state: TaskState::Delayed, .. }),
                "{error:?}"
            );
            assert!(error.to_string().ends_with("its delay elapses in 3s"), "{error}");
            case.advance(3000);
            drop(case.tube.claim(id).unwrap());
            let id = case.add(case.draft("never").delay(Duration::MAX));
            let error = case.tube.claim(id).unwrap_err();
            assert!(error.to_string().contains("does not end"), "{error}");
        }
        if case.sub_queued() {
            let of_sub = |data: &str| case.add(Put::new(data).sub_queue("s"));
            let (first, second, third) = (of_sub("1"), of_sub("2"), of_sub("3"));
            let claim = case.tube.claim(second).unwrap();
            let error = case.tube.claim(third).unwrap_err();
            assert!(matches!(error, Error::NotReady { state: TaskState::Ready, .. }), "{error:?}");
            assert!(error.to_string().contains(&format!("task {second} of its sub-queue \"s\"")));
            assert_sound(&case.store);
            claim.ack().unwrap();
            drop(case.tube.claim(third).unwrap());
            assert_eq!(case.tube.claim(first).unwrap().ack().unwrap().state, TaskState::Done);
        }
    });
}

#[test]
fn claim_takes_a_task_from_anywhere_in_the_tube() {
    for_each_driver(ALL, |case| {
        for n in 0..40 {
            case.put(&n.to_string());
        }
        for id in [39, 0, 20] {
            case.tube.claim(id).unwrap().ack().unwrap();
        }
        let left: Vec<u64> = (0..40).filter(|id| ![39, 0, 20].contains(id)).collect();
        assert_eq!(case.take_all(), left);
    });
}

/// Q130
#[test]
fn heartbeat_of_a_task_that_was_set_aside_is_refused() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube.admin().bury(id, None).unwrap();
        assert_stale(case, claim);
        assert_eq!(case.state(id), Some(TaskState::Buried));
    });
}

/// Q136
#[test]
fn checkpoint_replaces_the_body_that_later_takes_get() {
    for size in [0, 20, 1024, 1025, 100_000] {
        for_each_driver(ALL, |case| {
            for old in [10, 1025] {
                let id = case.put(&"o".repeat(old));
                let mut claim = case.tube.claim(id).unwrap();
                let body = vec![b'n'; size];
                let receipt = claim.checkpoint(body.clone()).unwrap();
                assert_eq!((receipt.id, receipt.state), (id, TaskState::Taken));
                assert_eq!(claim.body(), body);
                let task = case.tube.query().task(id).unwrap();
                assert_eq!((task.info.size, task.body.to_vec()), (size as u64, body.clone()));
                assert_sound(&case.store);
                drop(claim);
                let again = case.tube.claim(id).unwrap();
                assert_eq!((again.body(), again.takes()), (&body[..], 2));
                again.ack().unwrap();
            }
            assert_eq!(case.calls().get("checkpoint"), Some(&2));
        });
    }
}

#[test]
fn checkpoint_extends_the_claim_to_its_ttr_and_never_shortens_it() {
    let options = TubeOptions::default().ttr(secs(10));
    for_each_driver_with(TIMED, options, |case| {
        case.put("x");
        let mut claim = case.tube.try_take().unwrap().unwrap();
        case.advance(4000);
        claim.checkpoint("1").unwrap();
        assert_eq!(claim.expires_in().unwrap(), Some(secs(10)));
        claim.renew(secs(60)).unwrap();
        claim.checkpoint("2").unwrap();
        assert_eq!(claim.expires_in().unwrap(), Some(secs(60)));
        claim.ack().unwrap();
    });
}

#[test]
fn checkpoint_refuses_a_body_over_the_limit() {
    let clock = stores::ManualClock::new();
    let store = stores::in_memory_with(tubewell::Store::options().clock(&clock).max_body(8));
    let tube = store.create_tube("case", TubeOptions::new().driver(FIFO)).unwrap();
    tube.put("12345678").unwrap();
    let mut claim = tube.try_take().unwrap().unwrap();
    assert!(matches!(claim.checkpoint("123456789"), Err(Error::Invalid { .. })));
    assert_eq!(claim.body(), b"12345678");
    claim.checkpoint("87654321").unwrap();
    drop(claim);
    assert_eq!(tube.try_take().unwrap().unwrap().body(), b"87654321");
    assert_sound(&store);
}

/// Q145 T067 I01
#[test]
fn stale_claim_is_refused_even_if_the_same_session_has_the_task_again() {
    let options = TubeOptions::default().ttr(secs(1));
    for_each_driver_with(TIMED, options, |case| {
        let (_session, tube) = worker(case, "w");
        let (_namesake, other) = worker(case, "w");
        let id = case.put("x");
        let first = tube.try_take().unwrap().unwrap();
        case.advance(1000);
        let second = tube.try_take().unwrap().unwrap();
        assert_eq!((second.id(), second.takes()), (id, 2));
        assert_stale(case, first);
        assert_not_taken(other.claimed(id).and_then(tubewell::Claim::ack), id);
        second.ack().unwrap();
    });
}

/// Q146 T021
/// Difference: a task whose claim was revoked is ready in its old place, not before all others.
#[test]
fn revoked_task_is_ready_in_its_old_place() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        let (_session, tube) = worker(case, "w");
        let claim = tube.claim(1).unwrap();
        assert_eq!(case.tube.admin().revoke(1), Ok(1));
        assert_eq!(case.state(1), Some(TaskState::Ready));
        assert_eq!(case.calls().get("release"), Some(&1));
        drop(claim);
        assert_eq!(case.take_all(), [0, 1, 2]);
        assert_eq!(case.info(1).takes, 2);
    });
}

/// Q147 Q149 T065
#[test]
fn holder_of_a_revoked_claim_is_refused_and_is_not_its_owner() {
    for_each_driver(ALL, |case| {
        let (_session, tube) = worker(case, "old");
        let id = case.put("x");
        let claim = tube.try_take().unwrap().unwrap();
        assert!(claim.is_current().unwrap());
        assert_eq!(case.tube.admin().revoke(id), Ok(1));
        assert_eq!(case.tube.query().owner(id).unwrap(), None);
        assert_stale(case, claim);
        let (_session, tube) = worker(case, "new");
        let claim = tube.try_take().unwrap().unwrap();
        assert_eq!(label_of(&case.tube, id).as_deref(), Some("new"));
        claim.ack().unwrap();
    });
}

/// Q148 T038
#[test]
fn revoke_of_a_task_that_is_not_taken_ends_no_claim() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        assert_eq!(case.tube.admin().revoke(id), Ok(0));
        assert_eq!(case.tube.query().owner(id).unwrap(), None);
        assert_eq!(case.tube.admin().revoke(99), Ok(0));
        assert_eq!(case.tube.query().owner(99), Err(Error::NotFound { id: 99 }));
        let other = case.store.create_tube("other", TubeOptions::default().driver(FIFO)).unwrap();
        let claim = case.tube.claim(id).unwrap();
        assert_eq!(other.admin().revoke(id), Ok(0));
        assert_eq!(other.query().owner(id), Err(Error::NotFound { id }));
        claim.ack().unwrap();
    });
}

/// T016 T035
#[test]
fn expired_claim_has_no_owner_and_cannot_be_renewed() {
    let options = TubeOptions::default().ttr(ms(500));
    for_each_driver_with(TIMED, options, |case| {
        let (_session, tube) = worker(case, "slow");
        let id = case.put("x");
        let slow = tube.try_take().unwrap().unwrap();
        case.advance(600);
        assert_eq!(case.state(id), Some(TaskState::Ready));
        let claim = case.tube.claim(id).unwrap();
        assert_not_taken(slow.renew(secs(60)), id);
        assert_eq!(claim.expires_in().unwrap(), Some(ms(500)));
        assert_stale(case, slow);
        claim.ack().unwrap();
    });
}

/// T017
/// Difference: a ttr of zero is accepted, and the claim is over at once.
#[test]
fn claim_with_a_ttr_of_zero_is_over_at_once() {
    for_each_driver(TIMED, |case| {
        let id = case.add(case.draft("x").ttr(ZERO));
        let claim = case.tube.claim(id).unwrap();
        assert_eq!((claim.is_current().unwrap(), claim.expires_in().unwrap()), (false, Some(ZERO)));
        assert_eq!(case.tube.query().owner(id).unwrap(), None);
        assert_not_taken(claim.ack(), id);
    });
}

/// T018
/// Difference: a label is optional, and may be empty.
#[test]
fn label_has_a_limit() {
    let store = store_in_memory();
    assert!(matches!(store.session("x".repeat(256)), Err(Error::Invalid { .. })));
    assert!(store.session("x".repeat(255)).is_ok());
    assert!(store.session("").is_ok());
    assert_sound(&store);
}

/// T036
/// Difference: to renew a task that nobody has taken is an error, and does not return false.
#[test]
fn renew_limits_a_claim_that_had_no_limit() {
    for_each_driver(TIMED, |case| {
        let id = case.put("x");
        let claim = case.tube.claim(id).unwrap();
        assert_eq!(claim.expires_in().unwrap(), None);
        claim.renew(secs(5)).unwrap();
        assert_eq!(claim.expires_in().unwrap(), Some(secs(5)));
        claim.renew(Duration::MAX).unwrap();
        assert_eq!(claim.expires_in().unwrap(), None);
        claim.ack().unwrap();
        assert_not_taken(case.tube.claimed(id).and_then(|claim| claim.renew(secs(5))), id);
    });
}

/// T041
#[test]
fn one_of_many_threads_gets_the_claim() {
    for_each_driver(ALL, |case| {
        for _ in 0..20 {
            let id = case.put("x");
            let claims: Vec<_> = std::thread::scope(|scope| {
                let claim = |_| scope.spawn(|| case.tube_in_new_session().claim(id));
                let threads: Vec<_> = (0..4).map(claim).collect();
                threads.into_iter().map(|thread| thread.join().unwrap()).collect()
            });
            let won = claims.iter().filter(|claim| claim.is_ok()).count();
            assert_eq!(won, 1, "{claims:?}");
            for claim in claims {
                match claim {
                    Ok(claim) => drop(claim.ack().unwrap()),
                    Err(error) => assert!(matches!(error, Error::NotReady { .. }), "{error:?}"),
                }
            }
        }
    });
}

#[test]
fn max_runtime_ends_a_claim_that_is_renewed_for_ever() {
    let options = TubeOptions::default().ttr(secs(10)).max_runtime(secs(25));
    for_each_driver_with(TIMED, options, |case| {
        let id = case.put("hangs");
        let mut claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.expires_in().unwrap(), Some(secs(10)));
        for _ in 0..2 {
            case.advance(9000);
            claim.renew(secs(10)).unwrap();
        }
        assert_eq!(claim.expires_in().unwrap(), Some(secs(7)));
        claim.renew(Duration::MAX).unwrap();
        claim.touch(secs(100)).unwrap();
        claim.checkpoint("more").unwrap();
        assert_eq!(claim.expires_in().unwrap(), Some(secs(7)));
        case.advance(7000);
        assert_not_taken(claim.ack(), id);
        assert_eq!(case.calls().get("ttr"), Some(&1));
        // The next take has the whole time again.
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.expires_in().unwrap(), Some(secs(25)));
        claim.ack().unwrap();
    });
}

#[test]
fn max_runtime_limits_claims_without_a_ttr() {
    let options = TubeOptions::default().max_runtime(secs(25));
    for_each_driver_with(TIMED, options, |case| {
        case.put("x");
        let claim = case.tube.try_take().unwrap().unwrap();
        assert_eq!(claim.expires_in().unwrap(), Some(secs(25)));
        claim.ack().unwrap();
    });
}

#[test]
fn max_runtime_survives_a_restart_and_needs_a_timed_driver() {
    let file = StoreFile::new();
    let store = file.open();
    let options = || TubeOptions::new().max_runtime(secs(25));
    store.create_tube("case", options().driver(FIFOTTL)).unwrap().put("x").unwrap();
    let refused = store.create_tube("plain", options().driver(FIFO));
    assert!(matches!(refused, Err(Error::Unsupported { .. })), "{refused:?}");
    let refused = store.create_tube("zero", TubeOptions::new().max_runtime(ZERO).driver(FIFOTTL));
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let store = file.reopen(store);
    assert_eq!(store.tubes().unwrap()[0].max_runtime, Some(secs(25)));
    let differs = store.open_tube("case", TubeOptions::new().driver(FIFO));
    assert!(matches!(differs, Err(Error::TubeDiffers { .. })), "{differs:?}");
    let tube = store.open_tube("case", options().driver(FIFOTTL)).unwrap();
    assert_eq!(tube.try_take().unwrap().unwrap().expires_in().unwrap(), Some(secs(25)));
    assert_sound(&store);
}
