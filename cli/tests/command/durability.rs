//! The durability of tubes: `create --durability`, `tubes`, `export` and `import --all`.

use std::time::Duration;

use serde_json::{Value, json};
use tubewell::{Durability, TubeOptions};

use crate::support::{Sandbox, run};

#[test]
fn create_sets_the_durability() {
    let sandbox = Sandbox::empty();
    for (tube, given, shown) in [
        ("a", "flush", "flush"),
        ("b", "write", "write(50ms)"),
        ("c", "write(2s)", "write(2s)"),
        ("d", "relaxed", "relaxed(50ms)"),
        ("e", "relaxed(1500us)", "relaxed(1500us)"),
    ] {
        sandbox.ok(&format!("create {tube} --durability {given}"));
        sandbox.ok(&format!("put {tube} x"));
        sandbox.ok(&format!("create {tube} --if-not-exists --durability {shown}"));
        let tubes = sandbox.json("tubes");
        assert_eq!(tubes.last().unwrap()["durability"], shown);
        assert!(sandbox.ok("tubes").lines().last().unwrap().ends_with(shown));
    }
    sandbox.ok("create b --if-not-exists");
    assert_eq!(sandbox.json("tubes")[1]["durability"], "write(50ms)");
    sandbox.ok("create b --if-not-exists --durability relaxed");
    assert_eq!(sandbox.json("tubes")[1]["durability"], "relaxed(50ms)");
    sandbox.ok("alter b --default durability");
    assert_eq!(sandbox.json("tubes")[1]["durability"], json!(null));
    for tube in ["a", "b", "c", "d", "e"] {
        assert_eq!(sandbox.ok(&format!("pop {tube}")), "x");
    }
}

#[test]
fn create_refuses_other_durabilities() {
    let sandbox = Sandbox::empty();
    for given in ["fsync", "write(50)", "write()", "write(50ms", "relaxed(0.5s)", "Flush", ""] {
        let done = run(sandbox.command(&["create", "mail", "--durability", given]), b"").expect(2);
        let expected =
            format!("{given:?} is not a durability; use flush, write(50ms) or relaxed(50ms)");
        assert!(done.err.contains(&expected), "{}", done.err);
    }
    let message = sandbox.fails("create mail --temporary --durability write", 2);
    assert!(message.contains("--durability") && message.contains("--temporary"), "{message}");
    assert!(!sandbox.store().exists());
}

#[test]
fn import_restores_every_durability() {
    let delays = [
        Duration::ZERO,
        Duration::from_micros(1),
        Duration::from_millis(50),
        Duration::from_secs(3600),
        Duration::MAX,
    ];
    let mut levels = vec![None, Some(Durability::Flush)];
    levels.extend(delays.map(|flush_within| Some(Durability::Write { flush_within })));
    levels.extend(delays.map(|max_delay| Some(Durability::Relaxed { max_delay })));
    let sandbox = Sandbox::empty();
    let store = tubewell::Store::open(sandbox.store()).unwrap();
    for (nth, durability) in levels.iter().enumerate() {
        let options = durability.map_or(TubeOptions::new(), |of| TubeOptions::new().durability(of));
        let tube =
            store.create_tube(&format!("tube {nth:02}"), options.driver(tubewell::FIFO)).unwrap();
        tube.put("x").unwrap();
    }
    store.close().unwrap();
    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    // Existing tubes with the same durability are used.
    sandbox.feed("import --all", &lines).expect(0);
    assert_eq!(other.run("export -").expect(0).out, lines);
    let shown: Vec<Value> =
        other.json("tubes").iter().map(|tube| tube["durability"].clone()).collect();
    let never_written = "write(4611686018427387904us)"; // the longest that a store keeps
    let never_relaxed = "relaxed(18446744073709551614us)";
    let mut expected = vec![Value::Null, json!("flush")];
    let texts = ["write(0s)", "write(1us)", "write(50ms)", "write(3600s)", never_written];
    expected.extend(texts.map(Value::from));
    let texts = ["relaxed(0s)", "relaxed(1us)", "relaxed(50ms)", "relaxed(3600s)", never_relaxed];
    expected.extend(texts.map(Value::from));
    assert_eq!(shown, expected);
}

#[test]
fn import_accepts_a_durability_as_text() {
    let line = |durability: &str| {
        format!(
            r#"{{"tube":"mail","driver":"fifo","ttl":null,"ttr":null,"temporary":false,"durability":{durability}}}"#
        )
    };
    for (given, shown) in [
        (r#""flush""#, json!("flush")),
        (r#""write""#, json!("write(50ms)")),
        (r#""write(50ms)""#, json!("write(50ms)")),
        (r#""relaxed""#, json!("relaxed(50ms)")),
        (r#""relaxed(2s)""#, json!("relaxed(2s)")),
        ("null", Value::Null),
    ] {
        let sandbox = Sandbox::empty();
        sandbox.feed("import --all", line(given).as_bytes()).expect(0);
        assert_eq!(sandbox.json("tubes")[0]["durability"], shown, "{given}");
    }
    let sandbox = Sandbox::empty();
    for (given, message) in [
        (
            r#""write(5)""#,
            "line 1: durability: \"write(5)\" is not a durability; use flush, write(50ms) or \
             relaxed(50ms)",
        ),
        (
            "true",
            "line 1: durability: true is not a durability, such as \"flush\" or \"write(50ms)\"",
        ),
        ("3", "line 1: durability: 3 is not a durability"),
        ("-1", "line 1: durability: -1.0 seconds is not a duration"),
    ] {
        let done = sandbox.feed("import --all", line(given).as_bytes()).expect(7);
        assert!(done.err.contains(message), "{}", done.err);
    }
}
