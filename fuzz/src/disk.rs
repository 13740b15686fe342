//! A medium in memory, with cheap copies.

use std::collections::HashMap;
use std::io;
use std::sync::{Arc, Mutex};

use tubewell::expert::Storage;

pub const PAGE: usize = 4096;
/// The maximum length, so that a damaged length cannot make a store allocate all memory.
pub const LEN_MAX: u64 = 64 << 20;

type Page = [u8; PAGE];

/// Bytes. Copies share the pages that neither of them has written since.
#[derive(Clone, Debug, Default)]
pub struct Bytes {
    written: HashMap<usize, Arc<Page>>,
    len: usize,
}

impl Bytes {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn pages(&self) -> usize {
        self.len.div_ceil(PAGE)
    }

    /// Pages that were never written are zero.
    pub fn page(&self, at: usize) -> Page {
        self.written.get(&at).map_or([0; PAGE], |page| **page)
    }

    pub fn set_page(&mut self, at: usize, page: &Page) {
        self.written.insert(at, Arc::new(*page));
    }

    /// New bytes are zero.
    pub fn set_len(&mut self, len: usize) {
        if len < self.len {
            self.written.retain(|at, _| at * PAGE < len);
            if !len.is_multiple_of(PAGE) {
                let mut last = self.page(len / PAGE);
                last[len % PAGE..].fill(0);
                self.set_page(len / PAGE, &last);
            }
        }
        self.len = len;
    }

    pub fn read(&self, offset: usize, out: &mut [u8]) {
        each(offset, out.len(), |at, from, step, done| {
            let part = &mut out[done..done + step];
            match self.written.get(&at) {
                Some(page) => part.copy_from_slice(&page[from..from + step]),
                None => part.fill(0),
            }
        });
    }

    pub fn write(&mut self, offset: usize, data: &[u8]) {
        each(offset, data.len(), |at, from, step, done| {
            if !self.written.contains_key(&at) {
                self.set_page(at, &self.page(at));
            }
            let page = Arc::make_mut(self.written.get_mut(&at).unwrap());
            page[from..from + step].copy_from_slice(&data[done..done + step]);
        });
    }
}

/// Calls `part` for each page of a range, with the page, the offset and the length in the page, and
/// the number of bytes before it.
fn each(offset: usize, len: usize, mut part: impl FnMut(usize, usize, usize, usize)) {
    let mut done = 0;
    while done < len {
        let (at, from) = ((offset + done) / PAGE, (offset + done) % PAGE);
        let step = (PAGE - from).min(len - done);
        part(at, from, step, done);
        done += step;
    }
}

/// A medium that outlives the store that is opened on it.
#[derive(Debug, Default)]
pub struct Disk(Arc<Mutex<Bytes>>);

impl Disk {
    pub fn new(bytes: Bytes) -> Disk {
        Disk(Arc::new(Mutex::new(bytes)))
    }

    /// Another handle to the same disk.
    pub fn share(&self) -> Disk {
        Disk(Arc::clone(&self.0))
    }

    /// A separate disk with the same bytes.
    pub fn copy(&self) -> Disk {
        Disk::new(self.bytes())
    }

    pub fn bytes(&self) -> Bytes {
        self.0.lock().unwrap().clone()
    }
}

fn at(offset: u64) -> io::Result<usize> {
    usize::try_from(offset).map_err(|_| io::ErrorKind::UnexpectedEof.into())
}

fn range(bytes: &Bytes, offset: u64, len: usize) -> io::Result<usize> {
    let offset = at(offset)?;
    match offset.checked_add(len) {
        Some(end) if end <= bytes.len() => Ok(offset),
        _ => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

impl Storage for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock().unwrap();
        let offset = range(&bytes, offset, out.len())?;
        bytes.read(offset, out);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len > LEN_MAX {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.lock().unwrap().set_len(at(len)?);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap();
        let offset = range(&bytes, offset, data.len())?;
        bytes.write(offset, data);
        Ok(())
    }
}

/// The offset of the database in the file of a store, after the file header and the journal.
const DATABASE_OFFSET: u64 = 1 << 20;

/// Direct access of redb to the database in the file of a store.
impl redb::StorageBackend for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(Storage::len(self)?.saturating_sub(DATABASE_OFFSET))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Storage::read(self, DATABASE_OFFSET + offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Storage::set_len(self, DATABASE_OFFSET + len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Storage::sync(self)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Storage::write(self, DATABASE_OFFSET + offset, data)
    }
}
