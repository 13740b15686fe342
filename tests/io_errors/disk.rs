//! A disk in memory on which one call fails, or every call from the N-th on.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use tubewell::Storage;

use crate::faults::{Faults, Plan};
use crate::faulty_disk::FaultyDisk;

/// A disk that outlives the stores that are opened on it.
#[derive(Debug, Default)]
pub struct Disk(Mutex<FaultyDisk>);

impl Disk {
    pub fn new(plan: Option<Plan>) -> Arc<Disk> {
        let mut disk = FaultyDisk::default();
        if let Some(plan) = plan {
            disk.faults.arm(plan);
        }
        Arc::new(Disk(Mutex::new(disk)))
    }

    /// A disk with the flushed bytes of this one.
    pub fn after_power_cut(&self) -> Arc<Disk> {
        Arc::new(Disk(Mutex::new(self.lock().flushed())))
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.lock().size()
    }

    /// Replaces the plan; calls are counted from now on.
    pub fn fail(&self, plan: Plan) {
        let mut disk = self.lock();
        disk.faults = Faults::default();
        disk.faults.arm(plan);
    }

    /// Ends the plan: no call fails from now on.
    pub fn repair(&self) {
        self.lock().faults.disarm();
    }

    /// Whether a call has failed.
    pub fn has_failed(&self) -> bool {
        self.lock().faults.tripped
    }

    /// The storage to open one store on.
    pub fn storage(self: &Arc<Disk>) -> Box<dyn Storage> {
        Box::new(DiskStorage(self.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, FaultyDisk> {
        self.0.lock().unwrap()
    }
}

#[derive(Debug)]
struct DiskStorage(Arc<Disk>);

impl Storage for DiskStorage {
    fn len(&self) -> io::Result<u64> {
        self.0.lock().len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.lock().read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.lock().set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.lock().sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.lock().write(offset, data)
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.0.lock().drop_cache();
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.lock().close()
    }
}
