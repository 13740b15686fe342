//! The calls of a transaction of the application: all of them are decided together, or none.
//!
//! While the closure runs, a call is checked, and a put gets its id. After that all are checked
//! again and decided, under one hold of the lock: first the edits of rows, which may fail and are
//! taken back then, and after the last one the changes of memory, which cannot fail.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::sync::Arc;

use tubewell_drivers::{Found, Header, Shelf};

use super::keys::KeyLookUp;
use crate::base::tube_no::TubeNo;
use crate::commit::{BatchGuard, Change, Keeping, Visibility};
use crate::core::claims::Fate;
use crate::core::state::{Buffer, ClaimKey, Core, InDoubt, PutInto, PutRequest, TaskEnd, TaskOver};
use crate::core::verb::TubeName;
use crate::storage::Checkpoint;
use crate::{Ending, Error, EventKind, OnKey, Result, TaskState};

/// A call of a transaction.
#[derive(Debug)]
pub(crate) enum TransactionCall {
    Put { id: u64, into: PutInto },
    End { key: ClaimKey, end: TaskEnd },
    Delete { of: TubeName, id: u64 },
}

/// What the calls of a transaction so far mean for the next one.
#[derive(Debug, Default)]
pub(crate) struct CallsSoFar {
    puts: BTreeMap<TubeNo, u64>,
    /// The tasks whose claims end, and those that are deleted.
    ended: HashSet<u64>,
}

/// A call whose rows are edited.
enum Edited {
    Put(Change),
    Ack { key: ClaimKey, header: Header, keeping: Keeping, result: Option<Vec<u8>> },
    End { key: ClaimKey, kind: EventKind, fate: Fate },
    Delete { number: TubeNo, id: u64, found: Found },
}

impl Edited {
    /// The state of a task whose claim ends.
    fn state(&self) -> Option<(u64, TaskState)> {
        match self {
            Edited::Put(_) | Edited::Delete { .. } => None,
            Edited::Ack { key, .. } => Some((key.id, TaskState::Done)),
            Edited::End { key, fate, .. } => Some((key.id, TaskState::on_shelf(fate.shelf))),
        }
    }
}

impl TransactionCall {
    fn tube(&self) -> TubeNo {
        match self {
            TransactionCall::Put { into, .. } => into.tube,
            TransactionCall::End { key, .. } => key.tube,
            TransactionCall::Delete { of, .. } => of.number,
        }
    }

    /// The task whose claim ends, or that is deleted.
    fn ended_task(&self) -> Option<u64> {
        match self {
            TransactionCall::Put { .. } => None,
            TransactionCall::End { key, .. } => Some(key.id),
            TransactionCall::Delete { id, .. } => Some(*id),
        }
    }
}

impl CallsSoFar {
    /// Adds a call.
    pub(crate) fn note(&mut self, call: &TransactionCall) {
        match call {
            TransactionCall::Put { into, .. } => *self.puts.entry(into.tube).or_default() += 1,
            TransactionCall::End { .. } | TransactionCall::Delete { .. } => {
                self.ended.extend(call.ended_task());
            }
        }
    }

    /// How many tasks are put into a tube.
    pub(crate) fn puts_into(&self, tube: TubeNo) -> u64 {
        self.puts.get(&tube).copied().unwrap_or(0)
    }

    /// Whether the claim on a task ends, or the task is deleted.
    pub(crate) fn ends(&self, id: u64) -> bool {
        self.ended.contains(&id)
    }
}

impl Core {
    /// Checks puts of a transaction that has made these calls before. Returns the id of the first task;
    /// the others follow. The ids are used up even if the transaction is taken back.
    pub(crate) fn check_transaction_puts(
        &mut self,
        puts: &[PutInto],
        so_far: &CallsSoFar,
    ) -> Result<u64> {
        let mut with_them: BTreeMap<TubeNo, u64> = BTreeMap::new();
        for PutInto { tube, name, request } in puts {
            let before = so_far.puts_into(*tube) + with_them.get(tube).unwrap_or(&0);
            self.transaction_header((*tube, name), request, before)?;
            self.check_disk_space(*tube, request.body.len(), 1)?;
            if puts.len() > 1 {
                *with_them.entry(*tube).or_default() += 1;
            }
        }
        let first = self.ids.next();
        for _ in puts {
            self.note_id(self.ids.next(), false);
        }
        Ok(first)
    }

    /// Checks the end of a claim in a transaction.
    pub(crate) fn check_transaction_end(&mut self, key: ClaimKey, end: &TaskEnd) -> Result<()> {
        self.check_open()?;
        self.check_claim(key)?;
        self.check_no_waiting_children(key)?;
        let tube = self.tubes.get(key.tube).ok_or(Error::NotTaken { id: key.id })?;
        if tube.buffer == Buffer::Memory {
            return Err(refuse_temporary(&tube.definition.name));
        }
        if let Some(end) = end.as_end() {
            self.check_delay(key.tube, end)?;
        }
        if end.kind() == EventKind::Advance {
            return Err(Error::invalid(
                "a task cannot advance in a transaction: end it there, and put the next task with \
                 `Outcome::and_put`",
            ));
        }
        if let TaskEnd::Ack { result: Some(result) } = end {
            self.check_disk_space(key.tube, result.len(), 1)?;
        }
        Ok(())
    }

    /// Checks the delete of a task in a transaction that has made these calls before.
    pub(crate) fn check_transaction_delete(
        &mut self,
        of: &TubeName,
        id: u64,
        so_far: &CallsSoFar,
    ) -> Result<()> {
        self.check_open()?;
        if so_far.ends(id) {
            return Err(Error::NotFound { id });
        }
        self.find_deletable(of, id).map(drop)
    }

    /// Whether the disk has space for a transaction: as for a put.
    pub(crate) fn check_transaction(&mut self) -> Result<()> {
        self.check_open()?;
        self.check_space_in_file(0, 1)
    }

    /// Decides the calls of a transaction, all or none. Returns the states of the tasks whose claims end. The
    /// edits stay in a layer of their own until
    /// [`begin_transaction_commit`](Core::begin_transaction_commit).
    pub(crate) fn decide_transaction(
        &mut self,
        calls: Vec<TransactionCall>,
    ) -> Result<Vec<(u64, TaskState)>> {
        let first = self.buffers[Buffer::File].changes.len();
        let mut headers = self.check_transaction_calls(&calls)?.into_iter();
        let numbers: Vec<TubeNo> = calls.iter().map(TransactionCall::tube).collect();
        let ended: Vec<u64> = calls.iter().filter_map(TransactionCall::ended_task).collect();
        let over = calls.iter().filter_map(|call| self.task_over(call)).collect();
        let chores = self.chores.parents();
        let noted = self.waits.watches.noted_endings(&ended);
        self.undo.begin_transaction();
        let edited = self.edit_in_a_layer(Buffer::File, &numbers, |core| {
            let edited = calls.into_iter().map(|call| match call {
                TransactionCall::Put { id, into: PutInto { tube, request, .. } } => {
                    let header = headers.next().ok_or(Error::Closed)?;
                    Ok(Edited::Put(core.insert_of_transaction(tube, id, &request, header)?))
                }
                TransactionCall::End { key, end } => core.edit_end(key, end),
                TransactionCall::Delete { of, id } => core.edit_delete(&of, id),
            });
            edited.collect::<Result<Vec<Edited>>>()
        });
        match edited {
            Ok(edited) => {
                let states = edited.iter().filter_map(Edited::state).collect();
                self.publish_together(|core| {
                    for call in edited {
                        core.apply_transaction_call(call);
                    }
                });
                let counted = self.undo.end_transaction();
                let buffer = &self.buffers[Buffer::File];
                self.undo.in_doubt = Some(InDoubt {
                    commit: buffer.edits.next_commit(),
                    changes: first..buffer.changes.len(),
                    noted,
                    over,
                    waited_for: BTreeSet::new(),
                    chores,
                    counted,
                });
                Ok(states)
            }
            Err(error) => {
                self.undo.end_transaction();
                self.waits.watches.forget_endings(noted);
                Err(error)
            }
        }
    }

    /// Moves everything into a commit of the database, which the caller writes with the transaction
    /// of the application, and begins its flush.
    pub(crate) fn begin_transaction_commit(&mut self) -> (Checkpoint, BatchGuard) {
        self.begin_commit_with_transaction()
    }

    /// The commit of the transaction is in the file.
    pub(crate) fn end_transaction(&mut self) {
        if let Some(in_doubt) = self.undo.in_doubt.take() {
            self.transaction_holds(&in_doubt);
        }
    }

    /// A transaction is in the file, or will be.
    pub(in crate::core) fn transaction_holds(&mut self, in_doubt: &InDoubt) {
        self.free_waiting(in_doubt);
        for (number, counted) in &in_doubt.counted {
            self.count(*number, *counted);
        }
    }

    /// Refuses the end of a task that others wait for: what becomes of them could not be taken back.
    fn check_no_waiting_children(&mut self, key: ClaimKey) -> Result<()> {
        if !self.has_children(key.tube, key.id)? {
            return Ok(());
        }
        Err(Error::invalid(format!(
            "other tasks wait for task {}, so it cannot end in a transaction; end it after the \
             transaction",
            key.id
        )))
    }

    /// The task that a call acks or deletes.
    fn task_over(&self, call: &TransactionCall) -> Option<TaskOver> {
        let (number, id) = match call {
            TransactionCall::End { key, end: TaskEnd::Ack { .. } } => (key.tube, key.id),
            TransactionCall::Delete { of, id } => (of.number, *id),
            TransactionCall::End { .. } | TransactionCall::Put { .. } => return None,
        };
        let space = self.tubes.get(number)?.definition.space;
        Some(TaskOver { id, number, space })
    }

    /// Finds a task that a transaction can delete: one without edges, which could not be taken back.
    fn find_deletable(&mut self, of: &TubeName, id: u64) -> Result<Found> {
        let number = of.find(self)?;
        if self.buffer_of(number) == Buffer::Memory {
            return Err(refuse_temporary(&of.name));
        }
        let found = self.find(number, id)?;
        self.check_no_children(number, id, &found)?;
        let why = if found.shelf == Shelf::Recurring {
            "is a schedule"
        } else if found.record.header.open_parents() > 0 {
            "waits for other tasks"
        } else {
            return Ok(found);
        };
        Err(Error::invalid(format!(
            "task {id} {why}, so it cannot be deleted in a transaction; delete it before or after"
        )))
    }

    /// Checks all calls, before the first edit. Returns the headers of the puts.
    fn check_transaction_calls(&mut self, calls: &[TransactionCall]) -> Result<Vec<Header>> {
        let mut headers = Vec::new();
        let mut so_far = CallsSoFar::default();
        for call in calls {
            match call {
                TransactionCall::Put { into: PutInto { tube, name, request }, .. } => {
                    let before = so_far.puts_into(*tube);
                    headers.push(self.transaction_header((*tube, name), request, before)?);
                }
                TransactionCall::End { key, .. } => {
                    self.check_claim(*key)?;
                    self.check_no_waiting_children(*key)?;
                    if so_far.ends(key.id) {
                        return Err(Error::NotTaken { id: key.id });
                    }
                }
                TransactionCall::Delete { of, id } => {
                    self.check_transaction_delete(of, *id, &so_far)?;
                }
            }
            so_far.note(call);
        }
        Ok(headers)
    }

    /// The header of a task that a transaction puts.
    fn transaction_header(
        &mut self,
        (number, name): (TubeNo, &str),
        request: &PutRequest,
        before: u64,
    ) -> Result<Header> {
        let state = self.tube(number, name)?;
        if state.buffer == Buffer::Memory {
            return Err(refuse_temporary(name));
        }
        if !state.waiting_puts.is_empty() {
            return Err(state.full());
        }
        if request.after.is_some() {
            return Err(Error::invalid(
                "a task that a transaction puts cannot have parents; add them after the transaction",
            ));
        }
        if request.idempotency_key.is_some() {
            return Err(Error::invalid(
                "a transaction cannot put a task with an idempotency key; store the key in a table of the \
                 application, in the same transaction",
            ));
        }
        if let Some(key) = &request.key {
            self.check_transaction_key(key, request.on_key)?;
        }
        self.new_header(number, request, Some(before))
    }

    /// Refuses a key that is in use. A transaction only puts tasks that are new.
    fn check_transaction_key(&mut self, key: &Arc<str>, on_key: OnKey) -> Result<()> {
        if on_key != OnKey::Reject {
            return Err(Error::invalid(format!(
                "a transaction cannot keep or replace the task with the key {key:?}; leave out `on_key`: \
                 if the key is in use, the put returns `KeyInUse`, and the transaction goes on"
            )));
        }
        match self.live_key(key)? {
            KeyLookUp::Task(keyed) => Err(self.key_in_use(key, &keyed)),
            KeyLookUp::Free(_) => Ok(()),
        }
    }

    /// Inserts a task. Those before it in the transaction have their keys.
    fn insert_of_transaction(
        &mut self,
        number: TubeNo,
        id: u64,
        request: &PutRequest,
        header: Header,
    ) -> Result<Change> {
        if let Some(key) = &request.key {
            match self.look_up_key(key)? {
                KeyLookUp::Task(keyed) => return Err(self.key_in_use(key, &keyed)),
                KeyLookUp::Free(left_over) => self.clear_key(number, key, left_over),
            }
        }
        self.insert_task(number, id, request, header)
    }

    /// Removes the rows of a task that is deleted.
    fn edit_delete(&mut self, of: &TubeName, id: u64) -> Result<Edited> {
        let (number, found) = (of.number, self.find_deletable(of, id)?);
        self.remove_rows(number, id, &found)?;
        Ok(Edited::Delete { number, id, found })
    }

    /// Edits the rows of a task whose claim ends.
    fn edit_end(&mut self, key: ClaimKey, end: TaskEnd) -> Result<Edited> {
        let ClaimKey { tube: number, id, .. } = key;
        if let TaskEnd::Ack { result } = end {
            let header = self.claims.get(id).ok_or(Error::NotTaken { id })?.header.clone();
            let (task, kind) = ((number, id), EventKind::Ack);
            let keeping = self.store_end(task, kind, Shelf::Ready, &header, result.as_deref())?;
            return Ok(Edited::Ack { key, header, keeping, result });
        }
        let (kind, fate) = self.edit_fate(key, &end, Visibility::Flushed)?;
        Ok(Edited::End { key, kind, fate })
    }

    /// Changes memory after the edits of a call. The change is visible after the flush, whatever the
    /// durability of the tube.
    fn apply_transaction_call(&mut self, call: Edited) {
        let visibility = Visibility::Flushed;
        match call {
            Edited::Put(change) => self.make_put_visible(change, visibility),
            Edited::Ack { key, header, keeping, result } => {
                let ClaimKey { tube: number, id, .. } = key;
                self.count_ack(number, id);
                self.remove_claim(id);
                let (kind, from) = (EventKind::Ack, Some(TaskState::Taken));
                let change = self.change(number, id, kind, from, TaskState::Done, Some(header));
                if let Some(result) = result {
                    self.note_ending(number, id, || Ending::Done { result: Some(result) });
                }
                self.make_visible(Change { keeping, ..change }, visibility);
                if keeping == Keeping::Kept {
                    self.trim(number, Shelf::Done, visibility);
                }
            }
            Edited::End { key, kind, fate } => {
                self.remove_claim(key.id);
                let task = (key.tube, key.id);
                self.make_fate_visible(task, kind, TaskState::Taken, fate, visibility);
            }
            Edited::Delete { number, id, found } => {
                let change = self.deleted(number, id, &found);
                self.make_visible(change, visibility);
            }
        }
    }
}

fn refuse_temporary(name: &str) -> Error {
    Error::invalid(format!(
        "tube {name:?} is temporary, so a transaction of the file cannot have its tasks"
    ))
}
