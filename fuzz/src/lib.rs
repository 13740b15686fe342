//! The bodies of the fuzz targets, as functions of bytes: `cargo fuzz` feeds them with what it
//! thinks of, `tests/corpus.rs` with the corpora that are kept. A body that panics has found
//! something. See README.md.
//!
//! Each takes an [`Oracle`] too: a canary asks for a lie, and must be found out.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a target that cannot go on has failed"
)]
#![allow(clippy::missing_panics_doc, reason = "that is what they are for")]

pub mod command;
pub mod damaged;
mod disk;
mod edits;
mod history;
pub mod key_order;
mod model;
pub mod operations;
mod panics;
pub mod records;
mod use_all;

/// What a target compares with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Oracle {
    Honest,
    /// Wrong in one thing, which the target must notice.
    Lying,
}

impl Oracle {
    /// As `TUBEWELL_FUZZ_CANARY` says: whoever sets it wants a lie.
    #[must_use]
    pub fn asked() -> Oracle {
        match std::env::var_os("TUBEWELL_FUZZ_CANARY") {
            None => Oracle::Honest,
            Some(_) => Oracle::Lying,
        }
    }

    #[must_use]
    pub fn lies(self) -> bool {
        self == Oracle::Lying
    }
}

/// A target: what it is called, and what it does.
pub type Target = (&'static str, fn(&[u8], Oracle));

/// All of them.
pub const TARGETS: [Target; 5] = [
    ("command", command::check),
    ("damaged", damaged::check),
    ("key_order", key_order::check),
    ("operations", operations::check),
    ("records", records::check),
];

/// Runs a target over the files that the program was given.
pub fn replay(check: fn(&[u8], Oracle)) {
    for path in std::env::args_os().skip(1) {
        println!("{}", path.display());
        check(&std::fs::read(&path).unwrap(), Oracle::asked());
    }
}

/// The program of a target: libFuzzer's, or without it one that runs the files it is given.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $crate::$name::check(bytes, $crate::Oracle::asked());
        });

        #[cfg(not(fuzzing))]
        fn main() {
            $crate::replay($crate::$name::check);
        }
    };
}
