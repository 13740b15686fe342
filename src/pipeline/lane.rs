//! A lane: one engine, and what is decided over it but not yet committed.
//!
//! The file has a lane, and the memory that holds the temporary tubes has one. Reads see the
//! pending edits, under them those in flight, under them the engine.

use std::collections::BTreeSet;
use std::sync::Arc;

use tubewell_drivers::{Reads, Row, Rows, Table, Value, keys};

use super::batch::{Batch, Led};
use crate::core::{Cause, Change};
use crate::storage::{Engine, Layer, Snapshot, scan_over};
use crate::{Error, Result};

/// One engine and the edits over it.
pub(crate) struct Lane {
    engine: Option<Arc<Engine>>,
    /// Opened by the first read of a call and dropped at its end: an old snapshot would keep
    /// every freed page.
    snapshot: Option<Snapshot>,
    /// A read met a storage that fails: the store is to hear of it at the end of the call.
    pub(crate) broken: Option<Error>,
    pub(crate) pending: Layer,
    /// Being written by a leader; still laid over the engine, whose snapshots may or may not
    /// have it.
    in_flight: Option<Arc<Layer>>,
    /// Rows that went into commits.
    pub(crate) rows: u64,
    /// The calls whose edits are pending.
    pub(crate) batch: Arc<Batch>,
    /// What becomes visible with the pending batch.
    pub(crate) changes: Vec<Change>,
    /// What becomes visible with the one in flight, and its number.
    pub(crate) changes_in_flight: Vec<Change>,
    flying: Option<Arc<Batch>>,
    /// Somebody leads a commit, or has been asked to.
    pub(crate) led: bool,
    /// The last leader left the next commit to the writer thread.
    pub(crate) handed: bool,
    /// Somebody waits for the pending batch.
    pub(crate) wanted: bool,
    /// When the pending edits are to be flushed at the latest, on running time.
    pub(crate) flush_by: Option<u64>,
    /// Tubes whose counts the next commit writes.
    pub(crate) recounted: BTreeSet<u32>,
    /// No due in the engine or over it is earlier than this.
    pub(crate) earliest_due: u64,
    /// Every due before this key has been dealt with.
    pub(crate) due_cursor: Vec<u8>,
}

impl Lane {
    pub(crate) fn new(engine: Option<Arc<Engine>>, commit: u64) -> Lane {
        Lane {
            engine,
            snapshot: None,
            broken: None,
            pending: Layer::default(),
            in_flight: None,
            rows: 0,
            batch: Batch::new(commit + 1),
            changes: Vec::new(),
            changes_in_flight: Vec::new(),
            flying: None,
            led: false,
            handed: false,
            wanted: false,
            flush_by: None,
            recounted: BTreeSet::new(),
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
    pub(crate) fn launch(&mut self) -> (Arc<Layer>, Led) {
        debug_assert!(self.in_flight.is_none(), "one commit at a time");
        let layer = Arc::new(std::mem::take(&mut self.pending));
        self.rows += layer.len() as u64;
        let next = Batch::new(self.batch.number + 1);
        let batch = std::mem::replace(&mut self.batch, next);
        self.changes_in_flight = std::mem::take(&mut self.changes);
        self.in_flight = Some(layer.clone());
        self.flying = Some(batch.clone());
        self.wanted = false;
        (layer, Led(batch))
    }

    /// The commit is in the engine: its edits need not be laid over any more. Returns what
    /// becomes visible.
    pub(crate) fn land(&mut self) -> Vec<Change> {
        self.in_flight = None;
        self.flying = None;
        self.snapshot = None;
        std::mem::take(&mut self.changes_in_flight)
    }

    /// Takes back what the writer thread was asked to lead and has not begun.
    pub(crate) fn recall(&mut self) {
        if std::mem::take(&mut self.handed) {
            self.led = false;
        }
    }

    /// Gives the pending edits a batch with nobody in it; returns those who waited so far.
    pub(crate) fn renew_batch(&mut self) -> Arc<Batch> {
        self.wanted = false;
        let next = Batch::new(self.batch.number);
        std::mem::replace(&mut self.batch, next)
    }

    /// Whether there is something to commit. What came and went leaves counts to write at least:
    /// its receipts name this commit.
    pub(crate) fn is_dirty(&self) -> bool {
        !(self.pending.is_empty() && self.recounted.is_empty() && self.changes.is_empty())
    }

    /// The edits in flight.
    pub(crate) fn in_flight(&self) -> Option<Arc<Layer>> {
        self.in_flight.clone()
    }

    /// Bytes that are decided but not yet in the engine.
    pub(crate) fn unwritten(&self) -> usize {
        self.pending.bytes() + self.in_flight.as_ref().map_or(0, |layer| layer.bytes())
    }

    /// The batch in flight.
    pub(crate) fn flying(&self) -> Option<&Arc<Batch>> {
        self.flying.as_ref()
    }

    /// What is laid over the engine says of a row.
    pub(crate) fn overlaid(&self, table: Table, key: &[u8]) -> Option<Option<&Value>> {
        self.pending
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
    fn split(&mut self) -> (Below<'_>, [Option<&Layer>; 2]) {
        let Lane { engine, snapshot, broken, pending, in_flight, .. } = self;
        (Below { engine, snapshot, broken }, [Some(pending), in_flight.as_deref()])
    }
}

/// The rows under the edits of a lane.
struct Below<'a> {
    engine: &'a Option<Arc<Engine>>,
    snapshot: &'a mut Option<Snapshot>,
    broken: &'a mut Option<Error>,
}

impl Below<'_> {
    fn read<T>(&mut self, read: impl FnOnce(&mut Snapshot) -> Result<T>) -> Result<T> {
        let found = match self.snapshot {
            Some(snapshot) => read(snapshot),
            None => match self.engine.as_ref().ok_or(Error::Closed)?.snapshot() {
                Ok(snapshot) => read(self.snapshot.insert(snapshot)),
                Err(error) => Err(error),
            },
        };
        if let Err(error) = &found
            && Cause::from(error) == Cause::Storage
        {
            self.broken.get_or_insert_with(|| error.clone());
        }
        found
    }
}

impl Reads for Lane {
    type Error = Error;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>> {
        match self.overlaid(table, key) {
            Some(edit) => Ok(edit.cloned()),
            None => self.split().0.read(|snapshot| snapshot.get(table, key)),
        }
    }

    fn scan(&mut self, table: Table, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Row>> {
        let (mut below, layers) = self.split();
        let layers: Vec<&Layer> = layers.into_iter().flatten().collect();
        scan_over(&layers, table, (from, to), limit, |from, to, limit| {
            below.read(|snapshot| snapshot.scan(table, from, to, limit))
        })
    }
}

impl Rows for Lane {
    fn insert(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.pending.insert(table, key, value);
    }

    fn replace(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.pending.replace(table, key, value);
    }

    fn remove(&mut self, table: Table, key: Vec<u8>) {
        self.pending.remove(table, key);
    }
}
