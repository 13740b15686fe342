//! Limits of sub-queues: the options of `create`, `set-limit`, `limits`, and `pause --sub-queue`.

use serde_json::{Value, json};

use crate::support::Sandbox;

const CRAWL: &str = "create crawl --driver utube --sub-queue-limit 2 --sub-queue-rate 5/1h";

fn limits(tube: &Value) -> [Value; 4] {
    ["sub_queue_limit", "sub_queue_rate", "sub_queue_cooldown", "shared_limits"]
        .map(|name| tube[name].clone())
}

#[test]
fn limits_are_set_shown_exported_and_imported() {
    let sandbox = Sandbox::empty();
    sandbox.ok(CRAWL);
    sandbox.ok(&format!("{CRAWL} --if-not-exists"));
    sandbox.ok("create jobs --driver utubettl --shared-limits");
    sandbox.ok("create plain");
    sandbox.ok("create slow --driver utube --sub-queue-cooldown 1500ms");
    assert_eq!(sandbox.ok("limits"), "no limits, and no paused sub-queues\n");
    assert_eq!(sandbox.ok("set-limit database 2"), "the limit of database is 2\n");
    assert_eq!(sandbox.json("set-limit disk 0"), [json!({"name": "disk", "most": 0})]);
    sandbox.ok("set-limit gone 1");
    assert_eq!(sandbox.ok("set-limit gone none"), "gone has no limit\n");
    sandbox.ok("put jobs x --sub-queue database");
    sandbox.ok("claim jobs");
    let paused = sandbox.ok("pause crawl --sub-queue example.org");
    assert_eq!(paused, "paused sub-queue example.org of crawl\n");
    sandbox.ok("pause crawl --sub-queue other --for 1h");
    sandbox.ok("unpause crawl --sub-queue other");

    let shown = sandbox.ok("tubes");
    assert!(shown.contains("sub-queue limit 2, sub-queue rate 5/1h"), "{shown}");
    assert!(shown.contains("shared limits"), "{shown}");
    assert!(shown.contains("sub-queue cooldown 1.5s"), "{shown}");
    let tubes = sandbox.json("tubes");
    assert_eq!(limits(&tubes[0]), [json!(2), json!("5/1h"), json!(null), json!(false)]);
    assert_eq!(limits(&tubes[1]), [json!(1), json!(null), json!(null), json!(true)]);
    assert_eq!(limits(&tubes[2]), [json!(1), json!(null), json!(null), json!(false)]);
    assert_eq!(limits(&tubes[3]), [json!(1), json!(null), json!(1.5), json!(false)]);
    let listed = [
        json!({"name": "database", "most": 2, "taken": 1}),
        json!({"name": "disk", "most": 0, "taken": 0}),
        json!({"tube": "crawl", "name": "example.org", "resumes_in": null}),
    ];
    assert_eq!(sandbox.json("limits"), listed);
    let table = sandbox.ok("limits");
    assert!(table.contains("database") && table.contains("example.org"), "{table}");

    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    assert_eq!(other.json("tubes"), sandbox.json("tubes"));
    assert_eq!(other.json("limits")[0], json!({"name": "database", "most": 2, "taken": 0}));
    assert_eq!(other.json("limits")[1..], listed[1..]);
    assert_eq!(other.run("export -").expect(0).out, lines);
    let text = String::from_utf8(lines).unwrap();
    let plain = text.lines().find(|line| line.contains("\"plain\"")).unwrap();
    for name in ["sub_queue", "shared_limits"] {
        assert!(!plain.contains(name), "{plain}");
    }
}

#[test]
fn paused_sub_queue_gives_no_task() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create crawl --driver utube");
    sandbox.ok("put crawl a --sub-queue x");
    sandbox.ok("put crawl b --sub-queue y");
    assert_eq!(
        sandbox.json("pause crawl --sub-queue x --for 1h"),
        [json!({"tube": "crawl", "sub_queue": "x", "paused": true, "resumes_in": 3600.0})]
    );
    assert_eq!(sandbox.ok("pop crawl"), "b");
    sandbox.fails("pop crawl", 3);
    let refused = sandbox.fails("claim crawl 0", 6);
    assert!(refused.contains("its sub-queue \"x\" is paused for"), "{refused}");
    let again = sandbox.ok("unpause crawl --sub-queue x");
    assert_eq!(again, "unpaused sub-queue x of crawl\n");
    assert_eq!(sandbox.ok("pop crawl"), "a");
}

#[test]
fn alter_changes_the_limits_of_sub_queues() {
    let sandbox = Sandbox::empty();
    sandbox.ok(CRAWL);
    let line = sandbox.ok("alter crawl --sub-queue-limit 3 --shared-limits");
    assert_eq!(line, "crawl: sub-queue limit 3, shared limits, sub-queue rate 5/1h\n");
    let line = sandbox.ok("alter crawl --shared-limits=false --sub-queue-limit 1");
    assert_eq!(line, "crawl: sub-queue rate 5/1h\n");
    let line = sandbox.ok("alter crawl --default sub-queue-rate --sub-queue-cooldown 2s");
    assert_eq!(line, "crawl: sub-queue cooldown 2s\n");
    let zero = sandbox.ok("alter crawl --sub-queue-cooldown 0s");
    sandbox.ok("alter crawl --sub-queue-cooldown 2s");
    assert_eq!(sandbox.ok("alter crawl --default sub-queue-cooldown"), zero);
    assert!(!zero.contains("cooldown"), "{zero}");
}

/// Without a process that serves the store each command opens it, and a cooldown begins with the open.
#[test]
fn pop_waits_for_the_cooldown_of_a_sub_queue() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create crawl --driver utube --sub-queue-cooldown 1h");
    sandbox.ok("put crawl a --sub-queue x");
    let refused = sandbox.fails("claim crawl 0", 6);
    assert!(refused.contains("the cooldown of its sub-queue \"x\" ends in"), "{refused}");
    let nothing = sandbox.fails("pop crawl", 3);
    assert!(nothing.contains("a cooldown of 1h"), "{nothing}");
    sandbox.ok("alter crawl --sub-queue-cooldown 100ms");
    assert_eq!(sandbox.ok("pop crawl --timeout 10m"), "a");
}

#[test]
fn wrong_limits_are_refused_and_say_what_is_expected() {
    let sandbox = Sandbox::with(&[]);
    for (words, why) in [
        ("create jobs --driver utube --sub-queue-limit 0", "a whole number from 1 on"),
        ("create jobs --sub-queue-limit 2", "--driver utube or utubettl"),
        ("alter mail --sub-queue-rate 1/1s", "--driver utube or utubettl"),
        ("alter mail --sub-queue-cooldown 1s", "--driver utube or utubettl"),
        ("create jobs --driver utube --sub-queue-cooldown 366d", "at most 365 days"),
        ("alter mail --shared-limits", "--driver utube or utubettl"),
        ("pause mail --sub-queue x", "--driver utube or utubettl"),
        ("set-limit database many", "a whole number, such as 2, or none"),
        ("set-limit database -1", "a whole number, such as 2, or none"),
    ] {
        let message = sandbox.fails(words, 2);
        assert!(message.contains(why), "{words}: {message}");
    }
}
