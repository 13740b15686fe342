//! A write buffer: one engine, and the edits that its database does not have yet.
//!
//! There is one for the file and one for the memory of the temporary tubes. A commit moves the
//! active edits into the journal and among the logged ones, or, if they are too many for it, into a
//! checkpoint. Reads see the active edits, below them the logged ones, below them those of the
//! checkpoint, below them the database.
//!
//! Invariants: one checkpoint runs at a time. No snapshot outlives a call.

use std::collections::BTreeSet;
use std::sync::Arc;

use tubewell_drivers::{Reads, Row, Rows, Table, Value, keys};

use super::batch::{Batch, BatchGuard};
use super::change::Change;
use crate::storage::{
    Appended, Checkpoint, Engine, FailureCause, Journal, Overlay, Snapshot, Turn, scan_over,
};
use crate::{Error, Result};

/// With more logged edits than this, a checkpoint begins, even if the journal has space. Large
/// checkpoints cost less: in a tube with sub-queues each row is on another page of the database.
const CHECKPOINT_ROWS: usize = 16_384;

/// One engine, and the edits above it.
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub(crate) struct WriteBuffer {
    engine: Option<Arc<Engine>>,
    /// Taken by the first read of a call and dropped at the end of the call: a snapshot keeps every
    /// page that is freed.
    snapshot: Option<Snapshot>,
    /// The first error of the storage that a read got. The store handles it at the end of the call.
    pub(crate) read_error: Option<Error>,
    /// Edits that are decided and in no commit yet.
    pub(crate) active: Overlay,
    /// The edits that the journal has and the database does not have.
    logged: Overlay,
    /// Edits on their way into the database. They stay above it until the checkpoint has finished,
    /// since snapshots may or may not have them.
    checkpoint: Option<RunningCheckpoint>,
    /// The number of the last commit: it is in the journal or on its way into the database.
    commit: u64,
    /// The number of the last commit that is flushed.
    flushed: u64,
    /// The number of the last commit that the database has.
    in_database: u64,
    /// The number of rows that commits have written.
    pub(crate) rows: u64,
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
    /// The latest time at which the edits so far are flushed, on running time.
    pub(crate) flush_by: Option<u64>,
    /// The tubes whose counts the next commit writes.
    pub(crate) dirty_counts: BTreeSet<u32>,
    /// No due is earlier than this.
    pub(crate) earliest_due: u64,
    /// Every due before this key has been handled.
    pub(crate) due_cursor: Vec<u8>,
}

/// A checkpoint, from its begin until its edits are in the database.
struct RunningCheckpoint {
    edits: Checkpoint,
    /// The number of the last commit in it.
    commit: u64,
    /// No thread has begun to write it.
    is_waiting: bool,
    /// It has edits that the journal does not have, so no commit may go to the journal before it
    /// ends.
    is_direct: bool,
}

/// A failed engine, and what its database may not have.
pub(crate) struct Restore {
    pub(crate) engine: Arc<Engine>,
    pub(crate) edits: Checkpoint,
    /// The numbers of the first and the last commit with which the database may end.
    pub(crate) commits: (u64, u64),
}

/// Where a commit has gone.
pub(crate) enum Logged {
    /// Into the journal, as the record with this number or before it.
    Record(u64),
    /// On its way into the database: the caller writes the checkpoint.
    Direct(Checkpoint),
}

impl WriteBuffer {
    pub(crate) fn new(engine: Option<Arc<Engine>>, commit: u64) -> WriteBuffer {
        WriteBuffer {
            engine,
            snapshot: None,
            read_error: None,
            active: Overlay::default(),
            logged: Overlay::default(),
            checkpoint: None,
            commit,
            flushed: commit,
            in_database: commit,
            rows: 0,
            batch: Batch::new(1),
            write_batch: Batch::new(0),
            needs_write: false,
            changes: Vec::new(),
            changes_in_flight: Vec::new(),
            in_flight_batch: None,
            in_flight_commit: 0,
            has_leader: false,
            left_to_writer: false,
            has_waiters: false,
            flush_by: None,
            dirty_counts: BTreeSet::new(),
            earliest_due: 0,
            due_cursor: Vec::new(),
        }
    }

    /// Adds the edits that the journal had at open.
    pub(crate) fn add_replayed(&mut self, edits: Overlay) {
        self.logged = edits;
    }

    /// Sets the number of the last commit at open.
    pub(crate) fn set_last_commit(&mut self, commit: u64) {
        self.commit = commit;
        self.flushed = commit;
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

    /// The number of the last commit.
    pub(crate) fn last_commit(&self) -> u64 {
        self.commit
    }

    /// The number of the commit that will have the edits of the present call.
    pub(crate) fn next_commit(&self) -> u64 {
        self.commit + 1
    }

    /// The number of the commit that has all edits so far.
    pub(crate) fn newest_commit(&self) -> u64 {
        self.commit + u64::from(self.has_unlogged())
    }

    /// The number of the last commit that is flushed.
    pub(crate) fn flushed_commit(&self) -> u64 {
        self.flushed
    }

    /// Whether there are edits that are in no commit.
    pub(crate) fn has_unlogged(&self) -> bool {
        !(self.active.is_empty() && self.dirty_counts.is_empty())
    }

    /// Moves the active edits into a commit. The caller has added the rows that every commit writes.
    /// `None` if a checkpoint must end first, and if the edits would have to go to the database and
    /// `may_be_direct` is not set.
    pub(crate) fn log(&mut self, may_be_direct: bool) -> Option<Logged> {
        let running = self.checkpoint.as_ref();
        let journal = self.engine.as_ref().and_then(|engine| engine.journal());
        let direct = |buffer: &mut WriteBuffer| {
            may_be_direct.then(|| buffer.log_directly()).flatten().map(Logged::Direct)
        };
        let Some(journal) = journal else { return direct(self) };
        if running.is_some_and(|running| running.is_direct) {
            return None;
        }
        if !self.has_unlogged() {
            return Some(Logged::Record(journal.last()));
        }
        let turn = match running {
            Some(_) => Turn::Never,
            None if self.logged.len() > CHECKPOINT_ROWS => Turn::Now,
            None => Turn::IfFull,
        };
        let number = match journal.append(&self.active, turn) {
            Appended::Record(number) => number,
            Appended::FirstOfHalf(number) => {
                self.begin_checkpoint(number - 1);
                number
            }
            Appended::Full => return None,
            Appended::Direct => return direct(self),
        };
        self.rows += self.active.len() as u64;
        self.commit += 1;
        self.logged.absorb(&mut self.active);
        Some(Logged::Record(number))
    }

    /// Moves the logged and the active edits into a checkpoint that the caller writes. `None` if
    /// another one must end first.
    pub(crate) fn log_directly(&mut self) -> Option<Checkpoint> {
        if self.checkpoint.is_some() {
            return None;
        }
        let last_record = self.journal().map_or(0, |journal| journal.last());
        self.rows += self.active.len() as u64;
        self.commit += 1;
        let mut edits = Checkpoint::up_to(last_record);
        edits.push_logged(std::mem::take(&mut self.logged));
        edits.push(std::mem::take(&mut self.active));
        let running = RunningCheckpoint {
            edits: edits.clone(),
            commit: self.commit,
            is_waiting: false,
            is_direct: true,
        };
        self.checkpoint = Some(running);
        Some(edits)
    }

    /// Begins a checkpoint of the logged edits, up to this record. Another thread writes it.
    fn begin_checkpoint(&mut self, last_record: u64) {
        let mut edits = Checkpoint::up_to(last_record);
        edits.push_logged(std::mem::take(&mut self.logged));
        let commit = self.commit;
        let running = RunningCheckpoint { edits, commit, is_waiting: true, is_direct: false };
        self.checkpoint = Some(running);
    }

    /// Begins a checkpoint of everything in the journal, which the caller writes. `None` if the
    /// database has it all. No other checkpoint may run.
    pub(crate) fn checkpoint_now(&mut self) -> Option<Checkpoint> {
        if self.logged.is_empty() {
            return None;
        }
        let last = self.journal()?.last();
        self.begin_checkpoint(last);
        self.take_waiting_checkpoint()
    }

    /// The checkpoint that no thread has begun to write. The caller writes it.
    pub(crate) fn take_waiting_checkpoint(&mut self) -> Option<Checkpoint> {
        let running = self.checkpoint.as_mut().filter(|running| running.is_waiting)?;
        running.is_waiting = false;
        Some(running.edits.clone())
    }

    /// Whether a checkpoint waits for a thread that writes it.
    pub(crate) fn has_waiting_checkpoint(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|running| running.is_waiting)
    }

    /// Whether there is a checkpoint whose edits are not in the database yet.
    pub(crate) fn is_checkpointing(&self) -> bool {
        self.checkpoint.is_some()
    }

    /// The checkpoint is in the database and flushed. The caller drops its edits without the lock.
    pub(crate) fn finish_checkpoint(&mut self) -> Option<Checkpoint> {
        let finished = self.checkpoint.take()?;
        self.snapshot = None;
        self.in_database = finished.commit;
        self.flushed = self.flushed.max(finished.commit);
        Some(finished.edits)
    }

    /// Takes the engine out after a failure, and moves all commits that its database may not have
    /// into one checkpoint.
    pub(crate) fn begin_restore(&mut self) -> Option<Restore> {
        self.engine.as_ref()?;
        let mut edits = self.checkpoint.take().map_or_else(Checkpoint::default, |it| it.edits);
        edits.last_record = self.journal().map_or(0, |journal| journal.last());
        edits.push(std::mem::take(&mut self.logged));
        // The journal may not have what it was given.
        edits.logged = 0;
        self.checkpoint = Some(RunningCheckpoint {
            edits: edits.clone(),
            commit: self.commit,
            is_waiting: false,
            is_direct: true,
        });
        let commits = (self.in_database, self.commit);
        self.take_engine().map(|engine| Restore { engine, edits, commits })
    }

    /// Begins the flush of all commits so far: moves the changes that wait for it into flight, and
    /// begins a new batch.
    pub(crate) fn begin_flush(&mut self) -> BatchGuard {
        debug_assert!(self.in_flight_batch.is_none(), "one flush is in flight at a time");
        let next = Batch::new(self.batch.number + 1);
        let batch = std::mem::replace(&mut self.batch, next);
        self.changes_in_flight = std::mem::take(&mut self.changes);
        self.in_flight_batch = Some(batch.clone());
        self.in_flight_commit = self.commit;
        self.has_waiters = false;
        BatchGuard(batch)
    }

    /// The flush has ended. Returns the changes that become visible.
    pub(crate) fn finish_flush(&mut self) -> Vec<Change> {
        self.flushed = self.flushed.max(self.in_flight_commit);
        self.in_flight_batch = None;
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
        is_used.then(|| BatchGuard(std::mem::replace(&mut self.write_batch, Batch::new(0))))
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

    /// Gives the calls that wait for the next flush a new batch with the same number. Returns the
    /// batch so far.
    pub(crate) fn replace_batch(&mut self) -> Arc<Batch> {
        self.has_waiters = false;
        let next = Batch::new(self.batch.number);
        std::mem::replace(&mut self.batch, next)
    }

    /// Whether there is something to commit or to flush.
    pub(crate) fn is_dirty(&self) -> bool {
        let covered = self.in_flight_batch.as_ref().map_or(0, |_| self.in_flight_commit);
        self.has_unlogged() || !self.changes.is_empty() || self.commit > self.flushed.max(covered)
    }

    /// The size of the edits that the database does not have, in bytes.
    pub(crate) fn bytes_above_database(&self) -> usize {
        let checkpoint = self.checkpoint.iter().flat_map(|running| running.edits.layers());
        let in_checkpoint: usize = checkpoint.map(Overlay::bytes).sum();
        self.active.bytes() + self.logged.bytes() + in_checkpoint
    }

    /// A copy of the edits that the database does not have. They are few in an idle period.
    pub(crate) fn edits_above_database(&self) -> Overlay {
        let mut all = Overlay::default();
        let checkpoint = self.checkpoint.iter().flat_map(|running| running.edits.layers().rev());
        for layer in checkpoint.chain([&self.logged, &self.active]) {
            all.absorb(&mut layer.clone());
        }
        all
    }

    /// The batch whose flush is in progress.
    pub(crate) fn in_flight_batch(&self) -> Option<&Arc<Batch>> {
        self.in_flight_batch.as_ref()
    }

    /// The edit of a row that the database does not have: `None` without one, `Some(None)` if the
    /// row is removed.
    pub(crate) fn lookup(&self, table: Table, key: &[u8]) -> Option<Option<&Value>> {
        let below = || {
            let mut layers = self.checkpoint.iter().flat_map(|running| running.edits.layers());
            layers.find_map(|layer| layer.get(table, key))
        };
        self.active.get(table, key).or_else(|| self.logged.get(table, key)).or_else(below)
    }

    /// Moves `earliest_due` and the cursor back to a due that was written at `time`.
    pub(crate) fn include_due(&mut self, time: u64) {
        self.earliest_due = self.earliest_due.min(time);
        let key = keys::due(time, 0, 0);
        if key < self.due_cursor {
            self.due_cursor = key;
        }
    }

    /// The rows of the database, and the overlays above them, the uppermost first.
    fn split(&mut self) -> (EngineRows<'_>, Vec<&Overlay>) {
        let WriteBuffer { engine, snapshot, read_error, active, logged, checkpoint, .. } = self;
        let mut overlays = vec![&*active, &*logged];
        overlays.extend(checkpoint.iter().flat_map(|running| running.edits.layers()));
        (EngineRows { engine, snapshot, read_error }, overlays)
    }
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
        if let Some(edit) = self.lookup(table, key) {
            return Ok(edit.cloned());
        }
        let WriteBuffer { engine, snapshot, read_error, .. } = self;
        EngineRows { engine, snapshot, read_error }.read(|snapshot| snapshot.get(table, key))
    }

    fn scan(&mut self, table: Table, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Row>> {
        let (mut below, overlays) = self.split();
        scan_over(&overlays, table, (from, to), limit, |from, to, limit| {
            below.read(|snapshot| snapshot.scan(table, from, to, limit))
        })
    }
}

impl Rows for WriteBuffer {
    fn insert(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.active.insert(table, key, value);
    }

    fn replace(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.active.replace(table, key, value);
    }

    fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.active.remove(table, key);
    }
}
