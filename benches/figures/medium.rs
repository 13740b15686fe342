//! A file whose flushes can be made slow, and which tells when the last one ended.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tubewell::Storage;

/// What is seen of a medium from outside, and how slow it is.
#[derive(Debug)]
pub struct Watch {
    start: Instant,
    flush_ended: AtomicU64,
    resizes: AtomicU64,
    slow_micros: AtomicU64,
}

impl Watch {
    fn new() -> Arc<Watch> {
        Arc::new(Watch {
            start: Instant::now(),
            flush_ended: AtomicU64::new(0),
            resizes: AtomicU64::new(0),
            slow_micros: AtomicU64::new(0),
        })
    }

    /// Microseconds since the medium was made.
    pub fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64() * 1e6
    }

    /// When the last flush ended, in these microseconds.
    pub fn flush_ended(&self) -> f64 {
        self.flush_ended.load(Ordering::SeqCst) as f64 / 1e3
    }

    pub fn resizes(&self) -> u64 {
        self.resizes.load(Ordering::SeqCst)
    }

    /// From now on each flush takes so much longer.
    pub fn slow_down(&self, by: Duration) {
        let micros = u64::try_from(by.as_micros()).expect("a short time");
        self.slow_micros.store(micros, Ordering::SeqCst);
    }
}

/// See the module. Reads and writes have a handle each, so that neither waits for the other.
#[derive(Debug)]
pub struct Slow {
    read: Mutex<File>,
    write: Mutex<File>,
    watch: Arc<Watch>,
}

impl Slow {
    pub fn create(path: &Path) -> io::Result<(Slow, Arc<Watch>)> {
        let write = File::create(path)?;
        let read = File::open(path)?;
        let watch = Watch::new();
        let slow = Slow { read: read.into(), write: write.into(), watch: watch.clone() };
        Ok((slow, watch))
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, File> {
        self.write.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for Slow {
    fn len(&self) -> io::Result<u64> {
        Ok(self.writer().metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut file = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.watch.resizes.fetch_add(1, Ordering::SeqCst);
        self.writer().set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        let file = self.writer().try_clone()?;
        file.sync_data()?;
        let slow = self.watch.slow_micros.load(Ordering::SeqCst);
        if slow > 0 {
            std::thread::sleep(Duration::from_micros(slow));
        }
        let now = u64::try_from(self.watch.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.watch.flush_ended.store(now, Ordering::SeqCst);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut file = self.writer();
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(data)
    }
}
