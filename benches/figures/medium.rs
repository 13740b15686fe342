//! A file whose writes and flushes can be slowed down, and which records the end of the last flush.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use tubewell::expert::Storage;

/// Observes and slows down a [`SlowFile`].
#[derive(Debug)]
pub struct Monitor {
    start: Instant,
    flush_ended: AtomicU64,
    resizes: AtomicU64,
    /// The time to add to each flush, and to each write.
    slow_micros: [AtomicU64; 2],
}

/// What a [`Monitor`] slows down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Slow {
    Flushes,
    Writes,
}

impl Monitor {
    fn new() -> Arc<Monitor> {
        Arc::new(Monitor {
            start: Instant::now(),
            flush_ended: AtomicU64::new(0),
            resizes: AtomicU64::new(0),
            slow_micros: [AtomicU64::new(0), AtomicU64::new(0)],
        })
    }

    /// Microseconds since the file was created.
    pub fn now(&self) -> f64 {
        self.start.elapsed().as_secs_f64() * 1e6
    }

    /// The end of the last flush, on the clock of [`now`](Self::now).
    pub fn flush_ended(&self) -> f64 {
        self.flush_ended.load(Ordering::SeqCst) as f64 / 1e3
    }

    pub fn resizes(&self) -> u64 {
        self.resizes.load(Ordering::SeqCst)
    }

    /// Adds `by` to the time of each later flush or write.
    pub fn slow_down(&self, what: Slow, by: Duration) {
        let micros = u64::try_from(by.as_micros()).expect("a short time");
        self.slow_micros[what as usize].store(micros, Ordering::SeqCst);
    }

    fn wait(&self, what: Slow) {
        let micros = self.slow_micros[what as usize].load(Ordering::SeqCst);
        if micros > 0 {
            std::thread::sleep(Duration::from_micros(micros));
        }
    }
}

/// A file with slow writes or flushes. Reads and writes use separate handles and do not wait for each other.
#[derive(Debug)]
pub struct SlowFile {
    read: Mutex<File>,
    write: Mutex<File>,
    monitor: Arc<Monitor>,
}

impl SlowFile {
    pub fn create(path: &Path) -> io::Result<(SlowFile, Arc<Monitor>)> {
        let write = File::create(path)?;
        let read = File::open(path)?;
        let monitor = Monitor::new();
        let file = SlowFile { read: read.into(), write: write.into(), monitor: monitor.clone() };
        Ok((file, monitor))
    }

    fn writer(&self) -> std::sync::MutexGuard<'_, File> {
        self.write.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Storage for SlowFile {
    fn len(&self) -> io::Result<u64> {
        Ok(self.writer().metadata()?.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut file = self.read.lock().unwrap_or_else(PoisonError::into_inner);
        file.seek(SeekFrom::Start(offset))?;
        file.read_exact(out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.monitor.resizes.fetch_add(1, Ordering::SeqCst);
        self.writer().set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        let file = self.writer().try_clone()?;
        file.sync_data()?;
        self.monitor.wait(Slow::Flushes);
        let now = u64::try_from(self.monitor.start.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.monitor.flush_ended.store(now, Ordering::SeqCst);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut file = self.writer();
        file.seek(SeekFrom::Start(offset))?;
        file.write_all(data)?;
        self.monitor.wait(Slow::Writes);
        Ok(())
    }
}
