//! Events with filters by tags, and of tasks whose changes have no header.

use tubewell::driver::{FIFO, UTUBE};
use tubewell::{
    EventKind, Failure, Filter, Keep, OnKey, OnParent, Outcome, Put, Schedule, TaskState,
    TubeOptions,
};

use super::filters::received;
use super::support::*;

/// An event of a task with several of the tags is received once.
#[test]
fn subscription_receives_the_events_of_tasks_with_a_tag_once() {
    for_each_driver(ALL, |case| {
        let subscribe = |filter| Events::of(&case.store, filter, 100);
        let of_one = subscribe(Filter::new().tag("red"));
        let of_any = subscribe(Filter::new().tag("red").tag("blue").tag("red"));
        let acks_of_any = Filter::new().tube("case").kinds([EventKind::Ack]);
        let acks_of_any = subscribe(acks_of_any.tag("green").tag("blue"));
        let of_tag_and_key = subscribe(Filter::new().tag("blue").key("k"));
        let all = subscribe(Filter::new());

        case.add(case.draft("a").tag("red").tag("green").tag("blue")); // 0
        case.add(case.draft("b").tag("blue").key("k")); // 1
        case.add(case.draft("c").tag("green")); // 2
        case.put("d"); // 3
        for claim in case.tube.take_many(4, ZERO).unwrap() {
            claim.ack().unwrap();
        }

        let seen = |events: &Events| -> Vec<(u64, EventKind)> {
            received(events).iter().map(|event| (event.id, event.kind)).collect()
        };
        let (put, take, ack) = (EventKind::Put, EventKind::Take, EventKind::Ack);
        assert_eq!(seen(&of_one), [(0, put), (0, take), (0, ack)]);
        let any = [(0, put), (1, put), (0, take), (1, take), (0, ack), (1, ack)];
        assert_eq!(seen(&of_any), any);
        assert_eq!(seen(&acks_of_any), [(0, ack), (1, ack), (2, ack)]);
        assert_eq!(seen(&of_tag_and_key), [(1, put), (1, take), (1, ack)]);
        assert_eq!(seen(&all).len(), 12);
        assert_sound(&case.store);
    });
}

/// A buffer has room for an event of a task with two of the tags, and the next one is missed once.
#[test]
fn event_of_a_task_with_several_tags_is_missed_once() {
    for_each_driver(ALL, |case| {
        let events = case.store.events(Filter::new().tag("red").tag("blue"), 1).unwrap();
        for _ in 0..3 {
            case.add(case.draft("x").tag("red").tag("blue"));
        }
        assert_eq!(events.try_recv().map(|event| (event.id, event.missed)), Some((0, 0)));
        assert_eq!((events.try_recv(), events.dropped()), (None, 2));
        case.add(case.draft("x").tag("blue").tag("red"));
        assert_eq!(events.try_recv().map(|event| (event.id, event.missed)), Some((3, 2)));
    });
}

/// The tags are those after the change.
#[test]
fn edit_of_tags_is_an_event_of_the_tags_that_it_leaves() {
    for_each_driver(ALL, |case| {
        let [red, blue] =
            ["red", "blue"].map(|tag| Events::of(&case.store, Filter::new().tag(tag), 100));
        let kinds = |events: &Events| -> Vec<EventKind> {
            received(events).iter().map(|event| event.kind).collect()
        };
        let (take, release, update) = (EventKind::Take, EventKind::Release, EventKind::Update);
        let id = case.add(case.draft("x").tag("red"));
        case.tube.admin().add_tags(id, ["blue"]).unwrap();
        case.tube.admin().remove_tags(id, ["red"]).unwrap();
        assert_eq!(kinds(&red), [EventKind::Put, update]);
        assert_eq!(kinds(&blue), [update, update]);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube.admin().add_tags(id, ["red"]).unwrap();
        case.tube.admin().remove_tags(id, ["blue"]).unwrap();
        claim.release().unwrap();
        assert_eq!(kinds(&red), [update, update, release]);
        assert_eq!(kinds(&blue), [take, update]);
        assert_sound(&case.store);
    });
}

/// The events without a header of their own, as of a key.
#[test]
fn every_event_of_a_task_with_a_tag_passes_a_filter_by_the_tag() {
    let keep = TubeOptions::new().keep_done(Keep::new().count(1));
    for_each_driver_with(TIMED, keep, |case| {
        let of_tag = Events::of(&case.store, Filter::new().tag("other tag").tag("t"), 100);
        let all = Events::of(&case.store, Filter::new(), 100);
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let draft = |data: &str| case.draft(data).tag("t");
        let parent = case.add(draft("x").ttl(secs(10)));
        let after = draft("y").after(&case.tube, [parent]).on_parent(OnParent::Release);
        let child = case.add(after);
        case.tube.try_take().unwrap().unwrap().touch(secs(1)).unwrap();
        case.tube.admin().set_priority(parent, 7).unwrap();
        case.advance(11_000);
        case.tube.admin().resolve(child, ()).unwrap();
        case.tube.admin().forget(child).unwrap();
        let put = || draft("z").key("k").on_key(OnKey::Replace);
        let id = case.add(put());
        other.put(put()).unwrap();
        let claim = other.claim(id).unwrap();
        claim.fail(Failure::new("timeout", "no answer")).unwrap();
        other.claim(id).unwrap().end(Outcome::advance(&case.tube, case.draft("w"))).unwrap();
        case.tube.delete(id).unwrap();
        case.store.flush().unwrap();
        let told = |events: &Events| -> Vec<(u64, EventKind, TaskState)> {
            received(events).into_iter().map(|it| (it.id, it.kind, it.state)).collect()
        };
        let all = told(&all);
        assert_eq!(told(&of_tag), all);
        let ends = [EventKind::Ttl, EventKind::Forget, EventKind::Move, EventKind::Delete];
        for kind in ends {
            assert!(all.iter().any(|(_, it, _)| *it == kind), "{kind:?}");
        }
        assert_sound(&case.store);
    });
}

/// A task of a temporary tube has its changes in memory only: each is an event at once.
#[test]
fn events_of_a_replaced_task_of_a_temporary_tube_have_its_key_and_its_tags() {
    for_each_driver(ALL, |case| {
        let options = || TubeOptions::new().temporary(true).keep_done(Keep::new());
        let make = |name| case.store.create_tube(name, options().driver(case.driver)).unwrap();
        let (one, other) = (make("one"), make("another"));
        let by_key = Events::of(&case.store, Filter::new().key("k"), 100);
        let by_tag = Events::of(&case.store, Filter::new().tag("t"), 100);
        let put = || case.draft("x").key("k").tag("t").on_key(OnKey::Replace);
        let id = one.put(put()).unwrap().id;
        let _claim = one.claim(id).unwrap();
        other.put(put()).unwrap();
        other.claim(id).unwrap().ack().unwrap();
        other.admin().forget(id).unwrap();
        let told = |events: &Events| -> Vec<(String, EventKind)> {
            received(events).into_iter().map(|it| (it.tube.to_string(), it.kind)).collect()
        };
        let one = [EventKind::Put, EventKind::Take, EventKind::Lost, EventKind::Move];
        let another = [
            EventKind::Move,
            EventKind::Replace,
            EventKind::Take,
            EventKind::Ack,
            EventKind::Forget,
        ];
        let one = one.map(|kind| ("one".to_owned(), kind));
        let expected: Vec<_> =
            one.into_iter().chain(another.map(|kind| ("another".to_owned(), kind))).collect();
        assert_eq!(told(&by_key), expected);
        assert_eq!(told(&by_tag), expected);
        assert_sound(&case.store);
    });
}

/// A schedule has the key, and its runs have the tags.
#[test]
fn every_event_of_a_schedule_has_its_key() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let by_key = Events::of(&case.store, Filter::new().key("daily"), 100);
        let by_tag = Events::of(&case.store, Filter::new().tag("run"), 100);
        let daily = |secs_between| Schedule::every("daily", secs(secs_between));
        let put = || case.draft("x").tag("run");
        let begin = secs(1_767_225_600) + case.clock.now();
        let later = std::time::UNIX_EPOCH + begin + secs(60);
        case.tube.schedule(daily(60).starting(later), put()).unwrap();
        case.tube.schedule(daily(90), put()).unwrap();
        other.schedule(daily(90), put()).unwrap();
        other.schedules().remove("daily").unwrap();
        case.tube.schedule(daily(60).starting(later).times(1), put()).unwrap();
        case.advance(60_000);
        case.store.flush().unwrap();
        let kinds = |events: &Events| -> Vec<EventKind> {
            received(events).iter().map(|event| event.kind).collect()
        };
        let (schedule, moved) = (EventKind::Schedule, EventKind::Move);
        let (delete, forget) = (EventKind::Delete, EventKind::Forget);
        let expected = [schedule, schedule, moved, moved, delete, schedule, forget];
        assert_eq!(kinds(&by_key), expected);
        assert_eq!(kinds(&by_tag), [EventKind::Spawn]);
        assert_sound(&case.store);
    });
}

/// The task is gone when the event is delivered, which is after the flush.
#[test]
fn event_after_a_flush_passes_by_the_tags_of_the_task_that_is_gone() {
    for driver in [FIFO, UTUBE] {
        let file = StoreFile::new();
        let store = file.open();
        let tube = store.create_tube("case", TubeOptions::new().driver(driver)).unwrap();
        let events = Events::of(&store, Filter::new().tag("a").tag("b"), 100);
        for tags in [["a", "b"], ["b", "c"]] {
            tube.put(tags.into_iter().fold(Put::new("x"), Put::tag)).unwrap();
        }
        tube.try_take().unwrap().unwrap().ack().unwrap();
        tube.delete(tube.try_take().unwrap().unwrap().detach().info.id).unwrap();
        let (put, take) = (EventKind::Put, EventKind::Take);
        let seen: Vec<_> = received(&events).iter().map(|it| (it.id, it.kind)).collect();
        let (ack, delete) = (EventKind::Ack, EventKind::Delete);
        assert_eq!(seen, [(0, put), (1, put), (0, take), (0, ack), (1, take), (1, delete)]);
        assert_sound(&store);
    }
}
