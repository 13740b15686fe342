//! `export`, `import --all` and `backup` keep attempts and failures.

use serde_json::{Value, json};

use crate::support::{Sandbox, run};

/// A store with a task for each way in which attempts were counted and failures recorded.
fn store_with_attempts() -> Sandbox {
    let sandbox = Sandbox::empty();
    sandbox.ok("create jobs --max-attempts 2 --backoff 1h,factor=2 --keep-buried age=7d");
    sandbox.ok("create plain --driver utube");
    let tasks = ["delayed", "spent", "snoozed", "invalid", "aside", "kicked", "new"];
    sandbox.feed("import jobs", tasks.join("\n").as_bytes()).expect(0);
    let token = |id: u64| sandbox.claim(&format!("jobs {id}"));
    let fail = |id: u64, message: &str| {
        let token = token(id);
        let words = ["fail", &token, "--group", "timeout", "--message", message];
        run(sandbox.command(&[&words[..], &["--delay", "0"]].concat()), b"").expect(0);
    };
    sandbox.ok(&format!("fail {} --group busy", token(0)));
    fail(1, "no\u{e9}\nanswer");
    fail(1, "again");
    sandbox.ok(&format!("snooze {} 2h", token(2)));
    sandbox.ok(&format!("bury {} --group invalid --message address", token(3)));
    // Buried by another caller: it has a failure, and is in no group.
    fail(4, "");
    sandbox.ok("bury jobs 4");
    fail(5, "1");
    fail(5, "2");
    sandbox.ok("kick jobs 5");
    sandbox.ok("put plain limited --max-attempts 9 --sub-queue a");
    sandbox.ok("put plain plain --sub-queue b");
    sandbox.fails("work plain --once -- false", 7);
    sandbox
}

/// The tasks without the parts that depend on the time.
fn tasks(sandbox: &Sandbox) -> Vec<Value> {
    let mut tasks = [sandbox.tasks("list jobs"), sandbox.tasks("list plain")].concat();
    for task in &mut tasks {
        if let Some(due) = task["due_in"].as_f64() {
            task["due_in"] = json!((due / 600.0).ceil());
        }
        if let Some(failure) = task["failure"].as_object_mut() {
            assert!(failure.remove("ago").unwrap().as_f64().unwrap() > 0.0);
        }
    }
    tasks
}

fn ago(task: &Value) -> f64 {
    task["failure"]["ago"].as_f64().unwrap()
}

#[test]
fn import_restores_attempts_and_failures() {
    let sandbox = store_with_attempts();
    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    let expected = tasks(&sandbox);
    assert_eq!(tasks(&other), expected);
    let shown: Vec<Value> = expected
        .iter()
        .map(|task| {
            let fields = ["id", "state", "takes", "attempts", "attempts_left", "group"];
            let failure = &task["failure"];
            let failure = ["group", "message", "attempt"].map(|name| failure[name].clone());
            json!([fields.map(|name| task[name].clone()), failure])
        })
        .collect();
    for task in [
        json!([[0, "delayed", 1, 1, 1, null], ["busy", "", 1]]),
        json!([[1, "buried", 2, 2, 0, "timeout"], ["timeout", "again", 2]]),
        json!([[2, "delayed", 1, 0, 2, null], [null, null, null]]),
        json!([[3, "buried", 1, 1, 1, "invalid"], ["invalid", "address", 1]]),
        json!([[4, "buried", 1, 1, 1, null], ["timeout", "", 1]]),
        json!([[5, "ready", 2, 0, 2, null], ["timeout", "2", 2]]),
        json!([[6, "ready", 0, 0, 2, null], [null, null, null]]),
        json!([[7, "ready", 1, 1, 8, null], ["exit 1", "exit code 1", 1]]),
        json!([[8, "ready", 1, 1, null, null], [null, null, null]]),
    ] {
        assert!(shown.contains(&task), "{task}: {shown:?}");
    }
    assert!(other.ok("verify").starts_with("sound"));

    // The age of a failure goes on from what it was.
    let line: Vec<Value> = lines
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice(line).unwrap())
        .collect();
    let line = line.iter().find(|line| line["id"] == 1).unwrap();
    assert!(ago(&other.json("peek jobs 1")[0]) >= ago(line));

    // The next attempt of each store ends in the same way.
    for store in [&sandbox, &other] {
        store.ok("kick jobs --all");
        let token = store.claim("jobs 1");
        let failed = store.json(&format!("fail {token} --group last"));
        assert_eq!(failed[0]["state"], "delayed");
        assert_eq!(store.json("peek jobs 1")[0]["attempts_left"], 1);
        assert!(store.ok("verify").starts_with("sound"));
    }
}

#[test]
fn plain_tasks_are_exported_as_before() {
    let sandbox = store_with_attempts();
    let lines = sandbox.run("export -").expect(0);
    let lines = lines.objects();
    let line = |id: u64| lines.iter().find(|line| line["id"] == id).unwrap();
    let further = ["attempts", "max_attempts", "group", "failure"];
    let given = |id: u64| further.map(|name| line(id).get(name).is_some());
    assert_eq!(given(8), [false; 4]);
    assert_eq!(given(6), [false; 4]);
    assert_eq!(given(2), [true, false, false, false]);
    assert_eq!(given(7), [false, true, false, true]);
    assert_eq!(given(3), [false, false, true, true]);
    assert_eq!(given(4), [false, false, false, true]);
    assert_eq!(line(5)["attempts"], 0);
}

#[test]
fn backup_keeps_attempts_and_failures() {
    let sandbox = store_with_attempts();
    sandbox.ok("backup copy");
    let expected = tasks(&sandbox);
    std::fs::rename(sandbox.path("copy"), sandbox.store()).unwrap();
    assert_eq!(tasks(&sandbox), expected);
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn import_refuses_wrong_attempts_and_failures() {
    let sandbox = Sandbox::with(&[]);
    let task = |state: &str, fields: &str| {
        format!(
            r#"{{"tube":"mail","id":0,"state":"{state}","priority":0,"ttl":null,"ttr":null,"delay":0.0,"sub_queue":null,"takes":2,"data":"x",{fields}}}"#
        )
    };
    let failure = |group: &str, ago: &str| {
        format!(
            r#""failure":{{"group":"{group}","message":"m","attempt":1,"owner":null,"ago":{ago}}}"#
        )
    };
    let long = "x".repeat(256);
    for (state, fields, why) in [
        ("ready", r#""attempts":3"#.to_owned(), "3 attempts are more than its takes"),
        ("ready", r#""group":"x""#.into(), "only a buried task can be in a failure group"),
        ("buried", r#""group":"""#.into(), "a failure group has 1 to 255 bytes, not 0"),
        ("ready", failure(&long, "1.0"), "a failure group has 1 to 255 bytes, not 256"),
        ("ready", failure("x", "-1.0"), "ago: -1.0 seconds is not a duration"),
        ("ready", r#""failure":{"group":"x"}"#.into(), "missing field `message`"),
        ("ready", r#""failure":7"#.into(), "invalid type"),
    ] {
        let done = sandbox.feed("import --all", task(state, &fields).as_bytes()).expect(7);
        assert!(done.err.contains(why) && done.err.contains("line 1"), "{fields}: {}", done.err);
    }
    let good = task("buried", &format!(r#""attempts":1,"group":"x",{}"#, failure("x", "60.5")));
    sandbox.feed("import --all", good.as_bytes()).expect(0);
    let shown = sandbox.json("list mail").remove(0);
    assert_eq!((&shown["attempts"], &shown["group"]), (&json!(1), &json!("x")));
    assert!(ago(&shown) >= 60.5);
}
