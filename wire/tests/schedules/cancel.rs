//! Callers that go before their answers arrive.

use tubewell_wire::Limits;

use shuttle::thread;
use tubewell_wire::explored::set_pipe_size;

use crate::explore::explore;
use crate::support::{ALWAYS, Desk, ONCE, ask, asking, connect, end, serve};

/// Returns when everything that the thread of futures has answered before was received.
fn wait_for_earlier_answers(client: &std::sync::Arc<tubewell_wire::Client>, desk: &Desk) {
    let later = asking(client, "later:ping", ONCE);
    // Its first poll is on the reading thread.
    desk.log.wait_for("call later:ping");
    assert_eq!(ask(client, "now:next", ONCE).as_deref(), Ok("next"));
    desk.signal("ping");
    assert_eq!(later.join().unwrap().as_deref(), Ok("ping"));
}

#[test]
fn cancelled_call_has_an_orphaned_answer_or_none() {
    explore("cancelled_call_has_an_orphaned_answer_or_none", || {
        let (server, desk) = serve(Limits::default());
        let (client, ears) = connect();
        let pending = client.call(b"later:a".to_vec(), ONCE);
        let finisher = {
            let desk = desk.clone();
            thread::spawn(move || desk.signal("a"))
        };
        drop(pending);
        finisher.join().unwrap();
        // The service is told, in each schedule.
        desk.log.wait_for("dropped a");
        wait_for_earlier_answers(&client, &desk);
        assert_eq!(desk.log.count("dropped a"), 1);
        assert_eq!(ears.log.count("orphan a"), desk.log.count("ready a"));
        end(&server, &desk, [client]);
    });
}

#[test]
fn answer_without_a_caller_is_an_orphan_once() {
    explore("answer_without_a_caller_is_an_orphan_once", || {
        set_pipe_size(40);
        let (server, desk) = serve(Limits::default());
        let (client, ears) = connect();
        let pending = client.call(b"tracked:a".to_vec(), ALWAYS);
        let finisher = {
            let desk = desk.clone();
            thread::spawn(move || desk.signal("a"))
        };
        drop(pending);
        finisher.join().unwrap();
        ears.log.wait_for("orphan a");
        wait_for_earlier_answers(&client, &desk);
        assert_eq!(ears.log.count("orphan a"), 1);
        end(&server, &desk, [client]);
        assert_eq!(desk.log.count("lost a"), 0, "the client has confirmed it");
    });
}
