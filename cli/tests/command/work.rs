//! `work`: a command for each task, failures, stopping, and being killed.

use rustix::process::Signal;
use serde_json::json;

use crate::support::{Bench, run};

/// A command that needs more than one word.
fn work(bench: &Bench, options: &str, script: &str) -> crate::support::Done {
    let mut command = bench.command(&["work"]);
    command.args(options.split_whitespace()).args(["--", "sh", "-c", script]);
    run(command, b"")
}

#[test]
fn a_command_gets_the_body_and_who_it_is() {
    let bench = Bench::with(&["one", "two"]);
    bench.ok("create crawl --driver utube");
    bench.ok("put crawl three --sub-queue example.org");
    let script = "echo \"$TUBEWELL_ID $TUBEWELL_TUBE $TUBEWELL_TAKES $TUBEWELL_SUB_QUEUE $(cat)\"";
    let done = work(&bench, "crawl mail --once", script).expect(0);
    assert_eq!(done.text(), "2 crawl 1 example.org three\n0 mail 1  one\n1 mail 1  two\n");
    assert!(done.err.starts_with("3 tasks done in "), "{}", done.err);
    assert_eq!(bench.counts(), (0, 0, 0));
}

#[test]
fn a_body_larger_than_a_pipe_arrives_or_is_not_missed() {
    let bench = Bench::with(&[]);
    let body = "0123456789".repeat(100_000);
    bench.feed("put mail -", body.as_bytes()).expect(0);
    bench.feed("put mail -", body.as_bytes()).expect(0);
    let script = "test $TUBEWELL_ID = 0 && exec cat; exit 0";
    let done = work(&bench, "mail --once", script).expect(0);
    assert!(done.text() == body);
}

#[test]
fn once_tries_each_task_once_and_gives_failures_back() {
    let bench = Bench::with(&["good", "bad", "good"]);
    let script = "echo $TUBEWELL_ID; test \"$(cat)\" = good";
    let done = work(&bench, "mail --once", script).expect(7);
    assert_eq!(done.text(), "0\n1\n2\n");
    assert!(done.err.contains("mail 1: exit code 1 at take 1"), "{}", done.err);
    assert!(done.err.contains("2 tasks done, 1 released"), "{}", done.err);
    assert_eq!(bench.counts(), (1, 0, 0));
    // How often it was taken is known to the next run.
    assert_eq!(bench.json("peek mail 1")[0]["takes"], 1);

    let done = work(&bench, "mail --once --delay 1h", "exit 3").expect(7);
    assert!(done.err.contains("exit code 3 at take 2"), "{}", done.err);
    assert_eq!(bench.counts(), (0, 1, 0));
}

#[test]
fn once_with_max_takes_tries_again_and_then_buries() {
    let bench = Bench::with(&["bad", "good"]);
    let script = "echo $TUBEWELL_TAKES; test \"$(cat)\" = good";
    let done = work(&bench, "mail --once --max-takes 3", script).expect(7);
    assert_eq!(done.text(), "1\n2\n3\n1\n");
    assert!(done.err.contains("1 task done, 1 buried in"), "{}", done.err);
    assert_eq!(bench.counts(), (0, 0, 1));
    // One that was taken too often by workers that died is not tried once more.
    bench.ok("kick mail");
    let done = work(&bench, "mail --once --max-takes 2", "echo tried; exit 1").expect(7);
    assert_eq!(done.text(), "");
    assert_eq!(bench.counts(), (0, 0, 1));
}

#[test]
fn a_task_that_succeeds_at_last_is_done() {
    let bench = Bench::with(&["shy", "bold"]);
    let script = "test \"$(cat)\" = bold -o $TUBEWELL_TAKES = 3";
    let done = work(&bench, "mail --once --max-takes 5", script).expect(0);
    assert!(done.err.contains("2 tasks done in"), "{}", done.err);
    assert_eq!(bench.counts(), (0, 0, 0));
}

#[test]
fn a_failure_may_bury_at_once() {
    let bench = Bench::with(&["a", "b"]);
    let done =
        work(&bench, "mail --once --on-failure bury --json", "echo noise; kill -9 $$").expect(7);
    let told = done.objects();
    assert_eq!(
        told[0],
        json!({"id": 0, "tube": "mail", "takes": 1, "outcome": "buried", "exit": null, "signal": 9})
    );
    assert_eq!((&told[2]["summary"], &told[2]["buried"]), (&json!(true), &json!(2)));
    assert_eq!(told.len(), 3);
    // What commands print does not get between the objects.
    assert!(done.err.contains("noise"), "{}", done.err);
    assert_eq!(bench.counts(), (0, 0, 2));
}

#[test]
fn several_commands_run_at_a_time() {
    let bench = Bench::with(&["a", "b", "c", "d"]);
    // Each waits until the other three are there too.
    let script =
        "touch at-$TUBEWELL_ID; until [ -e at-0 -a -e at-1 -a -e at-2 -a -e at-3 ]; do :; done";
    work(&bench, "mail --once --jobs 4", script).expect(0);
    assert_eq!(bench.counts(), (0, 0, 0));
}

#[test]
fn of_a_sub_queue_one_command_runs_at_a_time() {
    let bench = Bench::with(&[]);
    bench.ok("create crawl --driver utube");
    bench.feed("import crawl --sub-queue one", "x\n".repeat(20).as_bytes()).expect(0);
    let script = "mkdir alone || exit 1; rmdir alone";
    work(&bench, "crawl --once --jobs 4", script).expect(0);
}

#[test]
fn a_hold_does_not_end_while_its_command_runs() {
    let bench = Bench::with(&[]);
    bench.ok("create short --ttr 50ms");
    bench.ok("put short task");
    // Another task of the tube becomes ready long after the hold of the first would have ended.
    bench.ok("put short later --delay 1s");
    let script = "echo start $TUBEWELL_ID; test $TUBEWELL_ID = 1 || until [ -e over ]; do sleep 0.05; done; touch over";
    let mut running = bench.work("short --jobs 2", script);
    running.says("start 0");
    running.says("start 1");
    running.signal(Signal::TERM);
    assert_eq!(running.ends(), 0);
    assert_eq!(running.rest_of_output(), Vec::<String>::new());
    assert_eq!(bench.json("stats short")[0]["total"], 0);
}

#[test]
fn work_waits_for_tasks_that_become_ready() {
    let bench = Bench::with(&[]);
    bench.ok("put mail soon --delay 1s");
    let mut running = bench.work("mail", "cat; echo");
    running.remarks("waiting for 1 delayed task");
    running.says("soon");
    running.signal(Signal::TERM);
    assert_eq!(running.ends(), 0);
    assert_eq!(bench.counts(), (0, 0, 0));
}

#[test]
fn an_idle_worker_stops_at_once() {
    let bench = Bench::with(&["one"]);
    for (signal, code) in [(Signal::TERM, 0), (Signal::INT, 0), (Signal::HUP, 0)] {
        bench.ok("put mail next");
        let mut running = bench.work("mail", "cat; echo; echo done");
        running.says("done");
        running.remarks("nobody can put while work has the store");
        running.signal(signal);
        assert_eq!(running.ends(), code);
    }
}

#[test]
fn the_first_ctrl_c_lets_running_commands_finish() {
    let bench = Bench::with(&["one", "two", "three"]);
    let mut gate = bench.gate();
    let mut running = bench.work("mail --jobs 2", "echo started; read x < gate; echo finished");
    running.says("started");
    running.says("started");
    running.signal_group(Signal::INT);
    running.remarks("stopping: 2 running commands may finish");
    gate.open(2);
    running.says("finished");
    running.says("finished");
    assert_eq!(running.ends(), 0);
    running.remarks("2 tasks done");
    assert_eq!(bench.counts(), (1, 0, 0));
}

#[test]
fn a_second_signal_ends_commands_and_releases_their_tasks() {
    let bench = Bench::with(&["one", "two"]);
    let options = "mail --jobs 2 --on-failure bury --max-takes 1";
    let mut running = bench.work(options, "echo started; exec sleep 1000");
    running.says("started");
    running.says("started");
    running.signal(Signal::TERM);
    running.remarks("stopping");
    running.signal(Signal::INT);
    assert_eq!(running.ends(), 130);
    // They did not fail: nothing is buried.
    assert_eq!(bench.counts(), (2, 0, 0));
}

#[test]
fn commands_that_will_not_end_are_ended_by_force() {
    let bench = Bench::with(&["one"]);
    let script = "trap '' TERM; echo started; while :; do sleep 1; done";
    let mut running = bench.work("mail", script);
    running.says("started");
    running.signal(Signal::INT);
    running.remarks("stopping");
    running.signal(Signal::TERM);
    running.remarks("by force");
    running.signal(Signal::INT);
    assert_eq!(running.ends(), 130);
    assert_eq!(bench.counts(), (1, 0, 0));
}

#[test]
fn a_killed_worker_loses_nothing() {
    let bench = Bench::with(&["one", "two", "three"]);
    let mut gate = bench.gate();
    let mut running = bench.work("mail --jobs 2", "echo started; read x < gate");
    running.says("started");
    running.says("started");
    running.signal(Signal::KILL);
    assert_eq!(running.ends(), -9);
    // The commands still run, and the store is free nevertheless.
    assert_eq!(bench.counts(), (3, 0, 0));
    assert_eq!(bench.ok("verify"), "sound: 3 tasks\n");
    gate.open(2);
    work(&bench, "mail --once", "exit 0").expect(0);
    assert_eq!(bench.counts(), (0, 0, 0));
}

#[test]
fn a_task_whose_life_ends_meanwhile_is_told_as_lost() {
    let bench = Bench::with(&[]);
    // Long enough to be taken in time, and the command lasts longer for sure.
    bench.ok("put mail brief --ttl 4s");
    let done = work(&bench, "mail --once", "sleep 5").expect(7);
    assert!(done.err.contains("1 lost"), "{}", done.err);
}

#[test]
fn a_signal_that_was_ignored_stays_ignored() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let bench = Bench::with(&["one"]);
    let mut gate = bench.gate();
    let mut command = std::process::Command::new("sh");
    let script = "trap '' HUP; exec \"$0\" work mail --once -- sh -c 'echo started; read x < gate'";
    command.args(["-c", script, env!("CARGO_BIN_EXE_tubewell")]);
    command.env("TUBEWELL_STORE", bench.store()).current_dir(bench.dir.path());
    let mut running = crate::support::Running::start(command);
    running.says("started");
    running.signal(Signal::HUP);
    gate.open(1);
    assert_eq!(running.ends(), 0);
}

#[test]
fn commands_that_nobody_reads_any_more_cost_no_task() {
    let bench = Bench::with(&["x"; 50]);
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let mut command = bench.command(&["work", "mail", "--once", "--on-failure", "bury"]);
    command.args(["--", "sh", "-c", "echo hello || exit 1"]);
    command.stdout(writer).stderr(std::process::Stdio::piped());
    let done = crate::support::finish(command.spawn().unwrap()).expect(141);
    assert_eq!(done.err.lines().count(), 2, "{}", done.err);
    assert_eq!(bench.counts(), (50, 0, 0));
}

#[test]
fn of_tasks_that_fail_again_and_again_no_more_run_than_were_asked_for() {
    let bench = Bench::with(&["x"; 3]);
    let script = "touch run-$$; set -- run-*; test $# -gt 2 && echo crowd; rm run-$$; exit 1";
    let done = work(&bench, "mail --once --jobs 2 --max-takes 100", script).expect(7);
    assert_eq!(done.text(), "");
    assert_eq!(bench.counts(), (0, 0, 3));
}

#[test]
fn a_signal_that_comes_twice_at_once_is_one() {
    // As `timeout` sends it, and a terminal that is closed. On a busy machine the second may come
    // late, but not every time.
    let is_one = || {
        let bench = Bench::with(&["one"]);
        let mut gate = bench.gate();
        let mut running = bench.work("mail", "echo started; read x < gate");
        running.says("started");
        running.signal(Signal::TERM);
        running.remarks("stopping");
        running.signal(Signal::TERM);
        gate.open(1);
        running.ends() == 0 && bench.counts() == (0, 0, 0)
    };
    assert!((0..10).any(|_| is_one()));
}

#[test]
fn a_hold_that_is_over_at_once_stops_the_run_and_says_so() {
    let bench = Bench::with(&[]);
    bench.ok("create brief --ttr 0");
    bench.ok("put brief task");
    for options in ["brief --once", "brief"] {
        let said = work(&bench, options, "echo started").expect(6);
        assert!(said.err.contains("task 0 of brief has a ttr of 0ms"), "{}", said.err);
        assert!(said.err.contains("tubewell bury brief 0"), "{}", said.err);
        assert_eq!(said.text(), "");
    }
    // Nor is it printed as if it could be finished.
    let take = bench.run("take brief").expect(6);
    assert!(take.text().is_empty() && take.err.contains("tubewell bury brief 0"), "{}", take.err);
    bench.ok("bury brief 0");
    work(&bench, "brief --once", "echo started").expect(0);
    assert_eq!(bench.json("stats brief")[0]["buried"], 1);
}

#[test]
fn a_sub_queue_with_a_nul_in_its_name_does_not_stop_the_run() {
    let bench = Bench::with(&[]);
    bench.ok("create crawl --driver utube");
    let line = r#"{"data": "x", "sub_queue": "a\u0000b"}"#;
    bench.feed("import crawl --format json", line.as_bytes()).expect(0);
    let done = work(&bench, "crawl --once", "echo $TUBEWELL_SUB_QUEUE").expect(0);
    assert_eq!(done.text(), "a\u{fffd}b\n");
}

#[test]
fn a_worker_that_sets_many_tasks_aside_still_stops_when_asked() {
    let bench = Bench::with(&vec!["x"; 5000]);
    // All have been taken as often as they may.
    let store = tubewell::Store::open(bench.store()).unwrap();
    drop(store.tube("mail").unwrap().take_many(5000, std::time::Duration::ZERO).unwrap());
    store.close().unwrap();
    let options = "mail --max-takes 1 --jobs 1 --json";
    let mut running = bench.work(options, "exit 0");
    running.says("buried");
    running.signal(Signal::TERM);
    assert_eq!(running.ends(), 0);
    let (ready, _, buried) = bench.counts();
    assert!(ready > 0 && buried > 0, "{ready} {buried}");
}

#[test]
fn a_command_that_the_same_signal_ends_has_not_failed() {
    // As a service manager sends it: to every process of the service.
    for end in ["kill -TERM $$", "exit 143"] {
        let bench = Bench::with(&["one"]);
        let mut gate = bench.gate();
        let script = format!("echo started; read x < gate; {end}");
        let mut running = bench.work("mail --on-failure bury", &script);
        running.says("started");
        running.signal(Signal::TERM);
        running.remarks("stopping");
        gate.open(1);
        assert_eq!(running.ends(), 0);
        assert_eq!(bench.counts(), (1, 0, 0), "{end}");
    }
    // Without a signal to stop it is a failure like any other.
    let bench = Bench::with(&["one"]);
    work(&bench, "mail --once --on-failure bury", "kill -TERM $$").expect(7);
    assert_eq!(bench.counts(), (0, 0, 1));
}
