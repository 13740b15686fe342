//! Panics in the application's code.

use tubewell_wire::{CallError, Client, Reply, WireError};

use crate::raw::{CANCEL, Raw, frame};
use crate::support::{AGAIN, ALWAYS, Ears, ONCE, Place, Serving, ask, options_at};
use std::sync::Arc;

/// The connection of `call` breaks, that of another client does not.
fn breaks_its_connection_alone(call: &str) {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (other, other_ears) = serving.client();
    let (client, ears) = serving.client();
    let pending = client.call(b"later:name".to_vec(), ONCE);
    serving.desk.log.wait_for("pending name", 1);
    let answer = client.call(call.into(), ONCE).wait();
    assert!(matches!(answer, Err(CallError::Broken { .. })), "{answer:?}");
    assert!(matches!(pending.wait(), Err(CallError::Broken { .. })));
    serving.desk.log.wait_for("dropped name", 1);
    assert_eq!(ask(&client, "again"), "again");
    assert_eq!(ask(&other, "next"), "next");
    assert_eq!(ears.log.count("broken"), 1);
    assert_eq!(other_ears.log.count("broken"), 0);
}

#[test]
fn a_panic_in_a_call_breaks_its_connection_alone() {
    breaks_its_connection_alone("panic");
}

#[test]
fn a_panic_in_the_first_poll_breaks_its_connection_alone() {
    breaks_its_connection_alone("future:panics at once");
}

#[test]
fn a_panic_in_a_later_poll_breaks_its_connection_alone() {
    breaks_its_connection_alone("future:panics");
}

#[test]
fn a_panic_in_a_stream_breaks_its_connection_alone() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (other, _) = serving.client();
    let (client, _) = serving.client();
    let items = client.subscribe(b"stream:name".to_vec());
    serving.desk.finish("name", Reply::new(b"panic".to_vec()));
    assert_eq!(items.recv(), None);
    assert!(matches!(items.error(), Some(CallError::Broken { .. })));
    assert_eq!(ask(&client, "again"), "again");
    assert_eq!(ask(&other, "next"), "next");
}

#[test]
fn a_panic_in_the_drop_of_a_cancelled_future_breaks_its_connection_alone() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (other, _) = serving.client();
    let mut raw = Raw::welcomed(&serving.address);
    raw.call(1, "later:panics in drop");
    serving.desk.log.wait_for("pending panics in drop", 1);
    raw.send(&frame(CANCEL, 1, b""));
    assert!(raw.last().is_none());
    serving.desk.log.wait_for("disconnect", 1);
    assert_eq!(ask(&other, "next"), "next");
}

#[test]
fn an_answer_is_not_lost_by_a_panic_in_the_drop_of_its_future() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client();
    assert_eq!(ask(&client, "future:panics in drop"), "done");
    assert_eq!(ears.log.count("broken"), 0);
}

#[test]
fn panics_at_the_end_of_a_connection_harm_no_other() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (other, _) = serving.client();
    let ears = Arc::new(Ears::default());
    *ears.hello.lock().unwrap() = b"panic in disconnect".to_vec();
    let client = Client::connect(&serving.address, options_at(&serving.address), ears).unwrap();
    ask(&client, "tracked:panic");
    let mut raw = Raw::welcomed(&serving.address);
    raw.call(1, "tracked:panic");
    raw.call(2, "tracked:other");
    raw.receive().unwrap();
    drop((client, raw));
    serving.desk.log.wait_for("disconnect", 2);
    assert_eq!(serving.desk.log.count("lost other"), 1);
    assert_eq!(ask(&other, "next"), "next");
}

#[test]
fn a_panic_in_connect_closes_the_connection() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (other, _) = serving.client();
    let ears = Arc::new(Ears::default());
    *ears.hello.lock().unwrap() = b"panic in connect".to_vec();
    let error = Client::connect(&serving.address, options_at(&serving.address), ears).unwrap_err();
    assert!(matches!(error, WireError::Io { .. }), "{error}");
    assert_eq!(ask(&other, "next"), "next");
}

#[test]
fn a_panic_in_the_handler_harms_no_other_call() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, ears) = serving.client();
    drop(client.call(b"later:name".to_vec(), ALWAYS));
    let pending = client.call(b"later:other".to_vec(), AGAIN);
    serving.desk.log.wait_for("pending other", 1);
    serving.desk.finish("name", Reply::new(b"panic".to_vec()));
    ears.log.wait_for("orphan panic", 1);
    serving.desk.finish("other", Reply::new(b"answer".to_vec()));
    assert_eq!(pending.wait().unwrap(), b"answer");
}
