//! A disk in memory that keeps written and flushed bytes apart and whose calls fail as planned.
//!
//! After a failed flush, the bytes that it should have flushed are no longer dirty, although they
//! are not flushed. Some operating systems behave like this.
//!
//! A page whose first flush has failed behaves as on ext4: it reads well from the cache, and later
//! writes and flushes of it succeed, but they do not reach the disk until the page was dropped from
//! the cache.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::collections::BTreeSet;
use std::io;
use std::ops::Range;

use super::faults::{Fault, Faults, Kind};

const PAGE: usize = 4096;

#[derive(Debug, Default)]
pub struct FaultyDisk {
    /// What reads return.
    bytes: Vec<u8>,
    /// What a power cut would leave.
    stable: Vec<u8>,
    /// The smallest length since the last successful flush.
    shortest: usize,
    dirty: Vec<Range<usize>>,
    /// Pages that were flushed at least once.
    flushed_pages: BTreeSet<usize>,
    /// Pages whose first flush has failed: what is written to them does not reach the disk.
    detached_pages: BTreeSet<usize>,
    /// How many calls of `drop_cache` have no effect, as if another process used the pages.
    pub ineffective_drops: u32,
    pub faults: Faults,
}

impl FaultyDisk {
    /// A disk with all written bytes.
    pub fn written(&self) -> FaultyDisk {
        let mut flushed_pages = self.flushed_pages.clone();
        flushed_pages.extend(self.dirty.iter().flat_map(pages));
        flushed_pages.extend(&self.detached_pages);
        FaultyDisk::with(self.bytes.clone(), flushed_pages)
    }

    /// A disk with the flushed bytes only.
    pub fn flushed(&self) -> FaultyDisk {
        FaultyDisk::with(self.stable.clone(), self.flushed_pages.clone())
    }

    fn with(bytes: Vec<u8>, flushed_pages: BTreeSet<usize>) -> FaultyDisk {
        let (stable, shortest) = (bytes.clone(), bytes.len());
        FaultyDisk { bytes, stable, shortest, flushed_pages, ..FaultyDisk::default() }
    }

    /// Its length in bytes. Unlike [`FaultyDisk::len`], this never fails.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    pub fn len(&mut self) -> io::Result<u64> {
        self.check(Kind::Read)?;
        Ok(self.bytes.len() as u64)
    }

    pub fn read(&mut self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let fault = self.faults.count_call(Kind::Read);
        let range = at(offset)..at(offset) + out.len();
        let found = self.bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?;
        let Some(fault) = fault else {
            out.copy_from_slice(found);
            return Ok(());
        };
        if fault == Fault::Short {
            let half = out.len() / 2;
            out[..half].copy_from_slice(&found[..half]);
        }
        Err(fault.error())
    }

    pub fn set_len(&mut self, len: u64) -> io::Result<()> {
        self.check(Kind::SetLen)?;
        self.bytes.resize(at(len), 0);
        self.shortest = self.shortest.min(at(len));
        let first_lost = at(len).div_ceil(PAGE);
        self.flushed_pages.split_off(&first_lost);
        self.detached_pages.split_off(&first_lost);
        Ok(())
    }

    pub fn sync(&mut self) -> io::Result<()> {
        let dirty: BTreeSet<usize> = self.dirty.drain(..).flat_map(|range| pages(&range)).collect();
        if let Err(error) = self.check(Kind::Sync) {
            self.detached_pages.extend(dirty.difference(&self.flushed_pages));
            return Err(error);
        }
        self.stable.truncate(self.shortest);
        self.stable.resize(self.bytes.len(), 0);
        self.shortest = self.bytes.len();
        for page in dirty.difference(&self.detached_pages) {
            let range = page * PAGE..((page + 1) * PAGE).min(self.bytes.len());
            if !range.is_empty() {
                self.stable[range.clone()].copy_from_slice(&self.bytes[range]);
                self.flushed_pages.insert(*page);
            }
        }
        Ok(())
    }

    pub fn write(&mut self, offset: u64, data: &[u8]) -> io::Result<()> {
        let fault = self.faults.count_call(Kind::Write);
        let length = match fault {
            None => data.len(),
            Some(Fault::Short) => data.len() / 2,
            Some(fault) => return Err(fault.error()),
        };
        let range = at(offset)..at(offset) + length;
        let place = self.bytes.get_mut(range.clone()).ok_or(io::ErrorKind::UnexpectedEof)?;
        place.copy_from_slice(&data[..length]);
        self.dirty.push(range);
        fault.map_or(Ok(()), |_| Err(io::ErrorKind::WriteZero.into()))
    }

    /// Drops clean pages from the cache: reads of them return flushed bytes from now on.
    pub fn drop_cache(&mut self) {
        if self.ineffective_drops > 0 {
            self.ineffective_drops -= 1;
            return;
        }
        let dirty: BTreeSet<usize> = self.dirty.iter().flat_map(pages).collect();
        for page in (0..self.bytes.len().div_ceil(PAGE)).filter(|page| !dirty.contains(page)) {
            let range = page * PAGE..((page + 1) * PAGE).min(self.bytes.len());
            let found = self.stable.len().clamp(range.start, range.end);
            self.bytes[range.start..found].copy_from_slice(&self.stable[range.start..found]);
            self.bytes[found..range.end].fill(0);
            self.detached_pages.remove(&page);
        }
    }

    pub fn close(&mut self) -> io::Result<()> {
        self.check(Kind::Close)
    }

    fn check(&mut self, kind: Kind) -> io::Result<()> {
        self.faults.count_call(kind).map_or(Ok(()), |fault| Err(fault.error()))
    }
}

fn pages(range: &Range<usize>) -> Range<usize> {
    range.start / PAGE..range.end.div_ceil(PAGE)
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}
