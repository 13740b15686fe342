//! Tasks with parents: `put --after`, `add-parents`, `remove-parents`, `parents`, `children`.

use serde_json::{Value, json};

use crate::support::{Sandbox, columns_of};

/// The tubes `mail`, with tasks, and `other`.
fn with_tubes(tasks: &[&str]) -> Sandbox {
    let sandbox = Sandbox::with(tasks);
    sandbox.ok("create other --driver fifo");
    sandbox
}

fn state(sandbox: &Sandbox, task: &str) -> Value {
    sandbox.json(&format!("peek {task}")).remove(0)["state"].clone()
}

#[test]
fn put_after_other_tasks_is_blocked_until_they_are_done() {
    let sandbox = with_tubes(&["a", "b"]);
    sandbox.ok("put other c --key c");
    assert_eq!(sandbox.ok("put mail x --after 0,1"), "put task 3 (blocked)\n");
    let put = sandbox.json("put other y --after 0 --after-tube mail --after-key c");
    assert_eq!(put, [json!({"id": 4, "tube": "other", "state": "blocked"})]);
    assert_eq!(sandbox.json("put other z --after 2 --after 4")[0]["state"], "blocked");
    let parents = |task: &str| sandbox.ids(&format!("parents {task}"));
    assert_eq!(
        (parents("mail 3"), parents("other 4"), parents("other 5")),
        (vec![0, 1], vec![0, 2], vec![2, 4])
    );
    assert_eq!(sandbox.json("peek other 4")[0]["open_parents"], 2);
    assert!(sandbox.fails("claim mail 3", 6).contains("waits for"));

    assert_eq!(sandbox.ok("pop mail"), "a");
    assert_eq!((state(&sandbox, "mail 3"), parents("other 4")), (json!("blocked"), vec![2]));
    assert_eq!(sandbox.ok("pop mail"), "b");
    assert_eq!(sandbox.ok("pop mail"), "x");
    sandbox.fails("pop mail", 3);
    // A parent that is done is not waited for.
    assert_eq!(sandbox.json("put mail late --after 0,1")[0]["state"], "ready");
    assert_eq!(["c", "y", "z"].map(|_| sandbox.ok("pop other")), ["c", "y", "z"]);
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn put_after_tasks_that_do_not_exist_is_refused() {
    let sandbox = with_tubes(&["a"]);
    assert!(sandbox.fails("put mail x --after 1", 3).contains("task 1 not found"));
    assert!(sandbox.fails("put mail x --after-key k", 3).contains("no task has the key \"k\""));
    assert!(sandbox.fails("put mail x --after 0 --after-tube mial", 4).contains("\"mail\""));
    assert!(sandbox.fails("put mail x --after -1", 2).contains("whole number"));
    sandbox.fails("put mail x --after-tube mail", 2);
    sandbox.fails("put mail x --after 0 --on-parent never", 2);
    assert_eq!(sandbox.ids("list mail"), [0]);
}

#[test]
fn on_parent_decides_what_happens_when_a_parent_is_buried_or_removed() {
    let sandbox = with_tubes(&["a", "b"]);
    let states = || [2, 3, 4].map(|id| state(&sandbox, &format!("other {id}")));
    for rule in ["wait", "release", "bury"] {
        sandbox.ok(&format!("put other {rule} --after 0,1 --after-tube mail --on-parent {rule}"));
    }
    assert_eq!(states(), ["blocked"; 3]);
    sandbox.ok("bury mail 0");
    assert_eq!(states(), ["blocked", "blocked", "buried"]);
    assert_eq!(sandbox.ids("parents other 3"), [1]);
    assert_eq!(sandbox.json("groups other")[0]["name"], "parent-buried");
    sandbox.ok("truncate mail");
    assert_eq!(states(), ["buried", "ready", "buried"]);
    let groups = [2, 4].map(|id| sandbox.json(&format!("peek other {id}"))[0]["group"].clone());
    assert_eq!(groups, ["parent-gone", "parent-buried"]);
    // Neither has a parent that is left.
    sandbox.ok("kick other --all");
    assert_eq!(states(), ["ready"; 3]);
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn parents_are_added_removed_and_listed() {
    let sandbox = with_tubes(&["a", "b", "c"]);
    sandbox.ok("put other d");
    assert_eq!(sandbox.ok("parents mail 2"), "task 2: waits for no task\n");
    assert_eq!(sandbox.ok("children mail 0"), "task 0: no task waits for it\n");
    assert_eq!(sandbox.json("parents mail 2"), [] as [Value; 0]);

    assert_eq!(sandbox.ok("add-parents mail 2 0 1"), "task 2 is blocked\n");
    let added = sandbox.json("add-parents mail 2 3 --parent-tube other");
    assert_eq!(added, [json!({"id": 2, "tube": "mail", "state": "blocked"})]);
    sandbox.ok("add-parents mail 1 0");
    let of = |id, tube, state| json!({"id": id, "tube": tube, "state": state});
    assert_eq!(
        sandbox.json("parents mail 2"),
        [of(0, "mail", "ready"), of(1, "mail", "blocked"), of(3, "other", "ready")]
    );
    assert_eq!(
        sandbox.ok("parents mail 2"),
        "ID  TUBE   STATE\n 0  mail   ready\n 1  mail   blocked\n 3  other  ready\n"
    );
    assert_eq!(
        sandbox.json("children mail 0"),
        [of(1, "mail", "blocked"), of(2, "mail", "blocked")]
    );
    assert_eq!(sandbox.json("children other 3"), [of(2, "mail", "blocked")]);

    assert_eq!(sandbox.ok("remove-parents mail 2 1 0"), "task 2 is blocked\n");
    assert_eq!(sandbox.ids("parents mail 2"), [3]);
    assert_eq!(sandbox.ok("remove-parents mail 2 --all"), "task 2 is ready\n");
    assert_eq!(sandbox.json("remove-parents mail 1 0")[0]["state"], "ready");
    assert_eq!(sandbox.json("remove-parents mail 1 0")[0]["state"], "ready");
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn refused_changes_of_parents_change_nothing() {
    let sandbox = with_tubes(&["a", "b", "c"]);
    sandbox.ok("add-parents mail 1 0");
    assert!(sandbox.fails("add-parents mail 0 1", 6).contains("task 0 would wait for itself"));
    assert!(sandbox.fails("add-parents mail 0 0", 6).contains("would wait for itself"));
    assert!(sandbox.fails("add-parents mail 9 0", 3).contains("mail has no task 9"));
    assert!(sandbox.fails("add-parents mail 2 0 9", 3).contains("task 9 not found"));
    assert!(sandbox.fails("add-parents mail 2 0 --parent-tube x", 4).contains("\"x\" not found"));
    assert!(sandbox.fails("remove-parents mail 9 --all", 3).contains("mail has no task 9"));
    for verb in ["parents", "children"] {
        assert!(sandbox.fails(&format!("{verb} mail 9"), 3).contains("mail has no task 9"));
        sandbox.fails(&format!("{verb} mail"), 2);
    }
    for words in [
        "add-parents mail 2",
        "add-parents mail 2 x",
        "remove-parents mail 2",
        "remove-parents mail 2 0 --all",
    ] {
        sandbox.fails(words, 2);
    }
    let token = sandbox.claim("mail 2");
    assert!(sandbox.fails("add-parents mail 2 0", 6).contains("task 2 is not free"));
    sandbox.ok(&format!("release {token}"));
    sandbox.ok("bury mail 2");
    assert!(sandbox.fails("add-parents mail 2 0", 6).contains("it is buried; kick it first"));
    assert_eq!((sandbox.ids("children mail 0"), sandbox.ids("parents mail 2")), (vec![1], vec![]));
}

#[test]
fn task_that_others_wait_for_is_not_deleted() {
    let sandbox = with_tubes(&["a", "b", "c", "d"]);
    sandbox.ok("add-parents mail 1 0");
    sandbox.ok("add-parents mail 2 0");
    assert!(sandbox.fails("delete mail 0 3", 6).contains("2 tasks wait for task 0"));
    assert_eq!(sandbox.ok("delete mail 3"), "deleted task 3\n");
    assert!(sandbox.fails("cancel mail 0", 6).contains("2 tasks wait for task 0"));
    assert_eq!(sandbox.ok("resolve mail 0"), "resolved task 0\n");
    assert_eq!(sandbox.ids("list mail --state ready"), [1, 2]);
}

#[test]
fn stats_list_and_peek_show_blocked_tasks() {
    let sandbox = with_tubes(&["a", "b", "c"]);
    sandbox.ok("add-parents mail 2 0 1");
    let stats = sandbox.ok("stats mail");
    let columns = columns_of(&stats);
    let head = ["TUBE", "READY", "TAKEN", "DELAYED", "BLOCKED", "BURIED", "TOTAL", "KEPT"];
    assert_eq!(columns[0], head);
    assert_eq!(columns[1], ["mail", "2", "0", "0", "1", "0", "3", "0"]);
    assert_eq!(sandbox.json("stats mail")[0]["blocked"], 1);
    let table = sandbox.ok("list mail");
    let columns = columns_of(&table);
    assert_eq!(columns[0][5..7], ["ATTEMPTS", "PARENTS"]);
    assert_eq!((columns[1][6], columns[3][1], columns[3][6]), ("-", "blocked", "2"));
    let listed = sandbox.json("list mail --state blocked");
    assert_eq!((listed.len(), &listed[0]["open_parents"]), (1, &json!(2)));
    let peeked = sandbox.ok("peek mail 2");
    assert!(peeked.contains("state     blocked\n") && peeked.contains("waits for 2 tasks\n"));
    assert!(!sandbox.ok("peek mail 0").contains("waits for"));
}

/// The children of a parent are freed in the commit of its end up to 64, the others soon after it.
/// A command shows them as they will be.
#[test]
fn commands_see_all_children_of_a_parent_that_has_ended() {
    let sandbox = with_tubes(&["parent"]);
    let store = tubewell::Store::open(sandbox.store()).unwrap();
    let [mail, other] = ["mail", "other"].map(|name| store.find_tube(name).unwrap());
    let put = |_| tubewell::Put::new("child").after(&mail, [0]);
    other.put_many((0..2000).map(put)).unwrap();
    drop((mail, other));
    store.close().unwrap();
    sandbox.ok("resolve mail 0");
    let counts = &sandbox.json("stats other")[0];
    assert_eq!((&counts["ready"], &counts["blocked"]), (&json!(2000), &json!(0)));
}

#[test]
fn work_once_runs_blocked_tasks_after_their_parents() {
    let sandbox = with_tubes(&["1", "2"]);
    sandbox.ok("put mail 3 --after 0,1");
    sandbox.ok("put other 4 --after 2 --after-tube mail");
    sandbox.ok("put mail 5 --after 3 --after-tube other");
    let mut work = sandbox.work("mail other --once --jobs 2", "echo $(cat)");
    assert_eq!(work.ends(), 0);
    let mut lines = work.rest_of_output();
    lines.retain(|line| line.len() == 1);
    lines[..2].sort();
    assert_eq!(lines, ["1", "2", "3", "4", "5"]);
    assert_eq!(sandbox.json("stats mail")[0]["total"], 0);
}

/// The child is freed in a step of its own, after the burial of its parent.
#[test]
fn work_once_runs_tasks_that_a_buried_parent_releases() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create mail --driver fifo --max-attempts 1");
    sandbox.ok("put mail bad");
    sandbox.ok("put mail child --after 0 --on-parent release");
    let mut work = sandbox.work("mail --once", "test $(cat) = child && echo ran");
    assert_eq!(work.ends(), 7);
    let output = work.rest_of_output();
    assert!(output.contains(&"ran".to_owned()), "{output:?} {}", sandbox.ok("stats mail --json"));
    let counts = &sandbox.json("stats mail")[0];
    assert_eq!((&counts["buried"], &counts["total"]), (&json!(1), &json!(1)));
}

#[test]
fn peek_says_how_far_the_tasks_are_that_a_task_waits_for() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create parts");
    sandbox.ok("create whole");
    for part in ["a", "b", "c", "d"] {
        sandbox.ok(&format!("put parts {part}"));
    }
    sandbox.ok("put whole join --after 0,1,2,3 --after-tube parts");
    let waits_for = || {
        let text = sandbox.ok("peek whole 4");
        let line = text.lines().find_map(|line| line.strip_prefix("waits for")).unwrap();
        line.trim().to_owned()
    };
    assert_eq!(waits_for(), "4 tasks");
    sandbox.ok("pop parts");
    sandbox.ok("bury parts 1");
    assert_eq!(waits_for(), "3 of 4 tasks: 1 done, 1 buried");
    let parents = &sandbox.json("peek whole 4")[0]["parents"];
    let expected = json!({"total": 4, "done": 1, "failed": 0, "open": 3, "taken": 0, "buried": 1});
    assert_eq!(*parents, expected);
}
