//! The dashboard in Chromium, by Playwright: each test serves a store, and lets a scenario of `scenarios.mjs` use it.
//!
//! They need Node.js, Chromium (`/usr/bin/chromium`, or `TUBEWELL_CHROMIUM`) and the npm packages playwright-core and
//! axe-core, in the folder that `TUBEWELL_NODE_MODULES` names. Where something is missing they are left out, and say so.
//! With `TUBEWELL_TOOLS=required` that is a failure.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod browser;
mod lasting;
#[path = "../http/tools.rs"]
#[allow(dead_code, reason = "the other test target uses the rest")]
mod tools;
mod work;

use std::time::Duration;

use tubewell::{Failure, Keep, Outcome, Put, Schedule, Store, TaskState, TubeOptions};
use tubewell_http::{HttpOptions, HttpServer, serve};

use browser::Browser;

const TOKEN: &str = "0123456789abcdef";
const HOUR: Duration = Duration::from_secs(3600);

/// A store in memory with tasks in all states.
fn filled() -> Store {
    let store = Store::in_memory().unwrap();
    let kept = TubeOptions::new().ttr(HOUR).keep_done(Keep::new()).history(20).metrics(7);
    let jobs = store.create_tube("jobs", kept.max_attempts(1)).unwrap();
    for number in 0..5 {
        jobs.put(Put::new(format!("{{\"number\": {number}}}")).tag("numbered")).unwrap();
    }
    jobs.take().unwrap().end(Outcome::result("{\"ok\": true}")).unwrap();
    let taken = jobs.take().unwrap();
    let _left_to_the_session = taken.detach();
    jobs.put(Put::new("later").delay(HOUR).key("later")).unwrap();
    let parent = jobs.put(Put::new("parent").priority(9)).unwrap().id;
    jobs.put(Put::new("child").after(&jobs, [parent]).key("child")).unwrap();
    jobs.schedule(Schedule::every("hourly", HOUR), "tick").unwrap();
    store.create_tube("other/ä b", TubeOptions::new()).unwrap();
    store
}

/// Buries tasks for two causes.
fn bury(store: &Store, count: u64) {
    let failed = store.create_tube("failed", TubeOptions::new()).unwrap();
    let tasks = (0..count).map(|number| format!("task {number}"));
    let receipts = failed.put_many(tasks).unwrap();
    for (number, receipt) in receipts.iter().enumerate() {
        let group = if number % 3 == 0 { "http 503" } else { "timeout" };
        failed.admin().bury(receipt.id, Failure::new(group, format!("why {number}"))).unwrap();
    }
}

fn served(store: &Store) -> (HttpServer, String) {
    served_with(store, |options| options)
}

fn served_with(
    store: &Store,
    change: impl FnOnce(HttpOptions) -> HttpOptions,
) -> (HttpServer, String) {
    let server = serve(store, change(HttpOptions::new("127.0.0.1:0"))).unwrap();
    let url = format!("http://{}/", server.address());
    (server, url)
}

fn count(store: &Store, tube: &str, state: TaskState) -> u64 {
    store.statistics().unwrap()[tube].tasks.of(state)
}

/// Runs a scenario on a store that has tasks of all kinds, with failures.
fn run_on_filled(scenario: &str) {
    let Some(browser) = Browser::new() else { return };
    let store = filled();
    bury(&store, 7);
    let (_server, url) = served(&store);
    browser.run(scenario, &url);
}

#[test]
fn each_page_opens_without_an_error() {
    run_on_filled("pages");
}

#[test]
fn task_is_found_by_a_key_of_digits_that_are_no_id() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let jobs = store.create_tube("jobs", TubeOptions::new()).unwrap();
    for key in ["00123", "7", "99999999999999999999999", "named"] {
        jobs.put(Put::new("x").key(key)).unwrap();
    }
    let (_server, url) = served(&store);
    browser.run("find", &url);
}

#[test]
fn no_page_is_wider_than_a_phone() {
    let Some(browser) = Browser::new() else { return };
    let store = filled();
    bury(&store, 7);
    let long = "x".repeat(400);
    let jobs = store.find_tube("jobs").unwrap();
    jobs.put(Put::new(long.clone()).key(&long[..200]).tag(&long[..60])).unwrap();
    let (_server, url) = served(&store);
    browser.run("narrow", &url);
}

#[test]
fn pages_use_the_width_of_a_large_screen() {
    run_on_filled("wide");
}

#[test]
fn page_works_without_a_pointer() {
    run_on_filled("keyboard");
}

#[test]
fn page_works_with_a_screen_reader() {
    let Some(browser) = Browser::new() else { return };
    let store = filled();
    bury(&store, 7);
    let (_server, url) = served(&store);
    browser.run("screen_reader", &url);
}

#[test]
fn actions_change_the_store() {
    let Some(browser) = Browser::new() else { return };
    let store = filled();
    bury(&store, 6);
    let (_server, url) = served(&store);
    browser.run("actions", &url);
    let jobs = store.find_tube("jobs").unwrap();
    assert!(!jobs.info().unwrap().paused);
    let put = store.by_key("put-by-hand").unwrap().unwrap();
    assert_eq!((put.priority, &put.tags[..]), (7, &["edited".to_owned()][..]));
    let task = jobs.query().task(put.id).unwrap();
    assert_eq!(&*task.body, b"{\"edited\": true}");
    let notes = jobs.query().history(put.id).unwrap();
    assert!(notes.iter().any(|entry| entry.text.as_deref() == Some("seen by an operator")));
    assert_eq!(count(&store, "failed", TaskState::Buried), 0);
    assert_eq!(count(&store, "failed", TaskState::Ready), 4);
    assert!(store.find_tube("made-by-hand").is_ok());
}

#[test]
fn change_of_all_that_match_is_done_in_steps_and_can_be_stopped() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    bury(&store, 3500);
    let (_server, url) = served(&store);
    browser.run("steps", &url);
    assert_eq!(count(&store, "failed", TaskState::Buried), 0);
    assert_eq!(count(&store, "failed", TaskState::Ready), 3500);
}

#[test]
fn text_of_a_task_is_never_markup() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let evil = "<script>window.hacked = 1</script><img src=x onerror=\"window.hacked = 1\">";
    let jobs = store.create_tube("<b>jobs</b>", TubeOptions::new().history(5)).unwrap();
    let id = jobs.put(Put::new(evil).key(evil).tag("<i>tag</i>")).unwrap().id;
    jobs.admin().bury(id, Failure::new("<u>group</u>", evil)).unwrap();
    let (_server, url) = served(&store);
    browser.run("markup", &url);
}

#[test]
fn page_of_a_task_with_a_deep_or_long_body_answers() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    let tube = store.create_tube("deep", TubeOptions::new()).unwrap();
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    let bodies = [
        ("deep", nested(2000)),
        ("deeper", nested(20_000)),
        ("long", format!("[{}0]", "[[[[[[[[[[[[[[[[0]]]]]]]]]]]]]]]],".repeat(7000))),
        ("shallow", r#"{"a": [], "b": {"c": [1, {}, "x: [,]\""]}, "d": [[1]]}"#.to_owned()),
    ];
    for (key, body) in bodies {
        tube.put(Put::new(body).key(key)).unwrap();
    }
    let (_server, url) = served(&store);
    browser.run("deep_bodies", &url);
}

#[test]
fn server_that_only_reads_offers_no_change() {
    let Some(browser) = Browser::new() else { return };
    let store = filled();
    bury(&store, 3);
    let (_server, url) = served_with(&store, |options| options.read_only(true));
    browser.run("read_only", &url);
    assert_eq!(count(&store, "failed", TaskState::Buried), 3);
}

#[test]
fn page_asks_for_the_token() {
    let Some(browser) = Browser::new() else { return };
    let store = filled();
    let (_server, url) = served_with(&store, |options| options.token(TOKEN));
    browser.run("token", &url);
}

#[test]
fn ten_thousand_tubes_are_shown_by_pages() {
    let Some(browser) = Browser::new() else { return };
    let store = Store::in_memory().unwrap();
    for number in 0..10_000 {
        store.create_tube(&format!("tube-{number:05}"), TubeOptions::new()).unwrap();
    }
    store.find_tube("tube-07777").unwrap().put("x").unwrap();
    let (_server, url) = served(&store);
    browser.run("many_tubes", &url);
}
