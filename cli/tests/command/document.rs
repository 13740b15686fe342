//! docs/command.md is true: its sessions run as they are shown, and its table has the options of each command. The
//! sessions of docs/operating.md run as they are shown, too.

use std::collections::{BTreeMap, BTreeSet};

use crate::support::{Sandbox, run};

const DOCUMENT: &str = include_str!("../../../docs/command.md");
const OPERATING: &str = include_str!("../../../docs/operating.md");

/// The commands that have the options of another one, too, as their rows say.
const AS_OTHERS: [(&str, &str); 3] = [("alter", "create"), ("requeue", "put"), ("advance", "put")];

#[test]
fn sessions_of_the_documents_run_as_shown() {
    for document in [DOCUMENT, OPERATING] {
        let blocks = document.split("```console\n").skip(1);
        let sessions: Vec<&str> = blocks.map(|rest| rest.split_once("```").unwrap().0).collect();
        assert!(!sessions.is_empty());
        // A session goes on where the one before it in the document has ended.
        let sandbox = Sandbox::empty();
        for (typed, shown) in sessions.into_iter().flat_map(steps) {
            let mut command = sandbox.shell("sh", &format!("{{ {typed}; }} 2>&1"));
            command.env("TUBEWELL_STORE", "jobs.tubewell");
            let done = run(command, b"");
            let printed = done.text().to_owned();
            assert_eq!(masked(&printed), masked(&shown), "$ {typed}\n{printed}");
        }
    }
}

/// What is typed, and what it prints.
fn steps(session: &str) -> Vec<(String, String)> {
    let steps = session.split("$ ").skip(1).map(|step| step.split_once('\n').unwrap());
    steps.map(|(typed, shown)| (typed.to_owned(), shown.to_owned())).collect()
}

/// Without what is another one in each run: times, dates, and the columns that are as wide as these.
fn masked(text: &str) -> Vec<String> {
    let is_date = |word: &str| word.len() == 10 && word.parse::<tubewell::expert::Date>().is_ok();
    let is_time = |word: &str| {
        let units = word.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        units.len() < word.len() && ["ns", "us", "ms", "s", "m", "h"].contains(&units)
    };
    let line = |line: &str| {
        let words = line.split_whitespace().map(|word| match word {
            word if is_time(word) => "TIME",
            word if is_date(word) => "DATE",
            word => word,
        });
        words.collect::<Vec<_>>().join(" ")
    };
    text.lines().map(line).collect()
}

/// The rows of the table of commands, by command: what they say that it does.
fn rows() -> BTreeMap<&'static str, String> {
    let mut rows: BTreeMap<&str, String> = BTreeMap::new();
    let (_, table) = DOCUMENT.split_once("\n## Commands\n\n").unwrap();
    let lines = table.lines().take_while(|line| line.starts_with('|'));
    for line in lines.filter(|line| line.starts_with("| `")) {
        let [_, typed, does, _, _] = line.split('|').collect::<Vec<_>>()[..] else { continue };
        let mut commands = typed.split('`').skip(1).step_by(2);
        let command = commands.next().and_then(|typed| typed.split(' ').next()).unwrap();
        rows.entry(command).or_default().extend([typed, " ", does, " "]);
    }
    rows
}

/// The section on a command below the table, if it has one.
fn section(command: &str) -> &'static str {
    let rest = DOCUMENT.split_once(&format!("\n## `{command}`\n"));
    rest.map_or("", |(_, rest)| rest.split("\n## ").next().unwrap_or_default())
}

/// The options that a text names.
fn options(text: &str) -> BTreeSet<&str> {
    let is_end = |c: char| !(c.is_ascii_lowercase() || c == '-');
    let words = text.match_indices("--").map(|(at, _)| &text[at..]);
    let words = words.map(|rest| rest.split(is_end).next().unwrap_or_default());
    words.filter(|word| word.len() > 3 && !word.starts_with("---")).collect()
}

/// The options of a command itself, as its help lists them.
fn own_options(help: &str) -> BTreeSet<&str> {
    let (_, rest) = help.split_once("Usage:").unwrap();
    let (own, _) = rest.split_once("Global options:").unwrap();
    let lines = own.lines().filter(|line| line.trim_start().starts_with('-'));
    // What follows the option may name others.
    let words = lines.filter_map(|line| line.split_whitespace().find(|it| it.starts_with("--")));
    words.flat_map(options).collect()
}

#[test]
fn table_of_the_document_has_the_commands_and_their_options() {
    let sandbox = Sandbox::empty();
    let (rows, mut wrong) = (rows(), Vec::new());
    assert!(rows.len() >= 60, "{:?}", rows.keys());
    let helps: BTreeMap<&str, String> =
        rows.keys().map(|name| (*name, sandbox.ok(&format!("{name} --help")))).collect();
    let global = sandbox.ok("--help");
    let of_commands = helps.values().flat_map(|help| own_options(help));
    let any: BTreeSet<&str> = of_commands.chain(options(&global)).collect();
    for (command, help) in &helps {
        let own = own_options(help);
        let row = options(&rows[command]);
        let unknown = row.difference(&own).filter(|option| !any.contains(*option));
        wrong.extend(unknown.map(|option| format!("no command has {option}, as {command} says")));
        let other = AS_OTHERS.iter().find(|(name, _)| name == command);
        let others = other.map_or(String::new(), |(_, of)| rows[of].clone() + section(of));
        let text = rows[command].clone() + section(command) + &others;
        let named = options(&text);
        let every = ["--help", "--version"];
        let missing = own.difference(&named).filter(|option| !every.contains(option));
        wrong.extend(missing.map(|option| format!("{command} has {option}")));
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Commands that the prose names, with their options.
#[test]
fn commands_in_the_prose_of_the_document_exist() {
    let (rows, sandbox) = (rows(), Sandbox::empty());
    let global = sandbox.ok("--help");
    let spans = DOCUMENT.split('`').skip(1).step_by(2);
    let typed = spans.filter_map(|span| span.strip_prefix("tubewell "));
    let mut checked = 0;
    for typed in typed.filter(|typed| typed.starts_with(|c: char| c.is_ascii_lowercase())) {
        let command = typed.split(' ').next().unwrap();
        assert!(rows.contains_key(command), "{typed}");
        let help = sandbox.ok(&format!("{command} --help"));
        for option in options(typed) {
            assert!(help.contains(option) || global.contains(option), "{typed}");
        }
        checked += 1;
    }
    assert!(checked >= 3, "{checked}");
}
