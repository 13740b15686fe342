//! Answers whose receipt the client confirms.

use crate::raw::{ANSWER, REFUSED, Raw, SEEN, TRACKED, frame};
use crate::support::{ONCE, Place, Serving, ask};

#[test]
fn a_received_answer_is_not_lost() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let (client, _) = serving.client();
    let call = |n| client.call(format!("tracked:{n}").into_bytes(), ONCE);
    let pending: Vec<_> = (0..10).map(call).collect();
    for pending in pending {
        pending.wait().unwrap();
    }
    // The second one is sent behind all confirmations.
    assert_eq!(ask(&client, "next"), "next");
    assert_eq!(ask(&client, "next"), "next");
    drop(client);
    serving.desk.log.wait_for("disconnect", 1);
    assert!(!serving.desk.log.lines().iter().any(|line| line.starts_with("lost")));
}

#[test]
fn exactly_the_answers_that_were_not_confirmed_are_lost() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let mut raw = Raw::welcomed(&serving.address);
    raw.call(1, "tracked:1");
    raw.call(2, "not tracked");
    raw.call(3, "later:3");
    raw.call(4, "later:4");
    raw.call(5, "tracked:5");
    raw.call(6, "later:6");
    let mut frames: Vec<_> = (0..3).map(|_| raw.receive().unwrap()).collect();
    serving.desk.log.wait_for("pending 6", 1);
    // Confirmations count in the order of the answers, not of the calls.
    serving.desk.finish("4", serving.desk.tracked(b"4"));
    frames.push(raw.receive().unwrap());
    serving.desk.finish("3", serving.desk.tracked(b"3"));
    frames.push(raw.receive().unwrap());
    let kinds: Vec<_> = frames.iter().map(|frame| (frame.0, frame.1)).collect();
    assert_eq!(kinds, [(TRACKED, 1), (ANSWER, 2), (TRACKED, 5), (TRACKED, 4), (TRACKED, 3)]);
    raw.send(&frame(SEEN, 0, &2_u64.to_le_bytes()));
    raw.call(7, "last");
    assert_eq!(raw.receive().unwrap().1, 7);
    drop(raw);
    serving.desk.log.wait_for("disconnect", 1);
    let lines = serving.desk.log.lines();
    assert_eq!(lines[lines.len() - 4..], ["dropped 6", "lost 4", "lost 3", "disconnect"]);
    assert_eq!(lines.iter().filter(|line| line.starts_with("lost")).count(), 2);
}

#[test]
fn an_answer_that_comes_after_the_end_is_lost() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let mut raw = Raw::welcomed(&serving.address);
    raw.call(1, "future:waits, then is ready");
    serving.desk.log.wait_for("at gate", 1);
    raw.call(2, "later:2");
    serving.desk.log.wait_for("pending 2", 1);
    drop(raw);
    // The end was noticed.
    serving.desk.log.wait_for("dropped 2", 1);
    assert_eq!(serving.desk.log.count("disconnect"), 0);
    serving.desk.open_gate();
    serving.desk.log.wait_for("disconnect", 1);
    let lines = serving.desk.log.lines();
    assert_eq!(lines[lines.len() - 3..], ["future dropped", "lost ready", "disconnect"]);
}

#[test]
fn a_client_that_confirms_more_than_there_was_is_refused() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let mut raw = Raw::welcomed(&serving.address);
    raw.call(1, "tracked:1");
    assert_eq!(raw.receive().unwrap().0, TRACKED);
    raw.send(&frame(SEEN, 0, &2_u64.to_le_bytes()));
    assert_eq!(raw.last().unwrap().0, REFUSED);
    serving.desk.log.wait_for("disconnect", 1);
    assert_eq!(serving.desk.log.count("lost 1"), 1);
}

#[test]
fn a_confirmation_out_of_date_changes_nothing() {
    let place = Place::new();
    let serving = Serving::start(&place);
    let mut raw = Raw::welcomed(&serving.address);
    for (number, count) in [(1, 0_u64), (2, 1), (3, 0), (4, 1)] {
        raw.call(number, "tracked:x");
        assert_eq!(raw.receive().unwrap().0, TRACKED);
        raw.send(&frame(SEEN, 0, &count.to_le_bytes()));
    }
    raw.call(9, "last");
    assert_eq!(raw.receive().unwrap().0, ANSWER);
    drop(raw);
    serving.desk.log.wait_for("disconnect", 1);
    assert_eq!(serving.desk.log.count("lost x"), 3);
}
