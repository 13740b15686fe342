//! Keys: names of tasks, each unique in the store.
//!
//! The row of a key names the space and the id of its task. A row may be left over from a tube that
//! was truncated or dropped, until its space is purged. So a look-up checks that the space is that
//! of a tube, and that the record has the key.

use std::sync::Arc;

use tubewell_drivers::{Found, Header, Reads, Rows, Shelf, Table, keys};

use crate::base::tube_no::TubeNo;
use crate::core::state::{Buffer, Core, Decided, PerBuffer, Wait, check_key};
use crate::core::verb::{Decide, Limits, verb};
use crate::values::task::TaskInfo;
use crate::{Error, Receipt, Result};

/// The task that has a key.
pub(in crate::core) struct Keyed {
    pub(in crate::core) number: TubeNo,
    pub(in crate::core) id: u64,
    pub(in crate::core) found: Found,
}

/// Which task has a key.
pub(in crate::core) enum KeyLookUp {
    Task(Keyed),
    /// No task. The write buffers that have a row of it which is left over.
    Free(PerBuffer<bool>),
}

verb! {
    /// The task that has a key. The answer waits for the flush of its last change.
    13 InStore Read: ByKey { key: Box<str> } -> Option<TaskInfo> {
        fn check(&self, _: Limits) -> Result<()> {
            check_key(&self.key)
        }
    }
}

impl Decide for ByKey {
    fn decide(&self, core: &mut Core, (): ()) -> Result<Decided<Option<TaskInfo>>> {
        let Keyed { number, id, found } = match core.live_key(&self.key)? {
            KeyLookUp::Task(keyed) => keyed,
            KeyLookUp::Free(_) => {
                return Ok(Decided { answer: None, wait: core.wait_of_absence() });
            }
        };
        let info = core.describe_with_failure(number, id, found.shelf, &found.record.header)?;
        Ok(Decided { answer: Some(info), wait: core.wait_of_last_change(number, id) })
    }
}

impl Core {
    /// Which task has a key. A task whose ttl has elapsed, or that was kept for its time, is removed
    /// first: the sweeper may not have done it yet.
    pub(in crate::core) fn live_key(&mut self, key: &str) -> Result<KeyLookUp> {
        let look_up = self.look_up_key(key)?;
        let KeyLookUp::Task(Keyed { number, id, found }) = &look_up else { return Ok(look_up) };
        let (header, now) = (&found.record.header, self.now.timeline);
        let is_kept = matches!(found.shelf, Shelf::Buried | Shelf::Done);
        if found.shelf != Shelf::Done && header.is_expired(found.shelf, now) {
            self.expire(*number, *id)?;
        } else if is_kept && header.due(found.shelf).is_some_and(|due| due <= now) {
            self.forget_one(*number, *id, found, self.sweep_visibility(*number))?;
        } else {
            return Ok(look_up);
        }
        self.look_up_key(key)
    }

    /// Which task has a key.
    pub(in crate::core) fn look_up_key(&mut self, key: &str) -> Result<KeyLookUp> {
        let mut left_over = PerBuffer::default();
        for buffer in Buffer::ALL {
            match self.look_up_key_in(buffer, key)? {
                None => {}
                Some(None) => left_over[buffer] = true,
                Some(Some(keyed)) => return Ok(KeyLookUp::Task(keyed)),
            }
        }
        Ok(KeyLookUp::Free(left_over))
    }

    /// The ids of all tasks that have a key: not more than one, if memory agrees with the file.
    pub(in crate::core) fn tasks_with_key(&mut self, key: &str) -> Result<Vec<u64>> {
        let mut tasks = Vec::new();
        for buffer in Buffer::ALL {
            tasks.extend(self.look_up_key_in(buffer, key)?.flatten().map(|keyed| keyed.id));
        }
        Ok(tasks)
    }

    /// The key of the task that the row of a key leads to; `None` if the row is left over.
    pub(in crate::core) fn key_of_row(&mut self, value: &[u8]) -> Result<Option<Arc<str>>> {
        let (space, id) = keys::split_keyed(value)?;
        let found = self.found_in_space(space, id)?;
        Ok(found.and_then(|(_, found)| key_of(&found.record.header).cloned()))
    }

    /// The row of a key in a write buffer, as the task that has the key; `None` inside if the row is
    /// left over.
    #[expect(clippy::option_option, reason = "no row, and a row without a task")]
    fn look_up_key_in(&mut self, buffer: Buffer, key: &str) -> Result<Option<Option<Keyed>>> {
        if buffer == Buffer::Memory && self.buffers[buffer].engine().is_none() {
            return Ok(None);
        }
        let row = self.buffers[buffer].get(Table::Index, &keys::of_key(key))?;
        let Some(value) = row else { return Ok(None) };
        let (space, id) = keys::split_keyed(&value)?;
        self.with_key(space, id, key).map(Some)
    }

    /// The task with this id in a space, if it has the key. Two keys with one hash would have one row:
    /// the second one is refused.
    fn with_key(&mut self, space: u32, id: u64, key: &str) -> Result<Option<Keyed>> {
        let Some((number, found)) = self.found_in_space(space, id)? else { return Ok(None) };
        match key_of(&found.record.header) {
            Some(own) if **own == *key => Ok(Some(Keyed { number, id, found })),
            Some(own) if keys::of_key(own) == keys::of_key(key) => Err(same_hash(id, key)),
            _ => Ok(None),
        }
    }

    fn found_in_space(&mut self, space: u32, id: u64) -> Result<Option<(TubeNo, Found)>> {
        let Some(number) = self.tubes.of_space(space) else { return Ok(None) };
        Ok(self.edit(number, |ledger| ledger.find(id))?.map(|found| (number, found)))
    }

    /// Removes the row of a key that is left over, so that a task of this tube can have the key.
    pub(in crate::core) fn clear_key(
        &mut self,
        number: TubeNo,
        key: &str,
        left_over: PerBuffer<bool>,
    ) {
        let buffer = self.buffer_of(number);
        if left_over[buffer] {
            self.buffers[buffer].remove(Table::Index, keys::of_key(key));
        }
    }

    /// The error of a put whose key a task has.
    pub(in crate::core) fn key_in_use(&self, key: &Arc<str>, keyed: &Keyed) -> Error {
        let (id, state) = (keyed.id, self.state_of(keyed.id, keyed.found.shelf));
        Error::KeyInUse { key: key.to_string(), id, state }
    }

    /// The answer to a put that keeps the task which has its key.
    pub(super) fn keep_keyed(&self, keyed: &Keyed) -> Decided<Receipt> {
        let (number, id) = (keyed.number, keyed.id);
        let answer = self.memory_receipt(number, id, self.state_of(id, keyed.found.shelf));
        Decided { answer, wait: self.wait_of_last_change(number, id) }
    }

    /// A refusal because of a key, once no crash can make it untrue.
    pub(in crate::core) fn key_refusal<T>(&mut self, refused: Error) -> Decided<Result<T>> {
        let (Error::KeyInUse { key, .. } | Error::KeyNotFound { key }) = &refused else {
            return Decided { answer: Err(refused), wait: None };
        };
        let wait = match self.look_up_key(key) {
            Ok(KeyLookUp::Task(keyed)) => self.wait_of_last_change(keyed.number, keyed.id),
            Ok(KeyLookUp::Free(_)) => self.wait_of_absence(),
            Err(_) => None,
        };
        Decided { answer: Err(refused), wait }
    }

    /// What an answer about a stored task waits for: the flush of its last change, or in a written
    /// tube the write of it.
    pub(in crate::core) fn wait_of_last_change(&self, number: TubeNo, id: u64) -> Option<Wait> {
        self.batch_of_last_change(number, id).or_else(|| self.write_of_change(number))
    }

    /// What the answer waits for that no task has a key: the flush that is under way, which may have
    /// the end of the task that had it.
    pub(in crate::core) fn wait_of_absence(&self) -> Option<Wait> {
        Some(Wait::Flush(Buffer::File, self.buffers[Buffer::File].batch_of_changes()?.clone()))
    }
}

/// The key of a task with this header.
pub(in crate::core) fn key_of(header: &Header) -> Option<&Arc<str>> {
    header.more.as_ref()?.key.as_ref()
}

fn same_hash(id: u64, key: &str) -> Error {
    let begin: String = key.chars().take(40).collect();
    Error::invalid(format!(
        "the key {begin:?}... has the same hash as that of task {id}; use another key"
    ))
}
