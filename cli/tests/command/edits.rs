//! `update`, `cancel`, deletes on a condition, `kick --group`, and both in all tubes.

use serde_json::json;

use crate::support::Sandbox;

/// Buries the next task of `mail` in a failure group.
fn bury_next(sandbox: &Sandbox, group: &str) {
    sandbox.ok(&format!("bury {} --group {group}", sandbox.claim("mail")));
}

#[test]
fn update_changes_the_priority_of_tasks_in_any_state() {
    let sandbox = Sandbox::with(&["a", "b", "c", "d"]);
    sandbox.ok("claim mail 2");
    sandbox.ok("bury mail 3");
    assert_eq!(sandbox.ok("update mail 0 --priority 107"), "updated task 0\n");
    assert_eq!(sandbox.ids("list mail --state ready"), [1, 0]);
    let updated = sandbox.json("update mail 2 3 --priority 105");
    let state = |id, state| json!({"id": id, "tube": "mail", "state": state});
    assert_eq!(updated, [state(2, "taken"), state(3, "buried")]);
    assert_eq!(sandbox.json("peek mail 2")[0]["priority"], 105);
    sandbox.ok("release-all mail");
    assert_eq!(sandbox.ids("list mail --state ready"), [1, 2, 0]);
}

#[test]
fn update_changes_bodies_and_delays_of_tasks_that_wait() {
    let sandbox = Sandbox::with(&["a", "b", "c"]);
    assert_eq!(sandbox.ok("update mail 0 --body new"), "updated task 0\n");
    sandbox.feed("update mail 1 --body-file - --priority 3", b"from a pipe").expect(0);
    assert_eq!(sandbox.ok("peek mail 0 --body"), "new");
    assert_eq!(sandbox.ok("peek mail 1 --body"), "from a pipe");
    assert_eq!(sandbox.json("peek mail 1")[0]["priority"], 3);
    assert_eq!(sandbox.json("update mail 0 --delay 1h")[0]["state"], "delayed");
    assert_eq!(sandbox.counts(), (2, 1, 0));
    assert_eq!(sandbox.json("update mail 0 --delay 0")[0]["state"], "ready");
    sandbox.ok("claim mail 2");
    let partly = sandbox.run("update mail 2 0 9 --body x").expect(3);
    assert_eq!(partly.text(), "updated task 0\n");
    assert!(partly.err.contains("task 2 is not free") && partly.err.contains("no task 9"));
    assert!(sandbox.fails("update mail 2 --body x", 6).contains("has taken it"));
    assert!(sandbox.fails("update mail 0 --body-file nowhere", 1).contains("nowhere"));
    assert_eq!(sandbox.ok("peek mail 2 --body"), "c");
}

#[test]
fn update_replaces_the_tags_of_tasks_that_wait() {
    let sandbox = Sandbox::with(&[]);
    for body in ["a", "b", "c"] {
        sandbox.ok(&format!("put mail {body} --tag old --tag both"));
    }
    let tags = |id| sandbox.json(&format!("peek mail {id}"))[0]["tags"].clone();
    assert_eq!(sandbox.ok("update mail 0 --tag both --tag new --tag both"), "updated task 0\n");
    assert_eq!((tags(0), tags(1)), (json!(["both", "new"]), json!(["old", "both"])));
    sandbox.ok("update mail 0 --priority 7 --tag urgent");
    assert_eq!(sandbox.json("peek mail 0")[0]["priority"], 7);
    assert_eq!(tags(0), json!(["urgent"]));
    sandbox.ok("update mail 0 --body new --priority 1");
    assert_eq!(tags(0), json!(["urgent"]), "they stay");
    sandbox.ok("bury mail 1");
    sandbox.ok("update mail 1 --tag seen");
    assert_eq!((sandbox.ids("tagged seen"), sandbox.ids("tagged old")), (vec![1], vec![2]));
    sandbox.ok("claim mail 2");
    assert!(sandbox.fails("update mail 2 --tag x", 6).contains("has taken it"));
    sandbox.fails("update mail 2 --priority 3 --tag x", 6);
    sandbox.fails("update mail 0 --tag=", 2);
    assert_eq!((tags(0), tags(2)), (json!(["urgent"]), json!(["old", "both"])));
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn update_that_names_nothing_or_too_much_is_refused() {
    let sandbox = Sandbox::with(&["a"]);
    let message = sandbox.fails("update mail 0", 2);
    assert!(message.contains("does not say what to change") && message.contains("--body-file"));
    sandbox.fails("update mail --priority 1", 2);
    sandbox.fails("update mail 0 --priority -1", 2);
    sandbox.fails("update mail 0 --body a --body-file b", 2);
    sandbox.ok("create plain --driver fifo");
    sandbox.ok("put plain x");
    assert!(sandbox.fails("update plain 1 --priority 0", 2).contains("priority"));
}

#[test]
fn cancel_deletes_tasks_that_have_not_begun() {
    let sandbox = Sandbox::with(&["a", "b", "c"]);
    sandbox.ok("claim mail 1");
    let partly = sandbox.run("cancel mail 0 1 2").expect(6);
    assert_eq!(partly.text(), "cancelled task 0\ncancelled task 2\n");
    assert!(partly.err.contains("task 1 is not free"), "{}", partly.err);
    assert!(sandbox.fails("cancel mail 0 1", 3).contains("mail has no task 0"));
    assert_eq!(sandbox.ids("list mail"), [1]);
}

#[test]
fn delete_if_deletes_in_the_named_states_only() {
    let sandbox = Sandbox::with(&["a", "b", "c"]);
    sandbox.ok("bury mail 1");
    let partly = sandbox.run("delete mail 0 1 2 --if ready,delayed").expect(6);
    assert_eq!(partly.text(), "deleted task 0\ndeleted task 2\n");
    assert_eq!(partly.err, "tubewell: task 1 is buried, not ready or delayed; it is unchanged\n");
    sandbox.fails("delete mail --if ready", 2);
    assert_eq!(sandbox.ids("list mail"), [1]);
}

#[test]
fn delete_and_kick_select_tasks_by_state_and_group() {
    let sandbox = Sandbox::with(&["a", "b", "c", "d", "e", "f", "g"]);
    for group in ["timeout", "timeout", "smtp", "timeout"] {
        bury_next(&sandbox, group);
    }
    assert_eq!(sandbox.ok("kick mail --group timeout --count 1"), "kicked 1 task\n");
    assert_eq!(sandbox.ids("list mail --state ready"), [0, 4, 5, 6]);
    assert_eq!(sandbox.json("delete mail --group smtp"), [json!({"tube": "mail", "deleted": 1})]);
    assert_eq!(sandbox.ok("delete mail --state ready --limit 2"), "deleted 2 tasks\n");
    assert_eq!(sandbox.ids("list mail"), [5, 6, 1, 3]);
    assert_eq!(sandbox.ok("delete mail --state buried"), "deleted 2 tasks\n");
    assert_eq!(sandbox.ok("delete mail --group timeout"), "deleted 0 tasks\n");
    let message = sandbox.fails("delete mail", 2);
    assert!(message.contains("which tasks") && message.contains("truncate"), "{message}");
    sandbox.fails("delete mail 5 --state ready", 2);
    sandbox.fails("delete mail --limit 1", 2);
    sandbox.fails("kick mail 5 --group g", 2);
    assert_eq!(sandbox.ids("list mail"), [5, 6]);
}

/// Buried tasks of one group in two tubes, and a ready one.
fn two_tubes() -> Sandbox {
    let sandbox = Sandbox::with(&["a", "b"]);
    sandbox.ok("create news");
    sandbox.ok("put news c --tag t");
    bury_next(&sandbox, "smtp");
    let token = sandbox.claim("news");
    sandbox.ok(&format!("bury {token} --group smtp"));
    sandbox
}

#[test]
fn kick_and_delete_select_tasks_of_all_tubes() {
    let sandbox = two_tubes();
    assert_eq!(sandbox.ok("kick --all-tubes --group smtp --count 1"), "kicked 1 task\n");
    assert_eq!(sandbox.ids("list news --state buried"), [2]);
    let kicked = sandbox.json("kick --all-tubes --tag t");
    assert_eq!(kicked, [json!({"tube": null, "kicked": 1})]);
    assert_eq!(sandbox.ok("kick --all-tubes --all"), "kicked 0 tasks\n");
    assert_eq!(sandbox.ok("delete --all-tubes --tag t"), "deleted 1 task\n");
    let deleted = sandbox.json("delete --all-tubes --state ready --limit 1");
    assert_eq!(deleted, [json!({"tube": null, "deleted": 1})]);
    assert_eq!(sandbox.ids("list mail"), [1]);
    let message = sandbox.fails("delete --all-tubes", 2);
    assert!(message.contains("--id ID") && !message.contains("truncate"), "{message}");
    assert!(sandbox.fails("kick --all-tubes", 2).contains("kick --all-tubes --all"));
    for words in [
        "kick --all",
        "kick mail --all-tubes --all",
        "kick --all-tubes 1",
        "delete --tag t",
        "delete mail --id 1",
        "delete mail --all-tubes --tag t",
        "delete --all-tubes --id 1 --limit 1",
        "delete --all-tubes --tag t --with-dependents 1",
    ] {
        sandbox.fails(words, 2);
    }
    assert_eq!(sandbox.ids("list mail"), [1]);
}

#[test]
fn delete_of_ids_in_all_tubes_deletes_chains_together() {
    let sandbox = two_tubes();
    sandbox.ok("put news d --after 1 --after-tube mail");
    sandbox.ok("put mail e --after 3 --after-tube news");
    let refused = sandbox.fails("delete --all-tubes --id 1,3", 6);
    assert!(refused.contains("1 tasks wait for task 3"), "{refused}");
    sandbox.fails("delete --all-tubes --id 1 --with-dependents 2", 6);
    assert_eq!(sandbox.ids("list mail"), [1, 4, 0]);
    let deleted = sandbox.ok("delete --all-tubes --id 1 --with-dependents 3");
    assert_eq!(deleted, "deleted 3 tasks\n");
    let partly = sandbox.run("delete --all-tubes --id 0,2 --id 77").expect(3);
    assert_eq!(partly.text(), "deleted 2 tasks\n");
    assert_eq!(partly.err, "tubewell: no tube has a task 77\n");
    assert!(sandbox.ok("verify").starts_with("sound"));
}
