//! `work` in tubes with a limit of attempts or a backoff: failures are reported.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Ended, Sandbox, run};

/// Runs `work --once` with a shell script as its command.
fn once(sandbox: &Sandbox, options: &str, script: &str) -> Ended {
    let mut command = sandbox.command(&["work", "jobs", "--once"]);
    command.args(options.split_whitespace()).args(["--", "sh", "-c", script]);
    run(command, b"")
}

#[test]
fn failure_of_a_command_is_reported_with_its_exit_code_and_last_lines() {
    let sandbox = Sandbox::with_jobs("--max-attempts 2", &["work"]);
    let script = "for n in $(seq 30); do echo line $n >&2; done; echo out; exit 3";
    let done = once(&sandbox, "", script).expect(7);
    assert_eq!(done.text(), "out\n");
    assert!(done.err.starts_with("line 1\nline 2\n"), "{}", done.err);
    let report = "line 30\njobs 0: exit code 3 at take 1; tried again after this run\n";
    assert!(done.err.contains(report), "{}", done.err);
    assert!(done.err.contains("0 tasks done, 1 released"), "{}", done.err);
    let lines: Vec<String> = (11..=30).map(|n| format!("line {n}")).collect();
    assert_eq!(sandbox.last_attempt(0), json!(["ready", 1, "exit 3", lines.join("\n")]));

    let done = once(&sandbox, "--json", "kill -9 $$").expect(7).objects();
    assert_eq!((&done[0]["outcome"], &done[0]["signal"]), (&json!("buried"), &json!(9)));
    assert_eq!((&done[1]["buried"], &done[1]["released"]), (&json!(1), &json!(0)));
    assert_eq!(sandbox.last_attempt(0), json!(["buried", 2, "signal 9", "signal 9"]));
}

#[test]
fn command_knows_its_attempt() {
    let sandbox = Sandbox::with_jobs("--max-attempts 3", &["work"]);
    let script = "echo $TUBEWELL_TAKES $TUBEWELL_ATTEMPT of $TUBEWELL_ATTEMPTS_LEFT; exit 1";
    assert_eq!(once(&sandbox, "", script).expect(7).text(), "1 1 of 2\n");
    sandbox.ok("claim jobs");
    sandbox.ok("revoke jobs 0");
    assert_eq!(once(&sandbox, "", script).expect(7).text(), "3 2 of 1\n");
    let sandbox = Sandbox::with_jobs("", &["work"]);
    let mut command = sandbox.command(&["work", "jobs", "--once", "--", "sh", "-c"]);
    command.arg("echo $TUBEWELL_ATTEMPT ${TUBEWELL_ATTEMPTS_LEFT-none}");
    command.env("TUBEWELL_ATTEMPTS_LEFT", "7");
    assert_eq!(run(command, b"").expect(0).text(), "1 none\n");
}

#[test]
fn failed_task_is_delayed_by_the_backoff_of_its_tube() {
    let sandbox = Sandbox::with_jobs("--backoff 1h", &["bad", "good"]);
    let done = once(&sandbox, "", "test $(cat) = good").expect(7);
    assert!(done.err.contains("1 task done, 1 released"), "{}", done.err);
    assert_eq!(sandbox.last_attempt(0), json!(["delayed", 1, "exit 1", "exit code 1"]));
    let due = |sandbox: &Sandbox| sandbox.json("peek jobs 0")[0]["due_in"].as_f64().unwrap();
    assert!((3000.0..=3600.0).contains(&due(&sandbox)));
    // The option comes first.
    let sandbox = Sandbox::with_jobs("--backoff 1h", &["bad"]);
    once(&sandbox, "--delay 5h", "exit 1").expect(7);
    assert!((17_400.0..=18_000.0).contains(&due(&sandbox)));
}

#[test]
fn max_attempts_and_on_failure_bury_report_the_failure() {
    let sandbox = Sandbox::with_jobs("--max-attempts 9", &["one", "two"]);
    once(&sandbox, "--max-attempts 2", "echo no >&2; exit 4").expect(7);
    for id in [0, 1] {
        assert_eq!(sandbox.last_attempt(id), json!(["buried", 2, "exit 4", "no"]));
    }
    sandbox.ok("kick jobs --all");
    once(&sandbox, "--on-failure bury", "exit 5").expect(7);
    assert_eq!(sandbox.last_attempt(1), json!(["buried", 1, "exit 5", "exit code 5"]));
    assert_eq!(sandbox.json("peek jobs 0")[0]["group"], "exit 5");
}

#[test]
fn work_without_once_attempts_a_task_until_it_is_buried() {
    let sandbox = Sandbox::with_jobs("--max-attempts 3", &["bad"]);
    let mut work = sandbox.work("jobs", "echo take $TUBEWELL_TAKES >&2; exit 1");
    for take in 1..=3 {
        work.notes(&format!("take {take}"));
        let outcome = if take == 3 { "buried" } else { "released" };
        work.notes(&format!("jobs 0: exit code 1 at take {take}; {outcome}"));
    }
    work.notes("no task to wait for");
    work.signal(Signal::TERM);
    assert_eq!(work.ends(), 0);
    assert_eq!(sandbox.last_attempt(0), json!(["buried", 3, "exit 1", "take 3"]));
}

#[test]
fn attempt_of_a_terminated_command_does_not_count() {
    let sandbox = Sandbox::with_jobs("--max-attempts 1", &["slow"]);
    let gate = sandbox.gate();
    let mut work = sandbox.work("jobs", "echo started; read x < gate");
    work.prints("started");
    work.signal(Signal::INT);
    work.notes("stopping after 1 running command");
    work.signal(Signal::TERM);
    assert_eq!(work.ends(), 128 + 15);
    drop(gate);
    assert_eq!(sandbox.last_attempt(0), json!(["ready", 0, null, null]));
}

#[test]
fn killed_worker_has_used_an_attempt() {
    let sandbox = Sandbox::with_jobs("--max-attempts 2", &["poison"]);
    for state in ["ready", "buried"] {
        let gate = sandbox.gate();
        let mut work = sandbox.work("jobs", "echo started; read x < gate");
        work.prints("started");
        work.signal(Signal::KILL);
        assert_eq!(work.ends(), -9);
        drop(gate);
        std::fs::remove_file(sandbox.path("gate")).unwrap();
        assert_eq!(sandbox.last_attempt(0)[0], state);
    }
    assert_eq!(sandbox.json("peek jobs 0")[0]["failure"]["group"], "lost");
}

#[test]
fn process_that_keeps_standard_error_open_does_not_hold_up_work() {
    let sandbox = Sandbox::with_jobs("--max-attempts 9", &["one", "two"]);
    let mut gate = sandbox.gate();
    // Its standard output is closed, so that the test can read all of that of `work`.
    let script = "{ read x < gate; echo late >&2; } >/dev/null & echo early >&2; exit 1";
    let mut work = sandbox.work("jobs --once", script);
    work.notes("2 released");
    assert_eq!(work.ends(), 7);
    gate.open(2);
    for id in [0, 1] {
        assert_eq!(sandbox.last_attempt(id), json!(["ready", 1, "exit 1", "early"]));
    }
}

#[test]
fn tube_without_rules_records_no_failure() {
    let sandbox = Sandbox::with_jobs("", &["bad"]);
    sandbox.ok("put jobs limited --max-attempts 5");
    let done = once(&sandbox, "", "echo no >&2; exit 1").expect(7);
    assert!(done.err.contains("jobs 0: exit code 1 at take 1; released when"), "{}", done.err);
    assert_eq!(sandbox.last_attempt(0), json!(["ready", 1, null, null]));
    assert_eq!(sandbox.last_attempt(1), json!(["ready", 1, "exit 1", "no"]));
    once(&sandbox, "--on-failure bury", "exit 1").expect(7);
    assert_eq!(sandbox.json("peek jobs 0")[0]["group"], json!(null));
}
