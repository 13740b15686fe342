//! Ends the process, with the name of the image, when a trial hangs or eats the memory: neither
//! can be stopped from within.

use std::process::abort;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::MEMORY;

/// No trial takes longer, on a slow machine neither.
const PATIENCE: Duration = Duration::from_secs(8);
/// All that the process may have allocated.
const MOST: usize = 1 << 30;

type Running = Arc<Mutex<Vec<Option<(Instant, String)>>>>;

pub struct Watchdog {
    running: Running,
    over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    pub fn over(threads: usize) -> Watchdog {
        let running: Running = Arc::new(Mutex::new(vec![None; threads]));
        let over = Arc::new(AtomicBool::new(false));
        let (watched, done) = (running.clone(), over.clone());
        let thread = std::thread::spawn(move || {
            while !done.load(Ordering::Relaxed) {
                look(&watched);
                std::thread::park_timeout(Duration::from_millis(20));
            }
        });
        Watchdog { running, over, thread: Some(thread) }
    }

    /// A thread begins with an image.
    pub fn begins(&self, thread: usize, image: String) {
        self.running.lock().unwrap()[thread] = Some((now(), image));
    }

    pub fn ends(&self, thread: usize) {
        self.running.lock().unwrap()[thread] = None;
    }
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

fn look(running: &Running) {
    let running = running.lock().unwrap();
    let late = running.iter().flatten().any(|(began, _)| now() - *began > PATIENCE);
    let allocated = MEMORY.allocated();
    if late || allocated > MOST {
        eprintln!("{allocated} bytes allocated; these images are under way: {running:#?}");
        abort();
    }
}

#[expect(clippy::disallowed_methods, reason = "a hang is a matter of real time")]
fn now() -> Instant {
    Instant::now()
}
