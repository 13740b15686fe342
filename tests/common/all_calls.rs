//! The list of all calls of a store, and which of them a workload has made. The library
//! notes calls with debug assertions and the feature `_peer` only.

use std::collections::BTreeSet;

/// Checks that these calls were all calls but the exceptions, each of which has a reason.
pub fn assert_all_met(met: &BTreeSet<&str>, exceptions: &[(&str, &str)]) {
    let all = all();
    let is_excepted = |name: &str| exceptions.iter().any(|(excepted, _)| *excepted == name);
    let missed: Vec<&str> =
        all.iter().copied().filter(|name| !met.contains(name) && !is_excepted(name)).collect();
    assert!(missed.is_empty(), "no call is one of these: {missed:#?}");
    let reached: Vec<&str> =
        all.iter().copied().filter(|name| met.contains(name) && is_excepted(name)).collect();
    assert!(reached.is_empty(), "no exceptions any more: {reached:#?}");
    let unknown: Vec<_> = exceptions.iter().filter(|(name, _)| !all.contains(name)).collect();
    assert!(unknown.is_empty(), "no calls: {unknown:#?}");
}

/// The names of all calls. The same list is that of the fuzz target `calls`, whose corpus has each of them.
fn all() -> Vec<&'static str> {
    let kinds = include_str!("../../src/core/kinds.txt");
    let calls: Vec<&str> = kinds.lines().filter_map(|line| Some(line.split_once(' ')?.1)).collect();
    assert!(calls.len() > 80, "{calls:?}");
    calls
}
