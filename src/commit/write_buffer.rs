//! A write buffer: one engine, the edits that its database does not have yet, and the calls that wait
//! for their commit.
//!
//! There is one for the file and one for the memory of the temporary tubes. A commit moves the
//! active edits into the journal or, if they are too many for it, into a checkpoint.
//!
//! Invariant: no snapshot outlives a call.

use std::collections::BTreeSet;
use std::sync::Arc;

use tubewell_drivers::{NEVER, Reads, Row, Rows, Table, Value, keys};

use super::batch::{Batch, BatchGuard, FlushNo};
use super::change::Change;
use super::edit_layers::{EditLayers, Logged};
use crate::base::tube_no::TubeNo;
use crate::storage::{
    Checkpoint, Engine, FailureCause, Journal, Overlay, Snapshot, scan_back_over, scan_over,
};
use crate::{Error, Result};

/// One engine, and the edits above it.
#[expect(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(crate) struct WriteBuffer {
    engine: Option<Arc<Engine>>,
    /// Taken by the first read of a call and dropped at the end of the call: a snapshot keeps every
    /// page that is freed.
    snapshot: Option<Snapshot>,
    /// The first error of the storage that a read got. The store handles it at the end of the call.
    pub(crate) read_error: Option<Error>,
    /// The edits above the engine's database.
    pub(crate) edits: EditLayers,
    /// The calls that wait for the flush of the next commit.
    pub(crate) batch: Arc<Batch>,
    /// The deferred calls that wait for the next write of the journal.
    write_batch: Arc<Batch>,
    /// A call waits for `write_batch`.
    pub(crate) needs_write: bool,
    /// The changes that become visible with the flush of the next commit.
    pub(crate) changes: Vec<Change>,
    /// The changes that become visible with the flush in progress.
    pub(crate) changes_in_flight: Vec<Change>,
    in_flight_batch: Option<Arc<Batch>>,
    /// The number of the last commit that the flush in progress covers.
    in_flight_commit: u64,
    /// A thread leads a commit, or has been asked to.
    pub(crate) has_leader: bool,
    /// The last leader left the next commit to the writer thread.
    pub(crate) left_to_writer: bool,
    /// A call waits for the flush of the next commit.
    pub(crate) has_waiters: bool,
    /// The next commit has a step of a chore besides the edits of its callers.
    pub(crate) chore_is_next: bool,
    /// The latest time at which the edits so far are flushed, on running time.
    pub(crate) flush_by: Option<u64>,
    /// As `flush_by`, of the edits whose flush is in progress.
    in_flight_flush_by: Option<u64>,
    /// The tubes whose counts the next commit writes.
    pub(crate) dirty_counts: BTreeSet<TubeNo>,
    /// The tubes whose numbers of the day are not written. They need no commit.
    pub(crate) dirty_days: BTreeSet<TubeNo>,
    /// When a commit writes these, on running time.
    pub(crate) days_due: u64,
    /// The dues on the timeline.
    pub(crate) dues: DueCursor,
    /// The tasks that wait for a moment of the wall clock.
    pub(crate) moments: DueCursor,
    /// The tokens of puts, by time. Only a put with a token looks for old ones.
    pub(crate) tokens: DueCursor,
}

/// How far the rows of one kind of dues have been handled, in the order of their keys.
#[derive(Debug, Default)]
pub(crate) struct DueCursor {
    /// No due is earlier than this.
    pub(crate) earliest: u64,
    /// Every due before this key has been handled.
    pub(crate) next: Vec<u8>,
}

impl DueCursor {
    /// Moves back to a due that was written at `time`; `key` is below its key.
    pub(crate) fn include(&mut self, time: u64, key: Vec<u8>) {
        self.earliest = self.earliest.min(time);
        if key < self.next {
            self.next = key;
        }
    }
}

impl WriteBuffer {
    pub(crate) fn new(engine: Option<Arc<Engine>>, commit: u64) -> WriteBuffer {
        WriteBuffer {
            engine,
            snapshot: None,
            read_error: None,
            edits: EditLayers::above(commit),
            batch: Batch::new(FlushNo::FIRST),
            write_batch: Batch::new(FlushNo::NONE),
            needs_write: false,
            changes: Vec::new(),
            changes_in_flight: Vec::new(),
            in_flight_batch: None,
            in_flight_commit: 0,
            has_leader: false,
            left_to_writer: false,
            has_waiters: false,
            chore_is_next: false,
            flush_by: None,
            in_flight_flush_by: None,
            dirty_counts: BTreeSet::new(),
            dirty_days: BTreeSet::new(),
            days_due: 0,
            dues: DueCursor::default(),
            moments: DueCursor { earliest: NEVER, next: Vec::new() },
            tokens: DueCursor::default(),
        }
    }

    pub(crate) fn engine(&self) -> Option<&Arc<Engine>> {
        self.engine.as_ref()
    }

    pub(crate) fn set_engine(&mut self, engine: Arc<Engine>) {
        self.engine = Some(engine);
    }

    pub(crate) fn take_engine(&mut self) -> Option<Arc<Engine>> {
        self.snapshot = None;
        self.engine.take()
    }

    /// Drops the snapshot, at the end of a call.
    pub(crate) fn end_call(&mut self) {
        self.snapshot = None;
    }

    /// Whether there are edits that are in no commit.
    pub(crate) fn has_unlogged(&self) -> bool {
        !(self.edits.active.is_empty() && self.dirty_counts.is_empty())
    }

    /// The number of the commit that has all edits so far.
    pub(crate) fn newest_commit(&self) -> u64 {
        self.edits.last_commit() + u64::from(self.has_unlogged())
    }

    /// Moves the active edits into a record of the journal, or if `may_be_direct` is set into a
    /// checkpoint. The caller has added the rows that every commit writes. `None` if another
    /// checkpoint must end first, or a leader must write one.
    pub(crate) fn log(&mut self, may_be_direct: bool) -> Option<Logged> {
        let has_unlogged = self.has_unlogged();
        if let Some(journal) = self.engine.as_ref().and_then(|engine| engine.journal()) {
            if !has_unlogged && !self.edits.is_direct_checkpoint_running() {
                return Some(Logged::Record(journal.last()));
            }
            if let Some(number) = self.edits.log(journal) {
                return Some(Logged::Record(number));
            }
        }
        may_be_direct.then(|| self.log_directly()).flatten().map(Logged::Direct)
    }

    /// As [`EditLayers::log_directly`].
    pub(crate) fn log_directly(&mut self) -> Option<Checkpoint> {
        let last_record = self.engine.as_ref().map_or(0, |engine| engine.last_record());
        self.edits.log_directly(last_record)
    }

    /// As [`EditLayers::log_with_transaction`].
    #[cfg(feature = "redb")]
    pub(crate) fn log_with_transaction(&mut self) -> Checkpoint {
        let last_record = self.engine.as_ref().map_or(0, |engine| engine.last_record());
        self.edits.log_with_transaction(last_record)
    }

    /// As [`EditLayers::checkpoint_now`].
    pub(crate) fn checkpoint_now(&mut self) -> Option<Checkpoint> {
        let last_record = self.journal()?.last();
        self.edits.checkpoint_now(last_record)
    }

    /// As [`EditLayers::finish_checkpoint`].
    pub(crate) fn finish_checkpoint(&mut self) -> Option<Checkpoint> {
        self.snapshot = None;
        self.edits.finish_checkpoint()
    }

    /// Takes the engine out after a failure, with what its database may not have.
    pub(crate) fn begin_restore(&mut self) -> Option<Restore> {
        let engine = self.take_engine()?;
        let (edits, commits) = self.edits.begin_restore(engine.last_record());
        Some(Restore { engine, edits, commits })
    }

    /// Begins the flush of all commits so far: moves the changes that wait for it into flight, and
    /// begins a new batch.
    pub(crate) fn begin_flush(&mut self) -> BatchGuard {
        debug_assert!(self.in_flight_batch.is_none(), "one flush is in flight at a time");
        let next = Batch::new(self.batch.flush.next());
        let batch = std::mem::replace(&mut self.batch, next);
        self.changes_in_flight = std::mem::take(&mut self.changes);
        self.in_flight_batch = Some(batch.clone());
        self.in_flight_commit = self.edits.last_commit();
        self.in_flight_flush_by = self.flush_by.take();
        self.has_waiters = false;
        BatchGuard(batch)
    }

    /// The flush has ended. Returns the changes that become visible.
    pub(crate) fn finish_flush(&mut self) -> Vec<Change> {
        self.edits.note_flushed(self.in_flight_commit);
        self.in_flight_batch = None;
        self.in_flight_flush_by = None;
        std::mem::take(&mut self.changes_in_flight)
    }

    /// The batch of the deferred calls that wait for the next write of the journal.
    pub(crate) fn write_batch(&self) -> &Arc<Batch> {
        &self.write_batch
    }

    /// Begins a new batch of calls that wait for a write. Returns the one so far, if a call has it.
    pub(crate) fn take_write_batch(&mut self) -> Option<BatchGuard> {
        self.needs_write = false;
        let is_used = Arc::strong_count(&self.write_batch) > 1;
        is_used.then(|| {
            BatchGuard(std::mem::replace(&mut self.write_batch, Batch::new(FlushNo::NONE)))
        })
    }

    /// The journal, if commits go there first.
    pub(crate) fn journal(&self) -> Option<&Arc<Journal>> {
        self.engine.as_ref().and_then(|engine| engine.journal())
    }

    /// Takes back a commit that was left to the writer thread and that it has not begun.
    pub(crate) fn reclaim_lead(&mut self) {
        if std::mem::take(&mut self.left_to_writer) {
            self.has_leader = false;
        }
    }

    /// Gives the calls that wait for the next flush a new batch of the same flush. Returns the
    /// batch so far.
    pub(crate) fn replace_batch(&mut self) -> Arc<Batch> {
        self.has_waiters = false;
        let next = Batch::new(self.batch.flush);
        std::mem::replace(&mut self.batch, next)
    }

    /// Whether there is something to commit or to flush.
    pub(crate) fn is_dirty(&self) -> bool {
        let covered = self.in_flight_batch.as_ref().map_or(0, |_| self.in_flight_commit);
        let is_covered = self.edits.last_commit() <= self.edits.flushed_commit().max(covered);
        self.has_unlogged() || !self.changes.is_empty() || !is_covered
    }

    /// The batch of the last change that is not yet visible.
    pub(crate) fn batch_of_changes(&self) -> Option<&Arc<Batch>> {
        if !self.changes.is_empty() {
            return Some(&self.batch);
        }
        self.in_flight_batch.as_ref().filter(|_| !self.changes_in_flight.is_empty())
    }

    /// The batch whose flush is in progress.
    pub(crate) fn in_flight_batch(&self) -> Option<&Arc<Batch>> {
        self.in_flight_batch.as_ref()
    }

    /// The latest time at which the flush in progress ends, on running time, if it has one.
    pub(crate) fn in_flight_flush_by(&self) -> Option<u64> {
        self.in_flight_flush_by
    }

    /// Notes dues that were written at `due` and at `moment`, or later; `NEVER` for none.
    pub(crate) fn include_dues(&mut self, due: u64, moment: u64) {
        if due != NEVER {
            self.dues.include(due, keys::due(due, 0, 0));
        }
        if moment != NEVER {
            self.moments.include(moment, keys::moment(moment, 0, 0));
        }
    }
}

/// A failed engine, and what its database may not have.
pub(crate) struct Restore {
    pub(crate) engine: Arc<Engine>,
    pub(crate) edits: Checkpoint,
    /// The numbers of the first and the last commit with which the database may end.
    pub(crate) commits: (u64, u64),
}

/// The rows below the edits of a write buffer.
struct EngineRows<'a> {
    engine: &'a Option<Arc<Engine>>,
    snapshot: &'a mut Option<Snapshot>,
    read_error: &'a mut Option<Error>,
}

impl EngineRows<'_> {
    fn read<T>(&mut self, read: impl FnOnce(&mut Snapshot) -> Result<T>) -> Result<T> {
        let found = match self.snapshot {
            Some(snapshot) => read(snapshot),
            None => match self.engine.as_ref().ok_or(Error::Closed)?.snapshot() {
                Ok(snapshot) => read(self.snapshot.insert(snapshot)),
                Err(error) => Err(error),
            },
        };
        if let Err(error) = &found
            && FailureCause::from(error) == FailureCause::Storage
        {
            self.read_error.get_or_insert_with(|| error.clone());
        }
        found
    }
}

impl Reads for WriteBuffer {
    type Error = Error;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>> {
        if let Some(edit) = self.edits.get(table, key) {
            return Ok(edit.cloned());
        }
        let WriteBuffer { engine, snapshot, read_error, .. } = self;
        EngineRows { engine, snapshot, read_error }.read(|snapshot| snapshot.get(table, key))
    }

    fn scan(&mut self, table: Table, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Row>> {
        let WriteBuffer { engine, snapshot, read_error, edits, .. } = self;
        let overlays: Vec<&Overlay> = edits.all().collect();
        let mut below = EngineRows { engine, snapshot, read_error };
        scan_over(&overlays, table, (from, to), limit, |from, to, limit| {
            below.read(|snapshot| snapshot.scan(table, from, to, limit))
        })
    }

    fn scan_keys(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let WriteBuffer { engine, snapshot, read_error, edits, .. } = self;
        let overlays: Vec<&Overlay> = edits.all().collect();
        let mut below = EngineRows { engine, snapshot, read_error };
        let rows = scan_over(&overlays, table, (from, to), limit, |from, to, limit| {
            below.read(|snapshot| snapshot.scan_without_values(table, from, to, limit))
        })?;
        Ok(rows.into_iter().map(|(key, _)| key).collect())
    }

    fn scan_back(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>> {
        let WriteBuffer { engine, snapshot, read_error, edits, .. } = self;
        let overlays: Vec<&Overlay> = edits.all().collect();
        let mut below = EngineRows { engine, snapshot, read_error };
        scan_back_over(&overlays, table, (from, to), limit, |from, to, limit| {
            below.read(|snapshot| snapshot.scan_back(table, from, to, limit))
        })
    }
}

impl Rows for WriteBuffer {
    fn insert(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.edits.active.insert(table, key, value);
    }

    fn replace(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.edits.active.replace(table, key, value);
    }

    fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.edits.active.remove(table, key);
    }
}
