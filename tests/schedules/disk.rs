//! A disk in memory on which the explorer switches threads, and on which calls fail or block.
//!
//! The engine calls the storage while it has locks of its own, which are not explored. So threads
//! are switched only at writes and flushes of the journal, which lies in front of the database.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::sync::{Condvar, Mutex as ExploredMutex};
use tubewell::expert::Storage;
use tubewell::{ManualClock, Store, StoreOptions};

use crate::support::{Flag, options};

/// Where the database begins.
const DATABASE: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Disk {
    state: Mutex<State>,
    pub journal_writes_fail: Flag,
    pub database_flushes_fail: Flag,
    /// The next flush of the database fails.
    pub next_database_flush_fails: Flag,
    pub is_broken: Flag,
    is_closed: Flag,
    used_after_close: Flag,
    flushes: Gate,
}

#[derive(Debug, Default)]
struct State {
    /// What reads return, and what a killed process leaves.
    bytes: Vec<u8>,
    /// What a power cut leaves that drops everything that was not flushed, if that is recorded.
    stable: Option<Vec<u8>>,
    unflushed: Vec<Range<usize>>,
    /// The database was written or resized since the last flush, so that the next flush is its own.
    is_database_dirty: bool,
    journal_writes: u64,
    /// A write of the journal and a flush of the database have failed.
    has_failed: (bool, bool),
}

/// Flushes of the journal, which can be blocked.
#[derive(Debug, Default)]
struct Gate {
    state: ExploredMutex<GateState>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct GateState {
    is_blocked: bool,
    waiting: u64,
}

impl Gate {
    fn change(&self, change: impl FnOnce(&mut GateState)) {
        change(&mut self.state.lock().unwrap());
        self.changed.notify_all();
    }

    fn pass(&self) {
        self.change(|state| state.waiting += 1);
        let state = self.state.lock().unwrap();
        let mut state = self.changed.wait_while(state, |state| state.is_blocked).unwrap();
        state.waiting -= 1;
    }

    fn wait_until_blocked(&self) {
        let state = self.state.lock().unwrap();
        drop(self.changed.wait_while(state, |state| state.waiting == 0).unwrap());
    }
}

#[derive(Debug)]
struct DiskStorage(Arc<Disk>);

fn switch_point() {
    AtomicU64::new(0).load(Ordering::SeqCst);
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

/// As `Vec::resize` with zeros, which is slow without optimization.
fn resize(bytes: &mut Vec<u8>, len: usize) {
    static ZEROS: [u8; 1 << 16] = [0; 1 << 16];
    bytes.truncate(len);
    while bytes.len() < len {
        bytes.extend_from_slice(&ZEROS[..ZEROS.len().min(len - bytes.len())]);
    }
}

impl State {
    /// Whether the flush is one of the database, and the bytes that it covers, with their places.
    fn begin_flush(&mut self) -> (bool, Vec<(usize, Vec<u8>)>) {
        let ranges = std::mem::take(&mut self.unflushed).into_iter();
        let covered =
            ranges.filter_map(|range| Some((range.start, self.bytes.get(range)?.to_vec())));
        (std::mem::take(&mut self.is_database_dirty), covered.collect())
    }

    fn end_flush(&mut self, covered: Vec<(usize, Vec<u8>)>) {
        let Some(stable) = &mut self.stable else { return };
        resize(stable, self.bytes.len());
        for (start, bytes) in covered {
            if let Some(place) = stable.get_mut(start..start + bytes.len()) {
                place.copy_from_slice(&bytes);
            }
        }
    }
}

fn fail_if(fails: bool) -> io::Result<()> {
    if fails { Err(io::Error::other("the disk is broken")) } else { Ok(()) }
}

impl Disk {
    pub fn new() -> Arc<Disk> {
        Arc::new(Disk::default())
    }

    /// A disk that records what is flushed.
    pub fn with_power_cuts() -> Arc<Disk> {
        let disk = Disk::new();
        disk.state.lock().unwrap().stable = Some(Vec::new());
        disk
    }

    fn with_bytes(bytes: Vec<u8>) -> Arc<Disk> {
        let disk = Disk::new();
        *disk.state.lock().unwrap() = State { bytes, ..State::default() };
        disk
    }

    /// The disk as a process leaves it that is killed now.
    pub fn after_kill(&self) -> Arc<Disk> {
        Disk::with_bytes(self.state.lock().unwrap().bytes.clone())
    }

    /// The disk as a power cut leaves it that happens now.
    pub fn after_power_cut(&self) -> Arc<Disk> {
        let stable = self.state.lock().unwrap().stable.clone();
        Disk::with_bytes(stable.expect("the disk records what is flushed"))
    }

    pub fn size(&self) -> usize {
        self.state.lock().unwrap().bytes.len()
    }

    /// Whether a write of the journal and a flush of the database have failed.
    pub fn has_failed_at_both(&self) -> bool {
        self.state.lock().unwrap().has_failed == (true, true)
    }

    pub fn journal_writes(&self) -> u64 {
        self.state.lock().unwrap().journal_writes
    }

    /// Makes a call, and returns when a flush of the journal has begun. All of them are blocked.
    pub fn block_flush_of<T>(&self, call: impl FnOnce() -> T) -> T {
        self.flushes.change(|state| state.is_blocked = true);
        let result = call();
        self.flushes.wait_until_blocked();
        result
    }

    pub fn unblock_flushes(&self) {
        self.flushes.change(|state| state.is_blocked = false);
    }

    /// Opens a store with a sweeper and a checkpoint thread.
    pub fn open(self: &Arc<Disk>) -> Store {
        self.open_with(options())
    }

    /// Opens a store whose checkpoints run on the threads of its callers.
    pub fn open_with_manual_clock(self: &Arc<Disk>) -> Store {
        self.open_with(options().clock(ManualClock::new()))
    }

    pub fn open_with(self: &Arc<Disk>, options: StoreOptions) -> Store {
        self.is_closed.lower();
        options.open_on(Box::new(DiskStorage(Arc::clone(self)))).unwrap()
    }

    fn check(&self) -> io::Result<()> {
        if self.is_closed.is_up() {
            self.used_after_close.raise();
        }
        fail_if(self.is_broken.is_up())
    }
}

/// After a close the file may belong to another process.
impl Drop for Disk {
    fn drop(&mut self) {
        let used = self.used_after_close.is_up() && !std::thread::panicking();
        assert!(!used, "the disk was used after its close");
    }
}

impl Storage for DiskStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.state.lock().unwrap().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.check()?;
        let state = self.0.state.lock().unwrap();
        let found = state.bytes.get(at(offset)..at(offset) + out.len());
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.check()?;
        let mut state = self.0.state.lock().unwrap();
        resize(&mut state.bytes, at(len));
        state.is_database_dirty = true;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        // Writes during the flush are not covered by it.
        let (of_database, covered) = self.0.state.lock().unwrap().begin_flush();
        if !of_database {
            self.0.flushes.pass();
        }
        self.0.check()?;
        if of_database {
            let fails_once = self.0.next_database_flush_fails.is_up();
            self.0.next_database_flush_fails.lower();
            let fails = fails_once || self.0.database_flushes_fail.is_up();
            self.0.state.lock().unwrap().has_failed.1 |= fails;
            fail_if(fails)?;
        }
        self.0.state.lock().unwrap().end_flush(covered);
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let of_journal = at(offset) < DATABASE;
        if of_journal {
            switch_point();
        }
        self.0.check()?;
        let range = at(offset)..at(offset) + data.len();
        let fails = of_journal && self.0.journal_writes_fail.is_up();
        let mut state = self.0.state.lock().unwrap();
        state.has_failed.0 |= fails;
        fail_if(fails)?;
        state.bytes[range.clone()].copy_from_slice(data);
        if state.stable.is_some() {
            state.unflushed.push(range);
        }
        state.is_database_dirty |= !of_journal;
        state.journal_writes += u64::from(of_journal);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.is_closed.raise();
        Ok(())
    }
}
