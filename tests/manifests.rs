//! Checks the manifests: the features, the requirements, and the Rust version of all dependencies.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::process::Command;

use serde_json::Value;

/// What `cargo metadata` returns about the workspace.
fn metadata(arguments: &[&str]) -> Value {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--locked", "--format-version", "1"])
        .args(arguments)
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

fn packages(metadata: &Value) -> &[Value] {
    metadata["packages"].as_array().unwrap()
}

fn library(metadata: &Value) -> &Value {
    packages(metadata).iter().find(|package| package["name"] == "tubewell").unwrap()
}

fn texts(value: &Value) -> BTreeSet<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

/// `1.90` and `1.90.0` are the same version.
fn version(text: &str) -> Vec<u32> {
    let mut numbers: Vec<u32> = text.split('.').map(|number| number.parse().unwrap_or(0)).collect();
    numbers.resize(3, 0);
    numbers
}

/// The platform of this machine. The packages of other platforms may not be downloaded.
fn host() -> String {
    let output = Command::new("rustc").arg("-vV").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().find_map(|line| line.strip_prefix("host: ")).unwrap().to_owned()
}

#[test]
fn no_dependency_needs_a_newer_rust_than_the_library() {
    let metadata = metadata(&["--filter-platform", &host()]);
    let supported = version(library(&metadata)["rust_version"].as_str().unwrap());
    let newer: Vec<String> = packages(&metadata)
        .iter()
        .filter(|package| {
            package["rust_version"].as_str().is_some_and(|needs| version(needs) > supported)
        })
        .map(|package| format!("{} needs {}", package["name"], package["rust_version"]))
        .collect();
    assert_eq!(newer, [""; 0]);
}

/// An exact requirement is a conflict for an application that has the dependency in another
/// version.
#[test]
fn dependencies_are_caret_requirements() {
    let metadata = metadata(&["--no-deps"]);
    for package in packages(&metadata) {
        for dependency in package["dependencies"].as_array().unwrap() {
            let requirement = dependency["req"].as_str().unwrap();
            let name = &dependency["name"];
            // Its dynamic completion is not covered by semantic versioning. Nothing depends on the
            // command as a library.
            // A package that tests itself with more features has no version of itself to ask for.
            if name == "clap_complete" || *name == package["name"] {
                continue;
            }
            assert!(requirement.starts_with('^'), "{}: {name} {requirement}", package["name"]);
        }
    }
}

#[test]
fn feature_full_has_all_public_features_and_docs_rs_shows_them() {
    let metadata = metadata(&["--no-deps"]);
    let library = library(&metadata);
    let features = library["features"].as_object().unwrap();
    let public: BTreeSet<&str> = features
        .keys()
        .map(String::as_str)
        .filter(|name| !name.starts_with('_') && !["default", "full"].contains(name))
        .collect();
    assert_eq!(texts(&features["full"]), public);
    assert_eq!(texts(&library["metadata"]["docs"]["rs"]["features"]), BTreeSet::from(["full"]));
}

#[test]
fn only_the_hidden_feature_needs_the_schedule_explorer() {
    let metadata = metadata(&["--no-deps"]);
    for package in packages(&metadata) {
        for (name, needs) in package["features"].as_object().unwrap() {
            let needs_it = texts(needs).iter().any(|needed| needed.contains("shuttle"));
            assert_eq!(needs_it, name == "_shuttle", "{}: {name}", package["name"]);
        }
        let dependencies = package["dependencies"].as_array().unwrap();
        let mut explorers = dependencies.iter().filter(|needed| needed["name"] == "shuttle");
        assert!(explorers.all(|needed| needed["optional"] == true), "{}", package["name"]);
    }
}

/// The fuzz targets are a workspace of their own. With another profile, they would run what they test without
/// optimization.
#[test]
fn fuzz_targets_have_the_profile_of_the_project() {
    let dev_profile = |text: &str| -> Vec<String> {
        let lines = text.lines().skip_while(|line| !line.starts_with("[profile.dev]"));
        let lines =
            lines.take_while(|line| !line.starts_with('[') || line.starts_with("[profile.dev"));
        let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
        lines.map(str::to_owned).collect()
    };
    let own = dev_profile(include_str!("../Cargo.toml"));
    assert!(own.len() > 10, "{own:?}");
    assert_eq!(dev_profile(include_str!("../fuzz/Cargo.toml")), own);
}
