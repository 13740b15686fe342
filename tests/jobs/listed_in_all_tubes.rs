//! Listings of the tasks of all tubes, one tube after the other.

use tubewell::{Cursor, FIFO, Filter, Store, TaskState, Tube, TubeOptions};

use super::executor::block_on;
use super::files::{after_a_kill, create};
use super::support::*;
use super::tags::assert_invalid;

/// Tubes whose names come before and after that of the case.
fn others(case: &Case) -> [Tube; 2] {
    ["a", "z"]
        .map(|name| case.store.create_tube(name, TubeOptions::new().driver(case.driver)).unwrap())
}

fn put(tube: &Tube) -> u64 {
    tube.put("x").unwrap().id
}

fn put_each<const N: usize>(tubes: [&Tube; N]) -> [u64; N] {
    tubes.map(put)
}

fn bury(tube: &Tube, group: &str) -> u64 {
    let id = put(tube);
    tube.claim(id).unwrap().bury(tubewell::Failure::new(group, "message")).unwrap();
    id
}

/// The tubes and the ids of the tasks in pages. Each cursor goes through its text.
fn pages(store: &Store, filter: impl Into<Filter>, limit: usize) -> Vec<Vec<(String, u64)>> {
    let (filter, mut after, mut pages) = (filter.into(), None::<Cursor>, Vec::new());
    loop {
        let page = store.list(&filter, after, limit).unwrap();
        assert!(page.items.len() <= limit && page.damaged == 0, "{page:?}");
        pages.push(page.items.into_iter().map(|task| (task.tube, task.id)).collect());
        let Some(next) = page.next else { return pages };
        after = Some(next.to_string().parse().unwrap());
    }
}

/// All tasks, which pages of any size have in the same order.
fn listed(store: &Store, filter: impl Into<Filter>) -> Vec<(String, u64)> {
    let filter = filter.into();
    let all = pages(store, &filter, 1000).concat();
    for limit in [1, 2, 3] {
        assert_eq!(pages(store, &filter, limit).concat(), all, "in pages of {limit}");
    }
    all
}

fn of(tube: &Tube, ids: &[u64]) -> Vec<(String, u64)> {
    ids.iter().map(|id| (tube.name().to_owned(), *id)).collect()
}

#[test]
fn listing_of_all_tubes_goes_by_their_names_and_in_each_by_its_order() {
    for_each_driver(ALL, |case| {
        let [first, last] = others(case);
        assert_eq!(listed(&case.store, Filter::new()), []);
        let tubes = [&last, &case.tube, &first, &last, &case.tube];
        let ids = tubes.map(put);
        let buried = bury(&first, "g");
        let all = [of(&first, &[ids[2], buried]), of(&case.tube, &[ids[1], ids[4]])].concat();
        let all = [all, of(&last, &[ids[0], ids[3]])].concat();
        assert_eq!(listed(&case.store, Filter::new()), all);
        let backwards: Vec<_> = all.into_iter().rev().collect();
        assert_eq!(listed(&case.store, Filter::new().newest_first()), backwards);
        let page = block_on(case.store.to_async().list(Filter::new(), None, 3)).unwrap();
        assert_eq!(page, case.store.list(Filter::new(), None, 3).unwrap());
    });
}

#[test]
fn listing_of_all_tubes_has_the_tasks_of_a_state_a_group_an_owner() {
    for_each_driver(ALL, |case| {
        let [first, last] = others(case);
        let letters = [&last, &case.tube, &last].map(|tube| bury(tube, "g"));
        let other = bury(&case.tube, "other");
        let ready = [&first, &last].map(put);
        let of_group = [of(&case.tube, &letters[1..2]), of(&last, &[letters[0], letters[2]])];
        assert_eq!(listed(&case.store, Filter::new().group("g")), of_group.concat());
        let buried = listed(&case.store, TaskState::Buried);
        assert_eq!(buried.len(), 4);
        assert!(buried.contains(&(case.tube.name().to_owned(), other)), "{buried:?}");
        assert_eq!(
            listed(&case.store, TaskState::Ready),
            [of(&first, &ready[..1]), of(&last, &ready[1..])].concat()
        );
        let session = case.store.session("worker").unwrap();
        let claims =
            [&first, &last].map(|tube| session.tube(tube).unwrap().try_take().unwrap().unwrap());
        let taken = [of(&first, &ready[..1]), of(&last, &ready[1..])].concat();
        assert_eq!(listed(&case.store, TaskState::Taken), taken);
        assert_eq!(listed(&case.store, Filter::new().owner("worker")), taken);
        assert_eq!(listed(&case.store, Filter::new().owner("nobody")), []);
        drop(claims);
        assert_eq!(listed(&case.store, Filter::new().group("unknown")), []);
        assert_invalid(case.store.list(Filter::new().soonest_first(), None, 9));
    });
}

#[test]
fn cursor_of_all_tubes_is_valid_for_no_other_listing() {
    for_each_driver(&[FIFO], |case| {
        let [first, _] = others(case);
        put_each([&first, &first, &case.tube]);
        let store = &case.store;
        let next = |filter: Filter| store.list(filter, None, 1).unwrap().next;
        let of_all = next(Filter::new());
        assert_eq!(of_all.as_ref().unwrap().to_string().rsplit("~.").next(), Some("a"));
        assert_invalid(first.query().list(Filter::new(), of_all.clone(), 1));
        assert_invalid(store.list(Filter::new().tube("a"), of_all.clone(), 1));
        assert_invalid(store.list(TaskState::Buried, of_all.clone(), 1));
        assert_invalid(store.list(Filter::new().tag("t"), of_all, 1));
        assert_invalid(store.list(Filter::new(), next(Filter::new().tube("a")), 1));
        let empty = store.list(Filter::new(), None, 0).unwrap();
        assert!(empty.items.is_empty());
        assert_eq!(store.list(Filter::new(), empty.next, 9).unwrap().items.len(), 3);
        let page = store.list(Filter::new(), next(Filter::new()), 0).unwrap();
        assert_eq!(store.list(Filter::new(), page.next, 9).unwrap().items.len(), 2);
    });
}

/// The tube of the cursor may be gone, or another one has its name.
#[test]
fn pages_of_all_tubes_go_on_after_their_tube_was_dropped() {
    for_each_driver(ALL, |case| {
        let [first, last] = others(case);
        put_each([&first, &first]);
        let rest = [of(&case.tube, &[put(&case.tube)]), of(&last, &[put(&last)])].concat();
        let page = case.store.list(Filter::new(), None, 1).unwrap();
        let from = |after: Option<Cursor>| {
            let page = case.store.list(Filter::new(), after, 9).unwrap();
            assert_eq!(page.next, None);
            page.items.into_iter().map(|task| (task.tube, task.id)).collect::<Vec<_>>()
        };
        assert_eq!(from(page.next.clone()).len(), 3);
        case.store.drop_tube("a").unwrap();
        assert_eq!(from(page.next.clone()), rest);
        let again = case.store.create_tube("a", TubeOptions::new().driver(case.driver)).unwrap();
        let new = put(&again);
        assert_eq!(from(page.next), [of(&again, &[new]), rest].concat());
    });
}

/// A call looks at so many tubes, and at so many tasks.
#[test]
fn pages_of_all_tubes_end_early_and_miss_no_task() {
    for_each_driver(&[FIFO], |case| {
        let mut expected = Vec::new();
        for n in 0..2500 {
            let name = format!("t{n:04}");
            let options = TubeOptions::new().driver(case.driver);
            let tube = case.store.create_tube(&name, options).unwrap();
            if n % 800 == 799 {
                expected.push((name, put(&tube)));
            }
        }
        let many = case.store.tube("t1000").unwrap();
        let bodies = vec!["x"; 10_500];
        let ids: Vec<u64> = many.put_many(bodies).unwrap().iter().map(|put| put.id).collect();
        case.tube.admin().bury(put(&case.tube), None).unwrap();
        let ready = pages(&case.store, TaskState::Ready, 20_000);
        assert!(ready.len() > 2, "{}", ready.len());
        expected.splice(1..1, of(&many, &ids));
        assert_eq!(ready.concat(), expected);
        let buried = pages(&case.store, TaskState::Buried, 20_000);
        assert_eq!(buried.concat().len(), 1);
        assert_eq!(buried.len(), 3, "1000 tubes a call");
    });
}

#[test]
fn pages_of_all_tubes_go_on_after_a_kill() {
    let file = StoreFile::new();
    let (store, tube) = create(&file, FIFO);
    let other = store.create_tube("other", TubeOptions::new().driver(FIFO)).unwrap();
    put_each([&tube, &tube, &other]);
    let all = listed(&store, Filter::new());
    let page = store.list(Filter::new(), None, 1).unwrap();
    let (_killed, copy) = after_a_kill(&file);
    assert_eq!(listed(&copy, Filter::new()), all);
    let rest = copy.list(Filter::new(), page.next, 9).unwrap().items;
    assert_eq!(rest.iter().map(|task| task.id).collect::<Vec<_>>(), [all[1].1, all[2].1]);
}
