//! `history` and `log`, the option `--history`, and histories in `export` and `import --all`.

use serde_json::{Value, json};

use crate::support::{Sandbox, columns_of};

/// A tube with a history, and a task that has failed once.
fn store_with_history() -> Sandbox {
    let sandbox = Sandbox::empty();
    sandbox.ok("create mail --history 5 --max-attempts 3");
    sandbox.ok("put mail letter");
    let token = sandbox.claim("mail 0");
    sandbox.ok(&format!("fail {token} --group smtp --message busy"));
    sandbox
}

/// The entries of a task without their times, which must increase.
fn entries(sandbox: &Sandbox, task: &str) -> Vec<Value> {
    let mut entries = sandbox.json(&format!("history {task}"));
    let times =
        entries.iter_mut().map(|entry| entry.as_object_mut().unwrap().remove("at").unwrap());
    let times: Vec<String> = times.map(|at| at.as_str().unwrap().to_owned()).collect();
    assert!(times.is_sorted() && times.iter().all(|at| at.starts_with("20")), "{times:?}");
    entries
}

#[test]
fn history_shows_what_has_happened_to_a_task() {
    let sandbox = store_with_history();
    assert_eq!(sandbox.ok("log mail 0 by-hand"), "added to the history of task 0\n");
    let entry = |number: u64, what: &str, state: &str| json!({"number": number, "what": what, "state": state, "tube": "mail"});
    let mut expected = [
        entry(0, "put", "ready"),
        entry(1, "take", "taken"),
        entry(2, "fail", "ready"),
        entry(3, "log", "ready"),
    ];
    expected[2]["text"] = json!("smtp: busy");
    expected[3]["text"] = json!("by-hand");
    assert_eq!(entries(&sandbox, "mail 0"), expected);
    let table = sandbox.ok("history mail 0");
    let shown = columns_of(&table);
    assert_eq!(shown[0], ["NUMBER", "TIME", "WHAT", "STATE", "TUBE", "OWNER", "TEXT"]);
    assert_eq!((shown.len(), shown[4][2], shown[4][5]), (5, "log", "-"));

    // The first entry stays.
    (0..3).for_each(|n| drop(sandbox.ok(&format!("log mail 0 {n}"))));
    let numbers: Vec<Value> =
        entries(&sandbox, "mail 0").iter().map(|entry| entry["number"].clone()).collect();
    assert_eq!(json!(numbers), json!([0, 3, 4, 5, 6]));
    sandbox.ok("alter mail --history 2");
    assert_eq!(sandbox.json("log mail 0 x")[0], json!({"id": 0, "tube": "mail", "state": "ready"}));
    assert_eq!(entries(&sandbox, "mail 0").len(), 2);
    assert_eq!(sandbox.json("tubes")[0]["history"], 2);
    assert!(sandbox.ok("tubes").contains("history 2"));
    assert!(sandbox.ok("verify").contains("sound"));
}

#[test]
fn history_and_log_say_why_they_fail() {
    let sandbox = store_with_history();
    sandbox.ok("create plain");
    sandbox.ok("put plain x");
    assert_eq!(sandbox.ok("history plain 1"), "no history\n");
    assert_eq!(sandbox.json("history plain 1"), [json!(null); 0]);
    let message = sandbox.fails("log plain 1 x", 2);
    assert!(message.contains("tube plain keeps no history"), "{message}");
    assert!(message.contains("tubewell alter plain --history"), "{message}");
    for words in ["history mail 9", "log mail 9 x"] {
        assert!(sandbox.fails(words, 3).contains("no task 9"), "{words}");
    }
    let message = sandbox.fails(&format!("log mail 0 {}", "x".repeat(1025)), 2);
    assert!(message.contains("1024"), "{message}");
    sandbox.fails("create wide --history 1001", 2);
}

#[test]
fn import_restores_histories() {
    let sandbox = store_with_history();
    sandbox.ok("create next --history 9 --keep-done all");
    sandbox.ok("put mail second");
    sandbox.ok("move mail next 0");
    sandbox.ok("pop next");
    (0..5).for_each(|n| drop(sandbox.ok(&format!("log mail 1 {n}"))));
    sandbox.run("export all.jsonl").expect(0);
    let lines = std::fs::read(sandbox.path("all.jsonl")).unwrap();
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    for task in ["next 0", "mail 1"] {
        assert_eq!(entries(&other, task), entries(&sandbox, task));
    }
    assert_eq!(entries(&other, "next 0").len(), 6);
    assert_eq!(entries(&other, "mail 1").len(), 5);
    let histories = |sandbox: &Sandbox| -> Vec<Value> {
        sandbox.json("tubes").iter().map(|tube| tube["history"].clone()).collect()
    };
    assert_eq!(histories(&other), [json!(5), json!(9)]);
    assert!(other.ok("verify").contains("sound"));
}

#[test]
fn import_refuses_a_damaged_history() {
    let task = |history: &str| {
        let tube = r#"{"tube":"t","driver":"fifo","ttl":null,"ttr":null,"temporary":false,"durability":null,"history":3}"#;
        let task = r#"{"tube":"t","id":0,"state":"ready","priority":0,"ttl":null,"ttr":null,"delay":0,"data":"x","history":"#;
        format!("{tube}\n{task}{history}}}\n")
    };
    let entry = |number: &str, at: &str, what: &str| {
        format!(r#"{{"number":{number},"at":"{at}","what":"{what}","state":"ready","tube":"t"}}"#)
    };
    let good = entry("0", "2026-01-01T00:00:00Z", "put");
    let sandbox = Sandbox::empty();
    sandbox.feed("import --all", task(&format!("[{good}]")).as_bytes()).expect(0);
    for (wrong, why) in [
        (format!("[{good},{good}]"), "increasing numbers"),
        (format!("[{}]", entry("0", "yesterday", "put")), "at of its history"),
        (format!("[{}]", entry("0", "2026-01-01T00:00:00Z", "flew")), "what of its history"),
        ("[{}]".to_owned(), "number"),
    ] {
        let other = Sandbox::empty();
        let done = other.feed("import --all", task(&wrong).as_bytes());
        assert!(done.err.contains(why), "{wrong}: {}", done.err);
    }
}
