//! Reads the sources and asserts rules that the compiler does not know: which modules may name what.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

#[path = "common/size.rs"]
mod size;
#[path = "common/sources.rs"]
mod sources;

use std::fs;
use std::path::{Path, PathBuf};

use size::Size;
use sources::before_tests;

struct Source {
    path: String,
    lines: Vec<String>,
}

/// The lines of code of a folder's sources, without comments and test modules.
fn sources(folder: &str) -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    collect(&root.join(folder), &mut files);
    assert!(!files.is_empty(), "no sources in {folder}");
    let relative =
        |path: &Path| path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
    files
        .iter()
        .filter(|path| !path.ends_with("tests.rs"))
        .map(|path| Source {
            path: relative(path),
            lines: code_of(&fs::read_to_string(path).unwrap()),
        })
        .collect()
}

fn code_of(text: &str) -> Vec<String> {
    let code = before_tests(text);
    code.lines().filter(|line| !line.trim_start().starts_with("//")).map(str::to_owned).collect()
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // What a build has generated is not a source.
            if !path.ends_with("target") {
                collect(&path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Asserts that in `folder` only files whose path begins with one of `allowed` contain `word`.
fn only(folder: &str, word: &str, allowed: &[&str]) {
    for source in sources(folder) {
        if allowed.iter().any(|prefix| source.path.starts_with(prefix)) {
            continue;
        }
        for line in &source.lines {
            assert!(
                !line.contains(word),
                "{} must not name {word:?}: {}",
                source.path,
                line.trim()
            );
        }
    }
}

#[test]
fn only_storage_names_the_engine() {
    // The feature `redb` has the engine in public signatures, in one module.
    only("src", "redb::", &["src/storage/", "src/handle/transact.rs"]);
    only("src", "use redb", &["src/storage/", "src/handle/transact.rs", "src/lib.rs"]);
    only("drivers/src", "redb", &[]);
}

#[test]
fn only_the_clock_names_the_system_time() {
    for word in ["Instant", "SystemTime::now"] {
        only("src", word, &["src/base/clock.rs"]);
    }
    // Moments that callers give and get.
    let public = ["src/handle/tube/gates.rs", "src/testing/builder.rs"];
    let own = [
        "src/base/clock.rs",
        "src/values/history.rs",
        "src/values/date.rs",
        "src/base/moment.rs",
        "src/values/put.rs",
        "src/values/restore.rs",
        "src/values/schedule.rs",
        "src/values/spawned_by.rs",
        "src/values/task.rs",
        "src/values/update.rs",
    ];
    only("src", "SystemTime", &[&own[..], &public].concat());
    for word in ["Instant", "SystemTime"] {
        only("drivers/src", word, &[]);
    }
}

#[test]
fn only_dates_and_cron_name_the_calendar() {
    only("src", "croner", &["src/values/cron.rs"]);
    only("src", "jiff", &["src/values/cron.rs", "src/values/date.rs", "src/text/dates.rs"]);
    only("drivers/src", "jiff", &[]);
    only("cli/src", "jiff", &[]);
    only("json/src", "jiff", &["json/src/moment.rs"]);
    // The days of four centuries, and those to 1970: a calendar by hand.
    for word in ["146_097", "719_468"] {
        for folder in ["src", "drivers/src", "cli/src", "json/src", "wire/src"] {
            only(folder, word, &[]);
        }
    }
}

/// Everything else goes through `Output`, `note` or `print_failure`, which escape it (`printable.rs`).
#[test]
fn only_output_writes_what_a_command_prints() {
    for word in ["println!", "print!("] {
        only("cli/src", word, &[]);
    }
    // The screen of `top`, and the question whether the output of `work` is open.
    only(
        "cli/src",
        "stdout()",
        &["cli/src/output.rs", "cli/src/top/screen.rs", "cli/src/work/child.rs"],
    );
    // The questions whether it is a terminal, and what the commands of `work` print.
    let asking = ["cli/src/progress.rs", "cli/src/store.rs", "cli/src/lib.rs"];
    only(
        "cli/src",
        "stderr()",
        &["cli/src/output.rs", "cli/src/work/", asking[0], asking[1], asking[2]],
    );
    only("cli/src", "escape_default", &["cli/src/printable.rs"]);
}

#[test]
fn only_clock_and_platform_call_the_operating_system_past_std() {
    only("src", "rustix", &["src/base/clock.rs", "src/storage/platform.rs"]);
    only("drivers/src", "rustix", &[]);
}

#[test]
fn only_sync_names_the_locks() {
    only("src", "parking_lot", &["src/base/sync.rs"]);
    only("src", "std::sync::Mutex", &[]);
    only("src", "shuttle::", &[]);
    for word in ["parking_lot", "std::sync::Mutex"] {
        only("wire/src", word, &["wire/src/sync.rs"]);
    }
    only("wire/src", "shuttle::", &["wire/src/sync/explored.rs", "wire/src/os/explored"]);
}

#[test]
fn only_os_names_sockets_and_the_clock_of_the_transport() {
    for word in ["mio::", "net::TcpStream", "net::UnixStream", "getrandom", "Instant::now"] {
        only("wire/src", word, &["wire/src/os.rs", "wire/src/os/"]);
    }
    // The user of a process.
    only("wire/src", "rustix", &["wire/src/os/", "wire/src/client/link.rs"]);
}

#[test]
fn only_sync_and_the_callbacks_name_threads() {
    // A thread of its own calls the callbacks. It waits on a channel and takes no lock of ours, so
    // that there are no schedules to explore.
    only("src", "std::thread", &["src/base/sync.rs", "src/events/mod.rs"]);
    only("wire/src", "std::thread", &["wire/src/sync.rs"]);
}

#[test]
fn drivers_know_no_threads_channels_files_or_time() {
    for word in [
        "std::thread",
        "std::fs",
        "std::io",
        "std::time",
        "Mutex",
        "Condvar",
        "channel",
        "tubewell::",
    ] {
        only("drivers/src", word, &[]);
    }
}

/// What stands above the core is out of its reach: `tests/structure` has the order of the folders.
#[test]
fn the_core_knows_no_threads_and_no_clock() {
    for word in ["std::thread", "std::fs", "thread::", "base::clock"] {
        only("src/core", word, &[]);
    }
    only("src/commit", "base::clock", &[]);
}

#[test]
fn only_the_ways_of_calls_give_verbs_to_the_core() {
    let callers = [
        "src/core",
        "src/runtime/open_store.rs",
        "src/runtime/inner.rs",
        "src/runtime/line.rs",
        "src/handle/call.rs",
        "src/serve/verbs.rs",
        "src/serve/service/tests.rs",
    ];
    for word in [".begin_verb(", "core.make("] {
        only("src", word, &callers);
    }
    for folder in ["src/handle/tube", "src/handle/claim"] {
        only(folder, "&mut Core", &[]);
        only(folder, "|core|", &[]);
    }
}

/// A wait that must succeed has the limit of `tests/common/patience.rs` (or that of its crate). Limits in
/// seconds of its own would be broken by a machine that is busy enough.
#[test]
fn waits_of_tests_have_one_limit() {
    let waits =
        ["recv_timeout(", "wait_timeout(", "wait_timeout_while(", "next_line(", "read_lines("];
    for folder in ["tests", "wire/tests", "cli/tests"] {
        for source in sources(folder) {
            for line in
                source.lines.iter().filter(|line| waits.iter().any(|wait| line.contains(wait)))
            {
                let has_own_limit = ["from_secs(", "secs("].iter().any(|own| line.contains(own));
                assert!(!has_own_limit, "{}: {}", source.path, line.trim());
            }
        }
    }
}

/// The other variables name one seed or one image, the kind of the stores, the input, and what a child does.
#[test]
fn only_size_says_how_much_the_tests_do() {
    let others = [
        "tests/behaviour/stores.rs",
        "tests/bit_rot/main.rs",
        "tests/conformance/mod.rs",
        "tests/invariants.rs",
        "tests/kill/process.rs",
        "tests/prometheus/promtool.rs",
        "tests/threads/close.rs",
        "tests/transact/kills.rs",
        "wire/tests/wire/connect.rs",
        "cli/tests/command/support.rs",
    ];
    for folder in ["tests", "drivers/tests", "wire/tests", "cli/tests"] {
        for word in ["env::var(", "env::var_os(", "option_env!"] {
            only(folder, word, &[&["tests/common/size.rs"], &others[..]].concat());
        }
    }
}

#[test]
fn unknown_size_of_the_tests_is_refused_with_the_known_ones() {
    assert_eq!(Size::named(None), Ok(Size::Quick));
    for (name, size) in [("quick", Size::Quick), ("full", Size::Full), ("soak", Size::Soak)] {
        assert_eq!(Size::named(Some(name)), Ok(size));
    }
    let refused = Size::named(Some("long")).unwrap_err();
    assert_eq!(refused, "TUBEWELL_TESTS is \"long\", and not quick, full or soak");
}

#[test]
fn sources_have_no_unfinished_code_and_no_long_files() {
    for folder in ["src", "drivers/src", "examples", "benches"] {
        for source in sources(folder) {
            for word in ["todo!", "unimplemented!", "FIXME", "XXX", "dbg!"] {
                assert!(
                    source.lines.iter().all(|line| !line.contains(word)),
                    "{}: {word}",
                    source.path
                );
            }
            let most = if folder == "benches" { 600 } else { 500 };
            assert!(
                source.lines.len() <= most,
                "{} has {} lines of code",
                source.path,
                source.lines.len()
            );
        }
    }
}
