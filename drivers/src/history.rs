//! The history of a task: entries, each in a row of `notes` of its own.
//!
//! The entries of a task are numbered from 0. The first one stays, and of the others the newest ones.
//! A row has a checksum, seeded with the id and the number, then the bytes of the entry. Invariant: a
//! task has exactly the entries that its header names in [`More::history`](crate::More::history), so
//! no change of a history reads a row.

use crate::frame::{frame, unframe};
use crate::keys;
use crate::ledger::Ledger;
use crate::record::Header;
use crate::record_error::RecordError;
use crate::tables::{Rows, Table, Value};

/// Rows of entries, each with its number.
pub type NewEntries = Vec<(u64, Value)>;

/// Encodes the row of an entry with these bytes.
#[must_use]
pub fn encode_entry(id: u64, number: u64, bytes: &[u8]) -> Value {
    frame(seed(id, number), [bytes])
}

/// Checks the row of an entry that a header names. Returns the bytes of the entry.
///
/// # Errors
/// The row is missing or damaged.
pub fn check_entry(id: u64, number: u64, row: Option<&Value>) -> Result<&[u8], RecordError> {
    let Some(row) = row else { return Err(error(id, number, "missing")) };
    unframe(seed(id, number), row).ok_or_else(|| error(id, number, "wrong checksum"))
}

impl<R: Rows> Ledger<'_, R> {
    /// Returns the rows of the history of a task, in order.
    ///
    /// # Errors
    /// A row could not be read, is missing or is damaged.
    pub fn stored_entries(&mut self, id: u64, header: &Header) -> Result<NewEntries, R::Error> {
        let Some(stored) = header.history() else { return Ok(Vec::new()) };
        let prefix = keys::history(self.space, id);
        let limit = stored.count as usize + 1;
        let rows = self.rows.scan(Table::Notes, &prefix, &keys::end_of(&prefix), limit)?;
        let mut rows = rows.into_iter().peekable();
        let mut entries = Vec::with_capacity(stored.count as usize);
        for number in stored.numbers() {
            let key = keys::history_entry(self.space, id, number);
            let row = rows.next_if(|(found, _)| *found == key).map(|(_, row)| row);
            check_entry(id, number, row.as_ref())?;
            entries.extend(row.map(|row| (number, row)));
        }
        Ok(entries)
    }

    /// Writes further entries of a task: those that its header names, which the same call stores.
    pub fn write_entries(&mut self, id: u64, header: &Header, entries: &NewEntries) {
        let Some(stored) = header.history() else { return };
        for (number, row) in entries.iter().filter(|(number, _)| stored.contains(*number)) {
            let key = keys::history_entry(self.space, id, *number);
            self.rows.insert(Table::Notes, key, row.clone());
        }
    }

    /// Removes the entries that the header names before a change and not after it.
    pub(crate) fn remove_entries(&mut self, id: u64, before: &Header, after: Option<&Header>) {
        let Some(stored) = before.history() else { return };
        let after = after.and_then(Header::history);
        if after == Some(stored) {
            return;
        }
        for number in stored.numbers() {
            if !after.is_some_and(|after| after.contains(number)) {
                self.rows.remove(Table::Notes, keys::history_entry(self.space, id, number));
            }
        }
    }
}

/// The seed of the checksum.
fn seed(id: u64, number: u64) -> u64 {
    id ^ (u64::from(keys::HISTORY) << 56) ^ number.rotate_left(28)
}

fn error(id: u64, number: u64, how: &str) -> RecordError {
    RecordError::new(id, format!("entry {number} of its history ({how})"))
}
