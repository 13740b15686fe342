//! `claim`, `ack`, `release`, `renew` and `revoke`: claims that outlive a command.

use serde_json::json;

use crate::support::{Sandbox, run};

/// A store with three tasks, and the token of the first.
fn claimed(options: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::with(&["a", "b", "c"]);
    let claimed = sandbox.ok(&format!("claim mail {options}"));
    let (token, body) = claimed.split_once('\n').unwrap();
    assert_eq!(body, "a");
    (sandbox, token.to_owned())
}

fn states(sandbox: &Sandbox) -> Vec<String> {
    let tasks = sandbox.json("list mail");
    tasks.iter().map(|task| format!("{}{}", task["id"], task["state"].as_str().unwrap())).collect()
}

#[test]
fn claimed_task_stays_taken_for_later_commands_until_it_is_acked() {
    let (sandbox, token) = claimed("");
    assert_eq!(states(&sandbox), ["1ready", "2ready", "0taken"]);
    assert_eq!(sandbox.ok("pop mail"), "b");
    assert_eq!(
        sandbox.json(&format!("ack {token}")),
        [json!({"id": 0, "tube": "mail", "state": "done"})]
    );
    assert_eq!(states(&sandbox), ["2ready"]);
    for command in ["ack", "release", "renew"] {
        let message = sandbox.fails(&format!("{command} {token}"), 3);
        assert!(message.contains("the claim on task 0 of mail has ended"), "{message}");
    }
    assert!(sandbox.ok("verify").contains("sound"));
}

#[test]
fn claim_as_json_has_the_token_and_the_task() {
    let sandbox = Sandbox::with(&["a", "b"]);
    let mut claimed = sandbox.json("claim mail 1 --for 2h").remove(0);
    let token = claimed.as_object_mut().unwrap().remove("token").unwrap();
    assert_eq!(
        claimed,
        json!({
            "id": 1, "tube": "mail", "pri": 0, "sub_queue": null, "key": null, "tags": [], "takes": 1,
            "attempts": 1, "attempts_left": null, "size": 1, "data": "b",
        })
    );
    let left = sandbox.json("list mail --state taken")[0]["due_in"].as_f64().unwrap();
    assert!((7000.0..=7200.0).contains(&left), "{left}");
    assert_eq!(sandbox.ok(&format!("ack {}", token.as_str().unwrap())), "acked: task 1 of mail\n");
}

#[test]
fn released_task_is_ready_or_delayed() {
    let (sandbox, token) = claimed("");
    assert_eq!(sandbox.ok(&format!("release {token}")), "released: task 0 of mail\n");
    assert_eq!(states(&sandbox), ["0ready", "1ready", "2ready"]);
    let (sandbox, token) = claimed("");
    sandbox.ok(&format!("release {token} --delay 1h"));
    assert_eq!(states(&sandbox), ["1ready", "2ready", "0delayed"]);
}

#[test]
fn renewed_claim_keeps_its_token() {
    let (sandbox, token) = claimed("--for 60s");
    assert_eq!(sandbox.ok(&format!("renew {token} --for 2h")), "renewed for 2h: task 0 of mail\n");
    let left = sandbox.json("list mail --state taken")[0]["due_in"].as_f64().unwrap();
    assert!((7000.0..=7200.0).contains(&left), "{left}");
    sandbox.ok(&format!("renew {token} --for 0"));
    assert_eq!(states(&sandbox), ["0ready", "1ready", "2ready"]);
}

#[test]
fn revoked_task_is_ready_and_its_token_is_refused() {
    let (sandbox, token) = claimed("--for never");
    let message = sandbox.fails("revoke mail 0 1 9", 3);
    assert!(message.contains("task 1 of mail is not taken; mail has no task 9"), "{message}");
    sandbox.fails(&format!("ack {token}"), 3);
    assert_eq!(states(&sandbox), ["0ready", "1ready", "2ready"]);
}

#[test]
fn claim_of_a_task_that_cannot_be_taken_is_refused() {
    let (sandbox, _) = claimed("");
    assert!(sandbox.fails("claim mail 0", 6).contains("has taken it"));
    assert!(sandbox.fails("claim mail 9", 3).contains("mail has no task 9"));
    sandbox.ok("bury mail 1");
    assert!(sandbox.fails("claim mail 1", 6).contains("it is buried"));
    sandbox.ok("delete mail 2");
    let message = sandbox.fails("claim mail", 3);
    assert!(message.contains("no task to claim in mail (1 taken, 1 buried)"), "{message}");
    assert!(sandbox.fails("ack nonsense", 2).contains("is not the token of a parked claim"));
    assert!(sandbox.fails("claim mail 1 --timeout 1s", 2).contains("--timeout"));
}

#[test]
fn task_is_ready_again_if_its_token_cannot_be_printed() {
    let sandbox = Sandbox::with(&["a"]);
    let script = "tubewell claim mail > /dev/full";
    let done = run(sandbox.shell("bash", script), b"").expect(1);
    assert!(done.err.contains("task 0 is ready again"), "{}", done.err);
    assert_eq!(states(&sandbox), ["0ready"]);
}

#[test]
fn body_of_a_claimed_task_is_printed_unchanged() {
    let sandbox = Sandbox::with(&[]);
    sandbox.feed("put mail -", b"bytes \xff\n and \0").expect(0);
    let out = sandbox.run("claim mail").expect(0).out;
    let line = out.iter().position(|byte| *byte == b'\n').unwrap();
    assert_eq!(&out[line + 1..], b"bytes \xff\n and \0");
}
