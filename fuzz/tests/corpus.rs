//! Runs the targets on the corpora, with the same functions that the fuzzer calls.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue has failed")]

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

/// The files of the corpus on which the target fails.
fn failing((name, check): Target, oracle: Oracle) -> Vec<PathBuf> {
    let fails = |file: &PathBuf| {
        let bytes = fs::read(file).unwrap();
        catch_unwind(|| check(&bytes, oracle)).is_err()
    };
    corpus(name).into_iter().filter(fails).collect()
}

#[test]
fn corpora_have_no_finding() {
    for target in TARGETS {
        assert_eq!(failing(target, Oracle::Correct), Vec::<PathBuf>::new(), "{}", target.0);
    }
}

#[test]
fn corpora_detect_every_faulty_oracle() {
    for target in TARGETS {
        assert!(
            !failing(target, Oracle::Faulty).is_empty(),
            "{} does not detect the faulty oracle",
            target.0
        );
    }
}
