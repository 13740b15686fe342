//! A disk in memory on which one call fails, or every call from the N-th on.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use tubewell::expert::Storage;

use super::faults::{Faults, Plan};
use super::faulty_disk::FaultyDisk;

/// The database begins behind the journal.
const JOURNAL_END: u64 = 1 << 20;

/// A disk that outlives the stores that are opened on it.
#[derive(Debug, Default)]
pub struct Disk {
    bytes: Mutex<FaultyDisk>,
    /// Writes to the journal are not counted and do not fail.
    spares_journal: AtomicBool,
}

impl Disk {
    pub fn new(plan: Option<Plan>) -> Arc<Disk> {
        let mut disk = FaultyDisk::default();
        if let Some(plan) = plan {
            disk.faults.arm(plan);
        }
        Disk::with(disk)
    }

    fn with(bytes: FaultyDisk) -> Arc<Disk> {
        Arc::new(Disk { bytes: Mutex::new(bytes), spares_journal: AtomicBool::new(false) })
    }

    /// A disk with the written bytes of this one, flushed or not.
    pub fn after_kill(&self) -> Arc<Disk> {
        Disk::with(self.lock().written())
    }

    /// A disk with the flushed bytes of this one.
    pub fn after_power_cut(&self) -> Arc<Disk> {
        Disk::with(self.lock().flushed())
    }

    /// A disk with the bytes that are left when this one is flushed and its cache is dropped, as by
    /// an open after a kill.
    pub fn after_dropped_cache(&self) -> Arc<Disk> {
        let mut disk = self.lock();
        disk.sync().unwrap();
        disk.drop_cache();
        Disk::with(disk.written())
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

    /// As [`Disk::fail`], but writes to the journal are not counted and do not fail.
    pub fn fail_beside_journal(&self, plan: Plan) {
        self.fail(plan);
        self.spares_journal.store(true, Ordering::SeqCst);
    }

    /// Ends the plan: no call fails from now on.
    pub fn repair(&self) {
        self.lock().faults.disarm();
    }

    /// The next calls of `drop_cache` have no effect.
    pub fn ignore_drops(&self, count: u32) {
        self.lock().ineffective_drops = count;
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
        self.bytes.lock().unwrap()
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
        let mut disk = self.0.lock();
        if offset >= JOURNAL_END || !self.0.spares_journal.load(Ordering::SeqCst) {
            return disk.write(offset, data);
        }
        let faults = std::mem::take(&mut disk.faults);
        let written = disk.write(offset, data);
        disk.faults = faults;
        written
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.0.lock().drop_cache();
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.lock().close()
    }
}
