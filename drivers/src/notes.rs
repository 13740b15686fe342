//! Notes: the last failure and the result of a task, each in a row of its own.
//!
//! A row of `notes` has a checksum, seeded with the id and the kind, then the bytes of the note.
//! Invariant: a task has exactly the notes that its header names in
//! [`More::notes`](crate::More::notes).

use crate::frame::{frame, unframe};
use crate::keys;
use crate::ledger::Ledger;
use crate::more::Note;
use crate::record::Header;
use crate::record_error::RecordError;
use crate::tables::{Rows, Table, Value};

impl Note {
    /// Returns whether a task with this header has a note of this kind.
    #[must_use]
    pub fn is_in(self, header: &Header) -> bool {
        header.more.as_ref().is_some_and(|more| more.notes & self.bit() != 0)
    }

    /// The kinds of notes of a task with this header.
    pub(crate) fn of(header: &Header) -> impl Iterator<Item = Note> {
        let notes = header.more.as_ref().map_or(0, |more| more.notes);
        Note::ALL.into_iter().filter(move |note| notes & note.bit() != 0)
    }

    fn name(self) -> &'static str {
        match self {
            Note::Failure => "failure",
            Note::Result => "result",
        }
    }

    /// The seed of the checksum.
    fn seed(self, id: u64) -> u64 {
        id ^ (u64::from(self.byte()) << 56)
    }

    fn error(self, id: u64, how: &str) -> RecordError {
        RecordError::new(id, format!("its {} note ({how})", self.name()))
    }
}

/// Checks the row of a note that a header names. Returns the bytes of the note.
///
/// # Errors
/// The row is missing or damaged.
pub fn check_note(id: u64, note: Note, row: Option<&Value>) -> Result<&[u8], RecordError> {
    let Some(row) = row else { return Err(note.error(id, "missing")) };
    unframe(note.seed(id), row).ok_or_else(|| note.error(id, "wrong checksum"))
}

impl<R: Rows> Ledger<'_, R> {
    /// Returns a note of a task. Returns `None` if the header has no such note.
    ///
    /// # Errors
    /// The row could not be read, is missing or is damaged.
    pub fn note(
        &mut self,
        id: u64,
        header: &Header,
        note: Note,
    ) -> Result<Option<Vec<u8>>, R::Error> {
        if !note.is_in(header) {
            return Ok(None);
        }
        let row = self.rows.get(Table::Notes, &keys::note(self.space, id, note))?;
        Ok(Some(check_note(id, note, row.as_ref())?.to_vec()))
    }

    /// Writes a note of a task. `existed` says whether the stored header names it already. The same
    /// call must store a header that names it.
    pub fn set_note(&mut self, id: u64, existed: bool, note: Note, bytes: &[u8]) {
        let (key, row) = (keys::note(self.space, id, note), frame(note.seed(id), [bytes]));
        if existed {
            self.rows.replace(Table::Notes, key, row);
        } else {
            self.rows.insert(Table::Notes, key, row);
        }
    }

    /// Removes the notes, and the entries of the history, that the header names before a change and
    /// not after it.
    #[inline]
    pub(crate) fn remove_notes(&mut self, id: u64, before: &Header, after: Option<&Header>) {
        if before.more.is_none() {
            return;
        }
        for note in Note::of(before) {
            if !after.is_some_and(|after| note.is_in(after)) {
                self.rows.remove(Table::Notes, keys::note(self.space, id, note));
            }
        }
        self.remove_entries(id, before, after);
    }
}
