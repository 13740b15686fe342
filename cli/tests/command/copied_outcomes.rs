//! `export` and `import --all` keep the tasks that are done, and their results.

use serde_json::{Value, json};

use crate::support::Sandbox;

/// A store with two tubes that keep done tasks, and with tasks in all states.
fn store_with_outcomes() -> Sandbox {
    let sandbox = Sandbox::empty();
    sandbox.ok("create sums --keep-done count=9,age=7d --max-attempts 3");
    sandbox.ok("create plain --driver fifo --keep-done all");
    let text = ["ready", "text", "bytes", "none", "failed once", "buried"].join("\n");
    sandbox.feed("import sums", text.as_bytes()).expect(0);
    sandbox.feed("import plain", b"a\nb").expect(0);
    let token = |tube: &str, id: u64| sandbox.claim(&format!("{tube} {id}"));
    sandbox.ok(&format!("fail {} --group timeout", token("sums", 4)));
    // Not in the order of their ids.
    sandbox.ok(&format!("ack {} --result after-a-failure", token("sums", 4)));
    sandbox.ok(&format!("ack {}", token("sums", 3)));
    sandbox.feed(&format!("ack {} --result-file -", token("sums", 2)), b"\xff\0").expect(0);
    sandbox.ok(&format!("ack {} --result one", token("sums", 1)));
    sandbox.ok("bury sums 5");
    sandbox.ok(&format!("ack {} --result two", token("plain", 7)));
    sandbox
}

/// The done tasks of both tubes with their results, without the times.
fn outcomes(sandbox: &Sandbox) -> Vec<Value> {
    let done = ["sums", "plain"].map(|tube| sandbox.tasks(&format!("list {tube} --state done")));
    let mut tasks = done.concat();
    for task in &mut tasks {
        let words = format!("outcome {} {}", task["tube"].as_str().unwrap(), task["id"]);
        let outcome = sandbox.json(&words).remove(0);
        task["outcome"] = [&outcome["result"], &outcome["result_base64"]].map(Clone::clone).into();
        task["ttl_left"] = task["ttl_left"].as_f64().map(|left| (left / 86_400.0).ceil()).into();
        if let Some(failure) = task["failure"].as_object_mut() {
            failure.remove("ago");
        }
    }
    tasks
}

#[test]
fn import_restores_done_tasks_and_their_results() {
    let sandbox = store_with_outcomes();
    let done = sandbox.run("export all.jsonl").expect(0);
    assert_eq!(done.text(), "exported 8 tasks of 2 tubes\n");
    assert_eq!(done.err, "");
    let lines = std::fs::read(sandbox.path("all.jsonl")).unwrap();
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    let expected = outcomes(&sandbox);
    assert_eq!(outcomes(&other), expected);
    let ids: Vec<&Value> = expected.iter().map(|task| &task["id"]).collect();
    assert_eq!(json!(ids), json!([4, 3, 2, 1, 7]));
    assert_eq!(expected[0]["failure"]["group"], "timeout");
    assert_eq!((&expected[0]["attempts"], &expected[0]["ttl_left"]), (&json!(2), &json!(7.0)));
    assert_eq!(expected[4]["ttl_left"], json!(null));
    let results: Vec<&Value> = expected.iter().map(|task| &task["outcome"]).collect();
    let expected = json!([
        ["after-a-failure", null],
        [null, null],
        [null, "/wA="],
        ["one", null],
        ["two", null]
    ]);
    assert_eq!(json!(results), expected);
    for store in [&sandbox, &other] {
        assert_eq!(store.ids("list sums"), [0, 5]);
        assert_eq!(store.ids("list plain"), [6]);
        assert!(store.ok("verify").starts_with("sound"));
    }

    // A store that is in use keeps them with new ids.
    sandbox.feed("import --all", &lines).expect(0);
    assert_eq!(sandbox.json("stats sums")[0]["kept"], 8);
    assert_eq!(sandbox.ok("outcome sums 11 --result"), "one");
}

#[test]
fn import_leaves_out_done_tasks_of_a_tube_that_keeps_none() {
    let sandbox = store_with_outcomes();
    let lines = sandbox.run("export -").expect(0).out;
    let text = String::from_utf8(lines).unwrap().replace(r#","keep_done":"all""#, "");
    let other = Sandbox::empty();
    let done = other.feed("import --all --json", text.as_bytes()).expect(0);
    assert_eq!(done.objects(), [json!({"stored": 7, "failed_line": null, "tubes": 2})]);
    assert_eq!(done.err, "left out 1 done task: their tubes do not keep what is done\n");
    assert_eq!(other.ids("list plain"), [6]);
    assert_eq!(other.json("stats plain")[0]["kept"], 0);
}

#[test]
fn import_refuses_wrong_results() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create sums --keep-done all");
    let task = |state: &str, fields: &str| {
        format!(
            r#"{{"tube":"sums","id":0,"state":"{state}","priority":0,"ttl":null,"ttr":null,"delay":0.0,"sub_queue":null,"takes":2,"data":"x"{fields}}}"#
        )
    };
    for (state, fields, why) in [
        ("ready", r#","result":"x""#, "only a task that is done has a result"),
        ("done", r#","result":"x","result_base64":"eA==""#, "both result and result_base64"),
        ("done", r#","result_base64":"?""#, "result_base64 is not base64"),
        ("done", r#","result":7"#, "invalid type"),
        ("done", r#","group":"x""#, "only a buried task can be in a failure group"),
    ] {
        let done = sandbox.feed("import --all", task(state, fields).as_bytes()).expect(7);
        assert!(done.err.contains(why) && done.err.contains("line 1"), "{fields}: {}", done.err);
    }
    sandbox.feed("import --all", task("done", r#","result_base64":"eA==""#).as_bytes()).expect(0);
    assert_eq!(sandbox.ok("outcome sums 0 --result"), "x");
}
