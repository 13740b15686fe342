//! The examples as their readers run them: real processes, each with its outcome checked.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use tempfile::TempDir;

/// Much longer than any of them takes, on a machine that does a hundred other things.
const DEADLINE: Duration = Duration::from_secs(120);

/// Each example, and a line of what it says when all is well.
const TOLD: &[(&str, &str)] = &[
    ("async_no_runtime", "consumed first, second, third"),
    ("async_tokio", "200 orders done, 0 left"),
    ("crawler", "39 pages of 3 hosts, 3 dead links"),
    ("custom_driver", "no room for more than 4"),
    ("event_log", "10 mail 0 Ack -"),
    ("hello", "sending to: ann"),
    ("retry_backoff", "  310 s: gone 6: buried"),
    ("typed_tasks", "cat.jpg is 200 wide now; 2 lines sent to ann"),
];

/// Examples with lines that differ from run to run, or that take arguments; tested below.
const APART: &[&str] = &["desktop", "worker_pool"];

/// Examples with a test file of their own.
const ELSEWHERE: &[&str] = &["checksum"];

struct Run {
    status: ExitStatus,
    told: String,
    complained: String,
}

impl Run {
    fn said(&self, line: &str) -> bool {
        self.told.lines().any(|told| told == line)
    }

    fn succeeded(self, example: &str) -> Run {
        let Run { status, told, complained } = &self;
        assert!(status.success(), "{example}: {status}\n{told}{complained}");
        self
    }
}

/// An example in a folder that is all it knows of the disk.
fn start(example: &str, folder: &Path, arguments: &[&str]) -> Running {
    let deps = std::env::current_exe().unwrap();
    let name = format!("examples/{example}{}", std::env::consts::EXE_SUFFIX);
    let program = deps.parent().unwrap().parent().unwrap().join(name);
    assert!(program.exists(), "run `cargo build --examples` first");
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    for variable in ["TMPDIR", "TMP", "TEMP"] {
        command.env(variable, folder);
    }
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    Running(command.spawn().unwrap())
}

/// Runs an example to its end.
fn run(example: &str, folder: &Path, arguments: &[&str]) -> Run {
    let mut process = start(example, folder, arguments);
    let told = text(process.0.stdout.take().unwrap());
    let complained = text(process.0.stderr.take().unwrap());
    // Its streams end with it.
    let told = told.recv_timeout(DEADLINE).unwrap_or_else(|_| panic!("{example} does not end"));
    let complained = complained.recv_timeout(DEADLINE).unwrap();
    Run { status: process.0.wait().unwrap(), told, complained }
}

/// All that a stream says, when it ends.
fn text(mut stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, text) = channel();
    std::thread::spawn(move || {
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        // Whoever waited for it may have given up.
        let _ = sender.send(all);
    });
    text
}

/// A process that does not outlive its test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // It has ended already, unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn names_in(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_example_is_tested_somewhere() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let there: BTreeSet<String> = names_in(&folder)
        .iter()
        .filter(|path| {
            path.join("main.rs").exists() || path.extension().is_some_and(|it| it == "rs")
        })
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let tested = TOLD.iter().map(|(name, _)| *name).chain(APART.iter().chain(ELSEWHERE).copied());
    assert_eq!(there, tested.map(str::to_owned).collect());
}

#[test]
fn every_example_does_what_it_shows() {
    for (example, line) in TOLD {
        let folder = TempDir::new().unwrap();
        let run = run(example, folder.path(), &[]).succeeded(example);
        assert!(run.said(line), "{example} does not say {line:?}:\n{}", run.told);
    }
}

#[test]
fn hello_finds_its_store_when_it_is_run_again() {
    let folder = TempDir::new().unwrap();
    let first = run("hello", folder.path(), &[]).succeeded("hello");
    let again = run("hello", folder.path(), &[]).succeeded("hello");
    assert_eq!(first.told, again.told);
}

#[test]
fn worker_pool_stops_in_the_middle_and_loses_nothing() {
    let folder = TempDir::new().unwrap();
    let run = run("worker_pool", folder.path(), &[]).succeeded("worker_pool");
    let done = |before: &str, after: &str| -> u64 {
        let number = |line: &str| line.strip_prefix(before)?.strip_suffix(after)?.parse().ok();
        run.told.lines().find_map(number).unwrap_or_else(|| panic!("no {before:?}:\n{}", run.told))
    };
    let first = done("stopped after ", " of 60 tasks");
    let second = done("the second pool did the other ", ", 0 are left");
    assert_eq!(first + second, 60);
    assert!(first >= 20 && names_in(folder.path()).is_empty());
}

#[test]
fn desktop_goes_on_where_it_was_killed() {
    let folder = TempDir::new().unwrap();
    let mine = folder.path().join("mine");
    let arguments = [mine.to_str().unwrap(), "--crash"];

    // The thumbnail of the last moment is there and is made again, for its ack was never heard.
    let found = [
        "0 thumbnails are there, 0 are to be made",
        "16 thumbnails are there, 25 are to be made",
        "31 thumbnails are there, 10 are to be made",
        "40 thumbnails are there, 0 are to be made",
    ];
    for line in &found[..2] {
        let crashed = run("desktop", folder.path(), &arguments);
        assert!(!crashed.status.success(), "{}", crashed.told);
        assert!(crashed.said(line), "{}", crashed.told);
        assert!(crashed.said("crash after 15 acks"), "{}", crashed.told);
    }
    for (line, made) in [(found[2], "\nmade 10, "), (found[3], "\nmade 0, ")] {
        let run = run("desktop", folder.path(), &arguments[..1]).succeeded("desktop");
        assert!(run.said(line) && run.told.contains(made), "{}", run.told);
        assert!(run.told.contains("\nall 40 thumbnails are there"), "{}", run.told);
    }
    assert_eq!(names_in(&mine.join("thumbnails")).len(), 40);
}

#[test]
fn desktop_survives_being_killed_at_any_moment() {
    let folder = TempDir::new().unwrap();
    let mine = folder.path().join("mine");
    let arguments = [mine.to_str().unwrap()];
    let made = || fs::read_dir(mine.join("thumbnails")).map_or(0, Iterator::count);
    for kill_at in [0, 0, 0, 1, 2, 3, 5, 8, 13, 21, 34, 39] {
        let mut process = start("desktop", folder.path(), &arguments);
        // As soon as it has come that far; how far it comes until it is dead is left to chance.
        while made() < kill_at && process.0.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        process.0.kill().unwrap();
        process.0.wait().unwrap();
    }
    let run = run("desktop", folder.path(), &arguments).succeeded("desktop");
    assert!(run.told.contains("\nall 40 thumbnails are there"), "{}", run.told);
    assert_eq!(made(), 40);
}
