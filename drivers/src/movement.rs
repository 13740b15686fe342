//! A task without its place: what moves from one tube to another.
//!
//! Rows are named by space, so a move writes all rows of a task anew in the other space. They are
//! read before the first edit, and their bytes do not change: records, bodies and notes are checked
//! against the id, which the task keeps.

use crate::history::NewEntries;
use crate::keys::{self, Shelf};
use crate::ledger::{Found, Ledger};
use crate::more::Note;
use crate::notes::check_note;
use crate::record::{Body, Header};
use crate::steps::StepRows;
use crate::tables::{Rows, Table, Value};

/// The body, the notes, the history and the steps of a task, as rows. From [`Ledger::contents`].
#[derive(Debug)]
pub struct Contents {
    /// The body.
    pub body: Body,
    notes: Vec<(Note, Value)>,
    history: NewEntries,
    steps: StepRows,
}

impl Contents {
    /// Returns the number of bytes of the rows beside the record.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let notes = self.notes.iter().map(|(_, row)| row.len()).sum::<usize>();
        let history = self.history.iter().map(|(_, row)| row.len()).sum::<usize>();
        let steps = self.steps.iter().map(|(name, row)| name.len() + row.len()).sum::<usize>();
        self.body.len() + notes + history + steps
    }
}

impl<R: Rows> Ledger<'_, R> {
    /// Reads the body, the notes, the history and the steps of a task.
    ///
    /// # Errors
    /// A row could not be read, is missing or is damaged.
    pub fn contents(&mut self, id: u64, found: &Found) -> Result<Contents, R::Error> {
        let header = &found.record.header;
        let body = match header.body_checksum {
            None => Body::Inline(found.record.inline().to_vec()),
            Some(sum) => Body::Separate(self.body_row(id, header)?, sum),
        };
        let mut notes = Vec::new();
        for note in Note::of(header) {
            let row = self.rows.get(Table::Notes, &keys::note(self.space, id, note))?;
            check_note(id, note, row.as_ref())?;
            notes.extend(row.map(|row| (note, row)));
        }
        let (history, steps) = (self.stored_entries(id, header)?, self.stored_steps(id, header)?);
        Ok(Contents { body, notes, history, steps })
    }

    /// Stores a task that another ledger has removed, with its contents. The header names the notes
    /// and the steps that it had there, and some of the entries of its history. Returns the row
    /// that ends with its body.
    ///
    /// # Errors
    /// A row could not be read.
    pub fn insert_with(
        &mut self,
        id: u64,
        shelf: Shelf,
        header: &Header,
        contents: &Contents,
    ) -> Result<Value, R::Error> {
        let row = self.insert(id, shelf, header, &contents.body)?;
        for (note, value) in &contents.notes {
            self.rows.insert(Table::Notes, keys::note(self.space, id, *note), value.clone());
        }
        self.write_entries(id, header, &contents.history);
        for (name, row) in &contents.steps {
            self.write_step(id, name, row.clone());
        }
        Ok(row)
    }
}
