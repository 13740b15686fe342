//! Failure groups: failed, their counts and pages, and unfail.

use tubewell::driver::{FIFO, UTUBE};
use tubewell::expert::Restore;
use tubewell::{
    Cursor, Ending, Error, Failure, Filter, Keep, Page, Put, Store, TaskInfo, TaskState, Tube,
    TubeOptions,
};

use super::files::{after_a_kill, create, draft, groups};
use super::support::*;
use crate::stores;

fn group(name: &str, count: u64) -> (String, u64) {
    (name.to_owned(), count)
}

fn ids(page: &Page<TaskInfo>) -> Vec<u64> {
    page.items.iter().map(|task| task.id).collect()
}

fn bury_next(tube: &Tube, group: &str) -> u64 {
    let claim = tube.try_take().unwrap().unwrap();
    claim.bury(Failure::new(group, "why")).unwrap().id
}

/// The pages of a group, each of at most `limit` tasks.
fn pages(tube: &Tube, group: &str, limit: usize) -> Vec<Vec<u64>> {
    let (mut pages, mut cursor) = (Vec::new(), None::<Cursor>);
    loop {
        let page =
            tube.query().list(Filter::new().group(group).newest_first(), cursor, limit).unwrap();
        pages.push(ids(&page));
        cursor = page.next;
        if cursor.is_none() {
            return pages;
        }
    }
}

/// Q110, B006
/// Difference: the failed take counts as an attempt, also if the task is buried before its last.
#[test]
fn failed_task_has_its_failure_and_no_owner() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(5), |case| {
        case.put_all([0]);
        let worker = case.store.session("worker").unwrap();
        let claim = worker.tube(&case.tube).unwrap().try_take().unwrap().unwrap();
        case.advance(2_000);
        assert_eq!(claim.bury(Failure::new("g", "m")).unwrap().state, TaskState::Buried);
        case.advance(3_000);
        let info = case.info(0);
        let failure = info.failure.unwrap();
        assert_eq!((failure.group.as_str(), failure.message.as_str()), ("g", "m"));
        assert_eq!((failure.attempt, failure.ago), (1, secs(3)));
        assert_eq!(failure.owner.as_deref(), Some("worker"));
        assert_eq!(
            (info.state, info.attempts, info.attempts_left),
            (TaskState::Buried, 1, Some(4))
        );
        assert_eq!(case.tube.query().owner(0), Ok(None));
        assert_eq!(groups(&case.tube), [group("g", 1)]);
        assert_eq!(case.tasks(), counts([("buried", 1), ("total", 1)]));
        // It failed, so it has no result.
        let ending = case.tube.ending(0).unwrap();
        let Some(Ending::Buried { failure: Some(last) }) = ending else { panic!("{ending:?}") };
        assert_eq!((last.group.as_str(), last.message.as_str()), ("g", "m"));
    });
}

/// Q114
#[test]
fn failure_without_message_is_listed_in_its_group() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        let claim = case.tube.try_take().unwrap().unwrap();
        claim.bury(Failure::new("g", "")).unwrap();
        assert_eq!(groups(&case.tube), [group("g", 1)]);
        let page =
            case.tube.query().list(Filter::new().group("g").newest_first(), None, 10).unwrap();
        assert_eq!((ids(&page), page.next), (vec![0], None));
        assert_eq!(page.items[0].failure.as_ref().unwrap().message, "");
    });
}

/// Q115
#[test]
fn group_is_listed_newest_first_in_contiguous_pages() {
    for_each_driver(ALL, |case| {
        for id in 0..100 {
            case.put("x");
            assert_eq!(bury_next(&case.tube, "g"), id);
            // Tasks of one moment are in the order of their ids.
            case.advance(id % 2);
        }
        assert_eq!(groups(&case.tube), [group("g", 100)]);
        let newest_first: Vec<u64> = (0..100).rev().collect();
        assert_eq!(pages(&case.tube, "g", 50).concat(), newest_first);
        assert_eq!(pages(&case.tube, "g", 7).concat(), newest_first);
        assert_eq!(pages(&case.tube, "g", 1000), [newest_first]);
    });
}

/// Q116
/// Difference: pages begin at a cursor, and a cursor of ready tasks is refused.
#[test]
fn group_listing_refuses_foreign_cursor_and_unknown_group_is_empty() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        case.advance(1);
        bury_next(&case.tube, "g");
        let ready = case.tube.query().list(TaskState::Ready, None, 1).unwrap().next;
        assert!(ready.is_some());
        let refused = case.tube.query().list(Filter::new().group("g").newest_first(), ready, 10);
        assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
        for unknown in ["", "h", "gg", &"x".repeat(70_000)] {
            assert_eq!(
                case.tube.query().list(Filter::new().group(unknown).newest_first(), None, 10),
                Ok(Page::default())
            );
        }
    });
}

/// The rest of the tasks would otherwise be left out, or be listed again.
#[test]
fn cursors_of_groups_and_of_buried_tasks_are_not_exchanged() {
    for keep in [None, Some(Keep::new().count(9))] {
        let options = keep.into_iter().fold(TubeOptions::new(), TubeOptions::keep_buried);
        for_each_driver_with(ALL, options, |case| {
            case.put_all([0, 1, 2, 3]);
            for name in ["a", "b", "a", "b"] {
                bury_next(&case.tube, name);
                case.advance(1);
            }
            let by_text =
                |page: Page<TaskInfo>| page.next.unwrap().to_string().parse::<Cursor>().unwrap();
            let list = |after, limit| case.tube.query().list(TaskState::Buried, after, limit);
            let list_group = |name, after, limit| {
                case.tube.query().list(Filter::new().group(name).newest_first(), after, limit)
            };
            let buried = by_text(list(None, 1).unwrap());
            let of_a = by_text(list_group("a", None, 1).unwrap());
            let of_b = by_text(list_group("b", None, 1).unwrap());
            for limit in [0, 9] {
                for (refused, name) in [
                    (list(Some(of_a.clone()), limit), "buried tasks"),
                    (list_group("a", Some(buried.clone()), limit), "failure group \"a\""),
                    (list_group("a", Some(of_b.clone()), limit), "failure group \"a\""),
                    (list_group("b", Some(of_a.clone()), limit), "failure group \"b\""),
                    (list_group("", Some(of_a.clone()), limit), "failure group \"\""),
                ] {
                    let why = format!(
                        "the cursor is not of a page of {name}; list again from the first page"
                    );
                    assert_eq!(refused, Err(Error::Invalid { what: why }));
                }
            }
            assert_eq!(ids(&list(Some(buried.clone()), 9).unwrap()), [1, 2, 3]);
            assert_eq!(ids(&list_group("a", Some(of_a.clone()), 9).unwrap()), [0]);
            assert_eq!(ids(&list_group("b", Some(of_b.clone()), 9).unwrap()), [1]);
        });
    }
}

/// A page without tasks is followed by the one that was asked for, as in other listings.
#[test]
fn group_page_with_limit_zero_begins_where_the_next_page_does() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2]);
        for _ in 0..3 {
            bury_next(&case.tube, "g");
            case.advance(1);
        }
        let list = |cursor, limit| {
            case.tube.query().list(Filter::new().group("g").newest_first(), cursor, limit).unwrap()
        };
        let start = list(None, 0);
        assert_eq!(ids(&start), [0_u64; 0]);
        assert!(start.next.is_some());
        let again = list(start.next, 0);
        let first = list(again.next, 2);
        assert_eq!(ids(&first), [2, 1]);
        let between = list(first.next, 0);
        assert_eq!((ids(&list(between.next.clone(), 2)), ids(&between)), (vec![0], vec![]));
    });
}

/// Q118
/// Difference: a kick is for all buried tasks of the tube.
#[test]
fn kick_of_all_failed_tasks_removes_their_groups() {
    for_each_driver(ALL, |case| {
        for n in 0..10 {
            case.put("x");
            bury_next(&case.tube, if n % 2 == 0 { "even" } else { "odd" });
        }
        assert_eq!(groups(&case.tube), [group("even", 5), group("odd", 5)]);
        assert_eq!(case.tube.admin().kick(Filter::new().limit(100)), Ok(10));
        assert_eq!(groups(&case.tube), []);
        assert_eq!(case.tasks(), counts([("ready", 10), ("total", 10)]));
        // The cause outlives the kick.
        assert_eq!(case.info(3).failure.unwrap().group, "odd");
        assert_eq!(case.take_all().len(), 10);
    });
}

/// Q119
#[test]
fn kick_takes_the_oldest_failed_tasks_and_leaves_the_others_in_their_group() {
    for options in [TubeOptions::new(), TubeOptions::new().keep_buried(Keep::new().count(9))] {
        for_each_driver_with(ALL, options, |case| {
            case.put_all([0, 1, 2, 3]);
            for _ in 0..4 {
                bury_next(&case.tube, "g");
                case.advance(1);
            }
            assert_eq!(case.tube.admin().kick(Filter::new().limit(2)), Ok(2));
            assert_eq!(ids(&case.tube.query().list(TaskState::Ready, None, 9).unwrap()), [0, 1]);
            assert_eq!(
                ids(&case
                    .tube
                    .query()
                    .list(Filter::new().group("g").newest_first(), None, 9)
                    .unwrap()),
                [3, 2]
            );
            assert_eq!(groups(&case.tube), [group("g", 2)]);
        });
    }
}

/// Q120
#[test]
fn kick_without_failed_tasks_kicks_none() {
    for_each_driver(ALL, |case| {
        case.put_all([0]);
        assert_eq!(case.tube.admin().kick(Filter::new().limit(100)), Ok(0));
        assert_eq!(groups(&case.tube), []);
        assert_eq!(case.calls().get("kick"), None);
        assert_eq!(case.state(0), Some(TaskState::Ready));
    });
}

/// Q098
#[test]
fn delete_of_task_that_has_no_attempt_left_empties_its_group() {
    for_each_driver_with(ALL, TubeOptions::new().max_attempts(1), |case| {
        case.put_all([0]);
        let released = case.tube.try_take().unwrap().unwrap();
        assert_eq!(released.release().unwrap().state, TaskState::Buried);
        assert_eq!(groups(&case.tube), [group("released", 1)]);
        let mut deleted = vec![0];
        if case.timed() {
            let id = case.add(case.draft("x").ttr(secs(1)));
            assert_eq!(case.take(), Some(id));
            case.advance(1_000);
            assert_eq!(case.take(), None);
            assert_eq!(groups(&case.tube), [group("expired", 1), group("released", 1)]);
            deleted.push(id);
        }
        for id in deleted {
            case.tube.delete(id).unwrap();
            assert_not_found(case.tube.query().task(id), id);
        }
        assert_eq!(groups(&case.tube), []);
    });
}

#[test]
fn names_of_groups_have_1_to_255_bytes_and_do_not_mix() {
    let long = "x".repeat(255);
    let prefix = "x".repeat(254);
    let names = ["a", "a\0", "a\0\0", "aa", "\u{10ffff}", "\0", &long, &prefix];
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        for (name, copies) in names.iter().zip(1..) {
            for n in 0..copies {
                tube.put(draft(driver, &format!("{copies} {n}"))).unwrap();
                bury_next(&tube, name);
            }
        }
        for bad in [String::new(), "x".repeat(256)] {
            tube.put(draft(driver, "bad")).unwrap();
            let claim = tube.try_take().unwrap().unwrap();
            let refused =
                tube.claimed(claim.id()).and_then(|claim| claim.bury(Failure::new(&*bad, "m")));
            assert!(matches!(refused, Err(Error::Invalid { .. })), "{refused:?}");
            claim.ack().unwrap();
        }
        let mut expected: Vec<_> =
            names.iter().zip(1..).map(|(name, copies)| group(name, copies)).collect();
        expected.sort();
        let store = file.reopen(store);
        let tube = store.find_tube("case").unwrap();
        assert_eq!(groups(&tube), expected);
        for (name, count) in expected {
            assert_eq!(pages(&tube, &name, 2).concat().len() as u64, count, "{name:?}");
        }
        assert_eq!(tube.admin().kick(Filter::new().limit(1000)), Ok(36));
        assert_eq!(groups(&tube), []);
        assert_sound(&store);
    }
}

#[test]
fn group_pages_skip_tasks_that_are_kicked_between_them() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1, 2, 3, 4, 5, 6, 7]);
        for _ in 0..8 {
            bury_next(&case.tube, "g");
            case.advance(1);
        }
        let first =
            case.tube.query().list(Filter::new().group("g").newest_first(), None, 2).unwrap();
        assert_eq!(ids(&first), [7, 6]);
        // The task of the cursor, and tasks of the next page.
        for id in [6, 5, 3] {
            case.tube.kick(id).unwrap();
        }
        let second =
            case.tube.query().list(Filter::new().group("g").newest_first(), first.next, 2).unwrap();
        assert_eq!(ids(&second), [4, 2]);
        // It fails again: it is newer than the cursor now.
        let claim = case.tube.claim(5).unwrap();
        claim.bury(Failure::new("g", "again")).unwrap();
        case.tube.delete(1).unwrap();
        let third = case
            .tube
            .query()
            .list(Filter::new().group("g").newest_first(), second.next, 2)
            .unwrap();
        assert_eq!((ids(&third), third.next), (vec![0], None));
        assert_eq!(pages(&case.tube, "g", 2).concat(), [5, 7, 4, 2, 0]);
        assert_eq!(groups(&case.tube), [group("g", 5)]);
    });
}

#[test]
fn task_changes_its_group_with_each_failure() {
    for_each_driver(ALL, |case| {
        case.put_all([0, 1]);
        for name in ["a", "b", "a"] {
            assert_eq!(bury_next(&case.tube, name), 0);
            assert_eq!(groups(&case.tube), [group(name, 1)]);
            case.tube.admin().kick(Filter::new().limit(1)).unwrap();
            assert_eq!(groups(&case.tube), []);
        }
        bury_next(&case.tube, "a");
        // Buried already: it stays in its group.
        assert_eq!(case.tube.admin().bury(0, None).unwrap().state, TaskState::Buried);
        assert_eq!(groups(&case.tube), [group("a", 1)]);
        // Buried without a failure: it is in no group, and its last failure is still known.
        case.tube.admin().kick(Filter::new().limit(1)).unwrap();
        case.tube.admin().bury(0, None).unwrap();
        assert_eq!(groups(&case.tube), []);
        assert_eq!(case.info(0).failure.unwrap().group, "a");
    });
}

#[test]
fn groups_survive_kill_backup_and_compaction_and_end_with_truncate() {
    for driver in ALL {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        for name in ["a", "b", "a"] {
            tube.put(draft(driver, "x")).unwrap();
            bury_next(&tube, name);
        }
        let expected = [group("a", 2), group("b", 1)];
        let assert_groups = |store: &Store| {
            let tube = store.find_tube("case").unwrap();
            assert_eq!(groups(&tube), expected);
            assert_eq!(pages(&tube, "a", 1).concat(), [2, 0]);
            assert_sound(store);
        };
        let (killed_file, killed) = after_a_kill(&file);
        assert_groups(&killed);
        stores::close(&killed);
        drop(killed);
        Store::options().clock(&file.clock).compact(killed_file.path(), |_, _| {}).unwrap();
        assert_groups(&stores::open_with(killed_file.path(), Store::options().clock(&file.clock)));
        let copy = StoreFile::new();
        store.admin().backup(copy.path()).unwrap();
        assert_groups(&stores::open_with(copy.path(), Store::options().clock(&file.clock)));
        tube.admin().truncate().unwrap();
        assert_eq!(groups(&tube), []);
        assert_eq!(pages(&tube, "a", 1).concat(), [0_u64; 0]);
        tube.put(draft(driver, "x")).unwrap();
        bury_next(&tube, "b");
        assert_eq!(groups(&tube), [group("b", 1)]);
        store.drop_tube("case").unwrap();
        store.flush().unwrap();
        assert_sound(&file.reopen(store));
    }
}

#[test]
fn restored_buried_task_is_in_no_group() {
    for driver in [FIFO, UTUBE] {
        let file = StoreFile::new();
        let (store, tube) = create(&file, driver);
        tube.admin().restore_many([Restore::new(Put::new("x")).buried(true)]).unwrap();
        assert_eq!(groups(&tube), []);
        assert_eq!(tube.admin().kick(Filter::new().limit(1)), Ok(1));
        assert_sound(&store);
    }
}
