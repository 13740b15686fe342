//! A disk in memory on which the explorer switches threads, and on which calls fail or block.
//!
//! The engine calls the storage while it has locks of its own, which are not explored. So threads
//! are switched only at writes and flushes of the journal, which lies in front of the database.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use shuttle::sync::atomic::{AtomicU64, Ordering};
use shuttle::sync::{Condvar, Mutex as ExploredMutex};
use tubewell::{ManualClock, Storage, Store, StoreOptions};

use crate::support::{Flag, options};

/// Where the database begins.
const DATABASE: usize = 1 << 20;

#[derive(Debug, Default)]
pub struct Disk {
    state: Mutex<State>,
    pub journal_writes_fail: Flag,
    pub database_flushes_fail: Flag,
    pub is_broken: Flag,
    is_closed: Flag,
    flushes: Gate,
}

#[derive(Debug, Default)]
struct State {
    /// What reads return, and what a killed process leaves.
    bytes: Vec<u8>,
    /// What a power cut leaves that drops everything that was not flushed.
    stable: Vec<u8>,
    unflushed: Vec<Range<usize>>,
    /// The database was written or resized since the last flush, so that the next flush is its own.
    is_database_dirty: bool,
    journal_writes: u64,
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
    if bytes.len() != len {
        let mut resized = vec![0; len];
        let kept = len.min(bytes.len());
        resized[..kept].copy_from_slice(&bytes[..kept]);
        *bytes = resized;
    }
}

fn fail_if(fails: bool) -> io::Result<()> {
    if fails { Err(io::Error::other("the disk is broken")) } else { Ok(()) }
}

impl Disk {
    pub fn new() -> Arc<Disk> {
        Arc::new(Disk::default())
    }

    fn with_bytes(bytes: Vec<u8>) -> Arc<Disk> {
        let state = State { stable: bytes.clone(), bytes, ..State::default() };
        Arc::new(Disk { state: Mutex::new(state), ..Disk::default() })
    }

    /// The disk as a process leaves it that is killed now.
    pub fn after_kill(&self) -> Arc<Disk> {
        Disk::with_bytes(self.state.lock().unwrap().bytes.clone())
    }

    /// The disk as a power cut leaves it that happens now.
    pub fn after_power_cut(&self) -> Arc<Disk> {
        Disk::with_bytes(self.state.lock().unwrap().stable.clone())
    }

    pub fn size(&self) -> usize {
        self.state.lock().unwrap().bytes.len()
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

    fn open_with(self: &Arc<Disk>, options: StoreOptions) -> Store {
        options.open_on(Box::new(DiskStorage(Arc::clone(self)))).unwrap()
    }

    fn check(&self) -> io::Result<()> {
        assert!(!self.is_closed.is_up(), "the disk is used after its close");
        fail_if(self.is_broken.is_up())
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
        let (ranges, of_database) = {
            let mut state = self.0.state.lock().unwrap();
            let of_database = std::mem::take(&mut state.is_database_dirty);
            (std::mem::take(&mut state.unflushed), of_database)
        };
        // Writes during the flush are not covered by it.
        let saved: Vec<_> = {
            let state = self.0.state.lock().unwrap();
            let whole = |range: &Range<usize>| range.end <= state.bytes.len();
            let saved = ranges.into_iter().filter(whole);
            saved.map(|range| (range.start, state.bytes[range].to_vec())).collect()
        };
        if !of_database {
            self.0.flushes.pass();
        }
        self.0.check()?;
        fail_if(of_database && self.0.database_flushes_fail.is_up())?;
        let mut state = self.0.state.lock().unwrap();
        let len = state.bytes.len();
        resize(&mut state.stable, len);
        for (start, bytes) in saved {
            if let Some(place) = state.stable.get_mut(start..start + bytes.len()) {
                place.copy_from_slice(&bytes);
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let of_journal = at(offset) < DATABASE;
        if of_journal {
            switch_point();
        }
        self.0.check()?;
        fail_if(of_journal && self.0.journal_writes_fail.is_up())?;
        let range = at(offset)..at(offset) + data.len();
        let mut state = self.0.state.lock().unwrap();
        state.bytes[range.clone()].copy_from_slice(data);
        state.unflushed.push(range);
        state.is_database_dirty |= !of_journal;
        state.journal_writes += u64::from(of_journal);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.is_closed.raise();
        Ok(())
    }
}
