//! The list of all calls of a store, and which of them a workload has made. Only with the feature `_peer`.

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

/// The names of the variants of all calls, from the list of all that a connection encodes. The same list
/// is that of the fuzz target `calls`, whose corpus has each of them.
fn all() -> Vec<&'static str> {
    let protocol = include_str!("../../src/core/wire/tests/protocol.txt");
    let names = protocol.lines().filter_map(|line| line.split_once(' ')).map(|(_, name)| name);
    let is_call = |name: &&str| {
        let enumeration = name.split("::").next().unwrap_or_default();
        enumeration.ends_with("Verb") || enumeration == "Call"
    };
    let calls: Vec<&str> = names.filter(is_call).collect();
    assert!(calls.len() > 95, "{calls:?}");
    calls
}
