//! Sessions that are resumed and ended through a connection by calls that nobody waits for.

use tubewell::{AsyncSession, Session, Store, TaskState};

use super::executor::{wait_until, with_timeout};
use super::reconnected::{GRACE, Pair};

/// A session of the owner with a claim of task 0.
fn session_with_a_claim(pair: &Pair) -> Session {
    let session = pair.owner.session("worker").unwrap();
    let tube = pair.owner.find_tube("case").unwrap();
    tube.put("x").unwrap();
    let _ = session.tube(&tube).unwrap().try_take().unwrap().unwrap().detach();
    session
}

/// What the client has sent before has arrived.
fn settle(pair: &Pair) {
    pair.remote.find_tube("case").unwrap();
}

/// Acks task 0 for a session whose only handle this is.
fn assert_stands(pair: &Pair, resumed: &AsyncSession) {
    settle(pair);
    let tube = resumed.to_blocking().tube(&pair.tube).unwrap();
    tube.claimed(0).unwrap().ack().unwrap();
    pair.assert_sound();
}

#[test]
fn session_resumed_twice_stands_if_one_of_the_tickets_is_dropped() {
    with_timeout(|| {
        let pair = Pair::new(Store::options());
        let session = session_with_a_claim(&pair);
        let remote = pair.remote.to_async();
        let (first, second) =
            (remote.resume_session(session.id()), remote.resume_session(session.id()));
        drop(first);
        let resumed = second.wait().unwrap();
        drop(session);
        assert_stands(&pair, &resumed);
    });
}

#[test]
fn session_stands_if_its_handle_is_dropped_while_it_is_resumed_again() {
    with_timeout(|| {
        let pair = Pair::new(Store::options());
        let session = session_with_a_claim(&pair);
        let remote = pair.remote.to_async();
        let (first, second) =
            (remote.resume_session(session.id()), remote.resume_session(session.id()));
        drop(first.wait().unwrap());
        let resumed = second.wait().unwrap();
        drop(session);
        assert_stands(&pair, &resumed);
    });
}

#[test]
fn dropped_ticket_of_a_resumed_session_leaves_no_handle_at_the_owner() {
    with_timeout(|| {
        let pair = Pair::new(Store::options());
        let session = session_with_a_claim(&pair);
        drop(pair.remote.to_async().resume_session(session.id()));
        settle(&pair);
        assert_eq!(pair.state(), TaskState::Taken);
        drop(session);
        assert_eq!(pair.state(), TaskState::Ready);
    });
}

/// The answer has arrived, and the owner has dropped the handle of the connection before.
#[test]
fn session_stands_if_the_connection_breaks_before_its_ticket_is_awaited() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options().session_grace(GRACE));
        let session = session_with_a_claim(&pair);
        let ticket = pair.remote.to_async().resume_session(session.id());
        pair.break_connections(|_| ());
        settle(&pair);
        let resumed = ticket.wait().unwrap();
        drop(session);
        pair.clock.advance(GRACE * 2);
        assert_stands(&pair, &resumed);
    });
}

#[test]
fn end_of_a_session_is_sent_once_there_is_a_connection_whoever_waits_for_it() {
    with_timeout(|| {
        let mut pair = Pair::new(Store::options().session_grace(GRACE));
        let session = pair.remote.session("worker").unwrap();
        pair.tube.put("x").unwrap();
        let claim = session.tube(&pair.tube).unwrap().try_take().unwrap().unwrap();
        let ended = session.to_async();
        pair.break_connections(|_| drop(ended.end()));
        wait_until(|| pair.state() == TaskState::Ready);
        assert!(!claim.is_current().unwrap());
        pair.assert_sound();
    });
}
