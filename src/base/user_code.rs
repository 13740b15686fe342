//! Calls into user code: callbacks, wakers, custom storage, and the drop of what they own.
//!
//! A panic in user code does not unwind into the store: it is caught here.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::Waker;

/// Runs user code. If it panics, returns the message of the panic.
pub(crate) fn panic_to_error<T>(call: impl FnOnce() -> T) -> Result<T, String> {
    let thrown = match catch_unwind(AssertUnwindSafe(call)) {
        Ok(answer) => return Ok(answer),
        Err(thrown) => thrown,
    };
    let why = panic_message(thrown.as_ref()).to_owned();
    // The payload of the panic is user code too: its drop may panic again.
    if let Err(again) = catch_unwind(AssertUnwindSafe(|| drop(thrown))) {
        std::mem::forget(again);
    }
    Err(why)
}

/// Runs user code whose result is not needed; ignores a panic.
pub(crate) fn catch_panic(call: impl FnOnce()) {
    let _ = panic_to_error(call);
}

/// Wakes a task of the user's executor.
pub(crate) fn wake(waker: Waker) {
    catch_panic(|| waker.wake());
}

/// The message of a panic.
pub(crate) fn panic_message(thrown: &(dyn Any + Send)) -> &str {
    let message = thrown.downcast_ref::<&str>().copied();
    let message = message.or_else(|| thrown.downcast_ref::<String>().map(String::as_str));
    message.unwrap_or("a panic without a message")
}
