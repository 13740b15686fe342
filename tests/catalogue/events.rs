//! Group J: what a tube reports.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tubewell::driver::FIFO;
use tubewell::{Event, EventKind, State, TubeOptions};

use crate::support::*;

/// J01
/// Here: an ack is reported as an ack.
#[test]
fn put_take_and_ack_are_reported() {
    each(ALL, |case| {
        let record = case.record();
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        case.tube.ack(0).unwrap();
        let expected = [
            (0, EventKind::Put, State::Ready),
            (0, EventKind::Take, State::Taken),
            (0, EventKind::Ack, State::Done),
        ];
        assert_eq!(record.read(), expected);
    });
}

/// J02
#[test]
fn setting_a_callback_gives_back_the_one_before() {
    each(ALL, |case| {
        let set = |callback| case.tube.on_task_change(callback).unwrap();
        let (first, second, last) = (Calls::default(), Calls::default(), Calls::default());
        assert!(set(Some(first.as_callback())).is_none());
        case.put_all([0]);
        let previous = set(Some(second.as_callback()));
        case.put_all([1]);
        assert!(set(previous).is_some());
        case.put_all([2]);
        assert!(set(None).is_some());
        case.put_all([3]);
        assert!(set(Some(last.as_callback())).is_none());
        case.put_all([4]);
        let put = |id| (id, EventKind::Put, State::Ready);
        // Calls come in order: with the last one, the others have had theirs.
        assert_eq!(last.read(1), [put(4)]);
        assert_eq!(first.read(2), [put(0), put(2)]);
        assert_eq!(second.read(1), [put(1)]);
    });
}

/// J02
#[test]
fn a_callback_may_be_given_at_creation() {
    each(ALL, |case| {
        let calls = Calls::default();
        let options = TubeOptions::default().on_task_change(calls.callback());
        let tube = case.store.create_tube("other", case.driver, options).unwrap();
        case.put("elsewhere");
        tube.put("x").unwrap();
        assert_eq!(calls.read(1), [(1, EventKind::Put, State::Ready)]);
    });
}

/// J03
#[test]
fn a_ttl_that_is_over_is_reported_as_a_delete_and_then_as_a_ttl() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(100)));
        let record = case.record();
        case.advance(100);
        let expected = [(0, EventKind::Delete, State::Done), (0, EventKind::Ttl, State::Done)];
        assert_eq!(record.read(), expected);
    });
}

/// J04
#[test]
fn a_hold_that_ran_out_is_reported() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttr(ms(100)));
        assert_eq!(case.take(), Some(0));
        let record = case.record();
        case.advance(100);
        assert_eq!(record.read(), [(0, EventKind::Ttr, State::Ready)]);
    });
}

/// J05, J06
/// Here: all drivers have the same name for it.
#[test]
fn a_delay_that_ends_is_reported() {
    each(TIMED, |case| {
        let record = case.record();
        case.add(case.draft("x").delay(ms(100)));
        assert_eq!(record.read(), [(0, EventKind::Put, State::Delayed)]);
        case.advance(100);
        assert_eq!(record.read(), [(0, EventKind::Delay, State::Ready)]);
    });
}

/// J07
#[test]
fn a_release_is_reported_with_the_state_it_led_to() {
    each(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        let record = case.record();
        case.tube.release(0, ZERO).unwrap();
        assert_eq!(record.read(), [(0, EventKind::Release, State::Ready)]);
        if case.timed() {
            assert_eq!(case.take(), Some(0));
            record.read();
            case.tube.release(0, secs(1)).unwrap();
            assert_eq!(record.read(), [(0, EventKind::Release, State::Delayed)]);
        }
    });
}

/// J08
#[test]
fn a_touch_is_reported_once() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttr(secs(1)));
        assert_eq!(case.take(), Some(0));
        let record = case.record();
        case.tube.touch(0, secs(1)).unwrap().unwrap();
        assert_eq!(record.read(), [(0, EventKind::Touch, State::Taken)]);
    });
}

/// J09
#[test]
fn bury_kick_and_delete_are_reported_task_by_task() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        let record = case.record();
        case.tube.bury(1).unwrap();
        case.tube.bury(0).unwrap();
        case.tube.kick(5).unwrap();
        case.tube.delete(1).unwrap();
        let expected = [
            (1, EventKind::Bury, State::Buried),
            (0, EventKind::Bury, State::Buried),
            (0, EventKind::Kick, State::Ready),
            (1, EventKind::Kick, State::Ready),
            (1, EventKind::Delete, State::Done),
        ];
        assert_eq!(record.read(), expected);
    });
}

/// J10
#[test]
fn a_release_of_all_is_reported_task_by_task() {
    each(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take_all(), [0, 1, 2]);
        let record = case.record();
        assert_eq!(case.tube.release_all().unwrap(), 3);
        assert_sorted_eq(record, [0, 1, 2].map(|id| (id, EventKind::Release, State::Ready)));
    });
}

/// J10, H05
#[test]
fn the_end_of_a_session_is_reported_task_by_task() {
    each(ALL, |case| {
        case.put_all([0, 1]);
        let session = case.store.session();
        let tube = session.tube("case").unwrap();
        assert_eq!((take(&tube), take(&tube)), (Some(0), Some(1)));
        let record = case.record();
        session.end().unwrap();
        assert_sorted_eq(record, [0, 1].map(|id| (id, EventKind::Release, State::Ready)));
    });
}

/// For events of several tasks at the same moment, which have no order among them.
fn assert_sorted_eq<const N: usize>(record: Record, expected: [(u64, EventKind, State); N]) {
    let mut events = record.read();
    events.sort_by_key(|(id, _, _)| *id);
    assert_eq!(events, expected);
}

/// J11
#[test]
fn a_truncate_is_not_reported() {
    each(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.bury(1).unwrap();
        let record = case.record();
        case.tube.truncate().unwrap();
        case.advance(60_000);
        assert_eq!(record.read(), []);
        case.put_all([3]);
        assert_eq!(record.read(), [(3, EventKind::Put, State::Ready)]);
    });
}

/// J13, J14, J15
/// Here: what happens to a task is reported for that task only, not for its neighbours.
#[test]
fn the_neighbours_in_a_sub_queue_are_not_reported() {
    each(SUB_QUEUED, |case| {
        for _ in 0..4 {
            case.add(tubewell::Put::new("x").sub_queue("x"));
        }
        assert_eq!(case.take(), Some(0));
        let record = case.record();
        case.tube.ack(0).unwrap();
        case.tube.delete(3).unwrap();
        case.tube.bury(1).unwrap();
        let expected = [
            (0, EventKind::Ack, State::Done),
            (3, EventKind::Delete, State::Done),
            (1, EventKind::Bury, State::Buried),
        ];
        assert_eq!(record.read(), expected);
    });
}

/// J16
#[test]
fn a_ttl_that_is_over_while_the_task_is_taken_is_reported_in_three_steps() {
    each(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(100)));
        assert_eq!(case.take(), Some(0));
        let record = case.record();
        case.advance(100);
        let expected = [
            (0, EventKind::Ttr, State::Ready),
            (0, EventKind::Delete, State::Done),
            (0, EventKind::Ttl, State::Done),
        ];
        assert_eq!(record.read(), expected);
    });
}

/// J17
#[test]
fn a_callback_does_not_outlive_its_store() {
    let disk = Disk::new();
    let store = disk.open();
    let (old, new) = (Calls::default(), Calls::default());
    let options = TubeOptions::default().on_task_change(old.callback());
    let tube = store.create_tube("case", FIFO, options).unwrap();
    tube.put("a").unwrap();
    assert_eq!(old.read(1).len(), 1);
    drop(tube);
    let store = disk.reopen(store);
    let tube = store.tube("case").unwrap();
    let unheard = tube.put("b").unwrap().id;
    assert!(tube.on_task_change(Some(new.as_callback())).unwrap().is_none());
    tube.delete(unheard).unwrap();
    assert_eq!(new.read(1), [(unheard, EventKind::Delete, State::Done)]);
    assert_eq!(old.read(0), []);
    assert_sound(&store);
}

/// J18
#[test]
fn creating_a_tube_that_exists_keeps_its_callback() {
    each(ALL, |case| {
        let (record, new) = (case.record(), Calls::default());
        let options = TubeOptions::default().if_not_exists(true).on_task_change(new.callback());
        let same = case.store.create_tube("case", case.driver, options).unwrap();
        same.put("x").unwrap();
        assert_eq!(record.read(), [(0, EventKind::Put, State::Ready)]);
        assert_eq!(new.read(0), []);
    });
}

/// J01, J09
/// Here: one stream reports what happens in all tubes.
#[test]
fn a_subscription_hears_of_every_tube_in_order() {
    each(ALL, |case| {
        let stream = case.store.subscribe(100);
        let other = case.store.create_tube("other", case.driver, TubeOptions::default()).unwrap();
        case.put_all([0]);
        other.put("x").unwrap();
        assert_eq!(case.take(), Some(0));
        other.bury(1).unwrap();
        let heard: Vec<Event> = std::iter::from_fn(|| stream.try_recv()).collect();
        let told: Vec<_> =
            heard.iter().map(|event| (&*event.tube, event.id, event.kind, event.state)).collect();
        let expected = [
            ("case", 0, EventKind::Put, State::Ready),
            ("other", 1, EventKind::Put, State::Ready),
            ("case", 0, EventKind::Take, State::Taken),
            ("other", 1, EventKind::Bury, State::Buried),
        ];
        assert_eq!(told, expected);
        assert!(heard.is_sorted_by(|one, next| one.seq < next.seq));
        assert_eq!(stream.dropped(), 0);
    });
}

/// Room for events is not taken before there are events: it was, and this was a panic.
#[test]
fn a_subscription_may_ask_for_any_room() {
    each(&[FIFO], |case| {
        let stream = case.store.subscribe(usize::MAX);
        let none = case.store.subscribe(0);
        case.put_all([0, 1]);
        assert_eq!(stream.take(2).map(|event| event.id).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((none.recv().map(|event| event.id), none.dropped()), (Some(0), 1));
    });
}

/// J01
#[test]
fn a_subscription_that_is_not_read_loses_events_and_says_how_many() {
    each(ALL, |case| {
        let stream = case.store.subscribe(2);
        for _ in 0..5 {
            case.put("x");
        }
        assert_eq!(std::iter::from_fn(|| stream.try_recv()).count(), 2);
        assert_eq!(stream.dropped(), 3);
        case.put("x");
        assert_eq!(stream.try_recv().unwrap().id, 5);
    });
}

/// Q14
#[test]
fn a_callback_that_panics_does_not_stop_time() {
    each(TIMED, |case| {
        case.tube
            .on_task_change(Some(Arc::new(|event: &Event| {
                assert_ne!(event.kind, EventKind::Ttl, "a callback that cannot stand a ttl");
            })))
            .unwrap();
        case.add(case.draft("first").ttl(ms(100)));
        case.add(case.draft("second").ttl(ms(200)));
        case.add(case.draft("late").delay(ms(300)));
        case.advance(100);
        assert_eq!(case.state(0), None);
        case.advance(100);
        assert_eq!(case.state(1), None);
        case.advance(100);
        assert_eq!(case.take(), Some(2));
    });
}

/// Q15
#[test]
fn a_callback_that_panics_in_a_take_leaves_the_task_taken_and_owned() {
    each(ALL, |case| {
        case.put_all([0]);
        let calls = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&calls);
        case.tube
            .on_task_change(Some(Arc::new(move |_: &Event| {
                counted.fetch_add(1, Ordering::SeqCst);
                panic!("a callback that cannot stand anything");
            })))
            .unwrap();
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.state(0), Some(State::Taken));
        case.tube.ack(0).unwrap();
        assert_eq!(case.state(0), None);
        // It was called, and whoever comes after it still is.
        let after = Calls::default();
        case.tube.on_task_change(Some(after.as_callback())).unwrap();
        case.put("x");
        assert_eq!(after.read(1).len(), 1);
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    });
}
