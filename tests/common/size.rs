//! How much the tests do, which the variable `TUBEWELL_TESTS` says:
//!
//! * `quick`, the default: every test, with few seeds, rounds, cases and images. Each kind of event still
//!   occurs, which the tests that demand a coverage hold.
//! * `full`, for `.ci/run`: so many that a change that passes may be merged.
//! * `soak`: hours, with fresh seeds. A failure prints its seed.
//!
//! The numbers of a suite stand beside the suite, as [`amount`]. `TUBEWELL_SEED` repeats one seed.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::ops::Range;

pub const VARIABLE: &str = "TUBEWELL_TESTS";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Size {
    Quick,
    Full,
    Soak,
}

impl Size {
    /// The size with this name; `None` is the value of a variable that is not set.
    pub fn named(name: Option<&str>) -> Result<Size, String> {
        match name {
            None | Some("quick") => Ok(Size::Quick),
            Some("full") => Ok(Size::Full),
            Some("soak") => Ok(Size::Soak),
            Some(other) => Err(format!("{VARIABLE} is {other:?}, and not quick, full or soak")),
        }
    }

    /// The size of this run. Panics if the variable has another value.
    pub fn of_this_run() -> Size {
        let name = std::env::var_os(VARIABLE).map(|name| name.to_string_lossy().into_owned());
        Size::named(name.as_deref()).unwrap_or_else(|error| panic!("{error}"))
    }
}

/// The number for the size of this run.
pub fn amount<N>(quick: N, full: N, soak: N) -> N {
    match Size::of_this_run() {
        Size::Quick => quick,
        Size::Full => full,
        Size::Soak => soak,
    }
}

/// The seed that `TUBEWELL_SEED` repeats.
pub fn repeated_seed() -> Option<u64> {
    let seed = std::env::var("TUBEWELL_SEED").ok()?;
    Some(seed.parse().unwrap_or_else(|_| panic!("TUBEWELL_SEED is {seed:?}, and no number")))
}

/// The seed of a run, or the first one of many: the one to repeat, a fresh one in a long run, or else
/// this one.
pub fn first_seed(fixed: u64) -> u64 {
    repeated_seed().unwrap_or_else(|| match Size::of_this_run() {
        Size::Soak => RandomState::new().hash_one(fixed) >> 16,
        Size::Quick | Size::Full => fixed,
    })
}

/// So many seeds, from the [`first_seed`] on, or the one to repeat.
pub fn seeds(many: u64) -> Range<u64> {
    let first = first_seed(1);
    first..first + if repeated_seed().is_some() { 1 } else { many }
}
