//! Two callers that want the same task.

use std::sync::Barrier;
use std::thread;

use tubewell::{Error, TaskState, TubeOptions};

use super::support::*;

/// T039
#[test]
fn ack_after_claim_expired_does_not_end_claim_of_successor() {
    for_each_driver_with(TIMED, TubeOptions::default().ttr(secs(10)), |case| {
        case.put_all([0]);
        let (former, successor) = (case.tube_in_new_session(), case.tube_in_new_session());
        let claim = former.try_take().unwrap().unwrap();
        case.advance(10_000);
        let current = successor.try_take().unwrap().unwrap();
        assert!(current.epoch() > claim.epoch());
        assert_not_taken(former.claimed(0).and_then(tubewell::Claim::ack), 0);
        assert_not_taken(claim.ack(), 0);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        assert_eq!(current.ack().unwrap().state, TaskState::Done);
        assert_eq!(case.calls().get("ack"), Some(&1));
    });
}

/// T039
#[test]
fn ack_by_expired_claim_does_not_end_later_claim_of_same_session() {
    for_each_driver_with(TIMED, TubeOptions::default().ttr(secs(10)), |case| {
        case.put_all([0]);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.advance(10_000);
        let current = case.tube.try_take().unwrap().unwrap();
        assert_not_taken(claim.ack(), 0);
        assert_eq!(case.state(0), Some(TaskState::Taken));
        assert_eq!(current.ack().unwrap().state, TaskState::Done);
    });
}

/// T039
#[test]
fn ack_that_races_with_expiry_and_next_take_ends_one_claim() {
    for_each_driver_with(TIMED, TubeOptions::default().ttr(secs(10)), |case| {
        for _ in 0..100 {
            let id = case.put("x");
            let claim = case.tube_in_new_session().try_take().unwrap().unwrap();
            let successor = case.tube_in_new_session();
            let barrier = Barrier::new(2);
            let (acked, taken) = thread::scope(|scope| {
                let acked = scope.spawn(|| {
                    barrier.wait();
                    claim.ack()
                });
                barrier.wait();
                case.advance(10_000);
                let taken = successor.try_take().unwrap();
                (acked.join().unwrap(), taken)
            });
            match (acked, taken) {
                (Ok(receipt), None) => {
                    assert_eq!((receipt.id, receipt.state), (id, TaskState::Done));
                }
                (Err(refused), Some(claim)) => {
                    assert_eq!(refused, Error::NotTaken { id });
                    assert_eq!(case.state(id), Some(TaskState::Taken));
                    assert_eq!(claim.ack().unwrap().state, TaskState::Done);
                }
                other => panic!("not exactly one caller has the task: {other:?}"),
            }
            assert_eq!(case.state(id), None);
        }
        assert_eq!(case.tasks(), counts([("done", 100)]));
        assert_eq!(case.calls().get("ack"), Some(&100));
    });
}
