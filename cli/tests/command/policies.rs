//! The policies of tubes: the options of `create`, `tubes`, `export` and `import --all`.

use serde_json::{Value, json};

use crate::support::{Sandbox, run};

#[test]
fn max_runtime_is_set_shown_exported_and_imported() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create jobs --max-runtime 90s");
    sandbox.ok("create plain");
    sandbox.ok("put jobs x");
    assert_eq!(sandbox.json("tubes")[0]["max_runtime"], json!(90.0));
    assert_eq!(sandbox.json("tubes")[1]["max_runtime"], json!(null));
    assert!(sandbox.ok("tubes").contains("max runtime 1m30s"), "{}", sandbox.ok("tubes"));
    sandbox.ok("create jobs --if-not-exists --max-runtime 90s");

    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    assert_eq!(other.json("tubes"), sandbox.json("tubes"));
    assert_eq!(other.run("export -").expect(0).out, lines);
    let plain = String::from_utf8(lines).unwrap();
    let plain = plain.lines().find(|line| line.contains("\"plain\"")).unwrap();
    assert!(!plain.contains("max_runtime"), "{plain}");
}

#[test]
fn create_refuses_a_max_runtime_of_zero_or_without_a_timed_driver() {
    let sandbox = Sandbox::empty();
    assert!(sandbox.fails("create jobs --max-runtime 0", 2).contains("above zero"));
    let message = sandbox.fails("create jobs --driver fifo --max-runtime 1s", 2);
    assert!(message.contains("does not support a max_runtime"), "{message}");
    assert!(message.contains("--driver fifottl"), "{message}");
    assert!(!sandbox.store().exists());
}

#[test]
fn max_runtime_of_a_task_is_put_shown_exported_and_imported() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("put mail long --max-runtime 1h");
    sandbox.ok("put mail endless --max-runtime never");
    sandbox.ok("put mail plain");
    let line = br#"{"data": "line", "max_runtime": "90s"}"#;
    sandbox.feed("import mail --format json", line).expect(0);
    sandbox
        .ok("schedule mail hourly run --every 1h --starting 2100-01-01T00:00:00Z --max-runtime 5m");
    let limits = |sandbox: &Sandbox| {
        let tasks = sandbox.json("list mail");
        let limits: Vec<Value> = tasks.iter().map(|task| task["max_runtime"].clone()).collect();
        (limits, sandbox.json("schedules mail")[0]["max_runtime"].clone())
    };
    let expected = [json!(3600.0), json!("never"), Value::Null, json!(90.0)];
    assert_eq!(limits(&sandbox), (expected.to_vec(), json!(300.0)));
    assert!(sandbox.ok("peek mail 0").contains("1h"), "{}", sandbox.ok("peek mail 0"));
    sandbox.ok("reschedule mail hourly --priority 3");
    assert!(sandbox.fails("put mail x --max-runtime 0", 2).contains("above zero"));

    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    assert_eq!(limits(&other), (expected.to_vec(), json!(300.0)));
    assert_eq!(other.run("export -").expect(0).out, lines);
}

#[test]
fn traceparent_is_put_shown_exported_imported_and_given_to_commands() {
    let traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let sandbox = Sandbox::with(&[]);
    sandbox.ok(&format!("put mail traced --traceparent {traceparent}"));
    sandbox.ok("put mail plain");
    let line = format!(r#"{{"data": "line", "traceparent": "{traceparent}"}}"#);
    sandbox.feed("import mail --format json", line.as_bytes()).expect(0);
    let shown = |sandbox: &Sandbox| {
        let tasks = sandbox.json("list mail");
        tasks.iter().map(|task| task["traceparent"].clone()).collect::<Vec<_>>()
    };
    let expected = [json!(traceparent), Value::Null, json!(traceparent)];
    assert_eq!(shown(&sandbox), expected);
    assert!(sandbox.ok("peek mail 0").contains(traceparent), "{}", sandbox.ok("peek mail 0"));
    assert!(!sandbox.json("list mail")[1].as_object().unwrap().contains_key("traceparent"));
    let refused = sandbox.fails("put mail x --traceparent 4bf92f35", 2);
    assert!(refused.contains("is not a traceparent; write 00-"), "{refused}");

    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    assert_eq!(shown(&other), expected);
    assert_eq!(other.run("export -").expect(0).out, lines);

    let script = ["work", "mail", "--once", "--", "sh", "-c", "echo \"$TRACEPARENT $(cat)\""];
    let done = run(other.command(&script), b"").expect(0);
    assert_eq!(done.text(), format!("{traceparent} traced\n plain\n{traceparent} line\n"));
}

/// A tube with every policy of attempts and outcomes.
const JOBS: &str = "create jobs --max-attempts 5 --count-takes flushed \
    --backoff 1s,factor=3,cap=60s,jitter=0.5 --reclaim-delay 90s \
    --keep-done count=1000,age=24h --keep-buried age=7d";

#[test]
fn policies_of_attempts_are_set_shown_exported_and_imported() {
    let sandbox = Sandbox::empty();
    sandbox.ok(JOBS);
    sandbox.ok(&format!("{JOBS} --if-not-exists"));
    sandbox.ok("create plain");
    let shown = sandbox.ok("tubes");
    let options = "max attempts 5, count takes flushed, backoff 1s,factor=3,cap=1m,jitter=0.5, \
                   reclaim delay 1m30s, keep done count=1000,age=1d, keep buried age=7d";
    assert!(shown.contains(options), "{shown}");
    let policies = |tube: &Value| {
        ["max_attempts", "count_takes", "backoff", "reclaim_delay", "keep_done", "keep_buried"]
            .map(|name| tube[name].clone())
    };
    let tubes = sandbox.json("tubes");
    let backoff = json!("1s,factor=3,cap=1m,jitter=0.5");
    let kept = [json!("count=1000,age=1d"), json!("age=7d")];
    let [done, buried] = kept;
    let expected = [json!(5), json!("flushed"), backoff, json!(90.0), done, buried];
    assert_eq!(policies(&tubes[0]), expected);
    let plain =
        [json!(null), json!("written"), json!("none"), json!(null), json!(null), json!(null)];
    assert_eq!(policies(&tubes[1]), plain);

    let lines = sandbox.run("export -").expect(0).out;
    let other = Sandbox::empty();
    other.feed("import --all", &lines).expect(0);
    assert_eq!(other.json("tubes"), sandbox.json("tubes"));
    assert_eq!(other.run("export -").expect(0).out, lines);
    // The tubes have the same policies, so they may be imported again.
    other.feed("import --all", &lines).expect(0);
    let text = String::from_utf8(lines).unwrap();
    let plain: Value = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert!(plain["tube"] == "plain" && policies(&plain).iter().all(Value::is_null), "{plain}");
    assert!(plain.get("backoff").is_none(), "{plain}");
}

#[test]
fn reclaim_delay_without_an_end_is_exported_and_imported() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create jobs --reclaim-delay never");
    let lines = sandbox.run("export -").expect(0).out;
    sandbox.feed("import --all", &lines).expect(0);
}

#[test]
fn import_names_the_policy_that_differs() {
    let sandbox = Sandbox::empty();
    sandbox.ok(JOBS);
    let exported = sandbox.run("export -").expect(0).out;
    for (option, clause) in [
        ("--max-attempts 6", "max_attempts is 5, not 6"),
        ("--count-takes lazily", "count_takes is flushed, not lazily"),
        ("--backoff 2s", "backoff is 1s,factor=3,cap=1m,jitter=0.5, not 2s"),
        ("--reclaim-delay 0", "reclaim_delay is 90s, not none"),
        ("--keep-done all", "keep_done is count=1000,age=1d, not all"),
        ("--keep-buried all", "keep_buried is age=7d, not all"),
    ] {
        let other = Sandbox::empty();
        other.ok(JOBS);
        other.ok(&format!("alter jobs {option}"));
        let message = other.feed("import --all", &exported).expect(7).err;
        let (name, values) = clause.split_once(" is ").unwrap();
        let (is, not) = values.split_once(", not ").unwrap();
        assert!(message.contains(&format!("its {name} is {not}, not {is}")), "{message}");
    }
}

#[test]
fn create_refuses_wrong_policies_and_says_what_is_expected() {
    let sandbox = Sandbox::empty();
    for (options, why) in [
        ("--max-attempts 0", "a whole number from 1 on"),
        ("--count-takes often", "lazily, written, flushed"),
        ("--backoff soon", "use none, a delay such as 10s, or 1s,factor=2,cap=1h,jitter=0.5"),
        ("--backoff 1s,factor=0.5", "the factor of a backoff must be from 1 to 1000"),
        ("--backoff 1s,jitter=2", "the jitter of a backoff must be from 0 to 1"),
        ("--keep-done none", "use all, count=1000, age=1d, or count=1000,age=1d"),
        ("--keep-buried 1000", "use all, count=1000, age=1d, or count=1000,age=1d"),
        ("--reclaim-delay 10", "10 has no unit"),
        ("--driver fifo --backoff 1s", "does not support a backoff"),
        ("--driver utube --reclaim-delay 1s", "does not support a reclaim delay"),
    ] {
        let message = sandbox.fails(&format!("create jobs {options}"), 2);
        assert!(message.contains(why), "{options}: {message}");
    }
    assert!(!sandbox.store().exists());
    sandbox.ok("create jobs --driver fifo --max-attempts 3 --keep-done all --backoff none");
}

#[test]
fn import_refuses_wrong_policies_of_an_export() {
    let tube = |field: &str| {
        format!(
            r#"{{"tube":"a","driver":"fifottl","ttl":null,"ttr":null,"priority":0,"capacity":0,"temporary":false,"durability":null,{field}}}"#
        )
    };
    for (field, why) in [
        (r#""backoff":"soon""#, "line 1: backoff: \"soon\" is not a backoff"),
        (r#""count_takes":"often""#, "line 1: count_takes: \"often\" is not a counting"),
        (r#""keep_done":"none""#, "line 1: keep_done: \"none\" is not a retention"),
        (r#""max_attempts":0"#, "line 1: max_attempts must be above zero"),
        (r#""max_attempts":1.5"#, "line 1: max_attempts: 1500ms is not a whole number"),
        (r#""max_runtime":[]"#, "line 1: max_runtime: it is neither a text nor a number"),
        (r#""max_runtime":-1.5"#, "line 1: max_runtime: -1.5 seconds is not a duration"),
        (r#""max_atempts":3"#, "line 1: a tube has no option \"max_atempts\"; it has temporary"),
    ] {
        let done = Sandbox::empty().feed("import --all", tube(field).as_bytes()).expect(7);
        assert!(done.err.contains(why), "{field}: {}", done.err);
    }
}
