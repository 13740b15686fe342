//! A disk in memory: it can be made to fail, or to be full, for a while; it knows what a power cut
//! would leave of it; and it can hold up the store's own writer, so that a test decides what
//! happens while a commit is under way.

use std::io;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use tubewell::Storage;

use crate::faults::{Fault, Faults, Kind, Plan};

/// The calls that a plan may name.
pub const KINDS: [Kind; 5] = [Kind::Any, Kind::Read, Kind::Write, Kind::Sync, Kind::SetLen];

/// What is left of a disk when a process ends without closing its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process was killed: all that was written.
    Kill,
    /// The power was cut: what was flushed.
    PowerCut,
}

#[derive(Debug, Default)]
pub struct Disk {
    state: Mutex<State>,
    moved: Condvar,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is about another thing")]
struct State {
    /// As reads see it.
    bytes: Vec<u8>,
    /// As a power cut would leave it.
    stable: Vec<u8>,
    dirty: Vec<Range<usize>>,
    faults: Faults,
    full: bool,
    said_full: bool,
    /// The writer is to wait before it flushes.
    held: bool,
    waiting: bool,
    answered: bool,
    /// The next flush is that of a file that has grown, for which the engine is locked.
    grown: bool,
    /// How often the writer was expected: a waker may come late.
    holds: u64,
}

impl Disk {
    pub fn new() -> Arc<Disk> {
        Arc::new(Disk::default())
    }

    /// The disk as the next process finds it.
    pub fn after(&self, crash: Crash) -> Arc<Disk> {
        let state = self.state();
        let bytes = match crash {
            Crash::Kill => state.bytes.clone(),
            Crash::PowerCut => state.stable.clone(),
        };
        let state = State { stable: bytes.clone(), bytes, ..State::default() };
        Arc::new(Disk { state: Mutex::new(state), moved: Condvar::new() })
    }

    /// A way to this disk for one store.
    pub fn plug(self: &Arc<Disk>) -> Box<dyn Storage> {
        Box::new(Plug(self.clone()))
    }

    pub fn arm(&self, plan: Plan) {
        self.state().faults.arm(plan);
    }

    /// From now on there is no room for more, or there is again.
    pub fn fill(&self, full: bool) {
        self.state().full = full;
    }

    /// Nothing goes wrong any more.
    pub fn mend(&self) {
        let mut state = self.state();
        state.faults.mend();
        state.full = false;
    }

    /// Whether a call has failed since this was last forgiven.
    pub fn tripped(&self) -> bool {
        self.state().faults.tripped
    }

    pub fn forgive(&self) {
        self.state().faults.tripped = false;
    }

    /// Whether there is no room, or was none when the store last asked.
    pub fn lacks_room(&self) -> bool {
        let state = self.state();
        state.full || state.said_full || state.faults.tripped
    }

    /// Whether calls fail now, or may do so soon.
    pub fn is_armed(&self) -> bool {
        self.state().faults.is_armed()
    }

    /// From now on the store's writer waits before it flushes, until what is returned is dropped.
    pub fn hold_writer(self: &Arc<Disk>) -> Held {
        let mut state = self.state();
        state.held = true;
        drop(state);
        Held(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// The writer is held up; see [`Disk::hold_writer`].
pub struct Held(Arc<Disk>);

impl Held {
    /// The next commit is the one that [`Held::wait_for_writer`] waits for.
    pub fn expect_writer(&self) -> Waker {
        let mut state = self.0.state();
        (state.waiting, state.answered) = (false, false);
        state.holds += 1;
        Waker::from(Arc::new(Answered(self.0.clone(), state.holds)))
    }

    /// Returns when the writer is about to flush; or when its commit has failed before that, of
    /// which this waker is told.
    pub fn wait_for_writer(&self) {
        let state = self.0.state();
        let arrives = |state: &mut State| !state.waiting && !state.answered;
        drop(self.0.moved.wait_while(state, arrives).unwrap());
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.0.state().held = false;
        self.0.moved.notify_all();
    }
}

struct Answered(Arc<Disk>, u64);

impl Wake for Answered {
    fn wake(self: Arc<Answered>) {
        let mut state = self.0.state();
        state.answered |= state.holds == self.1;
        drop(state);
        self.0.moved.notify_all();
    }
}

#[derive(Debug)]
struct Plug(Arc<Disk>);

fn at(offset: u64) -> usize {
    usize::try_from(offset).unwrap()
}

impl Storage for Plug {
    fn len(&self) -> io::Result<u64> {
        let mut state = self.0.state();
        let fault = state.faults.befall(Kind::Read);
        fault.map_or(Ok(state.bytes.len() as u64), |fault| Err(fault.error()))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        let mut state = self.0.state();
        if let Some(fault) = state.faults.befall(Kind::Read) {
            return Err(fault.error());
        }
        let range = at(offset)..at(offset) + out.len();
        out.copy_from_slice(state.bytes.get(range).ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.state();
        if let Some(fault) = state.faults.befall(Kind::SetLen) {
            return Err(fault.error());
        }
        state.grown = at(len) > state.bytes.len();
        state.bytes.resize(at(len), 0);
        Ok(())
    }

    /// A flush that fails loses what it was to flush: some systems take it for written then.
    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.state();
        let grown = std::mem::take(&mut state.grown);
        let writer = std::thread::current().name() == Some("tubewell-writer");
        if writer && state.held && !grown {
            state.waiting = true;
            self.0.moved.notify_all();
            state = self.0.moved.wait_while(state, |state| state.held).unwrap();
        }
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
        let mut state = self.0.state();
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
        fault.map_or(Ok(()), |fault| Err(fault.error()))
    }

    fn available(&self) -> io::Result<Option<u64>> {
        let mut state = self.0.state();
        state.said_full = state.full;
        Ok(Some(if state.full { 0 } else { 1 << 40 }))
    }
}
