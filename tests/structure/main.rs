//! Reads the sources and asserts that imports go one way: no files and no folders in a cycle.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod cycles;
mod imports;

use imports::Crate;

#[test]
fn library_has_no_import_cycle() {
    assert_no_cycle(&Crate::read("src"));
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
