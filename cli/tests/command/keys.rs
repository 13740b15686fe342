//! Tasks with keys, and puts that are made again: `put --key`, `put --idempotency-key`, `find`,
//! `requeue`, and the way of keys through `import` and `export`.

use serde_json::{Value, json};

use crate::support::Sandbox;

/// The keys, the ids, the tubes and the bodies of these tasks.
fn found(sandbox: &Sandbox, keys: &[&str]) -> Vec<Value> {
    let find = |key: &&str| {
        let task = &sandbox.json(&format!("find {key}"))[0];
        json!([task["key"], task["id"], task["tube"], task["data"]])
    };
    keys.iter().map(find).collect()
}

#[test]
fn key_in_use_is_refused_kept_or_replaced() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create other");
    sandbox.ok("put mail first --key k");
    let message = sandbox.fails("put other second --key k", 6);
    assert!(message.contains("key \"k\" is in use by task 0, which is ready"), "{message}");
    assert!(message.contains("`tubewell find k`"), "{message}");
    let kept = sandbox.json("put other second --key k --on-key keep");
    assert_eq!(kept, [json!({"id": 0, "tube": "other", "state": "ready", "kept": true})]);
    assert_eq!(found(&sandbox, &["k"]), [json!(["k", 0, "mail", "first"])]);
    sandbox.ok("put other second --key k --on-key replace");
    assert_eq!(found(&sandbox, &["k"]), [json!(["k", 0, "other", "second"])]);
    sandbox.fails("put mail x --on-key keep", 2);
    sandbox.fails("put mail x --key k --on-key other", 2);
    assert_eq!(sandbox.json("pop other")[0]["key"], "k");
    assert!(sandbox.fails("find k", 3).contains("no task has the key \"k\""));
    assert!(sandbox.ok("verify").starts_with("sound"));
}

/// The caller has not seen the answer. Each command is a run of the store of its own.
#[test]
fn put_with_an_idempotency_key_is_made_again_without_effect() {
    let sandbox = Sandbox::with(&[]);
    let put = "put mail hello --idempotency-key t";
    assert_eq!(sandbox.json(put), [json!({"id": 0, "tube": "mail", "state": "ready"})]);
    assert_eq!(sandbox.ok(put), "put task 0 (ready)\n");
    sandbox.feed("put mail --idempotency-key t --wait 1s", b"piped").expect(0);
    assert_eq!(sandbox.json("pop mail")[0]["data"], "hello");
    assert_eq!(sandbox.json(put), [json!({"id": 0, "tube": "mail", "state": "done"})]);
    assert_eq!(sandbox.ok("put mail hello --idempotency-key u"), "put task 1 (ready)\n");
    let message = sandbox.fails(&format!("put mail x --idempotency-key {}", "t".repeat(65)), 2);
    assert!(
        message.contains("an idempotency key must have 1 to 64 bytes; this one has 65"),
        "{message}"
    );
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn unique_for_is_a_time_of_the_idempotency_key() {
    let sandbox = Sandbox::with(&[]);
    let put = "put mail hello --idempotency-key t --unique-for";
    assert_eq!(sandbox.ok(&format!("{put} 1us")), "put task 0 (ready)\n");
    assert_eq!(sandbox.ok(&format!("{put} 366d")), "put task 1 (ready)\n");
    assert_eq!(sandbox.ok(&format!("{put} 1us")), "put task 1 (ready)\n");
    assert!(sandbox.fails(&format!("{put} 0"), 2).contains("above zero"));
    assert!(sandbox.fails(&format!("{put} 367d"), 2).contains("at most 366 days"));
    assert!(sandbox.fails("put mail x --unique-for 1d", 2).contains("--idempotency-key"));
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn find_shows_the_task_and_its_tube() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("put mail hello --key k");
    let shown = sandbox.ok("find k");
    assert!(shown.starts_with("tube      mail\ntask      0\n"), "{shown}");
    assert!(shown.contains("key       k\n") && shown.ends_with("\n\nhello\n"), "{shown}");
    assert_eq!(sandbox.ok("find k --body"), "hello");
    assert_eq!(sandbox.tasks("find k"), sandbox.tasks("peek mail"));
}

#[test]
fn requeue_puts_a_task_anew() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create other --keep-done all");
    sandbox.ok("put other first --key k --priority 3");
    sandbox.ok("resolve other 0 --result 1");
    assert_eq!(sandbox.ok("requeue other k again --delay 1h"), "put task 0 anew (delayed)\n");
    assert_eq!(sandbox.json("find k")[0]["priority"], 3);
    sandbox.feed("requeue mail k", b"piped").expect(0);
    assert_eq!(found(&sandbox, &["k"]), [json!(["k", 0, "mail", "piped"])]);
    assert!(sandbox.fails("requeue mail l x", 3).contains("no task has the key \"l\""));
    sandbox.fails("requeue mail", 2);
}

#[test]
fn work_passes_the_key_to_its_command() {
    let sandbox = Sandbox::with(&["plain"]);
    sandbox.ok("put mail keyed --key k");
    let script = "work mail --once -- sh -c";
    let mut words: Vec<&str> = script.split(' ').collect();
    words.push("echo key=$TUBEWELL_KEY");
    let ended = crate::support::run(sandbox.command(&words), b"").expect(0);
    assert_eq!(ended.text(), "key=\nkey=k\n");
}

#[test]
fn import_stops_at_a_key_in_use_unless_it_is_kept_or_replaced() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("put mail old --key b");
    let lines = br#"{"data": "1", "key": "a"}
{"data": "2"}
{"data": "3", "key": "b"}
{"data": "4", "key": "a"}
"#;
    let ended = sandbox.feed("import mail --format json", lines).expect(7);
    assert!(ended.err.contains("line 3: key \"b\" is in use by task 0"), "{}", ended.err);
    assert!(ended.err.contains("2 tasks were stored"), "{}", ended.err);
    sandbox.feed("import mail --format json --on-key keep", &lines[40..]).expect(0);
    assert_eq!(
        found(&sandbox, &["a", "b"]),
        [json!(["a", 1, "mail", "1"]), json!(["b", 0, "mail", "old"])]
    );
    sandbox.feed("import mail --format json --on-key replace", lines).expect(0);
    assert_eq!(
        found(&sandbox, &["a", "b"]),
        [json!(["a", 1, "mail", "4"]), json!(["b", 0, "mail", "3"])]
    );
    assert!(sandbox.ok("verify").starts_with("sound"));
}

#[test]
fn exported_tasks_are_imported_with_their_keys() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create sums --keep-done all");
    sandbox.ok("put mail ready --key a");
    sandbox.ok("put mail buried --key b");
    sandbox.ok("bury mail 1");
    sandbox.ok("put sums done --key c");
    sandbox.ok("resolve sums 2 --result 1");
    sandbox.ok("put sums plain");
    let exported = sandbox.run("export -").expect(0).out;
    let text = String::from_utf8(exported.clone()).unwrap();
    assert_eq!(text.matches("\"key\"").count(), 3, "{text}");
    let copy = Sandbox::empty();
    copy.feed("import --all", &exported).expect(0);
    let keys = ["a", "b", "c"];
    assert_eq!(found(&copy, &keys), found(&sandbox, &keys));
    assert!(copy.ok("verify").starts_with("sound"));

    // Into the store that has them: each is refused, or kept.
    let ended = copy.feed("import --all", &exported).expect(7);
    assert!(ended.err.contains("key \"a\" is in use by task 0"), "{}", ended.err);
    copy.feed("import --all --on-key keep", &exported).expect(0);
    assert_eq!(found(&copy, &keys), found(&sandbox, &keys));
    assert_eq!(copy.json("list sums").len(), 2, "the task without a key is there twice");
    copy.feed("import --all --on-key replace", &exported).expect(2);
}
