//! A disk in memory whose flushes can be blocked or fail.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tubewell::{Storage, Store, StoreOptions};

use crate::executor::wait_until;

/// A disk in memory. Its flushes can be blocked, and can be made to fail.
#[derive(Debug, Default)]
pub struct Disk {
    bytes: Mutex<Vec<u8>>,
    is_blocked: Mutex<bool>,
    unblocked: Condvar,
    flushes: AtomicU64,
    fails: AtomicBool,
    pub is_closed: AtomicBool,
}

#[derive(Debug)]
struct DiskStorage(Arc<Disk>);

impl Disk {
    pub fn block_flushes(&self) {
        *self.is_blocked.lock().unwrap() = true;
    }

    pub fn unblock_flushes(&self) {
        *self.is_blocked.lock().unwrap() = false;
        self.unblocked.notify_all();
    }

    pub fn fail_flushes(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Makes a call whose flush is blocked. Returns when that flush has begun.
    pub fn block_flush_of<T>(&self, call: impl FnOnce() -> T) -> T {
        self.block_flushes();
        let before = self.flushes.load(Ordering::SeqCst);
        let result = call();
        wait_until(|| self.flushes.load(Ordering::SeqCst) > before);
        result
    }

    pub fn open(self: &Arc<Disk>, options: StoreOptions) -> Store {
        options.open_on(Box::new(DiskStorage(Arc::clone(self)))).unwrap()
    }
}

fn position(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Storage for DiskStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.bytes.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let (bytes, at) = (self.0.bytes.lock().unwrap(), position(offset));
        let found = bytes.get(at..at + out.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        out.copy_from_slice(found);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.bytes.lock().unwrap().resize(position(len), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let blocked = self.0.is_blocked.lock().unwrap();
        self.0.flushes.fetch_add(1, Ordering::SeqCst);
        drop(self.0.unblocked.wait_while(blocked, |blocked| *blocked).unwrap());
        if self.0.fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the flush fails"));
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let at = position(offset);
        self.0.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.is_closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}
