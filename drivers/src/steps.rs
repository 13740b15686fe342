//! The steps of a task: what its work has finished, each in a row of `notes` with its name.
//!
//! A row has a checksum, seeded with the id and the name, then the kind of the step, its number, and
//! its value. The steps of a task are numbered from 0 in the order in which they were stored, so a row
//! that is missing shows, unless it is the last one. Invariant: a task has steps if and only if its
//! header says so in [`More::has_steps`](crate::More::has_steps), so a task without steps reads no row
//! and a further step writes no record.

use std::collections::BTreeSet;

use xxhash_rust::xxh3::xxh3_64;

use crate::frame::{frame, unframe};
use crate::keys;
use crate::ledger::Ledger;
use crate::record::Header;
use crate::record_error::RecordError;
use crate::tables::{FIRST_PAGE, PAGE, Reads, Row, Rows, Table, Value, next_limit};

/// The kinds of steps: 0 a value, 1 a task that was put, 2 a sleep, 3 a wait for tasks.
const KINDS: u8 = 4;

/// The rows of steps, each with its name.
pub type StepRows = Vec<(String, Value)>;

/// Some steps of a task, by name.
#[derive(Debug)]
pub struct StepPage {
    /// Their rows.
    pub rows: StepRows,
    /// How many steps follow them.
    pub left: usize,
}

/// A step without its name, as its row has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StepRow<'r> {
    /// How many steps of the task were stored before it.
    pub number: u16,
    /// Its kind, 0 to 3.
    pub kind: u8,
    /// Its value.
    pub value: &'r [u8],
}

/// Encodes the row of a step.
#[must_use]
pub fn encode_step(id: u64, name: &str, StepRow { number, kind, value }: StepRow<'_>) -> Value {
    frame(seed(id, name), [&[kind], &number.to_be_bytes(), value])
}

/// Checks the row of a step.
///
/// # Errors
/// The row is missing or damaged, or a newer release wrote it.
pub fn check_step<'r>(
    id: u64,
    name: &str,
    row: Option<&'r Value>,
) -> Result<StepRow<'r>, RecordError> {
    let error = |how: &str| RecordError::new(id, format!("its step {name:?} ({how})"));
    let Some(row) = row else { return Err(error("missing")) };
    match unframe(seed(id, name), row) {
        Some([kind, high, low, value @ ..]) if *kind < KINDS => {
            Ok(StepRow { number: u16::from_be_bytes([*high, *low]), kind: *kind, value })
        }
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
        if !header.has_steps() {
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
        if !header.has_steps() {
            return Ok(steps);
        }
        let (mut numbers, mut damage) = (StepNumbers::default(), None);
        each_step(self.rows, self.space, id, |(key, row)| {
            numbers.add(number_of(id, &key, &row));
            if let Some(name) = name_of(&key) {
                damage = damage.take().or(check_step(id, name, Some(&row)).err());
                steps.push((name.to_owned(), row));
            } else {
                damage = Some(RecordError::new(id, "the name of a step"));
            }
        })?;
        if damage.is_none() && !numbers.are_complete() {
            damage = Some(RecordError::new(id, "its steps (one is missing)"));
        }
        damage.map_or(Ok(steps), |damage| Err(damage.into()))
    }

    /// Returns the steps of a task whose names follow `after`, or the first ones: at most `most`, and as
    /// many as have this many bytes, but at least one. Reads the keys only of those that are left.
    ///
    /// # Errors
    /// A row could not be read or is damaged. A missing one is an error if no step is left.
    pub fn steps_after(
        &mut self,
        id: u64,
        header: &Header,
        after: Option<&str>,
        most: usize,
        bytes: usize,
    ) -> Result<StepPage, R::Error> {
        let mut page = StepPage { rows: Vec::new(), left: 0 };
        if !header.has_steps() {
            return Ok(page);
        }
        let mut from = keys::steps(self.space, id);
        let end = keys::end_of(&from);
        if let Some(name) = after {
            from = keys::after(&keys::step(self.space, id, name));
        }
        let (mut size, mut numbers) = (0, StepNumbers::default());
        let is_cut = loop {
            if page.rows.len() >= most {
                break true;
            }
            // One at a time: each may be as large as a body.
            let Some((key, row)) = self.rows.scan(Table::Notes, &from, &end, 1)?.pop() else {
                break false;
            };
            size += row.len();
            if size > bytes && !page.rows.is_empty() {
                break true;
            }
            let damaged = || RecordError::new(id, "the name of a step");
            let name = name_of(&key).ok_or_else(damaged)?.to_owned();
            numbers.add(Some(check_step(id, &name, Some(&row))?.number));
            page.rows.push((name, row));
            from = keys::after(&key);
        };
        if is_cut {
            each_step_key(self.rows, from, &end, |_| page.left += 1)?;
        }
        if after.is_none() && page.left == 0 && !numbers.are_complete() {
            return Err(RecordError::new(id, "its steps (one is missing)").into());
        }
        Ok(page)
    }

    /// Visits the names of the steps of a task. Returns the number of its next step: how many rows
    /// there are, so that a row that is missing still shows. Reads keys only.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn visit_step_names(
        &mut self,
        id: u64,
        header: &Header,
        mut visit: impl FnMut(&str),
    ) -> Result<u32, R::Error> {
        if !header.has_steps() {
            return Ok(0);
        }
        let mut count: u32 = 0;
        let from = keys::steps(self.space, id);
        let end = keys::end_of(&from);
        each_step_key(self.rows, from, &end, |key| {
            count = count.saturating_add(1);
            if let Some(name) = name_of(&key) {
                visit(name);
            }
        })?;
        // The header says that there is at least one.
        Ok(count.max(1))
    }

    /// Writes the row of a further step. The same call, or an earlier one, stores a header that says
    /// that the task has steps.
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
        if before.has_steps() && !after.is_some_and(Header::has_steps) {
            let from = keys::steps(self.space, id);
            let end = keys::end_of(&from);
            each_step_key(self.rows, from, &end, |key| keys.push(key))?;
        }
        Ok(keys)
    }

    pub(crate) fn remove_steps(&mut self, keys: Vec<Vec<u8>>) {
        for key in keys {
            self.rows.remove(Table::Notes, key);
        }
    }
}

/// The numbers of the rows of the steps of a task.
#[derive(Clone, Debug, Default)]
pub struct StepNumbers {
    numbers: BTreeSet<u16>,
    rows: usize,
    damaged: usize,
}

impl StepNumbers {
    /// A further row has this number; `None` if it cannot be read.
    pub fn add(&mut self, number: Option<u16>) {
        self.rows += 1;
        self.damaged += usize::from(number.is_none());
        self.numbers.extend(number);
    }

    /// Returns how many rows the task must have, as far as its rows say, and at least one.
    #[must_use]
    pub fn expected(&self) -> usize {
        let after_last = self.numbers.last().map_or(0, |last| usize::from(*last) + 1);
        after_last.max(self.rows).max(1)
    }

    /// Returns whether no row is missing, and no number is there twice.
    #[must_use]
    pub fn are_complete(&self) -> bool {
        self.expected() == self.rows && self.numbers.len() + self.damaged == self.rows
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

/// Reads the keys of these rows of the steps of a task.
fn each_step_key<R: Reads>(
    rows: &mut R,
    mut from: Vec<u8>,
    end: &[u8],
    mut visit: impl FnMut(Vec<u8>),
) -> Result<(), R::Error> {
    loop {
        let page = rows.scan_keys(Table::Notes, &from, end, PAGE)?;
        let is_last = page.len() < PAGE;
        if let Some(last) = page.last() {
            from = keys::after(last);
        }
        page.into_iter().for_each(&mut visit);
        if is_last {
            return Ok(());
        }
    }
}

/// The number in the row of a step; `None` if it cannot be read.
pub(crate) fn number_of(id: u64, key: &[u8], row: &Value) -> Option<u16> {
    Some(check_step(id, name_of(key)?, Some(row)).ok()?.number)
}

/// The name in the key of a step.
fn name_of(key: &[u8]) -> Option<&str> {
    match keys::split_note(key) {
        Ok((_, _, keys::NoteRow::Step(name))) => Some(name),
        _ => None,
    }
}

/// The seed of the checksum.
fn seed(id: u64, name: &str) -> u64 {
    id ^ (u64::from(keys::STEP) << 56) ^ xxh3_64(name.as_bytes())
}
