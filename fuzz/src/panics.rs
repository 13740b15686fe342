//! Damaged pages make the engine panic, and the store reports that as damage: such panics must not
//! end the run. A panic of the store's own code must, wherever it is caught.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::panic::{self, PanicHookInfo};
use std::sync::Mutex;
use std::sync::Once;

/// What the store's own code panicked with, on whatever thread.
static OWN: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `call`, and panics if anything but the engine panicked meanwhile. One at a time.
pub fn watch<T>(call: impl FnOnce() -> T) -> T {
    static ONE: Mutex<()> = Mutex::new(());
    let one = ONE.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    install();
    WATCHED.set(true);
    let done = panic::catch_unwind(panic::AssertUnwindSafe(call));
    WATCHED.set(false);
    let own = std::mem::take(&mut *OWN.lock().unwrap());
    drop(one);
    match done {
        Ok(done) if own.is_empty() => done,
        _ => panic!("neither the store nor this target may panic: {own:#?}"),
    }
}

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            let store = std::thread::current().name().is_some_and(|n| n.starts_with("tubewell-"));
            if !(WATCHED.get() || store) {
                before(info);
            } else if !is_the_engines(info) {
                OWN.lock().unwrap().push(info.to_string());
            }
        }));
    });
}

/// Whether the first function on the stack that is not std's is redb's.
fn is_the_engines(info: &PanicHookInfo<'_>) -> bool {
    let at = info.location().map(|location| location.file().to_owned()).unwrap_or_default();
    if at.contains("/redb-") {
        return true;
    }
    if !at.contains("/rustc/") && !at.contains("library/") {
        return false;
    }
    let trace = Backtrace::force_capture().to_string();
    let mut ours = trace.lines().filter_map(|line| {
        let name = line.trim_start().split_once(": ")?.1;
        let name = name.trim_start_matches('<');
        ["redb::", "tubewell", "bincode::"]
            .into_iter()
            .find(|krate| name.starts_with(krate))
            .map(|krate| (krate, name.to_owned()))
    });
    // The hook itself is on the stack too.
    ours.find(|(_, name)| !name.contains("panics")).is_some_and(|(krate, _)| krate == "redb::")
}
