//! The end of a server.

use std::time::Duration;

use tubewell_wire::{CallError, ClientOptions, Limits, Reply};

use crate::raw::{ANSWER, CANCEL, Raw, frame};
use crate::support::{HANGS_AFTER, ONCE, Place, Serving, options};

/// Clients that give up soon when the server has stopped.
fn brief() -> ClientOptions {
    ClientOptions { connect_timeout: Duration::from_secs(1), ..options() }
}

#[test]
fn stopping_ends_calls_connections_and_threads() {
    for place in [Place::new(), Place::tcp()] {
        let serving = Serving::start(&place);
        let (client, ears) = serving.client_with(brief());
        let pending = client.call(b"later:name".to_vec(), ONCE);
        let items = client.subscribe(b"stream:items".to_vec());
        let mut raw = Raw::connect(&serving.address);
        serving.desk.log.wait_for("pending items", 1);
        serving.server.stop();
        // All of it has happened when it returns.
        for line in ["dropped name", "disconnect", "service dropped"] {
            assert_eq!(serving.desk.log.count(line), 1, "{line}");
        }
        assert!(raw.last().is_none());
        assert!(matches!(pending.wait(), Err(CallError::Broken { .. })));
        assert_eq!(items.recv(), None);
        ears.log.wait_for("broken", 1);
        serving.server.stop();
    }
}

#[test]
fn what_was_written_is_read_before_the_end() {
    let place = Place::new();
    let limits = Limits { stop: HANGS_AFTER, unsent: 64 << 20, ..Limits::default() };
    let serving = Serving::with(&place, limits);
    let mut raw = Raw::welcomed(&serving.address);
    for number in 1..=10 {
        raw.call(number, "bytes:1000000");
    }
    raw.call(11, "later:name");
    serving.desk.log.wait_for("pending name", 1);
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| serving.server.stop());
        serving.desk.log.wait_for("dropped name", 1);
        for number in 1..=10 {
            let (kind, answered, body) = raw.receive().unwrap();
            assert_eq!((kind, answered, body.len()), (ANSWER, number, 1_000_000));
        }
        // The call in flight has no answer, not even an end.
        assert_eq!(raw.receive(), None);
        stopping.join().unwrap();
    });
}

#[test]
fn a_peer_that_does_not_read_holds_up_stopping_no_longer_than_it_may() {
    let place = Place::new();
    let serving =
        Serving::with(&place, Limits { stop: Duration::from_millis(30), ..Limits::default() });
    let mut raw = Raw::welcomed(&serving.address);
    raw.call(1, "tracked-bytes:10000000");
    raw.call(2, "later:name");
    raw.send(&frame(CANCEL, 2, b""));
    serving.desk.log.wait_for("call tracked-bytes:10000000", 1);
    serving.server.stop();
    let lines = serving.desk.log.lines();
    assert_eq!(lines[lines.len() - 3..], ["lost bytes", "disconnect", "service dropped"]);
}

#[test]
fn stopping_waits_for_a_future_that_is_polled() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client_with(brief());
    let pending = client.call(b"future:waits, then is ready".to_vec(), ONCE);
    let other = client.call(b"later:other".to_vec(), ONCE);
    serving.desk.log.wait_for("at gate", 1);
    serving.desk.log.wait_for("pending other", 1);
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| serving.server.stop());
        serving.desk.log.wait_for("dropped other", 1);
        assert!(!stopping.is_finished());
        serving.desk.open_gate();
        stopping.join().unwrap();
    });
    let lines = serving.desk.log.lines();
    assert_eq!(
        lines[lines.len() - 4..],
        ["future dropped", "lost ready", "disconnect", "service dropped"]
    );
    // It was written before the connection was closed; no confirmation was awaited.
    assert_eq!(pending.wait().unwrap(), b"ready");
    drop(other);
}

#[test]
fn calls_that_were_woken_before_a_stop_are_answered() {
    let place = Place::new();
    let serving = Serving::with(&place, Limits { stop: HANGS_AFTER, ..Limits::default() });
    let (client, _) = serving.client_with(brief());
    let polled = client.call(b"future:waits, then is ready".to_vec(), ONCE);
    let woken = client.call(b"later:woken".to_vec(), ONCE);
    let other = client.call(b"later:other".to_vec(), ONCE);
    serving.desk.log.wait_for("at gate", 1);
    serving.desk.log.wait_for("pending woken", 1);
    serving.desk.log.wait_for("pending other", 1);
    serving.desk.finish("woken", Reply::new(b"in time".to_vec()));
    std::thread::scope(|scope| {
        let stopping = scope.spawn(|| serving.server.stop());
        serving.desk.log.wait_for("dropped other", 1);
        assert_eq!(serving.desk.log.count("dropped woken"), 0);
        serving.desk.open_gate();
        stopping.join().unwrap();
    });
    assert_eq!(polled.wait().unwrap(), b"ready");
    assert_eq!(woken.wait().unwrap(), b"in time");
    assert!(matches!(other.wait(), Err(CallError::Broken { .. })));
}

#[test]
fn a_server_can_be_stopped_on_its_own_threads() {
    for call in ["stop", "future:stops"] {
        let place = Place::new();
        let serving = Serving::start(&place);
        *serving.desk.server.lock().unwrap() = Some(serving.server.clone());
        let (client, _) = serving.client_with(brief());
        let pending = client.call(call.into(), ONCE);
        serving.desk.log.wait_for("service dropped", 1);
        // Answered on the way, or not.
        drop(pending);
        let Serving { server, desk, .. } = serving;
        server.stop();
        assert_eq!(desk.log.count("disconnect"), 1);
    }
}

#[test]
fn the_last_reference_to_a_server_can_be_dropped_on_its_own_threads() {
    for call in ["stop", "future:stops"] {
        let place = Place::new();
        let Serving { server, desk, address } = Serving::start(&place);
        *desk.server.lock().unwrap() = Some(server);
        let mut raw = Raw::welcomed(&address);
        raw.call(1, call);
        raw.last();
        desk.log.wait_for("service dropped", 1);
    }
}

#[test]
fn dropping_a_server_stops_it() {
    let place = Place::new();
    let Serving { server, desk, .. } = Serving::start(&place);
    drop(server);
    assert_eq!(desk.log.lines(), ["service dropped"]);
}
