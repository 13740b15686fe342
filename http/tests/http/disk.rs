//! A disk in memory whose reads wait for the test, and that is full or fails when the test wants it.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tubewell::Store;
use tubewell::expert::Storage;

use super::patience::HANGS_AFTER;

/// A disk whose reads are counted, and wait once there have been so many of them.
#[derive(Debug)]
pub struct Disk {
    bytes: Mutex<Vec<u8>>,
    pub is_full: AtomicBool,
    /// Whether writes and flushes fail.
    pub fails: AtomicBool,
    reads: Mutex<Reads>,
    changed: Condvar,
}

#[derive(Debug)]
struct Reads {
    made: u64,
    most: u64,
    waiting: u64,
}

impl Disk {
    /// A store whose cache is smaller than what it has.
    pub fn store() -> (Store, Arc<Disk>) {
        let reads = Mutex::new(Reads { made: 0, most: u64::MAX, waiting: 0 });
        let (bytes, changed) = (Mutex::default(), Condvar::new());
        let (is_full, fails) = (AtomicBool::new(false), AtomicBool::new(false));
        let disk = Arc::new(Disk { bytes, is_full, fails, reads, changed });
        let options = Store::options().cache_size(64 << 10);
        let store = options.open_on(Box::new(Handle(disk.clone()))).unwrap();
        (store, disk)
    }

    pub fn reads(&self) -> u64 {
        self.reads.lock().unwrap().made
    }

    /// Lets as many further reads pass.
    pub fn allow(&self, further: u64) {
        let mut reads = self.reads.lock().unwrap();
        reads.most = reads.made.saturating_add(further);
        self.changed.notify_all();
    }

    /// Whether a read waits that needs more reads than were allowed.
    pub fn is_waiting(&self) -> bool {
        let reads = self.reads.lock().unwrap();
        reads.waiting > 0 && reads.made >= reads.most
    }

    /// Returns once a read waits.
    pub fn wait_until_waiting(&self) {
        let is_passing = |reads: &mut Reads| reads.waiting == 0;
        let reads = self.reads.lock().unwrap();
        let (reads, _) = self.changed.wait_timeout_while(reads, HANGS_AFTER, is_passing).unwrap();
        assert!(reads.waiting > 0, "no read waits");
    }

    fn pass(&self) {
        let mut reads = self.reads.lock().unwrap();
        if reads.made >= reads.most {
            reads.waiting += 1;
            self.changed.notify_all();
            reads = self.changed.wait_while(reads, |reads| reads.made >= reads.most).unwrap();
            reads.waiting -= 1;
        }
        reads.made += 1;
    }
}

#[derive(Debug)]
struct Handle(Arc<Disk>);

impl Handle {
    fn within<R>(&self, run: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        run(&mut self.0.bytes.lock().unwrap())
    }

    fn check(&self) -> io::Result<()> {
        if self.0.fails.load(Ordering::SeqCst) { Err(io::Error::other("broken")) } else { Ok(()) }
    }
}

fn range(offset: u64, length: usize) -> std::ops::Range<usize> {
    let offset = usize::try_from(offset).unwrap();
    offset..offset + length
}

impl Storage for Handle {
    fn len(&self) -> io::Result<u64> {
        Ok(self.within(|bytes| bytes.len() as u64))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.pass();
        self.within(|bytes| out.copy_from_slice(&bytes[range(offset, out.len())]));
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check()?;
        self.within(|bytes| bytes.resize(usize::try_from(len).unwrap(), 0));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        self.check()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.check()?;
        self.within(|bytes| bytes[range(offset, data.len())].copy_from_slice(data));
        Ok(())
    }

    fn available(&self) -> io::Result<Option<u64>> {
        Ok(Some(if self.0.is_full.load(Ordering::SeqCst) { 0 } else { 1 << 40 }))
    }
}
