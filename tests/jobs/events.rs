//! Callbacks and subscriptions.

use std::sync::Arc;

use tubewell::{
    DEFAULT_PRIORITY, Event, EventKind, FIFO, Failure, Filter, Keep, TaskState, TubeOptions,
};

use super::executor::HANGS_AFTER;
use super::support::*;
use crate::stores;

fn put(id: u64) -> TaskEvent {
    (id, EventKind::Put, TaskState::Ready)
}

/// T052 Q309
/// Difference: a tube has one callback at most, and a subscription ends when it is dropped.
#[test]
fn removed_callbacks_and_subscriptions_receive_nothing() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::default().driver(case.driver)).unwrap();
        let [one, two, last] = std::array::from_fn(|_| CallbackLog::default());
        let [first, second] = [(); 2].map(|()| Events::of(&case.store, Filter::new(), 10));
        let of_owner =
            [case.tube_of_owner(), stores::owner(&case.store).find_tube("other").unwrap()];
        assert!(of_owner[0].on_task_change(Some(one.as_callback())).unwrap().is_none());
        assert!(of_owner[1].on_task_change(Some(two.as_callback())).unwrap().is_none());
        case.put_all([0]);
        other.put("x").unwrap();
        assert_eq!((one.read(1), two.read(1)), (vec![put(0)], vec![put(1)]));
        let ids = |events: &Events| events.read().iter().map(|it| it.id).collect::<Vec<u64>>();
        assert_eq!([ids(&first), ids(&second)], [[0, 1], [0, 1]]);

        // Both are removed, and then none is left.
        drop(first);
        for tube in &of_owner {
            assert!(tube.on_task_change(None).unwrap().is_some());
            assert!(tube.on_task_change(None).unwrap().is_none());
        }
        case.put("x");
        other.put("x").unwrap();

        // Callbacks are called in order: after this one, the removed ones would have been called.
        of_owner[0].on_task_change(Some(last.as_callback())).unwrap();
        case.put("x");
        assert_eq!(last.read(1), [put(4)]);
        assert_eq!((one.read(0), two.read(0)), (vec![], vec![]));
        assert_eq!(ids(&second), [2, 3, 4]);
    });
}

/// The next events. Through a connection they come when they come.
fn next(events: &tubewell::Events, count: usize) -> Vec<Event> {
    (0..count).map(|_| events.recv_timeout(HANGS_AFTER).unwrap()).collect()
}

#[test]
fn events_have_the_details_that_their_subscription_asks_for() {
    for_each_driver(ALL, |case| {
        let [plain, details] = [Filter::new(), Filter::new().details()]
            .map(|filter| case.store.events(filter, 100).unwrap());
        let large = "large".repeat(1000);
        let id = case.add(case.draft(&large).tag("t"));
        case.tube.try_take().unwrap().unwrap().bury(Failure::new("g", "why")).unwrap();
        case.tube.kick(id).unwrap();
        case.tube.delete(id).unwrap();
        let seen = next(&details, 5);
        let kinds: Vec<EventKind> = seen.iter().map(|event| event.kind).collect();
        assert_eq!(
            kinds,
            [EventKind::Put, EventKind::Take, EventKind::Bury, EventKind::Kick, EventKind::Delete]
        );
        for event in &seen {
            let details = event.details.as_ref().unwrap();
            assert_eq!(
                (details.priority, &details.tags[..]),
                (DEFAULT_PRIORITY, &["t".to_owned()][..])
            );
            let is_stored = event.kind != EventKind::Delete;
            assert_eq!(details.body.as_deref(), is_stored.then_some(large.as_bytes()), "{event:?}");
            let has_failed = matches!(event.kind, EventKind::Bury | EventKind::Kick);
            let message = details.failure.as_ref().map(|failure| &*failure.message);
            assert_eq!(message, has_failed.then_some("why"), "{event:?}");
        }
        assert!(next(&plain, 5).iter().all(|event| event.details.is_none()));
        assert!(plain.try_recv().is_none() && details.try_recv().is_none());
    });
}

/// The event of a task that is forgotten has no header, and its task is not stored any more.
#[test]
fn event_of_a_forgotten_task_has_its_priority_and_tags() {
    let options = TubeOptions::new().keep_done(Keep::new());
    for_each_driver_with(ALL, options, |case| {
        let id = case.add(case.draft("x").tag("t"));
        case.tube.admin().resolve(id, ()).unwrap();
        let filter = Filter::new().tag("t").kinds([EventKind::Forget]).details();
        let events = case.store.events(filter, 9).unwrap();
        case.tube.admin().forget(id).unwrap();
        let details = next(&events, 1).remove(0).details.unwrap();
        assert_eq!(
            (details.priority, &details.tags[..]),
            (DEFAULT_PRIORITY, &["t".to_owned()][..])
        );
    });
}

/// All bodies of a call were read under the lock, whether there was room for them or not.
#[test]
fn bodies_in_the_events_of_one_call_are_limited() {
    for_each_driver(&[FIFO], |case| {
        let body = vec![7; 1 << 20];
        let ids: Vec<u64> = (0..20).map(|_| case.tube.put(&body).unwrap().id).collect();
        for id in &ids {
            case.tube.admin().bury(*id, None).unwrap();
        }
        let kicked = || Filter::new().kinds([EventKind::Kick]).details();
        let (events, full) =
            (case.store.events(kicked(), 100).unwrap(), case.store.events(kicked(), 3).unwrap());
        assert_eq!(case.tube.admin().kick(Filter::new().ids(&ids)), Ok(20));
        let seen = next(&events, 20);
        let bodies = seen.iter().filter_map(|event| event.details.as_ref()?.body.as_ref());
        assert_eq!((seen.len(), bodies.count()), (20, 4));
        assert!(seen.iter().all(|event| event.details.is_some()));
        next(&full, 3);
        assert!(full.try_recv().is_none());
    });
}

/// The body of a task that is done is that of a task which its tube keeps.
#[test]
fn event_of_a_done_task_has_its_body_if_its_tube_keeps_it() {
    for keep in [None, Some(Keep::new())] {
        let options = keep.into_iter().fold(TubeOptions::new(), TubeOptions::keep_done);
        for_each_driver_with(ALL, options, |case| {
            let filter = Filter::new().kinds([EventKind::Ack]).details();
            let events = case.store.events(filter, 9).unwrap();
            case.put("x");
            case.tube.try_take().unwrap().unwrap().ack().unwrap();
            let details = next(&events, 1).remove(0).details.unwrap();
            assert_eq!(details.body.as_deref(), keep.map(|_| &b"x"[..]));
        });
    }
}

/// T052
#[test]
fn close_ends_all_subscriptions() {
    let file = StoreFile::new();
    let store = file.open();
    let (first, second) =
        (store.events(Filter::new(), 10).unwrap(), store.events(Filter::new(), 10).unwrap());
    let store = file.reopen(store);
    assert_eq!((first.recv(), second.recv()), (None, None));
    assert_sound(&store);
}

/// T055 Q309
#[test]
fn panicking_callback_stops_neither_the_caller_nor_other_subscribers() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::default().driver(case.driver)).unwrap();
        let (called, logged) = (CallbackLog::default(), CallbackLog::default());
        let log = called.callback();
        let panics = move |event: &Event| {
            log(event);
            panic!("this callback panics on purpose at every event");
        };
        case.tube_of_owner().on_task_change(Some(Arc::new(panics))).unwrap();
        let of_owner = stores::owner(&case.store).find_tube("other").unwrap();
        of_owner.on_task_change(Some(logged.as_callback())).unwrap();
        let events = Events::of(&case.store, Filter::new(), 10);

        case.put_all([0]);
        other.put("x").unwrap();
        assert_eq!(case.take(), Some(0));
        assert_eq!(
            case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap().state,
            TaskState::Done
        );

        assert_eq!(logged.read(1), [put(1)]);
        let of_case =
            [put(0), (0, EventKind::Take, TaskState::Taken), (0, EventKind::Ack, TaskState::Done)];
        assert_eq!(called.read(3), of_case);
        let received = events.read().into_iter();
        let received: Vec<TaskEvent> = received.map(|it| (it.id, it.kind, it.state)).collect();
        assert_eq!(received, [of_case[0], put(1), of_case[1], of_case[2]]);
    });
}
