//! The commands, as text and as JSON.

use std::time::Duration;

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::served::serve;
use crate::support::{Sandbox, run};

#[test]
fn create_creates_the_store_and_tubes() {
    let sandbox = Sandbox::empty();
    let text = sandbox.ok("create mail --ttl 2h --ttr 1.5s --priority 7");
    assert!(text.contains("created store"), "{text}");
    assert!(text.contains("created tube mail (fifottl)"), "{text}");
    let made = sandbox.json("create up --driver limfifottl --capacity 3");
    assert_eq!(
        made,
        [json!({
            "tube": "up", "driver": "limfifottl", "tube_created": true, "store_created": false,
        })]
    );
    assert!(sandbox.fails("create mail", 6).contains("already exists"));
    let text = sandbox.ok("create mail --if-not-exists --ttl 2h --ttr 1.5s --priority 7");
    assert_eq!(text, "tube mail (fifottl) has these options\n");
    let same = sandbox.json("create up --driver limfifottl --capacity 3 --if-not-exists");
    assert_eq!(same[0]["tube_created"], false);
    let text = sandbox.ok("create mail --if-not-exists");
    assert_eq!(text, "tube mail (fifottl) already exists\n");
    assert!(sandbox.fails("create up --if-not-exists --driver fifo", 6).contains("its driver is"));

    let shown = sandbox.ok("tubes");
    assert!(shown.contains("ttl 2h, ttr 1.5s, priority 7"), "{shown}");
    assert!(shown.contains("capacity 3"), "{shown}");
    assert_eq!(
        sandbox.json("tubes")[0],
        json!({
            "tube": "mail", "driver": "fifottl", "usable": true, "temporary": false,
            "durability": null, "capacity": 0, "ttl": 7200.0, "ttr": 1.5, "priority": 7,
            "max_runtime": null, "max_attempts": null, "count_takes": "written", "backoff": "none",
            "reclaim_delay": null, "keep_done": null, "keep_buried": null, "history": 0, "max_taken": null,
            "rate": null, "sub_queue_limit": 1, "sub_queue_rate": null, "sub_queue_cooldown": null,
            "shared_limits": false, "metrics": 0,
            "paused": false, "resumes_in": null, "total": 0, "kept": 0,
        })
    );
}

#[test]
fn create_that_fails_leaves_no_store() {
    let sandbox = Sandbox::empty();
    assert!(sandbox.fails("create mail --driver fif", 2).contains("fifottl"));
    assert!(sandbox.fails("create mail --capacity 3", 2).contains("--driver limfifottl"));
    assert!(!sandbox.store().exists());
}

#[test]
fn put_reads_the_body_from_an_argument_or_standard_input() {
    let sandbox = Sandbox::with(&[]);
    assert_eq!(sandbox.ok("put mail hello"), "put task 0 (ready)\n");
    let put = sandbox.json("put mail later --delay 1h");
    assert_eq!(put, [json!({"id": 1, "tube": "mail", "state": "delayed"})]);
    sandbox.feed("put mail -", b"bytes \xff and \0\n").expect(0);
    sandbox.feed("put mail", b"piped").expect(0);
    run(sandbox.command(&["put", "mail", "--", "--dashes"]), b"").expect(0);
    run(sandbox.command(&["put", "mail", ""]), b"").expect(0);
    assert_eq!(sandbox.run("peek mail 2 --body").out, b"bytes \xff and \0\n");
    let bodies: Vec<_> = sandbox.json("list mail").iter().map(|t| t["data"].clone()).collect();
    assert_eq!(
        bodies,
        [json!("hello"), json!(null), json!("piped"), json!("--dashes"), json!(""), json!("later")]
    );
}

#[test]
fn put_passes_all_options() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create crawl --driver utubettl");
    sandbox.ok("put crawl / --priority 3 --ttl 1h --ttr 90s --sub-queue example.org");
    let task = &sandbox.json("peek crawl")[0];
    assert_eq!(task["priority"], 3);
    assert_eq!(task["ttr"], 90.0);
    assert_eq!(task["sub_queue"], "example.org");
    let left = task["ttl_left"].as_f64().unwrap();
    assert!((3500.0..=3600.0).contains(&left), "{left}");
    assert!(sandbox.fails("put mail x --sub-queue a", 2).contains("utube"));
}

#[test]
fn put_waits_for_space_in_a_full_tube() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create up --driver limfifottl --capacity 1");
    sandbox.ok("put up short --ttl 300ms");
    // There is space once the ttl of the first task has elapsed.
    sandbox.ok("put up second --wait 60s");
    assert!(sandbox.fails("put up third", 6).contains("full"));
    assert!(sandbox.fails("put up third --wait 10ms", 6).contains("capacity is 1"));
    assert_eq!(sandbox.ok("pop up"), "second");
}

#[test]
fn pop_prints_the_body_unchanged_and_removes_the_task() {
    let sandbox = Sandbox::with(&["one", "two"]);
    sandbox.feed("put mail -", b"\xff\0\n").expect(0);
    assert_eq!(sandbox.ok("pop mail"), "one");
    let taken = sandbox.json("pop mail");
    let expected = json!({
        "id": 1, "tube": "mail", "priority": 100, "sub_queue": null, "key": null, "tags": [], "takes": 1,
        "attempts": 1,
        "attempts_left": null, "size": 3, "data": "two",
    });
    assert_eq!(taken, [expected]);
    let taken = sandbox.json("pop mail");
    assert_eq!(taken[0]["data_base64"], "/wAK");
    assert_eq!(taken[0].get("data"), None);
    assert!(sandbox.fails("pop mail", 3).contains("it is empty"));
    sandbox.ok("put mail soon --delay 200ms");
    assert_eq!(sandbox.ok("pop mail --timeout 60s"), "soon");
    sandbox.ok("put mail later --delay 1h");
    assert!(sandbox.fails("pop mail --timeout 5ms", 3).contains("1 delayed"));
}

#[test]
fn peek_shows_one_task_and_changes_nothing() {
    let sandbox = Sandbox::with(&["one", "two"]);
    let shown = sandbox.ok("peek mail 1");
    assert!(shown.contains("state     ready") && shown.ends_with("\n\ntwo\n"), "{shown}");
    assert_eq!(sandbox.ok("peek mail --body"), "one");
    let task = sandbox.tasks("peek mail 0");
    let expected = json!({
        "put_at": task[0]["put_at"], "ended_at": null, "buried_by": null,
        "id": 0, "tube": "mail", "state": "ready", "owner": null, "priority": 100, "sub_queue": null, "key": null, "tags": [], "takes": 0,
        "attempts": 0, "attempts_left": null, "max_attempts": null, "open_parents": 0, "group": null, "failure": null,
        "size": 3, "ttl_left": null, "ttr": null, "due_in": null, "not_before": null,
        "data": "one",
    });
    assert_eq!(task, [expected]);
    assert!(sandbox.fails("peek mail 9", 3).contains("no task 9"));
    assert_eq!(sandbox.counts(), (2, 0, 0));
}

#[test]
fn peek_shows_the_task_that_pop_would_print_in_any_sub_queue() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create plain --driver utube");
    sandbox.ok("create timed --driver utubettl");
    for (body, name) in [("first", "zz"), ("second", "aa"), ("third", "mm")] {
        sandbox.ok(&format!("put plain {body} --sub-queue {name}"));
        sandbox.ok(&format!("put timed {body} --sub-queue {name} --priority 5"));
    }
    sandbox.ok("put timed urgent --sub-queue nn --priority 1");
    for tube in ["plain", "timed"] {
        while let Ok(body) = String::from_utf8(sandbox.run(&format!("peek {tube} --body")).out) {
            if body.is_empty() {
                break;
            }
            assert_eq!(sandbox.ok(&format!("pop {tube}")), body, "{tube}");
        }
        sandbox.fails(&format!("pop {tube}"), 3);
    }
}

#[test]
fn put_and_import_refuse_a_temporary_tube() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create scratch --temporary");
    for words in ["put scratch x", "import scratch"] {
        let done = sandbox.feed(words, b"x\n").expect(2);
        assert!(done.err.contains("in memory only") && done.out.is_empty(), "{}", done.err);
    }
}

#[test]
fn release_all_truncate_and_drop_report_counts() {
    let sandbox = Sandbox::with(&["a", "b"]);
    assert_eq!(sandbox.ok("release-all mail"), "released 0 tasks\n");
    assert_eq!(sandbox.json("release-all mail"), [json!({"tube": "mail", "released": 0})]);
    assert_eq!(sandbox.ok("truncate mail"), "removed 2 tasks from mail\n");
    assert_eq!(sandbox.json("truncate mail"), [json!({"tube": "mail", "removed": 0})]);
    sandbox.ok("put mail x");
    assert_eq!(sandbox.ok("drop mail"), "dropped tube mail with 1 task\n");
    sandbox.ok("create mail");
    assert_eq!(sandbox.json("drop mail"), [json!({"tube": "mail", "removed": 0})]);
    assert!(sandbox.ok("tubes").contains("no tubes"));
    assert!(sandbox.ok("stats").contains("no tubes"));
}

#[test]
fn verify_and_compact_report_results() {
    let body = "x".repeat(2000);
    let sandbox = Sandbox::with(&vec![body.as_str(); 2000]);
    assert_eq!(sandbox.ok("verify"), "sound: 2000 tasks\n");
    assert_eq!(sandbox.json("verify"), [json!({"sound": true, "defects": 0, "tasks": 2000})]);
    sandbox.ok("truncate mail");
    sandbox.ok("verify");
    let size = || std::fs::metadata(sandbox.store()).unwrap().len();
    let before = size();
    let sizes = &sandbox.json("compact")[0];
    assert_eq!(sizes, &json!({"bytes_before": before, "bytes_after": size()}));
    // The close of a command before it may have returned the space, if its estimate was low.
    assert!(size() <= before && size() < 2 << 20, "{sizes}");
    assert!(sandbox.ok("compact").contains(" → "));
    assert_eq!(sandbox.counts(), (0, 0, 0));
}

#[test]
fn first_example_works_as_printed() {
    let sandbox = Sandbox::empty();
    let files = "printf 'ann\\nbob\\n' > addresses.txt
        printf '#!/bin/sh\\ncat >> sent; echo >> sent\\n' > send.sh; chmod +x send.sh\n";
    let document = include_str!("../../../docs/command.md");
    let (_, rest) = document.split_once("```sh\n").unwrap();
    let (script, _) = rest.split_once("```").unwrap();
    assert!(include_str!("../../../README.md").contains(script), "the README has another one");
    let help = sandbox.ok("--help");
    let lines = script.lines().filter_map(|line| line.split("  #").next());
    lines.for_each(|line| assert!(line.starts_with("export") || help.contains(line), "{line}"));

    let done = run(sandbox.shell("sh", &format!("{files}{script}")), b"").expect(0);
    assert!(done.text().contains("to: ann"), "{}", done.text());
    assert!(done.text().ends_with("MiB\n"), "{}", done.text());
    assert_eq!(std::fs::read_to_string(sandbox.dir.path().join("sent")).unwrap(), "ann\nbob\n");
    assert_eq!(sandbox.counts(), (0, 0, 0));
}

#[test]
fn wall_clock_far_ahead_is_not_trusted_without_the_option() {
    let sandbox = Sandbox::of_2001();
    for _ in 0..2 {
        let done = sandbox.run("peek mail 0 --body").expect(0);
        assert_eq!(done.text(), "x");
        assert!(done.err.contains("the wall clock is "), "{}", done.err);
        assert!(done.err.contains("give --trust-wall-clock"), "{}", done.err);
    }
    let done = sandbox.run("pop mail --trust-wall-clock");
    assert!(!done.err.contains("the wall clock"), "{}", done.err);
    assert_eq!(sandbox.counts(), (0, 0, 0));
    assert_eq!(sandbox.run("tubes").expect(0).err, "");
}

/// The store was last open in 2096. Its delays go on by the clock of today.
#[test]
fn wall_clock_that_was_set_back_is_reported_once_and_then_followed() {
    let sandbox = Sandbox::at(Duration::from_secs(4_000_000_000));
    let first = sandbox.run("put mail later --delay 20ms").expect(0);
    assert!(first.err.contains("the wall clock was set back and is "), "{}", first.err);
    assert_eq!(sandbox.run("stats").expect(0).err, "");
    sandbox.ok("pop mail");
    let popped = sandbox.run("pop mail --timeout 1m").expect(0);
    assert_eq!((popped.text(), popped.err.as_str()), ("later", ""));
}

#[test]
fn stats_as_json_say_what_is_wrong_with_the_wall_clock() {
    let clock = |sandbox: &Sandbox, words: &str| sandbox.json(words)[0]["clock"].clone();
    // From 2001 to today, and from today to 2096.
    let is_decades = |seconds: &Value| (7e8..3.2e9).contains(&seconds.as_f64().unwrap());
    let right = json!({ "untrusted": null, "set_back": null });
    let ahead = Sandbox::of_2001();
    let (mut owner, _) = serve(&ahead, "");
    for words in ["stats", "stats --no-socket"] {
        if words != "stats" {
            owner.signal(Signal::TERM);
            assert_eq!(owner.ends(), 0);
        }
        let clock = clock(&ahead, words);
        assert!(is_decades(&clock["untrusted"]) && clock["set_back"].is_null(), "{clock}");
    }
    assert_eq!(clock(&ahead, "stats --trust-wall-clock"), right);
    let back = Sandbox::at(Duration::from_secs(4_000_000_000));
    let clocks = clock(&back, "stats");
    assert!(is_decades(&clocks["set_back"]) && clocks["untrusted"].is_null(), "{clocks}");
    assert_eq!(clock(&back, "stats"), right);
}

#[test]
fn due_tasks_are_handled_before_a_command_reads() {
    let sandbox = Sandbox::with(&[]);
    let lines = "x\n".repeat(5000);
    // Starting the next command takes longer than each ttl and each delay.
    sandbox.feed("import mail --ttl 1ms", lines.as_bytes()).expect(0);
    assert_eq!(sandbox.counts(), (0, 0, 0));
    sandbox.feed("import mail --delay 1ms", lines.as_bytes()).expect(0);
    sandbox.ok("put mail last --delay 1ms");
    assert_eq!(sandbox.counts(), (5001, 0, 0));
    sandbox.ok("truncate mail");
    for _ in 0..20 {
        sandbox.ok("put mail soon --delay 1ms");
        assert_eq!(sandbox.ok("pop mail"), "soon");
    }
}

#[test]
fn compact_frees_the_space_of_truncated_and_dropped_tubes() {
    let sandbox = Sandbox::with(&[]);
    sandbox.feed("import mail --ttl 1d", "some line\n".repeat(150_000).as_bytes()).expect(0);
    sandbox.ok("put mail keep --priority 1");
    sandbox.ok("create other");
    sandbox.feed("import other", "other line\n".repeat(150_000).as_bytes()).expect(0);
    sandbox.ok("truncate mail");
    sandbox.ok("put mail kept");
    sandbox.ok("drop other");
    let sizes = &sandbox.json("compact")[0];
    assert!(sizes["bytes_after"].as_u64().unwrap() < 2 << 20, "{sizes}");
    assert_eq!(sandbox.ok("verify"), "sound: 1 task\n");
    assert_eq!(sandbox.ok("pop mail"), "kept");
}

#[test]
fn delay_without_end_is_shown_as_never() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("put mail parked --delay never");
    assert!(sandbox.ok("list mail").contains("  ready never  "));
    assert!(sandbox.ok("peek mail 0").contains("ready     never\n"));
}

#[test]
fn take_is_refused_and_removes_nothing() {
    let sandbox = Sandbox::with(&["precious"]);
    let expected = "tubewell: there is no command `take`\n          \
                    `tubewell pop TUBE` prints the next task and removes it; \
                    `tubewell claim TUBE` takes it until it is acked or a time is over; \
                    `tubewell peek TUBE` shows it and removes nothing\n";
    for words in ["take mail", "take", "take --help", "take mail --timeout 5s", "take nowhere -x"] {
        let refused = sandbox.run(words).expect(2);
        assert_eq!((refused.text(), refused.err.as_str()), ("", expected), "{words}");
    }
    for words in ["take mail --json", "--json take mail"] {
        let error: Value = serde_json::from_str(&sandbox.fails(words, 2)).unwrap();
        assert_eq!((&error["error"], &error["exit"]), (&json!("usage"), &json!(2)));
        assert!(error["hint"].as_str().unwrap().contains("tubewell peek"), "{error}");
    }
    assert!(!sandbox.ok("--help").contains("take "));
    assert_eq!(sandbox.counts(), (1, 0, 0));
    assert!(Sandbox::empty().fails("take mail", 2).contains("tubewell pop"));
}

#[test]
fn bury_and_delete_report_each_task() {
    let sandbox = Sandbox::with(&["a", "b", "c", "d", "e"]);
    assert_eq!(sandbox.ok("bury mail 0 1 2"), "buried task 0\nburied task 1\nburied task 2\n");
    let buried = sandbox.json("bury mail 3");
    assert_eq!(buried, [json!({"id": 3, "tube": "mail", "state": "buried"})]);
    assert_eq!(sandbox.counts(), (1, 0, 4));
    let partly = sandbox.run("delete mail 0 77 1 78").expect(3);
    assert_eq!(partly.text(), "deleted task 0\ndeleted task 1\n");
    assert_eq!(partly.err, "tubewell: mail has no tasks 77, 78\n");
    assert_eq!(sandbox.json("delete mail 2"), [json!({"id": 2, "tube": "mail", "state": "done"})]);
    assert_eq!(sandbox.counts(), (1, 0, 1));
    assert_eq!(sandbox.run("bury mail 9").expect(3).err, "tubewell: mail has no task 9\n");
}

/// The parent is named before its child, so a delete of one task after the other would be refused.
#[test]
fn delete_of_several_tasks_deletes_all_of_them_or_none() {
    let sandbox = Sandbox::with(&["parent"]);
    sandbox.ok("put mail child --after 0");
    sandbox.ok("put mail grandchild --after 1");
    let refused = sandbox.fails("delete mail 0 1", 6);
    assert!(refused.contains("1 tasks wait for task 1"), "{refused}");
    assert_eq!(sandbox.ids("list mail"), [0, 1, 2]);
    let deleted = sandbox.json("delete mail 0 1 2 1");
    let expected = [0, 1, 2, 1].map(|id| json!({"id": id, "tube": "mail", "state": "done"}));
    assert_eq!(deleted, expected);
    assert_eq!(sandbox.ids("list mail"), [0; 0]);
}

#[test]
fn kick_kicks_the_named_tasks() {
    let sandbox = Sandbox::with(&["x"; 200]);
    let ids: Vec<String> = (0..150).map(|id| id.to_string()).collect();
    sandbox.ok(&format!("bury mail {}", ids.join(" ")));
    assert_eq!(sandbox.ok("kick mail 107"), "kicked task 107\n");
    assert_eq!(sandbox.counts(), (51, 0, 149));
    assert_eq!(sandbox.json("peek mail 107")[0]["state"], "ready");
    let kicked = sandbox.json("kick mail 3 1");
    let expected = [3, 1].map(|id| json!({"id": id, "tube": "mail", "state": "ready"}));
    assert_eq!(kicked, expected);
    assert_eq!(sandbox.ids("list mail --limit 2"), [1, 3]);
}

#[test]
fn kick_reports_tasks_that_are_missing_or_not_buried() {
    let sandbox = Sandbox::with(&["a", "b", "c"]);
    sandbox.ok("bury mail 0 1");
    let partly = sandbox.run("kick mail 0 2 77 1").expect(3);
    assert_eq!(partly.text(), "kicked task 0\nkicked task 1\n");
    assert_eq!(
        partly.err,
        "tubewell: task 2 of mail is neither buried nor delayed; mail has no task 77\n"
    );
    let refused = sandbox.run("kick mail 1 2 78 79 --json").expect(3);
    assert!(refused.text().is_empty());
    let error: Value = serde_json::from_str(&refused.err).unwrap();
    assert_eq!(error["error"], "no_task");
    assert_eq!(
        error["message"],
        "tasks 1, 2 of mail are neither buried nor delayed; mail has no tasks 78, 79"
    );
    assert_eq!(sandbox.counts(), (3, 0, 0));
}

#[test]
fn kick_of_a_delayed_task_makes_it_ready_now() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create mail");
    sandbox.ok("put mail later --delay 1h");
    sandbox.ok("put mail moment --not-before 2999-01-01T00:00:00Z");
    assert_eq!(sandbox.ok("kick mail 0 1"), "kicked task 0\nkicked task 1\n");
    assert_eq!(sandbox.ok("pop mail"), "later");
    assert_eq!(sandbox.ok("pop mail"), "moment");
}

#[test]
fn kick_with_count_or_all_kicks_by_priority_and_age() {
    let sandbox = Sandbox::with(&[]);
    for priority in [5, 1, 5, 1, 9] {
        sandbox.ok(&format!("put mail x --priority {priority}"));
    }
    sandbox.ok("bury mail 4 3 2 1 0");
    assert_eq!(sandbox.ok("kick mail --count 1"), "kicked 1 task\n");
    assert_eq!(sandbox.json("kick mail --count 2"), [json!({"tube": "mail", "kicked": 2})]);
    assert_eq!(sandbox.ids("list mail --state ready"), [1, 3, 0]);
    assert_eq!(sandbox.ok("kick mail --count 0"), "kicked 0 tasks\n");
    assert_eq!(sandbox.ok("kick mail --all"), "kicked 2 tasks\n");
    assert_eq!(sandbox.ok("kick mail --count 5"), "kicked 0 tasks\n");
}

#[test]
fn kick_without_tasks_says_what_to_write() {
    let sandbox = Sandbox::with(&["a"]);
    sandbox.ok("bury mail 0");
    let message = sandbox.fails("kick mail", 2);
    assert!(message.contains("kick does not say which buried tasks"), "{message}");
    for form in ["`tubewell kick mail ID…`", "`tubewell kick mail --count N`", "--all`"] {
        assert!(message.contains(form), "{message}");
    }
    let error: Value = serde_json::from_str(&sandbox.fails("kick mail --json", 2)).unwrap();
    assert_eq!(error["error"], "usage");
    assert_eq!(sandbox.counts(), (0, 0, 1));
}

#[test]
fn stats_counts_by_state() {
    let sandbox = Sandbox::with(&["a", "b", "c"]);
    sandbox.ok("create other");
    sandbox.ok("bury mail 0");
    sandbox.ok("put mail later --delay 1h");
    let shown = sandbox.ok("stats");
    assert!(shown.contains("mail       2      0        1        0       1      4"), "{shown}");
    assert!(shown.contains("other") && shown.contains("jobs.tubewell, 1 MiB\n"), "{shown}");
    assert!(!sandbox.ok("stats mail").contains("MiB"));
    let expected = json!({
        "tube": "mail", "driver": "fifottl", "ready": 2, "taken": 0, "delayed": 1, "blocked": 0,
        "buried": 1, "total": 4, "kept": 0, "recurring": 0, "overdue": 0, "paused": false, "resumes_in": null,
        "clock": { "untrusted": null, "set_back": null },
    });
    assert_eq!(sandbox.json("stats mail"), [expected]);
    assert_eq!(sandbox.json("stats").len(), 2);
}

#[test]
fn stats_compact_and_backup_report_the_same_size() {
    let sandbox = Sandbox::with(&[]);
    let size = |store: &str| {
        let stats = sandbox.ok(&format!("stats --store {store}"));
        let (_, size) = stats.trim_end().rsplit_once(", ").unwrap();
        size.to_owned()
    };
    for _ in 0..2 {
        let first = size("jobs.tubewell");
        // Each command opens and closes the store, which moves the end of its file.
        for words in ["tubes", "stats", "peek mail --json", "release-all mail", "stats"] {
            sandbox.run(words);
            assert_eq!(size("jobs.tubewell"), first, "{words}");
        }
        let copied = sandbox.ok("backup copy.tubewell");
        let length = std::fs::metadata(sandbox.path("copy.tubewell")).unwrap().len();
        assert!(copied.ends_with(&format!("({})\n", size("copy.tubewell"))), "{copied}");
        let compacted = sandbox.json("compact --store copy.tubewell");
        assert!(compacted[0]["bytes_before"].as_u64().unwrap().abs_diff(length) < 1 << 19);
        let compacted = sandbox.ok("compact");
        let (before, after) = compacted.trim_end().split_once(" → ").unwrap();
        assert!(before.ends_with(&format!(": {first}")), "{compacted} {first}");
        assert_eq!(size("jobs.tubewell"), after);
        std::fs::remove_file(sandbox.path("copy.tubewell")).unwrap();
        // The second time the file has some MiB.
        let line = format!("{}\n", "x".repeat(1000));
        sandbox.feed("import mail", line.repeat(5000).as_bytes()).expect(0);
    }
}
