//! `claim`, `ack`, `release`, `renew` and `revoke`: claims that outlive a command.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Seek, SeekFrom};
use std::process::Stdio;

use serde_json::json;

use crate::support::{Ended, Sandbox, run};

/// A store with three tasks, and the token of the first.
fn claimed(options: &str) -> (Sandbox, String) {
    let sandbox = Sandbox::with(&["a", "b", "c"]);
    let claimed = sandbox.ok(&format!("claim mail {options}"));
    let (token, body) = claimed.split_once('\n').unwrap();
    assert_eq!(body, "a");
    (sandbox, token.to_owned())
}

fn states(sandbox: &Sandbox) -> Vec<String> {
    let tasks = sandbox.json("list mail");
    tasks.iter().map(|task| format!("{}{}", task["id"], task["state"].as_str().unwrap())).collect()
}

#[test]
fn claimed_task_stays_taken_for_later_commands_until_it_is_acked() {
    let (sandbox, token) = claimed("");
    assert_eq!(states(&sandbox), ["1ready", "2ready", "0taken"]);
    assert_eq!(sandbox.ok("pop mail"), "b");
    assert_eq!(
        sandbox.json(&format!("ack {token}")),
        [json!({"id": 0, "tube": "mail", "state": "done"})]
    );
    assert_eq!(states(&sandbox), ["2ready"]);
    for command in ["ack", "release", "renew"] {
        let message = sandbox.fails(&format!("{command} {token}"), 3);
        assert!(message.contains("the claim on task 0 of mail has ended"), "{message}");
    }
    assert!(sandbox.ok("verify").contains("sound"));
}

#[test]
fn claim_as_json_has_the_token_and_the_task() {
    let sandbox = Sandbox::with(&["a", "b"]);
    let mut claimed = sandbox.json("claim mail 1 --for 2h").remove(0);
    let token = claimed.as_object_mut().unwrap().remove("token").unwrap();
    assert_eq!(
        claimed,
        json!({
            "id": 1, "tube": "mail", "priority": 100, "sub_queue": null, "key": null, "tags": [], "takes": 1,
            "attempts": 1, "attempts_left": null, "size": 1, "data": "b",
        })
    );
    let left = sandbox.json("list mail --state taken")[0]["due_in"].as_f64().unwrap();
    assert!((7000.0..=7200.0).contains(&left), "{left}");
    assert_eq!(sandbox.ok(&format!("ack {}", token.as_str().unwrap())), "acked: task 1 of mail\n");
}

#[test]
fn released_task_is_ready_or_delayed() {
    let (sandbox, token) = claimed("");
    assert_eq!(sandbox.ok(&format!("release {token}")), "released: task 0 of mail\n");
    assert_eq!(states(&sandbox), ["0ready", "1ready", "2ready"]);
    let (sandbox, token) = claimed("");
    sandbox.ok(&format!("release {token} --delay 1h"));
    assert_eq!(states(&sandbox), ["1ready", "2ready", "0delayed"]);
}

#[test]
fn renewed_claim_keeps_its_token() {
    let (sandbox, token) = claimed("--for 60s");
    assert_eq!(sandbox.ok(&format!("renew {token} --for 2h")), "renewed for 2h: task 0 of mail\n");
    let left = sandbox.json("list mail --state taken")[0]["due_in"].as_f64().unwrap();
    assert!((7000.0..=7200.0).contains(&left), "{left}");
    sandbox.ok(&format!("renew {token} --for 0"));
    assert_eq!(states(&sandbox), ["0ready", "1ready", "2ready"]);
}

#[test]
fn revoked_task_is_ready_and_its_token_is_refused() {
    let (sandbox, token) = claimed("--for never");
    let message = sandbox.fails("revoke mail 0 1 9", 3);
    assert!(message.contains("task 1 of mail is not taken; mail has no task 9"), "{message}");
    sandbox.fails(&format!("ack {token}"), 3);
    assert_eq!(states(&sandbox), ["0ready", "1ready", "2ready"]);
}

#[test]
fn claim_of_a_task_that_cannot_be_taken_is_refused() {
    let (sandbox, _) = claimed("");
    assert!(sandbox.fails("claim mail 0", 6).contains("has taken it"));
    assert!(sandbox.fails("claim mail 9", 3).contains("mail has no task 9"));
    sandbox.ok("bury mail 1");
    assert!(sandbox.fails("claim mail 1", 6).contains("it is buried"));
    sandbox.ok("delete mail 2");
    let message = sandbox.fails("claim mail", 3);
    assert!(message.contains("no task to claim in mail (1 taken, 1 buried)"), "{message}");
    assert!(sandbox.fails("ack nonsense", 2).contains("is not the token of a parked claim"));
    assert!(sandbox.fails("claim mail 1 --timeout 1s", 2).contains("--timeout"));
}

#[test]
fn task_is_ready_again_if_its_token_cannot_be_printed() {
    let sandbox = Sandbox::with(&["a"]);
    let script = "tubewell claim mail > /dev/full";
    let done = run(sandbox.shell("bash", script), b"").expect(1);
    assert!(done.err.contains("task 0 is ready again"), "{}", done.err);
    assert_eq!(states(&sandbox), ["0ready"]);
}

#[test]
fn body_of_a_claimed_task_is_printed_unchanged() {
    let sandbox = Sandbox::with(&[]);
    sandbox.feed("put mail -", b"bytes \xff\n and \0").expect(0);
    let out = sandbox.run("claim mail").expect(0).out;
    let line = out.iter().position(|byte| *byte == b'\n').unwrap();
    assert_eq!(&out[line + 1..], b"bytes \xff\n and \0");
}

/// How scripts read a token. Each of them leaves the token in the variable `token` or the file `token`.
const READERS: &[&str] = &[
    "token=$(tubewell claim mail | head -n 1)",
    "token=$(tubewell claim mail | sed -n 1p)",
    "token=$(tubewell claim mail | sed 1q)",
    "tubewell claim mail | { read -r token; echo \"$token\" > token; }",
    "tubewell claim mail | sh -c 'read -r token; echo \"$token\" > token; exit 0'",
    "tubewell claim mail | sh -c 'read -r token; echo \"$token\" > token; kill -9 $$' || true",
    "read -r token < <(tubewell claim mail)",
    "exec 3< <(tubewell claim mail); read -r token <&3; exec 3<&-",
    "mapfile -t -n 1 lines < <(tubewell claim mail); token=${lines[0]}",
    "tubewell claim mail > out; read -r token < out",
    "tubewell claim mail > out; token=$(head -n 1 out)",
    "mkfifo fifo; tubewell claim mail > fifo & read -r token < fifo; wait $!; rm fifo",
    "out=$(tubewell claim mail | tr -d '\\0'); token=${out%%$'\\n'*}",
    "token=$(tubewell claim mail --json | head -c 60 | sed 's/.*token\":\"//; s/\".*//')",
];

/// Lets each of the readers have the token of a task with one of these bodies.
fn stands_for_every_reader(bodies: &[&str]) {
    let sandbox = Sandbox::with(&[]);
    let tasks = bodies.iter().flat_map(|body| READERS.iter().map(move |_| json!({ "data": body })));
    let tasks: Vec<String> = tasks.map(|task| task.to_string()).collect();
    sandbox.feed("import mail --format json", tasks.join("\n").as_bytes()).expect(0);
    let read = |reader: &&str| {
        format!("token=; {reader}\n[ -n \"$token\" ] || token=$(cat token)\necho \"$token\"\n")
    };
    let script = READERS.iter().map(read).collect::<String>().repeat(bodies.len());
    let done = run(sandbox.shell("bash", &format!("set -o pipefail\n{script}")), b"").expect(0);
    let mut taken = sandbox.ids("list mail --state taken --all");
    taken.sort_unstable();
    assert_eq!(taken, (0..tasks.len() as u64).collect::<Vec<_>>(), "{}", done.err);
    let mut tokens: Vec<_> = done.text().lines().collect();
    sandbox.ok(&format!("ack {}", tokens[0]));
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), taken.len());
}

#[test]
fn claim_stands_for_every_reader_of_its_token() {
    stands_for_every_reader(&["x", "one\ntwo\n"]);
}

#[test]
fn claim_stands_for_every_reader_of_its_token_before_a_body_of_a_megabyte() {
    stands_for_every_reader(&[&"a line of a body\n".repeat(1 << 16)]);
}

/// Runs a command whose output is a file that takes so many bytes. Returns its end, and these bytes.
fn into_a_file_with_space_for(space: u64, sandbox: &Sandbox, words: &str) -> (Ended, String) {
    // The limit holds for the store, too.
    const LIMIT: u64 = 64 << 20;
    let out = sandbox.path("out");
    File::create(&out).unwrap().set_len(LIMIT - space).unwrap();
    let blocks = LIMIT / 1024;
    let script = format!("trap '' XFSZ; ulimit -f {blocks}; tubewell {words} >> out");
    let ended = run(sandbox.shell("bash", &script), b"");
    let mut written = File::open(&out).unwrap();
    written.seek(SeekFrom::Start(LIMIT - space)).unwrap();
    let mut text = String::new();
    written.read_to_string(&mut text).unwrap();
    (ended, text)
}

#[test]
fn claim_stands_if_the_body_cannot_be_printed_after_the_token() {
    let sandbox = Sandbox::with(&[&"x".repeat(3000)]);
    let (ended, out) = into_a_file_with_space_for(1000, &sandbox, "claim mail");
    let ended = ended.expect(1);
    assert!(ended.err.contains("the claim on task 0 stands"), "{}", ended.err);
    assert_eq!(states(&sandbox), ["0taken"]);
    sandbox.ok(&format!("ack {}", out.lines().next().unwrap()));
}

#[test]
fn task_is_ready_again_if_its_token_is_printed_in_part() {
    let sandbox = Sandbox::with(&["a"]);
    let (ended, out) = into_a_file_with_space_for(5, &sandbox, "claim mail");
    assert!(ended.expect(1).err.contains("task 0 is ready again"));
    assert_eq!((out.len(), states(&sandbox)), (5, vec!["0ready".to_owned()]));
}

/// The body does not fit into the pipe, so that `claim` prints it while the reader has the token.
#[test]
fn token_can_be_used_while_the_body_is_printed() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create other --durability relaxed(60s)");
    sandbox.feed("put other -", &vec![b'x'; 1 << 20]).expect(0);
    let script = "tubewell claim other | { read -r token; tubewell ack $token; cat > /dev/null; }";
    let done = run(sandbox.shell("bash", script), b"").expect(0);
    assert_eq!(done.text(), "acked: task 0 of other\n", "{}", done.err);
    assert!(sandbox.ids("list other").is_empty());
}

#[test]
fn claim_stands_if_the_command_is_killed_while_it_prints() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create other --durability relaxed(60s)");
    sandbox.feed("put other -", &vec![b'x'; 1 << 20]).expect(0);
    let mut command = sandbox.command(&["claim", "other"]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut token = String::new();
    let mut out = BufReader::with_capacity(1, child.stdout.take().unwrap());
    out.read_line(&mut token).unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(sandbox.ok(&format!("ack {token}")), "acked: task 0 of other\n");
}

#[test]
fn object_of_a_popped_task_is_enough_without_its_line_end() {
    let sandbox = Sandbox::with(&[&"x".repeat(3000)]);
    let object =
        r#"{"id":0,"tube":"mail","priority":100,"sub_queue":null,"key":null,"tags":[],"takes":1,"#;
    let rest = r#""attempts":1,"attempts_left":null,"size":3000,"data":""}"#;
    let whole = object.len() + rest.len() + 3000;
    let (ended, out) = into_a_file_with_space_for(whole as u64, &sandbox, "pop mail --json");
    let ended = ended.expect(1);
    assert!(ended.err.contains("do not repeat it"), "{}", ended.err);
    assert!(out.starts_with(object) && out.ends_with("\"}"), "{out}");
    assert!(sandbox.ids("list mail").is_empty());
}
