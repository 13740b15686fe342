//! Events with filters: what a subscription receives, and what an event says of its change.

use tubewell::driver::{FIFO, UTUBE};
use tubewell::{
    Claim, Event, EventKind, Failure, Filter, Keep, OnKey, OnParent, Outcome, Put, TaskState,
    TubeOptions,
};

use super::support::*;

/// The events so far.
pub fn received(events: &Events) -> Vec<Event> {
    events.read()
}

/// Kind, owner and cause of the events so far.
fn told(events: &Events) -> Vec<(EventKind, Option<String>, Option<String>)> {
    let text = |text: Option<std::sync::Arc<str>>| text.map(|text| text.to_string());
    received(events).into_iter().map(|it| (it.kind, text(it.owner), text(it.cause))).collect()
}

#[allow(clippy::unnecessary_wraps, reason = "as the events have it")]
fn some(text: &str) -> Option<String> {
    Some(text.to_owned())
}

#[test]
fn subscription_receives_events_of_a_kind_that_nobody_wanted_before() {
    for_each_driver(ALL, |case| {
        let subscribe = |filter| Events::of(&case.store, filter, 100);
        let kinds = |events: &Events| -> Vec<EventKind> {
            received(events).into_iter().map(|event| event.kind).collect()
        };
        let put_and_ack = || {
            let id = case.put("x");
            case.tube.claim(id).unwrap().ack().unwrap();
        };
        let (put, take, ack) = (EventKind::Put, EventKind::Take, EventKind::Ack);
        // Of the same kinds, so that all events are looked at.
        let other = subscribe(Filter::new().tube("other"));
        put_and_ack();
        put_and_ack();
        let of_acks = subscribe(Filter::new().tube("case").kinds([ack]));
        put_and_ack();
        let of_all = subscribe(Filter::new().tube("case"));
        put_and_ack();
        drop(of_all);
        put_and_ack();
        let again = subscribe(Filter::new());
        put_and_ack();
        assert_eq!(kinds(&of_acks), [ack; 4]);
        assert_eq!(kinds(&again), [put, take, ack]);
        assert_eq!(kinds(&other), []);
    });
}

/// T054
#[test]
fn subscription_receives_only_what_passes_its_filter() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let ends = [EventKind::Ack, EventKind::Bury];
        let subscribe = |filter| Events::of(&case.store, filter, 100);
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
        let ann = case.store.session("ann").unwrap();
        let taken = ann.tube(&case.tube).unwrap().take_many(2, ZERO).unwrap();
        for claim in taken {
            claim.ack().unwrap();
        }
        other.admin().bury(2, None).unwrap();

        let seen = |events: &Events| -> Vec<(u64, EventKind)> {
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

/// T051
#[test]
fn subscription_without_a_filter_receives_the_events_of_all_others() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let of_all = Events::of(&case.store, Filter::new(), 100);
        let of_one =
            ["case", "other"].map(|tube| Events::of(&case.store, Filter::new().tube(tube), 100));
        for tube in [&case.tube, &other] {
            let id = tube.put("x").unwrap().id;
            tube.try_take().unwrap().unwrap().release().unwrap();
            tube.admin().bury(id, None).unwrap();
            tube.kick(id).unwrap();
            tube.claim(id).unwrap().ack().unwrap();
        }
        let each = of_one.iter().flat_map(received);
        let all = received(&of_all);
        assert_eq!(all.len(), 14);
        assert_eq!(all, each.collect::<Vec<_>>());
    });
}

/// Q309
#[test]
fn subscription_that_ends_stops_no_other_one() {
    for_each_driver(ALL, |case| {
        let filter = || Filter::new().tube("case").kinds([EventKind::Put]);
        let [first, last] = [(); 2].map(|()| Events::of(&case.store, filter(), 10));
        let stream = case.store.to_async().events(filter(), 10).wait().unwrap();
        let ids = |events: &Events| -> Vec<u64> {
            received(events).into_iter().map(|event| event.id).collect()
        };
        case.put_all([0]);
        assert_eq!([&first, &last].map(ids), [[0], [0]]);
        drop(first);
        case.put("x");
        drop(stream);
        case.put("x");
        assert_eq!(ids(&last), [1, 2]);
    });
}

/// I09
#[test]
fn slow_reader_is_told_how_many_events_it_missed() {
    for_each_driver(ALL, |case| {
        let puts = case.store.events(Filter::new().kinds([EventKind::Put]), 2).unwrap();
        let missed = |events: &tubewell::Events| -> Vec<(u64, u64)> {
            let received = std::iter::from_fn(|| events.try_recv());
            received.map(|event| (event.id, event.missed)).collect()
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
        let (one, two) =
            (case.event_log(), Events::of(&case.store, Filter::new().tube("case"), 10));
        case.put_all([0]);
        assert_eq!(one.read(), [(0, EventKind::Put, TaskState::Ready)]);
        assert_eq!(case.take(), Some(0));
        case.tube.claimed(0).and_then(tubewell::Claim::ack).unwrap();
        let ends = [(0, EventKind::Take, TaskState::Taken), (0, EventKind::Ack, TaskState::Done)];
        assert_eq!(one.read(), ends);
        assert_eq!(received(&two).len(), 3);
    });
}

/// Q301
#[test]
fn event_of_a_replaced_task_names_the_holder_that_lost_it() {
    for_each_driver(ALL, |case| {
        let events = Events::of(&case.store, Filter::new(), 100);
        let put = |data: &str| case.draft(data).key("k").on_key(OnKey::Replace);
        let id = case.add(put("a"));
        let ann = case.store.session("ann").unwrap();
        let _claim = ann.tube(&case.tube).unwrap().try_take().unwrap().unwrap();
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
        let next = case.store.create_tube("next", TubeOptions::new().driver(case.driver)).unwrap();
        let events =
            Events::of(&case.store, Filter::new().kinds([EventKind::Ack, EventKind::Advance]), 9);
        case.put_all([0, 1]);
        let [first, second] = [(); 2].map(|()| case.tube.try_take().unwrap().unwrap());
        first.ack().unwrap();
        second.end(Outcome::advance(&next, case.draft("x"))).unwrap();
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

/// Q301
#[test]
fn holder_that_replaces_its_task_loses_its_claim_as_any_other() {
    for_each_driver(ALL, |case| {
        let events = Events::of(&case.store, Filter::new(), 100);
        let ann = case.store.session("ann").unwrap().tube(&case.tube).unwrap();
        let put = |data: &str| ann.put(case.draft(data).key("k").on_key(OnKey::Replace)).unwrap();
        put("a");
        let claim = ann.try_take().unwrap().unwrap();
        put("b");
        assert!(!claim.is_current().unwrap());
        let kinds: Vec<EventKind> = received(&events).iter().map(|event| event.kind).collect();
        assert_eq!(kinds, [EventKind::Put, EventKind::Take, EventKind::Lost, EventKind::Replace]);
    });
}

/// Q303
#[test]
fn cancel_and_delete_are_events_and_tell_the_holder() {
    for_each_driver(ALL, |case| {
        let events = Events::of(&case.store, Filter::new().kinds([EventKind::Delete]), 10);
        case.put_all([0, 1, 2]);
        case.tube.admin().bury(1, None).unwrap();
        case.tube.cancel(0).unwrap();
        case.tube.cancel(1).unwrap();
        let ann = case.store.session("ann").unwrap();
        let claim = ann.tube(&case.tube).unwrap().try_take().unwrap().unwrap();
        case.tube.delete(claim.id()).unwrap();
        let delete = EventKind::Delete;
        let expected = [(delete, None, None), (delete, None, None), (delete, some("ann"), None)];
        assert_eq!(told(&events), expected);
    });
}

/// Q303
#[test]
fn cancel_of_a_delayed_or_failed_task_and_delete_of_a_blocked_one_are_an_event_each() {
    for_each_driver(TIMED, |case| {
        let events = Events::of(&case.store, Filter::new().kinds([EventKind::Delete]), 10);
        case.put_all([0]);
        case.add(case.draft("blocked").after(&case.tube, [0]));
        case.tube.claim(0).unwrap().bury(Failure::new("poison", "no use")).unwrap();
        case.add(case.draft("delayed").delay(secs(5)));
        case.tube.delete(1).unwrap();
        case.tube.cancel(0).unwrap();
        case.tube.cancel(2).unwrap();
        let delete = EventKind::Delete;
        assert_eq!(
            told(&events),
            [(delete, None, None), (delete, None, None), (delete, None, None)]
        );
    });
}

/// Q304
#[test]
fn lost_claim_is_an_event_with_its_owner() {
    for_each_driver(TIMED, |case| {
        let events = Events::of(&case.store, Filter::new().owner("ann"), 10);
        case.add(case.draft("x").ttr(secs(1)));
        let ann = case.store.session("ann").unwrap();
        let claim = ann.tube(&case.tube).unwrap().try_take().unwrap().unwrap();
        case.advance(1000);
        assert!(!claim.is_current().unwrap());
        let expected = [(EventKind::Take, some("ann"), None), (EventKind::Ttr, some("ann"), None)];
        assert_eq!(told(&events), expected);
    });
}

/// Q305
/// Difference: it is one event, since it is one change.
#[test]
fn loss_of_the_last_attempt_is_an_event_with_the_failure_group() {
    for_each_driver_with(TIMED, TubeOptions::new().max_attempts(1), |case| {
        let events = Events::of(&case.store, Filter::new().kinds([EventKind::Ttr]), 10);
        case.add(case.draft("x").ttr(secs(1)));
        case.take();
        case.advance(1000);
        let event = events.read().remove(0);
        assert_eq!((event.state, event.cause.as_deref()), (TaskState::Buried, Some("expired")));
    });
}

/// Q306
/// Difference: a tag or a key tracks a task, and its events are those of the task.
#[test]
fn each_change_of_a_tracked_task_is_one_event() {
    for_each_driver(ALL, |case| {
        let tracked = Events::of(&case.store, Filter::new().tag("tracked"), 100);
        case.add(case.draft("x").tag("tracked"));
        case.put("untracked");
        let take = || -> Claim { case.tube.claim(0).unwrap() };
        take().fail(Failure::new("timeout", "no answer")).unwrap();
        take().bury(Failure::new("poison", "no use")).unwrap();
        case.tube.kick(0).unwrap();
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
        let released = Events::of(&case.store, Filter::new().kinds([EventKind::Release]), 10);
        case.put("x");
        case.tube.try_take().unwrap().unwrap().release().unwrap();
        let event = released.read().remove(0);
        assert_eq!((event.state, event.cause.as_deref()), (TaskState::Buried, Some("released")));
    });
}

/// What ends a claim.
type EndOf<'a> = &'a dyn Fn(Claim);

#[test]
fn end_of_a_claim_says_why_and_whose_it_was() {
    for_each_driver(ALL, |case| {
        let events = Events::of(&case.store, Filter::new().owner("ann"), 100);
        case.put_all([0]);
        let ends: [(EndOf<'_>, EventKind); 4] = [
            (&|claim| drop(claim), EventKind::Release),
            (&|claim| drop(case.tube.admin().revoke(claim.id())), EventKind::Revoke),
            (&|_| assert_eq!(case.tube.admin().revoke(Filter::new()), Ok(1)), EventKind::Revoke),
            (&|claim| claim.end(Outcome::snooze(ZERO)).map(drop).unwrap(), EventKind::Snooze),
        ];
        for (end, kind) in ends {
            let ann = case.store.session("ann").unwrap();
            let claim = ann.tube(&case.tube).unwrap().try_take().unwrap().unwrap();
            end(claim);
            let take = (EventKind::Take, some("ann"), None);
            assert_eq!(told(&events), [take, (kind, some("ann"), None)]);
        }
        let ann = case.store.session("ann").unwrap();
        keep(ann.tube(&case.tube).unwrap().try_take().unwrap().unwrap());
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
        let events = Events::of(&case.store, Filter::new(), 100);
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let parent = case.add(case.draft("x").key("k").ttl(secs(10)));
        let after = case.draft("y").key("k").after(&case.tube, [parent]).key("k2");
        case.add(after.on_parent(OnParent::Release));
        case.tube.try_take().unwrap().unwrap().touch(secs(1)).unwrap();
        case.tube.admin().set_priority(parent, 7).unwrap();
        case.advance(11_000);
        case.tube.admin().resolve(1, ()).unwrap();
        case.tube.admin().forget(1).unwrap();
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
        let tube = store.create_tube("case", TubeOptions::new().driver(driver)).unwrap();
        let events = Events::of(&store, Filter::new().owner("ann"), 100);
        let ann = store.session("ann").unwrap();
        let anns = ann.tube(&tube).unwrap();
        tube.put_many(["a", "b"].map(|data| Put::new(data).key(data))).unwrap();
        for _ in 0..2 {
            let claim = anns.try_take().unwrap().unwrap();
            if claim.body() == b"a" {
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

/// What is noted for events goes with the changes, also if the subscription ends in between.
#[test]
fn notes_for_events_end_with_truncate_and_without_readers() {
    for_each_driver(ALL, |case| {
        let events = Events::of(&case.store, Filter::new(), 100);
        let ann = case.store.session("ann").unwrap();
        case.put_all([0, 1]);
        let _claims = ann.tube(&case.tube).unwrap().take_many(2, ZERO).unwrap();
        case.tube.admin().truncate().unwrap();
        assert_sound(&case.store);
        drop(events);
        let id = case.put("x");
        ann.tube(&case.tube).unwrap().try_take().unwrap().unwrap().ack().unwrap();
        assert_eq!(case.state(id), None);
        assert_sound(&case.store);
    });
}
