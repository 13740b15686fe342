//! Tags: `put --tag`, `tagged`, `tags`, `add-tags`, `remove-tags`, the conditions of `list`, and their
//! way through `import` and `export`.

use serde_json::{Value, json};

use crate::support::{Sandbox, columns_of};

fn tags_of(tasks: &[Value]) -> Vec<Value> {
    tasks.iter().map(|task| json!([task["id"], task["tags"]])).collect()
}

/// Tasks 0 to 4 with tags, of which 3 is in another tube.
fn with_tags() -> Sandbox {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create other");
    sandbox.ok("put mail a --tag x --tag y");
    sandbox.ok("put mail b --tag x");
    sandbox.ok("put mail c");
    sandbox.ok("put other d --tag x --tag z");
    sandbox.ok("put mail e --tag y --tag x --tag y");
    sandbox
}

#[test]
fn put_with_tags_shows_them() {
    let sandbox = with_tags();
    assert_eq!(sandbox.json("peek mail 4")[0]["tags"], json!(["y", "x"]));
    let shown = sandbox.ok("peek mail 4");
    assert!(shown.contains("tags      y, x\n"), "{shown}");
    assert!(!sandbox.ok("peek mail 2").contains("tags"));
    assert_eq!(sandbox.json("pop mail")[0]["tags"], json!(["x", "y"]));
    sandbox.fails("put mail x --tag=", 2);
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn tagged_lists_the_tasks_of_all_tubes() {
    let sandbox = with_tags();
    assert_eq!(sandbox.ids("tagged x"), [0, 1, 3, 4]);
    assert_eq!(sandbox.ids("tagged x --limit 2 --skip 1"), [1, 3]);
    assert_eq!(sandbox.ids("tagged x --all --skip 3"), [4]);
    assert_eq!(sandbox.tasks("tagged z"), sandbox.tasks("peek other 3"));
    let table = sandbox.ok("tagged x");
    let columns = columns_of(&table);
    assert_eq!(columns[0][..2], ["ID", "TUBE"]);
    assert_eq!(columns[3][..2], ["3", "other"]);
    let bodies = sandbox.ok("tagged z --bodies");
    assert!(bodies.starts_with("tube      other\ntask      3\n"), "{bodies}");
    assert_eq!(sandbox.ok("tagged unknown"), "no tasks with the tag \"unknown\"\n");
    assert_eq!(sandbox.ok("tagged x --skip 9"), "no more tasks with the tag \"x\"\n");
    let more = sandbox.run("tagged x --limit 2").expect(0);
    assert!(more.err.contains("give --skip 2"), "{}", more.err);
}

#[test]
fn tags_lists_those_that_several_tasks_have() {
    let sandbox = with_tags();
    let expected = [json!({"tag": "x", "tasks": 4}), json!({"tag": "y", "tasks": 2})];
    assert_eq!(sandbox.json("tags"), expected);
    assert_eq!(sandbox.json("tags --limit 1"), expected[..1]);
    assert_eq!(sandbox.json("tags --limit 1 --skip 1"), expected[1..]);
    assert_eq!(sandbox.json("tags --all --skip 1"), expected[1..]);
    assert_eq!(sandbox.ok("tags --skip 2"), "no more tags that several tasks have\n");
    let hint = "there are more; for the next ones give --skip 1, for all --all";
    assert!(sandbox.fails("tags --limit 1", 0).contains(hint));
    assert!(!sandbox.fails("tags --limit 2", 0).contains("there are more"));
    assert_eq!(columns_of(&sandbox.ok("tags")), [["TAG", "TASKS"], ["x", "4"], ["y", "2"]]);
    sandbox.ok("delete mail 0");
    sandbox.ok("truncate mail");
    sandbox.ok("drop mail");
    // The rows of a dropped tube are removed while a command has the store open.
    let are_removed = || sandbox.ok("tags") == "no tags that several tasks have\n";
    assert!((0..500).any(|_| are_removed()));
}

#[test]
fn tags_of_a_task_are_added_and_removed() {
    let sandbox = with_tags();
    let added = json!({"id": 2, "tube": "mail", "tags": ["n", "m"]});
    assert_eq!(sandbox.json("add-tags mail 2 n m n"), [added]);
    assert_eq!(sandbox.ok("remove-tags mail 2 n unknown"), "tags of task 2: m\n");
    assert_eq!(sandbox.ok("remove-tags mail 2 m"), "task 2 has no tags\n");
    sandbox.fails("add-tags mail 9 x", 3);
    sandbox.fails("add-tags mail 2", 2);
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn list_has_conditions() {
    let sandbox = with_tags();
    sandbox.ok("bury mail 1");
    assert_eq!(sandbox.ids("list mail --tag x"), [0, 4, 1]);
    assert_eq!(sandbox.ids("list mail --tag x --state buried"), [1]);
    assert_eq!(sandbox.ids("list mail --tag x --newest-first"), [4, 0, 1]);
    assert_eq!(sandbox.ids("list mail --tag x --limit 1 --skip 1"), [4]);
    assert_eq!(sandbox.ids("list mail --newest-first --state ready"), [4, 2, 0]);
    assert_eq!(sandbox.ok("list mail --tag z"), "no tasks\n");
    assert_eq!(sandbox.ok("list mail --owner ann"), "no tasks\n");
    sandbox.ok("create crawl --driver utube");
    sandbox.ok("put crawl a --sub-queue one");
    sandbox.ok("put crawl b --sub-queue two");
    assert_eq!(sandbox.ids("list crawl --sub-queue two"), [6]);
    sandbox.fails("list mail --tag x --group g", 2);
    sandbox.ok("create later --driver fifottl");
    for (delay, tag) in [(30, "x"), (10, "x"), (20, "y")] {
        sandbox.ok(&format!("put later task --delay {delay}m --tag {tag}"));
    }
    assert_eq!(sandbox.ids("list later --soonest-first"), [8, 9, 7]);
    assert_eq!(sandbox.ids("list later --soonest-first --tag x"), [8, 7]);
    assert_eq!(sandbox.ids("list later --soonest-first --limit 1 --skip 1"), [9]);
    sandbox.fails("list later --soonest-first --newest-first", 2);
    sandbox.fails("list later --soonest-first --state delayed", 2);
}

#[test]
fn delete_and_kick_select_by_tag() {
    let sandbox = with_tags();
    sandbox.ok("bury mail 0 1 2");
    assert_eq!(sandbox.ok("kick mail --tag y"), "kicked 1 task\n");
    assert_eq!(sandbox.ids("list mail --state buried"), [1, 2]);
    assert_eq!(sandbox.ok("delete mail --tag x --state buried"), "deleted 1 task\n");
    assert_eq!(sandbox.ok("delete mail --tag x"), "deleted 2 tasks\n");
    assert_eq!(sandbox.ids("tagged x"), [3]);
}

#[test]
fn find_shows_the_task_with_an_id() {
    let sandbox = with_tags();
    assert_eq!(sandbox.tasks("find --id 3"), sandbox.tasks("peek other 3"));
    assert!(sandbox.fails("find --id 9", 3).contains("no task has the id 9"));
    sandbox.fails("find", 2);
    sandbox.fails("find key --id 3", 2);
}

#[test]
fn work_passes_the_tags_to_its_command() {
    let sandbox = Sandbox::with(&["plain"]);
    sandbox.ok("put mail tagged --tag b --tag a");
    let script = "work mail --once -- sh -c";
    let mut words: Vec<&str> = script.split(' ').collect();
    words.push("echo $TUBEWELL_TAGS.");
    let ended = crate::support::run(sandbox.command(&words), b"").expect(0);
    assert_eq!(ended.text(), ".\nb a.\n");
}

#[test]
fn import_stores_the_tags_of_lines_and_of_the_command_line() {
    let sandbox = Sandbox::with(&[]);
    let lines = br#"{"data": "1", "tags": ["a", "b"]}
{"data": "2"}
{"data": "3", "tags": []}
"#;
    sandbox.feed("import mail --format json --tag c", lines).expect(0);
    let expected = [json!([0, ["a", "b"]]), json!([1, ["c"]]), json!([2, []])];
    assert_eq!(tags_of(&sandbox.json("list mail")), expected);
    sandbox.feed("import mail --format json", br#"{"data": "1", "tags": [""]}"#).expect(7);
    sandbox.fails("import --all --tag x", 2);
}

#[test]
fn export_and_import_keep_the_tags_of_every_task() {
    let sandbox = with_tags();
    sandbox.ok("create kept --keep-done all");
    sandbox.ok("put kept done --tag x");
    sandbox.ok("resolve kept 5");
    sandbox.ok("bury mail 1");
    sandbox.ok("put mail child --after 0 --tag x --tag w");
    let export = sandbox.run("export -").expect(0).out;
    let copy = Sandbox::empty();
    copy.feed("import --all", &export).expect(0);
    for words in ["tagged x", "tagged w", "tags", "list mail"] {
        let times = |mut task: Value| {
            for time in ["age", "ttl_left", "failure"] {
                task[time] = Value::Null;
            }
            task
        };
        let shown = |sandbox: &Sandbox| -> Vec<Value> {
            sandbox.json(words).into_iter().map(times).collect()
        };
        assert_eq!(shown(&copy), shown(&sandbox), "{words}");
    }
    assert_eq!(copy.ids("tagged x"), [0, 1, 3, 4, 5, 6]);
    assert!(copy.ok("verify").starts_with("sound"));
    // A line without tags has no field for them.
    let lines = String::from_utf8(export).unwrap();
    assert!(lines.lines().filter(|line| line.contains("\"tags\"")).count() == 6, "{lines}");
}
