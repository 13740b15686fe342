//! Connections whose peer has vanished without a word.

use std::sync::Arc;
use std::time::Duration;

use tubewell_wire::{Client, Limits};

use crate::raw::{ANSWER, REFUSED, Raw, WELCOME, hello};
use crate::support::{Ears, Place, Serving, ask, options_at};

/// Says hello as this client.
fn client(serving: &Serving, number: u32) -> Raw {
    let mut raw = Raw::connect(&serving.address);
    raw.send(&hello(1, 1, format!("client:{number}").as_bytes()));
    raw
}

#[test]
fn connection_before_of_a_client_ends_before_its_next_one_is_accepted() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (mut before, mut other) = (client(&serving, 7), client(&serving, 8));
    for raw in [&mut before, &mut other] {
        assert_eq!(raw.receive().unwrap().0, WELCOME);
    }
    before.call(1, "tracked:1");
    before.call(2, "later:2");
    serving.desk.log.wait_for("pending 2", 1);
    let mut next = client(&serving, 7);
    assert_eq!(next.receive().unwrap().0, WELCOME);
    let lines = serving.desk.log.lines();
    assert_eq!(lines[lines.len() - 4..], ["dropped 2", "lost 1", "disconnect", "hello client:7"]);
    assert_eq!(before.last().unwrap().0, 7, "the tracked answer, and the end of the connection");
    other.call(1, "other");
    assert_eq!(other.receive().unwrap(), (ANSWER, 1, b"other".to_vec()));
}

#[test]
fn client_is_accepted_once_a_call_of_its_connection_before_is_polled() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let mut before = client(&serving, 7);
    assert_eq!(before.receive().unwrap().0, WELCOME);
    before.call(1, "future:waits, then is ready");
    serving.desk.log.wait_for("at gate", 1);
    // The last one is that of the client.
    let (_refused, mut next) = (client(&serving, 7), client(&serving, 7));
    let (other, _) = serving.client();
    for _ in 0..3 {
        assert_eq!(ask(&other, "call"), "call");
    }
    assert_eq!(serving.desk.log.count("hello client:7"), 1);
    serving.desk.open_gate();
    assert_eq!(next.receive().unwrap().0, WELCOME);
    next.call(1, "next");
    assert_eq!(next.receive().unwrap(), (ANSWER, 1, b"next".to_vec()));
    assert_eq!(serving.desk.log.count("lost ready"), 1);
}

#[test]
fn client_takes_the_place_of_its_connection_before() {
    let place = Place::new();
    let serving = Serving::with(&place, Limits { connections: 1, ..Limits::default() });
    let mut before = client(&serving, 7);
    assert_eq!(before.receive().unwrap().0, WELCOME);
    assert_eq!(client(&serving, 8).receive().unwrap().0, REFUSED);
    assert_eq!(client(&serving, 7).receive().unwrap().0, WELCOME);
    assert_eq!(before.receive(), None);
}

fn limits() -> Limits {
    Limits { silence: Duration::from_secs(1), ..Limits::default() }
}

fn expect_beats(raw: &mut Raw, expect: bool) {
    raw.call(1, if expect { "beats:on" } else { "beats:off" });
    assert_eq!(raw.receive().unwrap().0, ANSWER);
}

#[test]
fn silent_connection_ends_if_beats_are_expected() {
    let place = Place::new();
    let serving = Serving::with(&place, limits());
    let (mut idle, mut released) =
        (Raw::welcomed(&serving.address), Raw::welcomed(&serving.address));
    expect_beats(&mut released, true);
    expect_beats(&mut released, false);
    let mut silent = Raw::welcomed(&serving.address);
    expect_beats(&mut silent, true);
    assert_eq!(silent.receive(), None);
    serving.desk.log.wait_for("disconnect", 1);
    // These two may be silent.
    for raw in [&mut idle, &mut released] {
        raw.call(2, "call");
        assert_eq!(raw.receive().unwrap(), (ANSWER, 2, b"call".to_vec()));
    }
}

/// An answer that another thread than the reading one has written begins it, too.
#[test]
fn beats_are_expected_from_a_later_answer_on() {
    let place = Place::new();
    let serving = Serving::with(&place, limits());
    let mut raw = Raw::welcomed(&serving.address);
    raw.call(1, "later:x");
    serving.desk.log.wait_for("pending x", 1);
    let reply = tubewell_wire::Reply { expect_beats: Some(true), ..Default::default() };
    serving.desk.finish("x", reply);
    assert_eq!(raw.receive().unwrap().0, ANSWER);
    assert_eq!(raw.receive(), None);
}

#[test]
fn connection_of_a_client_that_beats_stays() {
    let place = Place::new();
    let serving = Serving::with(&place, limits());
    let ears = Arc::new(Ears::default());
    let client = Arc::new(
        Client::connect(&serving.address, options_at(&serving.address), ears.clone()).unwrap(),
    );
    ears.client.set(Arc::downgrade(&client)).unwrap();
    client.set_beat(Some(Duration::from_millis(50)));
    assert_eq!(ask(&client, "beats:on"), "beats:on");
    // Its first beats are made while its thread reads, the others while it does not.
    for _ in 0..20 {
        ask(&client, "quiet");
    }
    let mut silent = Raw::welcomed(&serving.address);
    expect_beats(&mut silent, true);
    assert_eq!(silent.receive(), None);
    assert_eq!(ask(&client, "beats:off"), "beats:off");
    assert_eq!(ears.log.count("broken"), 0);
    assert!(ears.log.count("beat") > 1);
    client.set_beat(None);
}
