//! `events`: what happens in a store, as it happens. Without an owner that serves it, that is what falls
//! due.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use rustix::process::Signal;
use serde_json::{Value, json};
use tubewell::{FIFO, Put, ServeOptions, Store, TubeOptions};

use crate::support::{Running, Sandbox, columns_of, finish, within_deadline};

/// A store in which delays of `mail` and ttls of `news` elapse again and again for a minute: the first
/// ones may have elapsed when a command has opened it.
fn due_soon() -> Sandbox {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create news");
    let times = [1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64];
    let later = times.map(|time| {
        format!(r#"{{"data": "later", "delay": {time}, "key": "mine-{time}", "tags": ["red"]}}"#)
    });
    sandbox.feed("import mail --format json", later.join("\n").as_bytes()).expect(0);
    let expiring = times.map(|time| format!(r#"{{"data": "x", "ttl": {time}}}"#));
    sandbox.feed("import news --format json", expiring.join("\n").as_bytes()).expect(0);
    sandbox
}

#[test]
fn next_event_is_printed() {
    let sandbox = due_soon();
    let done = sandbox.run("events --kind delay").expect(0);
    let lines = columns_of(done.text());
    assert_eq!(lines[0], ["TIME", "TUBE", "ID", "WHAT", "STATE", "OWNER", "TEXT"]);
    assert!(lines[1][0].ends_with('Z') && lines[1][2].parse::<u64>().is_ok(), "{lines:?}");
    assert_eq!((lines[1][1], &lines[1][3..]), ("mail", &["delay", "ready", "-", "-"][..]));
    assert!(done.err.contains("no other process can change the store"), "{}", done.err);
}

#[test]
fn events_are_selected_by_tube_kind_key_and_tag() {
    let sandbox = due_soon();
    let keys = [4, 8, 12, 16, 24, 32, 48, 64].map(|time| format!("--key mine-{time} ")).concat();
    for words in ["mail", &keys, "--tag red", "--kind delay,ack", &format!("mail {keys}")] {
        let events = sandbox.json(&format!("events {words}"));
        let event = &events[0];
        assert_eq!((&event["tube"], &event["kind"]), (&"mail".into(), &"delay".into()), "{words}");
        assert_eq!(event["state"], "ready");
        assert!(event["key"].as_str().unwrap().starts_with("mine-"), "{event}");
        assert!(event["at"].is_string() && event["seq"].is_number(), "{event}");
        assert_eq!((&event["owner"], &event["missed"]), (&Value::Null, &0.into()));
    }
    let expired = sandbox.json("events news --kind delete");
    assert_eq!((&expired[0]["kind"], &expired[0]["cause"]), (&"delete".into(), &"expired".into()));
}

#[test]
fn events_show_their_tasks_with_details() {
    let sandbox = due_soon();
    let event = sandbox.json("events mail --kind delay").remove(0);
    assert_eq!(event["details"], Value::Null);
    let event = sandbox.json("events mail --kind delay --details").remove(0);
    let details = &event["details"];
    assert_eq!((&details["priority"], &details["failure"]), (&100.into(), &Value::Null));
    assert_eq!(details["tags"], json!(["red"]));
    let body = details["data"].as_str().unwrap().to_owned();
    let text = sandbox.ok("events mail --kind delay --details");
    assert!(text.contains("\n  priority 100  tags red\n  > "), "{body} {text}");
    let expired = sandbox.json("events news --kind delete --details").remove(0);
    assert_eq!(expired["details"].get("data"), None, "{expired}");
}

#[test]
fn command_ends_with_3_if_no_event_comes_within_its_timeout() {
    let sandbox = Sandbox::with(&["a"]);
    for words in ["--key other", "mail --kind ack", "--owner x", "--tag x --follow", ""] {
        let why = sandbox.fails(&format!("events {words} --timeout 1ms"), 3);
        assert!(why.contains("no event came within 1ms"), "{why}");
    }
}

#[test]
fn follow_goes_on_until_a_signal() {
    let sandbox = due_soon();
    let mut command = sandbox.command(&["events", "--follow"]);
    command.stdin(Stdio::null());
    let mut running = Running::start(command);
    running.prints(" delete ");
    running.prints(" delay ");
    running.prints(" delete ");
    running.signal(Signal::TERM);
    assert_eq!(running.ends(), 0);
}

#[test]
fn signal_before_the_first_event_ends_the_command() {
    let sandbox = Sandbox::with(&[]);
    let mut command = sandbox.command(&["events"]);
    command.stdin(Stdio::null());
    let mut running = Running::start(command);
    running.notes("no other process can change the store");
    running.signal(Signal::INT);
    assert_eq!(running.ends(), 130);
}

/// Beside those that wait at the owner, at most 4,000 are on their way: in the connection, and in the pipe.
#[test]
fn slow_reader_gets_10_000_events_and_is_told_how_many_it_has_missed() {
    const PUTS: usize = 30_000;
    let sandbox = Sandbox::empty();
    let store = Store::in_memory().unwrap();
    let mail = store.create_tube("mail", TubeOptions::new().driver(FIFO)).unwrap();
    let served = store.admin().serve(ServeOptions::unix(sandbox.path("a.sock"))).unwrap();
    let mut command = sandbox.command(&["events", "--follow", "--json", "--connect", served.url()]);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let [out, err]: [Box<dyn BufRead + Send>; 2] = [
        Box::new(BufReader::new(child.stdout.take().unwrap())),
        Box::new(BufReader::new(child.stderr.take().unwrap())),
    ];
    let following = within_deadline("the begin", move || err.lines().next().unwrap().unwrap());
    assert!(following.contains("following"), "{following}");
    // Nothing is read meanwhile.
    mail.put_many(vec![""; PUTS]).unwrap();
    let (printed, missed) = within_deadline("the output", move || {
        let (mut printed, mut missed) = (0, 0);
        for line in out.lines() {
            let event: Value = serde_json::from_str(&line.unwrap()).unwrap();
            missed += event["missed"].as_u64().unwrap_or(0);
            if event["key"] == "last" {
                break;
            }
            printed += 1;
            // There is room at the owner again.
            if printed == 5000 {
                mail.put(Put::new("").key("last")).unwrap();
            }
        }
        (printed, missed)
    });
    assert_eq!(printed + missed, PUTS as u64);
    assert!((10_000..14_000).contains(&printed), "{printed}");
    child.kill().unwrap();
    finish(child);
    store.close().unwrap();
}

#[test]
fn unknown_tubes_and_kinds_are_refused() {
    let sandbox = Sandbox::with(&[]);
    assert!(sandbox.fails("events mial", 4).contains("did you mean \"mail\"?"));
    let why = sandbox.fails("events --kind acked", 2);
    assert!(why.contains("acked") && why.contains("ack"), "{why}");
}
