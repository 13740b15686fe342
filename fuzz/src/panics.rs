//! Tells panics of the engine from other panics. Damaged pages can make the engine panic; the store
//! reports that as damage, and the run continues. Any other panic ends the run, even if it was
//! caught.

use std::backtrace::Backtrace;
use std::cell::Cell;
use std::panic::{self, PanicHookInfo};
use std::sync::Mutex;
use std::sync::Once;

/// Panics outside the engine, on any thread.
static OTHER_PANICS: Mutex<Vec<String>> = Mutex::new(Vec::new());

thread_local! {
    static WATCHED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `call`, and panics if any code but the engine panicked meanwhile. Calls run one at a time.
pub fn allow_engine_panics<T>(call: impl FnOnce() -> T) -> T {
    static RUNNING: Mutex<()> = Mutex::new(());
    let running = RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    install();
    WATCHED.set(true);
    let done = panic::catch_unwind(panic::AssertUnwindSafe(call));
    WATCHED.set(false);
    let other = std::mem::take(&mut *OTHER_PANICS.lock().unwrap());
    drop(running);
    match done {
        Ok(done) if other.is_empty() => done,
        _ => panic!("a panic outside the engine: {other:#?}"),
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
            } else if !is_engine_panic(info) {
                OTHER_PANICS.lock().unwrap().push(info.to_string());
            }
        }));
    });
}

/// Whether the innermost function on the stack outside the standard library belongs to redb.
fn is_engine_panic(info: &PanicHookInfo<'_>) -> bool {
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
    // Skips the functions of this hook.
    ours.find(|(_, name)| !name.contains("panics")).is_some_and(|(krate, _)| krate == "redb::")
}
