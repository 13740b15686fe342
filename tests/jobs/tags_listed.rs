//! Which tasks have a tag, how many have it, and where a task is.

use tubewell::driver::FIFO;
use tubewell::{Failure, Filter, Keep, Put, TaskState, TubeOptions};

use super::support::*;
use super::tags::{assert_invalid, put_tagged, tagged, tags, used};

/// Q221
#[test]
fn tagged_returns_the_tasks_with_a_tag_in_all_tubes() {
    for_each_driver(ALL, |case| {
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        let foo = put_tagged(case, &["foo"]);
        let both = other.put(Put::new("y").tag("foo").tag("bar")).unwrap().id;
        assert_eq!(tagged(&case.store, "foo"), [foo, both]);
        assert_eq!(tagged(&case.store, "bar"), [both]);
        for unknown in ["fo", "foo ", "", &"x".repeat(300)] {
            assert_eq!(tagged(&case.store, unknown), [0; 0]);
        }
        let tubes = case.store.list(Filter::new().tag("foo"), None, 9).unwrap().items;
        let tubes: Vec<String> = tubes.into_iter().map(|task| task.tube).collect();
        assert_eq!(tubes, ["case", "other"]);
    });
}

/// Q225
/// Difference: the order is that of the puts.
#[test]
fn pages_of_a_tag_are_disjoint_and_complete() {
    for_each_driver(ALL, |case| {
        let ids: Vec<u64> = (0..100).map(|_| put_tagged(case, &["foo"])).collect();
        let first = case.store.list(Filter::new().tag("foo"), None, 50).unwrap();
        let second = case.store.list(Filter::new().tag("foo"), first.next.clone(), 50).unwrap();
        let listed = first.items.iter().chain(&second.items).map(|task| task.id);
        assert_eq!(listed.collect::<Vec<u64>>(), ids);
        assert_eq!((first.items.len(), second.next.is_none()), (50, true));
        // The text of the cursor begins the same page.
        let text = first.next.unwrap().to_string();
        let again =
            case.store.list(Filter::new().tag("foo"), Some(text.parse().unwrap()), 50).unwrap();
        assert_eq!(again, second);
    });
}

#[test]
fn page_of_a_tag_begins_behind_its_cursor_while_tasks_come_and_go() {
    for_each_driver(ALL, |case| {
        let ids: Vec<u64> = (0..6).map(|_| put_tagged(case, &["foo"])).collect();
        let first = case.store.list(Filter::new().tag("foo"), None, 3).unwrap();
        case.tube.delete(ids[0]).unwrap();
        case.tube.delete(ids[2]).unwrap();
        case.tube.admin().remove_tags(ids[3], ["foo"]).unwrap();
        case.tube.admin().bury(ids[4], None).unwrap();
        let new = put_tagged(case, &["foo"]);
        let rest = case.store.list(Filter::new().tag("foo"), first.next, 9).unwrap();
        let rest: Vec<u64> = rest.items.iter().map(|task| task.id).collect();
        assert_eq!(rest, [ids[4], ids[5], new]);
    });
}

#[test]
fn cursor_of_a_tag_is_refused_by_other_listings() {
    for_each_driver(&[FIFO], |case| {
        for _ in 0..3 {
            put_tagged(case, &["foo", "bar"]);
        }
        let next = || case.store.list(Filter::new().tag("foo"), None, 1).unwrap().next;
        assert_invalid(case.store.list(Filter::new().tag("bar"), next(), 1));
        assert_invalid(case.tube.query().list(TaskState::Ready, next(), 1));
        assert_invalid(case.tube.query().list(
            Filter::new().group("foo").newest_first(),
            next(),
            1,
        ));
        let listed = case.tube.query().list(TaskState::Ready, None, 1).unwrap().next;
        assert_invalid(case.store.list(Filter::new().tag("foo"), listed, 1));
        let empty = case.store.list(Filter::new().tag("foo"), None, 0).unwrap();
        assert_eq!(empty.items, []);
        assert_eq!(
            case.store.list(Filter::new().tag("foo"), empty.next, 9).unwrap().items.len(),
            3
        );
        assert!("1t1.7.foo".parse::<tubewell::Cursor>().is_err());
        assert!("1t0.7".parse::<tubewell::Cursor>().is_err());
    });
}

/// Q226
#[test]
fn tags_that_are_used_most_come_first_and_those_used_once_are_left_out() {
    for_each_driver(ALL, |case| {
        for n in 0..12_u64 {
            // Tag 0 has 12 tasks, and tag 11 has one.
            let tags: Vec<String> = (0..=n).map(|tag| format!("tag {:02}", 11 - tag)).collect();
            let tags: Vec<&str> = tags.iter().map(String::as_str).collect();
            put_tagged(case, &tags);
        }
        let first = case.store.tags(None, 5).unwrap();
        let second = case.store.tags(first.last(), 5).unwrap();
        let third = case.store.tags(second.last(), 5).unwrap();
        let all: Vec<_> = first.iter().chain(&second).chain(&third).collect();
        let counts: Vec<u64> = all.iter().map(|tag| tag.tasks).collect();
        assert_eq!(counts, [12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2]);
        assert_eq!((&*all[0].tag, &*all[10].tag), ("tag 11", "tag 01"));
        assert_eq!(case.store.tags(None, 0), Ok(vec![]));
    });
}

/// Q228
/// Difference: counts are exact.
#[test]
fn count_of_a_tag_is_exact_after_repeated_adds_and_removes() {
    for_each_driver(ALL, |case| {
        let [a, b] = [put_tagged(case, &["foo"]), put_tagged(case, &["foo"])];
        for _ in 0..3 {
            case.tube.admin().add_tags(a, ["foo"]).unwrap();
            assert_eq!(used(&case.store), [("foo".to_owned(), 2)]);
        }
        for _ in 0..3 {
            case.tube.admin().remove_tags(a, ["foo"]).unwrap();
        }
        assert_eq!((used(&case.store), tagged(&case.store, "foo")), (vec![], vec![b]));
        case.tube.admin().remove_tags(b, ["foo"]).unwrap();
        case.tube.admin().add_tags(a, ["foo"]).unwrap();
        case.tube.admin().add_tags(b, ["foo"]).unwrap();
        assert_eq!(used(&case.store), [("foo".to_owned(), 2)]);
    });
}

/// Q229
/// Difference: a tracked task is one with the tag `tracked`.
#[test]
fn tracked_task_is_listed_with_its_record() {
    for_each_driver(ALL, |case| {
        assert_not_found(case.tube.admin().add_tags(7, ["tracked"]), 7);
        let id = case.put("x");
        case.tube.admin().add_tags(id, ["tracked"]).unwrap();
        let tracked = case.store.list(Filter::new().tag("tracked"), None, 9).unwrap().items;
        assert_eq!(tracked[0], case.info(id));
        assert_eq!(tags(case, id), ["tracked"]);
        case.tube.admin().remove_tags(id, ["tracked"]).unwrap();
        assert_eq!(tagged(&case.store, "tracked"), [0; 0]);
        assert_eq!(tags(case, id), [""; 0]);
    });
}

/// Q230
/// Difference: a task that is removed is tracked no more.
#[test]
fn tracked_task_that_is_cancelled_is_not_listed() {
    for_each_driver(ALL, |case| {
        let id = put_tagged(case, &["tracked"]);
        case.tube.cancel(id).unwrap();
        assert_eq!(tagged(&case.store, "tracked"), [0; 0]);
        assert_not_found(case.tube.admin().remove_tags(id, ["tracked"]), id);
    });
}

#[test]
fn find_returns_the_task_and_its_tube() {
    let keep = TubeOptions::new().keep_done(Keep::new());
    for_each_driver_with(ALL, keep, |case| {
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        let [here, there] = [case.put("x"), other.put("y").unwrap().id];
        let find = |id| {
            let found = case.store.find(id).unwrap();
            assert_eq!(super::executor::block_on(case.store.to_async().find(id)).unwrap(), found);
            found.map(|task| (task.tube, task.state))
        };
        assert_eq!(find(here), Some(("case".to_owned(), TaskState::Ready)));
        assert_eq!(find(there), Some(("other".to_owned(), TaskState::Ready)));
        assert_eq!(find(there + 1), None);
        let claim = case.tube.claim(here).unwrap();
        assert_eq!(find(here), Some(("case".to_owned(), TaskState::Taken)));
        claim.ack().unwrap();
        assert_eq!(find(here), Some(("case".to_owned(), TaskState::Done)));
        case.store.drop_tube("other").unwrap();
        assert_eq!(find(there), None);
    });
}

#[test]
fn find_looks_into_every_tube() {
    let store = store_in_memory();
    let mut ids = Vec::new();
    for n in 0..2_100 {
        let tube =
            store.create_tube(&format!("tube {n:04}"), TubeOptions::new().driver(FIFO)).unwrap();
        if n % 700 == 699 {
            ids.push((tube.put("x").unwrap().id, tube.name().to_owned()));
        }
    }
    for (id, name) in ids {
        assert_eq!(store.find(id).unwrap().unwrap().tube, name);
    }
    assert_eq!(store.find(99).unwrap(), None);
}

#[test]
fn calls_on_selected_tasks_select_by_tag() {
    let keep = TubeOptions::new().keep_done(Keep::new());
    for_each_driver_with(ALL, keep, |case| {
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        let elsewhere = other.put(Put::new("x").tag("foo")).unwrap().id;
        let ids: Vec<u64> = (0..8).map(|_| put_tagged(case, &["foo"])).collect();
        let plain = case.put("x");
        for id in &ids[..4] {
            case.tube.claim(*id).unwrap().bury(Failure::new("g", "m")).unwrap();
        }
        case.tube.claim(ids[4]).unwrap().ack().unwrap();
        let select = || Filter::new().tag("foo");
        let kicked = case.tube.admin().kick(select().group("g").limit(1)).unwrap();
        assert_eq!((kicked, case.state(ids[0])), (1, Some(TaskState::Ready)));
        assert_eq!(case.tube.admin().kick(select().limit(1)).unwrap(), 1);
        assert_eq!(case.state(ids[1]), Some(TaskState::Ready));
        assert_eq!(case.tube.admin().kick(Filter::new().tag("other")).unwrap(), 0);
        assert_eq!(case.tube.admin().delete(select().state(TaskState::Buried)).unwrap(), 2);
        let _taken = case.tube.claim(ids[0]).unwrap();
        assert_eq!(case.tube.admin().delete(select().limit(2)).unwrap(), 2);
        assert_eq!(tagged(&case.store, "foo"), [&[elsewhere], &ids[4..]].concat());
        assert_eq!(case.tube.admin().delete(select()).unwrap(), 4);
        assert_eq!(tagged(&case.store, "foo"), [elsewhere]);
        assert_eq!(case.state(plain), Some(TaskState::Ready));
        assert_invalid(case.tube.admin().delete(Filter::new()));
        assert_invalid(case.tube.admin().kick(select().state(TaskState::Ready)));
    });
}
