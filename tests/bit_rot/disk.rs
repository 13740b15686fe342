//! A medium in memory whose bytes the test owns.

use std::io;
use std::sync::{Arc, Mutex};

use tubewell::Storage;

/// A damaged length must not make a store ask for all the room there is.
const ROOM: u64 = 64 << 20;

/// The bytes, shared with the store that works on them.
#[derive(Clone, Debug)]
pub struct Disk(Arc<Mutex<Vec<u8>>>);

impl Disk {
    pub fn new(bytes: Vec<u8>) -> Disk {
        Disk(Arc::new(Mutex::new(bytes)))
    }

    /// What a disk holds if the process is killed now.
    pub fn copy(&self) -> Vec<u8> {
        self.0.lock().unwrap().clone()
    }

    /// Changes what is on the disk of a store in use.
    pub fn change<T>(&self, how: impl FnOnce(&mut [u8]) -> T) -> T {
        how(&mut self.0.lock().unwrap())
    }

    /// The disk as a store wants it.
    pub fn plug(&self) -> Box<dyn Storage> {
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
        if len > ROOM {
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
