//! A disk in memory. It can fail or be full for a while, it knows what a kill or a power cut would
//! leave, and it can block the store's writer thread, so that a test decides what happens while a
//! commit is in flight.

use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::task::{Wake, Waker};

use tubewell::expert::Storage;

use crate::faults::{Kind, Plan};
use crate::faulty_disk::FaultyDisk;

/// The kinds of calls that a plan may count.
pub const KINDS: [Kind; 5] = [Kind::Any, Kind::Read, Kind::Write, Kind::Sync, Kind::SetLen];

/// What is left of a disk when a process ends without closing its store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Crash {
    /// The process was killed: all written bytes are left.
    Kill,
    /// The power was cut: the flushed bytes are left.
    PowerCut,
    /// The power was cut: the flushed bytes are left, and the first operations since the last
    /// successful flush.
    PartialPowerCut {
        kept: usize,
        /// Whether half of the next write is left, too.
        torn: bool,
    },
}

impl Crash {
    pub fn name(self) -> &'static str {
        match self {
            Crash::Kill => "Kill",
            Crash::PowerCut => "PowerCut",
            Crash::PartialPowerCut { .. } => "PartialPowerCut",
        }
    }

    /// Whether written bytes that were not flushed may be lost.
    pub fn is_power_cut(self) -> bool {
        self != Crash::Kill
    }
}

#[derive(Debug)]
enum Op {
    Write(u64, Vec<u8>),
    SetLen(u64),
}

#[derive(Debug, Default)]
pub struct Disk {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
#[expect(clippy::struct_excessive_bools, reason = "independent flags")]
struct State {
    disk: FaultyDisk,
    /// The operations since the last successful flush.
    unflushed: Vec<Op>,
    full: bool,
    reported_full: bool,
    /// The writer thread must wait before it flushes.
    writer_blocked: bool,
    /// The writer thread waits.
    writer_waiting: bool,
    /// The watched commit has failed before its flush, so its ticket was answered.
    ticket_answered: bool,
    /// The next flush is that of a file that has grown; the engine is locked meanwhile.
    grown: bool,
    /// The number of the watched commit: a waker of an earlier one may be called late.
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
            Crash::PartialPowerCut { kept, torn } => {
                partly_flushed(state.disk.flushed(), &state.unflushed, kept, torn)
            }
        };
        let state = State { disk, ..State::default() };
        Arc::new(Disk { state: Mutex::new(state), changed: Condvar::new() })
    }

    /// The number of operations since the last successful flush.
    pub fn unflushed(&self) -> usize {
        self.state().unflushed.len()
    }

    /// This disk as the storage of one store.
    pub fn storage(self: &Arc<Disk>) -> Box<dyn Storage> {
        Box::new(DiskStorage(self.clone()))
    }

    pub fn arm(&self, plan: Plan) {
        self.state().disk.faults.arm(plan);
    }

    /// Makes the disk full, or no longer full.
    pub fn set_full(&self, full: bool) {
        self.state().full = full;
    }

    /// Removes the planned fault, and the disk is no longer full.
    pub fn repair(&self) {
        let mut state = self.state();
        state.disk.faults.disarm();
        state.full = false;
    }

    /// Whether a call has failed since [`Disk::clear_tripped`].
    pub fn tripped(&self) -> bool {
        self.state().disk.faults.tripped
    }

    pub fn clear_tripped(&self) {
        self.state().disk.faults.tripped = false;
    }

    /// Whether a put may be refused with `DiskFull`: the disk is full, was full when the store last
    /// asked, or has failed.
    pub fn lacks_space(&self) -> bool {
        let state = self.state();
        state.full || state.reported_full || state.disk.faults.tripped
    }

    /// Whether calls fail now or may fail later.
    pub fn is_armed(&self) -> bool {
        self.state().disk.faults.is_armed()
    }

    /// Makes the store's writer thread wait before it flushes, until the guard is dropped.
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

/// A disk with the first `kept` of these operations. A write beyond the end is lost: the length
/// that it needs came after a failed flush.
fn partly_flushed(mut disk: FaultyDisk, ops: &[Op], kept: usize, torn: bool) -> FaultyDisk {
    for (n, op) in ops.iter().take(kept + usize::from(torn)).enumerate() {
        match op {
            Op::Write(offset, data) => {
                let length = if n < kept { data.len() } else { data.len() / 2 };
                let _ = disk.write(*offset, &data[..length]);
            }
            Op::SetLen(len) if n < kept => disk.set_len(*len).unwrap(),
            Op::SetLen(_) => {}
        }
    }
    disk.written()
}

/// Guard that blocks the writer thread; see [`Disk::block_writer`].
pub struct BlockedWriter(Arc<Disk>);

impl BlockedWriter {
    /// Starts to watch the next commit, for [`BlockedWriter::wait_for_writer`]. Its ticket must be
    /// polled with the returned waker.
    pub fn watch_commit(&self) -> Waker {
        let mut state = self.0.state();
        (state.writer_waiting, state.ticket_answered) = (false, false);
        state.watches += 1;
        Waker::from(Arc::new(AnswerWaker(self.0.clone(), state.watches)))
    }

    /// Blocks until the writer thread is about to flush, or until the commit has failed earlier.
    /// The waker of [`BlockedWriter::watch_commit`] reports the failure.
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

/// Notes that the ticket of a watched commit was answered.
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
        state.unflushed.push(Op::SetLen(len));
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
        state.disk.sync()?;
        state.unflushed.clear();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        let mut state = self.0.state();
        let written = state.disk.write(offset, data);
        let length = match &written {
            Ok(()) => data.len(),
            // A short write.
            Err(error) if error.kind() == io::ErrorKind::WriteZero => data.len() / 2,
            Err(_) => return written,
        };
        state.unflushed.push(Op::Write(offset, data[..length].to_vec()));
        written
    }

    fn drop_cache(&self) -> io::Result<()> {
        self.0.state().disk.drop_cache();
        Ok(())
    }

    fn available(&self) -> io::Result<Option<u64>> {
        let mut state = self.0.state();
        state.reported_full = state.full;
        Ok(Some(if state.full { 0 } else { 1 << 40 }))
    }
}
