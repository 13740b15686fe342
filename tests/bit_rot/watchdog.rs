//! Ends the process, with the name of the image, when a trial hangs or eats the memory: neither
//! can be stopped from within.

use std::collections::BTreeMap;
use std::process::abort;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::MEMORY;

/// No trial takes longer, on a slow machine neither.
const PATIENCE: Duration = Duration::from_secs(30);
/// All that the process may have allocated.
const MOST: usize = 1 << 30;

type ThreadId = String;

/// The images under way, by thread.
static RUNNING: Mutex<BTreeMap<ThreadId, (Instant, String)>> = Mutex::new(BTreeMap::new());

pub struct Watchdog {
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    pub fn new() -> Watchdog {
        tell_of_aborts();
        let over = Arc::new(AtomicBool::new(false));
        let done = over.clone();
        let thread = std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                look();
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        Watchdog { over, thread: Some(thread) }
    }

    /// This thread begins with an image.
    pub fn begins(image: String) {
        RUNNING.lock().unwrap().insert(thread_id(), (now(), image));
    }

    pub fn ends() {
        RUNNING.lock().unwrap().remove(&thread_id());
    }
}

fn thread_id() -> ThreadId {
    // By its text: ids themselves have no order.
    format!("{:?}", std::thread::current().id())
}

/// The engine's panics are expected, and caught; one that meets another ends the process.
fn tell_of_aborts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let usual = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            let in_engine = info.location().is_some_and(|place| place.file().contains("redb-"));
            if info.to_string().contains("in a destructor during cleanup") {
                eprintln!("the engine aborts; under way: {:#?}", RUNNING.lock());
            }
            if !in_engine {
                usual(info);
            }
        }));
    });
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            thread.join().unwrap();
        }
    }
}

fn look() {
    let running = RUNNING.lock().unwrap();
    let late = running.values().any(|(began, _)| now() - *began > PATIENCE);
    let allocated = MEMORY.allocated();
    if late || allocated > MOST {
        eprintln!("{allocated} bytes allocated; under way: {running:#?}");
        abort();
    }
}

#[expect(clippy::disallowed_methods, reason = "a hang is a matter of real time")]
fn now() -> Instant {
    Instant::now()
}
