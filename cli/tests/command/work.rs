//! `work`: a command for each task, failures, signals, and kills.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Ended, Sandbox, run};

/// Runs `work` with a shell script as its command.
fn work(sandbox: &Sandbox, options: &str, script: &str) -> Ended {
    let mut command = sandbox.command(&["work"]);
    command.args(options.split_whitespace()).args(["--", "sh", "-c", script]);
    run(command, b"")
}

#[test]
fn command_gets_the_body_and_the_task_in_its_environment() {
    let sandbox = Sandbox::with(&["one", "two"]);
    sandbox.ok("create crawl --driver utube");
    sandbox.ok("put crawl three --sub-queue example.org");
    let script = "echo \"$TUBEWELL_ID $TUBEWELL_TUBE $TUBEWELL_TAKES $TUBEWELL_SUB_QUEUE $(cat)\"";
    let done = work(&sandbox, "crawl mail --once", script).expect(0);
    assert_eq!(done.text(), "2 crawl 1 example.org three\n0 mail 1  one\n1 mail 1  two\n");
    assert!(done.err.starts_with("3 tasks done in "), "{}", done.err);
    assert_eq!(sandbox.counts(), (0, 0, 0));
}

#[test]
fn body_larger_than_a_pipe_may_be_read_or_not() {
    let sandbox = Sandbox::with(&[]);
    let body = "0123456789".repeat(100_000);
    sandbox.feed("put mail -", body.as_bytes()).expect(0);
    sandbox.feed("put mail -", body.as_bytes()).expect(0);
    let script = "test $TUBEWELL_ID = 0 && exec cat; exit 0";
    let done = work(&sandbox, "mail --once", script).expect(0);
    assert!(done.text() == body);
}

#[test]
fn once_tries_each_task_once_and_releases_failed_tasks() {
    let sandbox = Sandbox::with(&["good", "bad", "good"]);
    let script = "echo $TUBEWELL_ID; test \"$(cat)\" = good";
    let done = work(&sandbox, "mail --once", script).expect(7);
    assert_eq!(done.text(), "0\n1\n2\n");
    assert!(done.err.contains("mail 1: exit code 1 at take 1"), "{}", done.err);
    assert!(done.err.contains("2 tasks done, 1 released"), "{}", done.err);
    assert_eq!(sandbox.counts(), (1, 0, 0));
    // The count of takes is stored.
    assert_eq!(sandbox.json("peek mail 1")[0]["takes"], 1);

    let done = work(&sandbox, "mail --once --delay 1h", "exit 3").expect(7);
    assert!(done.err.contains("exit code 3 at take 2"), "{}", done.err);
    assert_eq!(sandbox.counts(), (0, 1, 0));
}

#[test]
fn once_with_max_attempts_tries_again_and_then_buries() {
    let sandbox = Sandbox::with(&["bad", "good"]);
    let script = "echo $TUBEWELL_TAKES; test \"$(cat)\" = good";
    let done = work(&sandbox, "mail --once --max-attempts 3", script).expect(7);
    assert_eq!(done.text(), "1\n2\n3\n1\n");
    assert!(done.err.contains("1 task done, 1 buried in"), "{}", done.err);
    assert_eq!(sandbox.counts(), (0, 0, 1));
    // A task that was taken too often by killed workers is not tried again.
    sandbox.ok("kick mail 0");
    let done = work(&sandbox, "mail --once --max-attempts 2", "echo tried; exit 1").expect(7);
    assert_eq!(done.text(), "");
    assert_eq!(sandbox.counts(), (0, 0, 1));
}

#[test]
fn task_that_succeeds_after_failures_counts_as_done() {
    let sandbox = Sandbox::with(&["shy", "bold"]);
    let script = "test \"$(cat)\" = bold -o $TUBEWELL_TAKES = 3";
    let done = work(&sandbox, "mail --once --max-attempts 5", script).expect(0);
    assert!(done.err.contains("2 tasks done in"), "{}", done.err);
    assert_eq!(sandbox.counts(), (0, 0, 0));
}

#[test]
fn on_failure_bury_buries_after_the_first_failure() {
    let sandbox = Sandbox::with(&["a", "b"]);
    let done =
        work(&sandbox, "mail --once --on-failure bury --json", "echo noise; kill -9 $$").expect(7);
    let objects = done.objects();
    assert_eq!(
        objects[0],
        json!({"id": 0, "tube": "mail", "takes": 1, "outcome": "buried", "exit": null, "signal": 9})
    );
    assert_eq!((&objects[2]["summary"], &objects[2]["buried"]), (&json!(true), &json!(2)));
    assert_eq!(objects.len(), 3);
    // The output of commands goes to standard error.
    assert!(done.err.contains("noise"), "{}", done.err);
    assert_eq!(sandbox.counts(), (0, 0, 2));
}

#[test]
fn jobs_run_at_the_same_time() {
    let sandbox = Sandbox::with(&["a", "b", "c", "d"]);
    // Each waits for the other three.
    let script =
        "touch at-$TUBEWELL_ID; until [ -e at-0 -a -e at-1 -a -e at-2 -a -e at-3 ]; do :; done";
    work(&sandbox, "mail --once --jobs 4", script).expect(0);
    assert_eq!(sandbox.counts(), (0, 0, 0));
}

#[test]
fn one_command_of_a_sub_queue_runs_at_a_time() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create crawl --driver utube");
    sandbox.feed("import crawl --sub-queue one", "x\n".repeat(20).as_bytes()).expect(0);
    let script = "mkdir alone || exit 1; rmdir alone";
    work(&sandbox, "crawl --once --jobs 4", script).expect(0);
}

#[test]
fn claim_does_not_expire_while_its_command_runs() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create short --ttr 400ms");
    sandbox.ok("put short task");
    // Another task becomes ready long after the ttr of the first has elapsed.
    sandbox.ok("put short later --delay 1s");
    let script = "echo start $TUBEWELL_ID; test $TUBEWELL_ID = 1 || until [ -e done ]; do sleep 0.05; done; touch done";
    let mut running = sandbox.work("short --jobs 2", script);
    running.prints("start 0");
    running.prints("start 1");
    running.signal(Signal::TERM);
    assert_eq!(running.ends(), 0);
    assert_eq!(running.rest_of_output(), Vec::<String>::new());
    assert_eq!(sandbox.json("stats short")[0]["total"], 0);
}

#[test]
fn work_waits_for_delayed_tasks() {
    let sandbox = Sandbox::with(&[]);
    // On a slow machine the first may be ready before work starts.
    sandbox.ok("put mail soon --delay 1s");
    sandbox.ok("put mail later --delay 1h");
    let mut running = sandbox.work("mail", "cat; echo");
    running.notes(" delayed task");
    running.prints("soon");
    running.signal(Signal::TERM);
    assert_eq!(running.ends(), 0);
    assert_eq!(sandbox.counts(), (0, 1, 0));
}

#[test]
fn signal_stops_an_idle_worker() {
    let sandbox = Sandbox::with(&["one"]);
    for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 0), (Signal::HUP, 0)] {
        sandbox.ok("put mail next");
        let mut running = sandbox.work("mail", "cat; echo; echo done");
        running.prints("done");
        running.notes("no other process can put while work has the store open");
        running.signal(signal);
        assert_eq!(running.ends(), code);
    }
}

#[test]
fn first_signal_lets_running_commands_finish() {
    let sandbox = Sandbox::with(&["one", "two", "three"]);
    let mut gate = sandbox.gate();
    let mut running = sandbox.work("mail --jobs 2", "echo started; read x < gate; echo finished");
    running.prints("started");
    running.prints("started");
    running.signal_group(Signal::INT);
    running.notes("stopping after 2 running commands");
    gate.open(2);
    running.prints("finished");
    running.prints("finished");
    assert_eq!(running.ends(), 0);
    running.notes("2 tasks done");
    assert_eq!(sandbox.counts(), (1, 0, 0));
}

#[test]
fn second_signal_terminates_commands_and_releases_their_tasks() {
    let sandbox = Sandbox::with(&["one", "two"]);
    let options = "mail --jobs 2 --on-failure bury --max-attempts 1";
    let mut running = sandbox.work(options, "echo started; exec sleep 1000");
    running.prints("started");
    running.prints("started");
    running.signal(Signal::TERM);
    running.notes("stopping");
    running.signal(Signal::INT);
    assert_eq!(running.ends(), 130);
    // They did not fail, so none is buried.
    assert_eq!(sandbox.counts(), (2, 0, 0));
}

#[test]
fn third_signal_kills_commands_that_ignore_sigterm() {
    let sandbox = Sandbox::with(&["one"]);
    let script = "trap '' TERM; echo started; while :; do sleep 1; done";
    let mut running = sandbox.work("mail", script);
    running.prints("started");
    running.signal(Signal::INT);
    running.notes("stopping");
    running.signal(Signal::TERM);
    running.notes("SIGKILL follows");
    running.signal(Signal::INT);
    assert_eq!(running.ends(), 130);
    assert_eq!(sandbox.counts(), (1, 0, 0));
}

#[test]
fn killed_worker_frees_the_store_and_its_tasks() {
    let sandbox = Sandbox::with(&["one", "two", "three"]);
    let mut gate = sandbox.gate();
    let mut running = sandbox.work("mail --jobs 2", "echo started; read x < gate");
    running.prints("started");
    running.prints("started");
    running.signal(Signal::KILL);
    assert_eq!(running.ends(), -9);
    // The commands still run; the store can be opened.
    assert_eq!(sandbox.counts(), (3, 0, 0));
    assert_eq!(sandbox.ok("verify"), "sound: 3 tasks\n");
    gate.open(2);
    work(&sandbox, "mail --once", "exit 0").expect(0);
    assert_eq!(sandbox.counts(), (0, 0, 0));
}

#[test]
fn task_whose_ttl_elapses_while_its_command_runs_is_lost() {
    // On a slow machine the ttl may elapse before the task is taken: then there is no command.
    let lost = [2, 8, 32].into_iter().any(|ttl| {
        let sandbox = Sandbox::with(&[]);
        sandbox.ok(&format!("put mail brief --ttl {ttl}s"));
        let done = work(&sandbox, "mail --once", &format!("echo started; sleep {}", ttl + 1));
        if done.text().is_empty() {
            return false;
        }
        let done = done.expect(7);
        assert!(done.err.contains("1 lost"), "{}", done.err);
        true
    });
    assert!(lost);
}

#[test]
fn signal_that_was_ignored_at_the_start_stays_ignored() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let sandbox = Sandbox::with(&["one"]);
    let mut gate = sandbox.gate();
    let mut command = std::process::Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" work mail --once -- sh -c 'echo started; read x < gate'";
    command.args(["-c", script, env!("CARGO_BIN_EXE_tubewell")]);
    command.env("TUBEWELL_STORE", sandbox.store()).current_dir(sandbox.dir.path());
    let mut running = crate::support::Running::start(command);
    running.prints("started");
    running.signal(Signal::HUP);
    gate.open(1);
    assert_eq!(running.ends(), 0);
}

#[test]
fn closed_output_releases_the_tasks_of_failed_commands() {
    let sandbox = Sandbox::with(&["x"; 50]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = sandbox.command(&["work", "mail", "--once", "--on-failure", "bury"]);
    command.args(["--", "sh", "-c", "echo hello || exit 1"]);
    command.stdout(writer).stderr(std::process::Stdio::piped());
    let done = crate::support::finish(command.spawn().unwrap()).expect(141);
    assert_eq!(done.err.lines().count(), 2, "{}", done.err);
    assert_eq!(sandbox.counts(), (50, 0, 0));
}

#[test]
fn no_more_than_jobs_commands_run_when_tasks_fail_repeatedly() {
    let sandbox = Sandbox::with(&["x"; 3]);
    let script = "touch run-$$; set -- run-*; test $# -gt 2 && echo too many; rm run-$$; exit 1";
    let done = work(&sandbox, "mail --once --jobs 2 --max-attempts 100", script).expect(7);
    assert_eq!(done.text(), "");
    assert_eq!(sandbox.counts(), (0, 0, 3));
}

#[test]
fn same_signal_twice_within_a_moment_counts_once() {
    // `timeout` sends it so, and a terminal that is closed. On a busy machine the second may come
    // late, but not every time.
    let counts_once = || {
        let sandbox = Sandbox::with(&["one"]);
        let mut gate = sandbox.gate();
        let mut running = sandbox.work("mail", "echo started; read x < gate");
        running.prints("started");
        running.signal(Signal::TERM);
        running.notes("stopping");
        running.signal(Signal::TERM);
        gate.open(1);
        running.ends() == 0 && sandbox.counts() == (0, 0, 0)
    };
    assert!((0..10).any(|_| counts_once()));
}

#[test]
fn ttr_of_zero_stops_the_run_with_a_hint() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create brief --ttr 0");
    sandbox.ok("put brief task");
    for options in ["brief --once", "brief"] {
        let said = work(&sandbox, options, "echo started").expect(6);
        assert!(said.err.contains("task 0 of brief has a ttr of 0ms"), "{}", said.err);
        assert!(said.err.contains("tubewell bury brief 0"), "{}", said.err);
        assert_eq!(said.text(), "");
    }
    let pop = sandbox.run("pop brief").expect(6);
    assert!(pop.text().is_empty() && pop.err.contains("tubewell bury brief 0"), "{}", pop.err);
    sandbox.ok("bury brief 0");
    work(&sandbox, "brief --once", "echo started").expect(0);
    assert_eq!(sandbox.json("stats brief")[0]["buried"], 1);
}

#[test]
fn nul_in_a_sub_queue_name_is_replaced_in_the_environment() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create crawl --driver utube");
    let line = r#"{"data": "x", "sub_queue": "a\u0000b"}"#;
    sandbox.feed("import crawl --format json", line.as_bytes()).expect(0);
    let done = work(&sandbox, "crawl --once", "echo $TUBEWELL_SUB_QUEUE").expect(0);
    assert_eq!(done.text(), "a\u{fffd}b\n");
}

#[test]
fn signal_stops_a_worker_that_buries_many_tasks() {
    let sandbox = Sandbox::with(&vec!["x"; 5000]);
    // All have been taken once, the limit below.
    let store = tubewell::Store::open(sandbox.store()).unwrap();
    drop(store.find_tube("mail").unwrap().take_many(5000, std::time::Duration::ZERO).unwrap());
    store.close().unwrap();
    let options = "mail --max-attempts 1 --jobs 1 --json";
    let mut running = sandbox.work(options, "exit 0");
    running.prints("buried");
    running.signal(Signal::TERM);
    assert_eq!(running.ends(), 0);
    let (ready, _, buried) = sandbox.counts();
    assert!(ready > 0 && buried > 0, "{ready} {buried}");
}

#[test]
fn command_ended_by_the_same_signal_has_not_failed() {
    // A service manager signals every process of the service.
    for end in ["kill -TERM $$", "exit 143"] {
        let sandbox = Sandbox::with(&["one"]);
        let mut gate = sandbox.gate();
        let script = format!("echo started; read x < gate; {end}");
        let mut running = sandbox.work("mail --on-failure bury", &script);
        running.prints("started");
        running.signal(Signal::TERM);
        running.notes("stopping");
        gate.open(1);
        assert_eq!(running.ends(), 0);
        assert_eq!(sandbox.counts(), (1, 0, 0), "{end}");
    }
    // Without a signal to `work` it is a failure.
    let sandbox = Sandbox::with(&["one"]);
    work(&sandbox, "mail --once --on-failure bury", "kill -TERM $$").expect(7);
    assert_eq!(sandbox.counts(), (0, 0, 1));
}
