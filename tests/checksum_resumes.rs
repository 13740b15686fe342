//! The example `checksum` as its user meets it: a process that is killed and started again.
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
/// Looks at a process from outside, a millisecond apart, before a test gives up.
const LOOKS: u32 = 120_000;

/// A directory with a `tree` in it, and what is known of each file there without reading it.
struct Place {
    dir: TempDir,
    digests: BTreeMap<Vec<u8>, String>,
}

impl Place {
    fn with_files(count: usize) -> Place {
        let mut place = Place { dir: TempDir::new().unwrap(), digests: BTreeMap::new() };
        place.file("empty", b"");
        for number in 0..count {
            // Neighbours that sort differently with and without a slash behind the directory.
            let name = match number % 4 {
                0 => format!("a/{number}"),
                1 => format!("a-b/c.d/{number}"),
                2 => format!("a.{number}"),
                _ => format!("deep/{}/{}/{number}", number % 3, number % 7),
            };
            let body: Vec<u8> =
                (0..number * 97 % 5_000).map(|n| (n * number).to_le_bytes()[0]).collect();
            place.file(&name, &body);
        }
        fs::create_dir_all(place.tree().join("nothing/in/here")).unwrap();
        place.odd_names();
        place
    }

    #[cfg(unix)]
    fn odd_names(&mut self) {
        for name in [" ", "-c", "*", "back\\slash", "line\nfeed", "both\\\n/x", "\u{fc}", "~"] {
            self.file(name, name.as_bytes());
        }
        std::os::unix::fs::symlink("empty", self.tree().join("link")).unwrap();
        #[cfg(target_os = "linux")]
        {
            use std::os::unix::ffi::OsStrExt;
            let name = b"not\xffutf8";
            fs::write(self.tree().join(std::ffi::OsStr::from_bytes(name)), "x").unwrap();
            self.digests.insert(name.to_vec(), digest(b"x"));
        }
    }

    #[cfg(not(unix))]
    fn odd_names(&mut self) {
        self.file("\u{fc}", b"x");
    }

    fn tree(&self) -> PathBuf {
        self.dir.path().join("tree")
    }

    fn store(&self) -> PathBuf {
        self.dir.path().join(STORE)
    }

    fn file(&mut self, name: &str, body: &[u8]) {
        let path = self.tree().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, body).unwrap();
        self.digests.insert(name.into(), digest(body));
    }

    /// A file that takes minutes to hash: whoever comes to it stays there until it is killed.
    fn obstacle(&self, name: &str) {
        File::create(self.tree().join(name)).unwrap().set_len(64 << 30).unwrap();
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

    /// A run that is to be killed: nobody reads what it says, so nothing may make it wait for that.
    fn unheard(&self, workers: u32) -> Running {
        let mut command = self.command(workers);
        Running(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap())
    }

    /// Starts a run and kills it when the store has changed so many times. False if the run was
    /// over before.
    fn killed_after(&self, changes: u32, workers: u32) -> bool {
        let mut run = self.unheard(workers);
        let (mut last, mut seen) = (self.look(), 0);
        for _ in 0..LOOKS {
            if run.is_over() {
                return false;
            }
            let now = self.look();
            seen += u32::from(now.is_some() && now != last);
            last = now;
            if seen >= changes {
                drop(run);
                return true;
            }
            pause();
        }
        panic!("the store has changed {seen} times only");
    }

    /// Starts a run with one worker, and kills it when it has come to an obstacle and what it did
    /// before has found its way into the store.
    fn killed_at_obstacle(&self) {
        let mut run = self.unheard(1);
        let (mut last, mut quiet, mut seen) = (None, 0, 0);
        for _ in 0..LOOKS {
            assert!(!run.is_over(), "the obstacle was none");
            let now = self.look();
            quiet = if now == last { quiet + 1 } else { 0 };
            seen += u32::from(now != last);
            last = now;
            if seen > 3 && quiet > 500 {
                return;
            }
            pause();
        }
        panic!("the run does not come to rest");
    }

    /// What can be seen of the store's progress from outside.
    fn look(&self) -> Option<(u64, std::time::SystemTime)> {
        let known = fs::metadata(self.store()).ok()?;
        Some((known.len(), known.modified().unwrap()))
    }
}

/// A process that is killed, with the signal that nobody can catch, when it is dropped.
struct Running(Child);

impl Running {
    fn is_over(&mut self) -> bool {
        self.0.try_wait().unwrap().is_some()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

/// A millisecond, or so: what another process does can only be looked at again and again.
fn pause() {
    std::thread::park_timeout(Duration::from_millis(1));
}

struct Outcome {
    code: Option<i32>,
    manifest: Vec<u8>,
    told: String,
    hashed: usize,
    before: usize,
}

impl Outcome {
    fn new(output: Output) -> Outcome {
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!told.contains("panicked"), "{told}");
        assert!(!told.contains(['\r', '\x1b']), "nobody can see a bar there: {told:?}");
        let counts = told.lines().find_map(|line| {
            let (hashed, rest) = line.strip_prefix("checksum: ")?.split_once(" files hashed")?;
            let before = rest.strip_prefix(" in this run, ")?.strip_suffix(" done before")?;
            Some((hashed.parse().unwrap(), before.parse().unwrap()))
        });
        let (hashed, before) = counts.unwrap_or_default();
        Outcome { code: output.status.code(), manifest: output.stdout, told, hashed, before }
    }

    /// It went well, and nothing is left of it but the manifest.
    fn is_all_of(&self, place: &Place) {
        assert_eq!(self.code, Some(0), "{}", self.told);
        assert_eq!(
            String::from_utf8_lossy(&self.manifest),
            String::from_utf8_lossy(&place.manifest())
        );
        assert_eq!(self.manifest, place.manifest());
        assert_eq!(self.hashed + self.before, place.digests.len(), "{}", self.told);
        assert!(!place.store().exists());
    }
}

fn digest(body: &[u8]) -> String {
    format!("{:x}", Sha256::digest(body))
}

#[test]
fn a_run_killed_at_any_moment_goes_on_and_prints_the_manifest_of_all() {
    let place = Place::with_files(2600);
    let (mut kills, mut saved) = (0, 0);
    for changes in [1, 2, 3, 5, 8, 13, 21, 34, 55, 89] {
        for again in [changes, 1, changes] {
            if !place.killed_after(again, 1 + changes % 2) {
                break;
            }
            kills += 1;
        }
        let finished = place.run();
        finished.is_all_of(&place);
        saved += finished.before;
    }
    println!("{kills} kills, {saved} files not hashed again");
    assert!(kills > 0 && saved > 0, "{kills} kills, {saved} files not hashed again");
}

#[test]
fn what_was_hashed_before_the_kill_is_not_hashed_again() {
    let mut place = Place::with_files(300);
    place.obstacle("b");
    place.killed_at_obstacle();
    place.file("b", b"small");
    let ahead = place.digests.keys().take_while(|path| path.as_slice() < b"b").count();
    let finished = place.run();
    finished.is_all_of(&place);
    assert!(ahead > 200 && finished.before == ahead, "{ahead} {}", finished.told);
}

#[test]
fn the_manifest_is_the_one_of_sha256sum() {
    let place = Place::with_files(50);
    let finished = place.run();
    finished.is_all_of(&place);
    let mut command = Command::new("sha256sum");
    command.arg("--").current_dir(place.dir.path());
    for path in place.digests.keys() {
        command.arg(path_of(&[b"tree/", path.as_slice()].concat()));
    }
    match command.output() {
        Ok(output) => assert_eq!(output.stdout, finished.manifest),
        Err(missing) => println!("no sha256sum to compare with: {missing}"),
    }
}

/// What a run tells in a pipe is looked at by every other test, and has no bar in it.
#[cfg(target_os = "linux")]
#[test]
fn on_a_terminal_a_bar_shows_how_far_it_is() {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};

    let place = Place::with_files(300);
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let mut command = place.command(2);
    let terminal = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
    command.env("TERM", "xterm").stderr(terminal);
    let run = command.spawn().unwrap();
    // The terminal ends when nobody has it open: this side must not.
    drop(command);
    let mut shown = Vec::new();
    // Linux answers with an error when the last one has gone.
    let reader = std::thread::spawn(move || {
        let _ = File::from(master).read_to_end(&mut shown);
        String::from_utf8_lossy(&shown).into_owned()
    });
    let output = run.wait_with_output().unwrap();
    let shown = reader.join().unwrap();
    assert!(output.status.success(), "{shown}");
    assert_eq!(output.stdout, place.manifest(), "the bar is not in the manifest");
    let files = format!(" of {} files, ", place.digests.len());
    assert!(shown.contains(&files) && shown.contains("left"), "{shown}");
}

#[test]
fn a_file_that_cannot_be_read_is_reported_and_tried_again_by_the_next_run() {
    let mut place = Place::with_files(20);
    place.obstacle("b");
    place.killed_at_obstacle();
    place.file("b", b"small");
    let gone = place.tree().join("deep/0/3/3");
    let body = fs::read(&gone).unwrap();
    fs::remove_file(&gone).unwrap();
    let digest = place.digests.remove(b"deep/0/3/3".as_slice()).unwrap();

    let partly = place.run();
    assert_eq!(partly.code, Some(1));
    assert!(partly.told.contains("cannot read deep/0/3/3: "), "{}", partly.told);
    assert_eq!(partly.manifest, place.manifest());
    assert!(place.store().exists());

    fs::write(&gone, body).unwrap();
    place.digests.insert(b"deep/0/3/3".to_vec(), digest);
    let finished = place.run();
    finished.is_all_of(&place);
    assert_eq!(finished.hashed, 1);
}

#[test]
fn a_reader_that_goes_away_costs_nothing_but_its_manifest() {
    let place = Place::with_files(20);
    let mut run = place.command(2).spawn().unwrap();
    drop(run.stdout.take());
    let mut told = String::new();
    run.stderr.take().unwrap().read_to_string(&mut told).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(1), "{told}");
    assert!(told.contains("went away") && !told.contains("panicked"), "{told}");
    let finished = place.run();
    finished.is_all_of(&place);
    assert_eq!(finished.hashed, 0);
}

#[test]
fn what_cannot_be_done_is_told_in_plain_words() {
    let place = Place::with_files(1);
    let told = |args: &[&str]| {
        let mut command = place.command(1);
        let program = command.get_program().to_owned();
        command = Command::new(program);
        let output = command.args(args).current_dir(place.dir.path()).output().unwrap();
        let outcome = Outcome::new(output);
        assert_eq!(outcome.manifest, b"");
        (outcome.code, outcome.told)
    };
    let fails = |args: &[&str], code: i32, words: &str| {
        let (was, said) = told(args);
        assert!(was == Some(code) && said.contains(words), "{args:?}: {was:?} {said}");
    };
    fails(&["missing"], 1, "no such directory");
    fails(&["tree/empty"], 1, "not a directory");
    fails(&["tree", "--store", "tree/empty/store"], 1, "tree/empty/store");
    fails(&["tree", "--store", "tree/a/0/../../a.2"], 1, "a.2");
    fails(&[], 2, "which directory?");
    fails(&["tree", "--workers", "none"], 2, "--workers");
    fails(&["tree", "--wrong"], 2, "--wrong");
    fails(&["tree", "tree"], 2, "tree");

    let mine = Store::open(place.dir.path().join("mine")).unwrap();
    fails(&["tree", "--store", "mine"], 1, "in use");
    mine.create_tube("mail", FIFO, TubeOptions::new()).unwrap();
    mine.close().unwrap();
    fails(&["tree", "--store", "mine"], 1, "belongs to another program");
    assert!(Store::open(place.dir.path().join("mine")).unwrap().tube("mail").is_ok());
}

#[test]
fn an_unfinished_run_over_another_directory_is_left_alone() {
    let place = Place::with_files(20);
    place.obstacle("b");
    place.killed_at_obstacle();
    fs::create_dir_all(place.dir.path().join("other/tree")).unwrap();
    let mut command = Command::new(place.command(1).get_program());
    command.args(["other/tree", "--store", STORE]).current_dir(place.dir.path());
    let refused = Outcome::new(command.output().unwrap());
    assert_eq!(refused.code, Some(1));
    assert!(refused.told.contains("belongs to an unfinished run over"), "{}", refused.told);
    assert!(place.store().exists());
}

#[test]
fn the_store_is_not_in_the_manifest_even_if_it_lies_in_the_directory() {
    let place = Place::with_files(3);
    let mut command = Command::new(place.command(1).get_program());
    let tree: &Path = &place.tree();
    let output = command.args([".", "--store", "a/queue"]).current_dir(tree).output().unwrap();
    let outcome = Outcome::new(output);
    let manifest = String::from_utf8_lossy(&outcome.manifest).into_owned();
    assert_eq!(outcome.code, Some(0), "{}", outcome.told);
    assert!(manifest.contains("  ./a/0\n") && !manifest.contains("queue"), "{manifest}");
    assert_eq!(outcome.hashed, place.digests.len());
    assert!(!tree.join("a/queue").exists());
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
