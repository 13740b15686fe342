//! The time of workers that are futures, which have no other source of it: a thread that waits.

use std::sync::Arc;
use std::time::Duration;

use crate::base::park::block_on_for;
use crate::base::signal::{Signal, raised};
use crate::base::sync::thread;

/// Calls `call` after a time, or when `early` is raised before. It is called at once if no thread can be started.
pub(super) fn call_after(
    name: &str,
    time: Duration,
    early: &Arc<Signal>,
    call: impl Fn() + Clone + Send + 'static,
) {
    if time.is_zero() {
        return call();
    }
    let (early, later) = (early.clone(), call.clone());
    let wait = move || {
        let _ = block_on_for(raised(&early), time);
        later();
    };
    if thread::Builder::new().name(name.into()).spawn(wait).is_err() {
        call();
    }
}
