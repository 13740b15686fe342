//! Cycles among files, and among the files and folders of each folder.

use std::collections::{BTreeMap, BTreeSet};

use crate::imports::Module;

/// One cycle for each group of files that import each other.
pub fn of_files(edges: &[(Module, Module)]) -> Vec<Vec<String>> {
    search(edges.iter().map(|(from, to)| (from.join("/"), to.join("/"))))
}

/// As [`of_files`], for what stands side by side in one folder. A file and the folder of its name
/// are one module.
pub fn of_folders(edges: &[(Module, Module)]) -> Vec<Vec<String>> {
    let mut levels: BTreeMap<Module, Vec<(String, String)>> = BTreeMap::new();
    for (from, to) in edges {
        let shared = from.iter().zip(to).take_while(|(one, other)| one == other).count();
        if let (Some(one), Some(other)) = (from.get(shared), to.get(shared)) {
            let folder = from[..shared].to_vec();
            levels.entry(folder).or_default().push((one.clone(), other.clone()));
        }
    }
    levels.into_values().flat_map(search).collect()
}

fn search(edges: impl IntoIterator<Item = (String, String)>) -> Vec<Vec<String>> {
    let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (from, to) in edges {
        graph.entry(from).or_default().insert(to);
    }
    let mut found: Vec<Vec<String>> = Vec::new();
    for start in graph.keys() {
        if found.iter().any(|cycle| cycle.contains(start)) {
            continue;
        }
        found.extend(way_back(&graph, start));
    }
    found
}

/// A shortest way from a node back to itself.
fn way_back(graph: &BTreeMap<String, BTreeSet<String>>, start: &str) -> Option<Vec<String>> {
    let mut ways = std::collections::VecDeque::from([vec![start.to_owned()]]);
    let mut seen = BTreeSet::new();
    while let Some(way) = ways.pop_front() {
        for next in way.last().and_then(|last| graph.get(last)).into_iter().flatten() {
            if next == start {
                return Some([way, vec![next.clone()]].concat());
            }
            if seen.insert(next.clone()) {
                ways.push_back([way.clone(), vec![next.clone()]].concat());
            }
        }
    }
    None
}
