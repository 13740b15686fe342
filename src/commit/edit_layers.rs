//! The edits above a database, in layers: those of the present calls, those that the journal has,
//! and those of the checkpoint on its way into the database.
//!
//! Invariant: one checkpoint runs at a time. While it has edits that the journal does not have, no
//! commit goes to the journal, since it would be there without the one before it.

use std::sync::Arc;

use tubewell_drivers::{Table, Value};

use crate::storage::{Appended, Checkpoint, Journal, Overlay, Turn};

/// With more logged edits than this, a checkpoint begins, even if the journal has space. Large
/// checkpoints cost less: in a tube with sub-queues each row is on another page of the database.
const CHECKPOINT_ROWS: usize = 16_384;

/// The edits that a database does not have, and the numbers of the commits with them.
#[derive(Default)]
pub(crate) struct EditLayers {
    /// Edits that are decided and in no commit yet.
    pub(crate) active: Overlay,
    /// The active edits of earlier calls, while a call edits several tasks: see `begin_call`.
    held: Option<Overlay>,
    /// The edits that the journal has.
    logged: Overlay,
    /// Edits on their way into the database. They stay above it until the checkpoint has finished,
    /// since snapshots may or may not have them.
    checkpoint: Option<RunningCheckpoint>,
    /// A transaction of the application has the database: no checkpoint can begin.
    pub(crate) is_reserved: bool,
    /// The number of the last commit: it is in the journal or on its way into the database.
    commit: u64,
    /// The number of the last commit that is flushed.
    flushed: u64,
    /// The number of the last commit that the database has.
    in_database: u64,
    /// The number of rows that commits have written.
    rows: u64,
}

/// A checkpoint, from its begin until its edits are in the database.
struct RunningCheckpoint {
    edits: Checkpoint,
    /// The number of the last commit in it.
    commit: u64,
    stage: Stage,
}

/// How far a checkpoint is, and what may happen beside it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    /// No thread has begun to write it. The journal has all its edits.
    Waiting,
    /// A thread writes it. The journal has all its edits.
    Logged,
    /// A thread writes it. It has edits that the journal does not have, so no commit may go to the
    /// journal before it ends.
    Direct,
}

/// Where a commit has gone.
pub(crate) enum Logged {
    /// Into the journal, as the record with this number or before it.
    Record(u64),
    /// On its way into the database: the caller writes the checkpoint.
    Direct(Checkpoint),
}

/// A record that is in the journal and is to be written.
pub(crate) type LoggedRecord = (Arc<Journal>, u64);

/// The edits that `hide_transaction` has taken.
#[cfg(feature = "redb")]
pub(crate) struct HiddenEdits {
    transaction: Option<Arc<Overlay>>,
    active: Overlay,
}

impl EditLayers {
    /// No edits above a database with this commit.
    pub(crate) fn above(commit: u64) -> EditLayers {
        EditLayers { commit, flushed: commit, in_database: commit, ..EditLayers::default() }
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

    /// The number of the last commit.
    pub(crate) fn last_commit(&self) -> u64 {
        self.commit
    }

    /// The number of the commit that will have the edits of the present call.
    pub(crate) fn next_commit(&self) -> u64 {
        self.commit + 1
    }

    /// The number of the last commit that is flushed.
    pub(crate) fn flushed_commit(&self) -> u64 {
        self.flushed
    }

    /// The commits up to this one are flushed.
    pub(crate) fn note_flushed(&mut self, commit: u64) {
        self.flushed = self.flushed.max(commit);
    }

    /// The number of rows that commits have written.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Begins a call whose edits are made all or not at all: they have a layer of their own.
    pub(crate) fn begin_call(&mut self) {
        self.held = Some(std::mem::take(&mut self.active));
    }

    /// Ends a call that `begin_call` has begun, with its edits or without.
    pub(crate) fn end_call(&mut self, with_edits: bool) {
        let Some(mut held) = self.held.take() else { return };
        if with_edits && !held.is_empty() {
            held.absorb(&mut self.active);
        }
        if !with_edits || !held.is_empty() {
            self.active = held;
        }
    }

    /// Moves the active edits into a record of the journal. `None` if they must go to the database,
    /// or if a checkpoint must end first.
    pub(crate) fn log(&mut self, journal: &Journal) -> Option<u64> {
        let turn = match &self.checkpoint {
            Some(running) if running.stage == Stage::Direct => return None,
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
            Appended::Full | Appended::Direct => return None,
        };
        self.rows += self.active.len() as u64;
        self.commit += 1;
        self.logged.absorb(&mut self.active);
        Some(number)
    }

    /// Moves the logged and the active edits into a checkpoint that the caller writes. `None` if
    /// another one must end first.
    pub(crate) fn log_directly(&mut self, last_record: u64) -> Option<Checkpoint> {
        if self.is_checkpointing() {
            return None;
        }
        self.rows += self.active.len() as u64;
        self.commit += 1;
        let mut edits = Checkpoint::up_to(last_record);
        edits.push_logged(std::mem::take(&mut self.logged));
        edits.push(std::mem::take(&mut self.active));
        self.set_checkpoint(edits.clone(), Stage::Direct);
        Some(edits)
    }

    /// Whether there are edits that the journal has and the database has not.
    #[cfg(feature = "redb")]
    pub(crate) fn has_logged(&self) -> bool {
        !self.logged.is_empty()
    }

    /// Moves all edits into a checkpoint that is written with the transaction of the application:
    /// those of a checkpoint that waits, the logged ones, those of other calls, and as its last
    /// layer those since `begin_call`.
    #[cfg(feature = "redb")]
    pub(crate) fn log_with_transaction(&mut self, last_record: u64) -> Checkpoint {
        let others = self.held.take().unwrap_or_default();
        self.rows += (others.len() + self.active.len()) as u64;
        self.commit += 1;
        let waiting = self.checkpoint.take().map(|running| running.edits);
        let mut edits = waiting.unwrap_or_default();
        edits.last_record = last_record;
        edits.push_logged(std::mem::take(&mut self.logged));
        edits.push(others);
        edits.push(std::mem::take(&mut self.active));
        self.set_checkpoint(edits.clone(), Stage::Direct);
        edits
    }

    /// Takes the edits of a transaction whose commit has failed, and those above them, out of the
    /// way of reads.
    #[cfg(feature = "redb")]
    pub(crate) fn hide_transaction(&mut self) -> HiddenEdits {
        let transaction = self.checkpoint.as_mut().and_then(|running| running.edits.pop());
        HiddenEdits { transaction, active: std::mem::take(&mut self.active) }
    }

    /// Puts back what `hide_transaction` has taken.
    #[cfg(feature = "redb")]
    pub(crate) fn show_transaction(&mut self, hidden: HiddenEdits) {
        self.active = hidden.active;
        if let (Some(running), Some(edits)) = (&mut self.checkpoint, hidden.transaction) {
            running.edits.push_shared(edits);
        }
    }

    /// Moves the active edits into the checkpoint that repeats failed commits, as a commit of their
    /// own. Returns all of it.
    #[cfg(feature = "redb")]
    pub(crate) fn log_into_checkpoint(&mut self) -> Checkpoint {
        self.rows += self.active.len() as u64;
        self.commit += 1;
        let mut edits = self.checkpoint.take().map(|running| running.edits).unwrap_or_default();
        edits.push(std::mem::take(&mut self.active));
        self.set_checkpoint(edits.clone(), Stage::Direct);
        edits
    }

    /// Begins a checkpoint of the logged edits, up to this record. Another thread writes it.
    fn begin_checkpoint(&mut self, last_record: u64) {
        let mut edits = Checkpoint::up_to(last_record);
        edits.push_logged(std::mem::take(&mut self.logged));
        self.set_checkpoint(edits, Stage::Waiting);
    }

    fn set_checkpoint(&mut self, edits: Checkpoint, stage: Stage) {
        self.checkpoint = Some(RunningCheckpoint { edits, commit: self.commit, stage });
    }

    /// Begins a checkpoint of everything in the journal, which the caller writes. `None` if the
    /// database has it all. No other checkpoint may run.
    pub(crate) fn checkpoint_now(&mut self, last_record: u64) -> Option<Checkpoint> {
        if self.logged.is_empty() {
            return None;
        }
        self.begin_checkpoint(last_record);
        self.take_waiting_checkpoint()
    }

    /// The checkpoint that no thread has begun to write. The caller writes it.
    pub(crate) fn take_waiting_checkpoint(&mut self) -> Option<Checkpoint> {
        if self.is_reserved {
            return None;
        }
        let running = self.checkpoint.as_mut().filter(|it| it.stage == Stage::Waiting)?;
        running.stage = Stage::Logged;
        Some(running.edits.clone())
    }

    /// Whether a checkpoint waits for a thread that writes it.
    pub(crate) fn has_waiting_checkpoint(&self) -> bool {
        !self.is_reserved
            && self.checkpoint.as_ref().is_some_and(|running| running.stage == Stage::Waiting)
    }

    /// Whether a checkpoint runs that has edits which the journal does not have.
    pub(crate) fn is_direct_checkpoint_running(&self) -> bool {
        self.checkpoint.as_ref().is_some_and(|running| running.stage == Stage::Direct)
    }

    /// Whether no checkpoint can begin: the edits of another are not in the database yet, or a
    /// transaction has it.
    pub(crate) fn is_checkpointing(&self) -> bool {
        self.is_reserved || self.checkpoint.is_some()
    }

    /// The checkpoint is in the database and flushed. The caller drops its edits without the lock.
    pub(crate) fn finish_checkpoint(&mut self) -> Option<Checkpoint> {
        let finished = self.checkpoint.take()?;
        self.in_database = finished.commit;
        self.note_flushed(finished.commit);
        Some(finished.edits)
    }

    /// Moves all commits that the database may not have into one checkpoint, after a failure.
    /// Returns it, and the numbers of the first and the last commit with which the database may end.
    pub(crate) fn begin_restore(&mut self, last_record: u64) -> (Checkpoint, (u64, u64)) {
        let mut edits = self.checkpoint.take().map_or_else(Checkpoint::default, |it| it.edits);
        edits.last_record = last_record;
        edits.push(std::mem::take(&mut self.logged));
        // The journal may not have what it was given.
        edits.logged = 0;
        self.set_checkpoint(edits.clone(), Stage::Direct);
        (edits, (self.in_database, self.commit))
    }

    /// All layers, the uppermost first.
    pub(crate) fn all(&self) -> impl DoubleEndedIterator<Item = &Overlay> {
        let checkpoint = self.checkpoint.iter().flat_map(|running| running.edits.layers());
        let active = [&self.active].into_iter().chain(&self.held);
        active.chain([&self.logged]).chain(checkpoint)
    }

    /// The edit of a row: `None` without one, `Some(None)` if the row is removed.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Option<&Value>> {
        self.all().find_map(|layer| layer.get(table, key))
    }

    /// The size of all edits, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.all().map(Overlay::bytes).sum()
    }

    /// A copy of all edits. They are few in an idle period.
    pub(crate) fn merged(&self) -> Overlay {
        let mut all = Overlay::default();
        self.all().rev().for_each(|layer| all.absorb(&mut layer.clone()));
        all
    }
}
