//! The imports of a crate, from file to file: each path is followed through re-exports to the file
//! that defines the item.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use crate::sources::before_tests;

/// The path of a module: `crate::core::state` is `["core", "state"]`.
pub type Module = Vec<String>;

/// A chain of re-exports is no longer than this.
const REEXPORTS: usize = 8;

struct Source {
    /// Imports and paths of the code.
    uses: Vec<Vec<String>>,
    /// What the module re-exports, or imports for its own use, by name.
    names: BTreeMap<String, Vec<String>>,
}

pub struct Crate(BTreeMap<Module, Source>);

impl Crate {
    /// Reads the sources below a folder of the project.
    pub fn read(folder: &str) -> Crate {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(folder);
        let mut files = Vec::new();
        collect(&root, &root, &mut files);
        let files: Vec<(&str, &str)> =
            files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
        Crate::of(&files)
    }

    /// A crate of these files: paths below its root, and texts.
    pub fn of(files: &[(&str, &str)]) -> Crate {
        let sources = files.iter().map(|(path, text)| (module_of(path), source_of(text)));
        Crate(sources.collect())
    }

    /// Every pair of files of which the first imports an item of the second.
    pub fn edges(&self) -> Vec<(Module, Module)> {
        let mut edges = BTreeSet::new();
        for (module, source) in &self.0 {
            for path in &source.uses {
                if let Some(target) = self.resolve(module, path, REEXPORTS)
                    && target != *module
                    && !target.is_empty()
                {
                    edges.insert((module.clone(), target));
                }
            }
        }
        edges.into_iter().collect()
    }

    /// The module that defines what `path` names in `module`; `None` if it is of another crate.
    fn resolve(&self, module: &Module, path: &[String], left: usize) -> Option<Module> {
        let mut at = module.clone();
        let mut rest = path;
        match rest.first()?.as_str() {
            "crate" => (at, rest) = (Vec::new(), &rest[1..]),
            "self" => rest = &rest[1..],
            "super" => {
                while rest.first().is_some_and(|part| part == "super") {
                    at.pop();
                    rest = &rest[1..];
                }
            }
            first => {
                let child = [at.clone(), vec![first.to_owned()]].concat();
                if !self.0.contains_key(&child) {
                    return None;
                }
            }
        }
        while let Some(next) = rest.first() {
            let child = [at.clone(), vec![next.clone()]].concat();
            if !self.0.contains_key(&child) {
                break;
            }
            (at, rest) = (child, &rest[1..]);
        }
        let reexport = rest.first().and_then(|name| self.0.get(&at)?.names.get(name));
        if let Some(path) = reexport.filter(|_| left > 0)
            && let Some(found) = self.resolve(&at, path, left - 1)
        {
            return Some(found);
        }
        self.0.contains_key(&at).then_some(at)
    }
}

fn collect(root: &Path, folder: &Path, files: &mut Vec<(String, String)>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            // A folder `tests` has the tests of its parent, as a file `tests.rs`.
            if !path.ends_with("tests") {
                collect(root, &path, files);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && !path.ends_with("tests.rs")
        {
            let below = path.strip_prefix(root).unwrap().to_string_lossy().replace('\\', "/");
            files.push((below, fs::read_to_string(&path).unwrap()));
        }
    }
}

fn module_of(path: &str) -> Module {
    let mut parts: Module = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if matches!(parts.last().map(String::as_str), Some("mod" | "lib" | "main")) {
        parts.pop();
    }
    parts
}

fn source_of(text: &str) -> Source {
    let code = code_of(text);
    let mut source = Source { uses: Vec::new(), names: BTreeMap::new() };
    let mut rest = code.as_str();
    while let Some((before, import)) = split_use(rest) {
        paths_of(before, &mut source.uses);
        let end = import.find(';').unwrap_or(import.len());
        let is_reexport = before.trim_end().ends_with(['b', ')'])
            && before.rsplit([';', '}', '{']).next().is_some_and(|last| last.contains("pub"));
        for (path, name) in expand(&import[..end]) {
            source.names.insert(name, path.clone());
            if !is_reexport {
                source.uses.push(path);
            }
        }
        rest = &import[end..];
    }
    paths_of(rest, &mut source.uses);
    source
}

/// The text before the next `use` statement, and its tree.
fn split_use(code: &str) -> Option<(&str, &str)> {
    let mut from = 0;
    while let Some(found) = code[from..].find("use ") {
        let at = from + found;
        if code[..at].chars().next_back().is_none_or(char::is_whitespace) {
            return Some((&code[..at], &code[at + 4..]));
        }
        from = at + 4;
    }
    None
}

/// The code of a file without its test module, comments and texts.
fn code_of(text: &str) -> String {
    let mut code = String::new();
    for line in before_tests(text).lines() {
        let line = line.replace("\\\"", "");
        let mut is_text = false;
        let mut kept = String::new();
        for part in line.split_inclusive('"') {
            if !is_text {
                kept.push_str(part.trim_end_matches('"'));
            }
            is_text ^= part.ends_with('"');
        }
        code.push_str(kept.split("//").next().unwrap_or_default());
        code.push('\n');
    }
    code
}

/// The paths of a tree of imports, each with the name that it gives.
fn expand(tree: &str) -> Vec<(Vec<String>, String)> {
    let tree = tree.trim();
    let Some((prefix, group)) = tree.split_once('{') else {
        let (path, alias) = tree.split_once(" as ").unwrap_or((tree, ""));
        let path: Vec<String> = path.split("::").map(|part| part.trim().to_owned()).collect();
        let name = if alias.is_empty() {
            path.last().cloned().unwrap_or_default()
        } else {
            alias.trim().to_owned()
        };
        return vec![(path, name)];
    };
    let group = group.trim_end().strip_suffix('}').unwrap_or(group);
    let mut found = Vec::new();
    let (mut depth, mut start) = (0, 0);
    let ends = group.char_indices().chain([(group.len(), ',')]);
    for (at, letter) in ends {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ',' if depth == 0 => {
                if !group[start..at].trim().is_empty() {
                    found.extend(expand(&format!("{prefix}{}", group[start..at].trim())));
                }
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

/// The paths outside imports that begin at the root, at a parent or at the module itself.
fn paths_of(code: &str, found: &mut Vec<Vec<String>>) {
    let is_part = |letter: char| letter.is_alphanumeric() || letter == '_' || letter == ':';
    for word in code.split(|letter| !is_part(letter)) {
        let parts: Vec<String> = word.split("::").map(str::to_owned).collect();
        if parts.len() > 1 && matches!(parts[0].as_str(), "crate" | "super" | "self") {
            found.push(parts);
        }
    }
}
