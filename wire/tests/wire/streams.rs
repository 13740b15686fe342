//! Calls that are answered with many items.

use std::task::{Poll, Waker};
use std::time::Duration;

use tubewell_wire::{CallError, Limits, Reply};

use crate::raw::{CALL, CANCEL, END, ITEM, Raw, SEEN, frame};
use crate::support::{HANGS_AFTER, ONCE, Place, Serving, ask, text};

#[test]
fn items_arrive_in_order_and_end() {
    for place in [Place::new(), Place::tcp()] {
        let serving = Serving::start(&place);
        let (client, _) = serving.client();
        let items = client.subscribe(b"numbers:5000".to_vec());
        for number in 0..5000 {
            assert_eq!(items.recv().map(|item| text(&item)), Some(number.to_string()));
        }
        assert_eq!(items.recv(), None);
        assert!(items.is_ended());
        assert_eq!(items.error(), None);
    }
}

#[test]
fn a_stream_is_not_polled_beyond_what_the_client_has_taken() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    let items = client.subscribe(b"numbers:10000".to_vec());
    let mut polled = 1024;
    for _ in 0..4 {
        serving.desk.log.wait_for("number", polled);
        assert_eq!(ask(&client, "next"), "next");
        assert_eq!(serving.desk.log.count("number"), polled);
        for _ in 0..512 {
            items.recv().unwrap();
        }
        polled += 512;
    }
}

#[test]
fn a_stream_whose_items_are_not_taken_does_not_hold_up_calls() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    let items: Vec<_> = (0..10).map(|_| client.subscribe(b"numbers:10000".to_vec())).collect();
    serving.desk.log.wait_for("number", 10 * 1024);
    assert_eq!(ask(&client, "next"), "next");
    drop(items);
    serving.desk.log.wait_for("numbers dropped", 10);
}

#[test]
fn dropping_items_drops_the_stream() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    let items = client.subscribe(b"numbers:10000".to_vec());
    assert_eq!(items.recv().unwrap(), b"0");
    drop(items);
    serving.desk.log.wait_for("numbers dropped", 1);
    assert_eq!(ask(&client, "next"), "next");
}

#[test]
fn items_are_received_in_each_way() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    let items = client.subscribe(b"stream:name".to_vec());
    assert_eq!(items.try_recv(), None);
    assert_eq!(items.recv_timeout(Duration::from_millis(1)), None);
    assert_eq!(items.poll_next(Waker::noop()), Poll::Pending);
    serving.desk.finish("name", Reply::new(b"1".to_vec()));
    assert_eq!(items.recv_timeout(HANGS_AFTER).unwrap(), b"1");
    serving.desk.finish("name", Reply::new(b"2".to_vec()));
    assert_eq!(items.recv().unwrap(), b"2");
    assert!(!items.is_ended());
    drop(client);
    assert_eq!(items.poll_next(Waker::noop()), Poll::Ready(None));
    assert_eq!(items.recv(), None);
    assert_eq!(items.error(), Some(CallError::Closed));
}

#[test]
fn one_answer_is_the_only_item() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    let items = client.subscribe(b"no stream".to_vec());
    assert_eq!(items.recv().unwrap(), b"no stream");
    assert_eq!(items.recv(), None);
}

#[test]
fn a_call_that_is_answered_with_items_fails() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    let answer = client.call(b"numbers:10000".to_vec(), ONCE).wait();
    let why = "the server answered with many items".to_owned();
    assert_eq!(answer, Err(CallError::Broken { why }));
    serving.desk.log.wait_for("numbers dropped", 1);
    assert_eq!(ask(&client, "next"), "next");
}

#[test]
fn an_item_above_the_limit_ends_the_items_with_an_error() {
    let place = Place::new();
    let serving = Serving::with(&place, Limits { frame: 100, ..Limits::default() });
    let (client, _) = serving.client();
    let items = client.subscribe(b"stream:name".to_vec());
    serving.desk.finish("name", Reply::new(vec![0; 101]));
    assert_eq!(items.recv(), None);
    let why = "an item of 101 bytes is longer than the limit of 100".to_owned();
    assert_eq!(items.error(), Some(CallError::Broken { why }));
    assert_eq!(ask(&client, "next"), "next");
}

#[test]
fn a_stream_waits_for_a_peer_that_does_not_read() {
    let place = Place::new();
    let serving = Serving::with(&place, Limits { unsent: 1000, ..Limits::default() });
    let mut raw = Raw::welcomed(&serving.address);
    raw.call(1, "numbers:10000000");
    // It says that it has taken all, but reads nothing.
    raw.send(&frame(SEEN, 1, &u64::MAX.to_le_bytes()));
    let (client, _) = serving.client();
    assert_eq!(ask(&client, "next"), "next");
    for next in 0..100_000 {
        let (kind, number, body) = raw.receive().unwrap();
        assert_eq!((kind, number, text(&body)), (ITEM, 1, next.to_string()));
    }
    raw.send(&frame(CANCEL, 1, b""));
    let last = loop {
        let frame = raw.receive().unwrap();
        if frame.0 != ITEM {
            break frame;
        }
    };
    assert_eq!(last, (END, 1, Vec::new()));
    serving.desk.log.wait_for("numbers dropped", 1);
    raw.send(&frame(CALL, 2, b"next"));
    assert_eq!(raw.receive().unwrap().1, 2);
}
