//! Verification of the notes, the histories and the steps: a task has exactly the rows that its header
//! names.

use crate::keys::{self, NoteRow};
use crate::more::Note;
use crate::notes::check_note;
use crate::record::{Header, Record};
use crate::steps::check_step;
use crate::tables::{Reads, Table, Value};
use crate::verify_rows::{RowVerifier, TubeTotals};

impl<R: Reads> RowVerifier<'_, R> {
    /// The notes that a header names are in their table, and so are the entries of its history, and
    /// its steps.
    pub(crate) fn expect_notes(
        &mut self,
        tube: &TubeTotals,
        id: u64,
        header: &Header,
    ) -> Result<(), R::Error> {
        for note in Note::of(header) {
            let row = self.rows.get(Table::Notes, &keys::note(tube.space, id, note))?;
            if let Err(error) = check_note(id, note, row.as_ref()) {
                self.report(tube.space, error);
            }
        }
        self.expect_entries(tube, id, header)?;
        self.expect_steps(tube, id, header)
    }

    /// A row of `notes`.
    pub(crate) fn note(&mut self, key: &[u8], value: Value) -> Result<(), R::Error> {
        let Some(tube) = self.owner(keys::space_of(key), Table::Notes) else { return Ok(()) };
        let Ok((_, id, note)) = keys::split_note(key) else {
            self.report(tube.space, "a key of \"notes\" cannot be read");
            return Ok(());
        };
        let is_named = match self.find(&tube, id)? {
            None => false,
            // A damaged record is a finding of its own.
            Some(record) => Record::decode(id, record).map_or(true, |r| match note {
                NoteRow::Note(note) => note.is_in(&r.header),
                NoteRow::Entry(number) => {
                    r.header.history().is_some_and(|stored| stored.contains(number))
                }
                // Their numbers are compared where the task is.
                NoteRow::Step(_) => r.header.has_steps(),
            }),
        };
        if let NoteRow::Step(name) = note
            && let Err(error) = check_step(id, name, Some(&value))
        {
            self.report(tube.space, error);
        }
        if !is_named {
            self.report(tube.space, format_args!("a row of \"notes\" does not match task {id}"));
        }
        Ok(())
    }
}
