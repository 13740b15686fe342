//! Aborts the process, and prints the images under way, when a check hangs or allocates too much
//! memory. The check itself cannot be stopped.

use std::collections::BTreeMap;
use std::process::abort;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

#[path = "../common/patience.rs"]
mod patience;
use patience::HANGS_AFTER;

use crate::MEMORY;

/// The most bytes that the process may have allocated.
const MAX_ALLOCATED: usize = 1 << 30;

type ThreadId = String;

/// The images under way, by thread.
static RUNNING: Mutex<BTreeMap<ThreadId, (Instant, String)>> = Mutex::new(BTreeMap::new());

pub struct Watchdog {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    pub fn new() -> Watchdog {
        set_panic_hook();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Relaxed) {
                abort_if_exceeded();
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        Watchdog { stop, thread: Some(thread) }
    }

    /// This thread begins to check an image.
    pub fn begin(image: String) {
        RUNNING.lock().unwrap().insert(thread_id(), (now(), image));
    }

    /// This thread has checked its image.
    pub fn end() {
        RUNNING.lock().unwrap().remove(&thread_id());
    }
}

fn thread_id() -> ThreadId {
    // As text, because ids are not ordered.
    format!("{:?}", std::thread::current().id())
}

/// Prints no panics of the engine, which are expected and caught. A panic during a panic aborts the
/// process; for that one the images under way are printed.
fn set_panic_hook() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let default = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let in_engine =
                info.location().is_some_and(|location| location.file().contains("redb-"));
            if info.to_string().contains("in a destructor during cleanup") {
                eprintln!("the engine aborts the process; under way: {:#?}", RUNNING.lock());
            }
            if !in_engine {
                default(info);
            }
        }));
    });
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().unwrap();
        }
    }
}

fn abort_if_exceeded() {
    let running = RUNNING.lock().unwrap();
    let late = running.values().any(|(began, _)| now() - *began > HANGS_AFTER);
    let allocated = MEMORY.allocated();
    if late || allocated > MAX_ALLOCATED {
        eprintln!("{allocated} bytes allocated; under way: {running:#?}");
        abort();
    }
}

#[expect(clippy::disallowed_methods, reason = "a hang is measured in real time")]
fn now() -> Instant {
    Instant::now()
}
