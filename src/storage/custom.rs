//! A medium that somebody else implements, as the engine wants it.

use std::io;
use std::sync::Arc;

use redb::StorageBackend;

use super::backend::Storage;
use super::disk_space::DiskSpace;
use crate::user_code;

/// See the module.
#[derive(Clone, Debug)]
pub(super) struct CustomStorage(Arc<dyn Storage>);

impl CustomStorage {
    pub(super) fn new(storage: Box<dyn Storage>) -> CustomStorage {
        CustomStorage(storage.into())
    }

    /// A panic is a failure like others: it must not go through the engine, which would be left in
    /// the midst of its own work, and may panic once more on the way out, which ends the process.
    fn ask<T>(&self, call: impl FnOnce(&dyn Storage) -> io::Result<T>) -> io::Result<T> {
        let answer = user_code::panic_to_error(|| call(&*self.0));
        answer.unwrap_or_else(|why| Err(io::Error::other(format!("it panicked: {why}"))))
    }
}

impl StorageBackend for CustomStorage {
    fn len(&self) -> io::Result<u64> {
        self.ask(<dyn Storage>::len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.ask(|storage| storage.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.ask(|storage| storage.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.ask(<dyn Storage>::sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.ask(|storage| storage.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.ask(<dyn Storage>::close)
    }
}

impl DiskSpace for CustomStorage {
    fn available(&self) -> io::Result<Option<u64>> {
        self.ask(<dyn Storage>::available)
    }

    fn hold_ballast(&self, bytes: u64) -> io::Result<()> {
        self.ask(|storage| storage.hold_ballast(bytes))
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.ask(<dyn Storage>::drop_cache)
    }
}
