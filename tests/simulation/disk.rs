//! A disk in memory: it can be made to fail, or to be full, for a while; it knows what a power cut
//! would leave of it; and it can hold up the store's own writer, so that a test decides what
//! happens while a commit is under way.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use tubewell::Storage;

use crate::faults::{Kind, Plan};
use crate::platter::Platter;

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
    platter: Platter,
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
        let platter = match crash {
            Crash::Kill => state.platter.written(),
            Crash::PowerCut => state.platter.flushed(),
        };
        let state = State { platter, ..State::default() };
        Arc::new(Disk { state: Mutex::new(state), moved: Condvar::new() })
    }

    /// A way to this disk for one store.
    pub fn plug(self: &Arc<Disk>) -> Box<dyn Storage> {
        Box::new(Plug(self.clone()))
    }

    pub fn arm(&self, plan: Plan) {
        self.state().platter.faults.arm(plan);
    }

    /// From now on there is no room for more, or there is again.
    pub fn fill(&self, full: bool) {
        self.state().full = full;
    }

    /// Nothing goes wrong any more.
    pub fn mend(&self) {
        let mut state = self.state();
        state.platter.faults.mend();
        state.full = false;
    }

    /// Whether a call has failed since this was last forgiven.
    pub fn tripped(&self) -> bool {
        self.state().platter.faults.tripped
    }

    pub fn forgive(&self) {
        self.state().platter.faults.tripped = false;
    }

    /// Whether there is no room, or was none when the store last asked.
    pub fn lacks_room(&self) -> bool {
        let state = self.state();
        state.full || state.said_full || state.platter.faults.tripped
    }

    /// Whether calls fail now, or may do so soon.
    pub fn is_armed(&self) -> bool {
        self.state().platter.faults.is_armed()
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

impl Storage for Plug {
    fn len(&self) -> io::Result<u64> {
        self.0.state().platter.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.state().platter.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.state();
        let before = state.platter.size() as u64;
        state.platter.set_len(len)?;
        state.grown = len > before;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.state();
        let grown = std::mem::take(&mut state.grown);
        let writer = std::thread::current().name() == Some("tubewell-writer");
        if writer && state.held && !grown {
            state.waiting = true;
            self.0.moved.notify_all();
            state = self.0.moved.wait_while(state, |state| state.held).unwrap();
        }
        state.platter.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.state().platter.write(offset, data)
    }

    fn available(&self) -> io::Result<Option<u64>> {
        let mut state = self.0.state();
        state.said_full = state.full;
        Ok(Some(if state.full { 0 } else { 1 << 40 }))
    }
}
