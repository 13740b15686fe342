//! The structure of docs/coming-from.md. Its code runs as doctests; this file checks that all of it does, and
//! that the document names only what the library has.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENT: &str = include_str!("../docs/coming-from.md");

const TITLES: [&str; 6] = [
    "Tarantool queue",
    "beanstalkd",
    "qless",
    "TaskFlow jobboards",
    "Blueque",
    "Celery, Sidekiq, BullMQ",
];

/// Names with `::` that are not of this library.
const OF_OTHERS: [&str; 3] = ["Sidekiq", "Stats", "Duration"];

/// The title and the text of each section.
fn sections() -> Vec<(&'static str, &'static str)> {
    DOCUMENT.split("\n## ").skip(1).map(|section| section.split_once('\n').unwrap()).collect()
}

/// What stands between backticks outside of code blocks.
fn quoted() -> Vec<&'static str> {
    let prose = DOCUMENT.split("```").step_by(2);
    prose.flat_map(|part| part.split('`').skip(1).step_by(2)).collect()
}

/// The members of the public types: methods, variants and fields.
fn members() -> BTreeMap<String, BTreeSet<String>> {
    let mut members = BTreeMap::new();
    for folder in ["src", "drivers/src"] {
        collect(&PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(folder), &mut members);
    }
    // These two types are made by a macro: from the list of the options, and with what it adds.
    let options = include_str!("../src/options/list.rs").lines().filter_map(option_of);
    let added = include_str!("../src/options/declare.rs").lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("pub fn ").or_else(|| line.strip_prefix("pub ")).map(word)
    });
    for member in options.chain(added) {
        for of in ["TubeOptions", "TubeInfo"] {
            members.entry(of.into()).or_default().insert(member.clone());
        }
    }
    members
}

/// The option of a tube whose entry in the list begins with this line: a method and a field.
fn option_of(line: &str) -> Option<String> {
    let (name, _) = line.strip_prefix("    ")?.split_once('(')?;
    (word(name) == name && line.contains(") -> ")).then(|| name.into())
}

fn collect(folder: &Path, members: &mut BTreeMap<String, BTreeSet<String>>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, members);
        } else {
            members_of(&fs::read_to_string(&path).unwrap(), members);
        }
    }
}

fn members_of(text: &str, members: &mut BTreeMap<String, BTreeSet<String>>) {
    let mut item: Option<(String, &[&str])> = None;
    for line in text.lines() {
        if let Some(begun) = item_of(line) {
            members.entry(begun.0.clone()).or_default();
            item = Some(begun);
        } else if line.starts_with('}') {
            item = None;
        } else if let (Some((name, prefixes)), Some(line)) = (&item, line.strip_prefix("    ")) {
            let member = prefixes.iter().find_map(|prefix| line.strip_prefix(prefix)).map(word);
            let member = member.filter(|member| !member.is_empty());
            members.get_mut(name).unwrap().extend(member);
        }
    }
}

/// The type that an item at the left margin is about, and how the lines of its public members begin.
fn item_of(line: &str) -> Option<(String, &'static [&'static str])> {
    const METHODS: &[&str] = &["pub fn ", "pub async fn ", "pub const fn "];
    if let Some(rest) = line.strip_prefix("pub enum ") {
        return Some((word(rest), &[""]));
    } else if let Some(rest) = line.strip_prefix("pub struct ") {
        return Some((word(rest), &["pub "]));
    } else if let Some(rest) = line.strip_prefix("pub trait ") {
        return Some((word(rest), &["fn "]));
    }
    let rest = line.strip_prefix("impl")?;
    let rest = if rest.starts_with('<') { rest.split_once("> ")?.1 } else { rest.trim_start() };
    (!rest.contains(" for ")).then(|| (word(rest), METHODS))
}

/// The identifier at the beginning of a text; empty if there is none.
fn word(text: &str) -> String {
    text.chars().take_while(|letter| letter.is_alphanumeric() || *letter == '_').collect()
}

#[test]
fn sections_have_a_table_surprises_and_code_that_runs() {
    let titles: Vec<&str> = sections().into_iter().map(|(title, _)| title).collect();
    assert_eq!(titles, TITLES);
    for (title, text) in sections() {
        let fences: Vec<&str> = text.lines().filter(|line| line.starts_with("```")).collect();
        // Neither `no_run` nor `ignore`.
        assert_eq!(fences, ["```rust", "```"], "{title}");
        let (table, rest) = text.split_once("\n### What can surprise\n").unwrap();
        let (surprises, code) = rest.split_once("\n### The same in tubewell\n").unwrap();
        assert!(table.contains(" | tubewell |\n|---|---|\n"), "{title}: no table");
        assert!(surprises.matches("\n* ").count() >= 5, "{title}: what can surprise");
        let (_, code) = code.split_once("```rust\n").unwrap();
        let (code, _) = code.split_once("```").unwrap();
        assert!((20..=60).contains(&code.lines().count()), "{title}: length of the code");
        assert!(code.contains("fn main()"), "{title}: not a program");
        assert!(code.contains("assert"), "{title}: the code checks nothing");
    }
}

/// A row names what there is here, or says why there is nothing.
#[test]
fn rows_of_the_tables_have_an_answer() {
    for line in DOCUMENT.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<&str> = line.split(" | ").collect();
        assert_eq!(cells.len(), if line.starts_with("|--") { 1 } else { 2 }, "{line}");
        let Some(here) = cells.get(1).map(|cell| cell.trim_end_matches(" |")) else { continue };
        assert!(!here.trim().is_empty(), "{line}");
        let reason = here.strip_prefix("none");
        assert!(reason.is_none_or(|reason| reason.starts_with(": ")), "no reason: {line}");
    }
}

#[test]
fn sections_are_linked_at_the_top() {
    let (top, _) = DOCUMENT.split_once("\n## ").unwrap();
    for (title, _) in sections() {
        let anchor: String = title.to_lowercase().replace(' ', "-");
        let anchor = anchor.replace(',', "");
        assert!(top.contains(&format!("](#{anchor})")), "{title}");
    }
}

#[test]
fn document_names_only_members_that_exist() {
    let members = members();
    assert!(members["Admin"].contains("kick") && members["TaskState"].contains("Buried"));
    assert!(members["TaskInfo"].contains("due_in") && members["Driver"].contains("order"));
    let mut known = 0;
    for name in quoted() {
        let Some((path, rest)) = name.rsplit_once("::") else { continue };
        let (of, member) = (path.rsplit("::").next().unwrap(), word(rest));
        if OF_OTHERS.contains(&path.split("::").next().unwrap()) {
            continue;
        }
        let found = members.get(of).is_some_and(|members| members.contains(&member));
        assert!(found, "there is no {name}");
        known += 1;
    }
    assert!(known > 600, "{known} names were checked");
}
