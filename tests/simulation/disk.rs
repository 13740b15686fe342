//! A disk in memory: it can be made to fail, or to be full, for a while; it knows what a power cut
//! would leave of it; and it can hold up the store's own writer, so that a test decides what
//! happens while a commit is under way.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use tubewell::Storage;

use crate::faults::{Kind, Plan};
use crate::faulty_disk::FaultyDisk;

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
    changed: Condvar,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is about another thing")]
struct State {
    disk: FaultyDisk,
    full: bool,
    reported_full: bool,
    /// The writer is to wait before it flushes.
    writer_blocked: bool,
    writer_waiting: bool,
    ticket_answered: bool,
    /// The next flush is that of a file that has grown, for which the engine is locked.
    grown: bool,
    /// How often the writer was expected: a waker may come late.
    watches: u64,
}

impl Disk {
    pub fn new() -> Arc<Disk> {
        Arc::new(Disk::default())
    }

    /// The disk as the next process finds it.
    pub fn after_crash(&self, crash: Crash) -> Arc<Disk> {
        let state = self.state();
        let disk = match crash {
            Crash::Kill => state.disk.written(),
            Crash::PowerCut => state.disk.flushed(),
        };
        let state = State { disk, ..State::default() };
        Arc::new(Disk { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// A way to this disk for one store.
    pub fn storage(self: &Arc<Disk>) -> Box<dyn Storage> {
        Box::new(DiskStorage(self.clone()))
    }

    pub fn arm(&self, plan: Plan) {
        self.state().disk.faults.arm(plan);
    }

    /// From now on there is no room for more, or there is again.
    pub fn set_full(&self, full: bool) {
        self.state().full = full;
    }

    /// Nothing goes wrong any more.
    pub fn repair(&self) {
        let mut state = self.state();
        state.disk.faults.disarm();
        state.full = false;
    }

    /// Whether a call has failed since this was last forgiven.
    pub fn tripped(&self) -> bool {
        self.state().disk.faults.tripped
    }

    pub fn clear_tripped(&self) {
        self.state().disk.faults.tripped = false;
    }

    /// Whether there is no room, or was none when the store last asked.
    pub fn lacks_space(&self) -> bool {
        let state = self.state();
        state.full || state.reported_full || state.disk.faults.tripped
    }

    /// Whether calls fail now, or may do so soon.
    pub fn is_armed(&self) -> bool {
        self.state().disk.faults.is_armed()
    }

    /// From now on the store's writer waits before it flushes, until what is returned is dropped.
    pub fn block_writer(self: &Arc<Disk>) -> BlockedWriter {
        let mut state = self.state();
        state.writer_blocked = true;
        drop(state);
        BlockedWriter(self.clone())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }
}

/// The writer is writer_blocked up; see [`Disk::block_writer`].
pub struct BlockedWriter(Arc<Disk>);

impl BlockedWriter {
    /// The next commit is the one that [`BlockedWriter::wait_for_writer`] waits for.
    pub fn watch_commit(&self) -> Waker {
        let mut state = self.0.state();
        (state.writer_waiting, state.ticket_answered) = (false, false);
        state.watches += 1;
        Waker::from(Arc::new(AnswerWaker(self.0.clone(), state.watches)))
    }

    /// Returns when the writer is about to flush; or when its commit has failed before that, of
    /// which this waker is told.
    pub fn wait_for_writer(&self) {
        let state = self.0.state();
        let running = |state: &mut State| !state.writer_waiting && !state.ticket_answered;
        drop(self.0.changed.wait_while(state, running).unwrap());
    }
}

impl Drop for BlockedWriter {
    fn drop(&mut self) {
        self.0.state().writer_blocked = false;
        self.0.changed.notify_all();
    }
}

struct AnswerWaker(Arc<Disk>, u64);

impl Wake for AnswerWaker {
    fn wake(self: Arc<AnswerWaker>) {
        let mut state = self.0.state();
        state.ticket_answered |= state.watches == self.1;
        drop(state);
        self.0.changed.notify_all();
    }
}

#[derive(Debug)]
struct DiskStorage(Arc<Disk>);

impl Storage for DiskStorage {
    fn len(&self) -> io::Result<u64> {
        self.0.state().disk.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.state().disk.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        let mut state = self.0.state();
        let before = state.disk.size() as u64;
        state.disk.set_len(len)?;
        state.grown = len > before;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.0.state();
        let grown = std::mem::take(&mut state.grown);
        let writer = std::thread::current().name() == Some("tubewell-writer");
        if writer && state.writer_blocked && !grown {
            state.writer_waiting = true;
            self.0.changed.notify_all();
            state = self.0.changed.wait_while(state, |state| state.writer_blocked).unwrap();
        }
        state.disk.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.state().disk.write(offset, data)
    }

    fn available(&self) -> io::Result<Option<u64>> {
        let mut state = self.0.state();
        state.reported_full = state.full;
        Ok(Some(if state.full { 0 } else { 1 << 40 }))
    }
}
