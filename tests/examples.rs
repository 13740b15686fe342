//! Runs the examples as separate processes and checks their output.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, channel};

use tempfile::TempDir;

#[path = "common/patience.rs"]
mod patience;
use patience::HANGS_AFTER;

/// Each example, and a line that it prints if it succeeds.
const EXPECTED_LINES: &[(&str, &str)] = &[
    ("async_no_runtime", "consumed first, second, third"),
    ("async_tokio", "200 orders done, 0 left"),
    ("axum_service", "the next process finds 2: ready, 1 of 3 steps, 5 attempts left"),
    ("crawler", "39 pages of 3 hosts, 3 dead links"),
    ("custom_driver", "no room for more than 4"),
    ("event_log", "10 mail 0 Ack -"),
    #[cfg(feature = "redb")]
    ("exactly_once", "100 payments, 5050 in all, each booked once although 12 workers died"),
    ("hello", "sending to: ann"),
    ("jobboard", "24 jobs consumed"),
    #[cfg(feature = "cron")]
    ("nightly_report", "7 reports in 7 nights, 1 after a month without the application"),
    ("pipeline", "3 letters, 4 mails"),
    ("progress_bar", "film 2 [##############################] done    "),
    ("retries", "  1, attempt 6, 60 min ago: example.org did not answer within 30 s"),
    ("typed_tasks", "cat.jpg is 200 wide now; 2 lines sent to ann"),
];

/// Examples that take arguments or whose output differs between runs. They have tests below.
const TESTED_SEPARATELY: &[&str] = &["desktop", "runner", "worker_pool"];

/// Examples with a test file of their own.
const TESTED_IN_OTHER_FILES: &[&str] = &["checksum"];

/// Examples that need a feature which this build may not have.
const NEED_FEATURES: &[&str] = &["exactly_once", "nightly_report"];

struct Run {
    status: ExitStatus,
    stdout: String,
    stderr: String,
}

impl Run {
    fn printed(&self, line: &str) -> bool {
        self.stdout.lines().any(|printed| printed == line)
    }

    fn succeeded(self, example: &str) -> Run {
        let Run { status, stdout, stderr } = &self;
        assert!(status.success(), "{example}: {status}\n{stdout}{stderr}");
        self
    }
}

/// Starts an example with `folder` as its working and temporary directory.
fn start(example: &str, folder: &Path, arguments: &[&str]) -> ChildGuard {
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
    ChildGuard(command.spawn().unwrap())
}

/// Runs an example to its end.
fn run(example: &str, folder: &Path, arguments: &[&str]) -> Run {
    let mut process = start(example, folder, arguments);
    let stdout = read_to_end(process.0.stdout.take().unwrap());
    let stderr = read_to_end(process.0.stderr.take().unwrap());
    // Both streams end when the process exits.
    let stdout =
        stdout.recv_timeout(HANGS_AFTER).unwrap_or_else(|_| panic!("{example} does not exit"));
    let stderr = stderr.recv_timeout(HANGS_AFTER).unwrap();
    Run { status: process.0.wait().unwrap(), stdout, stderr }
}

/// Reads a stream to its end in a thread.
fn read_to_end(mut stream: impl Read + Send + 'static) -> Receiver<String> {
    let (sender, receiver) = channel();
    std::thread::spawn(move || {
        let mut all = String::new();
        stream.read_to_string(&mut all).unwrap();
        // The receiver may have timed out.
        let _ = sender.send(all);
    });
    receiver
}

/// Kills the process when the test ends.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // The process has exited already, unless the test failed.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn names_in(folder: &Path) -> BTreeSet<PathBuf> {
    fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
}

#[test]
fn every_example_has_a_test() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let found: BTreeSet<String> = names_in(&folder)
        .iter()
        .filter(|path| {
            path.join("main.rs").exists()
                || path.extension().is_some_and(|extension| extension == "rs")
        })
        .map(|path| path.file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    let tested = EXPECTED_LINES
        .iter()
        .map(|(name, _)| *name)
        .chain(TESTED_SEPARATELY.iter().chain(TESTED_IN_OTHER_FILES).copied())
        .chain(NEED_FEATURES.iter().copied());
    assert_eq!(found, tested.map(str::to_owned).collect());
}

#[test]
fn every_example_prints_its_expected_line() {
    for (example, line) in EXPECTED_LINES {
        let folder = TempDir::new().unwrap();
        let run = run(example, folder.path(), &[]).succeeded(example);
        assert!(run.printed(line), "{example} does not print {line:?}:\n{}", run.stdout);
    }
}

#[test]
fn hello_prints_the_same_when_run_again() {
    let folder = TempDir::new().unwrap();
    let first = run("hello", folder.path(), &[]).succeeded("hello");
    let again = run("hello", folder.path(), &[]).succeeded("hello");
    assert_eq!(first.stdout, again.stdout);
}

#[test]
fn worker_pool_stops_gracefully_and_loses_no_task() {
    let folder = TempDir::new().unwrap();
    let run = run("worker_pool", folder.path(), &[]).succeeded("worker_pool");
    let done = |before: &str, after: &str| -> u64 {
        let number = |line: &str| line.strip_prefix(before)?.strip_suffix(after)?.parse().ok();
        run.stdout
            .lines()
            .find_map(number)
            .unwrap_or_else(|| panic!("no {before:?}:\n{}", run.stdout))
    };
    let first = done("stopped after ", " of 60 tasks");
    let second = done("the second worker did the other ", ", 0 are left");
    assert_eq!(first + second, 60);
    assert!(first >= 20 && names_in(folder.path()).is_empty());
}

#[test]
fn desktop_resumes_after_each_crash() {
    let folder = TempDir::new().unwrap();
    let mine = folder.path().join("mine");
    let arguments = [mine.to_str().unwrap(), "--crash"];

    // Each crash comes between a thumbnail and its ack, so that thumbnail is made again.
    let found = [
        "0 thumbnails are there, 0 are to be made",
        "16 thumbnails are there, 25 are to be made",
        "31 thumbnails are there, 10 are to be made",
        "40 thumbnails are there, 0 are to be made",
    ];
    for line in &found[..2] {
        let crashed = run("desktop", folder.path(), &arguments);
        assert!(!crashed.status.success(), "{}", crashed.stdout);
        assert!(crashed.printed(line), "{}", crashed.stdout);
        assert!(crashed.printed("crash after 15 acks"), "{}", crashed.stdout);
    }
    for (line, made) in [(found[2], "\nmade 10, "), (found[3], "\nmade 0, ")] {
        let run = run("desktop", folder.path(), &arguments[..1]).succeeded("desktop");
        assert!(run.printed(line) && run.stdout.contains(made), "{}", run.stdout);
        assert!(run.stdout.contains("\nall 40 thumbnails are there"), "{}", run.stdout);
    }
    assert_eq!(names_in(&mine.join("thumbnails")).len(), 40);
}

#[test]
fn desktop_completes_after_kills_at_any_time() {
    let folder = TempDir::new().unwrap();
    let mine = folder.path().join("mine");
    let arguments = [mine.to_str().unwrap()];
    let made = || fs::read_dir(mine.join("thumbnails")).map_or(0, Iterator::count);
    for kill_at in [0, 0, 0, 1, 2, 3, 5, 8, 13, 21, 34, 39] {
        let mut process = start("desktop", folder.path(), &arguments);
        // Kill it after `kill_at` thumbnails. It may make some more before the kill takes effect.
        while made() < kill_at && process.0.try_wait().unwrap().is_none() {
            std::thread::yield_now();
        }
        process.0.kill().unwrap();
        process.0.wait().unwrap();
    }
    let run = run("desktop", folder.path(), &arguments).succeeded("desktop");
    assert!(run.stdout.contains("\nall 40 thumbnails are there"), "{}", run.stdout);
    assert_eq!(made(), 40);
}

/// The runner of long child processes. The films are named pipes: a child does its work when the test
/// writes one, and not before.
#[cfg(unix)]
mod runner {
    use std::fs::{self, OpenOptions};
    use std::io::{BufRead, BufReader};
    use std::path::{Path, PathBuf};
    use std::sync::mpsc::{Receiver, channel};
    use std::time::Duration;

    use rustix::fs::{CWD, FileType, Mode, mknodat};
    use rustix::process::{Pid, Signal, kill_process};
    use tempfile::TempDir;
    use tubewell::Store;

    use super::{ChildGuard, HANGS_AFTER, names_in, run, start};

    struct Film(PathBuf);

    impl Film {
        fn new(folder: &Path, name: &str) -> Film {
            let path = folder.join(name);
            mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
            Film(path)
        }

        /// Writes the film. Returns once the child reads it.
        fn write(&self, text: &'static str) {
            let (path, (sender, written)) = (self.0.clone(), channel());
            std::thread::spawn(move || sender.send(fs::write(path, text).is_ok()));
            assert_eq!(written.recv_timeout(HANGS_AFTER), Ok(true), "no child reads the film");
        }
    }

    /// Ends a child that still waits for the film, if the test has failed.
    impl Drop for Film {
        fn drop(&mut self) {
            let _ = OpenOptions::new().read(true).write(true).open(&self.0);
        }
    }

    struct Runner {
        process: ChildGuard,
        lines: Receiver<String>,
        printed: Vec<String>,
    }

    impl Runner {
        fn start(folder: &Path, films: &[&str]) -> Runner {
            let arguments: Vec<&str> = ["queue"].iter().chain(films).copied().collect();
            let mut process = start("runner", folder, &arguments);
            let (sender, lines) = channel();
            let stdout = BufReader::new(process.0.stdout.take().unwrap());
            std::thread::spawn(move || {
                stdout.lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
            Runner { process, lines, printed: Vec::new() }
        }

        /// Waits for a line with this text.
        fn line(&mut self, text: &str) -> String {
            loop {
                if let Some(line) = self.printed.iter().find(|line| line.contains(text)) {
                    return line.clone();
                }
                let line = self.lines.recv_timeout(HANGS_AFTER);
                self.printed.push(line.unwrap_or_else(|_| panic!("it does not print {text:?}")));
            }
        }

        /// Waits until the attempt has a child. Returns the id of its process.
        fn child(&mut self, attempt: &str) -> Pid {
            let line = self.line(attempt);
            let id = line.rsplit(' ').next().unwrap().parse().unwrap();
            Pid::from_raw(id).unwrap()
        }

        fn kill(mut self) {
            self.process.0.kill().unwrap();
            self.process.0.wait().unwrap();
        }

        /// Waits until the runner ends. Returns what it has printed.
        fn end(mut self) -> Vec<String> {
            let next = || self.lines.recv_timeout(HANGS_AFTER);
            self.printed.extend(std::iter::from_fn(|| next().ok()));
            assert!(self.process.0.wait().unwrap().success());
            self.printed
        }
    }

    fn wait_until(done: impl Fn() -> bool) {
        let mut turns = HANGS_AFTER.as_millis();
        while !done() {
            turns -= 1;
            assert!(turns > 0, "it does not happen");
            let (_sender, never) = channel::<()>();
            let _ = never.recv_timeout(Duration::from_millis(1));
        }
    }

    #[test]
    fn runner_without_arguments_works_on_films_of_its_own() {
        let folder = TempDir::new().unwrap();
        let run = run("runner", folder.path(), &[]).succeeded("runner");
        assert!(run.stdout.contains("film: 17 bytes, sum 1631\n"), "{}", run.stdout);
        assert!(run.stdout.contains("missing: failed 3 times: "), "{}", run.stdout);
        assert!(names_in(folder.path()).is_empty());
    }

    #[test]
    fn runner_finds_children_that_outlived_it() {
        let folder = TempDir::new().unwrap();
        let [a, b, c] = ["a", "b", "c"].map(|name| Film::new(folder.path(), name));
        let mut first = Runner::start(folder.path(), &["a", "b", "c"]);
        first.child("attempt 1 at a");
        first.child("attempt 1 at b");
        first.kill();

        // One child ends while there is no runner, the other one while the second runner waits.
        a.write("one");
        wait_until(|| names_in(&folder.path().join("queue/results")).len() == 1);
        let mut second = Runner::start(folder.path(), &[]);
        second.line("task 0: its child is done");
        second.child("attempt 1 at c");
        b.write("four");
        second.line("task 1: its child is done");
        c.write("seven");
        let report = second.end();
        for line in ["a: 3 bytes, sum 322", "b: 4 bytes, sum 444", "c: 5 bytes, sum 545"] {
            assert!(report.iter().any(|printed| printed == line), "no {line:?} in {report:?}");
        }
        assert!(names_in(&folder.path().join("queue/logs")).is_empty());
        assert!(names_in(&folder.path().join("queue/results")).is_empty());
    }

    #[test]
    fn runner_attempts_again_when_a_child_is_killed() {
        let folder = TempDir::new().unwrap();
        let film = Film::new(folder.path(), "a");
        let mut first = Runner::start(folder.path(), &["a"]);
        // Once the child of this runner, and once a child that another runner has started.
        kill_process(first.child("attempt 1 at a"), Signal::KILL).unwrap();
        first.line("task 0: the child was killed");
        let child = first.child("attempt 2 at a");
        first.kill();
        kill_process(child, Signal::KILL).unwrap();

        let mut second = Runner::start(folder.path(), &[]);
        second.line("task 0: the child was killed");
        second.child("attempt 3 at a");
        film.write("film");
        second.line("a: 4 bytes");
        second.end();
    }

    #[test]
    fn runner_takes_back_a_task_that_was_parked_without_a_child() {
        let folder = TempDir::new().unwrap();
        fs::write(folder.path().join("a"), "film").unwrap();
        run("runner", folder.path(), &["queue"]).succeeded("runner"); // creates the tube
        {
            let store = Store::open(folder.path().join("queue/queue.tubewell")).unwrap();
            let films =
                store.session("runner").unwrap().tube(&store.find_tube("films").unwrap()).unwrap();
            films.put("a").unwrap();
            films.try_take().unwrap().unwrap().park(Duration::MAX).unwrap();
        }
        let run = run("runner", folder.path(), &["queue"]).succeeded("runner");
        assert!(run.printed("a: 4 bytes, sum 424"), "{}", run.stdout);
    }

    #[test]
    fn runner_completes_after_kills_at_any_time() {
        let names = ["a", "b", "c", "d", "e", "f"];
        for kills in [[1, 0], [1, 2], [2, 1], [3, 3], [5, 0], [8, 2]] {
            let folder = TempDir::new().unwrap();
            for name in names {
                fs::write(folder.path().join(name), name).unwrap();
            }
            let mut films = &names[..];
            for lines in kills {
                let runner = Runner::start(folder.path(), films);
                films = &[];
                (0..lines).for_each(|_| drop(runner.lines.recv_timeout(HANGS_AFTER).unwrap()));
                runner.kill();
            }
            let run = run("runner", folder.path(), &["queue"]).succeeded("runner");
            for name in names {
                let line = format!("{name}: 1 bytes, sum {}", name.as_bytes()[0]);
                assert!(run.printed(&line), "{kills:?}: no {line:?}:\n{}", run.stdout);
            }
            assert!(names_in(&folder.path().join("queue/logs")).is_empty(), "{}", run.stdout);
        }
    }
}
