//! A disk of limited capacity. A page takes up space from its first write.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use tubewell::expert::Storage;

const PAGE: u64 = 4096;

#[derive(Debug)]
pub struct Disk(Mutex<State>);

#[derive(Clone, Debug)]
struct State {
    bytes: Vec<u8>,
    /// Pages that take up space.
    allocated: BTreeSet<u64>,
    /// In pages.
    ballast: u64,
    /// In pages.
    capacity: u64,
    space_requests: u64,
}

impl Disk {
    pub fn with_capacity(bytes: u64) -> Arc<Disk> {
        Arc::new(Disk(Mutex::new(State {
            bytes: Vec::new(),
            allocated: BTreeSet::new(),
            ballast: 0,
            capacity: bytes / PAGE,
            space_requests: 0,
        })))
    }

    /// What a kill of the process leaves on the disk.
    pub fn after_kill(&self) -> Arc<Disk> {
        let mut state = self.0.lock().unwrap().clone();
        state.ballast = 0;
        Arc::new(Disk(Mutex::new(state)))
    }

    pub fn storage(disk: &Arc<Disk>) -> Box<dyn Storage> {
        Box::new(DiskStorage(disk.clone()))
    }

    pub fn add_space(&self, bytes: u64) {
        self.0.lock().unwrap().capacity += bytes / PAGE;
    }

    /// Another process takes all free space and the ballast.
    pub fn take_free_space_and_ballast(&self) {
        let mut state = self.0.lock().unwrap();
        state.ballast = 0;
        state.capacity = state.allocated.len() as u64;
    }

    /// Another process takes all free space.
    pub fn take_free_space(&self) {
        let mut state = self.0.lock().unwrap();
        state.capacity -= state.free();
    }

    /// How often the store asked for the free space or for ballast.
    pub fn space_requests(&self) -> u64 {
        self.0.lock().unwrap().space_requests
    }
}

impl State {
    fn free(&self) -> u64 {
        self.capacity.saturating_sub(self.allocated.len() as u64 + self.ballast)
    }

    /// Allocates all pages of this range, or none if they do not fit.
    fn allocate(&mut self, from: u64, to: u64) -> bool {
        let pages = from / PAGE..to.div_ceil(PAGE);
        let new: Vec<u64> = pages.filter(|page| !self.allocated.contains(page)).collect();
        let fits = new.len() as u64 <= self.free();
        if fits {
            self.allocated.extend(new);
        }
        fits
    }
}

#[derive(Debug)]
struct DiskStorage(Arc<Disk>);

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Storage for DiskStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.0.lock().unwrap().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.0.lock().unwrap();
        let range = at(offset)..at(offset) + out.len();
        out.copy_from_slice(state.bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    /// A file that grows gets a hole at its end, which takes up no space.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        state.bytes.resize(at(len), 0);
        state.allocated.split_off(&len.div_ceil(PAGE));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        if !state.allocate(offset, offset + data.len() as u64) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.bytes[at(offset)..at(offset) + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn available(&self) -> io::Result<Option<u64>> {
        let mut state = self.0.0.lock().unwrap();
        state.space_requests += 1;
        Ok(Some(state.free() * PAGE))
    }

    fn hold_ballast(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        state.space_requests += 1;
        let pages = bytes.div_ceil(PAGE);
        if state.free() + state.ballast < pages {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.ballast = pages;
        Ok(())
    }
}
