//! A disk of which one call fails, or all from some call on; and which takes a failed flush as
//! some systems do: what was to be flushed counts as written from then on, and is not.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use tubewell::Storage;

use crate::faults::{Fault, Faults, Kind, Plan};

/// The disk, over all stores that are opened on it.
#[derive(Debug, Default)]
pub struct Disk(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// As reads see it.
    bytes: Vec<u8>,
    /// As a power cut would leave it.
    stable: Vec<u8>,
    dirty: Vec<Range<usize>>,
    faults: Faults,
}

impl Disk {
    pub fn with(plan: Option<Plan>) -> Arc<Disk> {
        let mut state = State::default();
        if let Some(plan) = plan {
            state.faults.arm(plan);
        }
        Arc::new(Disk(Mutex::new(state)))
    }

    /// What the power cut leaves of this disk.
    pub fn after_power_cut(&self) -> Arc<Disk> {
        let bytes = self.0.lock().unwrap().stable.clone();
        Arc::new(Disk(Mutex::new(State { stable: bytes.clone(), bytes, ..State::default() })))
    }

    /// How many bytes it has.
    pub fn len(&self) -> usize {
        self.0.lock().unwrap().bytes.len()
    }

    /// This is to go wrong from here on.
    pub fn fail(&self, plan: Plan) {
        let mut state = self.0.lock().unwrap();
        state.faults = Faults::default();
        state.faults.arm(plan);
    }

    /// Nothing goes wrong any more.
    pub fn mend(&self) {
        self.0.lock().unwrap().faults.mend();
    }

    /// Whether the plan has come about.
    pub fn tripped(&self) -> bool {
        self.0.lock().unwrap().faults.tripped
    }

    /// A way to this disk for one store.
    pub fn plug(self: &Arc<Disk>) -> Box<dyn Storage> {
        Box::new(Plug(self.clone()))
    }
}

#[derive(Debug)]
struct Plug(Arc<Disk>);

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Storage for Plug {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.0.0.lock().unwrap();
        let fault = state.faults.befall(Kind::Read);
        fault.map_or(Ok(state.bytes.len() as u64), |fault| Err(fault.error()))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        let fault = state.faults.befall(Kind::Read);
        let range = at(offset)..at(offset) + out.len();
        let found = state.bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?;
        let Some(fault) = fault else {
            out.copy_from_slice(found);
            return Ok(());
        };
        if fault == Fault::Short {
            let half = out.len() / 2;
            out[..half].copy_from_slice(&found[..half]);
        }
        Err(fault.error())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        if let Some(fault) = state.faults.befall(Kind::SetLen) {
            return Err(fault.error());
        }
        state.bytes.resize(at(len), 0);
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        let dirty = std::mem::take(&mut state.dirty);
        if let Some(fault) = state.faults.befall(Kind::Sync) {
            return Err(fault.error());
        }
        let State { bytes, stable, .. } = &mut *state;
        stable.resize(bytes.len(), 0);
        for range in dirty {
            let end = range.end.min(bytes.len());
            if range.start < end {
                stable[range.start..end].copy_from_slice(&bytes[range.start..end]);
            }
        }
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        let fault = state.faults.befall(Kind::Write);
        let length = match fault {
            None => data.len(),
            Some(Fault::Short) => data.len() / 2,
            Some(fault) => return Err(fault.error()),
        };
        let range = at(offset)..at(offset) + length;
        let Some(place) = state.bytes.get_mut(range.clone()) else {
            return Err(io::ErrorKind::UnexpectedEof.into());
        };
        place.copy_from_slice(&data[..length]);
        state.dirty.push(range);
        fault.map_or(Ok(()), |_| Err(io::ErrorKind::WriteZero.into()))
    }

    fn drop_cache(&self) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        let State { bytes, stable, .. } = &mut *state;
        bytes.clone_from(stable);
        Ok(())
    }

    fn close(&self) -> io::Result<()> {
        let mut state = self.0.0.lock().unwrap();
        state.faults.befall(Kind::Close).map_or(Ok(()), |fault| Err(fault.error()))
    }
}
