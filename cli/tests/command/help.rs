//! Every example that `--help` shows, run as it would be typed.

use std::path::Path;
use std::process::Command;

use crate::support::{Bench, run};

/// What the examples speak of.
const STAGE: &str = "
    for tube in mail urgent resize; do tubewell create $tube; done
    tubewell create crawl --driver utube
    seq 30 | tubewell import mail
    printf 'ann\\nbob\\n' > addresses.txt; echo 'a letter' > letter.txt; touch cat.jpg
    echo '{\"data\": \"to: ann\", \"pri\": 1, \"delay\": \"10m\"}' > tasks.jsonl
    printf '#!/bin/sh\\ncat > sent-$TUBEWELL_ID\\n' > send.sh; chmod +x send.sh
    mkdir -p .zfunc .config/fish/completions";

/// The commands of which examples are shown, and what each needs besides.
const COMMANDS: &[(&str, &str)] = &[
    ("create", "rm jobs.tubewell"),
    ("drop", ""),
    ("tubes", ""),
    ("put", ""),
    ("import", "tubewell export all.jsonl"),
    ("take", ""),
    ("work", ""),
    ("peek", ""),
    ("list", ""),
    ("bury", ""),
    ("kick", "tubewell bury mail 3"),
    ("delete", ""),
    ("release-all", ""),
    ("truncate", ""),
    ("stats", ""),
    ("verify", ""),
    ("compact", ""),
    ("backup", ""),
    ("export", ""),
    ("completions", ""),
    ("man", ""),
];

#[test]
fn every_example_of_the_help_does_something_as_it_is_printed() {
    for (command, needs) in COMMANDS {
        let bench = Bench::empty();
        let examples = examples(&bench.ok(&format!("{command} --help")));
        assert!(!examples.is_empty(), "{command}");
        let script = format!("{STAGE}\n{needs}\nset -x\n{}", examples.join("\n"));
        let bin = Path::new(env!("CARGO_BIN_EXE_tubewell")).parent().unwrap().display();
        let path = format!("{bin}:{}", std::env::var("PATH").unwrap());
        let mut shell = Command::new("bash");
        shell.args(["-e", "-o", "pipefail", "-c", &script]).env("PATH", path);
        shell.env("TUBEWELL_STORE", bench.store()).env("HOME", bench.dir.path());
        shell.current_dir(bench.dir.path());
        run(shell, b"").expect(0);
    }
}

/// The lines below "Example", without what explains them. Programs that a machine may lack are left
/// to the reader, and a worker that would go on for ever ends when all is done.
fn examples(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Example")).skip(1);
    let typed = |line: &str| {
        let (typed, _) = line.trim().split_once("   ").unwrap_or((line.trim(), ""));
        let typed = ["man -l -", "jq -r .tube", "jq .id", "gzip"]
            .iter()
            .fold(typed.to_owned(), |typed, lacking| {
                typed.replace(&format!("| {lacking}"), "| cat")
            });
        match typed.split_once(" -- ") {
            Some((work, rest)) if work.contains(" work ") && !work.contains(" --once") => {
                format!("{work} --once -- {rest}")
            }
            _ => typed,
        }
    };
    lines.take_while(|line| line.starts_with("  ")).map(typed).collect()
}
