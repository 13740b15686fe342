//! Events with filters: what a subscription receives, and what an event says of its change.

use tubewell::driver::{FIFO, UTUBE};
use tubewell::{
    Claim, Event, EventKind, Failure, Filter, Keep, OnKey, OnParent, Put, Schedule, State,
    Subscription, TubeOptions,
};

use crate::support::*;

/// The events so far.
fn received(events: &Subscription) -> Vec<Event> {
    std::iter::from_fn(|| events.try_recv()).collect()
}

/// Kind, owner and cause of the events so far.
fn told(events: &Subscription) -> Vec<(EventKind, Option<String>, Option<String>)> {
    let text = |text: Option<std::sync::Arc<str>>| text.map(|text| text.to_string());
    received(events).into_iter().map(|it| (it.kind, text(it.owner), text(it.cause))).collect()
}

#[allow(clippy::unnecessary_wraps, reason = "as the events have it")]
fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

/// T054
#[test]
fn subscription_receives_only_what_passes_its_filter() {
    for_each_driver(ALL, |case| {
        let other = case.store.create_tube("other", case.driver, TubeOptions::new()).unwrap();
        let ends = [EventKind::Ack, EventKind::Bury];
        let subscribe = |filter| case.store.events(filter, 100);
        let all = subscribe(Filter::new());
        let of_tube = subscribe(Filter::new().tube("case"));
        let of_kinds = subscribe(Filter::new().kinds(ends));
        let of_key = subscribe(Filter::new().key("red").key("blue"));
        let of_owner = subscribe(Filter::new().owner("ann"));
        let of_all_three = subscribe(Filter::new().tube("case").kinds(ends).key("red"));
        let of_nothing = subscribe(Filter::new().kinds([]));
        let of_unknown = subscribe(Filter::new().tube("no such tube").key("red"));

        case.add(case.draft("a").key("red")); // 0
        case.put("b"); // 1
        other.put(case.draft("c").key("blue")).unwrap(); // 2
        let ann = case.store.session_named("ann").unwrap();
        let taken = ann.tube("case").unwrap().take_many(2, ZERO).unwrap();
        for claim in taken {
            claim.ack().unwrap();
        }
        other.bury(2).unwrap();

        let seen = |events: &Subscription| -> Vec<(u64, EventKind)> {
            received(events).iter().map(|event| (event.id, event.kind)).collect()
        };
        let (put, take) = (EventKind::Put, EventKind::Take);
        let (ack, bury) = (EventKind::Ack, EventKind::Bury);
        let whole =
            [(0, put), (1, put), (2, put), (0, take), (1, take), (0, ack), (1, ack), (2, bury)];
        assert_eq!(seen(&all), whole);
        let without_2: Vec<_> = whole.into_iter().filter(|(id, _)| *id != 2).collect();
        assert_eq!(seen(&of_tube), without_2);
        assert_eq!(seen(&of_kinds), [(0, ack), (1, ack), (2, bury)]);
        assert_eq!(seen(&of_key), [(0, put), (2, put), (0, take), (0, ack), (2, bury)]);
        assert_eq!(seen(&of_owner), [(0, take), (1, take), (0, ack), (1, ack)]);
        assert_eq!(seen(&of_all_three), [(0, ack)]);
        assert_eq!((seen(&of_nothing), seen(&of_unknown)), (vec![], vec![]));
    });
}

/// T051
/// Difference: a kind that does not exist is an error when its name is read.
#[test]
fn name_of_an_unknown_kind_is_refused() {
    for name in ["*", "", "posted", "Put"] {
        assert!(name.parse::<EventKind>().is_err(), "{name:?}");
    }
}

/// Q309
#[test]
fn dropped_subscription_stops_no_other_one() {
    for_each_driver(ALL, |case| {
        let filter = || Filter::new().tube("case").kinds([EventKind::Put]);
        let [first, second] = [case.store.events(filter(), 10), case.store.events(filter(), 10)];
        case.put_all([0]);
        drop(first);
        case.put("x");
        let mut seen = second.into_stream();
        let _ = &mut seen;
        let last = case.store.events(filter(), 10);
        case.put("x");
        assert_eq!(received(&last).len(), 1);
        drop(seen);
        case.put("x");
        assert_eq!(received(&last).len(), 1);
    });
}

/// I09
#[test]
fn slow_reader_is_told_how_many_events_it_missed() {
    for_each_driver(ALL, |case| {
        let puts = case.store.events(Filter::new().kinds([EventKind::Put]), 2);
        let missed = |events: &Subscription| -> Vec<(u64, u64)> {
            received(events).iter().map(|event| (event.id, event.missed)).collect()
        };
        for _ in 0..5 {
            case.put("x");
        }
        assert_eq!(case.take_all().len(), 5);
        assert_eq!((missed(&puts), puts.dropped()), (vec![(0, 0), (1, 0)], 3));
        case.put("x");
        case.put("x");
        case.put("x");
        assert_eq!((missed(&puts), puts.dropped()), (vec![(5, 3), (6, 0)], 4));
        case.put("x");
        assert_eq!(missed(&puts), [(8, 1)]);
    });
}

/// Q300, T050
#[test]
fn put_and_end_of_a_task_are_an_event_each() {
    for_each_driver(ALL, |case| {
        let (one, two) = (case.event_log(), case.store.events(Filter::new().tube("case"), 10));
        case.put_all([0]);
        assert_eq!(one.read(), [(0, EventKind::Put, State::Ready)]);
        assert_eq!(case.take(), Some(0));
        case.tube.ack(0).unwrap();
        let ends = [(0, EventKind::Take, State::Taken), (0, EventKind::Ack, State::Done)];
        assert_eq!(one.read(), ends);
        assert_eq!(received(&two).len(), 3);
    });
}

/// Q301
#[test]
fn event_of_a_replaced_task_names_the_holder_that_lost_it() {
    for_each_driver(ALL, |case| {
        let events = case.store.events(Filter::new(), 100);
        let put = |data: &str| case.draft(data).key("k").on_key(OnKey::Replace);
        let id = case.add(put("a"));
        let ann = case.store.session_named("ann").unwrap();
        let _claim = ann.tube("case").unwrap().try_take().unwrap().unwrap();
        assert_eq!(case.add(put("b")), id);
        let keys = received(&events);
        assert!(keys.iter().all(|event| event.key.as_deref() == Some("k")), "{keys:?}");
        let told: Vec<_> =
            keys.iter().map(|it| (it.kind, it.owner.as_deref(), it.cause.as_deref())).collect();
        let expected = [
            (EventKind::Put, None, None),
            (EventKind::Take, Some("ann"), None),
            (EventKind::Lost, Some("ann"), Some("replaced")),
            (EventKind::Replace, None, None),
        ];
        assert_eq!(told, expected);
    });
}

/// Q302
#[test]
fn completion_is_an_event_and_so_is_an_advance() {
    for_each_driver(ALL, |case| {
        let next = case.store.create_tube("next", case.driver, TubeOptions::new()).unwrap();
        let events =
            case.store.events(Filter::new().kinds([EventKind::Ack, EventKind::Advance]), 9);
        case.put_all([0, 1]);
        let [first, second] = [(); 2].map(|()| case.tube.try_take().unwrap().unwrap());
        first.ack().unwrap();
        second.advance(&next, case.draft("x")).unwrap();
        let seen: Vec<_> =
            received(&events).into_iter().map(|it| (it.tube.to_string(), it.id, it.kind)).collect();
        let advance = EventKind::Advance;
        let case_name = || "case".to_owned();
        let expected = [
            (case_name(), 0, EventKind::Ack),
            (case_name(), 1, advance),
            ("next".to_owned(), 1, advance),
        ];
        assert_eq!(seen, expected);
    });
}

/// Q303
#[test]
fn cancel_and_delete_are_events_and_tell_the_holder() {
    for_each_driver(ALL, |case| {
        let events = case.store.events(Filter::new().kinds([EventKind::Delete]), 10);
        case.put_all([0, 1, 2]);
        case.tube.bury(1).unwrap();
        case.tube.cancel(0).unwrap();
        case.tube.cancel(1).unwrap();
        let ann = case.store.session_named("ann").unwrap();
        let claim = ann.tube("case").unwrap().try_take().unwrap().unwrap();
        case.tube.delete(claim.id()).unwrap();
        let delete = EventKind::Delete;
        let expected = [(delete, None, None), (delete, None, None), (delete, some("ann"), None)];
        assert_eq!(told(&events), expected);
    });
}

/// Q304
#[test]
fn lost_claim_is_an_event_with_its_owner() {
    for_each_driver(TIMED, |case| {
        let events = case.store.events(Filter::new().owner("ann"), 10);
        case.add(case.draft("x").ttr(secs(1)));
        let ann = case.store.session_named("ann").unwrap();
        let claim = ann.tube("case").unwrap().try_take().unwrap().unwrap();
        case.advance(1000);
        assert!(!claim.is_current());
        let expected = [(EventKind::Take, some("ann"), None), (EventKind::Ttr, some("ann"), None)];
        assert_eq!(told(&events), expected);
    });
}

/// Q305
/// Difference: it is one event, since it is one change.
#[test]
fn loss_of_the_last_attempt_is_an_event_with_the_failure_group() {
    for_each_driver_with(TIMED, TubeOptions::new().max_attempts(1), |case| {
        let events = case.store.events(Filter::new().kinds([EventKind::Ttr]), 10);
        case.add(case.draft("x").ttr(secs(1)));
        case.take();
        case.advance(1000);
        let event = events.try_recv().unwrap();
        assert_eq!((event.state, event.cause.as_deref()), (State::Buried, Some("expired")));
    });
}

/// Q306
/// Difference: a key tracks a task, and its events are those of the task.
#[test]
fn each_change_of_a_tracked_task_is_one_event() {
    for_each_driver(ALL, |case| {
        let tracked = case.store.events(Filter::new().key("tracked"), 100);
        case.add(case.draft("x").key("tracked"));
        case.put("untracked");
        let take = || -> Claim { case.tube.claim(0).unwrap() };
        take().fail(Failure::new("timeout", "no answer")).unwrap();
        take().bury_with(Failure::new("poison", "no use")).unwrap();
        case.tube.kick_task(0).unwrap();
        take().ack().unwrap();
        let take = (EventKind::Take, None, None);
        let expected = [
            (EventKind::Put, None, None),
            take.clone(),
            (EventKind::Fail, None, some("timeout")),
            take.clone(),
            (EventKind::Bury, None, some("poison")),
            (EventKind::Kick, None, None),
            take,
            (EventKind::Ack, None, None),
        ];
        assert_eq!(told(&tracked), expected);
    });
}

/// Q307
#[test]
fn release_that_spends_the_budget_is_an_event_with_the_failure_group() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(1), |case| {
        let released = case.store.events(Filter::new().kinds([EventKind::Release]), 10);
        case.put("x");
        case.tube.try_take().unwrap().unwrap().release(ZERO).unwrap();
        let event = released.try_recv().unwrap();
        assert_eq!((event.state, event.cause.as_deref()), (State::Buried, Some("released")));
    });
}

/// What ends a claim.
type EndOf<'a> = &'a dyn Fn(Claim);

#[test]
fn end_of_a_claim_says_why_and_whose_it_was() {
    for_each_driver(ALL, |case| {
        let events = case.store.events(Filter::new().owner("ann"), 100);
        case.put_all([0]);
        let ends: [(EndOf<'_>, EventKind); 4] = [
            (&|claim| drop(claim), EventKind::Release),
            (&|claim| drop(case.tube.revoke(claim.id())), EventKind::Revoke),
            (&|_| assert_eq!(case.tube.revoke_all(), Ok(1)), EventKind::Revoke),
            (&|claim| claim.snooze(ZERO).map(drop).unwrap(), EventKind::Snooze),
        ];
        for (end, kind) in ends {
            let ann = case.store.session_named("ann").unwrap();
            let claim = ann.tube("case").unwrap().try_take().unwrap().unwrap();
            end(claim);
            let take = (EventKind::Take, some("ann"), None);
            assert_eq!(told(&events), [take, (kind, some("ann"), None)]);
        }
        let ann = case.store.session_named("ann").unwrap();
        keep(ann.tube("case").unwrap().try_take().unwrap().unwrap());
        ann.end().unwrap();
        let ended = (EventKind::Release, some("ann"), some("session ended"));
        assert_eq!(told(&events)[1..], [ended]);
    });
}

/// A task with a ttl, a parent, kept outcomes: the events without a header of their own.
#[test]
fn every_event_of_a_task_with_a_key_has_the_key() {
    let keep = TubeOptions::new().keep_done(Keep::new().count(1));
    for_each_driver_with(TIMED, keep, |case| {
        let events = case.store.events(Filter::new(), 100);
        let other = case.store.create_tube("other", case.driver, TubeOptions::new()).unwrap();
        let parent = case.add(case.draft("x").key("k").ttl(secs(10)));
        let after = case.draft("y").key("k").after(&case.tube, [parent]).key("k2");
        case.add(after.on_parent(OnParent::Release));
        case.tube.try_take().unwrap().unwrap().touch(secs(1)).unwrap();
        case.tube.set_priority(parent, 7).unwrap();
        case.advance(11_000);
        case.tube.resolve(1, None).unwrap();
        case.tube.forget(1).unwrap();
        let put = |key: &str| case.draft("z").key(key).on_key(OnKey::Replace);
        case.add(put("k3"));
        other.put(put("k3")).unwrap();
        case.store.flush().unwrap();
        let events = received(&events);
        let of = |kind| events.iter().filter(move |event| event.kind == kind);
        assert!(events.iter().all(|event| event.key.is_some()), "{events:#?}");
        let expired: Vec<_> = of(EventKind::Delete).map(|it| it.cause.as_deref()).collect();
        assert_eq!(expired, [Some("expired")]);
        for kind in [EventKind::Ttl, EventKind::Touch, EventKind::Forget, EventKind::Update] {
            assert_eq!(of(kind).count(), 1, "{kind:?}");
        }
        assert_eq!(of(EventKind::Move).count(), 2);
    });
}

/// The claim has ended when the event is delivered, which is after the flush.
#[test]
fn event_after_a_flush_has_the_owner_of_the_claim_that_ended_before() {
    for driver in [FIFO, UTUBE] {
        let file = StoreFile::new();
        let store = file.open();
        let tube = store.create_tube("case", driver, TubeOptions::new()).unwrap();
        let events = store.events(Filter::new().owner("ann"), 100);
        let ann = store.session_named("ann").unwrap();
        let anns = ann.tube("case").unwrap();
        tube.put_many(["a", "b"].map(|data| Put::new(data).key(data))).unwrap();
        for _ in 0..2 {
            let claim = anns.try_take().unwrap().unwrap();
            if claim.data() == b"a" {
                claim.ack().unwrap();
            } else {
                claim.fail(Failure::new("timeout", "no answer")).unwrap();
            }
        }
        let seen = received(&events);
        let seen: Vec<_> =
            seen.iter().map(|it| (it.kind, it.key.as_deref(), it.cause.as_deref())).collect();
        let expected = [
            (EventKind::Take, Some("a"), None),
            (EventKind::Ack, Some("a"), None),
            (EventKind::Take, Some("b"), None),
            (EventKind::Fail, Some("b"), Some("timeout")),
        ];
        assert_eq!(seen, expected);
        assert_sound(&store);
    }
}

/// An event of a task with several of the tags is received once.
#[test]
fn subscription_receives_the_events_of_tasks_with_a_tag_once() {
    for_each_driver(ALL, |case| {
        let subscribe = |filter| case.store.events(filter, 100);
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

        let seen = |events: &Subscription| -> Vec<(u64, EventKind)> {
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
        let events = case.store.events(Filter::new().tag("red").tag("blue"), 1);
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
        let [red, blue] = ["red", "blue"].map(|tag| case.store.events(Filter::new().tag(tag), 100));
        let kinds = |events: &Subscription| -> Vec<EventKind> {
            received(events).iter().map(|event| event.kind).collect()
        };
        let (take, release, update) = (EventKind::Take, EventKind::Release, EventKind::Update);
        let id = case.add(case.draft("x").tag("red"));
        case.tube.add_tags(id, ["blue"]).unwrap();
        case.tube.remove_tags(id, ["red"]).unwrap();
        assert_eq!(kinds(&red), [EventKind::Put, update]);
        assert_eq!(kinds(&blue), [update, update]);
        let claim = case.tube.try_take().unwrap().unwrap();
        case.tube.add_tags(id, ["red"]).unwrap();
        case.tube.remove_tags(id, ["blue"]).unwrap();
        claim.release(ZERO).unwrap();
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
        let of_tag = case.store.events(Filter::new().tag("other tag").tag("t"), 100);
        let all = case.store.events(Filter::new(), 100);
        let other = case.store.create_tube("other", case.driver, TubeOptions::new()).unwrap();
        let draft = |data: &str| case.draft(data).tag("t");
        let parent = case.add(draft("x").ttl(secs(10)));
        let after = draft("y").after(&case.tube, [parent]).on_parent(OnParent::Release);
        let child = case.add(after);
        case.tube.try_take().unwrap().unwrap().touch(secs(1)).unwrap();
        case.tube.set_priority(parent, 7).unwrap();
        case.advance(11_000);
        case.tube.resolve(child, None).unwrap();
        case.tube.forget(child).unwrap();
        let put = || draft("z").key("k").on_key(OnKey::Replace);
        let id = case.add(put());
        other.put(put()).unwrap();
        let claim = other.claim(id).unwrap();
        claim.fail(Failure::new("timeout", "no answer")).unwrap();
        other.claim(id).unwrap().advance(&case.tube, case.draft("w")).unwrap();
        case.tube.delete(id).unwrap();
        case.store.flush().unwrap();
        let told = |events: &Subscription| -> Vec<(u64, EventKind, State)> {
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
        let make = |name| case.store.create_tube(name, case.driver, options()).unwrap();
        let (one, other) = (make("one"), make("another"));
        let by_key = case.store.events(Filter::new().key("k"), 100);
        let by_tag = case.store.events(Filter::new().tag("t"), 100);
        let put = || case.draft("x").key("k").tag("t").on_key(OnKey::Replace);
        let id = one.put(put()).unwrap().id;
        let _claim = one.claim(id).unwrap();
        other.put(put()).unwrap();
        other.claim(id).unwrap().ack().unwrap();
        other.forget(id).unwrap();
        let told = |events: &Subscription| -> Vec<(String, EventKind)> {
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
        let other = case.store.create_tube("other", case.driver, TubeOptions::new()).unwrap();
        let by_key = case.store.events(Filter::new().key("daily"), 100);
        let by_tag = case.store.events(Filter::new().tag("run"), 100);
        let daily = |secs_between| {
            let put = case.draft("x").tag("run");
            Schedule::every(secs(secs_between)).key("daily").put(put)
        };
        let begin = secs(1_767_225_600) + case.clock.now();
        let later = std::time::UNIX_EPOCH + begin + secs(60);
        case.tube.schedule(daily(60).starting(later)).unwrap();
        case.tube.schedule(daily(90)).unwrap();
        other.schedule(daily(90)).unwrap();
        other.unschedule("daily").unwrap();
        case.tube.schedule(daily(60).starting(later).times(1)).unwrap();
        case.advance(60_000);
        case.store.flush().unwrap();
        let kinds = |events: &Subscription| -> Vec<EventKind> {
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
        let tube = store.create_tube("case", driver, TubeOptions::new()).unwrap();
        let events = store.events(Filter::new().tag("a").tag("b"), 100);
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

/// What is noted for events goes with the changes, also if the subscription ends in between.
#[test]
fn notes_for_events_end_with_truncate_and_without_readers() {
    for_each_driver(ALL, |case| {
        let events = case.store.events(Filter::new(), 100);
        let ann = case.store.session_named("ann").unwrap();
        case.put_all([0, 1]);
        let _claims = ann.tube("case").unwrap().take_many(2, ZERO).unwrap();
        case.tube.truncate().unwrap();
        assert_sound(&case.store);
        drop(events);
        let id = case.put("x");
        ann.tube("case").unwrap().try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!(case.state(id), None);
        assert_sound(&case.store);
    });
}
