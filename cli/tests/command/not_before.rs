//! Moments of tasks: `put --not-before`, `update --not-before`, and what shows and copies them.

use serde_json::json;

use crate::support::Sandbox;

const LATER: &str = "2999-12-24T08:00:00Z";

#[test]
fn put_with_a_moment_is_delayed_and_shows_it() {
    let sandbox = Sandbox::with(&["now"]);
    let put = sandbox.json("put mail later --not-before 2999-12-24T09:00:00+01:00");
    assert_eq!(put[0]["state"], "delayed");
    let task = &sandbox.json("peek mail 1")[0];
    assert_eq!(task["not_before"], LATER);
    assert!(task["due_in"].as_f64().unwrap() > 900.0 * 365.0 * 86_400.0);
    let shown = sandbox.ok("peek mail 1");
    assert!(shown.contains(&format!("moment    {LATER}")), "{shown}");
    let past = sandbox.json("put mail past --not-before 2020-01-01T00:00:00.5Z");
    assert_eq!(past[0]["state"], "ready");
    assert_eq!(sandbox.json("peek mail 2")[0]["not_before"], "2020-01-01T00:00:00.5Z");
    let message = sandbox.fails("put mail x --not-before tomorrow", 2);
    assert!(message.contains("2026-12-24T09:00:00Z"), "{message}");
    sandbox.ok("create plain --driver fifo");
    let message = sandbox.fails(&format!("put plain x --not-before {LATER}"), 2);
    assert!(message.contains("moment"), "{message}");
    assert_eq!(sandbox.counts(), (2, 1, 0));
}

#[test]
fn update_sets_and_removes_a_moment() {
    let sandbox = Sandbox::with(&["a"]);
    let state = |args: &str| sandbox.json(&format!("update mail 0 {args}"))[0]["state"].clone();
    assert_eq!(state(&format!("--not-before {LATER}")), "delayed");
    assert_eq!(state("--not-before never --priority 3"), "delayed");
    let task = &sandbox.json("peek mail 0")[0];
    assert_eq!((&task["not_before"], &task["due_in"]), (&json!("never"), &json!(null)));
    assert_eq!(state("--not-before none"), "ready");
    assert_eq!(sandbox.json("peek mail 0")[0]["not_before"], json!(null));
}

#[test]
fn export_and_import_keep_moments() {
    let sandbox = Sandbox::with(&["plain"]);
    sandbox.ok(&format!("put mail later --not-before {LATER} --ttl 1h"));
    sandbox.ok(&format!("put mail both --not-before {LATER} --delay 1h"));
    sandbox.ok("put mail past --not-before 2020-01-01T00:00:00Z --delay 2h");
    sandbox.ok(&format!("put mail buried --not-before {LATER}"));
    sandbox.ok("bury mail 4");
    let lines = sandbox.run("export -").expect(0).objects();
    let line = |body: &str| lines.iter().find(|line| line["data"] == body).unwrap().clone();
    assert!(line("plain").get("not_before").is_none());
    assert_eq!(line("later")["not_before"], LATER);
    assert_eq!(line("later")["delay"], json!(0.0));
    let ttl = line("later")["ttl"].as_f64().unwrap();
    assert!((3500.0..3700.0).contains(&ttl), "{ttl}");
    assert_eq!(line("both")["delay"], json!(0.0), "the moment is later than the delay");
    assert!(line("past")["delay"].as_f64().unwrap() > 7000.0);

    let other = Sandbox::empty();
    let export = sandbox.run("export -").expect(0);
    other.feed("import --all", export.text().as_bytes()).expect(0);
    let moments = |sandbox: &Sandbox| -> Vec<_> {
        let tasks = sandbox.json("list mail --all");
        tasks.iter().map(|task| (task["state"].clone(), task["not_before"].clone())).collect()
    };
    assert_eq!(moments(&other), moments(&sandbox));
    assert!(other.json("peek mail 1")[0]["due_in"].as_f64().unwrap() > 1e9);
    assert_eq!(other.json("kick mail 4")[0]["state"], "delayed");

    let line = format!(r#"{{"data": "x", "not_before": "{LATER}"}}"#);
    other.feed("import mail --format json", line.as_bytes()).expect(0);
    other.feed(&format!("import mail --not-before {LATER}"), b"y\n").expect(0);
    let delayed = other.json("list mail --state delayed --all");
    assert_eq!(delayed.iter().filter(|task| task["not_before"] == LATER).count(), 5);
    let bad = other.feed("import mail --format json", br#"{"data": "x", "not_before": "soon"}"#);
    assert!(bad.err.contains("not_before: write a date"), "{}", bad.err);
}
