//! A medium in memory, and a disk on it that logs every operation.

use std::io;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use tubewell::expert::Storage;

const PAGE: usize = 4096;

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

/// Bytes in pages that clones share, so that a crash image takes memory for changed pages only.
#[derive(Clone, Debug, Default)]
pub struct Medium {
    pages: Vec<Option<Arc<[u8; PAGE]>>>,
    len: u64,
}

impl Medium {
    pub fn len(&self) -> u64 {
        self.len
    }

    /// New bytes are zero.
    pub fn set_len(&mut self, len: u64) {
        self.pages.resize(at(len).div_ceil(PAGE), None);
        let rest = at(len) % PAGE;
        if let (true, 1.., Some(Some(last))) = (len < self.len, rest, self.pages.last_mut()) {
            Arc::make_mut(last)[rest..].fill(0);
        }
        self.len = len;
    }

    pub fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        if offset + out.len() as u64 > self.len {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (mut offset, mut done) = (at(offset), 0);
        while done < out.len() {
            let from = offset % PAGE;
            let step = (PAGE - from).min(out.len() - done);
            let part = &mut out[done..done + step];
            match &self.pages[offset / PAGE] {
                Some(page) => part.copy_from_slice(&page[from..from + step]),
                None => part.fill(0),
            }
            (offset, done) = (offset + step, done + step);
        }
        Ok(())
    }

    /// Bytes past the end are dropped: the power cut has lost the growth of the file.
    pub fn write(&mut self, offset: u64, data: &[u8]) {
        let room = at(self.len.saturating_sub(offset));
        let data = &data[..data.len().min(room)];
        let (mut offset, mut done) = (at(offset), 0);
        while done < data.len() {
            let from = offset % PAGE;
            let step = (PAGE - from).min(data.len() - done);
            let page = self.pages[offset / PAGE].get_or_insert_with(|| Arc::new([0; PAGE]));
            Arc::make_mut(page)[from..from + step].copy_from_slice(&data[done..done + step]);
            (offset, done) = (offset + step, done + step);
        }
    }
}

/// One logged operation of a disk.
#[derive(Clone, Debug)]
pub enum Op {
    Write {
        offset: u64,
        data: Box<[u8]>,
    },
    SetLen(u64),
    /// A sync, logged when it returns. It covers what was logged before position `began`.
    Sync {
        began: usize,
    },
}

/// A disk that logs its operations in order.
#[derive(Debug)]
pub struct Disk {
    state: Mutex<DiskState>,
    /// Notified at each operation.
    logged: Condvar,
    /// How long a sync lasts at most. It ends earlier if other threads write meanwhile.
    sync_time: Duration,
}

#[derive(Debug)]
struct DiskState {
    medium: Medium,
    log: Vec<Op>,
}

impl Disk {
    pub fn new(start: Medium, sync_time: Duration) -> Arc<Disk> {
        let state = Mutex::new(DiskState { medium: start, log: Vec::new() });
        Arc::new(Disk { state, logged: Condvar::new(), sync_time })
    }

    /// The number of operations logged so far.
    pub fn position(&self) -> usize {
        self.state.lock().unwrap().log.len()
    }

    /// Its length in bytes.
    pub fn len(&self) -> u64 {
        self.state.lock().unwrap().medium.len()
    }

    pub fn log(&self) -> Vec<Op> {
        self.state.lock().unwrap().log.clone()
    }

    /// Takes the log, which is empty afterwards.
    pub fn take_log(&self) -> Vec<Op> {
        std::mem::take(&mut self.state.lock().unwrap().log)
    }

    /// The disk as the storage of a store.
    pub fn storage(self: &Arc<Disk>) -> Box<dyn Storage> {
        Box::new(DiskStorage(self.clone()))
    }
}

#[derive(Debug)]
struct DiskStorage(Arc<Disk>);

impl Storage for DiskStorage {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.state.lock().unwrap().medium.len())
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.state.lock().unwrap().medium.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let state = &mut *self.0.state.lock().unwrap();
        state.medium.set_len(len);
        state.log.push(Op::SetLen(len));
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let state = self.0.state.lock().unwrap();
        let began = state.log.len();
        // Other threads write a few times during this sync, if they have anything to write.
        let is_quiet = |state: &mut DiskState| state.log.len() <= began + began % 8;
        let waited = self.0.logged.wait_timeout_while(state, self.0.sync_time, is_quiet);
        waited.unwrap().0.log.push(Op::Sync { began });
        self.0.logged.notify_all();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let state = &mut *self.0.state.lock().unwrap();
        if offset + data.len() as u64 > state.medium.len() {
            return Err(io::Error::other("a write past the end"));
        }
        state.medium.write(offset, data);
        state.log.push(Op::Write { offset, data: data.into() });
        self.0.logged.notify_all();
        Ok(())
    }
}
