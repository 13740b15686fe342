//! Group J: events, delivered to callbacks and subscriptions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tubewell::driver::FIFO;
use tubewell::{Event, EventKind, Filter, TaskState, TubeOptions};

use super::support::*;
use crate::stores;

/// J01
/// Difference: an ack delivers an ack event.
#[test]
fn put_take_and_ack_deliver_events() {
    for_each_driver(ALL, |case| {
        let log = case.event_log();
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        let expected = [
            (0, EventKind::Put, TaskState::Ready),
            (0, EventKind::Take, TaskState::Taken),
            (0, EventKind::Ack, TaskState::Done),
        ];
        assert_eq!(log.read(), expected);
    });
}

/// J02
#[test]
fn on_task_change_returns_previous_callback() {
    for_each_driver(ALL, |case| {
        let tube = case.tube_of_owner();
        let set = |callback| tube.on_task_change(callback).unwrap();
        let (first, second, last) =
            (CallbackLog::default(), CallbackLog::default(), CallbackLog::default());
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
        let put = |id| (id, EventKind::Put, TaskState::Ready);
        // Callbacks run in order: after the last one has run, the earlier ones have run too.
        assert_eq!(last.read(1), [put(4)]);
        assert_eq!(first.read(2), [put(0), put(2)]);
        assert_eq!(second.read(1), [put(1)]);
    });
}

/// J02
#[test]
fn create_tube_accepts_callback() {
    for_each_driver(ALL, |case| {
        let calls = CallbackLog::default();
        let options = TubeOptions::default().on_task_change(calls.callback());
        stores::owner(&case.store).create_tube("other", options.driver(case.driver)).unwrap();
        case.put("elsewhere");
        case.store.find_tube("other").unwrap().put("x").unwrap();
        assert_eq!(calls.read(1), [(1, EventKind::Put, TaskState::Ready)]);
    });
}

/// J03
#[test]
fn elapsed_ttl_delivers_delete_then_ttl_event() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(100)));
        let log = case.event_log();
        case.advance(100);
        let expected =
            [(0, EventKind::Delete, TaskState::Done), (0, EventKind::Ttl, TaskState::Done)];
        assert_eq!(log.read(), expected);
    });
}

/// J04
#[test]
fn expired_claim_delivers_ttr_event() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(ms(100)));
        assert_eq!(case.take(), Some(0));
        let log = case.event_log();
        case.advance(100);
        assert_eq!(log.read(), [(0, EventKind::Ttr, TaskState::Ready)]);
    });
}

/// J05, J06
/// Difference: the event has the same name for all drivers.
#[test]
fn elapsed_delay_delivers_delay_event() {
    for_each_driver(TIMED, |case| {
        let log = case.event_log();
        case.add(case.draft("x").delay(ms(100)));
        assert_eq!(log.read(), [(0, EventKind::Put, TaskState::Delayed)]);
        case.advance(100);
        assert_eq!(log.read(), [(0, EventKind::Delay, TaskState::Ready)]);
    });
}

/// J07
#[test]
fn release_event_has_resulting_state() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.take(), Some(0));
        let log = case.event_log();
        case.tube.claimed(0).and_then(tubewell::Claim::release).unwrap();
        assert_eq!(log.read(), [(0, EventKind::Release, TaskState::Ready)]);
        if case.timed() {
            assert_eq!(case.take(), Some(0));
            log.read();
            case.tube.claimed(0).and_then(|claim| claim.release_in(secs(1))).unwrap();
            assert_eq!(log.read(), [(0, EventKind::Release, TaskState::Delayed)]);
        }
    });
}

/// J08
#[test]
fn touch_delivers_one_event() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttr(secs(1)));
        assert_eq!(case.take(), Some(0));
        let log = case.event_log();
        case.tube.claimed(0).and_then(|claim| claim.touch(secs(1))).unwrap().unwrap();
        assert_eq!(log.read(), [(0, EventKind::Touch, TaskState::Taken)]);
    });
}

/// J09
#[test]
fn bury_kick_and_delete_deliver_one_event_per_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let log = case.event_log();
        case.tube.admin().bury(1, None).unwrap();
        case.tube.admin().bury(0, None).unwrap();
        case.tube.admin().kick(Filter::new().limit(5)).unwrap();
        case.tube.delete(1).unwrap();
        let expected = [
            (1, EventKind::Bury, TaskState::Buried),
            (0, EventKind::Bury, TaskState::Buried),
            (0, EventKind::Kick, TaskState::Ready),
            (1, EventKind::Kick, TaskState::Ready),
            (1, EventKind::Delete, TaskState::Done),
        ];
        assert_eq!(log.read(), expected);
    });
}

/// J10
#[test]
fn release_all_delivers_one_event_per_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take_all(), [0, 1, 2]);
        let log = case.event_log();
        assert_eq!(case.tube.admin().release(Filter::new()).unwrap(), 3);
        assert_sorted_eq(log, [0, 1, 2].map(|id| (id, EventKind::Release, TaskState::Ready)));
    });
}

/// J10, H05
#[test]
fn session_end_delivers_one_event_per_task() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let session = case.store.session("").unwrap();
        let tube = session.tube(&case.tube).unwrap();
        assert_eq!((take(&tube), take(&tube)), (Some(0), Some(1)));
        let log = case.event_log();
        session.end().unwrap();
        assert_sorted_eq(log, [0, 1].map(|id| (id, EventKind::Release, TaskState::Ready)));
    });
}

/// Compares events of several tasks at the same time. Their order is not defined.
fn assert_sorted_eq<const N: usize>(log: EventLog, expected: [(u64, EventKind, TaskState); N]) {
    let mut events = log.read();
    events.sort_by_key(|(id, _, _)| *id);
    assert_eq!(events, expected);
}

/// J11
#[test]
fn truncate_delivers_no_events() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        assert_eq!(case.take(), Some(0));
        case.tube.admin().bury(1, None).unwrap();
        let log = case.event_log();
        case.tube.admin().truncate().unwrap();
        case.advance(60_000);
        assert_eq!(log.read(), []);
        case.put_all([3]);
        assert_eq!(log.read(), [(3, EventKind::Put, TaskState::Ready)]);
    });
}

/// J13, J14, J15
/// Difference: a change of a task delivers events of that task only, not of other tasks in its
/// sub-queue.
#[test]
fn task_change_delivers_no_events_of_other_tasks_in_sub_queue() {
    for_each_driver(SUB_QUEUED, |case| {
        for _ in 0..4 {
            case.add(tubewell::Put::new("x").sub_queue("x"));
        }
        assert_eq!(case.take(), Some(0));
        let log = case.event_log();
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        case.tube.delete(3).unwrap();
        case.tube.admin().bury(1, None).unwrap();
        let expected = [
            (0, EventKind::Ack, TaskState::Done),
            (3, EventKind::Delete, TaskState::Done),
            (1, EventKind::Bury, TaskState::Buried),
        ];
        assert_eq!(log.read(), expected);
    });
}

/// J16
#[test]
fn elapsed_ttl_of_taken_task_delivers_three_events() {
    for_each_driver(TIMED, |case| {
        case.add(case.draft("x").ttl(ms(100)));
        assert_eq!(case.take(), Some(0));
        let log = case.event_log();
        case.advance(100);
        let expected = [
            (0, EventKind::Ttr, TaskState::Ready),
            (0, EventKind::Delete, TaskState::Done),
            (0, EventKind::Ttl, TaskState::Done),
        ];
        assert_eq!(log.read(), expected);
    });
}

/// J17
#[test]
fn callback_is_not_kept_after_reopen() {
    let file = StoreFile::new();
    let store = file.open();
    let (old, new) = (CallbackLog::default(), CallbackLog::default());
    let options = TubeOptions::default().on_task_change(old.callback());
    stores::owner(&store).create_tube("case", options.driver(FIFO)).unwrap();
    store.find_tube("case").unwrap().put("a").unwrap();
    assert_eq!(old.read(1).len(), 1);
    let store = file.reopen(store);
    let tube = store.find_tube("case").unwrap();
    let without_event = tube.put("b").unwrap().id;
    let of_owner = stores::owner(&store).find_tube("case").unwrap();
    assert!(of_owner.on_task_change(Some(new.as_callback())).unwrap().is_none());
    tube.delete(without_event).unwrap();
    assert_eq!(new.read(1), [(without_event, EventKind::Delete, TaskState::Done)]);
    assert_eq!(old.read(0), []);
    assert_sound(&store);
}

/// J18
#[test]
fn create_tube_of_existing_tube_keeps_callback() {
    for_each_driver(ALL, |case| {
        let (log, new) = (case.event_log(), CallbackLog::default());
        let options = TubeOptions::default().on_task_change(new.callback());
        let same = stores::owner(&case.store).open_tube("case", options.driver(case.driver));
        assert!(same.is_ok());
        case.put("x");
        assert_eq!(log.read(), [(0, EventKind::Put, TaskState::Ready)]);
        assert_eq!(new.read(0), []);
    });
}

/// J01, J09
/// Difference: one subscription receives the events of all tubes.
#[test]
fn subscription_receives_events_of_all_tubes_in_order() {
    for_each_driver(ALL, |case| {
        let stream = Events::of(&case.store, Filter::new(), 100);
        let other =
            case.store.create_tube("other", TubeOptions::default().driver(case.driver)).unwrap();
        case.put_all([0]);
        other.put("x").unwrap();
        assert_eq!(case.take(), Some(0));
        other.admin().bury(1, None).unwrap();
        let events = stream.read();
        let summary: Vec<_> =
            events.iter().map(|event| (&*event.tube, event.id, event.kind, event.state)).collect();
        let expected = [
            ("case", 0, EventKind::Put, TaskState::Ready),
            ("other", 1, EventKind::Put, TaskState::Ready),
            ("case", 0, EventKind::Take, TaskState::Taken),
            ("other", 1, EventKind::Bury, TaskState::Buried),
        ];
        assert_eq!(summary, expected);
        assert!(events.is_sorted_by(|one, next| one.seq < next.seq));
    });
}

/// Regression: the buffer was allocated with its full capacity at subscribe, which panicked.
#[test]
fn subscribe_accepts_any_capacity() {
    for_each_driver(&[FIFO], |case| {
        let stream = case.store.events(Filter::new(), usize::MAX).unwrap();
        let none = case.store.events(Filter::new(), 0).unwrap();
        case.put_all([0, 1]);
        assert_eq!(stream.take(2).map(|event| event.id).collect::<Vec<_>>(), [0, 1]);
        assert_eq!((none.recv().map(|event| event.id), none.dropped()), (Some(0), 1));
    });
}

/// J01
#[test]
fn unread_subscription_drops_and_counts_events() {
    for_each_driver(ALL, |case| {
        let stream = case.store.events(Filter::new(), 2).unwrap();
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
fn panicking_callback_does_not_stop_deadlines() {
    for_each_driver(TIMED, |case| {
        case.tube_of_owner()
            .on_task_change(Some(Arc::new(|event: &Event| {
                assert_ne!(
                    event.kind,
                    EventKind::Ttl,
                    "this callback panics on purpose at a ttl event"
                );
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
fn panicking_callback_in_take_keeps_claim() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        let calls = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&calls);
        case.tube_of_owner()
            .on_task_change(Some(Arc::new(move |_: &Event| {
                counted.fetch_add(1, Ordering::SeqCst);
                panic!("this callback panics on purpose at every event");
            })))
            .unwrap();
        assert_eq!(case.take(), Some(0));
        assert_eq!(case.state(0), Some(TaskState::Taken));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        assert_eq!(case.state(0), None);
        // The panicking callback was called, and later callbacks still run.
        let after = CallbackLog::default();
        case.tube_of_owner().on_task_change(Some(after.as_callback())).unwrap();
        case.put("x");
        assert_eq!(after.read(1).len(), 1);
        assert_eq!(calls.load(Ordering::SeqCst), 2);
    });
}
