//! `outcome`, `groups`, `resolve` and `forget`; results of `ack`; done tasks in lists and counts.

use serde_json::{Value, json};

use crate::support::{Sandbox, columns_of, run};

/// A store with the tube `sums` of these options, and these tasks.
fn sums(options: &str, tasks: &[&str]) -> Sandbox {
    let sandbox = Sandbox::empty();
    sandbox.ok(&format!("create sums {options}"));
    sandbox.feed("import sums", tasks.join("\n").as_bytes()).expect(0);
    sandbox
}

/// Claims a task; returns the token.
fn token(sandbox: &Sandbox, id: u64) -> String {
    sandbox.claim(&format!("sums {id}"))
}

fn kept(sandbox: &Sandbox) -> [Value; 2] {
    let stats = sandbox.json("stats sums").remove(0);
    let tubes = sandbox.json("tubes").remove(0);
    assert_eq!(stats["kept"], tubes["kept"]);
    ["total", "kept"].map(|name| stats[name].clone())
}

#[test]
fn acked_task_is_kept_with_its_result() {
    let sandbox = sums("--keep-done all", &["1+1", "2+2", "3+3", "4+4", "5+5"]);
    let acked = sandbox.ok(&format!("ack {} --result -2", token(&sandbox, 0)));
    assert_eq!(acked, "acked: task 0 of sums\n");
    assert_eq!(sandbox.ok("outcome sums 0"), "task      0\nstate     done\nresult    2 B\n\n-2\n");
    assert_eq!(sandbox.run("outcome sums 0 --result").expect(0).out, b"-2");
    let shown = sandbox.json("outcome sums 0");
    let expected =
        json!({"id": 0, "tube": "sums", "state": "done", "result": "-2", "failure": null});
    assert_eq!(shown, [expected]);

    // From standard input and from a file, any bytes and none.
    let words = format!("ack {} --result-file -", token(&sandbox, 1));
    sandbox.feed(&words, b"\xff\n\0").expect(0);
    assert_eq!(sandbox.run("outcome sums 1 --result").expect(0).out, b"\xff\n\0");
    assert_eq!(sandbox.json("outcome sums 1")[0]["result_base64"], "/woA");
    std::fs::write(sandbox.path("empty"), "").unwrap();
    sandbox.ok(&format!("ack {} --result-file empty", token(&sandbox, 2)));
    assert_eq!(sandbox.json("outcome sums 2")[0]["result"], "");
    assert_eq!(sandbox.run("outcome sums 2 --result").expect(0).out, b"");

    sandbox.ok(&format!("ack {}", token(&sandbox, 3)));
    assert_eq!(sandbox.ok("outcome sums 3"), "task      3\nstate     done\nresult    none\n");
    assert_eq!(sandbox.json("outcome sums 3")[0]["result"], json!(null));
    let message = sandbox.fails("outcome sums 3 --result", 3);
    assert!(message.contains("task 3 of sums is done without a result"), "{message}");
    assert_eq!(kept(&sandbox), [json!(1), json!(4)]);
    assert!(sandbox.ok("verify").contains("sound"));
}

#[test]
fn outcome_ends_with_code_3_if_there_is_none() {
    let sandbox = sums("", &["a", "b", "c"]);
    sandbox.ok("pop sums");
    let claim = token(&sandbox, 1);
    for (id, why) in [
        (0, "task 0 of sums has ended, and nothing is kept of it"),
        (1, "task 1 of sums has not ended: it is taken"),
        (2, "task 2 of sums has not ended: it is ready"),
        (9, "sums has no task 9"),
    ] {
        for option in ["", "--result"] {
            let done = sandbox.run(&format!("outcome sums {id} {option}")).expect(3);
            assert!(done.err.contains(why) && done.out.is_empty(), "{}", done.err);
        }
    }
    // The result of a task that is not kept is dropped.
    sandbox.ok(&format!("ack {claim} --result x"));
    sandbox.fails("outcome sums 1", 3);
    assert!(sandbox.fails("outcome sums 2 --result --json", 2).contains("cannot be used with"));
    assert!(sandbox.fails("outcome nothing 2", 4).contains("not found"));
    let error = sandbox.run("outcome sums 2 --json").expect(3).err;
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!((&error["error"], &error["exit"]), (&json!("no_task"), &json!(3)));
}

#[test]
fn failure_groups_are_counted_and_listed() {
    let sandbox = sums("", &["a", "b", "c", "d", "e"]);
    assert_eq!(sandbox.ok("groups sums"), "no failure groups\n");
    for (id, group) in [(0, "timeout"), (3, "timeout"), (1, "crash\u{7}")] {
        let token = token(&sandbox, id);
        let words = ["bury", &token, "--group", group, "--message", "why"];
        run(sandbox.command(&words), b"").expect(0);
    }
    sandbox.ok("bury sums 2");
    assert_eq!(
        sandbox.ok("groups sums"),
        "GROUP       TASKS\ncrash\\u{7}      1\ntimeout         2\n"
    );
    let groups = sandbox.json("groups sums");
    assert_eq!(groups[1], json!({"tube": "sums", "name": "timeout", "count": 2}));
    assert_eq!(groups.len(), 2);
    sandbox.ok("create other");
    assert_eq!(sandbox.json("groups"), groups);
    assert_eq!(
        sandbox.ok("groups"),
        "TUBE  GROUP       TASKS\nsums  crash\\u{7}      1\nsums  timeout         2\n"
    );

    assert_eq!(sandbox.ids("list sums --group timeout"), [3, 0]);
    assert_eq!(sandbox.ids("list sums --group timeout --skip 1"), [0]);
    let first = sandbox.run("list sums --group timeout --limit 1 --json").expect(0);
    assert_eq!(first.objects()[0]["failure"]["message"], "why");
    assert!(first.err.contains("1 of 2 tasks"), "{}", first.err);
    assert_eq!(sandbox.ok("list sums --group unknown"), "no tasks\n");
    let both = sandbox.fails("list sums --group x --state buried", 2);
    assert!(both.contains("cannot be used with"), "{both}");

    let shown = sandbox.ok("outcome sums 3");
    assert!(shown.starts_with("task      3\nstate     buried\nfailure   timeout in attempt 1, "));
    assert!(shown.ends_with(" ago\nmessage   why\n"), "{shown}");
    let record = sandbox.json("outcome sums 3").remove(0);
    assert_eq!((&record["state"], &record["result"]), (&json!("buried"), &json!(null)));
    assert_eq!(record["failure"]["group"], "timeout");
    assert_eq!(sandbox.json("outcome sums 2")[0]["failure"], json!(null));
    let message = sandbox.fails("outcome sums 3 --result", 3);
    assert!(message.contains("task 3 of sums has no result: it is buried"), "{message}");
}

#[test]
fn resolve_ends_tasks_that_no_worker_has() {
    let sandbox = sums("--keep-done all", &["a", "b", "c", "d"]);
    let claim = token(&sandbox, 0);
    let done = sandbox.run("resolve sums 0 --result x").expect(6);
    assert!(done.err.contains("has taken it"), "{}", done.err);
    assert!(done.err.contains("`tubewell revoke sums 0`"), "{}", done.err);
    sandbox.ok("bury sums 1");
    assert_eq!(sandbox.ok("resolve sums 1 --result by-hand"), "resolved task 1\n");
    assert_eq!(sandbox.json("outcome sums 1")[0]["result"], "by-hand");
    sandbox.feed("resolve sums 2 --result-file -", b"from a pipe").expect(0);
    assert_eq!(sandbox.ok("outcome sums 2 --result"), "from a pipe");
    let resolved = sandbox.json("resolve sums 3");
    assert_eq!(resolved, [json!({"id": 3, "tube": "sums", "state": "done"})]);
    assert!(sandbox.fails("resolve sums 3", 6).contains("it is done"));
    assert!(sandbox.fails("resolve sums 9", 3).contains("sums has no task 9"));
    let message = sandbox.fails("resolve sums 0 --result-file nowhere", 1);
    assert!(message.contains("cannot read the result from nowhere"), "{message}");
    let both = sandbox.fails(&format!("ack {claim} --result x --result-file y"), 2);
    assert!(both.contains("cannot be used with"), "{both}");
    sandbox.ok(&format!("ack {claim}"));
    assert_eq!(kept(&sandbox), [json!(0), json!(4)]);
}

#[test]
fn forget_removes_done_tasks_only() {
    let sandbox = sums("--keep-done all", &["a", "b", "c"]);
    sandbox.ok("pop sums");
    sandbox.ok("pop sums");
    let done = sandbox.run("forget sums 0 2 1 9").expect(3);
    assert_eq!(done.text(), "forgot task 0\nforgot task 1\n");
    assert!(done.err.contains("task 2 of sums is not done; sums has no task 9"), "{}", done.err);
    assert_eq!(kept(&sandbox), [json!(1), json!(0)]);
    sandbox.ok("pop sums");
    let forgot = sandbox.json("forget sums 2");
    assert_eq!(forgot, [json!({"id": 2, "tube": "sums", "state": "done"})]);
}

#[test]
fn done_tasks_are_listed_and_counted_apart_from_the_others() {
    let sandbox = sums("--keep-done age=7d", &["a", "b", "c", "d"]);
    for id in [2, 0] {
        sandbox.ok(&format!("ack {} --result x", token(&sandbox, id)));
    }
    sandbox.ok("bury sums 1");
    assert_eq!(sandbox.ids("list sums"), [3, 1]);
    assert_eq!(sandbox.ids("list sums --state done"), [2, 0]);
    assert_eq!(sandbox.ids("list sums --state done,buried"), [1, 2, 0]);
    let first = sandbox.run("list sums --state done --limit 1").expect(0);
    assert!(first.text().contains("done") && first.text().contains("kept 6d"), "{}", first.text());
    assert!(first.err.contains("1 of 2 tasks"), "{}", first.err);
    let peeked = sandbox.ok("peek sums 2");
    assert!(peeked.contains("state     done\n") && peeked.contains("kept for  6d"), "{peeked}");
    let record = sandbox.json("peek sums 2").remove(0);
    assert!((600_000.0..=604_800.0).contains(&record["ttl_left"].as_f64().unwrap()), "{record}");
    let stats = sandbox.ok("stats sums");
    let columns = columns_of(&stats);
    assert_eq!(
        columns[0],
        ["TUBE", "READY", "TAKEN", "DELAYED", "BLOCKED", "BURIED", "TOTAL", "KEPT"]
    );
    assert_eq!(columns[1], ["sums", "1", "0", "0", "0", "1", "2", "2"]);
    assert!(sandbox.ok("tubes").contains("TASKS  KEPT  OPTIONS\nsums  fifottl      2     2  keep"));
    assert_eq!(sandbox.ok("truncate sums"), "removed 4 tasks from sums\n");
    assert_eq!(kept(&sandbox), [json!(0), json!(0)]);
}
