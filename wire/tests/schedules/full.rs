//! Peers that do not read.

use shuttle::thread;
use tubewell_wire::Limits;
use tubewell_wire::explored::set_pipe_size;

use crate::explore::explore;
use crate::support::{ALWAYS, Ears, ONCE, ask, asking, connect, connect_with, end, serve};

/// A client whose thread reads nothing until the gate is open.
fn close_gate(client: &tubewell_wire::Client, ears: &Ears, desk: &crate::support::Desk) {
    // Nobody has the answer, so it goes to the handler on the client's thread, which waits there.
    drop(client.call(b"later:gate".to_vec(), ALWAYS));
    desk.signal("gate");
    ears.log.wait_for("orphan gate");
}

#[test]
fn client_that_does_not_read_delays_no_other() {
    explore("client_that_does_not_read_delays_no_other", || {
        set_pipe_size(64);
        let (server, desk) = serve(Limits::default());
        let (slow, ears) = connect();
        close_gate(&slow, &ears, &desk);
        let first = asking(&slow, "bytes:200", ONCE);
        let second = asking(&slow, "later:a", ONCE);
        desk.signal("a");
        let (quick, _) = connect();
        assert_eq!(ask(&quick, "bytes:100", ONCE).unwrap().len(), 100);
        assert_eq!(ask(&quick, "now:b", ONCE).as_deref(), Ok("b"));
        ears.log.add("gate is open");
        assert_eq!(first.join().unwrap().unwrap().len(), 200);
        assert_eq!(second.join().unwrap().as_deref(), Ok("a"));
        end(&server, &desk, [slow, quick]);
    });
}

/// With more output than the limit, the server neither reads nor polls until the client has read.
#[test]
fn server_goes_on_when_the_client_has_read() {
    explore("server_goes_on_when_the_client_has_read", || {
        set_pipe_size(64);
        let (server, desk) = serve(Limits { unsent: 20, ..Limits::default() });
        let (client, ears) = connect();
        close_gate(&client, &ears, &desk);
        let callers = ["bytes:100", "bytes:90", "later:a", "bytes:80"]
            .map(|call| asking(&client, call, ONCE));
        desk.signal("a");
        ears.log.add("gate is open");
        let lengths = callers.map(|caller| caller.join().unwrap().unwrap().len());
        assert_eq!(lengths, [100, 90, 1, 80]);
        end(&server, &desk, [client]);
    });
}

/// Calls of two connections, of which the server holds one at a time. The clients keep to the limit of a connection, so
/// that no cancellation is behind a call that is not read.
#[test]
fn calls_above_the_limits_of_bytes_wait_for_the_end_of_others() {
    explore("calls_above_the_limits_of_bytes_wait_for_the_end_of_others", || {
        let limits = Limits { call_bytes: 60, all_call_bytes: 40, ..Limits::default() };
        let (server, desk) = serve(limits.clone());
        let (one, _) = connect_with(limits.clone());
        let (other, _) = connect_with(limits);
        // Each call has 40 bytes, of which 24 count for both connections.
        let names = ["a-has-twenty-bytes!!", "b-has-twenty-bytes!!", "c-has-twenty-bytes!!"];
        let [a, b, c] = names;
        let callers = [(&one, a), (&other, b), (&one, c)]
            .map(|(client, name)| asking(client, &format!("later:{name}"), ONCE));
        let dropped = {
            let other = other.clone();
            thread::spawn(move || drop(other.call(b"later:d-has-twenty-bytes!!".to_vec(), ONCE)))
        };
        for name in [c, b, a] {
            desk.signal(name);
        }
        for (caller, name) in callers.into_iter().zip(names) {
            assert_eq!(caller.join().unwrap().as_deref(), Ok(name));
        }
        dropped.join().unwrap();
        assert_eq!(ask(&other, "now:e", ONCE).as_deref(), Ok("e"));
        end(&server, &desk, [one, other]);
    });
}

/// The server waits until what it wrote is read. What it did not write is lost, and its callers get errors.
#[test]
fn stop_waits_for_a_client_that_reads_late() {
    explore("stop_waits_for_a_client_that_reads_late", || {
        set_pipe_size(64);
        let (server, desk) = serve(Limits::default());
        let (client, ears) = connect();
        close_gate(&client, &ears, &desk);
        let pending = client.call(b"bytes:200".to_vec(), ONCE);
        desk.log.wait_for("call bytes:200");
        let opener = thread::spawn({
            let ears = ears.clone();
            move || ears.log.add("gate is open")
        });
        server.stop();
        assert_eq!(pending.wait().unwrap().len(), 200);
        opener.join().unwrap();
        end(&server, &desk, [client]);
    });
}
