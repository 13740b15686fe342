//! What the tests of single calls share: how a store is opened, and what is known of a call.

use std::sync::Arc;
use std::time::Duration;

use tubewell::{Error, ManualClock, Result, Store};

use crate::disk::Disk;
use crate::faults::Fault;

/// Longer than the store waits before it tries a failed disk again.
pub const RETRY_TIME: Duration = Duration::from_secs(30);
pub const NEVER: Duration = Duration::from_secs(1 << 30);

/// Faults, and whether each lasts.
pub const FAULTS: [(Fault, bool); 4] =
    [(Fault::Device, false), (Fault::Device, true), (Fault::Short, false), (Fault::Full, true)];

/// A store that keeps nothing that it has read.
pub fn open(disk: &Arc<Disk>, clock: &ManualClock) -> Store {
    Store::options().clock(clock).cache_size(0).open_on(disk.storage()).unwrap()
}

/// What is known of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Done,
    Unknown,
    /// Nothing has changed.
    Refused,
}

impl Outcome {
    /// Asserts that an error is one that a failing disk may cause.
    #[track_caller]
    pub fn of<T>(result: &Result<T>) -> Outcome {
        match result {
            Ok(_) => Outcome::Done,
            Err(Error::OutcomeUnknown { .. }) => Outcome::Unknown,
            Err(error) => {
                assert_is_storage_error(error);
                Outcome::Refused
            }
        }
    }
}

/// Asserts that the error is one that a failing disk may cause.
#[track_caller]
pub fn assert_is_storage_error(error: &Error) {
    let allowed = matches!(
        error,
        Error::OutcomeUnknown { .. }
            | Error::Unavailable { .. }
            | Error::Io { .. }
            | Error::Full { .. }
            | Error::Corrupt { .. }
    );
    assert!(allowed, "{error:?}");
}
