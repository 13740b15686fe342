//! A disk in memory whose writes and flushes can be blocked, and whose flushes can fail.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex};

use tubewell::expert::Storage;
use tubewell::{Store, StoreOptions};

use super::executor::wait_until;

/// The offset of the database, behind the journal.
const DATABASE_START: u64 = 1 << 20;

/// A disk in memory. Its writes and its flushes can be blocked, and its flushes can be made to
/// fail. A blocked write or flush blocks no read.
#[derive(Debug, Default)]
pub struct Disk {
    bytes: Mutex<Vec<u8>>,
    writes: Gate,
    database_writes: Gate,
    flushes: Gate,
    fails: AtomicBool,
    pub is_closed: AtomicBool,
}

/// Calls of one kind, which can be blocked.
#[derive(Debug, Default)]
struct Gate {
    state: Mutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_blocked: bool,
    /// How many calls may pass although the gate is blocked.
    permits: u64,
    begun: u64,
    waiting: u64,
}

impl Gate {
    fn change(&self, change: impl FnOnce(&mut GateState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn block(&self) {
        self.change(|state| state.is_blocked = true);
    }

    fn unblock(&self) {
        self.change(|state| state.is_blocked = false);
    }

    /// Returns when a call is blocked.
    fn wait_until_blocking(&self) {
        self.wait_for(|state| state.is_blocked && state.waiting > 0);
    }

    fn pass(&self) {
        let mut state = self.state.lock().unwrap();
        state.begun += 1;
        state.waiting += 1;
        let must_wait = |state: &mut GateState| state.is_blocked && state.permits == 0;
        state = self.changed.wait_while(state, must_wait).unwrap();
        state.permits = state.permits.saturating_sub(1);
        state.waiting -= 1;
    }

    fn wait_for(&self, condition: impl Fn(&GateState) -> bool) {
        wait_until(|| condition(&self.state.lock().unwrap()));
    }

    /// Blocks the gate and makes a call. Returns when the next call at the gate has begun.
    fn block_during<T>(&self, call: impl FnOnce() -> T) -> T {
        self.block();
        let before = self.state.lock().unwrap().begun;
        let result = call();
        self.wait_for(|state| state.begun > before);
        result
    }

    /// Lets one call pass that is blocked or will be. Returns when it has passed.
    fn let_one_pass(&self) {
        self.change(|state| state.permits = 1);
        self.wait_for(|state| state.permits == 0);
    }

    /// Blocks the gate and lets one call pass. Returns when another call is blocked.
    fn step(&self) {
        self.change(|state| (state.is_blocked, state.permits) = (true, 1));
        self.wait_for(|state| state.permits == 0 && state.waiting > 0);
    }
}

#[derive(Debug)]
struct DiskStorage(Arc<Disk>);

impl Disk {
    pub fn block_flushes(&self) {
        self.flushes.block();
    }

    /// Lets one flush pass while flushes are blocked.
    pub fn let_one_flush_pass(&self) {
        self.flushes.let_one_pass();
    }

    pub fn unblock_flushes(&self) {
        self.flushes.unblock();
    }

    pub fn unblock_writes(&self) {
        self.writes.unblock();
    }

    /// Blocks the writes behind the journal. Those of the journal go on.
    pub fn block_database_writes(&self) {
        self.database_writes.block();
    }

    /// Returns when a write of the database is blocked.
    pub fn wait_for_database_write(&self) {
        self.database_writes.wait_until_blocking();
    }

    pub fn unblock_database_writes(&self) {
        self.database_writes.unblock();
    }

    /// The memory that the bytes of the disk take.
    pub fn allocated(&self) -> usize {
        self.bytes.lock().unwrap().capacity()
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

    /// Lets one write pass, and returns when another one is blocked.
    pub fn step_write(&self) {
        self.writes.step();
    }

    /// Lets one flush pass, and returns when another one is blocked.
    pub fn step_flush(&self) {
        self.flushes.step();
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
        if offset >= DATABASE_START {
            self.0.database_writes.pass();
        }
        let at = position(offset);
        self.0.bytes.lock().unwrap()[at..at + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.is_closed.store(true, Ordering::SeqCst);
        Ok(())
    }
}
