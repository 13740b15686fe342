//! `fail`, `snooze`, `bury` with a failure and `revoke --all`; attempts and failures in lists.

use serde_json::{Value, json};

use crate::support::{Ended, Sandbox, run};

/// A store with the tube `jobs` of these options and the task 0.
fn jobs(options: &str) -> Sandbox {
    let sandbox = Sandbox::empty();
    sandbox.ok(&format!("create jobs {options}"));
    sandbox.ok("put jobs work");
    sandbox
}

/// Claims the next task; returns the token.
fn token(sandbox: &Sandbox) -> String {
    sandbox.claim("jobs")
}

fn fail(sandbox: &Sandbox, more: &[&str]) -> Ended {
    let token = token(sandbox);
    run(sandbox.command(&[&["fail", &token, "--group", "timeout"], more].concat()), b"")
}

fn task(sandbox: &Sandbox) -> Value {
    sandbox.json("peek jobs 0").remove(0)
}

#[test]
fn failed_task_is_tried_again_until_its_last_attempt_and_then_buried() {
    let sandbox = jobs("--max-attempts 2");
    let message = ["--message", "no answer\nin 30 s"];
    let failed = fail(&sandbox, &message).expect(0);
    assert_eq!(failed.text(), "failed: task 0 of jobs\n");
    let shown = task(&sandbox);
    let fields = ["state", "takes", "attempts", "attempts_left", "group"].map(|name| &shown[name]);
    assert_eq!(fields, [&json!("ready"), &json!(1), &json!(1), &json!(1), &json!(null)]);
    let failure = &shown["failure"];
    assert_eq!((&failure["group"], &failure["attempt"]), (&json!("timeout"), &json!(1)));
    assert_eq!(failure["message"], "no answer\nin 30 s");
    assert_eq!(failure["owner"], json!(null));
    assert!((0.0..300.0).contains(&failure["ago"].as_f64().unwrap()), "{failure}");

    let failed = fail(&sandbox, &["--json"]).expect(0).objects();
    assert_eq!(failed, [json!({"id": 0, "tube": "jobs", "state": "buried"})]);
    let shown = task(&sandbox);
    assert_eq!((&shown["state"], &shown["group"]), (&json!("buried"), &json!("timeout")));
    assert_eq!((&shown["buried_by"], &shown["max_attempts"]), (&json!("reported"), &json!(2)));
    assert_eq!(shown["failure"]["kind"], "reported");
    assert!(shown["ended_at"].is_string(), "{shown}");
    let text = sandbox.ok("peek jobs 0");
    assert!(text.contains("\nburied by its last attempt, which failed\n"), "{text}");
    assert_eq!((&shown["attempts_left"], &shown["failure"]["message"]), (&json!(0), &json!("")));
    sandbox.ok("kick jobs 0");
    let shown = task(&sandbox);
    assert_eq!((&shown["attempts"], &shown["takes"]), (&json!(0), &json!(2)));
    assert_eq!((&shown["group"], &shown["failure"]["attempt"]), (&json!(null), &json!(2)));
    assert!(sandbox.ok("verify").contains("sound"));
}

#[test]
fn failed_task_is_delayed_by_the_backoff_or_by_the_option() {
    let sandbox = jobs("--backoff 1h");
    assert_eq!(fail(&sandbox, &[]).expect(0).text(), "failed and delayed: task 0 of jobs\n");
    let due = |sandbox: &Sandbox| task(sandbox)["due_in"].as_f64().unwrap();
    assert!((3000.0..=3600.0).contains(&due(&sandbox)));
    let sandbox = jobs("--backoff 1h");
    fail(&sandbox, &["--delay", "2h"]).expect(0);
    assert!((6600.0..=7200.0).contains(&due(&sandbox)));
    let sandbox = jobs("--backoff 1h");
    assert_eq!(fail(&sandbox, &["--delay", "0"]).expect(0).text(), "failed: task 0 of jobs\n");
}

#[test]
fn snoozed_attempt_does_not_count() {
    let sandbox = jobs("--max-attempts 1");
    let claimed = sandbox.json("claim jobs").remove(0);
    assert_eq!((&claimed["attempts"], &claimed["attempts_left"]), (&json!(1), &json!(0)));
    let token = claimed["token"].as_str().unwrap();
    let snoozed = sandbox.ok(&format!("snooze {token} 1h"));
    assert_eq!(snoozed, "snoozed and delayed: task 0 of jobs\n");
    let shown = task(&sandbox);
    assert_eq!((&shown["attempts"], &shown["attempts_left"]), (&json!(0), &json!(1)));
    assert_eq!((&shown["takes"], &shown["failure"]), (&json!(1), &json!(null)));
    let text = sandbox.ok("peek jobs 0");
    assert!(text.contains("taken     1 time\nattempts  0 of 1\n"), "{text}");
    let sandbox = jobs("--driver fifo --max-attempts 1");
    let token = self::token(&sandbox);
    assert_eq!(sandbox.ok(&format!("snooze {token} 0")), "snoozed: task 0 of jobs\n");
    assert_eq!(task(&sandbox)["attempts_left"], 1);
}

#[test]
fn revoked_attempts_do_not_count_and_released_ones_do() {
    let sandbox = jobs("--max-attempts 3");
    sandbox.ok("put jobs other");
    token(&sandbox);
    token(&sandbox);
    assert_eq!(sandbox.ok("revoke jobs --all"), "revoked 2 tasks\n");
    assert_eq!(task(&sandbox)["attempts"], 0);
    let token = token(&sandbox);
    sandbox.ok(&format!("release {token}"));
    assert_eq!(task(&sandbox)["attempts"], 1);
    let none = sandbox.json("revoke jobs --all");
    assert_eq!(none, [json!({"tube": "jobs", "revoked": 0})]);
    assert!(sandbox.fails("revoke jobs", 2).contains("ID"));
    assert!(sandbox.fails("revoke jobs 0 --all", 2).contains("cannot be used with"));
}

#[test]
fn holder_buries_a_task_with_a_failure() {
    let sandbox = jobs("");
    let token = token(&sandbox);
    let buried = sandbox.ok(&format!("bury {token} --group invalid --message address"));
    assert_eq!(buried, "buried: task 0 of jobs\n");
    let shown = task(&sandbox);
    assert_eq!((&shown["state"], &shown["group"]), (&json!("buried"), &json!("invalid")));
    assert_eq!(shown["failure"]["message"], "address");
    assert!(sandbox.fails(&format!("bury {token}"), 3).contains("the claim on task 0"));
    sandbox.ok("kick jobs 0");
    let token = self::token(&sandbox);
    let buried = sandbox.json(&format!("bury {token}"));
    assert_eq!(buried, [json!({"id": 0, "tube": "jobs", "state": "buried"})]);
    assert_eq!(task(&sandbox)["group"], json!(null));
}

#[test]
fn wrong_failures_are_refused_and_the_claim_stands() {
    let sandbox = jobs("--driver fifo");
    let token = token(&sandbox);
    let long = "x".repeat(256);
    for (words, code, why) in [
        (format!("fail {token}"), 2, "--group"),
        (format!("fail {token} --group {long}"), 2, "a group has 1 to 255 bytes, not 256"),
        (format!("fail {token} --group x --delay 1s"), 2, "does not support delays"),
        (format!("snooze {token} 1s"), 2, "DELAY: tube \"jobs\" (fifo) does not support delays"),
        (format!("release {token} --delay 1s"), 2, "does not support delays"),
        (format!("snooze {token}"), 2, "DELAY"),
        (format!("bury {token} --message x"), 2, "--group"),
        (format!("bury {token} 0"), 4, "not found"),
        ("bury jobs 0 --group x".into(), 2, "cannot be used with"),
        ("bury jobs".into(), 2, "\"jobs\" is not the token of a claim"),
        ("fail jobs --group x".into(), 2, "is not the token of a parked claim"),
    ] {
        let message = sandbox.fails(&words, code);
        assert!(message.contains(why), "{words}: {message}");
        assert_eq!(task(&sandbox)["state"], "taken", "{words}");
    }
    sandbox.ok(&format!("ack {token}"));
    for words in ["fail", "snooze"] {
        let rest = if words == "fail" { "--group x" } else { "0" };
        let message = sandbox.fails(&format!("{words} {token} {rest}"), 3);
        assert!(message.contains("the claim on task 0 of jobs has ended"), "{message}");
    }
}

#[test]
fn list_and_peek_show_attempts_and_the_last_failure() {
    let sandbox = jobs("--max-attempts 5");
    let message = format!("\nno answer\u{1b}[31m {}\nsecond", "x".repeat(60));
    fail(&sandbox, &["--message", &message]).expect(0);
    sandbox.ok("put jobs other");
    let table = sandbox.ok("list jobs");
    let lines: Vec<&str> = table.lines().collect();
    assert!(lines[0].contains("TAKES  ATTEMPTS"), "{table}");
    assert!(
        lines[0].ends_with("  SIZE  FAILURE                                              BODY"),
        "{table}"
    );
    assert!(lines[1].contains("    1    1 of 5  "), "{table}");
    assert!(lines[1].contains("  timeout: no answer [31m xxx"), "{table}");
    assert!(lines[1].ends_with("xxx…  work"), "{table}");
    assert!(lines[2].contains("    0    0 of 5  ") && lines[2].contains("  -  "), "{table}");
    let shown = sandbox.ok("peek jobs 0");
    let (head, _) = shown.split_once("\nsize").unwrap();
    let lines: Vec<&str> = head.lines().collect();
    assert_eq!(lines[4..6], ["taken     1 time", "attempts  1 of 5"]);
    assert!(lines[6].starts_with("failure   timeout in attempt 1, "), "{shown}");
    assert_eq!(lines[7], "message   ");
    assert!(lines[8].starts_with("          no answer\\u{1b}[31m xx"), "{shown}");
    assert_eq!(lines[9], "          second");
    assert!(!table.contains('\u{1b}') && !shown.contains('\u{1b}'));

    // A plain tube has no limit, and its failures are shown as well.
    let sandbox = jobs("");
    fail(&sandbox, &[]).expect(0);
    let shown = sandbox.ok("peek jobs 0");
    assert!(!shown.contains("attempts") && shown.contains("failure   timeout in attempt 1"));
    assert!(sandbox.ok("list jobs").lines().nth(1).unwrap().ends_with("  timeout  work"));
}

#[test]
fn pop_that_cannot_print_is_no_attempt() {
    let sandbox = jobs("--max-attempts 1");
    let failed = run(sandbox.shell("bash", "tubewell pop jobs > /dev/full"), b"").expect(1);
    assert!(failed.err.contains("task 0 was not removed and is ready again"), "{}", failed.err);
    assert_eq!(
        (&task(&sandbox)["state"], &task(&sandbox)["attempts_left"]),
        (&json!("ready"), &json!(1))
    );
}
