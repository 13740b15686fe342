//! Connections that break, and servers that start again.

use shuttle::thread;
use tubewell_wire::explored::{break_connections, set_pipe_size};
use tubewell_wire::{CallError, Limits};

use crate::explore::{explore, explore_few};
use crate::support::{AGAIN, ONCE, answers_in_time, connect, end, serve, serve_at};

/// The connection may break at each step of it: in the middle of a write of the client or the server too.
#[test]
fn connection_that_breaks_leaves_no_caller_waiting() {
    explore("connection_that_breaks_leaves_no_caller_waiting", || {
        set_pipe_size(40);
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        let breaker = thread::spawn(break_connections);
        let long = format!("now:{}", "x".repeat(60));
        let [once, again, bytes] =
            answers_in_time(&client, [(&long, ONCE), (&long, AGAIN), ("bytes:60", AGAIN)]);
        assert!(
            matches!(&once, Ok(_) | Err(CallError::Broken { .. } | CallError::NotConnected { .. })),
            "{once:?}"
        );
        assert_eq!(again.unwrap().len(), 60);
        assert_eq!(bytes.unwrap().len(), 60);
        breaker.join().unwrap();
        end(&server, &desk, [client]);
    });
}

#[test]
fn call_that_is_made_once_has_its_effect_at_most_once() {
    explore("call_that_is_made_once_has_its_effect_at_most_once", || {
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        let breaker = thread::spawn(break_connections);
        let answers = answers_in_time(&client, [("now:a", ONCE), ("now:b", ONCE)]);
        breaker.join().unwrap();
        end(&server, &desk, [client]);
        for (answer, name) in answers.iter().zip(["a", "b"]) {
            let calls = desk.log.count(&format!("call now:{name}"));
            match answer {
                Ok(answer) => assert_eq!((answer.as_str(), calls), (name, 1)),
                Err(CallError::NotConnected { .. }) => assert_eq!(calls, 0),
                Err(error) => {
                    assert!(matches!(error, CallError::Broken { .. }), "{error}");
                    assert!(calls <= 1);
                }
            }
        }
    });
}

#[test]
fn tracked_answer_is_received_or_reported_lost() {
    explore("tracked_answer_is_received_or_reported_lost", || {
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        let threads = [
            thread::spawn(break_connections),
            thread::spawn({
                let desk = desk.clone();
                move || ["b", "a"].iter().for_each(|name| desk.signal(name))
            }),
        ];
        let answers = answers_in_time(&client, [("tracked:a", ONCE), ("tracked:b", ONCE)]);
        for thread in threads {
            thread.join().unwrap();
        }
        end(&server, &desk, [client]);
        for (answer, name) in answers.iter().zip(["a", "b"]) {
            let [ready, lost] =
                ["ready", "lost"].map(|line| desk.log.count(&format!("{line} {name}")));
            assert!(lost <= ready && ready <= 1);
            assert!(
                lost == ready || answer.is_ok(),
                "{name} is lost, and the service was not told"
            );
        }
    });
}

#[test]
fn calls_outlive_a_restart_of_the_server() {
    explore_few("calls_outlive_a_restart_of_the_server", || {
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        let restart = {
            let desk = desk.clone();
            thread::spawn(move || {
                server.stop();
                serve_at(&desk, Limits::default())
            })
        };
        let [a, b] = answers_in_time(&client, [("now:a", AGAIN), ("now:b", AGAIN)]);
        assert_eq!((a.as_deref(), b.as_deref()), (Ok("a"), Ok("b")));
        let server = restart.join().unwrap();
        end(&server, &desk, [client]);
    });
}
