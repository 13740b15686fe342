//! `import`: lines become tasks. Before a wrong line all are stored, from it on none.

use std::fmt::Write as _;
use std::io::Write;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::json;

use crate::support::{Sandbox, finish, within_deadline};

#[test]
fn each_line_is_a_task() {
    let sandbox = Sandbox::with(&[]);
    let done =
        sandbox.feed("import mail --priority 4", b"one\ntwo\r\n\nbytes \xff\nlast").expect(0);
    assert_eq!(done.text(), "stored 5 tasks in mail\n");
    let bodies: Vec<_> = sandbox.json("list mail").iter().map(|t| t["data"].clone()).collect();
    assert_eq!(bodies, [json!("one"), json!("two"), json!(""), json!(null), json!("last")]);
    assert!(sandbox.json("list mail").iter().all(|task| task["priority"] == 4));
    let done = sandbox.feed("import mail --json", b"x\n").expect(0);
    assert_eq!(done.objects(), [json!({"tube": "mail", "stored": 1, "failed_line": null})]);
    assert_eq!(sandbox.feed("import mail", b"").expect(0).text(), "stored 0 tasks in mail\n");
}

#[test]
fn json_line_has_its_own_options() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create crawl --driver utubettl");
    let input = r#"{"data": "a", "priority": 2, "delay": "10m", "sub_queue": "x"}

{"data_base64": "/wA=", "ttl": 90, "ttr": 1.5}
{"data": "c", "priority": null}
"#;
    let done = sandbox.feed("import crawl --format json --priority 9", input.as_bytes()).expect(0);
    assert_eq!(done.text(), "stored 3 tasks in crawl\n");
    let tasks = sandbox.json("list crawl");
    let by = |id: u64| tasks.iter().find(|task| task["id"] == id).unwrap();
    assert_eq!(
        (&by(0)["state"], &by(0)["priority"], &by(0)["sub_queue"]),
        (&json!("delayed"), &json!(2), &json!("x"))
    );
    assert_eq!(
        (&by(1)["data_base64"], &by(1)["ttr"], &by(1)["priority"]),
        (&json!("/wA="), &json!(1.5), &json!(9))
    );
    assert!(by(1)["ttl_left"].as_f64().unwrap() <= 90.0);
    assert_eq!((&by(2)["data"], &by(2)["priority"]), (&json!("c"), &json!(9)));
}

#[test]
fn wrong_line_is_reported_and_lines_before_it_are_stored() {
    for (line, why) in [
        ("{\"data\": \"x\"", "EOF"),
        ("{\"data\": \"x\", \"prio\": 1}", "unknown field `prio`"),
        ("{\"data\": 5}", "invalid type"),
        ("{}", "neither data nor data_base64"),
        ("[\"x\", null, null, null, null, null, null]", "not a JSON object"),
        ("{\"data\": \"\", \"data_base64\": \"\"}", "both"),
        ("{\"data_base64\": \"*\"}", "not base64"),
        ("{\"data\": \"x\", \"delay\": \"10\"}", "10 has no unit"),
        ("{\"data\": \"x\", \"ttl\": -1}", "is not a duration"),
        ("{\"data\": \"x\", \"sub_queue\": \"q\"}", "does not support"),
    ] {
        let sandbox = Sandbox::with(&[]);
        let mut input = "{\"data\": \"ok\"}\n".repeat(1000);
        // Empty lines are counted, too.
        input.push('\n');
        writeln!(input, "{line}").unwrap();
        input.push_str(&"{\"data\": \"ok\"}\n".repeat(1000));
        let done = sandbox.feed("import mail --format json --json", input.as_bytes()).expect(7);
        assert_eq!(done.objects(), [json!({"tube": "mail", "stored": 1000, "failed_line": 1002})]);
        assert!(done.err.contains("line 1002: ") && done.err.contains(why), "{line}: {}", done.err);
        assert!(done.err.contains("1000 tasks were stored"), "{}", done.err);
        assert!(done.err.contains("tail -n +1002"), "{}", done.err);
        assert_eq!(sandbox.counts(), (1000, 0, 0));
    }
}

#[test]
fn tube_that_becomes_full_stores_the_lines_before() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create up --driver limfifottl --capacity 70");
    let done = sandbox.feed("import up", "line\n".repeat(200).as_bytes()).expect(7);
    assert!(done.err.contains("line 71: tube \"up\" is full"), "{}", done.err);
    assert!(done.err.contains("70 tasks were stored"), "{}", done.err);
    assert_eq!(sandbox.json("stats up")[0]["ready"], 70);
}

#[test]
fn many_lines_are_stored_in_order() {
    let sandbox = Sandbox::with(&[]);
    let mut input = String::new();
    for number in 0..120_000 {
        writeln!(input, "{number}").unwrap();
    }
    let done = sandbox.feed("import mail", input.as_bytes()).expect(0);
    assert_eq!(done.text(), "stored 120000 tasks in mail\n");
    for id in [0, 49_999, 50_000, 119_999] {
        assert_eq!(sandbox.ok(&format!("peek mail {id} --body")), id.to_string());
    }
}

#[test]
fn line_may_hold_the_largest_body_with_every_byte_escaped() {
    // An export writes a body of NULs like this. A third of it is longer than any base64 body.
    let line = b"\\u0000".repeat(tubewell::MAX_BODY / 3 + 1);
    let lines = tubewell_cli::input::lines(line.as_slice());
    assert!(lines.len() == 1 && lines[0].1.len() == line.len());
}

#[test]
fn signal_reports_how_many_tasks_were_stored() {
    let sandbox = Sandbox::with(&[]);
    let mut command = sandbox.command(&["import", "mail"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    // More than the pipe and the process can buffer: the write returns while the import is under
    // way. The last line has no line end.
    let input = format!("{}hal", "a line\n".repeat(400_000));
    let mut stdin = within_deadline("the input", move || {
        stdin.write_all(input.as_bytes()).unwrap();
        stdin
    });
    let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
    kill_process(pid, Signal::INT).unwrap();
    let done = finish(child).expect(130);
    let _ = stdin.flush();
    let (ready, ..) = sandbox.counts();
    assert!(ready > 0 && ready <= 400_000);
    let message = format!("stopped by a signal; {ready} tasks were stored");
    assert!(done.err.contains(&message), "{}", done.err);
    assert!(done.err.contains(&format!("tail -n +{} FILE", ready + 1)), "{}", done.err);
}

#[test]
fn ctrl_c_that_ends_the_writer_is_not_the_end_of_the_input() {
    for _ in 0..12 {
        let sandbox = Sandbox::with(&[]);
        let mut command = sandbox.command(&["import", "mail"]);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id()).unwrap()).unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // More than a pipe holds. After it was read the import waits for more.
        stdin.write_all("a line\n".repeat(12_000).as_bytes()).unwrap();
        while rustix::io::ioctl_fionread(&stdin).unwrap() > 0 {
            std::thread::yield_now();
        }
        kill_process(pid, Signal::STOP).unwrap();
        stdin.write_all(b"half a li").unwrap();
        kill_process(pid, Signal::INT).unwrap();
        drop(stdin);
        kill_process(pid, Signal::CONT).unwrap();
        let done = finish(child).expect(130);
        assert!(done.err.contains("stopped by a signal; "), "{}", done.err);
        let bodies = sandbox.json("list mail --all");
        assert!(bodies.iter().all(|task| task["data"] == "a line"), "{bodies:?}");
    }
}
