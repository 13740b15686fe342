//! Gates of tubes: `pause`, `unpause`, `alter`, and the options of `create`.

use serde_json::{Value, json};

use crate::support::{Sandbox, run};

const PAGES: &str = "create pages --max-taken 8 --rate 10/s";

fn gates(tube: &Value) -> [Value; 4] {
    ["max_taken", "rate", "paused", "resumes_in"].map(|name| tube[name].clone())
}

#[test]
fn gates_are_set_shown_exported_and_imported() {
    let sandbox = Sandbox::empty();
    sandbox.ok(PAGES);
    sandbox.ok(&format!("{PAGES} --if-not-exists"));
    sandbox.ok("create plain");
    sandbox.ok("put pages x");
    sandbox.ok("pause pages");
    let shown = sandbox.ok("tubes");
    assert!(shown.contains("max taken 8, rate 10/1s, paused"), "{shown}");
    let tubes = sandbox.json("tubes");
    assert_eq!(gates(&tubes[0]), [json!(8), json!("10/1s"), json!(true), json!(null)]);
    assert_eq!(gates(&tubes[1]), [json!(null), json!(null), json!(false), json!(null)]);

    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    assert_eq!(other.json("tubes"), sandbox.json("tubes"));
    assert_eq!(other.run("export -").expect(0).out, lines);
    let text = String::from_utf8(lines).unwrap();
    let plain = text.lines().find(|line| line.contains("\"plain\"")).unwrap();
    for name in ["max_taken", "rate", "paused", "resumes_in"] {
        assert!(!plain.contains(name), "{plain}");
    }

    sandbox.ok("pause pages --for 1h");
    let shown = sandbox.ok("tubes");
    assert!(shown.contains("paused for 59m") || shown.contains("paused for 1h"), "{shown}");
    let lines = sandbox.run("export -").expect(0).out;
    let third = Sandbox::empty();
    third.feed("import --all", &lines).expect(0);
    let left = third.json("tubes")[0]["resumes_in"].as_f64().unwrap();
    assert!(left > 1800.0 && left <= 3600.0, "{left}");
}

#[test]
fn paused_tube_gives_no_task_and_says_why() {
    let sandbox = Sandbox::with(&["one"]);
    assert_eq!(sandbox.ok("pause mail"), "paused tube mail\n");
    let message = sandbox.fails("pop mail", 3);
    assert!(message.contains("no task to pop in mail (1 ready)"), "{message}");
    assert!(message.contains("`tubewell unpause mail` continues it"), "{message}");
    let refused = sandbox.fails("claim mail 0", 6);
    assert!(refused.contains("its tube is paused"), "{refused}");
    let done = run(sandbox.shell("sh", "tubewell work mail --once -- cat"), b"").expect(0);
    assert_eq!(done.text(), "");
    sandbox.ok("put mail two");
    assert_eq!(sandbox.counts(), (2, 0, 0));
    assert_eq!(sandbox.ok("pause mail --for 10m"), "paused tube mail for 10m\n");
    assert_eq!(sandbox.ok("unpause mail"), "unpaused tube mail\n");
    let until = "2100-01-01T00:00:00Z";
    assert_eq!(
        sandbox.ok(&format!("pause mail --until {until}")),
        format!("paused tube mail until {until}\n")
    );
    let left = sandbox.json(&format!("pause mail --until {until}"))[0]["resumes_in"].as_f64();
    assert!(left.unwrap() > 1e9);
    assert_eq!(sandbox.ok("pause mail --until never"), "paused tube mail\n");
    assert_eq!(sandbox.ok("pause mail --until 1999-12-31T23:59:59Z"), "unpaused tube mail\n");
    sandbox.fails("pause mail --until soon", 2);
    sandbox.fails(&format!("pause mail --until {until} --for 1h"), 2);
    let object =
        |paused, left: Value| [json!({"tube": "mail", "paused": paused, "resumes_in": left})];
    assert_eq!(sandbox.json("unpause mail"), object(false, json!(null)));
    assert_eq!(sandbox.json("pause mail"), object(true, json!(null)));
    assert_eq!(sandbox.json("pause mail --for 0"), object(false, json!(null)));
    assert_eq!(sandbox.ok("pop mail"), "one");
}

#[test]
fn claims_take_the_places_of_max_taken() {
    let sandbox = Sandbox::with(&["a", "b"]);
    sandbox.ok("alter mail --max-taken 1");
    let token = sandbox.claim("mail");
    let message = sandbox.fails("pop mail", 3);
    assert!(message.contains("as many tasks are taken as its max-taken allows"), "{message}");
    sandbox.ok(&format!("ack {token}"));
    assert_eq!(sandbox.ok("pop mail"), "b");
}

/// A command opens the store anew, so it has to wait for the first task.
#[test]
fn rate_begins_anew_with_each_command() {
    let sandbox = Sandbox::with(&["a", "b", "c", "d", "e"]);
    sandbox.ok("alter mail --rate 1/1h");
    let message = sandbox.fails("pop mail", 3);
    assert!(message.contains("its rate is 1/1h"), "{message}");
    assert!(message.contains("--timeout"), "{message}");
    sandbox.ok("alter mail --rate 2/100ms");
    assert_eq!(sandbox.ok("pop mail --timeout 1m"), "a");
    // Each command writes its line at once.
    let work = r#"tubewell work mail --once --jobs 4 -- sh -c 'printf "%s\n" "$(cat)"'"#;
    let done = run(sandbox.shell("sh", work), b"").expect(0);
    let mut lines: Vec<&str> = done.text().lines().collect();
    lines.sort_unstable();
    assert_eq!(lines, ["b", "c", "d", "e"]);
    assert_eq!(sandbox.counts(), (0, 0, 0));
}

#[test]
fn work_runs_no_more_commands_at_a_time_than_max_taken() {
    let sandbox = Sandbox::with(&["a", "b", "c", "d", "e"]);
    sandbox.ok("alter mail --max-taken 1");
    // A directory can be made once at a time.
    let work = "tubewell work mail --once --jobs 4 -- sh -c 'mkdir only && cat && rmdir only'";
    let done = run(sandbox.shell("sh", work), b"").expect(0);
    assert_eq!(done.text(), "abcde");
    assert_eq!(sandbox.counts(), (0, 0, 0));
}

#[test]
fn alter_and_create_of_an_existing_tube_change_what_is_named() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create mail --ttl 2h --priority 7 --max-attempts 5");
    let before = &sandbox.json("tubes")[0];
    let changed = &sandbox.json("alter mail --max-taken 3 --max-attempts 6")[0];
    let mut expected = before.clone();
    expected["max_taken"] = json!(3);
    expected["max_attempts"] = json!(6);
    assert_eq!(changed, &expected);
    assert_eq!(sandbox.json("tubes")[0], expected);
    let line = sandbox.ok("alter mail --durability write");
    assert_eq!(
        line,
        "mail: durability write(50ms), ttl 2h, ttr 2h, priority 7, max attempts 6, max taken 3\n"
    );
    sandbox.ok("pause mail");
    let existing = sandbox.ok("create mail --if-not-exists --priority 1");
    assert_eq!(existing, "tube mail (fifottl) has these options\n");
    let shown = sandbox.ok("tubes");
    assert!(shown.contains("priority 1, max attempts 6, max taken 3, paused"), "{shown}");
    let line = sandbox.ok("alter mail --default max-taken --default max_attempts --ttl 3h");
    assert_eq!(line, "mail: durability write(50ms), ttl 3h, ttr 3h, priority 1, paused\n");
    let message = sandbox.fails("alter mail --default colour", 2);
    assert!(message.contains("no option \"colour\""), "{message}");
    let message = sandbox.fails("alter mail --ttl 3h --default ttl", 2);
    assert!(message.contains("leave one of them out"), "{message}");
    assert_eq!(sandbox.ok("create new --if-not-exists"), "created tube new (fifottl)\n");
    assert_eq!(sandbox.ok("alter new"), "new: no options\n");
    let message = sandbox.fails("create mail --if-not-exists --driver fifo", 6);
    assert!(message.contains("its driver is fifottl, not \"fifo\""), "{message}");
    let message = sandbox.fails("alter mail --capacity 3", 2);
    assert!(message.contains("--driver limfifottl"), "{message}");
}

#[test]
fn wrong_gates_are_refused_and_say_what_is_expected() {
    let sandbox = Sandbox::with(&[]);
    for (words, why) in [
        ("create jobs --max-taken 0", "a whole number from 1 on"),
        ("create jobs --rate often", "is not a rate"),
        ("create jobs --rate 0/1s", "above zero"),
        ("alter mail --rate 1/0s", "365 days"),
        ("pause mail --for 10", "10 has no unit"),
    ] {
        let message = sandbox.fails(words, 2);
        assert!(message.contains(why), "{words}: {message}");
    }
    sandbox.ok(PAGES);
    let message = sandbox.fails("create pages --if-not-exists --temporary", 6);
    assert!(message.contains("its option temporary is false, not true"), "{message}");
    assert!(message.contains("`tubewell alter` changes all but the driver"), "{message}");
}
