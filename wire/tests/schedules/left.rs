//! Calls that follow each other before anybody waits for them: the thread that reads writes them together.

use std::time::Duration;

use shuttle::thread;
use tubewell_wire::explored::{break_connections, pass};
use tubewell_wire::{Client, Limits, Pending};

use crate::explore::explore;
use crate::support::{AGAIN, Desk, ONCE, answers_in_time, connect, end, serve};

/// So many calls that they are several in flight, of which none is waited for.
fn in_flight(client: &Client, names: [&str; 3]) -> [Pending; 3] {
    names.map(|name| client.call(format!("later:{name}").into_bytes(), ONCE))
}

/// Answers the calls once the server has all of them: no answer makes the client write before.
fn answer_once_made(desk: &Desk, calls: [Pending; 3], names: [&str; 3]) {
    for name in names {
        desk.log.wait_for(&format!("call later:{name}"));
    }
    for name in names {
        desk.signal(name);
    }
    let answers = calls.map(|call| call.wait().unwrap());
    assert_eq!(answers, names.map(|name| name.as_bytes().to_vec()));
}

#[test]
fn calls_that_nobody_waits_for_are_written() {
    explore("calls_that_nobody_waits_for_are_written", || {
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        // The second time the thread has written before.
        for names in [["a", "b", "c"], ["d", "e", "f"]] {
            answer_once_made(&desk, in_flight(&client, names), names);
        }
        end(&server, &desk, [client]);
    });
}

#[test]
fn caller_that_waits_writes_what_was_left_to_the_thread() {
    explore("caller_that_waits_writes_what_was_left_to_the_thread", || {
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        assert!(client.call_and_wait("now:1".into(), ONCE).is_ok());
        let [a, b, c] = in_flight(&client, ["a", "b", "c"]);
        let other = {
            let client = client.clone();
            thread::spawn(move || client.call_and_wait("now:2".into(), ONCE))
        };
        for name in ["a", "b", "c"] {
            desk.signal(name);
        }
        // The caller of the second one has gone, and the server has it nevertheless.
        drop(b);
        assert_eq!(c.wait().as_deref(), Ok(&b"c"[..]));
        assert_eq!(a.wait().as_deref(), Ok(&b"a"[..]));
        desk.log.wait_for("call later:b");
        assert!(other.join().unwrap().is_ok());
        end(&server, &desk, [client]);
    });
}

#[test]
fn calls_left_to_the_thread_outlive_a_break_and_later_ones_are_written() {
    explore("calls_left_to_the_thread_outlive_a_break_and_later_ones_are_written", || {
        let (server, desk) = serve(Limits::default());
        let (client, ears) = connect();
        let breaker = thread::spawn(break_connections);
        let calls = ["now:1", "now:2", "now:3"].map(|call| client.call(call.into(), AGAIN));
        while ears.log.count("broken") == 0 || !calls.iter().all(Pending::is_done) {
            pass(Duration::from_millis(1));
            thread::yield_now();
        }
        assert!(calls.map(Pending::wait).iter().all(Result::is_ok));
        breaker.join().unwrap();
        let [connected] = answers_in_time(&client, [("now:4", AGAIN)]);
        assert_eq!(connected.as_deref(), Ok("4"));
        let names = ["a", "b", "c"];
        answer_once_made(&desk, in_flight(&client, names), names);
        end(&server, &desk, [client]);
    });
}
