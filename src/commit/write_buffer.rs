//! A lane: one engine, and what is decided over it but not yet committed.
//!
//! The file has a lane, and the memory that holds the temporary tubes has one. Reads see the
//! pending edits, under them those in flight, under them the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use tubewell_drivers::{Reads, Row, Rows, Table, Value, keys};

use super::batch::{Batch, BatchGuard};
use super::change::Change;
use crate::storage::{Engine, FailureCause, Overlay, Snapshot, scan_over};
use crate::{Error, Result};

/// One engine and the edits over it.
pub(crate) struct WriteBuffer {
    engine: Option<Arc<Engine>>,
    /// Opened by the first read of a call and dropped at its end: an old snapshot would keep
    /// every freed page.
    snapshot: Option<Snapshot>,
    /// A read met a storage that fails: the store is to hear of it at the end of the call.
    pub(crate) broken: Option<Error>,
    pub(crate) active: Overlay,
    /// Being written by a leader; still laid over the engine, whose snapshots may or may not
    /// have it.
    in_flight: Option<Arc<Overlay>>,
    /// Rows that went into commits.
    pub(crate) rows: u64,
    /// The calls whose edits are pending.
    pub(crate) batch: Arc<Batch>,
    /// What becomes visible with the pending batch.
    pub(crate) changes: Vec<Change>,
    /// What becomes visible with the one in flight, and its number.
    pub(crate) changes_in_flight: Vec<Change>,
    in_flight_batch: Option<Arc<Batch>>,
    /// Somebody leads a commit, or has been asked to.
    pub(crate) has_leader: bool,
    /// The last leader left the next commit to the writer thread.
    pub(crate) left_to_writer: bool,
    /// Somebody waits for the pending batch.
    pub(crate) has_waiters: bool,
    /// When the pending edits are to be flushed at the latest, on running time.
    pub(crate) flush_by: Option<u64>,
    /// Tubes whose counts the next commit writes.
    pub(crate) dirty_counts: BTreeSet<u32>,
    /// No due in the engine or over it is earlier than this.
    pub(crate) earliest_due: u64,
    /// Every due before this key has been dealt with.
    pub(crate) due_cursor: Vec<u8>,
}

impl WriteBuffer {
    pub(crate) fn new(engine: Option<Arc<Engine>>, commit: u64) -> WriteBuffer {
        WriteBuffer {
            engine,
            snapshot: None,
            broken: None,
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

    /// Ends the reads of a call.
    pub(crate) fn end_call(&mut self) {
        self.snapshot = None;
    }

    /// Moves the pending edits into flight and opens a new batch.
    pub(crate) fn begin_commit(&mut self) -> (Arc<Overlay>, BatchGuard) {
        debug_assert!(self.in_flight.is_none(), "one commit at a time");
        let layer = Arc::new(std::mem::take(&mut self.active));
        self.rows += layer.len() as u64;
        let next = Batch::new(self.batch.number + 1);
        let batch = std::mem::replace(&mut self.batch, next);
        self.changes_in_flight = std::mem::take(&mut self.changes);
        self.in_flight = Some(layer.clone());
        self.in_flight_batch = Some(batch.clone());
        self.has_waiters = false;
        (layer, BatchGuard(batch))
    }

    /// The commit is in the engine: its edits need not be laid over any more. Returns what
    /// becomes visible.
    pub(crate) fn finish_commit(&mut self) -> Vec<Change> {
        self.in_flight = None;
        self.in_flight_batch = None;
        self.snapshot = None;
        std::mem::take(&mut self.changes_in_flight)
    }

    /// Takes back what the writer thread was asked to lead and has not begun.
    pub(crate) fn reclaim_lead(&mut self) {
        if std::mem::take(&mut self.left_to_writer) {
            self.has_leader = false;
        }
    }

    /// Gives the pending edits a batch with nobody in it; returns those who waited so far.
    pub(crate) fn renew_batch(&mut self) -> Arc<Batch> {
        self.has_waiters = false;
        let next = Batch::new(self.batch.number);
        std::mem::replace(&mut self.batch, next)
    }

    /// Whether there is something to commit. What came and went leaves counts to write at least:
    /// its receipts name this commit.
    pub(crate) fn is_dirty(&self) -> bool {
        !(self.active.is_empty() && self.dirty_counts.is_empty() && self.changes.is_empty())
    }

    /// The edits in flight.
    pub(crate) fn in_flight(&self) -> Option<Arc<Overlay>> {
        self.in_flight.clone()
    }

    /// Bytes that are decided but not yet in the engine.
    pub(crate) fn uncommitted_bytes(&self) -> usize {
        self.active.bytes() + self.in_flight.as_ref().map_or(0, |layer| layer.bytes())
    }

    /// The batch in flight.
    pub(crate) fn in_flight_batch(&self) -> Option<&Arc<Batch>> {
        self.in_flight_batch.as_ref()
    }

    /// What is laid over the engine says of a row.
    pub(crate) fn lookup(&self, table: Table, key: &[u8]) -> Option<Option<&Value>> {
        self.active
            .get(table, key)
            .or_else(|| self.in_flight.as_ref().and_then(|layer| layer.get(table, key)))
    }

    /// A due was written at `time`: look there again.
    pub(crate) fn note_due(&mut self, time: u64) {
        self.earliest_due = self.earliest_due.min(time);
        let key = keys::due(time, 0, 0);
        if key < self.due_cursor {
            self.due_cursor = key;
        }
    }

    /// What is under the edits, and the edits, the latest first.
    fn split(&mut self) -> (EngineRows<'_>, [Option<&Overlay>; 2]) {
        let WriteBuffer { engine, snapshot, broken, active, in_flight, .. } = self;
        (EngineRows { engine, snapshot, broken }, [Some(active), in_flight.as_deref()])
    }
}

/// The rows under the edits of a lane.
struct EngineRows<'a> {
    engine: &'a Option<Arc<Engine>>,
    snapshot: &'a mut Option<Snapshot>,
    broken: &'a mut Option<Error>,
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
            self.broken.get_or_insert_with(|| error.clone());
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
        let (mut below, layers) = self.split();
        let layers: Vec<&Overlay> = layers.into_iter().flatten().collect();
        scan_over(&layers, table, (from, to), limit, |from, to, limit| {
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
