//! `--help`, manual pages, and every example in them, run as a user would type it.

use crate::support::{Sandbox, run};

/// Creates what the examples refer to.
const SETUP: &str = "
    for tube in mail urgent resize; do tubewell create $tube; done
    tubewell create crawl --driver utube
    seq 30 | tubewell import mail
    printf 'ann\\nbob\\n' > addresses.txt; echo 'a letter' > letter.txt; touch cat.jpg
    echo '{\"data\": \"to: ann\", \"priority\": 1, \"delay\": \"10m\"}' > tasks.jsonl
    printf '#!/bin/sh\\ncat > sent-$TUBEWELL_ID\\n' > send.sh; chmod +x send.sh
    mkdir -p .config/fish";

/// Two tasks that are done and kept.
const SUMS: &str = "
    tubewell create sums --keep-done all
    for id in 30 31; do tubewell put sums '6 * 7'; tubewell resolve sums $id --result 42; done";

/// The commands, and what their examples need besides.
const COMMANDS: &[(&str, &str)] = &[
    ("create", "rm jobs.tubewell"),
    ("alter", ""),
    ("pause", ""),
    ("unpause", "tubewell pause mail"),
    ("set-limit", ""),
    ("limits", ""),
    ("days", "tubewell alter mail --metrics 30; tubewell pop mail"),
    ("drop", ""),
    ("tubes", ""),
    ("put", ""),
    ("requeue", ""),
    ("schedule", ""),
    ("reschedule", "tubewell schedule mail report 'to: ann' --every 1d"),
    ("unschedule", "tubewell schedule mail report 'to: ann' --every 1d"),
    ("schedules", "tubewell schedule mail report 'to: ann' --every 1d"),
    ("import", "tubewell export all.jsonl"),
    ("pop", ""),
    ("claim", ""),
    (
        "ack",
        r#"for name in token other third; do
            printf -v $name %s "$(tubewell claim mail | sed -n 1p)"
        done"#,
    ),
    ("release", "token=$(tubewell claim mail | sed -n 1p)"),
    ("fail", "token=$(tubewell claim mail | sed -n 1p)"),
    ("snooze", "token=$(tubewell claim mail | sed -n 1p)"),
    (
        "advance",
        r#"for name in token other; do
            printf -v $name %s "$(tubewell claim mail | sed -n 1p)"
        done"#,
    ),
    ("renew", "token=$(tubewell claim mail | sed -n 1p)"),
    ("revoke", "tubewell claim mail 17"),
    ("work", SUMS),
    ("peek", ""),
    ("tagged", ""),
    ("tags", ""),
    ("add-tags", ""),
    ("remove-tags", ""),
    ("find", ""),
    ("list", ""),
    ("bury", "token=$(tubewell claim mail | sed -n 1p)"),
    ("kick", "tubewell bury mail 3 17 18"),
    ("update", ""),
    ("add-parents", ""),
    ("remove-parents", "tubewell add-parents mail 17 3 4"),
    ("parents", "tubewell add-parents mail 17 3 4"),
    ("children", "tubewell add-parents mail 17 3 4"),
    ("cancel", ""),
    ("move", ""),
    ("delete", ""),
    ("outcome", SUMS),
    ("groups", ""),
    ("history", "tubewell alter mail --history 20"),
    ("log", "tubewell alter mail --history 20"),
    ("resolve", ""),
    ("forget", SUMS),
    ("release-all", ""),
    ("truncate", ""),
    ("stats", ""),
    ("top", ""),
    ("events", "tubewell create news"),
    ("serve", ""),
    ("verify", ""),
    ("compact", ""),
    ("backup", ""),
    ("export", ""),
    ("completions", ""),
    ("man", ""),
];

#[test]
fn every_example_of_the_help_succeeds() {
    for (command, needs) in COMMANDS {
        let sandbox = Sandbox::empty();
        let examples = examples(&sandbox.ok(&format!("{command} --help")));
        assert!(!examples.is_empty(), "{command}");
        let script = format!("set -o pipefail\n{SETUP}\n{needs}\nset -x\n{}", examples.join("\n"));
        run(sandbox.shell("bash", &script), b"").expect(0);
    }
}

/// The lines below "Example", without their explanations. Programs that may not be installed are
/// left out, and a worker ends when all tasks are done.
fn examples(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| !line.starts_with("Example")).skip(1);
    let typed = |line: &str| {
        let (typed, _) = line.trim().split_once("   ").unwrap_or((line.trim(), ""));
        let typed = ["man -l -", "jq -r .tube", "jq .id", "gzip"]
            .iter()
            .fold(typed.to_owned(), |typed, program| {
                typed.replace(&format!("| {program}"), "| cat")
            });
        // One needs a terminal, the other one does not end: their options are parsed.
        if typed.starts_with("tubewell top")
            || typed.contains("serve")
            || typed.contains("--connect")
        {
            return format!("{typed} --help");
        }
        // Nothing happens while it waits.
        if typed.starts_with("tubewell events") {
            return typed.replace(" --timeout 10m", "") + " --timeout 1ms || (($? == 3))";
        }
        match typed.split_once(" -- ") {
            Some((work, rest)) if work.contains(" work ") && !work.contains(" --once") => {
                format!("{work} --once -- {rest}")
            }
            _ => typed,
        }
    };
    lines.take_while(|line| line.starts_with("  ")).map(typed).collect()
}

#[test]
fn help_and_manual_pages_need_no_store() {
    let sandbox = Sandbox::empty();
    let help = sandbox.ok("--help");
    for (command, _) in COMMANDS {
        assert!(help.contains(&format!("  {command} ")), "{command}");
        let page = sandbox.ok(&format!("{command} --help"));
        let (_, below) = page.split_once("Global options:").unwrap();
        assert!(
            below.contains("Example") && below.contains(&format!("tubewell {command}")),
            "{below}"
        );
        // Examples must not wrap, and a manual page must be ASCII.
        for line in page.lines().skip_while(|line| !line.starts_with("Example")) {
            assert!(line.is_ascii() && line.len() < 80, "{command}: {line}");
        }
        let manual = sandbox.ok(&format!("man {command}"));
        assert!(manual.is_ascii() && manual.contains(".SH EXAMPLE"), "{manual}");
    }
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        let script = sandbox.ok(&format!("completions {shell}"));
        assert!(script.contains("tubewell") && script.contains("TUBEWELL_COMPLETE"), "{script}");
    }
    assert!(sandbox.ok("man").starts_with(".ie"));
    assert!(sandbox.ok("man work").contains("max\\-attempts"));
    assert!(sandbox.fails("man wrok", 2).contains("wrok"));
    assert!(sandbox.fails("man take", 2).contains("take"));
    assert_eq!(sandbox.ok("help work"), sandbox.ok("work --help"));
    assert_eq!(sandbox.ok("help"), sandbox.ok("--help"));
    let pages = COMMANDS.len() + 1;
    assert_eq!(sandbox.ok("man --out pages"), format!("{pages} pages in pages\n"));
    assert!(sandbox.path("pages/tubewell-release-all.1").exists());
    assert!(!sandbox.path("pages/tubewell-take.1").exists());
    assert_eq!(std::fs::read_dir(sandbox.path("pages")).unwrap().count(), pages);
    assert!(!sandbox.store().exists());
}

/// The lines of a section of a manual page, without the escapes of roff.
fn section(page: &str, title: &str) -> Vec<String> {
    let (_, section) = page.split_once(&format!("\n.SH {title}\n")).unwrap();
    let (section, _) = section.split_once("\n.ie ").unwrap_or((section, ""));
    section.lines().map(|line| line.replace("\\-", "-")).collect()
}

#[test]
fn manual_pages_have_the_usage_of_each_command() {
    let sandbox = Sandbox::empty();
    for (command, expected) in [
        (
            "work",
            &["\\fBtubewell\\fR \\fBwork\\fR [\\fIOPTIONS\\fR] \\fITUBE\\fR... \\fB--\\fR \
                   \\fICMD\\fR [\\fIARG\\fR]..."][..],
        ),
        ("put", &["\\fBtubewell\\fR \\fBput\\fR [\\fIOPTIONS\\fR] \\fITUBE\\fR [\\fIBODY\\fR]"]),
        (
            "kick",
            &[
                "\\fBtubewell\\fR \\fBkick\\fR [\\fIOPTIONS\\fR] \\fITUBE\\fR \\fIID\\fR...",
                ".br",
                "\\fBtubewell\\fR \\fBkick\\fR [\\fIOPTIONS\\fR] \\fITUBE\\fR \\fB--count\\fR \
                 \\fIN\\fR",
                ".br",
                "\\fBtubewell\\fR \\fBkick\\fR [\\fIOPTIONS\\fR] \\fITUBE\\fR \\fB--all\\fR",
                ".br",
                "\\fBtubewell\\fR \\fBkick\\fR [\\fIOPTIONS\\fR] \\fITUBE\\fR \\fB--group\\fR \
                 \\fINAME\\fR [\\fB--tag\\fR \\fITAG\\fR] [\\fB--count\\fR \\fIN\\fR]",
                ".br",
                "\\fBtubewell\\fR \\fBkick\\fR [\\fIOPTIONS\\fR] \\fITUBE\\fR \\fB--tag\\fR \
                 \\fITAG\\fR [\\fB--count\\fR \\fIN\\fR]",
                ".br",
                "\\fBtubewell\\fR \\fBkick\\fR [\\fIOPTIONS\\fR] \\fB--all-tubes\\fR \
                 \\fB--all\\fR",
                ".br",
                "\\fBtubewell\\fR \\fBkick\\fR [\\fIOPTIONS\\fR] \\fB--all-tubes\\fR \
                 [\\fB--group\\fR \\fINAME\\fR] [\\fB--tag\\fR \\fITAG\\fR] \
                 [\\fB--count\\fR \\fIN\\fR]",
            ],
        ),
        (
            "import",
            &[
                "\\fBtubewell\\fR \\fBimport\\fR [\\fIOPTIONS\\fR] \\fITUBE\\fR",
                ".br",
                "\\fBtubewell\\fR \\fBimport\\fR [\\fIOPTIONS\\fR] \\fB--all\\fR",
            ],
        ),
    ] {
        let page = sandbox.ok(&format!("man {command}"));
        assert_eq!(section(&page, "SYNOPSIS"), expected, "{page}");
    }
    let top = section(&sandbox.ok("man"), "SYNOPSIS");
    assert_eq!(top, ["\\fBtubewell\\fR [\\fIOPTIONS\\fR] \\fICOMMAND\\fR"]);
    let work = sandbox.ok("man work");
    let arguments = section(&work, "ARGUMENTS").join("\n");
    assert!(arguments.starts_with(".TP\n\\fITUBE\\fR...\nThe tubes"), "{arguments}");
    assert!(arguments.contains(".TP\n\\fICMD\\fR...\nThe command and its arguments"));
    // The options do not list the arguments again.
    assert!(!section(&work, "OPTIONS").iter().any(|line| line.contains("\\fITUBE")));
}

#[test]
fn usage_has_each_way_to_select_tasks() {
    let sandbox = Sandbox::empty();
    for (command, options) in [
        ("kick", &["<ID>...", "--count", "--all", "--group", "--tag"][..]),
        ("delete", &["<ID>...", "--state", "--group", "--tag"]),
        ("revoke", &["<ID>...", "--all"]),
        ("move", &["<ID>...", "--all", "--state", "--group", "--tag"]),
        ("remove-parents", &["<PARENT>...", "--all"]),
    ] {
        let help = sandbox.ok(&format!("{command} --help"));
        let (_, usage) = help.split_once("Usage:").unwrap();
        let (usage, _) = usage.split_once("\n\n").unwrap();
        for option in options {
            // Not in brackets, as an addition to another way.
            let is_way = usage.contains(&format!("> {option}"));
            assert!(is_way, "{command} {option}\n{usage}");
        }
    }
}

#[test]
fn options_that_keep_their_values_name_no_default() {
    let sandbox = Sandbox::empty();
    let defaults = |command: &str| {
        let help = sandbox.ok(&format!("{command} --help"));
        let (options, _) = help.split_once("Global options:").unwrap();
        assert!(options.contains("--max-attempts"), "{options}");
        options.matches("Default:").count()
    };
    assert!(defaults("create") > 10 && defaults("put") > 5 && defaults("schedule") > 5);
    // The delay and the ttl of a task that is put anew begin anew.
    assert_eq!((defaults("alter"), defaults("reschedule"), defaults("requeue")), (0, 0, 2));
    assert!(!sandbox.ok("alter --help").contains("see below"));
}

#[test]
fn manual_pages_and_help_list_the_values_of_options() {
    let sandbox = Sandbox::empty();
    for (command, values) in [
        ("create", &["fifo: ", "fifottl: ", "utube: ", "utubettl: ", "limfifottl: "][..]),
        ("create", &["flush, write(50ms) or relaxed(50ms)", "need", "quotes", "Default: as"]),
        ("import", &["lines: ", "json: "]),
        ("work", &["release: ", "bury: "]),
        ("list", &["ready: ", "taken: ", "delayed: ", "buried: "]),
    ] {
        let manual = section(&sandbox.ok(&format!("man {command}")), "OPTIONS").join("\n");
        let help = sandbox.ok(&format!("{command} --help"));
        for value in values {
            assert!(manual.contains(value), "{command} {value} {manual}");
            assert!(help.contains(value), "{command} {value} {help}");
        }
    }
    let shells = section(&sandbox.ok("man completions"), "ARGUMENTS").join("\n");
    assert!(shells.contains("bash, elvish, fish, powershell, zsh"), "{shells}");
}
