//! What goes wrong: in plain words, with what to do, and with its exit code.

use std::fs::File;
use std::io::pipe;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Bench, finish, run};

#[test]
fn a_missing_store_is_not_made_in_passing() {
    let bench = Bench::empty();
    for words in [
        "drop a",
        "tubes",
        "put a b",
        "import a",
        "take a",
        "work a -- true",
        "peek a 1",
        "list a",
        "bury a 1",
        "kick a",
        "delete a 1",
        "release-all a",
        "truncate a",
        "stats",
        "verify",
        "compact",
        "backup b",
        "export b",
    ] {
        let said = bench.fails(words, 4);
        assert!(said.contains("there is no store at"), "{words}: {said}");
        assert!(said.contains("jobs.tubewell create"), "{words}: {said}");
    }
    assert!(!bench.store().exists());
    // Nor does an empty file become a store.
    File::create(bench.store()).unwrap();
    assert!(bench.fails("stats", 4).contains("create"));
    assert_eq!(std::fs::metadata(bench.store()).unwrap().len(), 0);
    bench.ok("create mail");
}

#[test]
fn a_store_must_be_named() {
    let bench = Bench::empty();
    let mut command = bench.command(&["stats"]);
    command.env_remove("TUBEWELL_STORE");
    assert!(run(command, b"").expect(2).err.contains("TUBEWELL_STORE"));
    let mut command = bench.command(&["stats"]);
    command.env("TUBEWELL_STORE", "");
    assert!(run(command, b"").expect(2).err.contains("set TUBEWELL_STORE"));
    let mut command = bench.command(&["completions", "bash"]);
    command.env("TUBEWELL_STORE", "");
    run(command, b"").expect(0);
    // The option wins over the environment.
    bench.ok("create mail --store other.tubewell");
    assert!(!bench.store().exists() && bench.dir.path().join("other.tubewell").exists());
}

#[test]
fn what_is_no_store_is_left_alone() {
    let bench = Bench::empty();
    let text = "a letter, not a store".repeat(1000);
    std::fs::write(bench.store(), &text).unwrap();
    assert!(bench.fails("stats", 4).contains("is not a tubewell store"));
    assert!(bench.fails("create mail", 4).contains("is not a tubewell store"));
    assert_eq!(std::fs::read_to_string(bench.store()).unwrap(), text);
    for words in ["stats --store .", "export - --store .", "export all.jsonl --store ."] {
        assert!(bench.fails(words, 1).contains("directory"), "{words}");
    }
    assert!(!bench.dir.path().join("all.jsonl").exists());
    assert!(bench.fails("create a --store no/such/dir", 1).contains("does not exist"));
}

#[test]
fn a_store_in_use_names_its_owner() {
    let bench = Bench::with(&["a"]);
    let mut gate = bench.gate();
    let mut work = bench.work("mail", "echo started; read x < gate");
    work.says("started");
    for words in ["stats", "put mail x", "compact", "create other", "export all.jsonl"] {
        let said = bench.fails(words, 5);
        assert!(said.contains("in use by"), "{said}");
        if cfg!(target_os = "linux") {
            let owner = format!("process {} (", work.pid());
            assert!(said.contains(&owner) && said.contains("work mail"), "{said}");
        }
    }
    assert!(!bench.dir.path().join("all.jsonl").exists());
    let told: Value = serde_json::from_str(&bench.fails("stats --json", 5)).unwrap();
    assert_eq!((&told["error"], &told["exit"]), (&"in_use".into(), &5.into()));
    assert!(told["hint"].as_str().unwrap().contains("--patience"));
    // A while is not long enough, and then it is.
    assert!(bench.fails("stats --patience 50ms", 5).contains("in use by"));
    let mut patient = bench.command(&["put", "mail", "x", "--patience", "60s"]);
    let mut patient = patient.stdout(Stdio::piped()).spawn().unwrap();
    gate.open(1);
    work.signal(rustix::process::Signal::TERM);
    assert_eq!(work.ends(), 0);
    assert_eq!(patient.wait().unwrap().code(), Some(0));
    assert_eq!(bench.counts(), (1, 0, 0));
}

#[test]
fn an_unknown_tube_may_be_misspelt() {
    let bench = Bench::with(&[]);
    for words in ["put mial x", "take Mail", "stats mails", "work mai -- true", "drop maill"] {
        assert!(bench.fails(words, 4).contains("did you mean \"mail\"?"), "{words}");
    }
    assert!(bench.fails("put elsewhere x", 4).contains("tubewell create elsewhere"));
}

#[test]
fn bad_command_lines() {
    let bench = Bench::with(&["x"]);
    for (words, hint) in [
        ("put mail x --delay 10", "10 of what?"),
        ("put mail x --ttl 5parsecs", "there is no unit"),
        ("take mail --timeout soon", "such as 250ms"),
        ("put mail x --pri -1", "--pri"),
        ("put mail x --delay -5s", "below zero"),
        ("take mail --timeout --json", "--timeout"),
        ("create new --driver fifi", "similar value"),
        ("peek mail first", "write a whole number"),
        ("peek mail -1", "write a whole number"),
        ("delete mail 1 x", "write a whole number"),
        ("kick mail -3", "write a whole number"),
        ("list mail --limit few", "write a whole number"),
        ("work mail", "CMD"),
        ("work mail --jobs 0 -- true", "1..=1024"),
        ("frobnicate", "unrecognized"),
        ("put", "TUBE"),
    ] {
        let said = bench.fails(words, 2);
        assert!(said.contains(hint), "{words}: {said}");
    }
    bench.ok("create plain --driver fifo");
    assert!(bench.fails("put plain x --pri 1", 2).contains("fifo driver does not support"));
    let work = bench.fails("work mail plain --delay 5s -- true", 2);
    assert!(work.contains("plain (fifo) has no delays"), "{work}");
    let missing = bench.fails("work mail -- no-such-command-anywhere", 127);
    assert!(missing.contains("cannot start no-such-command-anywhere"), "{missing}");
    std::fs::write(bench.dir.path().join("script"), "#!/bin/sh\n").unwrap();
    assert!(bench.fails("work mail -- ./script", 127).contains("chmod +x"));
    assert_eq!(bench.counts(), (1, 0, 0));
}

#[test]
fn a_reader_that_has_gone_is_no_reason_to_complain() {
    let lines = vec!["a body of some length, so that the pipe cannot hold it all"; 5000];
    let bench = Bench::with(&lines);
    let script = "\"$0\" list mail --all --json | head -1";
    let mut head = Command::new("sh");
    head.args(["-c", script, env!("CARGO_BIN_EXE_tubewell")]);
    head.env("TUBEWELL_STORE", bench.store());
    let done = run(head, b"").expect(0);
    assert_eq!((done.objects().len(), done.err.as_str()), (1, ""));

    // What was asked for is done nevertheless.
    let ids: Vec<String> = (0..2000).map(|id| id.to_string()).collect();
    let mut delete = bench.command(&["delete", "mail"]);
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let child = delete.args(ids).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(finish(child).expect(141).err, "");
    assert_eq!(bench.counts(), (3000, 0, 0));

    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut list = bench.command(&["list", "mail", "--all"]);
    let child = list.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(finish(child).expect(141).err, "");
}

#[test]
fn a_task_that_could_not_be_printed_stays() {
    let bench = Bench::with(&["precious"]);
    for json in [false, true] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut take = bench.command(&["take", "mail"]);
        take.args(json.then_some("--json"));
        let child = take.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let done = finish(child).expect(141);
        assert!(done.err.contains("has gone; task 0 is not finished"), "{}", done.err);
    }
    if cfg!(target_os = "linux") {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut take = bench.command(&["take", "mail"]);
        let child = take.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let said = finish(child).expect(1).err;
        assert!(
            said.contains("No space left") && said.contains("task 0 is not finished"),
            "{said}"
        );
    }
    assert_eq!(bench.ok("take mail"), "precious");
}

#[test]
fn a_put_that_could_not_be_reported_says_that_it_is_done() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let bench = Bench::with(&[]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut put = bench.command(&["put", "mail", "x"]);
    let child = put.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let said = finish(child).expect(1).err;
    // Whoever tried again would put it twice.
    assert!(said.contains("is done") && !said.contains("try again"), "{said}");
    assert_eq!(bench.counts(), (1, 0, 0));
}

#[test]
fn names_and_mistakes_of_others_do_not_drive_the_terminal() {
    let bench = Bench::with(&[]);
    bench.ok("create crawl --driver utube");
    let task = r#"{"data": "x", "sub_queue": "a\u001b[31m\nb\u009b"}"#;
    bench.feed("import crawl --format json", task.as_bytes()).expect(0);
    for words in ["list crawl", "peek crawl"] {
        let shown = bench.ok(words);
        assert!(shown.contains(r"a\u{1b}[31m\nb\u{9b}"), "{shown}");
    }
    for (words, line) in [
        ("import crawl --format json", r#"{"\u001b]0;title\u0007": 1}"#),
        ("import --all", r#"{"tube": "x", "\u001b[2J": 1}"#),
    ] {
        let said = bench.feed(words, line.as_bytes()).expect(7).err;
        let mut controls = said.chars().filter(|c| c.is_control() && *c != '\n');
        assert!(said.contains(r"\u{1b}") && controls.next().is_none(), "{said:?}");
    }
}

#[test]
fn what_the_engine_says_of_damage_to_itself_is_not_shown() {
    let bench = Bench::with(&[]);
    bench.feed("import mail", "some line\n".repeat(20_000).as_bytes()).expect(0);
    let mut file = std::fs::read(bench.store()).unwrap();
    let size = file.len();
    file[(1 << 20) + 8192..size].fill(0x5A);
    for words in
        ["stats", "verify", "take mail", "put mail x", "list mail", "compact", "backup copy"]
    {
        std::fs::write(bench.store(), &file).unwrap();
        let done = bench.run(words);
        assert!([1, 4, 7].contains(&done.status.code().unwrap()), "{words}: {done:?}");
        assert!(done.err.contains("tubewell: "), "{words}: {}", done.err);
        assert!(!done.err.contains("panicked"), "{words}: {}", done.err);
    }
}

#[test]
fn a_full_disk_is_told_as_such_and_loses_nothing() {
    let bench = Bench::with(&["first"]);
    // A limit on the size of files is the full disk that needs no disk.
    let script = "trap '' XFSZ; ulimit -f 8192; exec \"$0\" import mail";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, env!("CARGO_BIN_EXE_tubewell")]);
    limited.env("TUBEWELL_STORE", bench.store());
    let line = format!("{}\n", "x".repeat(5000));
    let done = run(limited, line.repeat(20_000).as_bytes()).expect(1);
    assert!(done.err.contains("make room on the disk"), "{}", done.err);
    let stored: u64 = done.text().split_whitespace().nth(1).map_or(0, |n| n.parse().unwrap_or(0));
    let (ready, ..) = bench.counts();
    assert!(ready > stored, "{stored} of {ready}");
    bench.ok("verify");
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" export all.jsonl";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, env!("CARGO_BIN_EXE_tubewell")]);
    limited.env("TUBEWELL_STORE", bench.store()).current_dir(bench.dir.path());
    let said = run(limited, b"").expect(1).err;
    assert!(said.contains("all.jsonl is cut off: remove it"), "{said}");
    assert_eq!(bench.ok("take mail"), "first");
}

#[test]
fn a_mistake_on_the_command_line_is_an_object_too_if_asked_for() {
    let bench = Bench::with(&[]);
    for (words, message) in [
        ("put mail x --delay 10 --json", "invalid value '10' for '--delay <DURATION>': 10 of"),
        ("--json put", "the following required arguments were not provided: <TUBE>"),
        ("list mail --json --frobnicate", "unexpected argument '--frobnicate' found"),
        ("statz --json", "unrecognized subcommand 'statz'"),
    ] {
        let told: Value = serde_json::from_str(&bench.fails(words, 2)).unwrap();
        assert_eq!((&told["error"], &told["exit"]), (&"usage".into(), &2.into()));
        assert!(told["message"].as_str().unwrap().starts_with(message), "{told}");
        assert!(told["hint"].is_string(), "{told}");
    }
    // What is behind the dashes is for the command of `work`.
    assert!(bench.fails("work -- ls --json", 2).starts_with("error: "));
    assert!(bench.ok("--json --help").contains("Usage:"));
}

#[test]
fn what_cannot_be_a_store_is_not_even_opened() {
    let bench = Bench::with(&["x"]);
    // Who opens a pipe waits for the other end.
    let made = Command::new("mkfifo").arg(bench.dir.path().join("pipe")).status().unwrap();
    assert!(made.success());
    for words in ["stats --store pipe", "create a --store pipe", "stats --store /dev/null"] {
        assert!(bench.fails(words, 4).contains("is no regular file"), "{words}");
    }
    let mut cut = std::fs::read(bench.store()).unwrap();
    cut.truncate(1 << 20);
    std::fs::write(bench.store(), cut).unwrap();
    for words in ["verify", "stats", "compact"] {
        let said = bench.fails(words, 1);
        assert!(said.contains("ends too early"), "{said}");
        assert!(said.contains("tubewell export"), "{said}");
    }
}

#[test]
fn a_store_of_somebody_else_says_what_it_takes() {
    let bench = Bench::with(&["x"]);
    let mut closed = std::fs::metadata(bench.store()).unwrap().permissions();
    closed.set_readonly(true);
    std::fs::set_permissions(bench.store(), closed).unwrap();
    if File::options().write(true).open(bench.store()).is_ok() {
        // The superuser may write to whatever he likes.
        return;
    }
    let said = bench.fails("stats", 1);
    assert!(said.contains("Permission denied") && said.contains("only `export`"), "{said}");
    assert_eq!(bench.json("export all.jsonl")[0]["tasks"], 1);
}

#[test]
fn a_command_that_cannot_be_started_says_why() {
    let bench = Bench::with(&["x"]);
    let script = bench.dir.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let mut may_run = std::fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut may_run, 0o755);
    std::fs::set_permissions(&script, may_run).unwrap();
    let said = bench.fails("work mail --once -- ./script", 127);
    assert!(said.contains("after #!"), "{said}");
    assert!(bench.fails("work mail --once -- ./", 127).contains("it is a directory"));
    assert!(bench.fails("work mail --once -- ./scirpt", 127).contains("the current directory"));
    assert_eq!(bench.counts(), (1, 0, 0));
}

#[test]
fn a_file_of_a_newer_version_is_refused_by_name_and_left_alone() {
    let bench = Bench::with(&["x"]);
    let mut file = std::fs::read(bench.store()).unwrap();
    // The layout, as docs/format.md has it; the rest is where we do not know.
    file[12..16].copy_from_slice(&2_u32.to_be_bytes());
    file[1 << 20..].fill(0x5A);
    std::fs::write(bench.store(), &file).unwrap();
    for words in ["stats", "put mail x", "create other", "verify", "compact", "export all.jsonl"] {
        let said = bench.fails(words, 4);
        assert!(said.contains("newer") && said.contains("the release that made it"), "{said}");
    }
    assert!(std::fs::read(bench.store()).unwrap() == file);
}

#[test]
fn a_list_shows_what_comes_before_a_damaged_task() {
    let bench = Bench::with(&[]);
    for n in 0..4 {
        bench.feed("put mail -", format!("<task {n}>{}", "x".repeat(2000)).as_bytes()).expect(0);
    }
    let mut file = std::fs::read(bench.store()).unwrap();
    let hits: Vec<usize> =
        (0..file.len() - 8).filter(|at| &file[*at..at + 8] == b"<task 2>").collect();
    for at in hits {
        file[at] ^= 1;
    }
    std::fs::write(bench.store(), &file).unwrap();
    let done = bench.run("list mail").expect(1);
    assert!(done.text().contains("<task 1>") && !done.text().contains("<task 3>"), "{done:?}");
    assert!(done.err.contains("task 2: its body"), "{}", done.err);
    assert!(bench.ok("list mail --skip 3").contains("<task 3>"));
}

#[test]
fn defects_are_listed_and_counted() {
    let bench = Bench::with(&[]);
    let lines: Vec<String> = (0..500).map(|n| format!("<task {n}>")).collect();
    bench.feed("import mail", lines.join("\n").as_bytes()).expect(0);
    let mut file = std::fs::read(bench.store()).unwrap();
    let hits: Vec<usize> = file
        .windows(10)
        .enumerate()
        .filter(|(_, bytes)| *bytes == b"<task 250>")
        .map(|(at, _)| at)
        .collect();
    for at in hits {
        file[at] ^= 1;
    }
    std::fs::write(bench.store(), &file).unwrap();
    let done = bench.run("verify").expect(7);
    assert!(done.text().contains("250"), "{}", done.text());
    assert!(done.err.contains("defect"), "{}", done.err);
    let told = bench.run("verify --json").expect(7).objects();
    let (sum, defects) = told.split_last().unwrap();
    assert!(defects.iter().all(|told| told["defect"].is_string()) && !defects.is_empty());
    assert_eq!(*sum, serde_json::json!({"sound": false, "defects": defects.len(), "tasks": 500}));
}
