//! Texts that say what has happened, what is wrong, and what to do that works.

use serde_json::{Value, json};

use crate::support::{Sandbox, run};

/// The message of a command with these words, which may have spaces.
fn fails(sandbox: &Sandbox, words: &[&str], code: i32) -> String {
    run(sandbox.command(words), b"").expect(code).err
}

#[test]
fn put_that_keeps_a_buried_task_says_that_nothing_will_run() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("put mail a --key k");
    assert_eq!(
        sandbox.ok("put mail b --key k --on-key keep"),
        "kept task 0 (ready), which has the key: nothing was put\n"
    );
    assert_eq!(
        sandbox.json("put mail b --key k --on-key keep"),
        [json!({"id": 0, "tube": "mail", "state": "ready", "kept": true})]
    );
    assert_eq!(sandbox.ok("put mail b --key l --on-key keep"), "put task 1 (ready)\n");
    sandbox.ok("bury mail 0");
    for wait in ["", "--wait 1s", "--idempotency-key t"] {
        let message = sandbox.fails(&format!("put mail b --key k --on-key keep {wait}"), 6);
        let expected =
            "nothing was put, and nothing will run: task 0, which has the key \"k\", is buried";
        assert!(message.contains(expected), "{message}");
    }
    let object: Value =
        serde_json::from_str(&sandbox.fails("put mail b --key k --on-key keep --json", 6)).unwrap();
    assert_eq!(object["error"], "refused");
    // The hint works.
    sandbox.ok("kick mail 0");
    assert_eq!(sandbox.ok("pop mail"), "a");
}

#[test]
fn import_that_keeps_buried_tasks_says_that_nothing_will_run() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("put mail a --key k");
    let lines = b"{\"data\": \"b\", \"key\": \"k\"}\n{\"data\": \"c\"}\n";
    sandbox.feed("import mail --format json --on-key keep", lines).expect(0);
    sandbox.ok("bury mail 0");
    let ended = sandbox.feed("import mail --format json --on-key keep", lines).expect(7);
    assert!(ended.err.contains("of 1 line nothing was put, and nothing will run"), "{}", ended.err);
    assert_eq!(sandbox.counts(), (2, 0, 1));
}

#[test]
fn hints_of_a_key_in_use_work() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("schedule mail daily x --every 1d --starting 2100-01-01T00:00:00Z");
    for words in
        ["put mail y --key daily", "put mail y --key daily --on-key keep", "requeue mail daily y"]
    {
        let message = sandbox.fails(words, 6);
        assert!(message.contains("key \"daily\" is in use by a schedule, 0"), "{message}");
        assert!(message.contains("`tubewell unschedule daily` removes it"), "{message}");
        assert!(!message.contains("--on-key"), "{message}");
    }
    sandbox.ok("unschedule daily");
    sandbox.ok("put mail y --key daily");

    let key = "it's a key";
    fails(&sandbox, &["put", "mail", "z", "--key", key], 0);
    let message = fails(&sandbox, &["schedule", "mail", key, "x", "--every", "1d"], 6);
    assert!(message.contains("is in use by task 2, which is ready"), "{message}");
    assert!(!message.contains("--on-key") && !message.contains("replace"), "{message}");
    let (_, hint) = message.split_once('`').unwrap();
    let (command, _) = hint.split_once('`').unwrap();
    let shown = run(sandbox.shell("sh", command), b"").expect(0);
    assert!(shown.text().contains("task      2\n"), "{}", shown.text());
    let message = fails(&sandbox, &["put", "mail", "z", "--key", key], 6);
    assert!(message.contains("--on-key keep puts nothing"), "{message}");

    for command in ["reschedule mail daily --every 2d", "unschedule daily"] {
        let message = sandbox.fails(command, 6);
        assert!(
            message.contains("task 1, which is ready, has the key; it is no schedule"),
            "{message}"
        );
        assert!(!message.contains("deleted"), "{message}");
    }
}

#[test]
fn tube_with_other_options_names_the_option_that_changes_them() {
    let sandbox = Sandbox::with(&[]);
    let message = sandbox.fails("create mail --rate 5/1s", 6);
    assert!(message.contains("--if-not-exists gives it the options"), "{message}");
    sandbox.ok("create mail --if-not-exists --rate 5/1s");
    let message = sandbox.fails("create mail --if-not-exists --driver fifo", 6);
    assert!(message.contains("its driver is fifottl, not \"fifo\""), "{message}");
    assert!(message.contains("`tubewell alter` changes all but the driver"), "{message}");
}

#[test]
fn unpause_of_what_is_not_paused_reads_as_a_success() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create mail --driver utubettl");
    assert_eq!(sandbox.ok("unpause mail"), "tube mail was not paused: takes go on\n");
    sandbox.ok("pause mail");
    assert_eq!(sandbox.ok("unpause mail"), "unpaused tube mail\n");
    let words = "mail --sub-queue a";
    assert_eq!(
        sandbox.ok(&format!("unpause {words}")),
        "sub-queue a of mail was not paused: takes go on\n"
    );
    sandbox.ok(&format!("pause {words}"));
    assert_eq!(sandbox.ok(&format!("unpause {words}")), "unpaused sub-queue a of mail\n");
}

#[test]
fn refused_values_say_what_is_wrong() {
    let sandbox = Sandbox::with(&["a"]);
    for (words, what) in [
        (
            &["put", "mail", "x", "--priority", "high"][..],
            "whole number from 0, the most urgent, to 4294967295",
        ),
        (
            &["put", "mail", "x", "--priority", "-1"],
            "whole number from 0, the most urgent, to 4294967295",
        ),
        (
            &["update", "mail", "0", "--priority", "1.5"],
            "whole number from 0, the most urgent, to 4294967295",
        ),
        (&["put", "mail", "x", "--max-attempts", "0"], "whole number from 1 on"),
        (&["put", "mail", "x", "--max-attempts", "x"], "whole number from 1 on"),
        (&["create", "b", "--capacity", "x"], "whole number, such as 17"),
        (&["create", "b", "--history", "1001"], "whole number from 0 to 1000"),
        (&["create", "b", "--metrics", "x"], "whole number from 0 to 1000"),
        (&["work", "mail", "--jobs", "0", "--", "true"], "whole number from 1 to 1024"),
        (&["days", "mail", "--last", "x"], "whole number from 1 on"),
        (
            &["schedule", "mail", "k", "x", "--every", "1h", "--times", "0"],
            "whole number from 1 on",
        ),
        (&["put", "mail", "x", "--not-before", "2026-02-29"], "the month has no such day"),
        (&["put", "mail", "x", "--not-before", "2026-02-28"], "it has no time"),
        (&["schedule", "mail", "k", "x", "--cron", "0 0 * * L"], "write 5L for the last Friday"),
        (
            &["schedule", "mail", "k", "x", "--cron", "*/90 * * * *"],
            "\"*/90\" is larger than 0 to 59",
        ),
    ] {
        let message = fails(&sandbox, words, 2);
        assert!(message.contains(what), "{words:?}: {message}");
        assert!(!message.contains("invalid digit") && !message.contains("omponent"), "{message}");
    }
}

#[test]
fn taken_tasks_show_when_their_claims_expire() {
    let sandbox = Sandbox::with(&["a", "b"]);
    sandbox.ok("claim mail --for 2h");
    sandbox.ok("claim mail --for never");
    sandbox.ok("put mail c --delay 3h");
    let listed = sandbox.ok("list mail");
    assert!(listed.contains(" expires in 1h59m") && listed.contains(" ready in 2h59m"), "{listed}");
    assert!(!listed.contains(" ready in 1h59m") && !listed.contains("ready never"), "{listed}");
    let shown = sandbox.ok("peek mail 0");
    assert!(shown.contains("\nexpires   in 1h59m\n"), "{shown}");
    assert!(sandbox.ok("peek mail 2").contains("\nready     in 2h59m\n"));
}

#[test]
fn import_of_an_export_gives_defaults_to_what_a_line_leaves_out() {
    let sandbox = Sandbox::empty();
    let lines = br#"{"tube": "mail", "driver": "fifottl", "priority": 5, "ttl": 3600}
{"tube": "mail", "state": "ready", "ttl": null, "ttr": null, "delay": 0, "data": "a"}
{"tube": "mail", "data": "b"}
{"tube": "mail", "state": "ready", "priority": 7, "delay": null, "data": "c"}
"#;
    sandbox.feed("import --all", lines).expect(0);
    let tasks = sandbox.json("list mail");
    let fields: Vec<Value> = tasks
        .iter()
        .map(|task| {
            json!([task["data"], task["priority"], task["state"], task["ttl_left"].is_null()])
        })
        .collect();
    assert_eq!(
        fields,
        [
            json!(["a", 5, "ready", true]),
            json!(["b", 5, "ready", false]),
            json!(["c", 7, "delayed", true]),
        ]
    );
}
