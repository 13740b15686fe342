//! Calls of an operator on the tasks of all tubes: kicks, deletes, failure groups.

use std::thread;

use tubewell::{Error, FIFO, FIFOTTL, Failure, Filter, Put, Store, TaskState, Tube, TubeOptions};

use super::executor::{block_on, with_timeout};
use super::files::{after_a_kill, create};
use super::filter_uses::assert_uses;
use super::support::*;
use super::wait::on_disk;
use crate::stores;

fn select() -> Filter {
    Filter::new()
}

/// Tubes whose names come before and after that of the case.
fn others(case: &Case) -> [Tube; 2] {
    ["a", "z"]
        .map(|name| case.store.create_tube(name, TubeOptions::new().driver(case.driver)).unwrap())
}

fn put(tube: &Tube, put: Put<&str>) -> u64 {
    tube.put(put).unwrap().id
}

/// Puts a task with this tag, and buries it in this group.
fn bury(tube: &Tube, group: &str, tag: &str) -> u64 {
    let id = put(tube, Put::new("x").tag(tag));
    tube.claim(id).unwrap().bury(Failure::new(group, "message")).unwrap();
    id
}

fn buried(tube: &Tube) -> u64 {
    tube.statistics().unwrap().tasks.buried
}

fn total(tube: &Tube) -> u64 {
    tube.statistics().unwrap().tasks.total
}

fn assert_dependents(refused: tubewell::Result<u64>, of: u64) {
    assert!(matches!(refused, Err(Error::HasDependents { id, .. }) if id == of), "{refused:?}");
}

/// The bound of the ids was that of the moment at which the call came to a tube, and dependents had none.
#[test]
fn tasks_that_are_put_during_a_delete_over_all_tubes_stay() {
    with_timeout(|| {
        for driver in [FIFO, FIFOTTL] {
            let (disk, _clock, store, _) = on_disk(driver);
            let [first, last] = ["a", "z"]
                .map(|name| store.create_tube(name, TubeOptions::new().driver(driver)).unwrap());
            first.put_many((0..300).map(|_| Put::new("x").tag("t"))).unwrap();
            let parent = put(&last, Put::new("x").tag("t"));
            let deleting = store.clone();
            let delete = disk.block_flush_of(|| {
                thread::spawn(move || deleting.admin().delete(select().tag("t")))
            });
            let stays = last.to_async().put(Put::new("new").tag("t"));
            stores::settle(&store);
            disk.unblock_flushes();
            let stays = stays.wait().unwrap().id;
            assert_eq!(delete.join().unwrap(), Ok(301));
            assert_eq!((total(&first), total(&last)), (0, 1));
            assert!(last.query().task(parent).is_err() && last.query().task(stays).is_ok());
        }
    });
}

#[test]
fn kick_of_a_store_kicks_the_selected_tasks_of_all_or_of_named_tubes() {
    for_each_driver(ALL, |case| {
        let [first, last] = others(case);
        for tube in [&first, &case.tube, &last] {
            bury(tube, "g", "t");
            bury(tube, "other", "t");
            bury(tube, "other", "u");
        }
        let admin = case.store.admin();
        assert_eq!(admin.kick(select().group("unknown")), Ok(0));
        assert_eq!(admin.kick(select().group("g").tag("u")), Ok(0));
        assert_eq!(admin.kick(select().group("g")), Ok(3));
        assert_eq!([&first, &case.tube, &last].map(buried), [2, 2, 2]);
        assert_eq!(admin.kick(select().tube("z").tube("a").tag("u")), Ok(2));
        assert_eq!([&first, &case.tube, &last].map(buried), [1, 2, 1]);
        let later = case.store.to_async();
        assert_eq!(block_on(later.admin().kick(select().tag("t"))), Ok(3));
        assert_eq!(admin.kick(TaskState::Buried), Ok(1));
        assert_eq!(admin.kick(select()), Ok(0));
        assert_eq!(case.calls()["kick"], 3);
    });
}

#[test]
fn limit_of_a_call_on_a_store_holds_for_all_tubes_in_the_order_of_their_names() {
    for_each_driver(ALL, |case| {
        let [first, last] = others(case);
        let tubes = [&first, &case.tube, &last];
        for tube in tubes {
            bury(tube, "g", "t");
            bury(tube, "g", "t");
        }
        let admin = case.store.admin();
        assert_eq!(admin.kick(select().limit(0)), Ok(0));
        assert_eq!(admin.kick(select().limit(3)), Ok(3));
        assert_eq!(tubes.map(buried), [0, 1, 2]);
        assert_eq!(admin.delete(select().tag("t").limit(4)), Ok(4));
        assert_eq!(tubes.map(total), [0, 0, 2]);
    });
}

#[test]
fn groups_of_a_store_are_those_of_its_tubes() {
    for_each_driver(ALL, |case| {
        let [first, last] = others(case);
        assert!(case.store.admin().groups().unwrap().is_empty());
        bury(&first, "g", "t");
        bury(&last, "g", "t");
        bury(&last, "g", "t");
        bury(&last, "h", "t");
        let without = put(&case.tube, Put::new("x"));
        case.tube.admin().bury(without, None).unwrap();
        let all = case.store.admin().groups().unwrap();
        let shown = all.iter().flat_map(|(tube, groups)| {
            groups.iter().map(move |group| (tube.as_str(), group.name.as_str(), group.count))
        });
        assert_eq!(shown.collect::<Vec<_>>(), [("a", "g", 1), ("z", "g", 2), ("z", "h", 1)]);
        assert_eq!(block_on(case.store.to_async().admin().groups()).unwrap(), all);
    });
}

/// The parent is in the first tube or in the last one: whichever is asked first, both go together.
#[test]
fn delete_of_a_store_deletes_selected_tasks_that_wait_for_each_other_in_different_tubes() {
    for_each_driver(ALL, |case| {
        let [first, last] = others(case);
        for (from, to) in [(&first, &last), (&last, &first)] {
            let parent = put(from, Put::new("x").tag("t"));
            let child = put(&case.tube, Put::new("x").tag("t").after(from, [parent]));
            put(to, Put::new("x").tag("t").after(&case.tube, [child]));
            let stays = put(&case.tube, Put::new("x").tag("u"));
            assert_dependents(from.admin().delete(select().tag("t")), parent);
            assert_eq!(case.store.admin().delete(select().tag("t")), Ok(3));
            assert_eq!([&first, &case.tube, &last].map(total), [0, 1, 0]);
            assert_eq!(case.take(), Some(stays));
            case.tube.delete(stays).unwrap();
        }
    });
}

#[test]
fn delete_of_named_tubes_refuses_a_task_for_which_one_of_another_tube_waits() {
    for_each_driver(ALL, |case| {
        let [first, last] = others(case);
        put(&first, Put::new("x").tag("t"));
        let parent = put(&case.tube, Put::new("x").tag("t"));
        put(&last, Put::new("x").tag("t").after(&case.tube, [parent]));
        let named = select().tag("t").tube("case").tube("a");
        assert_dependents(case.store.admin().delete(named), parent);
        // The tube before it is done.
        assert_eq!([&first, &case.tube, &last].map(total), [0, 1, 1]);
        let by_state = select().state(TaskState::Ready);
        assert_dependents(case.store.admin().delete(by_state), parent);
        assert_eq!(case.store.admin().delete(select().tag("t").tube("z").tube("case")), Ok(2));
    });
}

#[test]
fn delete_of_a_store_by_a_filter_goes_on_over_the_steps_of_a_tube() {
    let (_file, store) = in_a_file();
    let (many, few) = (store.tube("a").unwrap(), store.tube("b").unwrap());
    let ids = many.put_many((0..1100).map(|_| Put::new("x").tag("t"))).unwrap();
    let child = |parent: u64| Put::new("x").tag("t").after(&many, [parent]);
    few.put_many(ids.iter().map(|parent| child(parent.id))).unwrap();
    assert_dependents(store.admin().delete(select().tag("t").limit(9)), ids[0].id);
    assert_eq!(store.admin().delete(select().tag("t").limit(9).tube("b")), Ok(9));
    assert_eq!(store.admin().delete(select().tag("t")), Ok(2191));
    assert_eq!([&many, &few].map(total), [0, 0]);
    assert_sound(&store);
}

fn in_a_file() -> (StoreFile, Store) {
    let file = StoreFile::new();
    let (store, _) = create(&file, tubewell::FIFOTTL);
    (file, store)
}

/// In one commit, although one waits for the other.
#[test]
fn chosen_tasks_of_several_tubes_are_deleted_with_one_commit() {
    let (file, store) = in_a_file();
    let (fetch, parse) = (store.tube("fetch").unwrap(), store.tube("parse").unwrap());
    let page = put(&fetch, Put::new("x"));
    let words = put(&parse, Put::new("x").after(&fetch, [page]));
    let count = put(&parse, Put::new("x").after(&parse, [words]));
    assert_dependents(store.admin().delete(select().ids([page, words])), words);
    assert_eq!([&fetch, &parse].map(total), [1, 2]);
    let commits = || store.admin().counters().unwrap().commits;
    let before = commits();
    assert_eq!(store.admin().delete(select().ids([count, page, words])), Ok(3));
    assert_eq!(commits() - before, 1);
    let (_killed, copy) = after_a_kill(&file);
    for name in ["fetch", "parse"] {
        assert_eq!(total(&copy.find_tube(name).unwrap()), 0);
    }
    assert_sound(&copy);
    assert_sound(&store);
}

#[test]
fn delete_of_chosen_tasks_skips_those_that_are_not_there_and_those_that_do_not_meet_the_filter() {
    for_each_driver(ALL, |case| {
        let [first, last] = others(case);
        let ids = [&first, &case.tube, &last].map(|tube| put(tube, Put::new("x").tag("t")));
        let plain = put(&first, Put::new("x"));
        let held = case.tube.claim(ids[1]).unwrap();
        let admin = case.store.admin();
        let chosen = || select().ids(ids).ids([plain, 4711]);
        assert_eq!(admin.delete(chosen().state(TaskState::Buried)), Ok(0));
        assert_eq!(admin.delete(chosen().state(TaskState::Taken)), Ok(1));
        assert_not_taken(held.ack(), ids[1]);
        assert_eq!(admin.delete(chosen().tube("z")), Ok(1));
        assert_eq!(admin.delete(chosen().tag("t")), Ok(1));
        assert_eq!(block_on(case.store.to_async().admin().delete(chosen())), Ok(1));
        assert_eq!(admin.delete(chosen()), Ok(0));
        assert_eq!(admin.delete(select().ids([0_u64; 0])), Ok(0));
        assert_eq!(case.calls()["delete"], 1);
    });
}

#[test]
fn delete_with_dependents_deletes_a_chain_through_tubes_or_nothing() {
    for_each_driver(ALL, |case| {
        let [first, last] = others(case);
        let root = put(&last, Put::new("x"));
        let middle = [&case.tube, &first].map(|tube| put(tube, Put::new("x").after(&last, [root])));
        let leaf = Put::new("x").after(&case.tube, [middle[0]]).after(&first, [middle[1]]);
        let leaf = put(&last, leaf);
        let apart = put(&last, Put::new("x"));
        let admin = case.store.admin();
        assert_dependents(admin.delete_with_dependents([root], 1), root);
        assert_dependents(admin.delete_with_dependents([root], 2), root);
        assert_dependents(admin.delete_with_dependents([root], 3), middle[0]);
        let invalid = admin.delete_with_dependents([root, apart], 1);
        assert!(matches!(invalid, Err(Error::Invalid { .. })), "{invalid:?}");
        assert_eq!([&first, &case.tube, &last].map(total), [1, 1, 3]);
        assert_eq!(admin.delete_with_dependents([middle[0]], 9), Ok(2));
        assert!(state(&last, leaf).is_none());
        let later = case.store.to_async();
        assert_eq!(block_on(later.admin().delete_with_dependents([root, 4711], 2)), Ok(2));
        assert_eq!(admin.delete_with_dependents([root], 9), Ok(0));
        assert_eq!(state(&last, apart), Some(TaskState::Ready));
    });
}

#[test]
fn tasks_of_a_temporary_tube_are_not_deleted_together_with_those_of_the_file() {
    for_each_driver(&[tubewell::FIFO], |case| {
        let options = TubeOptions::new().driver(case.driver).temporary(true);
        let temporary = case.store.create_tube("temporary", options).unwrap();
        let ids = [&temporary, &case.tube].map(|tube| put(tube, Put::new("x").tag("t")));
        for refused in [
            case.store.admin().delete(select().ids(ids)),
            case.store.admin().delete_with_dependents(ids, 9),
        ] {
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        }
        assert_eq!([&temporary, &case.tube].map(total), [1, 1]);
        assert_eq!(case.store.admin().delete(select().ids([ids[0]])), Ok(1));
        bury(&temporary, "g", "t");
        assert_eq!(case.store.admin().delete(select().tag("t")), Ok(2));
    });
}

#[test]
fn call_on_a_store_names_the_condition_that_it_does_not_use() {
    for_each_driver(&[tubewell::FIFO], |case| {
        let admin = case.store.admin();
        let used = ["tube", "state", "group", "tag", "limit"];
        assert_uses(&used, |filter| admin.delete(filter.group("g")));
        assert_uses(&used, |filter| admin.kick(filter));
        assert_uses(&["tube", "state", "group", "tag"], |filter| {
            let filter = if filter == select().state(TaskState::Buried) {
                filter
            } else {
                filter.group("g")
            };
            admin.delete(filter.ids([1]))
        });
        let many = admin.delete_with_dependents(0..10_001, 20_000);
        for refused in [
            admin.delete(select()),
            admin.delete(select().tube("case")),
            admin.delete(select().tag("a").tag("b")),
            admin.delete(select().ids(0..10_001)),
            admin.kick(TaskState::Ready),
            many,
        ] {
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        }
        let id = bury(&case.tube, "g", "t");
        for refused in [
            admin.kick(select().tube("case").tube("cases")),
            admin.delete(select().group("g").tube("case").tube("cases")),
            admin.delete(select().ids([id]).tube("case").tube("cases")),
        ] {
            assert!(matches!(refused, Err(Error::TubeNotFound { .. })), "{refused:?}");
        }
        assert_eq!(case.state(id), Some(TaskState::Buried));
    });
}
