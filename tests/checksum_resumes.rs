//! Tests of the example `checksum` as a process: it is killed, started again and resumes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use sha2::{Digest, Sha256};
use tempfile::TempDir;
use tubewell::{FIFO, Store, TubeOptions};

const STORE: &str = ".checksum-tree.tubewell";
/// The number of polls of a process, about 1 ms apart, before a test fails.
const MAX_POLLS: u32 = 120_000;

/// A temporary directory with a directory `tree`, and the digest of each file in it.
struct TestTree {
    dir: TempDir,
    digests: BTreeMap<Vec<u8>, String>,
}

impl TestTree {
    fn with_files(count: usize) -> TestTree {
        let mut tree = TestTree { dir: TempDir::new().unwrap(), digests: BTreeMap::new() };
        tree.add_file("empty", b"");
        for number in 0..count {
            // Names whose order depends on whether a directory's name ends with a slash.
            let name = match number % 4 {
                0 => format!("a/{number}"),
                1 => format!("a-b/c.d/{number}"),
                2 => format!("a.{number}"),
                _ => format!("deep/{}/{}/{number}", number % 3, number % 7),
            };
            let body: Vec<u8> =
                (0..number * 97 % 5_000).map(|n| (n * number).to_le_bytes()[0]).collect();
            tree.add_file(&name, &body);
        }
        fs::create_dir_all(tree.path().join("nothing/in/here")).unwrap();
        tree.add_unusual_names();
        tree
    }

    #[cfg(unix)]
    fn add_unusual_names(&mut self) {
        for name in [" ", "-c", "*", "back\\slash", "line\nfeed", "both\\\n/x", "\u{fc}", "~"] {
            self.add_file(name, name.as_bytes());
        }
        std::os::unix::fs::symlink("empty", self.path().join("link")).unwrap();
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::ffi::OsStrExt;
            let name = b"not\xffutf8";
            fs::write(self.path().join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
            self.digests.insert(name.to_vec(), digest(b"x"));
        }
    }

    #[cfg(not(unix))]
    fn add_unusual_names(&mut self) {
        self.add_file("\u{fc}", b"x");
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    fn store_path(&self) -> PathBuf {
        self.dir.path().join(STORE)
    }

    fn add_file(&mut self, name: &str, body: &[u8]) {
        let path = self.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, body).unwrap();
        self.digests.insert(name.into(), digest(body));
    }

    /// Adds a file of 64 GiB, which takes minutes to hash: a worker that reaches it is killed
    /// there.
    fn add_huge_file(&self, name: &str) {
        File::create(self.path().join(name)).unwrap().set_len(64 << 30).unwrap();
    }

    fn manifest(&self) -> Vec<u8> {
        let mut manifest = Vec::new();
        for (path, digest) in &self.digests {
            let escaped = path.iter().flat_map(|byte| match byte {
                b'\\' => b"\\\\".to_vec(),
                b'\n' => b"\\n".to_vec(),
                other => vec![*other],
            });
            let escaped: Vec<u8> = escaped.collect();
            let mark: &[u8] = if escaped == *path { b"" } else { b"\\" };
            manifest.extend([mark, digest.as_bytes(), b"  tree/", &escaped, b"\n"].concat());
        }
        manifest
    }

    fn command(&self, workers: u32) -> Command {
        let deps = std::env::current_exe().unwrap();
        let name = format!("examples/checksum{}", std::env::consts::EXE_SUFFIX);
        let program = deps.parent().unwrap().parent().unwrap().join(name);
        assert!(program.exists(), "run `cargo build --example checksum` first");
        let mut command = Command::new(program);
        command.args(["tree", "--workers", &workers.to_string()]).current_dir(self.dir.path());
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self) -> Outcome {
        Outcome::new(self.command(2).output().unwrap())
    }

    /// Starts a run that will be killed. Its output is discarded, so that a full pipe cannot block
    /// it.
    fn spawn(&self, workers: u32) -> KillOnDrop {
        let mut command = self.command(workers);
        KillOnDrop(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Starts a run and kills it after this many changes of the store's file. Returns false if the
    /// run ended before.
    fn kill_after_changes(&self, changes: u32, workers: u32) -> bool {
        let mut run = self.spawn(workers);
        let (mut last, mut seen) = (self.store_stamp(), 0);
        for _ in 0..MAX_POLLS {
            if run.has_ended() {
                return false;
            }
            let now = self.store_stamp();
            seen += u32::from(now.is_some() && now != last);
            last = now;
            if seen >= changes {
                drop(run);
                return true;
            }
            wait_one_millisecond();
        }
        panic!("the store has changed only {seen} times");
    }

    /// Starts a run with one worker and kills it at the huge file, after the store has all digests
    /// of the files before it.
    fn kill_at_huge_file(&self) {
        let mut run = self.spawn(1);
        let huge = self.path().join("b").canonicalize().unwrap();
        let (mut last, mut quiet) = (None, 0);
        for _ in 0..MAX_POLLS {
            assert!(!run.has_ended(), "the run ended before the kill");
            let now = self.store_stamp();
            // A poll on a busy machine may miss changes, so that their number says nothing.
            let is_quiet = now.is_some() && now == last && run.has_open(&huge);
            quiet = if is_quiet { quiet + 1 } else { 0 };
            last = now;
            if quiet > 500 {
                return;
            }
            wait_one_millisecond();
        }
        panic!("the run does not reach the huge file");
    }

    /// The length and the time of the last change of the store's file.
    fn store_stamp(&self) -> Option<(u64, std::time::SystemTime)> {
        let metadata = fs::metadata(self.store_path()).ok()?;
        Some((metadata.len(), metadata.modified().unwrap()))
    }
}

/// A process that is killed with SIGKILL on drop.
struct KillOnDrop(Child);

impl KillOnDrop {
    fn has_ended(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }

    /// Whether the process has this file open. Other systems than Linux do not tell.
    fn has_open(&self, path: &Path) -> bool {
        let Ok(open) = fs::read_dir(format!("/proc/{}/fd", self.0.id())) else {
            return !cfg!(target_os = "linux");
        };
        open.flatten().any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link == path))
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// The state of another process can only be polled; this is the time between two polls.
fn wait_one_millisecond() {
    std::thread::park_timeout(Duration::from_millis(1));
}

/// The result of a run.
struct Outcome {
    code: Option<i32>,
    manifest: Vec<u8>,
    stderr: String,
    hashed: usize,
    /// Files that an earlier run has hashed.
    hashed_before: usize,
}

impl Outcome {
    fn new(output: Output) -> Outcome {
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!stderr.contains("panicked"), "{stderr}");
        assert!(!stderr.contains(['\r', '\x1b']), "a progress bar in a pipe: {stderr:?}");
        let counts = stderr.lines().find_map(|line| {
            let (hashed, rest) = line.strip_prefix("checksum: ")?.split_once(" files hashed")?;
            let hashed_before =
                rest.strip_prefix(" in this run, ")?.strip_suffix(" done before")?;
            Some((hashed.parse().unwrap(), hashed_before.parse().unwrap()))
        });
        let (hashed, hashed_before) = counts.unwrap_or_default();
        Outcome {
            code: output.status.code(),
            manifest: output.stdout,
            stderr,
            hashed,
            hashed_before,
        }
    }

    /// Asserts success, a complete manifest, and that the store has been removed.
    fn assert_complete(&self, tree: &TestTree) {
        assert_eq!(self.code, Some(0), "{}", self.stderr);
        assert_eq!(
            String::from_utf8_lossy(&self.manifest),
            String::from_utf8_lossy(&tree.manifest())
        );
        assert_eq!(self.manifest, tree.manifest());
        assert_eq!(self.hashed + self.hashed_before, tree.digests.len(), "{}", self.stderr);
        assert!(!tree.store_path().exists());
    }
}

fn digest(body: &[u8]) -> String {
    format!("{:x}", Sha256::digest(body))
}

#[test]
fn killed_run_resumes_and_prints_the_complete_manifest() {
    let tree = TestTree::with_files(2600);
    let (mut kills, mut saved) = (0, 0);
    for changes in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89] {
        for kill_after in [changes, 1, changes] {
            if !tree.kill_after_changes(kill_after, 1 + changes % 2) {
                break;
            }
            kills += 1;
        }
        let finished = tree.run();
        finished.assert_complete(&tree);
        saved += finished.hashed_before;
    }
    println!("{kills} kills, {saved} files not hashed again");
    assert!(kills > 0 && saved > 0, "{kills} kills, {saved} files not hashed again");
}

#[test]
fn resumed_run_does_not_hash_finished_files_again() {
    let mut tree = TestTree::with_files(300);
    tree.add_huge_file("b");
    tree.kill_at_huge_file();
    tree.add_file("b", b"small");
    let earlier = tree.digests.keys().take_while(|path| path.as_slice() < b"b").count();
    let finished = tree.run();
    finished.assert_complete(&tree);
    assert!(earlier > 200 && finished.hashed_before == earlier, "{earlier} {}", finished.stderr);
}

#[test]
fn manifest_is_the_same_as_from_sha256sum() {
    let tree = TestTree::with_files(50);
    let finished = tree.run();
    finished.assert_complete(&tree);
    let mut command = Command::new("sha256sum");
    command.arg("--").current_dir(tree.dir.path());
    for path in tree.digests.keys() {
        command.arg(path_of(&[b"tree/", path.as_slice()].concat()));
    }
    match command.output() {
        Ok(output) => assert_eq!(output.stdout, finished.manifest),
        Err(missing) => println!("no sha256sum to compare with: {missing}"),
    }
}

/// All other tests read stderr from a pipe, where `Outcome::new` asserts that there is no bar.
#[cfg(target_os = "linux")]
#[test]
fn progress_bar_is_shown_on_a_terminal() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let tree = TestTree::with_files(300);
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let mut command = tree.command(2);
    let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    command.env("TERM", "xterm").stderr(terminal);
    let run = command.spawn().unwrap();
    // The command has a copy of the terminal's file. The reader ends only when all copies are
    // closed.
    drop(command);
    let mut shown = Vec::new();
    // On Linux the read returns an error once the last copy is closed.
    let reader = std::thread::spawn(move || {
        let _ = File::from(master).read_to_end(&mut shown);
        String::from_utf8_lossy(&shown).into_owned()
    });
    let output = run.wait_with_output().unwrap();
    let shown = reader.join().unwrap();
    assert!(output.status.success(), "{shown}");
    assert_eq!(output.stdout, tree.manifest(), "the manifest has only its own lines");
    let files = format!(" of {} files, ", tree.digests.len());
    assert!(shown.contains(&files) && shown.contains("left"), "{shown}");
}

#[test]
fn unreadable_file_is_reported_and_retried_by_the_next_run() {
    let mut tree = TestTree::with_files(20);
    tree.add_huge_file("b");
    tree.kill_at_huge_file();
    tree.add_file("b", b"small");
    let unreadable = tree.path().join("deep/0/3/3");
    let body = fs::read(&unreadable).unwrap();
    fs::remove_file(&unreadable).unwrap();
    let digest = tree.digests.remove(b"deep/0/3/3".as_slice()).unwrap();

    let partial = tree.run();
    assert_eq!(partial.code, Some(1));
    assert!(partial.stderr.contains("cannot read deep/0/3/3: "), "{}", partial.stderr);
    assert_eq!(partial.manifest, tree.manifest());
    assert!(tree.store_path().exists());

    fs::write(&unreadable, body).unwrap();
    tree.digests.insert(b"deep/0/3/3".to_vec(), digest);
    let finished = tree.run();
    finished.assert_complete(&tree);
    assert_eq!(finished.hashed, 1);
}

#[test]
fn closed_stdout_loses_only_the_manifest() {
    let tree = TestTree::with_files(20);
    let mut run = tree.command(2).spawn().unwrap();
    drop(run.stdout.take());
    let mut stderr = String::new();
    run.stderr.take().unwrap().read_to_string(&mut stderr).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(1), "{stderr}");
    assert!(stderr.contains("went away") && !stderr.contains("panicked"), "{stderr}");
    let finished = tree.run();
    finished.assert_complete(&tree);
    assert_eq!(finished.hashed, 0);
}

#[test]
fn invalid_arguments_and_stores_are_reported() {
    let tree = TestTree::with_files(1);
    let run = |args: &[&str]| {
        let mut command = tree.command(1);
        let program = command.get_program().to_owned();
        command = Command::new(program);
        let output = command.args(args).current_dir(tree.dir.path()).output().unwrap();
        let outcome = Outcome::new(output);
        assert_eq!(outcome.manifest, b"");
        (outcome.code, outcome.stderr)
    };
    let fails = |args: &[&str], code: i32, words: &str| {
        let (exit, stderr) = run(args);
        assert!(exit == Some(code) && stderr.contains(words), "{args:?}: {exit:?} {stderr}");
    };
    fails(&["missing"], 1, "no such directory");
    fails(&["tree/empty"], 1, "not a directory");
    fails(&["tree", "--store", "tree/empty/store"], 1, "tree/empty/store");
    fails(&["tree", "--store", "tree/a/0/../../a.2"], 1, "a.2");
    fails(&[], 2, "which directory?");
    fails(&["tree", "--workers", "none"], 2, "--workers");
    fails(&["tree", "--wrong"], 2, "--wrong");
    fails(&["tree", "tree"], 2, "tree");

    let other = Store::open(tree.dir.path().join("other")).unwrap();
    fails(&["tree", "--store", "other"], 1, "in use");
    other.create_tube("mail", TubeOptions::new().driver(FIFO)).unwrap();
    other.close().unwrap();
    fails(&["tree", "--store", "other"], 1, "belongs to another program");
    assert!(Store::open(tree.dir.path().join("other")).unwrap().find_tube("mail").is_ok());
}

#[test]
fn store_of_unfinished_run_over_another_directory_is_refused() {
    let tree = TestTree::with_files(20);
    tree.add_huge_file("b");
    tree.kill_at_huge_file();
    fs::create_dir_all(tree.dir.path().join("other/tree")).unwrap();
    let mut command = Command::new(tree.command(1).get_program());
    command.args(["other/tree", "--store", STORE]).current_dir(tree.dir.path());
    let refused = Outcome::new(command.output().unwrap());
    assert_eq!(refused.code, Some(1));
    assert!(refused.stderr.contains("belongs to an unfinished run over"), "{}", refused.stderr);
    assert!(tree.store_path().exists());
}

#[test]
fn manifest_excludes_a_store_inside_the_directory() {
    let tree = TestTree::with_files(3);
    let mut command = Command::new(tree.command(1).get_program());
    let path: &Path = &tree.path();
    let output = command.args([".", "--store", "a/queue"]).current_dir(path).output().unwrap();
    let outcome = Outcome::new(output);
    let manifest = String::from_utf8_lossy(&outcome.manifest).into_owned();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(manifest.contains("  ./a/0\n") && !manifest.contains("queue"), "{manifest}");
    assert_eq!(outcome.hashed, tree.digests.len());
    assert!(!path.join("a/queue").exists());
}

#[cfg(unix)]
fn path_of(bytes: &[u8]) -> PathBuf {
    use std::os::unix::ffi::OsStrExt;
    std::ffi::OsStr::from_bytes(bytes).into()
}

#[cfg(not(unix))]
fn path_of(bytes: &[u8]) -> PathBuf {
    String::from_utf8_lossy(bytes).into_owned().into()
}
