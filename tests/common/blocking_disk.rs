//! A disk in memory whose writes and flushes can be blocked, and whose flushes can fail.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tubewell::{Storage, Store, StoreOptions};

use crate::executor::wait_until;

/// A disk in memory. Its writes and its flushes can be blocked, and its flushes can be made to
/// fail. A blocked write or flush blocks no read.
#[derive(Debug, Default)]
pub struct Disk {
    bytes: Mutex<Vec<u8>>,
    writes: Gate,
    flushes: Gate,
    fails: AtomicBool,
    pub is_closed: AtomicBool,
}

/// Calls of one kind, which can be blocked.
#[derive(Debug, Default)]
struct Gate {
    is_blocked: Mutex<bool>,
    unblocked: Condvar,
    begun: AtomicU64,
}

impl Gate {
    fn block(&self) {
        *self.is_blocked.lock().unwrap() = true;
    }

    fn unblock(&self) {
        *self.is_blocked.lock().unwrap() = false;
        self.unblocked.notify_all();
    }

    fn pass(&self) {
        let blocked = self.is_blocked.lock().unwrap();
        self.begun.fetch_add(1, Ordering::SeqCst);
        drop(self.unblocked.wait_while(blocked, |blocked| *blocked).unwrap());
    }

    /// Blocks the gate and makes a call. Returns when the next call at the gate has begun.
    fn block_during<T>(&self, call: impl FnOnce() -> T) -> T {
        self.block();
        let before = self.begun.load(Ordering::SeqCst);
        let result = call();
        wait_until(|| self.begun.load(Ordering::SeqCst) > before);
        result
    }
}

#[derive(Debug)]
struct DiskStorage(Arc<Disk>);

impl Disk {
    pub fn block_flushes(&self) {
        self.flushes.block();
    }

    pub fn unblock_flushes(&self) {
        self.flushes.unblock();
    }

    pub fn unblock_writes(&self) {
        self.writes.unblock();
    }

    pub fn fail_flushes(&self, fails: bool) {
        self.fails.store(fails, Ordering::SeqCst);
    }

    /// Makes a call whose flush is blocked. Returns when that flush has begun.
    pub fn block_flush_of<T>(&self, call: impl FnOnce() -> T) -> T {
        self.flushes.block_during(call)
    }

    /// Makes a call whose write is blocked. Returns when that write has begun.
    pub fn block_write_of<T>(&self, call: impl FnOnce() -> T) -> T {
        self.writes.block_during(call)
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
        self.0.flushes.pass();
        if self.0.fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("the flush fails"));
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.writes.pass();
        let at = position(offset);
        self.0.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.is_closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}
