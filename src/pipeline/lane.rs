//! A lane: one engine, and what is decided over it but not yet committed.
//!
//! The file has a lane, and the memory that holds the temporary tubes has one. Reads see the
//! pending edits, under them those in flight, under them the engine.

use std::collections::HashSet;
use std::sync::Arc;

use tubewell_drivers::{Reads, Row, Rows, Table, Value, keys};

use super::batch::Batch;
use super::overlay::Layer;
use crate::core::{Cause, Change};
use crate::storage::{Engine, Snapshot};
use crate::{Error, Result};

/// Rows that are read at first when edits hide what was found; doubled as long as they do.
const SCAN_STEP: usize = 16;

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
    pub(crate) recounted: HashSet<u32>,
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
            recounted: HashSet::new(),
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
    pub(crate) fn launch(&mut self) -> (Arc<Layer>, Arc<Batch>) {
        debug_assert!(self.in_flight.is_none(), "one commit at a time");
        let layer = Arc::new(std::mem::take(&mut self.pending));
        self.rows += layer.len() as u64;
        let next = Batch::new(self.batch.number + 1);
        let batch = std::mem::replace(&mut self.batch, next);
        self.changes_in_flight = std::mem::take(&mut self.changes);
        self.in_flight = Some(layer.clone());
        self.flying = Some(batch.clone());
        self.wanted = false;
        (layer, batch)
    }

    /// The commit is in the engine: its edits need not be laid over any more. Returns what
    /// becomes visible.
    pub(crate) fn land(&mut self) -> Vec<Change> {
        self.in_flight = None;
        self.flying = None;
        self.snapshot = None;
        std::mem::take(&mut self.changes_in_flight)
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

    fn read<T>(&mut self, read: impl FnOnce(&mut Snapshot) -> Result<T>) -> Result<T> {
        let found = match &mut self.snapshot {
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

    /// Lays the edits between two keys over the rows that the engine has there.
    fn merge(
        &self,
        table: Table,
        from: &[u8],
        to: &[u8],
        rows: Vec<Row>,
        limit: usize,
        out: &mut Vec<Row>,
    ) {
        let mut top = self.pending.range(table, from, to).peekable();
        let mut middle =
            self.in_flight.iter().flat_map(|layer| layer.range(table, from, to)).peekable();
        let mut bottom = rows.into_iter().peekable();
        while out.len() < limit {
            let key = [
                top.peek().map(|(key, _)| *key),
                middle.peek().map(|(key, _)| *key),
                bottom.peek().map(|(key, _)| key.as_slice()),
            ];
            let Some(least) = key.into_iter().flatten().min().map(<[u8]>::to_vec) else { return };
            let below = bottom.next_if(|(key, _)| *key == least);
            let between = middle.next_if(|(key, _)| *key == least);
            let above = top.next_if(|(key, _)| *key == least);
            let value = match above.or(between) {
                Some((_, edit)) => edit.cloned(),
                None => below.map(|(_, value)| value),
            };
            out.extend(value.map(|value| (least, value)));
        }
    }
}

impl Reads for Lane {
    type Error = Error;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>> {
        match self.overlaid(table, key) {
            Some(edit) => Ok(edit.cloned()),
            None => self.read(|snapshot| snapshot.get(table, key)),
        }
    }

    fn scan(&mut self, table: Table, from: &[u8], to: &[u8], limit: usize) -> Result<Vec<Row>> {
        let mut out = Vec::new();
        let mut from = from.to_vec();
        let mut step = limit;
        while out.len() < limit {
            let rows = self.read(|snapshot| snapshot.scan(table, &from, to, step))?;
            let end =
                if rows.len() < step { None } else { rows.last().map(|(key, _)| keys::after(key)) };
            self.merge(table, &from, end.as_deref().unwrap_or(to), rows, limit, &mut out);
            match end {
                None => break,
                Some(end) => from = end,
            }
            // What was found is hidden by edits: look further, in larger steps.
            step = step.max(SCAN_STEP).saturating_mul(2).min(1024);
        }
        Ok(out)
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
