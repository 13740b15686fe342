//! Completion in bash. The scripts of the other shells call the command in the same way.

use std::process::Stdio;

use rustix::process::Signal;

use crate::support::{Sandbox, run};

/// What bash offers for each of these command lines, the last word being typed. Checks that nothing
/// is printed on standard error.
fn completed(sandbox: &Sandbox, lines: &[&str]) -> Vec<String> {
    let mut script = String::from(
        "source <(tubewell completions bash)
        try() {
            COMP_WORDS=(tubewell \"$@\") COMP_CWORD=$# COMP_TYPE=9 COMPREPLY=()
            local before=$(($# - 1))
            _clap_complete_tubewell tubewell \"${!#}\" \"${COMP_WORDS[before]}\"
            echo \"${COMPREPLY[*]}\"
        }\n",
    );
    for line in lines {
        script.extend(["try ", line, "\n"]);
    }
    let done = run(sandbox.shell("bash", &script), b"").expect(0);
    assert_eq!(done.err, "");
    done.text().lines().map(str::to_owned).collect()
}

/// The words offered, without the options.
fn completed_words(sandbox: &Sandbox, line: &str) -> Vec<String> {
    let offered = completed(sandbox, &[line]).remove(0);
    let words = offered.split_whitespace().filter(|word| !word.starts_with('-'));
    words.map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_options_and_values() {
    let sandbox = Sandbox::empty();
    let offered = completed(
        &sandbox,
        &[
            "rel",
            "create --driver fifo",
            "create --durability ''",
            "create --dur",
            "create --count-takes ''",
            "create --backoff ''",
            "create --keep-done c",
            "list mail --state ''",
            "list mail --state ready,b",
            "work mail --on",
            "man po",
            "completions b",
        ],
    );
    assert_eq!(
        offered,
        [
            "release release-all",
            "fifo fifottl",
            "flush write relaxed",
            "--durability",
            "lazily written flushed",
            "10s 1s,factor=2,cap=1h 1s,factor=2,cap=1h,jitter=0.5",
            "count=1000 count=1000,age=1d",
            "ready taken delayed blocked buried done recurring",
            "ready,blocked ready,buried",
            "--on-failure --once",
            "pop",
            "bash",
        ]
    );
    assert!(!completed_words(&sandbox, "''").contains(&"take".to_owned()));
    assert!(!sandbox.store().exists());
}

#[test]
fn bash_completes_tubes_of_the_store() {
    let sandbox = Sandbox::with(&["x"]);
    for name in ["mailing-list", "urgent", "größe"] {
        sandbox.ok(&format!("create {name}"));
    }
    let mut odd = sandbox.command(&["create", "two words"]);
    odd.stdout(Stdio::null());
    run(odd, b"").expect(0);
    let before = std::fs::read(sandbox.store()).unwrap();
    let all = ["größe", "mail", "mailing-list", "urgent"];
    for command in [
        "put",
        "import",
        "pop",
        "work",
        "peek",
        "list",
        "bury",
        "kick",
        "update",
        "add-parents",
        "remove-parents",
        "parents",
        "children",
        "cancel",
        "delete",
        "release-all",
        "truncate",
        "stats",
        "alter",
        "pause",
        "unpause",
        "drop",
    ] {
        assert_eq!(completed_words(&sandbox, &format!("{command} ''")), all, "{command}");
    }
    assert_eq!(
        completed(&sandbox, &["put ma", "stats mail", "work urgent mail m", "create ma"]),
        ["mail mailing-list", "mail mailing-list", "mail mailing-list", ""]
    );
    assert!(std::fs::read(sandbox.store()).unwrap() == before, "the file was written to");
}

#[test]
fn bash_completes_tubes_of_the_store_that_is_typed() {
    let sandbox = Sandbox::empty();
    sandbox.ok("create mail");
    sandbox.ok("create other --store other.tubewell");
    assert_eq!(
        completed(
            &sandbox,
            &[
                "--store other.tubewell put ''",
                "put --store=other.tubewell o",
                "put -s other.tubewell o",
                "put -s ~/other.tubewell o",
                "put -s '~/other.tubewell' o",
                "put --store nowhere.tubewell o",
                "put m",
            ]
        )
        .iter()
        .map(|offered| offered.split(' ').next().unwrap())
        .collect::<Vec<_>>(),
        ["other", "other", "other", "other", "other", "", "mail"]
    );
    assert!(!sandbox.path("nowhere.tubewell").exists());
}

#[test]
fn no_tubes_are_completed_while_the_store_cannot_be_read() {
    let sandbox = Sandbox::with(&["x"]);
    let mut gate = sandbox.gate();
    let mut work = sandbox.work("mail", "echo started; read x < gate");
    work.prints("started");
    // In use. Commands and options are completed nevertheless.
    assert_eq!(completed(&sandbox, &["put ma", "list mail --bo"]), ["", "--bodies"]);
    gate.open(1);
    work.signal(Signal::TERM);
    assert_eq!(work.ends(), 0);
    assert_eq!(completed(&sandbox, &["put ma"]), ["mail"]);

    // Not a store, damaged, and missing.
    let mut file = std::fs::read(sandbox.store()).unwrap();
    file[(1 << 20)..].fill(0x5A);
    std::fs::write(sandbox.path("damaged"), file).unwrap();
    std::fs::write(sandbox.path("letter"), "not a store".repeat(1000)).unwrap();
    std::fs::write(sandbox.path("empty"), "").unwrap();
    for store in ["damaged", "letter", "empty", ".", "missing", "''"] {
        assert_eq!(completed(&sandbox, &[&format!("--store {store} put ma")]), [""], "{store}");
    }
    assert!(!sandbox.path("missing").exists());
    assert_eq!(std::fs::metadata(sandbox.path("empty")).unwrap().len(), 0);
}

#[test]
fn tubes_of_a_killed_process_are_completed() {
    let sandbox = Sandbox::with(&["x"]);
    let mut gate = sandbox.gate();
    let mut work = sandbox.work("mail", "echo started; read x < gate");
    work.prints("started");
    work.signal(Signal::KILL);
    work.ends();
    let before = std::fs::read(sandbox.store()).unwrap();
    assert_eq!(completed(&sandbox, &["put ma"]), ["mail"]);
    assert!(std::fs::read(sandbox.store()).unwrap() == before, "the file was written to");
    gate.open(1);
}
