//! A disk in memory that keeps written and flushed bytes apart and whose calls fail as planned.
//!
//! After a failed flush, the bytes that it should have flushed are no longer dirty, although they
//! are not flushed. Some operating systems behave like this.

#![allow(dead_code, reason = "each test target uses a part of it")]

use std::io;
use std::ops::Range;

use super::faults::{Fault, Faults, Kind};

#[derive(Debug, Default)]
pub struct FaultyDisk {
    /// What reads return.
    bytes: Vec<u8>,
    /// What a power cut would leave.
    stable: Vec<u8>,
    dirty: Vec<Range<usize>>,
    pub faults: Faults,
}

impl FaultyDisk {
    /// A disk with all written bytes.
    pub fn written(&self) -> FaultyDisk {
        let bytes = self.bytes.clone();
        FaultyDisk { stable: bytes.clone(), bytes, ..FaultyDisk::default() }
    }

    /// A disk with the flushed bytes only.
    pub fn flushed(&self) -> FaultyDisk {
        let bytes = self.stable.clone();
        FaultyDisk { stable: bytes.clone(), bytes, ..FaultyDisk::default() }
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
        Ok(())
    }

    pub fn sync(&mut self) -> io::Result<()> {
        let dirty = std::mem::take(&mut self.dirty);
        self.check(Kind::Sync)?;
        self.stable.resize(self.bytes.len(), 0);
        for range in dirty {
            let end = range.end.min(self.bytes.len());
            if range.start < end {
                self.stable[range.start..end].copy_from_slice(&self.bytes[range.start..end]);
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

    /// Drops the cache: reads return flushed bytes from now on.
    pub fn drop_cache(&mut self) {
        self.bytes.clone_from(&self.stable);
    }

    pub fn close(&mut self) -> io::Result<()> {
        self.check(Kind::Close)
    }

    fn check(&mut self, kind: Kind) -> io::Result<()> {
        self.faults.count_call(kind).map_or(Ok(()), |fault| Err(fault.error()))
    }
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}
