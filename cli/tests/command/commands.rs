//! Every command, for people and as JSON.

use std::path::Path;
use std::process::Command;

use serde_json::json;

use crate::support::{Bench, run};

#[test]
fn create_makes_the_store_and_tubes() {
    let bench = Bench::empty();
    let said = bench.ok("create mail --ttl 2h --ttr 1.5s --pri 7");
    assert!(said.contains("created the store"), "{said}");
    assert!(said.contains("created the tube mail (fifottl)"), "{said}");
    let made = bench.json("create up --driver limfifottl --capacity 3");
    assert_eq!(
        made,
        [json!({
            "tube": "up", "driver": "limfifottl", "tube_created": true, "store_created": false,
        })]
    );
    assert!(bench.fails("create mail", 6).contains("exists already"));
    let said = bench.ok("create mail --if-not-exists --ttl 2h --ttr 1.5s --pri 7");
    assert_eq!(said, "the tube mail (fifottl) is there already\n");
    let same = bench.json("create up --driver limfifottl --capacity 3 --if-not-exists");
    assert_eq!(same[0]["tube_created"], false);
    assert!(bench.fails("create mail --if-not-exists", 6).contains("mail"));

    let shown = bench.ok("tubes");
    assert!(shown.contains("pri 7, ttl 2h, ttr 1.5s"), "{shown}");
    assert!(shown.contains("capacity 3"), "{shown}");
    assert_eq!(
        bench.json("tubes")[0],
        json!({
            "tube": "mail", "driver": "fifottl", "usable": true, "temporary": false,
            "capacity": 0, "ttl": 7200.0, "ttr": 1.5, "pri": 7, "total": 0,
        })
    );
}

#[test]
fn a_tube_that_cannot_be_leaves_no_store_behind() {
    let bench = Bench::empty();
    assert!(bench.fails("create mail --driver fif", 2).contains("fifottl"));
    assert!(bench.fails("create mail --capacity 3", 2).contains("--driver limfifottl"));
    assert!(!bench.store().exists());
}

#[test]
fn put_takes_the_body_from_the_command_line_or_standard_input() {
    let bench = Bench::with(&[]);
    assert_eq!(bench.ok("put mail hello"), "put task 0 (ready)\n");
    let put = bench.json("put mail later --delay 1h");
    assert_eq!(put, [json!({"id": 1, "tube": "mail", "state": "delayed"})]);
    bench.feed("put mail -", b"bytes \xff and \0\n").expect(0);
    bench.feed("put mail", b"piped").expect(0);
    run(bench.command(&["put", "mail", "--", "--dashes"]), b"").expect(0);
    run(bench.command(&["put", "mail", ""]), b"").expect(0);
    assert_eq!(bench.run("peek mail 2 --body").out, b"bytes \xff and \0\n");
    let bodies: Vec<_> = bench.json("list mail").iter().map(|t| t["data"].clone()).collect();
    assert_eq!(
        bodies,
        [json!("hello"), json!(null), json!("piped"), json!("--dashes"), json!(""), json!("later")]
    );
}

#[test]
fn put_has_all_options() {
    let bench = Bench::with(&[]);
    bench.ok("create crawl --driver utubettl");
    bench.ok("put crawl / --pri 3 --ttl 1h --ttr 90s --sub-queue example.org");
    let task = &bench.json("peek crawl")[0];
    assert_eq!(task["pri"], 3);
    assert_eq!(task["ttr"], 90.0);
    assert_eq!(task["sub_queue"], "example.org");
    let left = task["ttl_left"].as_f64().unwrap();
    assert!((3500.0..=3600.0).contains(&left), "{left}");
    assert!(bench.fails("put mail x --sub-queue a", 2).contains("utube"));
}

#[test]
fn put_waits_for_room_in_a_full_tube() {
    let bench = Bench::with(&[]);
    bench.ok("create up --driver limfifottl --capacity 1");
    bench.ok("put up short --ttl 300ms");
    // Room comes when the life of the first one ends.
    bench.ok("put up second --wait 60s");
    assert!(bench.fails("put up third", 6).contains("full"));
    assert!(bench.fails("put up third --wait 10ms", 6).contains("capacity is 1"));
    assert_eq!(bench.ok("take up"), "second");
}

#[test]
fn take_prints_the_body_as_it_is_and_finishes_the_task() {
    let bench = Bench::with(&["one", "two"]);
    bench.feed("put mail -", b"\xff\0\n").expect(0);
    assert_eq!(bench.ok("take mail"), "one");
    let taken = bench.json("take mail");
    let expected = json!({
        "id": 1, "tube": "mail", "pri": 0, "sub_queue": null, "takes": 1, "size": 3, "data": "two",
    });
    assert_eq!(taken, [expected]);
    let taken = bench.json("take mail");
    assert_eq!(taken[0]["data_base64"], "/wAK");
    assert_eq!(taken[0].get("data"), None);
    assert!(bench.fails("take mail", 3).contains("it is empty"));
    bench.ok("put mail soon --delay 200ms");
    assert_eq!(bench.ok("take mail --timeout 60s"), "soon");
    bench.ok("put mail later --delay 1h");
    assert!(bench.fails("take mail --timeout 5ms", 3).contains("1 delayed"));
}

#[test]
fn peek_shows_one_task_and_changes_nothing() {
    let bench = Bench::with(&["one", "two"]);
    let shown = bench.ok("peek mail 1");
    assert!(shown.contains("state     ready") && shown.ends_with("\n\ntwo\n"), "{shown}");
    assert_eq!(bench.ok("peek mail --body"), "one");
    let task = bench.json("peek mail 0");
    let expected = json!({
        "id": 0, "tube": "mail", "state": "ready", "pri": 0, "sub_queue": null, "takes": 0,
        "size": 3, "ttl_left": null, "ttr": null, "due_in": null, "data": "one",
    });
    assert_eq!(task, [expected]);
    assert!(bench.fails("peek mail 9", 3).contains("no task 9"));
    assert_eq!(bench.counts(), (2, 0, 0));
}

#[test]
fn peek_shows_the_task_that_take_would_give_in_any_sub_queue() {
    let bench = Bench::with(&[]);
    bench.ok("create plain --driver utube");
    bench.ok("create timed --driver utubettl");
    for (body, name) in [("first", "zz"), ("second", "aa"), ("third", "mm")] {
        bench.ok(&format!("put plain {body} --sub-queue {name}"));
        bench.ok(&format!("put timed {body} --sub-queue {name} --pri 5"));
    }
    bench.ok("put timed urgent --sub-queue nn --pri 1");
    for tube in ["plain", "timed"] {
        while let Ok(body) = String::from_utf8(bench.run(&format!("peek {tube} --body")).out) {
            if body.is_empty() {
                break;
            }
            assert_eq!(bench.ok(&format!("take {tube}")), body, "{tube}");
        }
        bench.fails(&format!("take {tube}"), 3);
    }
}

#[test]
fn a_tube_in_memory_is_not_filled_by_a_command_that_ends() {
    let bench = Bench::with(&[]);
    bench.ok("create scratch --temporary");
    for words in ["put scratch x", "import scratch"] {
        let done = bench.feed(words, b"x\n").expect(2);
        assert!(done.err.contains("in memory only") && done.out.is_empty(), "{}", done.err);
    }
}

#[test]
fn list_shows_pages_by_state() {
    let bodies: Vec<String> = (0..1200).map(|n| format!("task {n}")).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let bench = Bench::with(&bodies);
    bench.ok("bury mail 3 4");
    let first = bench.run("list mail").expect(0);
    assert_eq!(first.text().lines().count(), 101);
    assert!(first.err.contains("100 of 1200 tasks; the next ones: --skip 100"), "{}", first.err);
    let ids = |words: &str| -> Vec<u64> {
        bench.json(words).iter().map(|task| task["id"].as_u64().unwrap()).collect()
    };
    assert_eq!(ids("list mail --skip 2 --limit 3"), [2, 5, 6]);
    assert_eq!(ids("list mail --state buried"), [3, 4]);
    assert_eq!(ids("list mail --state buried,ready --skip 1197"), [1199, 3, 4]);
    assert_eq!(ids("list mail --all").len(), 1200);
    assert!(bench.ok("list mail --state delayed").contains("no tasks"));
    assert!(bench.ok("list mail --skip 5000").contains("there are 1200"));
    // A body is one line of a list, whatever is in it.
    bench.feed("put mail -", b"\x1b[31mred\nlines").expect(0);
    assert!(bench.ok("list mail --skip 1198 --limit 1").contains(" [31mred lines"));
}

#[test]
fn bury_kick_and_delete() {
    let bench = Bench::with(&["a", "b", "c", "d", "e"]);
    assert_eq!(bench.ok("bury mail 0 1 2"), "buried task 0\nburied task 1\nburied task 2\n");
    assert_eq!(bench.json("bury mail 3"), [json!({"id": 3, "tube": "mail", "state": "buried"})]);
    assert_eq!(bench.counts(), (1, 0, 4));
    assert_eq!(bench.ok("kick mail"), "kicked 1 task\n");
    assert_eq!(bench.json("kick mail 2"), [json!({"tube": "mail", "kicked": 2})]);
    assert_eq!(bench.ok("kick mail --all"), "kicked 1 task\n");
    assert_eq!(bench.counts(), (5, 0, 0));
    let partly = bench.run("delete mail 0 77 1 78").expect(3);
    assert_eq!(partly.text(), "deleted task 0\ndeleted task 1\n");
    assert!(partly.err.contains("mail has no tasks 77, 78"), "{}", partly.err);
    assert_eq!(bench.json("delete mail 2"), [json!({"id": 2, "tube": "mail", "state": "done"})]);
    assert_eq!(bench.counts(), (2, 0, 0));
}

#[test]
fn release_all_truncate_and_drop() {
    let bench = Bench::with(&["a", "b"]);
    assert_eq!(bench.ok("release-all mail"), "released 0 tasks\n");
    assert_eq!(bench.json("release-all mail"), [json!({"tube": "mail", "released": 0})]);
    assert_eq!(bench.ok("truncate mail"), "removed 2 tasks from mail\n");
    assert_eq!(bench.json("truncate mail"), [json!({"tube": "mail", "removed": 0})]);
    bench.ok("put mail x");
    assert_eq!(bench.ok("drop mail"), "dropped the tube mail with 1 task\n");
    bench.ok("create mail");
    assert_eq!(bench.json("drop mail"), [json!({"tube": "mail", "removed": 0})]);
    assert!(bench.ok("tubes").contains("no tubes"));
    assert!(bench.ok("stats").contains("no tubes"));
}

#[test]
fn stats_count_by_state() {
    let bench = Bench::with(&["a", "b", "c"]);
    bench.ok("create other");
    bench.ok("bury mail 0");
    bench.ok("put mail later --delay 1h");
    let shown = bench.ok("stats");
    assert!(shown.contains("mail       2      0        1       1      4"), "{shown}");
    assert!(shown.contains("other") && shown.contains("jobs.tubewell"), "{shown}");
    let expected = json!({
        "tube": "mail", "driver": "fifottl", "ready": 2, "taken": 0, "delayed": 1, "buried": 1,
        "total": 4,
    });
    assert_eq!(bench.json("stats mail"), [expected]);
    assert_eq!(bench.json("stats").len(), 2);
}

#[test]
fn verify_and_compact() {
    let body = "x".repeat(2000);
    let bench = Bench::with(&vec![body.as_str(); 2000]);
    assert_eq!(bench.ok("verify"), "sound: 2000 tasks\n");
    assert_eq!(bench.json("verify"), [json!({"sound": true, "defects": 0, "tasks": 2000})]);
    bench.ok("truncate mail");
    bench.ok("verify");
    let sizes = &bench.json("compact")[0];
    let (before, after) = (&sizes["bytes_before"], &sizes["bytes_after"]);
    assert!(after.as_u64() < before.as_u64(), "{sizes}");
    assert_eq!(std::fs::metadata(bench.store()).unwrap().len(), after.as_u64().unwrap());
    assert!(bench.ok("compact").contains(" → "));
    assert_eq!(bench.counts(), (0, 0, 0));
}

#[test]
fn help_completions_and_manual_pages_need_no_store() {
    let bench = Bench::empty();
    let commands = "create drop tubes put import take work peek list bury kick delete release-all \
                    truncate stats verify compact backup export completions man";
    let help = bench.ok("--help");
    for command in commands.split_whitespace() {
        assert!(help.contains(&format!("  {command} ")), "{command}");
        let page = bench.ok(&format!("{command} --help"));
        let (_, below) = page.split_once("Options of every command").unwrap();
        assert!(
            below.contains("Example") && below.contains(&format!("tubewell {command}")),
            "{below}"
        );
        // What is to be copied is not to be wrapped, and a manual page may know no other letters.
        for line in page.lines().skip_while(|line| !line.starts_with("Example")) {
            assert!(line.is_ascii() && line.len() < 80, "{command}: {line}");
        }
        let manual = bench.ok(&format!("man {command}"));
        assert!(manual.is_ascii() && manual.contains(".SH EXAMPLE"), "{manual}");
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(bench.ok(&format!("completions {shell}")).contains("release-all"), "{shell}");
    }
    assert!(bench.ok("man").starts_with(".ie"));
    assert!(bench.ok("man work").contains("max\\-takes"));
    assert!(bench.fails("man wrok", 2).contains("wrok"));
    assert_eq!(bench.ok("help work"), bench.ok("work --help"));
    assert_eq!(bench.ok("help"), bench.ok("--help"));
    assert!(bench.ok("man --out pages").contains("pages in pages"));
    assert!(bench.dir.path().join("pages/tubewell-release-all.1").exists());
    assert!(!bench.store().exists());
}

#[test]
fn the_first_example_works_as_it_is_printed() {
    let bench = Bench::empty();
    let files = "printf 'ann\\nbob\\n' > addresses.txt
        printf '#!/bin/sh\\ncat >> sent; echo >> sent\\n' > send.sh; chmod +x send.sh\n";
    let document = include_str!("../../../docs/command.md");
    let (_, rest) = document.split_once("```sh\n").unwrap();
    let (script, _) = rest.split_once("```").unwrap();
    assert!(include_str!("../../../README.md").contains(script), "the README has another one");
    let help = bench.ok("--help");
    let lines = script.lines().filter_map(|line| line.split("  #").next());
    lines.for_each(|line| assert!(line.starts_with("export") || help.contains(line), "{line}"));

    let mut shell = Command::new("sh");
    let bin = Path::new(env!("CARGO_BIN_EXE_tubewell")).parent().unwrap().display();
    let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
    shell.args(["-e", "-c", &format!("{files}{script}")]).env("PATH", path);
    shell.current_dir(bench.dir.path());
    let done = run(shell, b"").expect(0);
    assert!(done.text().contains("to: ann"), "{}", done.text());
    assert!(done.text().ends_with("MiB\n"), "{}", done.text());
    assert_eq!(std::fs::read_to_string(bench.dir.path().join("sent")).unwrap(), "ann\nbob\n");
    assert_eq!(bench.counts(), (0, 0, 0));
}

#[test]
fn a_wall_clock_far_ahead_is_not_believed_until_it_is_trusted() {
    let bench = Bench::of_2001();
    for _ in 0..2 {
        let done = bench.run("peek mail 0 --body").expect(0);
        assert_eq!(done.text(), "x");
        assert!(done.err.contains("the wall clock is "), "{}", done.err);
        assert!(done.err.contains("give --trust-wall-clock"), "{}", done.err);
    }
    let done = bench.run("take mail --trust-wall-clock");
    assert!(!done.err.contains("the wall clock"), "{}", done.err);
    assert_eq!(bench.counts(), (0, 0, 0));
    assert_eq!(bench.run("tubes").expect(0).err, "");
}

#[test]
fn what_fell_due_meanwhile_is_done_before_a_command_looks() {
    let bench = Bench::with(&[]);
    let lines = "x\n".repeat(5000);
    // Each life is over, and each delay, before the next command begins: it begins a process.
    bench.feed("import mail --ttl 1ms", lines.as_bytes()).expect(0);
    assert_eq!(bench.counts(), (0, 0, 0));
    bench.feed("import mail --delay 1ms", lines.as_bytes()).expect(0);
    bench.ok("put mail last --delay 1ms");
    assert_eq!(bench.counts(), (5001, 0, 0));
    bench.ok("truncate mail");
    for _ in 0..20 {
        bench.ok("put mail soon --delay 1ms");
        assert_eq!(bench.ok("take mail"), "soon");
    }
}

#[test]
fn a_truncated_tube_takes_no_room_once_the_store_is_compact() {
    let bench = Bench::with(&[]);
    bench.feed("import mail --ttl 1d", "some line\n".repeat(150_000).as_bytes()).expect(0);
    bench.ok("put mail keep --pri 1");
    bench.ok("create other");
    bench.feed("import other", "other line\n".repeat(150_000).as_bytes()).expect(0);
    bench.ok("truncate mail");
    bench.ok("put mail kept");
    bench.ok("drop other");
    let sizes = &bench.json("compact")[0];
    assert!(sizes["bytes_after"].as_u64().unwrap() < 2 << 20, "{sizes}");
    assert_eq!(bench.ok("verify"), "sound: 1 task\n");
    assert_eq!(bench.ok("take mail"), "kept");
}

#[test]
fn a_delay_without_an_end_is_shown_as_such() {
    let bench = Bench::with(&[]);
    bench.ok("put mail parked --delay never");
    assert!(bench.ok("list mail").contains("  ready never  "));
    assert!(bench.ok("peek mail 0").contains("ready     never\n"));
}

#[test]
fn bash_completes_what_is_typed() {
    let bench = Bench::empty();
    std::fs::write(bench.dir.path().join("completions"), bench.ok("completions bash")).unwrap();
    let script = "source ./completions
        try() {
            COMP_WORDS=(tubewell \"$@\") COMP_CWORD=$# COMPREPLY=()
            local before=$(($# - 1))
            _tubewell tubewell \"${!#}\" \"${COMP_WORDS[before]}\"
            echo \"${COMPREPLY[*]}\"
        }
        try rel; try create --driver fifo; try list mail --state ''; try work mail --on";
    let mut bash = Command::new("bash");
    bash.args(["-c", script]).current_dir(bench.dir.path());
    let done = run(bash, b"").expect(0);
    let expected = "release-all\nfifo fifottl\nready taken delayed buried\n--on-failure --once\n";
    assert_eq!((done.text(), done.err.as_str()), (expected, ""));
}
