//! `work`: the order of tubes, limits of running time, backoff, results, and exit codes with a
//! meaning of their own.

use rustix::process::Signal;
use serde_json::{Value, json};

use crate::support::{Ended, Sandbox, run};

/// Runs `work` with a shell script as its command.
fn work(sandbox: &Sandbox, options: &str, script: &str) -> Ended {
    let mut command = sandbox.command(&["work"]);
    command.args(options.split_whitespace()).args(["--", "sh", "-c", script]);
    run(command, b"")
}

fn due_in(sandbox: &Sandbox, id: u64) -> f64 {
    sandbox.json(&format!("peek jobs {id}"))[0]["due_in"].as_f64().unwrap()
}

#[test]
fn order_says_which_tube_is_asked_first() {
    for (order, expected) in [
        ("", Some("a a a b b b")),
        ("--order listed", Some("a a a b b b")),
        ("--order round-robin", Some("a b a b a b")),
        ("--order shuffled", None),
    ] {
        let sandbox = Sandbox::empty();
        for tube in ["a", "b"] {
            sandbox.ok(&format!("create {tube}"));
            sandbox.feed(&format!("import {tube}"), b"x\ny\nz").expect(0);
        }
        let script = "echo $TUBEWELL_TUBE";
        let done = work(&sandbox, &format!("a b --once {order}"), script).expect(0);
        let order = done.text().replace('\n', " ");
        if let Some(expected) = expected {
            assert_eq!(order.trim(), expected);
        }
        assert_eq!((order.matches('a').count(), order.matches('b').count()), (3, 3), "{order}");
    }
    let sandbox = Sandbox::with(&["x"]);
    assert!(sandbox.fails("work mail --order random -- true", 2).contains("shuffled"));
    // A tube that is named twice has its first place.
    assert_eq!(work(&sandbox, "mail mail --once", "cat").expect(0).text(), "x");
}

/// The command ran on, and the task was taken again beside it, without an end and without a word.
#[test]
fn command_ends_at_the_limit_of_its_task_or_tube_and_is_tried_once() {
    for (of_tube, of_task) in [("", "--max-runtime 300ms"), ("--max-runtime 300ms", "")] {
        let sandbox = Sandbox::empty();
        sandbox.ok(&format!("create jobs {of_tube}"));
        sandbox.ok(&format!("put jobs slow {of_task}"));
        let done = work(&sandbox, "jobs --once", "sleep 1000 & wait").expect(7);
        assert!(done.err.contains("1 released"), "{}", done.err);
        let task = sandbox.json("peek jobs 0").remove(0);
        assert_eq!(task["attempts"], 1, "{task}");
        sandbox.ok(&format!("put jobs next {of_task} --priority 1"));
        let run = work(&sandbox, "jobs --once --json", "exec sleep 1000").expect(7).objects();
        assert_eq!(run[0]["id"], 1);
        let outcome = run[0]["outcome"].as_str().unwrap();
        // The command may be ended a moment before the claim.
        assert!(["timed_out", "kept"].contains(&outcome), "{run:?}");
    }
}

#[test]
fn command_that_runs_too_long_is_ended_with_its_processes_and_has_failed() {
    let sandbox = Sandbox::with_jobs("--max-attempts 2", &["slow"]);
    // The process in the background has the output of `work`, which the test reads to its end.
    let script = "sleep 1000 & wait";
    let done = work(&sandbox, "jobs --once --max-runtime 300ms", script).expect(7);
    let text = "signal 15 after max-runtime had elapsed";
    assert!(done.err.contains(&format!("jobs 0: {text} at take 1; tried again")), "{}", done.err);
    assert_eq!(sandbox.last_attempt(0), json!(["ready", 1, "max-runtime", text]));

    // An exit code of 0 counts as little as any other end. On a slow machine the shell is ended
    // before it has its trap.
    let script = "trap 'echo interrupted >&2; exit 0' TERM; sleep 1000 & wait";
    let done = work(&sandbox, "jobs --once --max-runtime 300ms --json", script).expect(7);
    assert_eq!(done.objects()[0]["outcome"], "buried");
    assert_eq!(sandbox.json("peek jobs 0")[0]["failure"]["group"], "max-runtime");

    // Tubes without rules record this failure, too.
    let sandbox = Sandbox::with_jobs("", &["slow"]);
    work(&sandbox, "jobs --once --max-runtime 50ms", "exec sleep 1000").expect(7);
    assert_eq!(sandbox.last_attempt(0), json!(["ready", 1, "max-runtime", text]));
}

#[test]
fn command_that_ignores_sigterm_is_killed() {
    let sandbox = Sandbox::with_jobs("", &["stubborn"]);
    // The command is started with the signal ignored.
    let script = "trap '' TERM; exec tubewell work jobs --once --max-runtime 50ms \
                  --on-failure bury -- sleep 1000";
    let done = run(sandbox.shell("sh", script), b"").expect(7);
    assert!(done.err.contains("signal 9 after max-runtime had elapsed"), "{}", done.err);
    assert_eq!(sandbox.last_attempt(0)[0], "buried");
}

/// The state, the failure group, and how many takes of task 0 were attempts that count.
fn counted(sandbox: &Sandbox) -> (String, String, bool) {
    let task = sandbox.json("peek jobs 0").remove(0);
    let text = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    let is_counted = task["attempts"] == task["takes"];
    (text(&task["state"]), text(&task["failure"]["group"]), is_counted)
}

#[test]
fn command_that_runs_too_long_while_work_stops_has_failed() {
    let failed = ("ready".to_owned(), "max-runtime".to_owned(), true);
    // It ends by SIGTERM, or reports that as shells do.
    for script in ["exec sleep 1000", "trap 'exit 143' TERM; echo started; sleep 1000 & wait"] {
        let sandbox = Sandbox::with_jobs("--max-attempts 1000", &["slow"]);
        let mut work = sandbox.work("jobs --max-runtime 1s", &format!("echo started; {script}"));
        work.prints("started");
        work.signal(Signal::TERM);
        assert_eq!(work.ends(), 0);
        assert_eq!(counted(&sandbox), failed, "{script}");
    }
    // `work` stops after it has told the command to end.
    let script = "trap 'echo told; read x < gate; exit 143' TERM; sleep 1000 & wait";
    for signals in [&[Signal::TERM][..], &[Signal::TERM, Signal::INT]] {
        let sandbox = Sandbox::with_jobs("--max-attempts 1000", &["slow"]);
        let mut gate = sandbox.gate();
        let mut work = sandbox.work("jobs --max-runtime 300ms", script);
        work.prints("told");
        for (signal, note) in signals.iter().zip(["stopping after", "sent SIGTERM"]) {
            work.signal(*signal);
            work.notes(note);
        }
        gate.open(1);
        assert_eq!(work.ends(), if signals.len() > 1 { 130 } else { 0 });
        assert_eq!(counted(&sandbox), failed, "{signals:?}");
    }
}

#[test]
fn command_that_was_terminated_with_work_does_not_fail_by_max_runtime() {
    // On a busy machine the time may be over before the second signal comes, but not every time.
    let is_forgiven = || {
        let sandbox = Sandbox::with_jobs("--max-attempts 1000", &["slow"]);
        let script = "trap 'echo told' TERM; echo started; while :; do sleep 1000 & wait; done";
        let mut work = sandbox.work("jobs --max-runtime 2s", script);
        work.prints("started");
        work.signal(Signal::TERM);
        work.notes("stopping");
        work.signal(Signal::INT);
        work.prints("told");
        // Now its time is over, too.
        work.prints("told");
        work.signal(Signal::INT);
        assert_eq!(work.ends(), 130);
        sandbox.last_attempt(0) == json!(["ready", 0, null, null])
    };
    assert!((0..5).any(|_| is_forgiven()));
}

#[test]
fn command_that_ends_in_time_is_not_limited() {
    let sandbox = Sandbox::with_jobs("", &["a", "b"]);
    let done = work(&sandbox, "jobs --once --max-runtime 1h", "cat").expect(0);
    assert_eq!(done.text(), "ab");
}

#[test]
fn backoff_is_for_tubes_without_one() {
    let sandbox = Sandbox::with_jobs("", &["bad"]);
    let done = work(&sandbox, "jobs --once --backoff 1h,factor=3", "echo no >&2; exit 1").expect(7);
    assert!(done.err.contains("tried again after this run"), "{}", done.err);
    assert_eq!(sandbox.last_attempt(0), json!(["delayed", 1, "exit 1", "no"]));
    assert!((3000.0..=3600.0).contains(&due_in(&sandbox, 0)));

    // It grows with the attempts.
    let sandbox = Sandbox::with_jobs("", &["bad"]);
    let token = sandbox.claim("jobs");
    sandbox.ok(&format!("release {token}"));
    work(&sandbox, "jobs --once --max-attempts 9 --backoff 1h,factor=3", "exit 1").expect(7);
    assert!((9000.0..=10_800.0).contains(&due_in(&sandbox, 0)));

    let sandbox = Sandbox::with_jobs("--backoff 1h", &["bad"]);
    work(&sandbox, "jobs --once --backoff 5h", "exit 1").expect(7);
    assert!((3000.0..=3600.0).contains(&due_in(&sandbox, 0)));
    sandbox.fails("work jobs --backoff 5h --delay 1h -- true", 2);
    sandbox.fails("work jobs --backoff soon -- true", 2);
    sandbox.ok("create plain --driver fifo");
    let message = sandbox.fails("work plain --backoff 5h -- true", 2);
    assert!(message.contains("--backoff: tube \"plain\" (fifo) does not support"), "{message}");
}

#[test]
fn kept_output_is_the_result_of_the_task() {
    let sandbox = Sandbox::with_jobs("--keep-done all", &["2+2", "bad", "quiet"]);
    let script =
        "case $(cat) in bad) echo part; exit 1;; quiet) ;; *) echo 4; printf '\\377';; esac";
    let done = work(&sandbox, "jobs --once --keep-output", script).expect(7);
    assert_eq!(done.text(), "");
    assert_eq!(sandbox.run("outcome jobs 0 --result").expect(0).out, b"4\n\xff");
    assert_eq!(sandbox.run("outcome jobs 2 --result").expect(0).out, b"");
    assert_eq!(sandbox.last_attempt(1)[0], "ready");
    let done = work(&sandbox, "jobs --once --keep-output --json", "echo 5").expect(0);
    assert_eq!(done.objects().len(), 2);
    assert_eq!(sandbox.json("outcome jobs 1")[0]["result"], "5\n");
    assert_eq!(sandbox.ok("verify"), "sound: 3 tasks\n");

    let sandbox = Sandbox::with(&["x"]);
    let message = sandbox.fails("work mail --once --keep-output -- cat", 2);
    assert!(message.contains("alter mail --keep-done age=1d"), "{message}");
    assert_eq!(sandbox.counts(), (1, 0, 0));
}

#[test]
fn output_that_is_longer_than_a_result_may_be_is_a_failure() {
    let sandbox = Sandbox::with_jobs("--keep-done all", &["1000000", "67108865"]);
    let script = "head -c $(cat) /dev/zero";
    let done = work(&sandbox, "jobs --once --keep-output", script).expect(7);
    assert!(done.err.contains("1 task done, 1 released"), "{}", done.err);
    assert_eq!(sandbox.run("outcome jobs 0 --result").expect(0).out.len(), 1_000_000);
    let message = "exit code 0 with more than 67108864 bytes of output";
    assert_eq!(sandbox.last_attempt(1), json!(["ready", 1, "output", message]));
}

#[test]
fn process_that_keeps_standard_output_open_does_not_hold_up_work() {
    let sandbox = Sandbox::with_jobs("--keep-done all", &["one"]);
    let mut gate = sandbox.gate();
    let script = "{ read x < gate; } 2>/dev/null & echo early";
    let mut work = sandbox.work("jobs --once --keep-output", script);
    work.notes("1 task done");
    assert_eq!(work.ends(), 0);
    gate.open(1);
    assert_eq!(sandbox.run("outcome jobs 0 --result").expect(0).out, b"early\n");
}

#[test]
fn exit_code_65_buries_the_task() {
    let sandbox = Sandbox::with_jobs("", &["bad"]);
    let done = work(&sandbox, "jobs --once", "exit 65").expect(7);
    assert!(done.err.contains("jobs 0: exit code 65 at take 1; buried"), "{}", done.err);
    assert_eq!(sandbox.last_attempt(0), json!(["buried", 1, "exit 65", "exit code 65"]));

    let sandbox = Sandbox::with_jobs("--max-attempts 5", &["bad"]);
    let script = "echo no address >&2; exit 65";
    let done = work(&sandbox, "jobs --once --json", script).expect(7).objects();
    assert_eq!((&done[0]["outcome"], &done[0]["exit"]), (&json!("buried"), &json!(65)));
    assert_eq!(sandbox.last_attempt(0), json!(["buried", 1, "exit 65", "no address"]));
}

#[test]
fn exit_code_75_snoozes_the_task_and_forgives_the_attempt() {
    // With --once it is tried once.
    for options in ["", "--max-attempts 1"] {
        let sandbox = Sandbox::with_jobs(options, &["later"]);
        let words = format!("jobs --once {options} --on-failure bury");
        let done = work(&sandbox, &words, "echo tried; exit 75").expect(7);
        assert_eq!(done.text(), "tried\n");
        assert!(done.err.contains("jobs 0: exit code 75 at take 1; snoozed"), "{}", done.err);
        assert!(done.err.contains("0 tasks done, 1 snoozed in"), "{}", done.err);
        assert_eq!(sandbox.last_attempt(0), json!(["ready", 0, null, null]));
        let done = work(&sandbox, "jobs --once --delay 1h --json", "exit 75").expect(7).objects();
        assert_eq!(done[0]["outcome"], "snoozed");
        assert_eq!((&done[1]["snoozed"], &done[1]["released"]), (&json!(1), &json!(0)));
        assert_eq!(sandbox.last_attempt(0), json!(["delayed", 0, null, null]));
        assert!((3000.0..=3600.0).contains(&due_in(&sandbox, 0)));
    }
    let sandbox = Sandbox::with_jobs("--max-attempts 1", &["later"]);
    let script = "echo attempt $TUBEWELL_ATTEMPT; test $TUBEWELL_TAKES = 3 || exit 75";
    let mut work = sandbox.work("jobs", script);
    for _ in 0..3 {
        work.prints("attempt 1");
    }
    work.notes("no task to wait for");
    work.signal(Signal::TERM);
    assert_eq!(work.ends(), 0);
    assert_eq!(sandbox.json("stats jobs")[0]["total"], 0);
}

#[test]
fn attempts_of_terminated_commands_do_not_count_for_max_attempts() {
    let sandbox = Sandbox::with_jobs("", &["slow"]);
    let mut running = sandbox.work("jobs --max-attempts 1", "echo started; exec sleep 1000");
    running.prints("started");
    running.signal(Signal::TERM);
    running.notes("stopping");
    running.signal(Signal::INT);
    assert_eq!(running.ends(), 130);
    assert_eq!(sandbox.last_attempt(0), json!(["ready", 0, null, null]));
    assert_eq!(work(&sandbox, "jobs --max-attempts 1 --once", "cat").expect(0).text(), "slow");
}

#[test]
fn once_waits_for_the_rates_of_sub_queues() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create jobs --driver utube --sub-queue-rate 1/100ms");
    sandbox.feed("import jobs --sub-queue q", b"a\nb\nc").expect(0);
    assert_eq!(work(&sandbox, "jobs --once --jobs 2", "cat").expect(0).text(), "abc");
}

#[test]
fn once_waits_for_the_cooldowns_of_sub_queues() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create jobs --driver utube --sub-queue-cooldown 100ms");
    sandbox.feed("import jobs --sub-queue q", b"a\nb\nc").expect(0);
    assert_eq!(work(&sandbox, "jobs --once --jobs 2", "cat").expect(0).text(), "abc");
}
