//! Heartbeats, and connections that are silent.

use std::sync::Arc;
use std::time::Duration;

use shuttle::thread;
use tubewell_wire::explored::pass;
use tubewell_wire::{Client, Limits};

use crate::explore::explore;
use crate::support::{AGAIN, Ears, Log, ONCE, answers_in_time, ask, asking, connect, end, serve};

const MS: Duration = Duration::from_millis(1);

/// Lets time pass until a line was added so often.
fn pass_until(log: &Log, line: &str, count: usize) {
    while log.count(line) < count {
        pass(MS);
        thread::yield_now();
    }
}

/// A client that makes a call at each heartbeat.
fn connect_beating() -> (Arc<Client>, Arc<Ears>) {
    let (client, ears) = connect();
    ears.client.set(Arc::downgrade(&client)).unwrap();
    client.set_beat(Some(MS));
    (client, ears)
}

/// The answer from which heartbeats are expected is written by either thread of the server.
#[test]
fn connection_that_is_silent_ends() {
    explore("connection_that_is_silent_ends", || {
        let (server, desk) = serve(Limits { silence: 5 * MS, ..Limits::default() });
        let (now, _) = connect();
        let (later, _) = connect();
        let first = asking(&now, "beats:on", ONCE);
        let second = asking(&later, "later:expects beats", ONCE);
        desk.signal("expects beats");
        assert_eq!(first.join().unwrap().as_deref(), Ok("on"));
        assert_eq!(second.join().unwrap().as_deref(), Ok("expects beats"));
        pass_until(&desk.log, "disconnect", 2);
        // Each makes another connection, which may be silent.
        let [one] = answers_in_time(&now, [("now:a", AGAIN)]);
        let [other] = answers_in_time(&later, [("now:b", AGAIN)]);
        assert_eq!((one.as_deref(), other.as_deref()), (Ok("a"), Ok("b")));
        end(&server, &desk, [now, later]);
    });
}

#[test]
fn connection_that_need_not_beat_any_more_may_be_silent() {
    explore("connection_that_need_not_beat_any_more_may_be_silent", || {
        let (server, desk) = serve(Limits { silence: 5 * MS, ..Limits::default() });
        let (client, ears) = connect();
        assert_eq!(ask(&client, "beats:on", ONCE).as_deref(), Ok("on"));
        assert_eq!(ask(&client, "beats:off", ONCE).as_deref(), Ok("off"));
        for _ in 0..10 {
            pass(2 * MS);
            thread::yield_now();
        }
        assert_eq!(ask(&client, "now:a", ONCE).as_deref(), Ok("a"));
        assert_eq!((desk.log.count("disconnect"), ears.log.count("broken")), (0, 0));
        end(&server, &desk, [client]);
    });
}

/// Whichever thread reads: that of the client, or a caller that waits for its answer.
#[test]
fn heartbeats_are_made_while_callers_wait_and_end_when_they_are_not_wanted() {
    explore("heartbeats_are_made_while_callers_wait_and_end_when_they_are_not_wanted", || {
        let (server, desk) = serve(Limits::default());
        let (client, ears) = connect_beating();
        for call in ["now:1", "now:2"] {
            assert!(client.call_and_wait(call.into(), ONCE).is_ok());
        }
        let waiting = {
            let client = client.clone();
            thread::spawn(move || client.call_and_wait("later:a".into(), ONCE))
        };
        pass_until(&ears.log, "beat", 2);
        desk.signal("a");
        assert_eq!(waiting.join().unwrap().as_deref(), Ok(&b"a"[..]));
        client.set_beat(None);
        // One that was due before may be under way.
        let made = ears.log.count("beat");
        for _ in 0..5 {
            pass(2 * MS);
            thread::yield_now();
        }
        assert!(ears.log.count("beat") <= made + 1);
        assert_eq!(ask(&client, "now:b", ONCE).as_deref(), Ok("b"));
        end(&server, &desk, [client]);
    });
}

/// The thread that reads may be stopped at any moment: between a report and the clock, or by a signal that
/// interrupts the wait for reports.
#[test]
fn heartbeat_that_lies_in_the_socket_is_read_before_its_connection_counts_as_silent() {
    explore(
        "heartbeat_that_lies_in_the_socket_is_read_before_its_connection_counts_as_silent",
        || {
            let (server, desk) = serve(Limits { silence: 30 * MS, ..Limits::default() });
            let (client, ears) = connect();
            let (other, _) = connect();
            assert_eq!(ask(&client, "beats:on", ONCE).as_deref(), Ok("on"));
            pass(29 * MS);
            // The thread may take the report of this call, without one of the heartbeat.
            let call = other.call("now:call".into(), ONCE);
            let beat = client.call("now:beat".into(), ONCE);
            pass(MS);
            assert_eq!(beat.wait().as_deref(), Ok(&b"beat"[..]));
            assert_eq!(call.wait().as_deref(), Ok(&b"call"[..]));
            assert_eq!((desk.log.count("disconnect"), ears.log.count("broken")), (0, 0));
            end(&server, &desk, [client, other]);
        },
    );
}

/// As after a suspend of the machine that both are on.
#[test]
fn client_that_was_stopped_together_with_the_server_has_time_to_go_on() {
    explore("client_that_was_stopped_together_with_the_server_has_time_to_go_on", || {
        let (server, desk) = serve(Limits { silence: 30 * MS, ..Limits::default() });
        let (client, ears) = connect();
        assert_eq!(ask(&client, "beats:on", ONCE).as_deref(), Ok("on"));
        pass(100 * MS);
        assert_eq!(ask(&client, "now:a", ONCE).as_deref(), Ok("a"));
        assert_eq!((desk.log.count("disconnect"), ears.log.count("broken")), (0, 0));
        end(&server, &desk, [client]);
    });
}
