//! Opening a store, and its recovery after a failure of the storage.

mod open;
mod outage;
#[cfg(feature = "redb")]
mod take_back;
