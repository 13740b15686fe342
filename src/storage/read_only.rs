//! A file that is read and never written: the engine's writes stay in memory.
//!
//! Invariant: salvaging a damaged file does not change it. The engine repairs what it opens.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io;
use std::ops::Bound;
use std::sync::Arc;

use redb::StorageBackend;
use redb::backends::FileBackend;

use crate::base::sync::InnerMutex;

const PAGE: u64 = 4096;

/// The file as the engine sees it. Pages that the disk cannot read are returned as zeros, which the
/// engine treats as a damaged page; after an error it would accept no further call.
#[derive(Debug)]
pub(super) struct ReadOnly {
    file: FileBackend,
    memory: InnerMutex<MemoryWrites>,
    unreadable: UnreadablePages,
}

/// The pages that were requested and that the disk cannot read.
#[derive(Clone, Debug, Default)]
pub(super) struct UnreadablePages(Arc<InnerMutex<BTreeSet<u64>>>);

impl UnreadablePages {
    pub(super) fn count(&self) -> usize {
        self.0.lock().len()
    }
}

#[derive(Debug)]
struct MemoryWrites {
    len: u64,
    /// The part of the file that is still visible: bytes that were cut off do not return.
    file_len: u64,
    pages: BTreeMap<u64, Box<[u8]>>,
}

impl ReadOnly {
    pub(super) fn new(file: File) -> Result<ReadOnly, redb::Error> {
        let file = FileBackend::new(file)?;
        // The file must not change while it is read. A file that cannot be locked is read anyway.
        if let Ok(false) = file.try_lock_shared_range(Bound::Unbounded, Bound::Unbounded) {
            return Err(redb::Error::DatabaseAlreadyOpen);
        }
        let len = file.len()?;
        let memory = InnerMutex::new(MemoryWrites { len, file_len: len, pages: BTreeMap::new() });
        Ok(ReadOnly { file, memory, unreadable: UnreadablePages::default() })
    }

    pub(super) fn unreadable(&self) -> UnreadablePages {
        self.unreadable.clone()
    }

    fn page_of_file(&self, number: u64, file_len: u64) -> Box<[u8]> {
        let mut page = vec![0; usize::try_from(PAGE).unwrap_or(0)];
        let start = number * PAGE;
        let len = usize::try_from(file_len.saturating_sub(start).min(PAGE)).unwrap_or(0);
        if self.file.read(start, &mut page[..len]).is_err() {
            page.fill(0);
            self.unreadable.0.lock().insert(number);
        }
        page.into()
    }
}

impl StorageBackend for ReadOnly {
    fn len(&self) -> io::Result<u64> {
        Ok(self.memory.lock().len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let memory = self.memory.lock();
        if offset + out.len() as u64 > memory.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let mut done = 0;
        while done < out.len() {
            let at = offset + done as u64;
            let from = usize::try_from(at % PAGE).unwrap_or(0);
            let part = &mut out[done..];
            let read = |page: &[u8], part: &mut [u8]| {
                let length = part.len().min(page.len() - from);
                part[..length].copy_from_slice(&page[from..from + length]);
                length
            };
            done += match memory.pages.get(&(at / PAGE)) {
                Some(page) => read(page, part),
                None => read(&self.page_of_file(at / PAGE, memory.file_len), part),
            };
        }
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut memory = self.memory.lock();
        memory.len = len;
        memory.file_len = memory.file_len.min(len);
        memory.pages.retain(|number, _| number * PAGE < len);
        // Bytes that were cut off are zero when the file grows again.
        if let Some(last) = memory.pages.get_mut(&(len / PAGE)) {
            last[usize::try_from(len % PAGE).unwrap_or(0)..].fill(0);
        }
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut memory = self.memory.lock();
        let file_len = memory.file_len;
        let mut done = 0;
        while done < data.len() {
            let at = offset + done as u64;
            let from = usize::try_from(at % PAGE).unwrap_or(0);
            let page = memory
                .pages
                .entry(at / PAGE)
                .or_insert_with(|| self.page_of_file(at / PAGE, file_len));
            let length = (data.len() - done).min(page.len() - from);
            page[from..from + length].copy_from_slice(&data[done..done + length]);
            done += length;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn writes_are_read_back_and_the_file_does_not_change() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let before: Vec<u8> = (0..10_000_u32).map(|n| n.to_be_bytes()[3]).collect();
        std::fs::write(&path, &before).unwrap();
        let file = File::options().read(true).write(true).open(&path).unwrap();
        let read_only = ReadOnly::new(file).unwrap();
        read_only.write(4090, b"over the edge").unwrap();
        read_only.set_len(20_000).unwrap();
        let mut bytes = vec![0; 20_000];
        read_only.read(0, &mut bytes).unwrap();
        let mut expected = before.clone();
        expected[4090..4103].copy_from_slice(b"over the edge");
        expected.resize(20_000, 0);
        assert_eq!(bytes, expected);
        read_only.set_len(10).unwrap();
        read_only.set_len(100).unwrap();
        read_only.read(0, &mut bytes[..100]).unwrap();
        assert_eq!((&bytes[..10], &bytes[10..100]), (&before[..10], &[0; 90][..]));
        assert!(read_only.read(90, &mut bytes[..20]).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), before);
    }
}
