//! `move` and `advance`: tasks that go on in other tubes.

use serde_json::json;

use crate::support::Sandbox;

/// Three tasks in `mail`, and the tube `next`.
fn two_tubes() -> Sandbox {
    let sandbox = Sandbox::with(&["a", "b", "c"]);
    sandbox.ok("create next");
    sandbox
}

fn tasks(sandbox: &Sandbox, tube: &str) -> Vec<String> {
    let tasks = sandbox.json(&format!("list {tube} --bodies"));
    let text = |task: &serde_json::Value| {
        format!(
            "{}{}{}",
            task["id"],
            task["state"].as_str().unwrap(),
            task["data"].as_str().unwrap()
        )
    };
    tasks.iter().map(text).collect()
}

#[test]
fn moved_tasks_are_in_the_other_tube() {
    let sandbox = two_tubes();
    sandbox.ok("bury mail 2");
    assert_eq!(sandbox.ok("move mail next 0 2"), "moved task 0\nmoved task 2\n");
    assert_eq!(tasks(&sandbox, "mail"), ["1readyb"]);
    assert_eq!(tasks(&sandbox, "next"), ["0readya", "2buriedc"]);
    let message = sandbox.fails("move mail next 0 1 7", 3);
    assert!(message.contains("mail has no tasks 0, 7"), "{message}");
    assert_eq!(
        sandbox.json("move next mail 0"),
        [json!({"id": 0, "tube": "mail", "state": "ready"})]
    );
    assert_eq!(sandbox.ok("move next mail --all"), "moved 2 tasks to mail\n");
    assert_eq!(
        sandbox.json("move mail next --all"),
        [json!({"tube": "mail", "to": "next", "moved": 3})]
    );
    assert!(sandbox.ok("verify").contains("sound"));
}

#[test]
fn refused_move_changes_nothing() {
    let sandbox = two_tubes();
    sandbox.ok("create plain --driver fifo");
    sandbox.ok("create small --driver limfifottl --capacity 1");
    sandbox.ok("put mail --priority 103 later");
    sandbox.fails("move mail nowhere 0", 4);
    sandbox.fails("move mail mail 0", 2);
    sandbox.fails("move mail next", 2);
    let message = sandbox.fails("move mail plain 3", 2);
    assert!(message.contains("a priority"), "{message}");
    let message = sandbox.fails("move mail small --all", 6);
    assert!(message.contains("full"), "{message}");
    assert_eq!(tasks(&sandbox, "small"), ["0readya"]);
    assert_eq!(tasks(&sandbox, "mail"), ["1readyb", "2readyc", "3readylater"]);
}

#[test]
fn claimed_task_advances_with_its_body_or_another_one() {
    let sandbox = two_tubes();
    let [first, second, third] = ["mail"; 3].map(|tube| sandbox.claim(tube));
    assert_eq!(sandbox.ok(&format!("advance {first} next")), "advanced: task 0 of mail to next\n");
    assert_eq!(
        sandbox.json(&format!("advance {second} next other --priority 101")),
        [json!({"id": 1, "tube": "next", "state": "ready"})]
    );
    assert_eq!(
        sandbox.ok(&format!("advance {third} next --delay 1h")),
        "advanced and delayed: task 2 of mail to next\n"
    );
    assert_eq!(tasks(&sandbox, "next"), ["0readya", "1readyother", "2delayedc"]);
    sandbox.fails(&format!("advance {first} next"), 3);
    assert!(sandbox.ok("verify").contains("sound"));
}

#[test]
fn claimed_task_advances_unchanged() {
    let sandbox = two_tubes();
    sandbox.ok("put mail --priority 3 --max-attempts 4 --ttl 1h urgent");
    let token = sandbox.claim("mail");
    let message = sandbox.fails(&format!("advance {token} next --unchanged --priority 4"), 2);
    assert!(message.contains("--unchanged"), "{message}");
    sandbox.fails(&format!("advance {token} next other --unchanged"), 2);
    let advanced = sandbox.ok(&format!("advance {token} next --unchanged"));
    assert_eq!(advanced, "advanced: task 3 of mail to next\n");
    let task = sandbox.json("peek next 3").remove(0);
    assert_eq!((&task["data"], &task["priority"]), (&json!("urgent"), &json!(3)));
    assert_eq!(task["max_attempts"], 4);
    assert!((3000.0..=3600.0).contains(&task["ttl_left"].as_f64().unwrap()), "{task}");
}

#[test]
fn claim_stands_after_a_refused_advance() {
    let sandbox = two_tubes();
    sandbox.ok("create plain --driver fifo");
    let token = sandbox.claim("mail --for 2h");
    sandbox.fails(&format!("advance {token} plain --delay 1m"), 2);
    sandbox.fails(&format!("advance {token} nowhere"), 4);
    let left = sandbox.json("list mail --state taken")[0]["due_in"].as_f64().unwrap();
    assert!((7000.0..=7200.0).contains(&left), "{left}");
    assert_eq!(sandbox.ok(&format!("ack {token}")), "acked: task 0 of mail\n");
}

#[test]
fn move_selects_tasks_by_state_group_and_tag() {
    let sandbox = two_tubes();
    sandbox.ok("put mail d --tag t");
    for group in ["smtp", "timeout", "smtp"] {
        let token = sandbox.claim("mail");
        sandbox.ok(&format!("bury {token} --group {group}"));
    }
    assert_eq!(sandbox.ok("move mail next --group smtp --limit 1"), "moved 1 task to next\n");
    assert_eq!(tasks(&sandbox, "next"), ["0burieda"]);
    let moved = sandbox.json("move mail next --group smtp");
    assert_eq!(moved, [json!({"tube": "mail", "to": "next", "moved": 1})]);
    let groups = sandbox.json("groups next");
    assert_eq!(groups, [json!({"tube": "next", "name": "smtp", "count": 2})]);
    assert_eq!(sandbox.ok("move mail next --tag t"), "moved 1 task to next\n");
    assert_eq!(sandbox.ok("move mail next --state buried"), "moved 1 task to next\n");
    assert_eq!(sandbox.ok("kick next --group smtp"), "kicked 2 tasks\n");
    sandbox.fails("move mail next", 2);
    sandbox.fails("move mail next 1 --group smtp", 2);
    sandbox.fails("move mail next --limit 1", 2);
    sandbox.fails("move mail next --all --tag t", 2);
    sandbox.fails("move next mail --state done", 2);
}
