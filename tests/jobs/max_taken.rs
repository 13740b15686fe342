//! Tubes that limit how many of their tasks are taken at a time.

use tubewell::{Claim, Durability, Error, Failure, Filter, Outcome, TaskState, TubeOptions};

use super::files::{create_with, draft, put_numbered};
use super::support::*;
use crate::options::only;

fn limit(n: u64) -> TubeOptions {
    TubeOptions::new().max_taken(n)
}

/// Q047
#[test]
fn each_ack_frees_exactly_one_place() {
    for_each_driver_with(ALL, limit(5), |case| {
        case.put_all([0, 1, 2, 3, 4, 5, 6, 7, 8, 9]);
        let claims = case.tube.take_many(10, ZERO).unwrap();
        assert_eq!(claims.len(), 5);
        for (n, claim) in claims.into_iter().enumerate() {
            assert_eq!(case.take(), None);
            claim.ack().unwrap();
            assert_eq!(case.take(), Some(n as u64 + 5));
        }
        assert_eq!(case.take(), None);
    });
}

/// Q048
#[test]
fn lowered_limit_ends_no_claim_and_holds_for_the_next_take() {
    for_each_driver(ALL, |case| {
        put_numbered(case, 100);
        let mut claims = case.tube.take_many(10, ZERO).unwrap();
        case.tube.admin().alter(only(limit(5))).unwrap();
        for left in (4..10).rev() {
            assert_eq!(case.take(), None);
            claims.remove(0).ack().unwrap();
            assert_eq!(case.tasks().get("taken"), Some(&left));
        }
        assert_eq!((case.take(), case.take()), (Some(10), None));
    });
}

/// Q049
#[test]
fn place_of_an_expired_claim_is_free() {
    for_each_driver_with(TIMED, limit(1).ttr(secs(60)).max_attempts(6), |case| {
        case.put_all([0, 1]);
        let lost = case.tube.try_take().unwrap().unwrap();
        assert_eq!((lost.id(), case.take()), (0, None));
        case.advance(60_000);
        let again = case.tube.try_take().unwrap().unwrap();
        assert_eq!((again.id(), again.attempts_left()), (0, Some(4)));
        assert_not_taken(lost.ack(), 0);
    });
}

/// Q050
#[test]
fn place_of_a_buried_task_is_free() {
    for_each_driver_with(ALL, limit(1), |case| {
        case.put_all([0, 1]);
        let failed = case.tube.try_take().unwrap().unwrap();
        assert_eq!(case.take(), None);
        failed.bury(Failure::new("group", "message")).unwrap();
        assert_eq!(case.take(), Some(1));
    });
}

/// Q051
/// Difference: a task whose claim is overdue has its place until the reclaim delay has elapsed.
#[test]
fn overdue_claim_has_its_place() {
    let options = limit(1).ttr(secs(60)).reclaim_delay(secs(10)).max_attempts(6);
    for_each_driver_with(TIMED, options, |case| {
        case.put_all([0, 1]);
        case.take();
        let mut waiting = case.begin_take();
        case.advance(60_000);
        assert_eq!(case.tube.query().task(0).unwrap().info.state, TaskState::Taken);
        case.advance(9_999);
        assert!(waiting.is_pending());
        assert_eq!(case.take(), None);
        case.advance(1);
        assert_eq!(waiting.id(), Some(0));
    });
}

/// Q344
/// Difference: the limit is one of the tube; the limits of sub-queues are tested apart.
#[test]
fn raised_limit_serves_waiting_takes_immediately() {
    for_each_driver_with(ALL, limit(1), |case| {
        case.put_all([0, 1, 2, 3]);
        assert_eq!(case.take(), Some(0));
        let mut waiting = [(); 3].map(|()| case.begin_take());
        case.tube.admin().alter(only(limit(3))).unwrap();
        assert!(waiting[2].is_pending());
        let [first, second, mut third] = waiting;
        assert_eq!((first.id(), second.id()), (Some(1), Some(2)));
        case.tube.admin().alter(only(limit(1))).unwrap();
        for id in [0, 1] {
            case.tube.claimed(id).and_then(tubewell::Claim::ack).unwrap();
            assert!(third.is_pending());
        }
        case.tube.claimed(2).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(third.id(), Some(3));
    });
}

type EndOfClaim = fn(&Case, Claim);

/// Each end of a claim, and what it leaves to take.
#[test]
fn every_end_of_a_claim_serves_the_waiting_take() {
    let ends: [(&str, EndOfClaim, u64); 9] = [
        (
            "ack",
            |_, claim| {
                claim.ack().unwrap();
            },
            1,
        ),
        (
            "release",
            |_, claim| {
                claim.release().unwrap();
            },
            0,
        ),
        ("drop", |_, claim| drop(claim), 0),
        (
            "bury",
            |_, claim| {
                claim.bury(None).unwrap();
            },
            1,
        ),
        (
            "snooze",
            |_, claim| {
                claim.end(Outcome::snooze(ZERO)).unwrap();
            },
            0,
        ),
        (
            "revoke",
            |case, claim| {
                assert_eq!(case.tube.admin().revoke(claim.id()), Ok(1));
            },
            0,
        ),
        (
            "release_all",
            |case, _claim| {
                case.tube.admin().release(Filter::new()).unwrap();
            },
            0,
        ),
        (
            "delete",
            |case, claim| {
                case.tube.delete(claim.id()).unwrap();
            },
            1,
        ),
        (
            "no limit",
            |case, claim| {
                keep(claim);
                case.tube.admin().alter(only(TubeOptions::new())).unwrap();
            },
            1,
        ),
    ];
    for (name, end, next) in ends {
        println!("{name}");
        for_each_driver_with(ALL, limit(1), |case| {
            case.put_all([0, 1]);
            let claim = case.tube.try_take().unwrap().unwrap();
            let mut waiting = case.begin_take();
            assert!(waiting.is_pending());
            assert_sound(&case.store);
            end(case, claim);
            assert_eq!(waiting.id(), Some(next));
        });
    }
}

#[test]
fn end_of_a_session_frees_its_places() {
    for_each_driver_with(ALL, limit(2), |case| {
        case.put_all([0, 1, 2]);
        let tube = case.tube_in_new_session();
        assert_eq!((take(&tube), take(&tube)), (Some(0), Some(1)));
        let mut waiting = case.begin_take();
        assert!(waiting.is_pending());
        drop(tube);
        assert_eq!((waiting.id(), case.take(), case.take()), (Some(0), Some(1), None));
    });
}

#[test]
fn chosen_task_beyond_the_limit_is_not_ready() {
    for_each_driver_with(ALL, limit(1), |case| {
        case.put_all([0, 1]);
        let claim = case.tube.claim(1).unwrap();
        let refused = case.tube.claim(0).unwrap_err();
        let Error::NotReady { id: 0, state: TaskState::Ready, why } = refused else {
            panic!("{refused:?}")
        };
        assert_eq!(why, "its tube has 1 taken tasks, and max_taken is not above");
        claim.ack().unwrap();
        assert_eq!(case.tube.claim(0).unwrap().id(), 0);
    });
}

/// A place is free when the end of its claim is visible: after the flush.
#[test]
fn parked_claims_have_their_places_after_a_restart() {
    for driver in TIMED {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, driver, limit(2));
        tube.put_many((0..3).map(|n| draft(driver, &n.to_string()))).unwrap();
        let token = tube.try_take().unwrap().unwrap().park(secs(60)).unwrap();
        keep(tube.try_take().unwrap().unwrap());
        assert_eq!(take(&tube), None);
        drop(tube);
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(tube.info().unwrap().max_taken, Some(2));
        assert_eq!((take(&tube), take(&tube)), (Some(1), None));
        store.resume_claim(&token).unwrap().ack().unwrap();
        assert_eq!(take(&tube), Some(2));
        assert_sound(&store);
    }
}

#[test]
fn limit_holds_for_every_durability_and_in_temporary_tubes() {
    let durabilities = [Durability::Flush, Durability::write(), Durability::relaxed()];
    let options = durabilities.map(|durability| limit(1).durability(durability));
    for options in options.into_iter().chain([limit(1).temporary(true)]) {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, "fifo", options);
        tube.put_many(["a", "b"]).unwrap();
        let claim = tube.try_take().unwrap().unwrap();
        let mut waiting = WaitingTake::begin(tube.to_async().take_timeout(NO_TIMEOUT));
        assert!(waiting.is_pending());
        claim.ack().unwrap();
        assert_eq!(waiting.id(), Some(1));
        assert_sound(&store);
    }
}

#[test]
fn limit_of_zero_is_refused() {
    let store = store_in_memory();
    let refused = store.create_tube("case", limit(0).driver("fifo"));
    assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
    let tube = store.create_tube("case", limit(1).driver("fifo")).unwrap();
    assert!(matches!(tube.admin().alter(only(limit(0))), Err(Error::Invalid { .. })));
    assert_eq!(tube.info().unwrap().max_taken, Some(1));
}
