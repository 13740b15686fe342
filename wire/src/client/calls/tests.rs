use std::time::Duration;

use super::*;
use crate::clock;

const ONCE: CallKind = CallKind { resend: false, cancel: true, changes: false };
const AGAIN: CallKind = CallKind { resend: true, cancel: true, changes: false };
const ALWAYS: CallKind = CallKind { resend: false, cancel: false, changes: false };

fn caller() -> Caller {
    Caller::Call(Arc::default())
}

/// A table whose calls were sent: each frame has 14 bytes and a body of one.
fn sent(kinds: &[CallKind]) -> (Calls, Outbox) {
    let (mut calls, mut outbox) = (Calls::default(), Outbox::default());
    for &kind in kinds {
        calls.add(caller(), kind, vec![1], None);
    }
    assert!(calls.send(&mut outbox, 100, 100).is_empty());
    (calls, outbox)
}

fn later() -> Instant {
    clock::in_time(Duration::from_secs(100))
}

#[test]
fn at_most_the_limit_is_in_flight() {
    let (mut calls, mut outbox) = (Calls::default(), Outbox::default());
    for _ in 0..5 {
        calls.add(caller(), ONCE, vec![1], None);
    }
    calls.send(&mut outbox, 2, 100);
    assert_eq!(outbox.unsent(), 2 * 15);
    assert!(matches!(calls.ended(3), Found::Unknown), "not sent");
    assert!(matches!(calls.ended(1), Found::Caller { .. }));
    assert!(matches!(calls.ended(1), Found::Unknown), "ended already");
    calls.send(&mut outbox, 2, 100);
    assert_eq!(outbox.unsent(), 3 * 15);
}

#[test]
fn calls_above_the_limit_of_bytes_wait_and_a_long_one_is_sent_alone() {
    let (mut calls, mut outbox) =
        (Calls { most_bytes: Some(FREE), ..Calls::default() }, Outbox::default());
    let long = vec![0; 2 * FREE];
    for body in [long.clone(), vec![1], long, vec![2]] {
        calls.add(caller(), ONCE, body, None);
    }
    let mut sent = |calls: &mut Calls| {
        let before = outbox.unsent();
        assert!(calls.send(&mut outbox, 100, usize::MAX).is_empty());
        outbox.unsent() - before
    };
    assert_eq!(sent(&mut calls), 14 + 2 * FREE);
    assert_eq!(sent(&mut calls), 0);
    assert!(matches!(calls.ended(1), Found::Caller { .. }));
    // The short one, and a long one beside so few bytes.
    assert_eq!(sent(&mut calls), 15 + 14 + 2 * FREE);
    assert!(matches!(calls.ended(2), Found::Caller { .. }));
    assert_eq!(sent(&mut calls), 0);
    assert!(calls.broke(u64::MAX, later()).len() == 1);
    assert_eq!(sent(&mut calls), 15);
}

#[test]
fn an_answer_to_a_call_that_was_not_sent_leaves_the_call() {
    let (mut calls, mut outbox) = (Calls::default(), Outbox::default());
    let slot = Arc::default();
    let number = calls.add(Caller::Call(Arc::clone(&slot)), ONCE, vec![1], None);
    assert!(matches!(calls.ended(number), Found::Unknown));
    assert_eq!(calls.take_all(0).len(), 1, "its caller would wait without end");
    let number = calls.add(Caller::Call(slot), ONCE, vec![1], None);
    calls.send(&mut outbox, 1, 100);
    assert!(matches!(calls.ended(number), Found::Caller { .. }));
}

#[test]
fn a_broken_connection_fails_exactly_what_may_have_been_sent() {
    let (mut calls, _) = sent(&[AGAIN, ONCE, ONCE, ALWAYS, AGAIN]);
    // The first two, and one byte of the third.
    let lost = calls.broke(31, later());
    assert_eq!(lost.len(), 2);
    assert!(lost.iter().all(|lost| lost.in_doubt));
    let mut outbox = Outbox::default();
    calls.add(caller(), ONCE, vec![1], None);
    calls.send(&mut outbox, 100, 100);
    assert_eq!(outbox.unsent(), 4 * 15);
    let mut chunk = outbox.take().unwrap();
    let numbers: Vec<u8> = chunk.next().unwrap().chunks(15).map(|frame| frame[6]).collect();
    assert_eq!(numbers, [1, 4, 5, 6]);
}

#[test]
fn calls_that_change_something_are_in_doubt_once_they_may_have_been_sent() {
    const CHANGES: CallKind = CallKind { changes: true, ..AGAIN };
    let in_doubt = |lost: Vec<Lost>| lost.iter().map(|lost| lost.in_doubt).collect::<Vec<_>>();
    // Nothing of the last one was written.
    assert_eq!(in_doubt(sent(&[CHANGES, AGAIN, CHANGES]).0.take_all(30)), [true, false, false]);
    let (mut calls, _) = sent(&[CHANGES, AGAIN, CHANGES]);
    assert_eq!(calls.broke(30, later()).len(), 0);
    // The next connection ends before anything is written.
    calls.send(&mut Outbox::default(), 100, 100);
    assert_eq!(calls.broke(0, later()).len(), 0);
    assert_eq!(in_doubt(calls.expired(later())), [true, false, false]);
}

#[test]
fn long_calls_are_not_kept_to_be_sent_again() {
    let (mut calls, mut outbox) = (Calls::default(), Outbox::default());
    calls.add(caller(), ONCE, vec![1; KEPT + 1], None);
    calls.add(caller(), AGAIN, vec![1; KEPT + 1], None);
    calls.send(&mut outbox, 100, 100_000);
    let lost = calls.broke(0, later());
    assert_eq!(lost.len(), 1);
    assert!(!lost[0].in_doubt);
}

#[test]
fn a_cancelled_call_is_not_sent_again() {
    let (mut calls, mut outbox) = sent(&[AGAIN, AGAIN]);
    calls.abandon(1, &mut outbox);
    assert_eq!(outbox.unsent(), 2 * 15 + 14);
    calls.abandon(1, &mut outbox);
    assert_eq!(outbox.unsent(), 2 * 15 + 14, "cancelled once");
    assert_eq!(calls.broke(44, later()).len(), 1);
    let mut outbox = Outbox::default();
    calls.send(&mut outbox, 100, 100);
    assert_eq!(outbox.unsent(), 15);
}

#[test]
fn waiting_calls_fail_at_their_deadlines() {
    let mut calls = Calls::default();
    let now = clock::now();
    let at = |seconds| now + Duration::from_secs(seconds);
    let mut outbox = Outbox::default();
    let first = calls.add(caller(), ONCE, vec![1], Some(at(1)));
    calls.add(caller(), ONCE, vec![1], Some(at(2)));
    calls.add(Caller::Gone, ALWAYS, vec![1], Some(at(3)));
    assert_eq!(calls.first_deadline(), Some(at(1)));
    calls.abandon(first, &mut outbox);
    assert_eq!(calls.first_deadline(), Some(at(2)));
    assert_eq!(calls.expired(at(1)).len(), 0);
    assert_eq!(calls.expired(at(2)).len(), 1);
    assert_eq!(calls.expired(at(4)).len(), 1);
    assert_eq!(calls.first_deadline(), None);
    assert_eq!(outbox.unsent(), 0);
}

#[test]
fn many_dropped_waiting_calls_cost_nothing() {
    let (mut calls, mut outbox) = sent(&[ONCE]);
    for _ in 0..100_000 {
        let number = calls.add(caller(), ONCE, vec![1], None);
        calls.abandon(number, &mut outbox);
    }
    assert!(calls.waiting.len() < 100);
    assert_eq!(calls.entries.len(), 1);
}
