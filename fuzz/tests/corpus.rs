//! The kept corpora, through the same functions that the fuzzer calls.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::fs;
use std::panic::catch_unwind;
use std::path::{Path, PathBuf};

use tubewell_fuzz::{Oracle, TARGETS, Target};

fn corpus(target: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(target);
    let mut files: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{target} has no corpus");
    files
}

/// The files at which the target fails.
fn failing((name, check): Target, oracle: Oracle) -> Vec<PathBuf> {
    let fails = |file: &PathBuf| {
        let bytes = fs::read(file).unwrap();
        catch_unwind(|| check(&bytes, oracle)).is_err()
    };
    corpus(name).into_iter().filter(fails).collect()
}

#[test]
fn nothing_in_the_corpora_finds_anything() {
    for target in TARGETS {
        assert_eq!(failing(target, Oracle::Honest), Vec::<PathBuf>::new(), "{}", target.0);
    }
}

#[test]
fn every_lie_is_found_out_by_the_corpora() {
    for target in TARGETS {
        assert!(!failing(target, Oracle::Lying).is_empty(), "{} notices no lie", target.0);
    }
}
