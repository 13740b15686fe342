//! A write buffer: one engine, and the edits that are decided but not yet committed to it.
//!
//! There is one for the file and one for the memory of the temporary tubes. Reads see the active
//! edits, below them the edits in flight, below them the engine.
//!
//! Invariants: one commit is in flight at a time. No snapshot outlives a call.

use std::collections::BTreeSet;
use std::sync::Arc;

use tubewell_drivers::{Reads, Row, Rows, Table, Value, keys};

use super::batch::{Batch, BatchGuard};
use super::change::Change;
use crate::storage::{Engine, FailureCause, Overlay, Snapshot, scan_over};
use crate::{Error, Result};

/// One engine, and the edits above it.
pub(crate) struct WriteBuffer {
    engine: Option<Arc<Engine>>,
    /// Taken by the first read of a call and dropped at the end of the call: a snapshot keeps every
    /// page that is freed.
    snapshot: Option<Snapshot>,
    /// The first error of the storage that a read got. The store handles it at the end of the call.
    pub(crate) read_error: Option<Error>,
    pub(crate) active: Overlay,
    /// Being written by a leader. Stays above the engine until the commit has finished, since the
    /// engine's snapshots may or may not have it.
    in_flight: Option<Arc<Overlay>>,
    /// The number of rows that commits have written.
    pub(crate) rows: u64,
    /// The calls whose edits are active.
    pub(crate) batch: Arc<Batch>,
    /// The changes that become visible with the active edits.
    pub(crate) changes: Vec<Change>,
    /// The changes that become visible with the edits in flight.
    pub(crate) changes_in_flight: Vec<Change>,
    in_flight_batch: Option<Arc<Batch>>,
    /// A thread leads a commit, or has been asked to.
    pub(crate) has_leader: bool,
    /// The last leader left the next commit to the writer thread.
    pub(crate) left_to_writer: bool,
    /// A call waits for the active edits to be committed.
    pub(crate) has_waiters: bool,
    /// The latest time at which the active edits are flushed, on running time.
    pub(crate) flush_by: Option<u64>,
    /// The tubes whose counts the next commit writes.
    pub(crate) dirty_counts: BTreeSet<u32>,
    /// No due is earlier than this.
    pub(crate) earliest_due: u64,
    /// Every due before this key has been handled.
    pub(crate) due_cursor: Vec<u8>,
}

impl WriteBuffer {
    pub(crate) fn new(engine: Option<Arc<Engine>>, commit: u64) -> WriteBuffer {
        WriteBuffer {
            engine,
            snapshot: None,
            read_error: None,
            active: Overlay::default(),
            in_flight: None,
            rows: 0,
            batch: Batch::new(commit + 1),
            changes: Vec::new(),
            changes_in_flight: Vec::new(),
            in_flight_batch: None,
            has_leader: false,
            left_to_writer: false,
            has_waiters: false,
            flush_by: None,
            dirty_counts: BTreeSet::new(),
            earliest_due: 0,
            due_cursor: Vec::new(),
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

    /// Moves the active edits into flight, and begins a new batch.
    pub(crate) fn begin_commit(&mut self) -> (Arc<Overlay>, BatchGuard) {
        debug_assert!(self.in_flight.is_none(), "one commit is in flight at a time");
        let edits = Arc::new(std::mem::take(&mut self.active));
        self.rows += edits.len() as u64;
        let next = Batch::new(self.batch.number + 1);
        let batch = std::mem::replace(&mut self.batch, next);
        self.changes_in_flight = std::mem::take(&mut self.changes);
        self.in_flight = Some(edits.clone());
        self.in_flight_batch = Some(batch.clone());
        self.has_waiters = false;
        (edits, BatchGuard(batch))
    }

    /// Drops the edits in flight, once they are in the engine. Returns the changes that become
    /// visible.
    pub(crate) fn finish_commit(&mut self) -> Vec<Change> {
        self.in_flight = None;
        self.in_flight_batch = None;
        self.snapshot = None;
        std::mem::take(&mut self.changes_in_flight)
    }

    /// Takes back a commit that was left to the writer thread and that it has not begun.
    pub(crate) fn reclaim_lead(&mut self) {
        if std::mem::take(&mut self.left_to_writer) {
            self.has_leader = false;
        }
    }

    /// Gives the active edits a new batch with the same number. Returns the batch so far.
    pub(crate) fn replace_batch(&mut self) -> Arc<Batch> {
        self.has_waiters = false;
        let next = Batch::new(self.batch.number);
        std::mem::replace(&mut self.batch, next)
    }

    /// Whether there is something to commit. Edits that cancel each other leave counts at least:
    /// their receipts name this commit.
    pub(crate) fn is_dirty(&self) -> bool {
        !(self.active.is_empty() && self.dirty_counts.is_empty() && self.changes.is_empty())
    }

    /// The edits in flight.
    pub(crate) fn in_flight(&self) -> Option<Arc<Overlay>> {
        self.in_flight.clone()
    }

    /// The size of the edits that are not yet in the engine, in bytes.
    pub(crate) fn uncommitted_bytes(&self) -> usize {
        self.active.bytes() + self.in_flight.as_ref().map_or(0, |edits| edits.bytes())
    }

    /// The batch in flight.
    pub(crate) fn in_flight_batch(&self) -> Option<&Arc<Batch>> {
        self.in_flight_batch.as_ref()
    }

    /// The uncommitted edit of a row: `None` without one, `Some(None)` if the row is removed.
    pub(crate) fn lookup(&self, table: Table, key: &[u8]) -> Option<Option<&Value>> {
        self.active
            .get(table, key)
            .or_else(|| self.in_flight.as_ref().and_then(|edits| edits.get(table, key)))
    }

    /// Moves `earliest_due` and the cursor back to a due that was written at `time`.
    pub(crate) fn include_due(&mut self, time: u64) {
        self.earliest_due = self.earliest_due.min(time);
        let key = keys::due(time, 0, 0);
        if key < self.due_cursor {
            self.due_cursor = key;
        }
    }

    /// The rows of the engine, and the overlays above them, the uppermost first.
    fn split(&mut self) -> (EngineRows<'_>, [Option<&Overlay>; 2]) {
        let WriteBuffer { engine, snapshot, read_error, active, in_flight, .. } = self;
        (EngineRows { engine, snapshot, read_error }, [Some(active), in_flight.as_deref()])
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
        match self.lookup(table, key) {
            Some(edit) => Ok(edit.cloned()),
            None => self.split().0.read(|snapshot| snapshot.get(table, key)),
        }
    }

    fn scan(&mut self, table: Table, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Row>> {
        let (mut below, overlays) = self.split();
        let overlays: Vec<&Overlay> = overlays.into_iter().flatten().collect();
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
