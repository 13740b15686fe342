//! Requests of connections, as bytes, on a store in memory. The input encodes requests of all kinds,
//! also with changed bytes, moves of the clock, and ends of connections, of stores and of processes.

mod grammar;
mod picture;
mod run;
mod setup;
mod writer;

use std::collections::BTreeMap;

use arbitrary::Unstructured;

use crate::oracle::Oracle;
use run::Run;

/// With more steps, each input would be slow, without additional findings.
const STEPS_MAX: usize = 100;

pub fn check(bytes: &[u8], oracle: Oracle) {
    run(bytes, oracle);
}

/// What became of requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that are no request.
    pub malformed: u32,
    pub refused: u32,
    /// Some of them wait for their answers.
    pub carried_out: u32,
}

/// What became of the requests of an input, by the verbs of `src/core/kinds.txt` and the variants that
/// they have, such as `PutTask` and `Request::Call`. Without those whose bytes were changed; `""` has all.
#[must_use]
pub fn met(bytes: &[u8]) -> BTreeMap<String, Counts> {
    run(bytes, Oracle::Correct)
}

fn run(bytes: &[u8], oracle: Oracle) -> BTreeMap<String, Counts> {
    let mut source = Unstructured::new(bytes);
    let mut run = Run::new(oracle);
    for _ in 0..STEPS_MAX {
        if source.is_empty() || run.step(&mut source).is_err() {
            break;
        }
    }
    run.finish()
}
