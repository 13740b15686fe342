//! Calls and their answers.

use shuttle::thread;
use tubewell_wire::Limits;
use tubewell_wire::explored::set_pipe_size;

use crate::explore::explore;
use crate::support::{ALWAYS, ONCE, ask, asking, connect, end, serve};

#[test]
fn every_call_is_answered_once_in_any_order() {
    explore("every_call_is_answered_once_in_any_order", || {
        let (server, desk) = serve(Limits::default());
        let (client, ears) = connect();
        let names = ["a", "b", "c"];
        let callers = names.map(|name| asking(&client, &format!("later:{name}"), ONCE));
        for name in ["c", "a", "b"] {
            desk.signal(name);
        }
        for (caller, name) in callers.into_iter().zip(names) {
            assert_eq!(caller.join().unwrap().as_deref(), Ok(name));
            assert_eq!(desk.log.count(&format!("call later:{name}")), 1);
            assert_eq!(desk.log.count(&format!("ready {name}")), 1);
            assert_eq!(ears.log.count(&format!("orphan {name}")), 0);
        }
        end(&server, &desk, [client]);
    });
}

/// The reading thread and the thread of futures write answers of one connection, each in pieces.
#[test]
fn answers_of_both_threads_share_a_small_pipe() {
    explore("answers_of_both_threads_share_a_small_pipe", || {
        set_pipe_size(40);
        let (server, desk) = serve(Limits::default());
        let (client, _) = connect();
        let later = asking(&client, "later:a", ONCE);
        let bytes = asking(&client, "bytes:100", ONCE);
        desk.signal("a");
        assert_eq!(ask(&client, "now:b", ONCE).as_deref(), Ok("b"));
        assert_eq!(later.join().unwrap().as_deref(), Ok("a"));
        assert_eq!(bytes.join().unwrap().unwrap().len(), 100);
        end(&server, &desk, [client]);
    });
}

#[test]
fn calls_above_the_limit_wait_for_the_end_of_others() {
    explore("calls_above_the_limit_wait_for_the_end_of_others", || {
        let (server, desk) = serve(Limits { calls: 1, ..Limits::default() });
        let (client, _) = connect();
        let first = asking(&client, "later:a", ONCE);
        let second = asking(&client, "later:b", ONCE);
        let dropped = {
            let client = client.clone();
            thread::spawn(move || drop(client.call(b"later:c".to_vec(), ONCE)))
        };
        desk.signal("b");
        desk.signal("a");
        assert_eq!(first.join().unwrap().as_deref(), Ok("a"));
        assert_eq!(second.join().unwrap().as_deref(), Ok("b"));
        dropped.join().unwrap();
        assert_eq!(ask(&client, "now:d", ONCE).as_deref(), Ok("d"));
        end(&server, &desk, [client]);
        assert_eq!(desk.log.count("call later:c"), desk.log.count("dropped c"));
    });
}

#[test]
fn clients_connect_and_call_beside_each_other() {
    explore("clients_connect_and_call_beside_each_other", || {
        let (server, desk) = serve(Limits::default());
        let callers = ["a", "b"].map(|name| {
            thread::spawn(move || {
                let (client, _) = connect();
                assert_eq!(ask(&client, &format!("now:{name}"), ONCE).as_deref(), Ok(name));
                assert_eq!(ask(&client, &format!("later:{name}"), ALWAYS).as_deref(), Ok(name));
            })
        });
        desk.signal("b");
        desk.signal("a");
        for caller in callers {
            caller.join().unwrap();
        }
        end(&server, &desk, []);
        assert_eq!(desk.log.count("disconnect"), 2);
    });
}
