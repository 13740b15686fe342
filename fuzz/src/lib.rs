//! The fuzz targets, as functions of bytes. `cargo fuzz` calls them with generated inputs,
//! `tests/corpus.rs` with the inputs in `corpus/`. A panic is a finding. See README.md.
//!
//! Each target also takes an [`Oracle`]. With a faulty one (a canary), the target must fail.
#![forbid(unsafe_code)]
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a target that cannot continue has failed"
)]
#![allow(clippy::missing_panics_doc, reason = "a target panics to report a finding")]

pub mod calls;
pub mod command;
pub mod damaged;
mod disk;
mod edits;
mod exercise;
mod history;
pub mod http;
pub mod key_order;
mod model;
pub mod operations;
mod oracle;
mod panics;
pub mod records;
mod side_rows;

pub use oracle::Oracle;

/// The name and the function of a target.
pub type Target = (&'static str, fn(&[u8], Oracle));

/// All targets.
pub const TARGETS: [Target; 7] = [
    ("calls", calls::check),
    ("command", command::check),
    ("damaged", damaged::check),
    ("http", http::check),
    ("key_order", key_order::check),
    ("operations", operations::check),
    ("records", records::check),
];

/// Runs a target on the files that the arguments of the program name.
pub fn replay(check: fn(&[u8], Oracle)) {
    for path in std::env::args_os().skip(1) {
        println!("{}", path.display());
        check(&std::fs::read(&path).unwrap(), Oracle::from_env());
    }
}

/// The program of a target: a libFuzzer program, or without libFuzzer a program that runs the files
/// in its arguments.
#[macro_export]
macro_rules! target {
    ($name:ident) => {
        #[cfg(fuzzing)]
        libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
            $crate::$name::check(bytes, $crate::Oracle::from_env());
        });

        #[cfg(not(fuzzing))]
        fn main() {
            $crate::replay($crate::$name::check);
        }
    };
}
