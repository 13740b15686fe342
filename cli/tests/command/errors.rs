//! Failures: their messages, hints and exit codes.

use std::fs::File;
use std::io::pipe;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::support::{Sandbox, finish, run};

#[test]
fn missing_store_is_not_created_by_other_commands() {
    let sandbox = Sandbox::empty();
    for words in [
        "alter a --priority 1",
        "pause a",
        "unpause a",
        "set-limit a 1",
        "limits",
        "drop a",
        "tubes",
        "put a b",
        "import a",
        "pop a",
        "work a -- true",
        "peek a 1",
        "list a",
        "bury a 1",
        "kick a --all",
        "update a 1 --priority 0",
        "cancel a 1",
        "delete a 1",
        "release-all a",
        "truncate a",
        "stats",
        "verify",
        "compact",
        "backup b",
        "export b",
    ] {
        let message = sandbox.fails(words, 4);
        assert!(message.contains("jobs.tubewell not found"), "{words}: {message}");
        assert!(message.contains("jobs.tubewell create"), "{words}: {message}");
    }
    assert!(!sandbox.store().exists());
    // An empty file does not become a store either.
    File::create(sandbox.store()).unwrap();
    assert!(sandbox.fails("stats", 4).contains("create"));
    assert_eq!(std::fs::metadata(sandbox.store()).unwrap().len(), 0);
    sandbox.ok("create mail");
}

#[test]
fn store_must_be_named() {
    let sandbox = Sandbox::empty();
    let mut command = sandbox.command(&["stats"]);
    command.env_remove("TUBEWELL_STORE");
    assert!(run(command, b"").expect(2).err.contains("TUBEWELL_STORE"));
    let mut command = sandbox.command(&["stats"]);
    command.env("TUBEWELL_STORE", "");
    assert!(run(command, b"").expect(2).err.contains("set TUBEWELL_STORE"));
    let mut command = sandbox.command(&["completions", "bash"]);
    command.env("TUBEWELL_STORE", "");
    run(command, b"").expect(0);
    // The option takes precedence over the environment.
    sandbox.ok("create mail --store other.tubewell");
    assert!(!sandbox.store().exists() && sandbox.dir.path().join("other.tubewell").exists());
}

#[test]
fn file_that_is_no_store_is_left_unchanged() {
    let sandbox = Sandbox::empty();
    let text = "a letter, not a store".repeat(1000);
    std::fs::write(sandbox.store(), &text).unwrap();
    assert!(sandbox.fails("stats", 4).contains("is not a tubewell store"));
    assert!(sandbox.fails("create mail", 4).contains("is not a tubewell store"));
    assert_eq!(std::fs::read_to_string(sandbox.store()).unwrap(), text);
    for words in ["stats --store .", "export - --store .", "export all.jsonl --store ."] {
        assert!(sandbox.fails(words, 1).contains("directory"), "{words}");
    }
    assert!(!sandbox.dir.path().join("all.jsonl").exists());
    assert!(sandbox.fails("create a --store no/such/dir", 1).contains("does not exist"));
}

#[test]
fn store_in_use_names_its_owner() {
    let sandbox = Sandbox::with(&["a"]);
    let mut gate = sandbox.gate();
    let mut work = sandbox.work("mail", "echo started; read x < gate");
    work.prints("started");
    for words in ["stats", "put mail x", "compact", "create other", "export all.jsonl"] {
        let message = sandbox.fails(words, 5);
        assert!(message.contains("in use by"), "{message}");
        if cfg!(target_os = "linux") {
            let owner = format!("process {} (", work.pid());
            assert!(message.contains(&owner) && message.contains("work mail"), "{message}");
        }
    }
    assert!(!sandbox.dir.path().join("all.jsonl").exists());
    let error: Value = serde_json::from_str(&sandbox.fails("stats --json", 5)).unwrap();
    assert_eq!((&error["error"], &error["exit"]), (&"in_use".into(), &5.into()));
    assert!(error["hint"].as_str().unwrap().contains("--patience"));
    // A short patience ends before the worker does, a long one after it.
    assert!(sandbox.fails("stats --patience 50ms", 5).contains("in use by"));
    let mut patient = sandbox.command(&["put", "mail", "x", "--patience", "60s"]);
    let mut patient = patient.stdout(Stdio::piped()).spawn().unwrap();
    gate.open(1);
    work.signal(rustix::process::Signal::TERM);
    assert_eq!(work.ends(), 0);
    assert_eq!(patient.wait().unwrap().code(), Some(0));
    assert_eq!(sandbox.counts(), (1, 0, 0));
}

#[test]
fn unknown_tube_suggests_a_similar_name() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create urgent");
    for words in [
        "put mial x",
        "import mial",
        "pop mial",
        "peek mial",
        "list mial",
        "bury mial 1",
        "kick mial --all",
        "update mial 1 --priority 0",
        "cancel mial 1",
        "delete mial 1",
        "release-all mial",
        "truncate mial",
        "stats mial",
        "alter mial --priority 1",
        "pause mial",
        "unpause mial",
        "work mial -- true",
        "drop mial",
    ] {
        let message = sandbox.fails(words, 4);
        let expected = "tubewell: tube \"mial\" not found; did you mean \"mail\"?\n";
        assert_eq!(message, expected, "{words}");
    }
    for words in ["pop Mail", "stats mails", "work mai -- true", "drop maill"] {
        assert!(sandbox.fails(words, 4).contains("did you mean \"mail\"?"), "{words}");
    }
    let line = r#"{"tube":"urgnt","state":"ready","priority":0,"delay":0,"data":"x"}"#;
    let message = sandbox.feed("import --all", line.as_bytes()).expect(7).err;
    assert!(message.contains("did you mean \"urgent\"?"), "{message}");
}

#[test]
fn unknown_tube_lists_those_that_exist() {
    let sandbox = Sandbox::with(&[]);
    let message = sandbox.fails("drop elsewhere", 4);
    assert_eq!(
        message,
        "tubewell: tube \"elsewhere\" not found\n          the only tube is \"mail\"\n"
    );
    // Only a command that puts tasks can have meant a new tube.
    let message = sandbox.fails("put elsewhere x", 4);
    assert!(
        message.contains("the only tube is \"mail\"; `tubewell create elsewhere`"),
        "{message}"
    );
    for number in 1..=6 {
        sandbox.ok(&format!("create tube{number}"));
    }
    let error = sandbox.fails("drop elsewhere --json", 4);
    let error: Value = serde_json::from_str(&error).unwrap();
    assert_eq!(
        error,
        serde_json::json!({
            "error": "missing", "exit": 4, "message": "tube \"elsewhere\" not found",
            "hint": "the tubes are \"mail\", \"tube1\", \"tube2\", \"tube3\", \"tube4\" and 2 more, \
                     see `tubewell tubes`",
        })
    );
    sandbox.ok("drop mail");
    for number in 1..=6 {
        sandbox.ok(&format!("drop tube{number}"));
    }
    assert!(sandbox.fails("drop elsewhere", 4).contains("the store has no tubes"));
}

#[test]
fn wrong_command_lines_say_what_to_write() {
    let sandbox = Sandbox::with(&["x"]);
    for (words, hint) in [
        ("put mail x --delay 10", "10 has no unit"),
        ("put mail x --ttl 5parsecs", "unknown unit"),
        ("pop mail --timeout soon", "such as 250ms"),
        ("put mail x --priority -1", "--priority"),
        ("put mail x --delay -5s", "it is negative"),
        ("pop mail --timeout --json", "--timeout"),
        ("create new --driver fifi", "similar value"),
        ("peek mail first", "write a whole number"),
        ("peek mail -1", "write a whole number"),
        ("delete mail 1 x", "write a whole number"),
        ("kick mail -3", "write a whole number"),
        ("kick mail --count -3", "write a whole number"),
        ("kick mail --count few", "write a whole number"),
        ("kick mail 1 --count 1", "cannot be used with"),
        ("kick mail 1 --all", "cannot be used with"),
        ("kick mail --count 1 --all", "cannot be used with"),
        ("list mail --limit few", "write a whole number"),
        ("work mail", "CMD"),
        ("work mail --jobs 0 -- true", "a whole number from 1 to 1024"),
        ("frobnicate", "unrecognized"),
        ("put", "TUBE"),
    ] {
        let message = sandbox.fails(words, 2);
        assert!(message.contains(hint), "{words}: {message}");
    }
    sandbox.ok("create plain --driver fifo");
    assert!(sandbox.fails("put plain x --priority 1", 2).contains("fifo driver does not support"));
    let work = sandbox.fails("work mail plain --delay 5s -- true", 2);
    assert!(work.contains("\"plain\" (fifo) does not support delays"), "{work}");
    let missing = sandbox.fails("work mail -- no-such-command-anywhere", 127);
    assert!(missing.contains("cannot start no-such-command-anywhere"), "{missing}");
    std::fs::write(sandbox.dir.path().join("script"), "#!/bin/sh\n").unwrap();
    assert!(sandbox.fails("work mail -- ./script", 127).contains("chmod +x"));
    assert_eq!(sandbox.counts(), (1, 0, 0));
}

#[test]
fn closed_output_ends_a_command_without_a_message() {
    let lines = vec!["a body of some length, so that the pipe cannot hold it all"; 5000];
    let sandbox = Sandbox::with(&lines);
    let script = "\"$0\" list mail --all --json | head -1";
    let mut head = Command::new("sh");
    head.args(["-c", script, env!("CARGO_BIN_EXE_tubewell")]);
    head.env("TUBEWELL_STORE", sandbox.store());
    let done = run(head, b"").expect(0);
    assert_eq!((done.objects().len(), done.err.as_str()), (1, ""));

    // All tasks are deleted nevertheless.
    let ids: Vec<String> = (0..2000).map(|id| id.to_string()).collect();
    let mut delete = sandbox.command(&["delete", "mail"]);
    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let child = delete.args(ids).stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(finish(child).expect(141).err, "");
    assert_eq!(sandbox.counts(), (3000, 0, 0));

    let (reader, writer) = pipe().unwrap();
    drop(reader);
    let mut list = sandbox.command(&["list", "mail", "--all"]);
    let child = list.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
    assert_eq!(finish(child).expect(141).err, "");
}

#[test]
fn pop_keeps_a_task_that_it_could_not_print() {
    let sandbox = Sandbox::with(&["precious"]);
    for json in [false, true] {
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut pop = sandbox.command(&["pop", "mail"]);
        pop.args(json.then_some("--json"));
        let child = pop.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        let done = finish(child).expect(141);
        assert!(done.err.contains("closed it; task 0 was not removed"), "{}", done.err);
    }
    if cfg!(target_os = "linux") {
        let full = File::options().write(true).open("/dev/full").unwrap();
        let mut pop = sandbox.command(&["pop", "mail"]);
        let child = pop.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
        let message = finish(child).expect(1).err;
        assert!(
            message.contains("No space left") && message.contains("task 0 was not removed"),
            "{message}"
        );
    }
    assert_eq!(sandbox.ok("pop mail"), "precious");
}

#[test]
fn put_that_cannot_print_says_that_it_is_done() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let sandbox = Sandbox::with(&[]);
    let full = File::options().write(true).open("/dev/full").unwrap();
    let mut put = sandbox.command(&["put", "mail", "x"]);
    let child = put.stdout(full).stderr(Stdio::piped()).spawn().unwrap();
    let message = finish(child).expect(1).err;
    // A second try would put the task twice.
    assert!(message.contains("do not repeat it"), "{message}");
    assert!(!message.contains("try again"), "{message}");
    assert_eq!(sandbox.counts(), (1, 0, 0));
}

/// Regression: the parser of the command line ignores that its output fails.
#[test]
fn help_version_and_scripts_that_cannot_be_printed_fail_as_other_output_does() {
    let sandbox = Sandbox::empty();
    let texts =
        ["--help", "-h", "help put", "put --help", "--version", "man put", "completions bash"];
    for words in texts {
        let words: Vec<&str> = words.split_whitespace().collect();
        let (reader, writer) = pipe().unwrap();
        drop(reader);
        let mut closed = sandbox.command(&words);
        let child = closed.stdout(writer).stderr(Stdio::piped()).spawn().unwrap();
        assert_eq!(finish(child).expect(141).err, "", "{words:?}");
        if !cfg!(target_os = "linux") {
            continue;
        }
        let full = || File::options().write(true).open("/dev/full").unwrap();
        let mut command = sandbox.command(&words);
        let child = command.stdout(full()).stderr(Stdio::piped()).spawn().unwrap();
        let message = finish(child).expect(1).err;
        let why = "tubewell: cannot write the output: No space left on device";
        assert!(message.starts_with(why), "{words:?}: {message}");
    }
    // The text itself is that of the parser.
    assert!(sandbox.ok("--version").starts_with("tubewell 0."));
    assert!(sandbox.ok("put --help").contains("Usage: tubewell put"));
    assert!(sandbox.fails("", 2).contains("Usage: tubewell"));
}

#[test]
fn store_whose_link_points_to_nothing_is_reported_with_link_and_target() {
    let sandbox = Sandbox::empty();
    let link = |to: &str, name: &str| std::os::unix::fs::symlink(to, sandbox.path(name)).unwrap();
    link("next", "first");
    link("away/store", "next");
    link("no-disk", "folder");
    let target = "symbolic link to away/store, which does not exist";
    for command in ["stats", "put mail x", "pop mail", "compact", "export all.jsonl", "verify"] {
        let why = sandbox.fails(&format!("--store first {command}"), 4);
        assert!(why.contains(&format!("store first not found: first is a {target}")), "{why}");
        assert!(why.contains("bring away/store back") && why.contains("let first point"), "{why}");
        let why = sandbox.fails(&format!("--store folder/store {command}"), 4);
        assert!(why.contains("folder is a symbolic link to no-disk, which does"), "{why}");
    }
    // Nothing can be created in a folder that does not exist.
    let why = sandbox.fails("--store first create mail", 1);
    assert!(why.contains(target) && why.contains("bring away/store back"), "{why}");
    // Nothing is wrong with a link to a folder.
    std::fs::create_dir(sandbox.path("no-disk")).unwrap();
    let why = sandbox.fails("--store folder/store stats", 4);
    assert!(!why.contains("link") && why.contains("folder/store create TUBE"), "{why}");
    sandbox.ok("--store folder/store create mail");
    link("no-disk/store", "whole");
    assert!(sandbox.ok("--store whole stats").contains("mail"));
}

#[test]
fn control_characters_are_escaped() {
    let sandbox = Sandbox::with(&[]);
    sandbox.ok("create crawl --driver utube");
    let task = r#"{"data": "x", "sub_queue": "a\u001b[31m\nb\u009b"}"#;
    sandbox.feed("import crawl --format json", task.as_bytes()).expect(0);
    for words in ["list crawl", "peek crawl"] {
        let shown = sandbox.ok(words);
        assert!(shown.contains(r"a\u{1b}[31m\nb\u{9b}"), "{shown}");
    }
    for (words, line) in [
        ("import crawl --format json", r#"{"\u001b]0;title\u0007": 1}"#),
        ("import --all", r#"{"tube": "x", "\u001b[2J": 1}"#),
    ] {
        let message = sandbox.feed(words, line.as_bytes()).expect(7).err;
        let mut controls = message.chars().filter(|c| c.is_control() && *c != '\n');
        assert!(message.contains(r"\u{1b}") && controls.next().is_none(), "{message:?}");
    }
}

#[test]
fn panics_of_the_engine_are_not_printed() {
    let sandbox = Sandbox::with(&[]);
    sandbox.feed("import mail", "some line\n".repeat(20_000).as_bytes()).expect(0);
    let mut file = std::fs::read(sandbox.store()).unwrap();
    let size = file.len();
    file[(1 << 20) + 8192..size].fill(0x5A);
    for words in
        ["stats", "verify", "pop mail", "put mail x", "list mail", "compact", "backup copy"]
    {
        std::fs::write(sandbox.store(), &file).unwrap();
        let done = sandbox.run(words);
        assert!([1, 4, 7].contains(&done.status.code().unwrap()), "{words}: {done:?}");
        assert!(done.err.contains("tubewell: "), "{words}: {}", done.err);
        assert!(!done.err.contains("panicked"), "{words}: {}", done.err);
    }
}

#[test]
fn full_disk_is_reported_and_loses_nothing() {
    let sandbox = Sandbox::with(&["first"]);
    // A limit on the size of files stands for a full disk.
    let script = "trap '' XFSZ; ulimit -f 8192; exec \"$0\" import mail";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, env!("CARGO_BIN_EXE_tubewell")]);
    limited.env("TUBEWELL_STORE", sandbox.store());
    let line = format!("{}\n", "x".repeat(5000));
    let done = run(limited, line.repeat(20_000).as_bytes()).expect(1);
    assert!(done.err.contains("free disk space"), "{}", done.err);
    let stored: u64 = done.text().split_whitespace().nth(1).map_or(0, |n| n.parse().unwrap_or(0));
    let (ready, ..) = sandbox.counts();
    assert!(ready > stored, "{stored} of {ready}");
    sandbox.ok("verify");
    let script = "trap '' XFSZ; ulimit -f 0; exec \"$0\" export all.jsonl";
    let mut limited = Command::new("sh");
    limited.args(["-c", script, env!("CARGO_BIN_EXE_tubewell")]);
    limited.env("TUBEWELL_STORE", sandbox.store()).current_dir(sandbox.dir.path());
    let message = run(limited, b"").expect(1).err;
    assert!(message.contains("all.jsonl is incomplete: remove it"), "{message}");
    assert_eq!(sandbox.ok("pop mail"), "first");
}

#[test]
fn usage_errors_are_objects_with_json() {
    let sandbox = Sandbox::with(&[]);
    for (words, message) in [
        ("put mail x --delay 10 --json", "invalid value '10' for '--delay <DURATION>': 10 has"),
        ("--json put", "the following required arguments were not provided: <TUBE>"),
        ("list mail --json --frobnicate", "unexpected argument '--frobnicate' found"),
        ("statz --json", "unrecognized subcommand 'statz'"),
    ] {
        let objects: Value = serde_json::from_str(&sandbox.fails(words, 2)).unwrap();
        assert_eq!((&objects["error"], &objects["exit"]), (&"usage".into(), &2.into()));
        assert!(objects["message"].as_str().unwrap().starts_with(message), "{objects}");
        assert!(objects["hint"].is_string(), "{objects}");
    }
    // The words after the dashes are for the command of `work`.
    assert!(sandbox.fails("work -- ls --json", 2).starts_with("error: "));
    assert!(sandbox.ok("--json --help").contains("Usage:"));
}

#[test]
fn file_that_cannot_be_a_store_is_not_opened() {
    let sandbox = Sandbox::with(&["x"]);
    // Opening a pipe blocks.
    let made = Command::new("mkfifo").arg(sandbox.dir.path().join("pipe")).status().unwrap();
    assert!(made.success());
    for words in ["stats --store pipe", "create a --store pipe", "stats --store /dev/null"] {
        assert!(sandbox.fails(words, 4).contains("is not a regular file"), "{words}");
    }
    let mut cut = std::fs::read(sandbox.store()).unwrap();
    cut.truncate(1 << 20);
    std::fs::write(sandbox.store(), cut).unwrap();
    for words in ["verify", "stats", "compact"] {
        let message = sandbox.fails(words, 1);
        assert!(message.contains("ends too early"), "{message}");
        assert!(message.contains("tubewell export"), "{message}");
    }
}

#[test]
fn store_without_write_permission_is_explained() {
    let sandbox = Sandbox::with(&["x"]);
    let mut closed = std::fs::metadata(sandbox.store()).unwrap().permissions();
    closed.set_readonly(true);
    std::fs::set_permissions(sandbox.store(), closed).unwrap();
    if File::options().write(true).open(sandbox.store()).is_ok() {
        // The superuser needs no permission.
        return;
    }
    let message = sandbox.fails("stats", 1);
    assert!(message.contains("Permission denied") && message.contains("but `export`"), "{message}");
    assert_eq!(sandbox.json("export all.jsonl")[0]["tasks"], 1);
}

#[test]
fn command_that_cannot_be_started_is_explained() {
    let sandbox = Sandbox::with(&["x"]);
    let script = sandbox.dir.path().join("script");
    std::fs::write(&script, "#!/no/such/interpreter\n").unwrap();
    let mut may_run = std::fs::metadata(&script).unwrap().permissions();
    std::os::unix::fs::PermissionsExt::set_mode(&mut may_run, 0o755);
    std::fs::set_permissions(&script, may_run).unwrap();
    let message = sandbox.fails("work mail --once -- ./script", 127);
    assert!(message.contains("after #!"), "{message}");
    assert!(sandbox.fails("work mail --once -- ./", 127).contains("it is a directory"));
    assert!(
        sandbox
            .fails("work mail --once -- ./scirpt", 127)
            .contains("relative to the current directory")
    );
    assert_eq!(sandbox.counts(), (1, 0, 0));
}

#[test]
fn newer_format_is_refused_and_left_unchanged() {
    let sandbox = Sandbox::with(&["x"]);
    let mut file = std::fs::read(sandbox.store()).unwrap();
    // The number of the layout, see docs/format.md. A newer layout may have anything after it.
    file[12..16].copy_from_slice(&2_u32.to_be_bytes());
    file[1 << 20..].fill(0x5A);
    std::fs::write(sandbox.store(), &file).unwrap();
    for words in ["stats", "put mail x", "create other", "verify", "compact", "export all.jsonl"] {
        let message = sandbox.fails(words, 4);
        assert!(
            message.contains("newer") && message.contains("the release that wrote the file"),
            "{message}"
        );
    }
    assert!(std::fs::read(sandbox.store()).unwrap() == file);
}

#[test]
fn list_prints_the_tasks_before_a_damaged_one() {
    let sandbox = Sandbox::with(&[]);
    for n in 0..4 {
        sandbox.feed("put mail -", format!("<task {n}>{}", "x".repeat(2000)).as_bytes()).expect(0);
    }
    sandbox.damage("<task 2>");
    let done = sandbox.run("list mail").expect(1);
    assert!(done.text().contains("<task 1>") && !done.text().contains("<task 3>"), "{done:?}");
    assert!(done.err.contains("task 2: its body"), "{}", done.err);
    assert!(sandbox.ok("list mail --skip 3").contains("<task 3>"));
}

#[test]
fn verify_lists_and_counts_defects() {
    let sandbox = Sandbox::with(&[]);
    let lines: Vec<String> = (0..500).map(|n| format!("<task {n}>")).collect();
    sandbox.feed("import mail", lines.join("\n").as_bytes()).expect(0);
    sandbox.damage("<task 250>");
    let done = sandbox.run("verify").expect(7);
    assert!(done.text().contains("250"), "{}", done.text());
    assert!(done.err.contains("defect"), "{}", done.err);
    let objects = sandbox.run("verify --json").expect(7).objects();
    let (sum, defects) = objects.split_last().unwrap();
    assert!(defects.iter().all(|objects| objects["defect"].is_string()) && !defects.is_empty());
    assert_eq!(*sum, serde_json::json!({"sound": false, "defects": defects.len(), "tasks": 500}));
}
