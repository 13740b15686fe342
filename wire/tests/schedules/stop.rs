//! Servers and clients that end while others call.

use shuttle::thread;
use tubewell_wire::explored::set_pipe_size;
use tubewell_wire::{CallError, Limits};

use crate::explore::explore;
use crate::support::{ONCE, ask, asking, connect, end, serve, try_connect};

/// Returns once both threads of the server have ended; a caller that gets no end blocks forever.
#[test]
fn stop_ends_the_calls_in_flight() {
    explore("stop_ends_the_calls_in_flight", || {
        let (server, desk) = serve(Limits::default());
        let (client, ears) = connect();
        let callers = ["later:a", "later:b"].map(|call| asking(&client, call, ONCE));
        for call in ["call later:a", "call later:b"] {
            desk.log.wait_for(call);
        }
        server.stop();
        for caller in callers {
            let error = caller.join().unwrap().unwrap_err();
            assert!(matches!(error, CallError::Broken { .. }), "{error}");
        }
        ears.log.wait_for("broken");
        assert_eq!((desk.log.count("dropped a"), desk.log.count("dropped b")), (1, 1));
        assert_eq!(desk.log.count("disconnect"), 1);
        end(&server, &desk, [client]);
    });
}

/// The reading thread stops while the other one has yet to poll them.
#[test]
fn stop_answers_the_calls_that_were_woken_before() {
    explore("stop_answers_the_calls_that_were_woken_before", || {
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        let callers = ["later:a", "later:b"].map(|call| asking(&client, call, ONCE));
        for call in ["call later:a", "call later:b"] {
            desk.log.wait_for(call);
        }
        desk.signal("a");
        server.stop();
        let [woken, waiting] = callers.map(|caller| caller.join().unwrap());
        assert!(woken.is_ok(), "{woken:?}");
        assert!(matches!(waiting, Err(CallError::Broken { .. })), "{waiting:?}");
        end(&server, &desk, [client]);
    });
}

/// Time stands still: it does not wait until the time of the clients is over.
#[test]
fn stop_returns_when_either_thread_has_written_the_last_answer() {
    explore("stop_returns_when_either_thread_has_written_the_last_answer", || {
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        let caller = asking(&client, "later:a", ONCE);
        desk.log.wait_for("call later:a");
        let signaller = {
            let desk = desk.clone();
            thread::spawn(move || desk.signal("a"))
        };
        server.stop();
        let answer = caller.join().unwrap();
        assert!(matches!(answer, Ok(_) | Err(CallError::Broken { .. })), "{answer:?}");
        signaller.join().unwrap();
        end(&server, &desk, [client]);
    });
}

#[test]
fn stop_beside_answers_and_another_stop_ends_all() {
    explore("stop_beside_answers_and_another_stop_ends_all", || {
        set_pipe_size(40);
        let (server, desk) = serve(Limits::default());
        let server = std::sync::Arc::new(server);
        let (client, _) = connect();
        let callers = ["later:a", "bytes:50"].map(|call| asking(&client, call, ONCE));
        for call in ["call later:a", "call bytes:50"] {
            desk.log.wait_for(call);
        }
        let other = {
            let server = server.clone();
            thread::spawn(move || server.stop())
        };
        desk.signal("a");
        server.stop();
        other.join().unwrap();
        for caller in callers {
            let answer = caller.join().unwrap();
            assert!(matches!(answer, Ok(_) | Err(CallError::Broken { .. })), "{answer:?}");
        }
        end(&server, &desk, [client]);
        assert_eq!(desk.log.count("dropped a"), 1);
    });
}

#[test]
fn client_that_connects_beside_a_stop_is_accepted_or_refused() {
    explore("client_that_connects_beside_a_stop_is_accepted_or_refused", || {
        let (server, desk) = serve(Limits::default());
        let connecting = thread::spawn(|| {
            let connected = try_connect();
            connected.map(drop).map_err(|error| error.to_string())
        });
        server.stop();
        // Any error will do, but it must come.
        let _ = connecting.join().unwrap();
        end(&server, &desk, []);
    });
}

#[test]
fn close_ends_the_calls_of_other_threads() {
    explore("close_ends_the_calls_of_other_threads", || {
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        let callers = ["later:a", "now:b"].map(|call| asking(&client, call, ONCE));
        desk.signal("a");
        client.close();
        for caller in callers {
            let answer = caller.join().unwrap();
            assert!(matches!(answer, Ok(_) | Err(CallError::Closed)), "{answer:?}");
        }
        assert_eq!(ask(&client, "now:late", ONCE), Err(CallError::Closed));
        end(&server, &desk, [client]);
    });
}

/// The client goes while its call is polled, and while other threads write to it.
#[test]
fn client_that_goes_leaves_nothing_at_the_server() {
    explore("client_that_goes_leaves_nothing_at_the_server", || {
        set_pipe_size(40);
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        let pendings =
            ["later:a", "bytes:100"].map(|call| client.call(call.as_bytes().to_vec(), ONCE));
        let finisher = {
            let desk = desk.clone();
            thread::spawn(move || desk.signal("a"))
        };
        client.close();
        drop(pendings);
        desk.log.wait_for("disconnect");
        assert_eq!(desk.log.count("call later:a"), desk.log.count("dropped a"));
        finisher.join().unwrap();
        end(&server, &desk, [client]);
    });
}
