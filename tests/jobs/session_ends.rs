//! The ends of sessions with many claims.

use tubewell::{Error, Session, TaskState, Tube, TubeOptions};

use super::support::*;

/// More than two steps of claims.
const TASKS: u64 = 1100;
const STEP: u64 = 512;

/// Lets a session take many tasks of a tube. Returns its handle of the tube.
fn take_many(case: &Case, session: &Session, tube: &Tube) -> Tube {
    let drafts: Vec<_> = (0..TASKS).map(|n| case.draft(&n.to_string())).collect();
    case.tube.put_many(drafts).unwrap();
    let theirs = session.tube(tube).unwrap();
    let claims = theirs.take_many(usize::try_from(TASKS).unwrap(), ZERO).unwrap();
    let ids: Vec<u64> = claims.into_iter().map(keep).collect();
    assert_eq!(ids.len() as u64, TASKS);
    theirs
}

fn taken(case: &Case) -> u64 {
    case.tube.statistics().unwrap().tasks.taken
}

#[test]
fn end_of_a_session_ends_all_of_many_claims() {
    ends_all(tubewell::Session::end);
}

#[test]
fn async_end_of_a_session_ends_all_of_many_claims() {
    ends_all(|session| session.to_async().end().wait());
}

fn ends_all(end: fn(Session) -> tubewell::Result<()>) {
    for_each_driver(ALL, |case| {
        let session = case.store.session("").unwrap();
        let theirs = take_many(case, &session, &case.tube);
        assert_eq!(taken(case), TASKS);
        end(session).unwrap();
        assert_eq!(taken(case), 0);
        assert_eq!(theirs.claimed(0).and_then(tubewell::Claim::ack), Err(Error::SessionEnded));
        assert_eq!(case.take(), Some(0));
    });
}

/// The last handle of the session is dropped, and the clock stands still.
#[test]
fn session_that_has_ended_holds_none_of_its_many_claims() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(2), |case| {
        let store = crate::stores::owner(&case.store);
        let tube = store.find_tube("case").unwrap();
        let session = store.session("worker").unwrap();
        session.describe("kind", "").unwrap();
        let id = session.id();
        let theirs = take_many(case, &session, &tube);
        assert_eq!((store.owners().unwrap().len(), store.owners().unwrap()[0].running), (1, TASKS));
        drop((session, theirs));
        assert_eq!(taken(case), TASKS - STEP);
        assert_eq!(store.owners().unwrap(), []);
        assert!(matches!(store.resume_session(id), Err(Error::SessionUnknown { .. })));
        let held = tube.query().list(TaskState::Taken, None, 1).unwrap().items[0].id;
        assert_eq!(tube.query().owner(held), Ok(None));
        let claim = tube.claim(held).unwrap();
        assert_eq!((claim.id(), claim.attempt()), (held, 2));
        assert_eq!(taken(case), TASKS - STEP);
        assert_sound(&store);
        case.advance(0);
        assert_eq!((taken(case), tube.query().owner(held).unwrap().is_some()), (1, true));
        claim.ack().unwrap();
    });
}
