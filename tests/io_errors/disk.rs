//! A disk of which one call fails, or all from some call on.

use std::io;
use std::sync::{Arc, Mutex, MutexGuard};

use tubewell::Storage;

use crate::faults::{Faults, Plan};
use crate::faulty_disk::FaultyDisk;

/// The disk, over all stores that are opened on it.
#[derive(Debug, Default)]
pub struct Disk(Mutex<FaultyDisk>);

impl Disk {
    pub fn with(plan: Option<Plan>) -> Arc<Disk> {
        let mut platter = FaultyDisk::default();
        if let Some(plan) = plan {
            platter.faults.arm(plan);
        }
        Arc::new(Disk(Mutex::new(platter)))
    }

    /// What the power cut leaves of this disk.
    pub fn after_power_cut(&self) -> Arc<Disk> {
        Arc::new(Disk(Mutex::new(self.platter().flushed())))
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.platter().size()
    }

    /// This is to go wrong from here on.
    pub fn fail(&self, plan: Plan) {
        let mut platter = self.platter();
        platter.faults = Faults::default();
        platter.faults.arm(plan);
    }

    /// Nothing goes wrong any more.
    pub fn mend(&self) {
        self.platter().faults.disarm();
    }

    /// Whether the plan has come about.
    pub fn tripped(&self) -> bool {
        self.platter().faults.tripped
    }

    /// A way to this disk for one store.
    pub fn plug(self: &Arc<Disk>) -> Box<dyn Storage> {
        Box::new(Plug(self.clone()))
    }

    fn platter(&self) -> MutexGuard<'_, FaultyDisk> {
        self.0.lock().unwrap()
    }
}

#[derive(Debug)]
struct Plug(Arc<Disk>);

impl Storage for Plug {
    fn len(&self) -> io::Result<u64> {
        self.0.platter().len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.platter().read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.platter().set_len(len)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.platter().sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.platter().write(offset, data)
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.0.platter().drop_cache();
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        self.0.platter().close()
    }
}
