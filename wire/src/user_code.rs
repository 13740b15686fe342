//! Calls into the application's code. A panic there must not end a thread of this crate.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// The application's code has panicked.
#[derive(Debug)]
pub(crate) struct Panicked;

/// Runs `code`, and reports a panic instead of passing it on.
pub(crate) fn catch_panic<T>(code: impl FnOnce() -> T) -> Result<T, Panicked> {
    catch_unwind(AssertUnwindSafe(code)).map_err(|payload| {
        // The payload is the application's too: its drop may panic as well.
        if let Err(second) = catch_unwind(AssertUnwindSafe(|| drop(payload))) {
            std::mem::forget(second);
        }
        Panicked
    })
}

/// Drops `value`, a value of the application, and reports whether that panicked.
pub(crate) fn drop_caught<T>(value: T) -> Result<(), Panicked> {
    catch_panic(|| drop(value))
}
