//! A storage in memory whose bytes the test can read and change.

use std::io;
use std::sync::{Arc, Mutex};

use tubewell::expert::Storage;

/// The longest file. A damaged length in the file must not use up the machine's memory.
const MAX_LEN: u64 = 64 << 20;

/// The bytes of a file, shared with the store that is open on them.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Mutex<Vec<u8>>>);

impl Disk {
    pub fn new(bytes: Vec<u8>) -> Disk {
        Disk(Arc::new(Mutex::new(bytes)))
    }

    /// A copy of the bytes: what a kill at this moment would leave.
    pub fn copy(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    /// Changes the bytes, also while a store is open on them.
    pub fn change<T>(&self, edit: impl FnOnce(&mut [u8]) -> T) -> T {
        edit(&mut self.0.lock().unwrap())
    }

    /// The storage to open a store on.
    pub fn storage(&self) -> Box<dyn Storage> {
        Box::new(self.clone())
    }
}

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap_or(usize::MAX)
}

impl Storage for Disk {
    fn len(&self) -> io::Result<u64> {
        Ok(self.0.lock().unwrap().len() as u64)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let bytes = self.0.lock().unwrap();
        let found = bytes.get(at(offset)..).and_then(|rest| rest.get(..out.len()));
        out.copy_from_slice(found.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        if len > MAX_LEN {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.0.lock().unwrap().resize(at(len), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut bytes = self.0.lock().unwrap();
        let found = bytes.get_mut(at(offset)..).and_then(|rest| rest.get_mut(..data.len()));
        found.ok_or(io::ErrorKind::UnexpectedEof)?.copy_from_slice(data);
        Ok(())
    }
}
