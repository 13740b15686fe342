//! Callers that read their answers themselves, and the thread that reads when they do not.

use shuttle::future::block_on;
use shuttle::thread;
use tubewell_wire::explored::{break_connections, pass};
use tubewell_wire::{CallError, Limits};

use crate::explore::explore;
use crate::support::{AGAIN, ONCE, answers_in_time, connect, end, serve};

/// Makes calls one after the other, so that the thread leaves the answers to their caller.
fn in_a_row(client: &tubewell_wire::Client) {
    for call in ["now:1", "now:2"] {
        assert!(client.call_and_wait(call.into(), ONCE).is_ok());
    }
}

#[test]
fn caller_that_reads_delivers_the_answers_of_others_and_hands_over() {
    explore("caller_that_reads_delivers_the_answers_of_others_and_hands_over", || {
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        in_a_row(&client);
        let first = {
            let client = client.clone();
            thread::spawn(move || client.call_and_wait("later:a".into(), ONCE))
        };
        let second = {
            let client = client.clone();
            thread::spawn(move || client.call_and_wait("later:b".into(), ONCE))
        };
        let polled = client.call("later:c".into(), ONCE);
        for name in ["a", "b", "c"] {
            desk.signal(name);
        }
        assert_eq!(block_on(polled).as_deref(), Ok(&b"c"[..]));
        assert_eq!(first.join().unwrap().as_deref(), Ok(&b"a"[..]));
        assert_eq!(second.join().unwrap().as_deref(), Ok(&b"b"[..]));
        end(&server, &desk, [client]);
    });
}

#[test]
fn thread_reads_for_calls_whose_callers_do_not_wait() {
    explore("thread_reads_for_calls_whose_callers_do_not_wait", || {
        let (server, desk) = serve(Limits::default());
        let (client, ears) = connect();
        in_a_row(&client);
        // The caller has gone: the answer is an orphan.
        drop(client.call("now:a".into(), crate::support::ALWAYS));
        ears.log.wait_for("orphan a");
        in_a_row(&client);
        let numbers = client.subscribe("numbers:3".into());
        let items: Vec<_> = std::iter::from_fn(|| numbers.recv()).collect();
        assert_eq!(items, [b"1", b"2", b"3"]);
        end(&server, &desk, [client]);
    });
}

#[test]
fn close_ends_the_call_of_a_caller_that_reads() {
    explore("close_ends_the_call_of_a_caller_that_reads", || {
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        in_a_row(&client);
        let caller = {
            let client = client.clone();
            thread::spawn(move || client.call_and_wait("later:a".into(), ONCE))
        };
        let polled = client.call("later:b".into(), ONCE);
        client.close();
        assert_eq!(caller.join().unwrap(), Err(CallError::Closed));
        assert_eq!(polled.wait(), Err(CallError::Closed));
        end(&server, &desk, [client]);
    });
}

#[test]
fn connection_that_breaks_between_the_calls_of_a_row_is_made_again() {
    explore("connection_that_breaks_between_the_calls_of_a_row_is_made_again", || {
        let (server, desk) = serve(Limits::default());
        let (client, ears) = connect();
        in_a_row(&client);
        let breaker = thread::spawn(break_connections);
        let [a, b] = answers_in_time(&client, [("now:a", AGAIN), ("now:b", AGAIN)]);
        assert_eq!((a.as_deref(), b.as_deref()), (Ok("a"), Ok("b")));
        breaker.join().unwrap();
        while ears.log.count("broken") == 0 {
            pass(std::time::Duration::from_millis(200));
            thread::yield_now();
        }
        end(&server, &desk, [client]);
    });
}
