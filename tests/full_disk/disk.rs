//! A disk with so much room, in pages, given at the first write.

use std::collections::BTreeSet;
use std::io;
use std::sync::{Arc, Mutex};

use tubewell::Storage;

const PAGE: u64 = 4096;

#[derive(Debug)]
pub struct Disk(Mutex<State>);

#[derive(Debug)]
struct State {
    bytes: Vec<u8>,
    /// Pages that have been given room.
    given: BTreeSet<u64>,
    ballast: u64,
    room: u64,
    asked: u64,
}

impl Disk {
    pub fn with_room(bytes: u64) -> Arc<Disk> {
        Arc::new(Disk(Mutex::new(State {
            bytes: Vec::new(),
            given: BTreeSet::new(),
            ballast: 0,
            room: bytes / PAGE,
            asked: 0,
        })))
    }

    pub fn plug(disk: &Arc<Disk>) -> Box<dyn Storage> {
        Box::new(Plug(disk.clone()))
    }

    pub fn give(&self, bytes: u64) {
        self.0.lock().unwrap().room += bytes / PAGE;
    }

    /// Somebody else takes all the room that is left, and the ballast with it.
    pub fn take_away(&self) {
        let mut state = self.0.lock().unwrap();
        state.ballast = 0;
        state.room = state.given.len() as u64;
    }

    /// Somebody else takes all the room that is free.
    pub fn take_what_is_free(&self) {
        let mut state = self.0.lock().unwrap();
        state.room -= state.free();
    }

    /// How often room was asked for.
    pub fn asked(&self) -> u64 {
        self.0.lock().unwrap().asked
    }
}

impl State {
    fn free(&self) -> u64 {
        self.room.saturating_sub(self.given.len() as u64 + self.ballast)
    }

    /// Gives room to these bytes, or to none of them.
    fn occupy(&mut self, from: u64, to: u64) -> bool {
        let pages = from / PAGE..to.div_ceil(PAGE);
        let new: Vec<u64> = pages.filter(|page| !self.given.contains(page)).collect();
        let fits = new.len() as u64 <= self.free();
        if fits {
            self.given.extend(new);
        }
        fits
    }
}

#[derive(Debug)]
struct Plug(Arc<Disk>);

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Storage for Plug {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.0.lock().unwrap().bytes.len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let state = self.0.0.lock().unwrap();
        let range = at(offset)..at(offset) + out.len();
        out.copy_from_slice(state.bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    /// A longer file has a hole at its end: that needs no room.
    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        state.bytes.resize(at(len), 0);
        state.given.split_off(&len.div_ceil(PAGE));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        if !state.occupy(offset, offset + data.len() as u64) {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.bytes[at(offset)..at(offset) + data.len()].copy_from_slice(data);
        Ok(())
    }

    fn available(&self) -> io::Result<Option<u64>> {
        let mut state = self.0.0.lock().unwrap();
        state.asked += 1;
        Ok(Some(state.free() * PAGE))
    }

    fn hold_ballast(&self, bytes: u64) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        state.asked += 1;
        let pages = bytes.div_ceil(PAGE);
        if state.free() + state.ballast < pages {
            return Err(io::ErrorKind::StorageFull.into());
        }
        state.ballast = pages;
        Ok(())
    }
}
