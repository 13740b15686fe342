//! Reads the sources and asserts that imports go one way: no files and no folders in a cycle, and in the
//! library from each folder only to those below it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cycles;
mod imports;
#[path = "../common/sources.rs"]
mod sources;

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use imports::Crate;

/// The folders of `src/` from the bottom up, as ARCHITECTURE.md has them. A folder imports from itself and
/// from those before it.
const FOLDERS: [&str; 14] = [
    "base",
    "values",
    "text",
    "events",
    "options",
    "storage",
    "commit",
    "core",
    "runtime",
    "connection",
    "handle",
    "serve",
    "worker",
    "testing",
];

#[test]
fn library_has_no_import_cycle() {
    assert_no_cycle(&Crate::read("src"));
}

#[test]
fn imports_go_down_only() {
    let level = |module: &[String]| FOLDERS.iter().position(|it| *it == module[0]).unwrap();
    let up: Vec<String> = Crate::read("src")
        .edges()
        .iter()
        .filter(|(from, to)| !from.is_empty() && level(from) < level(to))
        .map(|(from, to)| format!("{} -> {}", from.join("/"), to.join("/")))
        .collect();
    assert!(up.is_empty(), "these import from a folder above theirs:\n{}", up.join("\n"));
}

/// Each folder says in its first lines what it is. Nothing else stands beside them.
#[test]
fn library_has_its_folders_and_a_root() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let names = fs::read_dir(root.join("src")).unwrap().map(|entry| entry.unwrap().file_name());
    let found: BTreeSet<String> = names.map(|name| name.into_string().unwrap()).collect();
    let expected = FOLDERS.into_iter().chain(["lib.rs"]).map(str::to_owned).collect();
    assert_eq!(found, expected);
    let architecture = fs::read_to_string(root.join("ARCHITECTURE.md")).unwrap();
    let mut rest = architecture.as_str();
    for folder in FOLDERS {
        let text = fs::read_to_string(root.join("src").join(folder).join("mod.rs")).unwrap();
        let head = text.lines().take_while(|line| line.starts_with("//!")).count();
        assert!(head >= 4, "src/{folder}/mod.rs does not say what it is");
        let row = format!("\n| `{folder}/` |");
        let at = rest.find(&row).unwrap_or_else(|| panic!("no row of {folder} in its order"));
        rest = &rest[at + row.len()..];
    }
}

/// The core consists of parts: a further field belongs into one of them.
#[test]
fn core_has_at_most_twenty_fields() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/core/state/core.rs");
    let text = fs::read_to_string(path).unwrap();
    let fields =
        text.split_once("pub(crate) struct Core {").unwrap().1.split_once("\n}").unwrap().0;
    // A count for tests of costs stands under a `cfg`.
    let (fields, for_tests) = fields.split_once("#[cfg(debug_assertions)]").unwrap();
    let fields = fields.lines().chain(for_tests.lines().skip(2));
    let is_field = |line: &&str| line.contains(": ") && !line.trim_start().starts_with("//");
    let fields: Vec<&str> = fields.filter(is_field).collect();
    assert!((15..=20).contains(&fields.len()), "{fields:#?}");
}

#[test]
fn drivers_have_no_import_cycle() {
    assert_no_cycle(&Crate::read("drivers/src"));
}

#[test]
fn transport_has_no_import_cycle() {
    assert_no_cycle(&Crate::read("wire/src"));
}

#[test]
fn http_has_no_import_cycle() {
    assert_no_cycle(&Crate::read("http/src"));
}

#[test]
fn command_has_no_import_cycle() {
    assert_no_cycle(&Crate::read("cli/src"));
}

fn assert_no_cycle(sources: &Crate) {
    let edges = sources.edges();
    assert!(edges.len() > 10, "only {} imports were found", edges.len());
    let found = cycles::of_files(&edges).into_iter().chain(cycles::of_folders(&edges));
    let found: Vec<String> = found.map(|cycle| cycle.join(" -> ")).collect();
    assert!(found.is_empty(), "import cycles:\n{}", found.join("\n"));
}

/// The search must find what it is made for.
#[test]
fn search_finds_cycles_of_files_and_of_folders() {
    let files = |edges: &[(&str, &str)]| -> Vec<(Vec<String>, Vec<String>)> {
        let path = |text: &str| text.split('/').map(str::to_owned).collect();
        edges.iter().map(|(from, to)| (path(from), path(to))).collect()
    };
    let straight = files(&[("a/x", "b/x"), ("b/x", "c"), ("a/y", "a/x")]);
    assert!(cycles::of_files(&straight).is_empty() && cycles::of_folders(&straight).is_empty());
    let of_files = files(&[("a", "b"), ("b", "c"), ("c", "a")]);
    assert_eq!(cycles::of_files(&of_files).len(), 1);
    let of_folders = files(&[("a/x", "b/x"), ("b/y", "a/y")]);
    assert!(cycles::of_files(&of_folders).is_empty());
    assert_eq!(cycles::of_folders(&of_folders).len(), 1);
}

/// A reader that finds no imports would find no cycles either.
#[test]
fn reader_resolves_groups_relative_paths_and_reexports() {
    let sources = Crate::of(&[
        ("lib.rs", "mod a; mod b; pub use b::inner::Thing;"),
        ("a.rs", "use crate::{Thing, b::{Other as Another}}; // use crate::c;"),
        ("b/mod.rs", "mod inner; pub(crate) use inner::Other;"),
        ("b/inner.rs", "fn f() { let text = \"crate::c::X\"; super::super::a::call(); }"),
    ]);
    let mut edges: Vec<String> = sources
        .edges()
        .iter()
        .map(|(from, to)| format!("{} {}", from.join("/"), to.join("/")))
        .collect();
    edges.sort();
    assert_eq!(edges, ["a b/inner", "b/inner a"]);
}
