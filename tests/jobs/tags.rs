//! Tags: labels of tasks, in the order in which they were added, and which tasks have one.

use tubewell::driver::{FIFO, FIFOTTL};
use tubewell::{
    Durability, Error, Failure, Finish, Keep, MAX_TAG, MAX_TAGS, OnKey, Put, Select, State, Store,
    StoreOptions, TubeOptions, Update, WhenFull,
};

use crate::files::{after_a_kill, create, create_with};
use crate::support::*;

pub fn tagged_put(put: Put, tags: &[&str]) -> Put {
    tags.iter().fold(put, |put, tag| put.tag(*tag))
}

fn put_tagged(case: &Case, tags: &[&str]) -> u64 {
    case.add(tagged_put(case.draft("x"), tags))
}

fn tags(case: &Case, id: u64) -> Vec<String> {
    case.info(id).tags
}

/// The ids of the tasks with a tag, page by page.
fn tagged_in_pages(store: &Store, tag: &str, limit: usize) -> Vec<u64> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let page = store.tagged(tag, after, limit).unwrap();
        assert!(page.tasks.len() <= limit && page.damaged == 0);
        for task in &page.tasks {
            assert!(task.info.tags.iter().any(|own| own == tag), "{task:?}");
        }
        ids.extend(page.tasks.iter().map(|task| task.info.id));
        after = page.next;
        if after.is_none() {
            return ids;
        }
    }
}

pub fn tagged(store: &Store, tag: &str) -> Vec<u64> {
    let ids = tagged_in_pages(store, tag, 1000);
    assert_eq!(tagged_in_pages(store, tag, 1), ids);
    ids
}

pub fn used(store: &Store) -> Vec<(String, u64)> {
    let tags = store.tags(None, 100).unwrap();
    tags.into_iter().map(|tag| (tag.tag, tag.tasks)).collect()
}

/// Asserts that the call was refused as invalid, and changed nothing of the task.
fn assert_invalid<T: std::fmt::Debug>(answer: tubewell::Result<T>) {
    assert!(matches!(answer, Err(Error::Invalid { .. })), "{answer:?}");
}

/// Q005
#[test]
fn put_with_tags_has_them_in_their_order() {
    for_each_driver(ALL, |case| {
        let id = put_tagged(case, &["foo"]);
        let other = put_tagged(case, &["b", "a", "c"]);
        let plain = case.put("x");
        assert_eq!(tags(case, id), ["foo"]);
        assert_eq!(tags(case, other), ["b", "a", "c"]);
        assert_eq!(tags(case, plain), [""; 0]);
        let claim = case.tube.claim(other).unwrap();
        assert_eq!(claim.tags().collect::<Vec<_>>(), ["b", "a", "c"]);
    });
}

/// Q024
/// Difference: a tag that is named twice is there once.
#[test]
fn tag_that_is_named_twice_is_there_once() {
    for_each_driver(ALL, |case| {
        let id = put_tagged(case, &["x", "y", "x"]);
        assert_eq!(tags(case, id), ["x", "y"]);
        put_tagged(case, &["x"]);
        assert_eq!(used(&case.store), [("x".to_owned(), 2)]);
    });
}

/// Q220
#[test]
fn tags_are_added_and_removed_once() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        let add = |tags: &[&str]| case.tube.add_tags(id, tags).unwrap();
        assert_eq!(add(&["foo"]).state, State::Ready);
        assert_eq!(tags(case, id), ["foo"]);
        case.tube.remove_tags(id, ["foo"]).unwrap();
        assert_eq!(tags(case, id), [""; 0]);
        add(&["foo", "foo", "foo"]);
        add(&["foo"]);
        assert_eq!(tags(case, id), ["foo"]);
        case.tube.remove_tags(id, ["bar"]).unwrap();
        assert_eq!(tags(case, id), ["foo"]);
        add(&[]);
        assert_eq!(tagged(&case.store, "foo"), [id]);
        let deferred = case.tube.deferred(WhenFull::Refuse);
        deferred.add_tags(id, ["bar"]).unwrap().wait().unwrap();
        deferred.remove_tags(id, ["foo"]).unwrap().wait().unwrap();
        assert_eq!(tags(case, id), ["bar"]);
        assert_not_found(case.tube.add_tags(id + 1, ["foo"]), id + 1);
    });
}

/// Q221
#[test]
fn tagged_returns_the_tasks_with_a_tag_in_all_tubes() {
    for_each_driver(ALL, |case| {
        let other = case.store.create_tube("other", FIFO, TubeOptions::new()).unwrap();
        let foo = put_tagged(case, &["foo"]);
        let both = other.put(Put::new("y").tag("foo").tag("bar")).unwrap().id;
        assert_eq!(tagged(&case.store, "foo"), [foo, both]);
        assert_eq!(tagged(&case.store, "bar"), [both]);
        for unknown in ["fo", "foo ", "", &"x".repeat(300)] {
            assert_eq!(tagged(&case.store, unknown), [0; 0]);
        }
        let tubes = case.store.tagged("foo", None, 9).unwrap().tasks;
        let tubes: Vec<String> = tubes.into_iter().map(|task| task.tube).collect();
        assert_eq!(tubes, ["case", "other"]);
    });
}

/// Q222
#[test]
fn tags_keep_the_order_in_which_they_were_added() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        let mut expected: Vec<String> = Vec::new();
        let mut rng = crate::rng::Rng::new(7);
        for _ in 0..100 {
            let tag = format!("t{}", rng.below(12));
            if rng.below(2) == 0 {
                case.tube.add_tags(id, [&tag]).unwrap();
                if !expected.contains(&tag) {
                    expected.push(tag);
                }
            } else {
                case.tube.remove_tags(id, [&tag]).unwrap();
                expected.retain(|other| *other != tag);
            }
            assert_eq!(tags(case, id), expected);
        }
    });
}

/// Q100 Q223
#[test]
fn task_that_is_removed_is_found_by_its_tags_no_more() {
    for_each_driver(TIMED, |case| {
        let put = || put_tagged(case, &["foo", "bar"]);
        let is_gone = || {
            assert_eq!(tagged(&case.store, "foo"), [0; 0]);
            assert_eq!(tagged(&case.store, "bar"), [0; 0]);
            assert_eq!(used(&case.store), []);
        };
        case.tube.delete(put()).unwrap();
        is_gone();
        case.tube.cancel(put()).unwrap();
        is_gone();
        put();
        case.tube.try_take().unwrap().unwrap().ack().unwrap();
        is_gone();
        case.tube.delete_many(&[put(), put()]).unwrap();
        is_gone();
        let failed = put();
        case.tube.claim(failed).unwrap().bury_with(Failure::new("g", "m")).unwrap();
        assert_eq!(tagged(&case.store, "foo"), [failed]);
        case.tube.delete(failed).unwrap();
        is_gone();
        case.add(case.draft("x").tag("foo").ttl(secs(1)));
        case.advance(1_000);
        is_gone();
        let (one, two) = (put(), put());
        case.tube.truncate().unwrap();
        assert_eq!(tagged(&case.store, "foo"), [0; 0]);
        assert_not_found(case.tube.peek(one), one);
        assert_not_found(case.tube.peek(two), two);
    });
}

/// Q079 Q080
#[test]
fn kept_task_has_its_tags_until_it_is_forgotten() {
    let keep = TubeOptions::new().keep_done(Keep::new().age(secs(100)).count(1));
    for_each_driver_with(ALL, keep, |case| {
        let put = || {
            let id = put_tagged(case, &["foo"]);
            case.tube.claim(id).unwrap().ack().unwrap();
            id
        };
        let first = put();
        assert_eq!(
            (case.state(first), tagged(&case.store, "foo")),
            (Some(State::Done), vec![first])
        );
        let second = put();
        assert_eq!(tagged(&case.store, "foo"), [second]);
        case.advance(99_999);
        assert_eq!(tagged(&case.store, "foo"), [second]);
        case.advance(2);
        assert_eq!(tagged(&case.store, "foo"), [0; 0]);
        let third = put();
        assert_eq!(
            (tags(case, third), case.store.find(second)),
            (vec!["foo".to_owned()], Ok(None))
        );
    });
}

/// Q225
/// Difference: the order is that of the puts.
#[test]
fn pages_of_a_tag_are_disjoint_and_complete() {
    for_each_driver(ALL, |case| {
        let ids: Vec<u64> = (0..100).map(|_| put_tagged(case, &["foo"])).collect();
        let first = case.store.tagged("foo", None, 50).unwrap();
        let second = case.store.tagged("foo", first.next.clone(), 50).unwrap();
        let listed = first.tasks.iter().chain(&second.tasks).map(|task| task.info.id);
        assert_eq!(listed.collect::<Vec<u64>>(), ids);
        assert_eq!((first.tasks.len(), second.next.is_none()), (50, true));
        // The text of the cursor begins the same page.
        let text = first.next.unwrap().to_string();
        let again = case.store.tagged("foo", Some(text.parse().unwrap()), 50).unwrap();
        assert_eq!(again, second);
    });
}

#[test]
fn page_of_a_tag_begins_behind_its_cursor_while_tasks_come_and_go() {
    for_each_driver(ALL, |case| {
        let ids: Vec<u64> = (0..6).map(|_| put_tagged(case, &["foo"])).collect();
        let first = case.store.tagged("foo", None, 3).unwrap();
        case.tube.delete(ids[0]).unwrap();
        case.tube.delete(ids[2]).unwrap();
        case.tube.remove_tags(ids[3], ["foo"]).unwrap();
        case.tube.bury(ids[4]).unwrap();
        let new = put_tagged(case, &["foo"]);
        let rest = case.store.tagged("foo", first.next, 9).unwrap();
        let rest: Vec<u64> = rest.tasks.iter().map(|task| task.info.id).collect();
        assert_eq!(rest, [ids[4], ids[5], new]);
    });
}

#[test]
fn cursor_of_a_tag_is_refused_by_other_listings() {
    for_each_driver(&[FIFO], |case| {
        for _ in 0..3 {
            put_tagged(case, &["foo", "bar"]);
        }
        let next = || case.store.tagged("foo", None, 1).unwrap().next;
        assert_invalid(case.store.tagged("bar", next(), 1));
        assert_invalid(case.tube.list(State::Ready, next(), 1));
        assert_invalid(case.tube.list_group("foo", next(), 1));
        let listed = case.tube.list(State::Ready, None, 1).unwrap().next;
        assert_invalid(case.store.tagged("foo", listed, 1));
        let empty = case.store.tagged("foo", None, 0).unwrap();
        assert_eq!(empty.tasks, []);
        assert_eq!(case.store.tagged("foo", empty.next, 9).unwrap().tasks.len(), 3);
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
            case.tube.add_tags(a, ["foo"]).unwrap();
            assert_eq!(used(&case.store), [("foo".to_owned(), 2)]);
        }
        for _ in 0..3 {
            case.tube.remove_tags(a, ["foo"]).unwrap();
        }
        assert_eq!((used(&case.store), tagged(&case.store, "foo")), (vec![], vec![b]));
        case.tube.remove_tags(b, ["foo"]).unwrap();
        case.tube.add_tags(a, ["foo"]).unwrap();
        case.tube.add_tags(b, ["foo"]).unwrap();
        assert_eq!(used(&case.store), [("foo".to_owned(), 2)]);
    });
}

/// Q229
/// Difference: a tracked task is one with the tag `tracked`.
#[test]
fn tracked_task_is_listed_with_its_record() {
    for_each_driver(ALL, |case| {
        assert_not_found(case.tube.add_tags(7, ["tracked"]), 7);
        let id = case.put("x");
        case.tube.add_tags(id, ["tracked"]).unwrap();
        let tracked = case.store.tagged("tracked", None, 9).unwrap().tasks;
        assert_eq!(tracked[0].info, case.info(id));
        assert_eq!(tags(case, id), ["tracked"]);
        case.tube.remove_tags(id, ["tracked"]).unwrap();
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
        assert_not_found(case.tube.remove_tags(id, ["tracked"]), id);
    });
}

#[test]
fn tags_beyond_their_limits_are_refused() {
    for_each_driver(&[FIFO], |case| {
        let many: Vec<String> = (0..=MAX_TAGS).map(|n| format!("t{n}")).collect();
        let put = |tags: &[String]| {
            case.tube.put(tags.iter().fold(Put::new("x"), |put, tag| put.tag(tag.as_str())))
        };
        assert_invalid(put(&many));
        assert_invalid(put(&[String::new()]));
        assert_invalid(put(&["x".repeat(MAX_TAG + 1)]));
        assert_invalid(case.tube.put_many([Put::new("a"), Put::new("b").tag("")]));
        assert_eq!(case.tasks(), counts([]));
        let longest: Vec<String> = (0..MAX_TAGS).map(|n| format!("{n:0>MAX_TAG$}")).collect();
        let id = put(&longest).unwrap().id;
        assert_invalid(case.tube.add_tags(id, ["one more"]));
        assert_invalid(case.tube.add_tags(id, [""]));
        assert_invalid(case.tube.update(id, Update::new().tags(&many)));
        case.tube.add_tags(id, &longest).unwrap();
        assert_eq!(tags(case, id), longest);
        case.tube.remove_tags(id, [&longest[0]]).unwrap();
        case.tube.add_tags(id, ["one more"]).unwrap();
        assert_eq!(tags(case, id).last().unwrap(), "one more");
        assert_eq!(tags(case, id).len(), MAX_TAGS);
    });
}

#[test]
fn tags_are_changed_in_every_state() {
    let keep = TubeOptions::new().keep_done(Keep::new());
    for_each_driver_with(TIMED, keep, |case| {
        let id = put_tagged(case, &["a"]);
        let mut n = 0;
        let mut check = |state| {
            n += 1;
            let tag = format!("t{n}");
            assert_eq!(case.tube.add_tags(id, [&tag]).unwrap().state, state);
            case.tube.remove_tags(id, [format!("t{}", n - 1)]).unwrap();
            assert_eq!(tags(case, id), ["a".to_owned(), tag.clone()]);
            assert_eq!((tagged(&case.store, &tag), case.state(id)), (vec![id], Some(state)));
            assert_sound(&case.store);
        };
        check(State::Ready);
        let claim = case.tube.claim(id).unwrap();
        check(State::Taken);
        claim.release(secs(1)).unwrap();
        check(State::Delayed);
        case.tube.bury(id).unwrap();
        check(State::Buried);
        case.tube.kick_task(id).unwrap();
        case.tube.claim(id).unwrap().bury_with(Failure::new("g", "m")).unwrap();
        check(State::Buried);
        case.tube.kick_task(id).unwrap();
        case.tube.claim(id).unwrap().ack().unwrap();
        check(State::Done);
    });
}

#[test]
fn task_keeps_its_tags_wherever_it_goes() {
    for_each_driver(ALL, |case| {
        let other = case.store.create_tube("other", case.driver, TubeOptions::new()).unwrap();
        let kept = ["b".to_owned(), "a".to_owned()];
        let id = case.add(tagged_put(case.draft("x"), &["b", "a"]).key("k"));
        case.tube.move_to(id, &other).unwrap();
        assert_eq!(other.peek(id).unwrap().info.tags, kept);
        other.move_all(&case.tube).unwrap();
        case.tube.claim(id).unwrap().advance(&other, Put::new("next")).unwrap();
        assert_eq!(other.peek(id).unwrap().info.tags, kept);
        let replace = |put: Put| case.tube.put(put.key("k").on_key(OnKey::Replace)).unwrap().id;
        assert_eq!(replace(case.draft("y")), id);
        assert_eq!(tags(case, id), kept);
        assert_eq!(tagged(&case.store, "a"), [id]);
        assert_eq!(replace(tagged_put(case.draft("z"), &["c"])), id);
        assert_eq!(tags(case, id), ["c"]);
        let claim = case.tube.claim(id).unwrap();
        claim.finish(Finish::new().advance(&other, Put::new("last").tag("d"))).unwrap();
        assert_eq!(other.peek(id).unwrap().info.tags, ["d"]);
        assert_eq!((tagged(&case.store, "d"), tagged(&case.store, "c")), (vec![id], vec![]));
    });
}

#[test]
fn update_gives_a_task_other_tags() {
    for_each_driver(ALL, |case| {
        let id = put_tagged(case, &["a", "b"]);
        let update = |tags: &[&str]| Update::new().tags(tags.to_vec());
        case.tube.update(id, update(&["c", "b", "c"])).unwrap();
        assert_eq!(tags(case, id), ["c", "b"]);
        case.tube.update(id, Update::new().body("y")).unwrap();
        assert_eq!(tags(case, id), ["c", "b"]);
        case.tube.update(id, update(&["d"]).body(vec![7; 5_000])).unwrap();
        assert_eq!((tags(case, id), tagged(&case.store, "b")), (vec!["d".to_owned()], vec![]));
        if case.timed() {
            case.tube.update(id, update(&["e"]).priority(3)).unwrap();
            assert_eq!((tags(case, id), tagged(&case.store, "d")), (vec!["e".to_owned()], vec![]));
        }
        case.tube.update(id, update(&[])).unwrap();
        assert_eq!(tags(case, id), [""; 0]);
        let _claim = case.tube.claim(id).unwrap();
        let refused = case.tube.update(id, update(&["f"]));
        assert!(matches!(refused, Err(Error::NotReady { .. })), "{refused:?}");
        assert_eq!(tagged(&case.store, "f"), [0; 0]);
    });
}

/// The rows of a truncated tube are removed later, and the id of a tag of it is skipped until then.
#[test]
fn tags_of_truncated_and_dropped_tubes_are_skipped_and_then_forgotten() {
    for reopen in [false, true] {
        let file = StoreFile::new();
        let (mut store, tube) = create(&file, FIFOTTL);
        let other = store.create_tube("other", FIFO, TubeOptions::new()).unwrap();
        tube.put_many((0..3_000).map(|_| Put::new("x").tag("foo").tag("bar"))).unwrap();
        let id = other.put(Put::new("y").tag("foo")).unwrap().id;
        tube.truncate().unwrap();
        assert_eq!(tagged_in_pages(&store, "foo", 10), [id]);
        let new = tube.put(Put::new("z").tag("foo")).unwrap().id;
        assert_eq!(tagged_in_pages(&store, "foo", 1000), [id, new]);
        store.drop_tube("case").unwrap();
        drop((tube, other));
        if reopen {
            store = file.reopen(store);
        }
        assert_eq!(tagged_in_pages(&store, "foo", 1000), [id]);
        assert_sound(&store);
        if reopen {
            store.close().unwrap();
            Store::options().clock(&file.clock).compact(file.path()).unwrap();
            store = file.open();
        } else {
            store.catch_up().unwrap();
        }
        assert_eq!(used(&store), []);
        assert_eq!(tagged(&store, "foo"), [id]);
        assert_sound(&store);
    }
}

#[test]
fn tags_are_there_after_a_reopen() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    let ids: Vec<u64> = (0..10)
        .map(|n| tube.put(Put::new("x").tag("all").tag(format!("{}", n % 2))).unwrap().id)
        .collect();
    tube.add_tags(ids[3], ["late"]).unwrap();
    drop(tube);
    let store = file.reopen(store);
    assert_eq!(tagged(&store, "all"), ids);
    assert_eq!(tagged(&store, "late"), [ids[3]]);
    assert_eq!(used(&store)[0], ("all".to_owned(), 10));
    assert_eq!(store.find(ids[3]).unwrap().unwrap().info.tags, ["all", "1", "late"]);
    assert_sound(&store);
}

#[test]
fn tags_of_temporary_tubes_are_listed_and_counted_with_the_others() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    let temporary = TubeOptions::new().temporary(true);
    let temporary = store.create_tube("temporary", FIFO, temporary).unwrap();
    let mut ids = Vec::new();
    for n in 0..6 {
        let tube = if n % 2 == 0 { &tube } else { &temporary };
        ids.push(tube.put(Put::new("x").tag("foo")).unwrap().id);
    }
    assert_eq!(tagged(&store, "foo"), ids);
    assert_eq!(used(&store), [("foo".to_owned(), 6)]);
    assert_eq!(store.find(ids[1]).unwrap().unwrap().tube, "temporary");
    temporary.delete(ids[1]).unwrap();
    assert_eq!(used(&store), [("foo".to_owned(), 5)]);
    assert_sound(&store);
}

#[test]
fn find_returns_the_task_and_its_tube() {
    let keep = TubeOptions::new().keep_done(Keep::new());
    for_each_driver_with(ALL, keep, |case| {
        let other = case.store.create_tube("other", FIFO, TubeOptions::new()).unwrap();
        let [here, there] = [case.put("x"), other.put("y").unwrap().id];
        let find = |id| {
            let found = case.store.find(id).unwrap();
            assert_eq!(crate::executor::block_on(case.store.find_async(id)).unwrap(), found);
            found.map(|task| (task.tube, task.info.state))
        };
        assert_eq!(find(here), Some(("case".to_owned(), State::Ready)));
        assert_eq!(find(there), Some(("other".to_owned(), State::Ready)));
        assert_eq!(find(there + 1), None);
        let claim = case.tube.claim(here).unwrap();
        assert_eq!(find(here), Some(("case".to_owned(), State::Taken)));
        claim.ack().unwrap();
        assert_eq!(find(here), Some(("case".to_owned(), State::Done)));
        case.store.drop_tube("other").unwrap();
        assert_eq!(find(there), None);
    });
}

#[test]
fn find_looks_into_every_tube() {
    let store = store_in_memory();
    let mut ids = Vec::new();
    for n in 0..2_100 {
        let tube = store.create_tube(&format!("tube {n:04}"), FIFO, TubeOptions::new()).unwrap();
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
        let other = case.store.create_tube("other", FIFO, TubeOptions::new()).unwrap();
        let elsewhere = other.put(Put::new("x").tag("foo")).unwrap().id;
        let ids: Vec<u64> = (0..8).map(|_| put_tagged(case, &["foo"])).collect();
        let plain = case.put("x");
        for id in &ids[..4] {
            case.tube.claim(*id).unwrap().bury_with(Failure::new("g", "m")).unwrap();
        }
        case.tube.claim(ids[4]).unwrap().ack().unwrap();
        let select = || Select::new().tag("foo");
        let kicked = case.tube.kick_where(select().group("g").limit(1)).unwrap();
        assert_eq!((kicked, case.state(ids[0])), (1, Some(State::Ready)));
        assert_eq!(case.tube.kick_where(select().limit(1)).unwrap(), 1);
        assert_eq!(case.state(ids[1]), Some(State::Ready));
        assert_eq!(case.tube.kick_where(Select::new().tag("other")).unwrap(), 0);
        assert_eq!(case.tube.delete_where(select().state(State::Buried)).unwrap(), 2);
        let _taken = case.tube.claim(ids[0]).unwrap();
        assert_eq!(case.tube.delete_where(select().limit(2)).unwrap(), 2);
        assert_eq!(tagged(&case.store, "foo"), [&[elsewhere], &ids[4..]].concat());
        assert_eq!(case.tube.delete_where(select()).unwrap(), 4);
        assert_eq!(tagged(&case.store, "foo"), [elsewhere]);
        assert_eq!(case.state(plain), Some(State::Ready));
        assert_invalid(case.tube.delete_where(Select::new()));
        assert_invalid(case.tube.kick_where(select().state(State::Ready)));
    });
}

#[test]
fn delete_where_by_tag_deletes_more_than_one_step() {
    let file = StoreFile::new();
    let (store, tube) = create_with(&file, FIFO, TubeOptions::new());
    let tasks = (0..2_000).map(|n| Put::new("x").tag(if n % 3 == 0 { "three" } else { "other" }));
    tube.put_many(tasks).unwrap();
    assert_eq!(tube.delete_where(Select::new().tag("three")).unwrap(), 667);
    assert_eq!(tube.statistics().unwrap().tasks.total, 1333);
    assert_eq!(used(&store), [("other".to_owned(), 1333)]);
    assert_sound(&store);
}

#[test]
fn salvaged_and_copied_tasks_have_their_tags() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFOTTL);
    let id = tube.put(Put::new("x").tag("b").tag("a").delay(secs(60))).unwrap().id;
    let copy = StoreFile::new();
    store.backup(copy.path()).unwrap();
    let backup = Store::options().clock(&file.clock).open(copy.path()).unwrap();
    assert_eq!(tagged(&backup, "a"), [id]);
    assert_sound(&backup);
    let (_killed, after_kill) = after_a_kill(&file);
    assert_eq!(tagged(&after_kill, "b"), [id]);
    assert_sound(&after_kill);
    drop(tube);
    store.close().unwrap();
    let mut tags = Vec::new();
    let salvage = |found: tubewell::Salvaged| {
        if let tubewell::Salvaged::Task { task, .. } = found {
            tags.push(task.info.tags);
        }
        Ok(())
    };
    StoreOptions::default().clock(&file.clock).salvage(file.path(), salvage).unwrap();
    assert_eq!(tags, [["b", "a"]]);
}

/// In a relaxed or written tube, too, a task that was put and acked before its flush leaves no row.
#[test]
fn tags_that_come_and_go_leave_nothing() {
    for durability in [Durability::relaxed(), Durability::write(), Durability::Flush] {
        let file = StoreFile::new();
        let (store, tube) = create_with(&file, FIFO, TubeOptions::new().durability(durability));
        for round in 0..3 {
            for n in 0..30 {
                let id = tube.put(Put::new("x").tag("all").tag(format!("t{n}"))).unwrap().id;
                tube.add_tags(id, ["more"]).unwrap();
                tube.remove_tags(id, ["all"]).unwrap();
                tube.try_take().unwrap().unwrap().ack().unwrap();
            }
            if round == 1 {
                store.flush().unwrap();
            }
        }
        assert_eq!((tagged(&store, "more"), used(&store)), (vec![], vec![]));
        assert_sound(&store);
        drop(tube);
        let store = file.reopen(store);
        assert_eq!(tagged(&store, "t7"), [0; 0]);
        assert_sound(&store);
    }
}
