//! Code that is not ours and runs among ours: callbacks, wakers, storage of the user's own, and the
//! drop of what they own. What it panics with is its own affair: nobody else is to feel it.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Runs such code; if it panics, says why.
pub(crate) fn panic_to_error<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let thrown = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) => return Ok(answer),
        Err(thrown) => thrown,
    };
    let why = panic_message(thrown.as_ref()).to_owned();
    // What was thrown is theirs, too, and may throw again when it is dropped.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(thrown))) {
        std::mem::forget(again);
    }
    Err(why)
}

/// Runs such code, of which nothing is expected.
pub(crate) fn catch_panic(call: impl FnOnce()) {
    let _ = panic_to_error(call);
}

/// Wakes a task of somebody's executor.
pub(crate) fn wake(waker: Waker) {
    catch_panic(|| waker.wake());
}

/// The message of a panic.
pub(crate) fn panic_message(thrown: &(dyn Any + Send)) -> &str {
    let message = thrown.downcast_ref::<&str>().copied();
    let message = message.or_else(|| thrown.downcast_ref::<String>().map(String::as_str));
    message.unwrap_or("it did not say why")
}
