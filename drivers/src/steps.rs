//! The steps of a task: what its work has finished, each in a row of `notes` with its name.
//!
//! A row has a checksum, seeded with the id and the name, then the kind of the step and its value.
//! Invariant: a task has as many steps as its header says in
//! [`More::steps`](crate::More::steps), so a task without steps reads no row.

use xxhash_rust::xxh3::xxh3_64;

use crate::frame::{frame, unframe};
use crate::keys;
use crate::ledger::Ledger;
use crate::record::Header;
use crate::record_error::RecordError;
use crate::tables::{FIRST_PAGE, Reads, Row, Rows, Table, Value, next_limit};

/// The kinds of steps: 0 a value, 1 a task that was put, 2 a sleep, 3 a wait for tasks.
const KINDS: u8 = 4;

/// The rows of steps, each with its name.
pub type StepRows = Vec<(String, Value)>;

/// Encodes the row of a step: its kind, and its value.
#[must_use]
pub fn encode_step(id: u64, name: &str, kind: u8, value: &[u8]) -> Value {
    frame(seed(id, name), [&[kind], value])
}

/// Checks the row of a step. Returns its kind, 0 to 3, and its value.
///
/// # Errors
/// The row is missing or damaged, or a newer release wrote it.
pub fn check_step<'r>(
    id: u64,
    name: &str,
    row: Option<&'r Value>,
) -> Result<(u8, &'r [u8]), RecordError> {
    let error = |how: &str| RecordError::new(id, format!("its step {name:?} ({how})"));
    let Some(row) = row else { return Err(error("missing")) };
    match unframe(seed(id, name), row) {
        Some([kind, value @ ..]) if *kind < KINDS => Ok((*kind, value)),
        Some(_) => Err(error("of a kind that this release does not know")),
        None => Err(error("wrong checksum")),
    }
}

impl<R: Rows> Ledger<'_, R> {
    /// Returns the row of a step; `None` if the task has no step of this name.
    ///
    /// # Errors
    /// The row could not be read or is damaged.
    pub fn step(
        &mut self,
        id: u64,
        header: &Header,
        name: &str,
    ) -> Result<Option<Value>, R::Error> {
        if header.steps() == 0 {
            return Ok(None);
        }
        let row = self.rows.get(Table::Notes, &keys::step(self.space, id, name))?;
        if row.is_some() {
            check_step(id, name, row.as_ref())?;
        }
        Ok(row)
    }

    /// Returns the rows of the steps of a task, by name.
    ///
    /// # Errors
    /// A row could not be read, is missing or is damaged.
    pub fn stored_steps(&mut self, id: u64, header: &Header) -> Result<StepRows, R::Error> {
        let mut steps = Vec::new();
        if header.steps() == 0 {
            return Ok(steps);
        }
        let mut damage = None;
        each_step(self.rows, self.space, id, |(key, row)| match keys::split_note(&key) {
            Ok((_, _, keys::NoteRow::Step(name))) => {
                damage = damage.take().or(check_step(id, name, Some(&row)).err());
                steps.push((name.to_owned(), row));
            }
            _ => damage = Some(RecordError::new(id, "the name of a step")),
        })?;
        if damage.is_none() && steps.len() != header.steps() as usize {
            damage = Some(RecordError::new(id, "its steps (another number)"));
        }
        damage.map_or(Ok(steps), |damage| Err(damage.into()))
    }

    /// Writes the row of a further step. The same call stores a header that counts it.
    pub fn write_step(&mut self, id: u64, name: &str, row: Value) {
        self.rows.insert(Table::Notes, keys::step(self.space, id, name), row);
    }

    /// The keys of the steps that a change removes: all of them, if the header has some before it and
    /// none after it.
    #[inline]
    pub(crate) fn keys_of_removed_steps(
        &mut self,
        id: u64,
        before: &Header,
        after: Option<&Header>,
    ) -> Result<Vec<Vec<u8>>, R::Error> {
        let mut keys = Vec::new();
        if before.steps() > 0 && after.map_or(0, Header::steps) == 0 {
            each_step(self.rows, self.space, id, |(key, _)| keys.push(key))?;
        }
        Ok(keys)
    }

    pub(crate) fn remove_steps(&mut self, keys: Vec<Vec<u8>>) {
        for key in keys {
            self.rows.remove(Table::Notes, key);
        }
    }
}

/// Reads the rows of the steps of a task, a few at a time.
pub(crate) fn each_step<R: Reads>(
    rows: &mut R,
    space: u32,
    id: u64,
    mut visit: impl FnMut(Row),
) -> Result<(), R::Error> {
    let mut from = keys::steps(space, id);
    let (end, mut limit) = (keys::end_of(&from), FIRST_PAGE);
    loop {
        let page = rows.scan(Table::Notes, &from, &end, limit)?;
        let is_last = page.len() < limit;
        limit = next_limit(&page, limit);
        if let Some((last, _)) = page.last() {
            from = keys::after(last);
        }
        page.into_iter().for_each(&mut visit);
        if is_last {
            return Ok(());
        }
    }
}

/// The seed of the checksum.
fn seed(id: u64, name: &str) -> u64 {
    id ^ (u64::from(keys::STEP) << 56) ^ xxh3_64(name.as_bytes())
}
