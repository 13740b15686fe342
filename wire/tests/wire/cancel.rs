//! Calls whose caller goes, in each state of a call.

use tubewell_wire::{Limits, Reply};

use crate::support::{AGAIN, ALWAYS, ONCE, Place, Serving, ask};

#[test]
fn dropping_a_pending_call_drops_its_future() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client();
    let pending = client.call(b"later:name".to_vec(), ONCE);
    serving.desk.log.wait_for("pending name", 1);
    drop(pending);
    serving.desk.log.wait_for("dropped name", 1);
    assert_eq!(ask(&client, "next"), "next");
    assert_eq!(ears.log.lines(), ["welcome "]);
}

#[test]
fn a_call_that_is_not_cancelled_goes_on_and_its_answer_is_an_orphan() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client();
    drop(client.call(b"later:name".to_vec(), ALWAYS));
    serving.desk.log.wait_for("pending name", 1);
    serving.desk.finish("name", serving.desk.tracked(b"answer"));
    ears.log.wait_for("orphan answer", 1);
    assert_eq!(ask(&client, "next"), "next");
    drop(client);
    serving.desk.log.wait_for("disconnect", 1);
    assert_eq!(serving.desk.log.count("lost answer"), 0);
}

#[test]
fn an_answer_that_was_not_taken_is_an_orphan() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client();
    for (count, kind) in [(1, ONCE), (2, ALWAYS)] {
        let pending = client.call(b"quiet:name".to_vec(), kind);
        // Answers at once arrive in the order of the calls.
        assert_eq!(ask(&client, "next"), "next");
        assert!(pending.is_done());
        assert_eq!(ears.log.count("orphan quiet:name"), count - 1);
        drop(pending);
        assert_eq!(ears.log.count("orphan quiet:name"), count);
    }
}

#[test]
fn a_cancelled_call_that_completes_all_the_same_is_an_orphan() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client();
    let pending = client.call(b"future:waits, then is ready".to_vec(), ONCE);
    serving.desk.log.wait_for("at gate", 1);
    drop(pending);
    // The cancellation was read before this was answered.
    assert_eq!(ask(&client, "next"), "next");
    serving.desk.open_gate();
    ears.log.wait_for("orphan ready", 1);
    assert_eq!(serving.desk.log.count("future dropped"), 1);
}

#[test]
fn a_call_that_is_cancelled_while_it_is_polled_is_dropped_afterwards() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client();
    let pending = client.call(b"future:waits, then is pending".to_vec(), ONCE);
    serving.desk.log.wait_for("at gate", 1);
    drop(pending);
    assert_eq!(ask(&client, "next"), "next");
    assert_eq!(serving.desk.log.count("future dropped"), 0);
    serving.desk.open_gate();
    serving.desk.log.wait_for("future dropped", 1);
    assert_eq!(ears.log.lines(), ["welcome "]);
}

#[test]
fn a_call_that_was_not_sent_is_cancelled_without_the_server() {
    let place = Place::new();
    let serving = Serving::with(&place, Limits { calls: 1, ..Limits::default() });
    let (client, _) = serving.client();
    let first = client.call(b"later:first".to_vec(), ONCE);
    drop(client.call(b"second".to_vec(), ONCE));
    drop(client.call(b"third".to_vec(), ALWAYS));
    serving.desk.finish("first", Reply::new(Vec::new()));
    first.wait().unwrap();
    assert_eq!(ask(&client, "fourth"), "fourth");
    assert_eq!(serving.desk.log.count("call second"), 0);
    assert_eq!(serving.desk.log.count("call third"), 1);
}

#[test]
fn many_cancelled_calls_leave_room_for_others() {
    let place = Place::new();
    let serving = Serving::with(&place, Limits { calls: 8, ..Limits::default() });
    let (client, _) = serving.client();
    for _ in 0..1000 {
        drop(client.call(b"later:name".to_vec(), AGAIN));
    }
    assert_eq!(ask(&client, "next"), "next");
    drop(client);
    serving.desk.log.wait_for("disconnect", 1);
    let log = &serving.desk.log;
    assert_eq!(log.count("call later:name"), log.count("dropped name"));
}
