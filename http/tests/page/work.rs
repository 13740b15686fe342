//! What an operator changes with the page, looked at in the store.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;
use tubewell::{Claim, Failure, Put, Schedule, Store, TaskState, Tube, TubeOptions};

use crate::browser::Browser;
use crate::{HOUR, TOKEN, count, served, served_with};

/// The tasks of a file that the page has exported, by their keys.
fn exported(path: &str) -> BTreeMap<String, Value> {
    let text = std::fs::read_to_string(path).unwrap();
    let tasks = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    tasks.map(|task| (task["key"].as_str().unwrap().to_owned(), task)).collect()
}

#[test]
fn export_has_the_selected_tasks_with_their_bodies() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("export", TubeOptions::new()).unwrap();
    // More than one page of a list, with bodies that are no text among them.
    for number in 0..230_u32 {
        let body = match number % 10 {
            3 => vec![0, 255, b'\n'],
            _ => format!("{{\"number\": 90071992547409{number:03}, \"line\": \"a\\nb ä\"}}").into(),
        };
        let tag = if number % 2 == 1 { "odd" } else { "even" };
        let put = Put::new(body).key(format!("key-{number:03}")).tag(tag).priority(number);
        tube.put(put).unwrap();
    }
    let all: Vec<String> = (0..230).map(|number| format!("key-{number:03}")).collect();
    let (_server, url) = served(&store);
    let mut exports = 0;
    browser.run_with("export_tasks", &url, |asked| {
        let (which, path) = asked.split_once(' ').unwrap();
        let found = exported(path);
        let wanted: Vec<&String> = match which {
            "all" => all.iter().collect(),
            "odd" => all.iter().skip(1).step_by(2).collect(),
            _ => vec![&all[1], &all[3]],
        };
        assert_eq!(found.keys().collect::<Vec<_>>(), wanted, "{which}");
        for (key, task) in found {
            assert_is_stored(&store, &key, &task);
        }
        exports += 1;
    });
    assert_eq!(exports, 3);
}

/// The task is in the store as the export has it.
fn assert_is_stored(store: &Store, key: &str, exported: &Value) {
    let stored = store.by_key(key).unwrap().unwrap();
    let tube: Tube = store.find_tube("export").unwrap();
    let body = tube.query().task(stored.id).unwrap().body;
    assert_eq!(exported["id"], stored.id);
    assert_eq!(exported["priority"], stored.priority);
    assert_eq!(exported["tags"][0], stored.tags[0]);
    match exported["data"].as_str() {
        Some(text) => assert_eq!(text.as_bytes(), &*body),
        None => {
            use base64::{Engine, engine::general_purpose::STANDARD};
            let text = exported["data_base64"].as_str().unwrap();
            assert_eq!(STANDARD.decode(text).unwrap(), *body);
        }
    }
}

#[test]
fn tasks_are_moved_alone_and_all_that_match() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let from = store.create_tube("from", TubeOptions::new()).unwrap();
    store.create_tube("to", TubeOptions::new()).unwrap();
    let others = (0..1190).map(|number| Put::new(format!("task {number}")));
    from.put_many(others).unwrap();
    from.put_many((0..10).map(|number| Put::new(format!("few {number}")).tag("few"))).unwrap();
    from.put(Put::new("later").delay(HOUR)).unwrap();
    let (_server, url) = served(&store);
    browser.run_with("move_tasks", &url, |asked| {
        let moved = if asked == "two are moved" { 2 } else { 12 };
        assert_eq!(count(&store, "to", TaskState::Ready), moved, "{asked}");
        assert_eq!(count(&store, "from", TaskState::Ready), 1200 - moved, "{asked}");
    });
    assert_eq!(count(&store, "to", TaskState::Ready), 1200);
    assert_eq!(count(&store, "from", TaskState::Ready), 0);
    assert_eq!(count(&store, "from", TaskState::Delayed), 1);
    let claims = store.find_tube("to").unwrap().take_many(1200, Duration::ZERO).unwrap();
    let few = claims.iter().filter(|claim: &&Claim| claim.body().starts_with(b"few")).count();
    assert_eq!(few, 10);
}

#[test]
fn all_tasks_of_a_sub_queue_are_changed_and_those_of_others_stay() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let jobs = store.create_tube("jobs", TubeOptions::new().driver("utubettl").ttr(HOUR)).unwrap();
    store.create_tube("to", TubeOptions::new().driver("utubettl")).unwrap();
    let put = |count: u64, name: &str| {
        jobs.put_many((0..count).map(|_| Put::new("x").sub_queue(name))).unwrap()
    };
    for name in ["of Release", "of Revoke", "taken"] {
        put(1, name);
        let _left_to_the_session = jobs.take().unwrap().detach();
    }
    for (count, name) in [(30, "of Kick"), (7, "buried")] {
        for receipt in put(count, name) {
            jobs.admin().bury(receipt.id, None).unwrap();
        }
    }
    for (count, name) in [(1050, "moved"), (20, "of Delete"), (5, "other")] {
        put(count, name);
    }
    let (_server, url) = served(&store);
    browser.run_with("all_of_a_sub_queue", &url, |asked| {
        assert_eq!(asked, "changed");
        assert_eq!(count(&store, "jobs", TaskState::Taken), 1);
        assert_eq!(count(&store, "jobs", TaskState::Buried), 7);
        // Those of another sub-queue, and what was kicked, released and revoked.
        assert_eq!(count(&store, "jobs", TaskState::Ready), 5 + 30 + 1 + 1);
        assert_eq!(count(&store, "to", TaskState::Ready), 1050);
    });
}

#[test]
fn all_tasks_that_match_are_buried_and_it_can_be_stopped() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let jobs = store.create_tube("jobs", TubeOptions::new()).unwrap();
    jobs.put_many((0..230).map(|number| format!("task {number}"))).unwrap();
    jobs.put(Put::new("later").delay(HOUR)).unwrap();
    let (_server, url) = served(&store);
    browser.run_with("bury_all", &url, |asked| {
        assert_eq!(asked, "stopped");
        // The calls that were under way may have been made.
        assert!((100..=106).contains(&count(&store, "jobs", TaskState::Buried)));
    });
    assert_eq!(count(&store, "jobs", TaskState::Buried), 230);
    assert_eq!(count(&store, "jobs", TaskState::Delayed), 1);
}

#[test]
fn tasks_of_an_owner_are_revoked_and_those_of_others_stay() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    for name in ["jobs", "more"] {
        let tube = store.create_tube(name, TubeOptions::new().ttr(HOUR).max_attempts(2)).unwrap();
        tube.put_many(["a", "b", "c"]).unwrap();
    }
    let (_server, url) = served(&store);
    browser.run_with("revoke_of_an_owner", &url, |asked| {
        assert_eq!(asked, "one owner is left");
        assert_eq!(count(&store, "jobs", TaskState::Taken), 1);
        assert_eq!(count(&store, "more", TaskState::Taken), 0);
    });
    let jobs: Tube = store.find_tube("jobs").unwrap();
    assert_eq!(count(&store, "jobs", TaskState::Ready), 3);
    // A revoke does not count the attempt.
    assert_eq!(jobs.try_take().unwrap().unwrap().attempt(), 1);
}

#[test]
fn revoke_of_an_owner_is_for_tasks_that_the_page_does_not_show_too() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    for (name, tasks) in [("jobs", 3), ("more", 1200)] {
        let tube = store.create_tube(name, TubeOptions::new()).unwrap();
        tube.put_many((0..tasks).map(|number| format!("task {number}"))).unwrap();
    }
    let (_server, url) = served(&store);
    browser.run("revoke_of_a_busy_owner", &url);
    assert_eq!(count(&store, "jobs", TaskState::Taken), 1);
    assert_eq!(count(&store, "more", TaskState::Ready), 1200);
}

#[test]
fn schedules_are_created_edited_run_and_removed() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let jobs = store.create_tube("jobs", TubeOptions::new()).unwrap();
    jobs.schedule(Schedule::every("hourly", HOUR), "tick").unwrap();
    jobs.take().unwrap().ack().unwrap();
    let (_server, url) = served(&store);
    browser.run_with("schedules", &url, |asked| {
        let schedule = store.schedule("nightly").unwrap().unwrap();
        let recurrence = format!("{:?}", schedule.recurrence);
        match asked {
            "created" => {
                assert!(recurrence.contains("30 3 * * *"), "{recurrence}");
                assert_eq!(
                    (schedule.times, &schedule.tags[..]),
                    (None, &["night".into(), "batch".into()][..])
                );
            }
            "edited" => {
                assert!(recurrence.contains("0 4 * * *"), "{recurrence}");
                assert!(recurrence.contains("Europe/Berlin"), "{recurrence}");
                assert_eq!(schedule.times, Some(7));
            }
            _ => {
                let put = jobs.try_take().unwrap().unwrap();
                assert_eq!(put.body(), b"{\"made\": false}");
                put.ack().unwrap();
            }
        }
    });
    assert!(store.schedule("nightly").unwrap().is_none());
    assert!(store.schedule("hourly").unwrap().is_some());
}

#[test]
fn schedules_that_are_not_listed_are_said_and_read() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    for (name, schedules) in [("a", 505), ("b", 2)] {
        let tube = store.create_tube(name, TubeOptions::new()).unwrap();
        for number in 0..schedules {
            tube.schedule(Schedule::every(format!("{name}-{number}"), HOUR), "tick").unwrap();
        }
    }
    let (_server, url) = served(&store);
    browser.run("many_schedules", &url);
}

#[test]
fn failure_group_has_a_first_task_if_a_later_tube_has_none_any_more() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    for (name, tasks) in [("many", 3), ("few", 1)] {
        let tube = store.create_tube(name, TubeOptions::new()).unwrap();
        for number in 0..tasks {
            let id = tube.put(format!("task {number}")).unwrap().id;
            tube.admin().bury(id, Failure::new("timeout", "no answer")).unwrap();
        }
    }
    let (_server, url) = served(&store);
    browser.run("sample_of_a_group", &url);
}

/// A backup that the page has downloaded is a store with the same tasks.
fn assert_is_backup(asked: &str) {
    let path = asked.strip_prefix("backup ").unwrap();
    let copy = tempfile::tempdir().unwrap();
    let copy = copy.path().join("copy.tubewell");
    std::fs::copy(path, &copy).unwrap();
    let store = Store::open(&copy).unwrap();
    assert_eq!(count(&store, "jobs", TaskState::Ready), 3);
    let task = store.by_key("kept").unwrap().unwrap();
    let jobs: Tube = store.find_tube("jobs").unwrap();
    assert_eq!(&*jobs.query().task(task.id).unwrap().body, b"a body");
}

fn with_three_tasks(folder: &std::path::Path) -> Store {
    let store = Store::open(folder.join("jobs.tubewell")).unwrap();
    let jobs = store.create_tube("jobs", TubeOptions::new()).unwrap();
    jobs.put_many(["a", "b"]).unwrap();
    jobs.put(Put::new("a body").key("kept")).unwrap();
    store
}

#[test]
fn store_is_verified_and_backed_up() {
    let Some(browser) = Browser::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = with_three_tasks(folder.path());
    let (_server, url) = served(&store);
    browser.run_with("check_and_backup", &url, assert_is_backup);
}

#[test]
fn backup_is_downloaded_with_the_token() {
    let Some(browser) = Browser::new() else { return };
    let folder = tempfile::tempdir().unwrap();
    let store = with_three_tasks(folder.path());
    let (_server, url) = served_with(&store, |options| options.token(TOKEN));
    browser.run_with("backup_with_a_token", &url, assert_is_backup);
}

#[test]
fn options_of_a_tube_are_set_and_removed() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let options = TubeOptions::new().driver("limfifottl").max_attempts(4);
    let jobs = store.create_tube("jobs", options).unwrap();
    let (_server, url) = served(&store);
    let five_minutes = Duration::from_secs(300);
    browser.run_with("options_of_a_tube", &url, |asked| {
        assert_eq!(asked, "set");
        let info = jobs.info().unwrap();
        assert_eq!((info.ttr, info.capacity, info.max_taken), (Some(five_minutes), 100, Some(3)));
        assert!(info.rate.is_some());
    });
    let info = jobs.info().unwrap();
    assert_eq!((info.ttr, info.capacity, info.max_taken), (Some(five_minutes), 0, None));
    assert_eq!((info.rate, info.max_attempts), (None, Some(4)));
}

#[test]
fn tubes_and_sub_queues_are_paused_and_resumed() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let jobs = store.create_tube("jobs", TubeOptions::new().driver("utubettl")).unwrap();
    jobs.put(Put::new("a").sub_queue("host-a")).unwrap();
    jobs.put(Put::new("b").sub_queue("host-b")).unwrap();
    let (_server, url) = served(&store);
    let paused = || jobs.query().paused_sub_queues().unwrap();
    browser.run_with("pauses", &url, |asked| match asked {
        "tube is paused" => assert!(jobs.info().unwrap().paused),
        "sub-queue is paused" => {
            assert!(!jobs.info().unwrap().paused);
            assert_eq!(paused().len(), 1);
            assert_eq!(paused()[0].name, "host-a");
            assert!(paused()[0].resumes_in.is_some_and(|left| left <= Duration::from_secs(600)));
        }
        _ => assert_eq!(paused().len(), 0),
    });
    assert_eq!(paused().len(), 0);
}

#[test]
fn one_task_is_kicked_buried_cancelled_deleted_released_and_put_again() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let options = TubeOptions::new().driver("utubettl").ttr(HOUR).history(20);
    let jobs = store.create_tube("jobs", options).unwrap();
    jobs.put(Put::new("t").key("taken")).unwrap();
    let _left_to_the_session = jobs.take().unwrap().detach();
    jobs.put(Put::new("d").key("delayed").delay(HOUR)).unwrap();
    jobs.put(Put::new("c").key("cancelled")).unwrap();
    jobs.put(Put::new("x").key("deleted")).unwrap();
    jobs.put(Put::new("like this").key("model").tag("a").tag("b").priority(9).sub_queue("s"))
        .unwrap();
    jobs.put(Put::new(&b"\x00\xff"[..]).key("bytes")).unwrap();
    let (_server, url) = served(&store);
    browser.run("one_task", &url);
    let by_key = |key: &str| store.by_key(key).unwrap();
    assert_eq!(by_key("delayed").unwrap().state, TaskState::Ready);
    assert_eq!(by_key("taken").unwrap().state, TaskState::Ready);
    assert!(by_key("cancelled").is_none() && by_key("deleted").is_none());
    let (model, copy) = (by_key("model").unwrap(), by_key("copy").unwrap());
    assert_eq!(
        (&copy.tags, copy.priority, &copy.sub_queue),
        (&model.tags, model.priority, &model.sub_queue)
    );
    let body = |key: &str| jobs.query().task(by_key(key).unwrap().id).unwrap().body;
    assert_eq!(&*body("copy"), b"like this");
    assert_eq!(&*body("copied-bytes"), b"\x00\xff");
}
