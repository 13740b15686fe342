//! The stores of a suite. The suites open no store themselves, so that they run on other kinds of
//! stores too: `tests/behaviour/stores.rs` has the same functions, whose stores may be connections.

#![allow(dead_code, reason = "each suite uses a part of it")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

use std::path::Path;

use tubewell::{Error, Store, StoreOptions};

pub use tubewell::ManualClock;

/// Whether the stores of this run are connections.
pub fn are_connections() -> bool {
    false
}

/// A store in memory.
pub fn in_memory() -> Store {
    in_memory_with(Store::options())
}

pub fn in_memory_with(options: StoreOptions) -> Store {
    serve(options.open_in_memory().unwrap())
}

/// The store in this file.
pub fn open(path: impl AsRef<Path>) -> Store {
    open_with(path, Store::options())
}

pub fn open_with(path: impl AsRef<Path>, options: StoreOptions) -> Store {
    serve(options.open(path).unwrap())
}

/// What a suite uses in place of a store that it has opened itself.
pub fn serve(store: Store) -> Store {
    store
}

/// The store itself, for what only the process that has opened it can do.
pub fn owner(store: &Store) -> Store {
    store.clone()
}

/// Returns when the calls that nothing has waited for have been made, as those of dropped handles.
pub fn settle(_: &Store) {}

/// Returns when the waits that have ended have their answers, and those that were given up have ended.
pub fn settle_waits(_: &Store) {}

/// Whether a wait has ended because the store was closed.
pub fn is_closed(error: &Error) -> bool {
    *error == Error::Closed
}

/// Closes the store. Its file can be opened again.
pub fn close(store: &Store) {
    store.close().unwrap();
}

/// Closes the store; there is no connection that the result could keep.
#[must_use]
pub fn begin_close(store: &Store) -> Closing {
    close(store);
    Closing
}

pub struct Closing;
