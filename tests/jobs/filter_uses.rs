//! Which conditions of a filter each call uses, and listings of a store.

use tubewell::driver::FIFO;
use tubewell::{Error, EventKind, Filter, Put, TaskState, TubeOptions};

use super::executor::block_on;
use super::support::*;
use super::tags::put_tagged;

/// One condition each, with its name.
fn conditions() -> [(&'static str, Filter); 12] {
    let filter = Filter::new;
    [
        ("tube", filter().tube("case")),
        ("state", filter().state(TaskState::Buried)),
        ("group", filter().group("g")),
        ("tag", filter().tag("t")),
        ("key", filter().key("k")),
        ("sub_queue", filter().sub_queue("s")),
        ("owner", filter().owner("o")),
        ("kinds", filter().kinds([EventKind::Put])),
        ("limit", filter().limit(1)),
        ("newest_first", filter().newest_first()),
        ("soonest_first", filter().soonest_first()),
        ("details", filter().details()),
    ]
}

/// Each condition is used, or refused by its name.
pub fn assert_uses<T: std::fmt::Debug>(
    used: &[&str],
    call: impl Fn(Filter) -> tubewell::Result<T>,
) {
    for (name, filter) in conditions() {
        match call(filter) {
            Ok(_) => assert!(used.contains(&name), "{name} is used"),
            Err(Error::Invalid { what }) => {
                assert!(what.contains(&format!("`{name}`")), "{name}: {what}");
                assert!(!used.contains(&name), "{what}");
            }
            Err(error) => panic!("{name}: {error:?}"),
        }
    }
}

const LISTED: [&str; 7] =
    ["state", "group", "tag", "sub_queue", "owner", "newest_first", "soonest_first"];

#[test]
fn call_names_the_condition_that_it_does_not_use() {
    for_each_driver(&[FIFO], |case| {
        let (store, tube) = (&case.store, &case.tube);
        assert_uses(&LISTED, |filter| tube.query().list(filter, None, 9));
        assert_uses(&LISTED, |filter| tube.query().tasks(filter, None, 9));
        let with_tube = |filter: Filter| store.list(filter.tube("case"), None, 9);
        assert_uses(&[&LISTED[..], &["tube"]].concat(), with_tube);
        let with_tag = |filter: Filter| store.list(filter.tag("t"), None, 9);
        assert_uses(&[&LISTED[..6], &["tube"]].concat(), with_tag);
        assert_uses(&[&LISTED[..6], &["tube"]].concat(), |filter| store.list(filter, None, 9));
        let of_group = |filter: Filter| filter.group("g");
        let changed = ["state", "group", "tag", "limit"];
        assert_uses(&changed, |filter| tube.admin().delete(of_group(filter)));
        assert_uses(&changed, |filter| tube.admin().kick(filter));
        assert_uses(&changed, |filter| block_on(tube.to_async().admin().delete(of_group(filter))));
        assert_uses(&changed, |filter| block_on(tube.to_async().admin().kick(filter)));
        let used = ["tube", "key", "owner", "tag", "kinds", "details"];
        assert_uses(&used, |filter| store.events(filter, 1).map(drop));
    });
}

#[test]
fn calls_on_tasks_use_one_value_of_a_condition() {
    for_each_driver(&[FIFO], |case| {
        let filter = Filter::new;
        for (name, twice) in [
            ("tag", filter().tag("a").tag("b")),
            ("owner", filter().owner("a").owner("b")),
            ("tube", filter().tube("case").tube("other")),
        ] {
            for refused in [
                case.tube.query().list(&twice, None, 9).map(drop),
                case.store.list(twice.clone().tag("a"), None, 9).map(drop),
                case.tube.admin().delete(twice.clone().group("g")).map(drop),
                case.tube.admin().kick(&twice).map(drop),
            ] {
                let Err(Error::Invalid { what }) = refused else { panic!("{name}: {refused:?}") };
                assert!(what.contains(&format!("`{name}`")), "{what}");
            }
        }
        // The same value twice is one.
        put_tagged(case, &["a"]);
        let listed = case.tube.query().list(filter().tag("a").tag("a"), None, 9).unwrap();
        assert_eq!(listed.items.len(), 1);
    });
}

#[test]
fn state_is_a_filter_of_its_tasks() {
    for_each_driver(ALL, |case| {
        let [buried, ready] = [case.put("a"), case.put("b")];
        case.tube.admin().bury(buried, None).unwrap();
        let list = |state| case.tube.query().list(state, None, 9).unwrap().items;
        assert_eq!(list(TaskState::Ready).iter().map(|task| task.id).collect::<Vec<_>>(), [ready]);
        assert_eq!(case.tube.admin().kick(TaskState::Buried).unwrap(), 1);
        assert_eq!(case.tube.admin().delete(TaskState::Ready).unwrap(), 2);
    });
}

#[test]
fn store_lists_one_tube_as_the_tube_does() {
    for_each_driver(ALL, |case| {
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        other.put(Put::new("x").tag("foo")).unwrap();
        for _ in 0..5 {
            put_tagged(case, &["foo"]);
        }
        case.tube.admin().bury(1, None).unwrap();
        for filter in [
            Filter::new(),
            Filter::from(TaskState::Ready),
            Filter::new().tag("foo").newest_first(),
            Filter::new().tag("foo").state(TaskState::Buried),
        ] {
            let of_store = filter.clone().tube("case");
            let (mut after, mut after_in_store) = (None, None);
            loop {
                let page = case.tube.query().list(&filter, after, 2).unwrap();
                assert_eq!(case.store.list(&of_store, after_in_store, 2).unwrap(), page);
                assert!(page.items.iter().all(|task| task.tube == "case"));
                (after, after_in_store) = (page.next.clone(), page.next);
                if after.is_none() {
                    break;
                }
            }
        }
        let unknown = case.store.list(Filter::new().tube("cased"), None, 9);
        assert!(matches!(unknown, Err(Error::TubeNotFound { .. })), "{unknown:?}");
    });
}

#[test]
fn store_lists_the_tasks_with_a_tag_that_meet_the_other_conditions_in_both_orders() {
    for_each_driver(ALL, |case| {
        let other = case.store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
        let mut ids = Vec::new();
        for _ in 0..4 {
            ids.push(put_tagged(case, &["foo"]));
            ids.push(other.put(Put::new("x").tag("foo")).unwrap().id);
        }
        case.tube.admin().bury(ids[2], None).unwrap();
        other.admin().bury(ids[5], None).unwrap();
        let in_pages = |filter: &Filter, limit: usize| {
            let (mut listed, mut after) = (Vec::new(), None);
            loop {
                let page = case.store.list(filter, after, limit).unwrap();
                listed.extend(page.items.iter().map(|task| task.id));
                after = page.next;
                if after.is_none() {
                    return listed;
                }
            }
        };
        let foo = || Filter::new().tag("foo");
        for limit in [1, 3, 100] {
            assert_eq!(in_pages(&foo(), limit), ids);
            assert_eq!(in_pages(&foo().state(TaskState::Buried), limit), [ids[2], ids[5]]);
            let backwards: Vec<u64> = ids.iter().rev().copied().collect();
            assert_eq!(in_pages(&foo().newest_first(), limit), backwards);
            let buried = foo().state(TaskState::Buried).newest_first();
            assert_eq!(in_pages(&buried, limit), [ids[5], ids[2]]);
        }
    });
}
