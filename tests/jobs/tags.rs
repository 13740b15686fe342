//! Tags: labels of tasks, in the order in which they were added.

use tubewell::driver::FIFO;
use tubewell::{
    Error, Failure, Filter, Keep, MAX_TAG, MAX_TAGS, OnKey, Outcome, Put, Store, TaskState,
    TubeOptions, Update,
};

use super::support::*;

pub fn tagged_put(put: Put, tags: &[&str]) -> Put {
    tags.iter().fold(put, |put, tag| put.tag(*tag))
}

pub fn put_tagged(case: &Case, tags: &[&str]) -> u64 {
    case.add(tagged_put(case.draft("x"), tags))
}

pub fn tags(case: &Case, id: u64) -> Vec<String> {
    case.info(id).tags
}

/// The ids of the tasks with a tag, page by page.
pub fn tagged_in_pages(store: &Store, tag: &str, limit: usize) -> Vec<u64> {
    let (mut ids, mut after) = (Vec::new(), None);
    loop {
        let page = store.list(Filter::new().tag(tag), after, limit).unwrap();
        assert!(page.items.len() <= limit && page.damaged == 0);
        for task in &page.items {
            assert!(task.tags.iter().any(|own| own == tag), "{task:?}");
        }
        ids.extend(page.items.iter().map(|task| task.id));
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
pub fn assert_invalid<T: std::fmt::Debug>(answer: tubewell::Result<T>) {
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
        let add = |tags: &[&str]| case.tube.admin().add_tags(id, tags).unwrap();
        assert_eq!(add(&["foo"]).state, TaskState::Ready);
        assert_eq!(tags(case, id), ["foo"]);
        case.tube.admin().remove_tags(id, ["foo"]).unwrap();
        assert_eq!(tags(case, id), [""; 0]);
        add(&["foo", "foo", "foo"]);
        add(&["foo"]);
        assert_eq!(tags(case, id), ["foo"]);
        case.tube.admin().remove_tags(id, ["bar"]).unwrap();
        assert_eq!(tags(case, id), ["foo"]);
        add(&[]);
        assert_eq!(tagged(&case.store, "foo"), [id]);
        let deferred = case.tube.to_async().refuse_when_full();
        deferred.admin().add_tags(id, ["bar"]).wait().unwrap();
        deferred.admin().remove_tags(id, ["foo"]).wait().unwrap();
        assert_eq!(tags(case, id), ["bar"]);
        assert_not_found(case.tube.admin().add_tags(id + 1, ["foo"]), id + 1);
    });
}

/// Q222
#[test]
fn tags_keep_the_order_in_which_they_were_added() {
    for_each_driver(ALL, |case| {
        let id = case.put("x");
        let mut expected: Vec<String> = Vec::new();
        let mut rng = super::rng::Rng::new(7);
        for _ in 0..100 {
            let tag = format!("t{}", rng.below(12));
            if rng.below(2) == 0 {
                case.tube.admin().add_tags(id, [&tag]).unwrap();
                if !expected.contains(&tag) {
                    expected.push(tag);
                }
            } else {
                case.tube.admin().remove_tags(id, [&tag]).unwrap();
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
        case.tube.admin().delete(Filter::new().ids([put(), put()])).unwrap();
        is_gone();
        let failed = put();
        case.tube.claim(failed).unwrap().bury(Failure::new("g", "m")).unwrap();
        assert_eq!(tagged(&case.store, "foo"), [failed]);
        case.tube.delete(failed).unwrap();
        is_gone();
        case.add(case.draft("x").tag("foo").ttl(secs(1)));
        case.advance(1_000);
        is_gone();
        let (one, two) = (put(), put());
        case.tube.admin().truncate().unwrap();
        assert_eq!(tagged(&case.store, "foo"), [0; 0]);
        assert_not_found(case.tube.query().task(one), one);
        assert_not_found(case.tube.query().task(two), two);
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
            (Some(TaskState::Done), vec![first])
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
        assert_invalid(case.tube.admin().add_tags(id, ["one more"]));
        assert_invalid(case.tube.admin().add_tags(id, [""]));
        assert_invalid(case.tube.update(id, Update::new().tags(&many)));
        case.tube.admin().add_tags(id, &longest).unwrap();
        assert_eq!(tags(case, id), longest);
        case.tube.admin().remove_tags(id, [&longest[0]]).unwrap();
        case.tube.admin().add_tags(id, ["one more"]).unwrap();
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
            assert_eq!(case.tube.admin().add_tags(id, [&tag]).unwrap().state, state);
            case.tube.admin().remove_tags(id, [format!("t{}", n - 1)]).unwrap();
            assert_eq!(tags(case, id), ["a".to_owned(), tag.clone()]);
            assert_eq!((tagged(&case.store, &tag), case.state(id)), (vec![id], Some(state)));
            assert_sound(&case.store);
        };
        check(TaskState::Ready);
        let claim = case.tube.claim(id).unwrap();
        check(TaskState::Taken);
        claim.release_in(secs(1)).unwrap();
        check(TaskState::Delayed);
        case.tube.admin().bury(id, None).unwrap();
        check(TaskState::Buried);
        case.tube.kick(id).unwrap();
        case.tube.claim(id).unwrap().bury(Failure::new("g", "m")).unwrap();
        check(TaskState::Buried);
        case.tube.kick(id).unwrap();
        case.tube.claim(id).unwrap().ack().unwrap();
        check(TaskState::Done);
    });
}

#[test]
fn task_keeps_its_tags_wherever_it_goes() {
    for_each_driver(ALL, |case| {
        let other =
            case.store.create_tube("other", TubeOptions::new().driver(case.driver)).unwrap();
        let kept = ["b".to_owned(), "a".to_owned()];
        let id = case.add(tagged_put(case.draft("x"), &["b", "a"]).key("k"));
        assert_eq!(case.tube.admin().move_to(&other, id), Ok(1));
        assert_eq!(other.query().task(id).unwrap().info.tags, kept);
        other.admin().move_to(&case.tube, Filter::new()).unwrap();
        case.tube.claim(id).unwrap().end(Outcome::advance(&other, Put::new("next"))).unwrap();
        assert_eq!(other.query().task(id).unwrap().info.tags, kept);
        let replace = |put: Put| case.tube.put(put.key("k").on_key(OnKey::Replace)).unwrap().id;
        assert_eq!(replace(case.draft("y")), id);
        assert_eq!(tags(case, id), kept);
        assert_eq!(tagged(&case.store, "a"), [id]);
        assert_eq!(replace(tagged_put(case.draft("z"), &["c"])), id);
        assert_eq!(tags(case, id), ["c"]);
        let claim = case.tube.claim(id).unwrap();
        claim.end(Outcome::advance(&other, Put::new("last").tag("d"))).unwrap();
        assert_eq!(other.query().task(id).unwrap().info.tags, ["d"]);
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
