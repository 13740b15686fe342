//! Adapts a [`Storage`] of the application to the engine's backend and to [`DiskSpace`].
//!
//! Invariant: a panic of the application's code does not reach the engine.

use std::io;
use std::sync::Arc;

use redb::StorageBackend;

use super::backend::Storage;
use super::disk_space::DiskSpace;
use crate::base::user_code;

/// A storage of the application; clones share it.
#[derive(Clone, Debug)]
pub(super) struct CustomStorage(Arc<dyn Storage>);

impl CustomStorage {
    pub(super) fn new(storage: Box<dyn Storage>) -> CustomStorage {
        CustomStorage(storage.into())
    }

    /// Returns a panic as an error. A panic that unwinds through the engine would leave its work
    /// half done, and a second panic during the unwinding aborts the process.
    fn call<T>(&self, operation: impl FnOnce(&dyn Storage) -> io::Result<T>) -> io::Result<T> {
        let answer = user_code::panic_to_error(|| operation(&*self.0));
        answer.unwrap_or_else(|why| Err(io::Error::other(format!("it panicked: {why}"))))
    }
}

impl StorageBackend for CustomStorage {
    fn len(&self) -> io::Result<u64> {
        self.call(<dyn Storage>::len)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.call(|storage| storage.read(offset, out))
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.call(|storage| storage.set_len(len))
    }

    fn sync_data(&self) -> io::Result<()> {
        self.call(<dyn Storage>::sync)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.call(|storage| storage.write(offset, data))
    }

    fn close(&self) -> io::Result<()> {
        self.call(<dyn Storage>::close)
    }
}

impl DiskSpace for CustomStorage {
    fn available(&self) -> io::Result<Option<u64>> {
        self.call(<dyn Storage>::available)
    }

    fn hold_ballast(&self, bytes: u64) -> io::Result<()> {
        self.call(|storage| storage.hold_ballast(bytes))
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.call(<dyn Storage>::drop_cache)
    }

    fn read_from_disk(&self, _offset: u64, _out: &mut [u8]) -> io::Result<bool> {
        Ok(false)
    }
}
