//! Asserts that the documents name only files, folders and tests that exist.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

const DOCUMENTS: [&str; 32] = [
    "README.md",
    "ARCHITECTURE.md",
    "CHANGELOG.md",
    COMING_FROM,
    "docs/command.md",
    "docs/cookbook.md",
    "docs/format.md",
    "docs/monitoring.md",
    "docs/operating.md",
    "docs/other-processes.md",
    "docs/performance.md",
    "docs/reliability.md",
    "docs/schedules.md",
    "docs/semantics.md",
    "docs/testing.md",
    "docs/traces.md",
    "docs/workers.md",
    "examples/README.md",
    "fuzz/README.md",
    "docs/decisions.md",
    "src/commit/README.md",
    "src/connection/README.md",
    "src/core/README.md",
    "src/handle/README.md",
    "src/runtime/README.md",
    "src/serve/README.md",
    "src/storage/README.md",
    "src/worker/README.md",
    "cli/README.md",
    "drivers/README.md",
    "tests/README.md",
    "wire/README.md",
];

/// It names settings of other systems, which look like names of tests, and no tests.
const COMING_FROM: &str = "docs/coming-from.md";

/// A name with this many underscores in it is the name of a test.
const UNDERSCORES: usize = 3;

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap()
}

/// What stands between backticks in the prose of a document.
fn quoted(document: &str) -> Vec<String> {
    let text = read(document);
    let prose = text.split("```").step_by(2);
    prose.flat_map(|part| part.split('`').skip(1).step_by(2).map(str::to_owned)).collect()
}

const SOURCES: [&str; 7] = ["src", "tests", "drivers", "cli", "fuzz/src", "fuzz/tests", "benches"];

/// The names of all functions in the sources and tests of the project.
fn functions() -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for_each_source(&SOURCES, &mut |_, text| {
        let is_part = |letter: char| letter.is_alphanumeric() || letter == '_';
        let after_fn = text.split("fn ").skip(1);
        names.extend(after_fn.map(|rest| rest.chars().take_while(|c| is_part(*c)).collect()));
    });
    names
}

/// Calls `see` with the path and the text of each Rust source below these folders of the project.
fn for_each_source(folders: &[&str], see: &mut impl FnMut(&Path, &str)) {
    for folder in folders {
        walk(&root().join(folder), see);
    }
}

fn walk(folder: &Path, see: &mut impl FnMut(&Path, &str)) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                walk(&path, see);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            see(&path, &fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn documents_name_only_files_that_exist() {
    for document in DOCUMENTS {
        for name in quoted(document) {
            let is_path = ["src/", "tests/", "cli/", "drivers/", "docs/", "examples/", "benches/"]
                .iter()
                .any(|folder| name.starts_with(folder));
            let is_plain = name.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c));
            if is_path && is_plain {
                let folder = root().join(document).parent().unwrap().to_owned();
                let exists = root().join(&name).exists() || folder.join(&name).exists();
                assert!(exists, "{document} names {name}, which does not exist");
            }
        }
    }
}

/// The families of a scrape.
fn families() -> BTreeSet<String> {
    let text = fs::read_to_string(root().join("src/text/scrape.rs")).unwrap();
    let quoted = text.split('"').filter(|part| part.starts_with("tubewell_"));
    quoted.map(str::to_owned).collect()
}

#[test]
fn documents_name_only_tests_that_exist() {
    let functions = functions();
    assert!(functions.contains("documents_name_only_tests_that_exist"));
    let families = families();
    for document in DOCUMENTS.into_iter().filter(|document| *document != COMING_FROM) {
        for name in quoted(document) {
            let is_name =
                name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
            if is_name && name.starts_with("tubewell_") && families.contains(&name) {
                continue;
            }
            if is_name && name.matches('_').count() >= UNDERSCORES {
                assert!(functions.contains(&name), "{document} names {name}, which does not exist");
            }
        }
    }
}

/// The documents for contributors name parts of the sources. A name that has gone was renamed or moved.
#[test]
fn documents_for_contributors_name_only_what_is_in_the_sources() {
    let root = root();
    let folders = ["", "src", "drivers/src", "wire/src", "json/src", "http/src", "cli/src"]
        .map(|folder| root.join(folder));
    let mut words = BTreeSet::new();
    for_each_source(&[&SOURCES[..], &["wire", "json", "http"]].concat(), &mut |path, text| {
        let found = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        words.extend(found.filter(|word| !word.is_empty()).map(str::to_owned));
        words.extend(path.file_stem().and_then(|stem| Some(stem.to_str()?.to_owned())));
    });
    let is_file = |name: &str| {
        [".rs", ".txt", ".md", ".toml", "/"].iter().any(|end| name.ends_with(end))
            && name.chars().all(|c| c.is_alphanumeric() || "/._-".contains(c))
    };
    let mut gone = Vec::new();
    let is_for_contributors = |name: &&str| {
        ["ARCHITECTURE.md", "docs/decisions.md"].contains(name) || name.starts_with("src/")
    };
    for document in DOCUMENTS.into_iter().filter(is_for_contributors) {
        let own = root.join(document).parent().unwrap().to_owned();
        for name in quoted(document) {
            let is_there = |folder: &PathBuf| folder.join(&name).exists();
            let is_name = name.chars().all(|c| c.is_ascii_alphanumeric() || "_:".contains(c))
                && (name.contains('_') || name.contains("::"));
            let is_known = if is_file(&name) {
                // Each folder has one.
                name == "mod.rs" || folders.iter().any(is_there) || is_there(&own)
            } else {
                !is_name || name.split("::").all(|part| words.contains(part))
            };
            if !is_known {
                gone.push(format!("{document}: {name}"));
            }
        }
    }
    assert!(gone.is_empty(), "these are not in the sources:\n{}", gone.join("\n"));
}

/// "`name` in `file`": the file has the name.
#[test]
fn names_are_in_the_files_that_the_architecture_says() {
    let text = read("ARCHITECTURE.md").replace('\n', " ");
    let parts: Vec<&str> = text.split('`').collect();
    let mut checked = 0;
    for of in parts.windows(3).filter(|of| of[1].trim() == "in") {
        let [name, _, file] = of else { continue };
        let folders = ["src", "drivers/src"].map(|folder| root().join(folder).join(file));
        let Some(source) = folders.iter().find_map(|path| fs::read_to_string(path).ok()) else {
            continue;
        };
        let word = name.rsplit("::").next().unwrap_or(name);
        let mut words = source.split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'));
        assert!(words.any(|found| found == word), "{name} is not in {file}");
        checked += 1;
    }
    assert!(checked > 10, "the search finds {checked} names");
}

#[test]
fn links_between_documents_lead_to_files_that_exist() {
    for document in DOCUMENTS {
        let folder = root().join(document).parent().unwrap().to_owned();
        for target in read(document).split("](").skip(1) {
            let target = target.split(')').next().unwrap_or_default();
            let path = target.split('#').next().unwrap_or_default();
            if path.is_empty() || path.contains("://") {
                continue;
            }
            assert!(folder.join(path).exists(), "{document} links to {target}");
        }
    }
}

#[test]
fn readme_stays_short() {
    let lines = read("README.md").lines().count();
    assert!(lines <= 150, "README.md has {lines} lines");
}
