//! Chores: work of unknown size that calls leave behind, done a step at a time.

use tubewell_drivers::{Table, purge_slice};

use crate::Result;
use crate::core::catalog::purge_key;
use crate::core::state::{Buffer, Core, mark_of_purge};

/// Rows that are purged with one commit, which takes a few milliseconds.
const PURGE_ROWS: usize = 512;

impl Core {
    /// Whether there are chores to do: parents whose children are to be told of their end, tasks that
    /// exceed what their tube keeps, or spaces to purge. None is done while it is not known whether a
    /// transaction is in the file.
    pub(crate) fn has_chores(&self) -> bool {
        // What a chore has done could not be taken back with the transaction.
        !self.undo.is_in_doubt() && !self.chores.is_empty()
    }

    /// Does a step of the next chore of a write buffer, trims a tube that has more tasks than it keeps,
    /// or purges a slice of the rows of its next space. Returns false if it has no chores.
    pub(crate) fn do_next_chore(&mut self, buffer: Buffer) -> Result<bool> {
        Ok(self.next_chore_step(buffer)?
            || self.trim_next_surplus(buffer)?
            || self.purge_next_slice(buffer)?)
    }

    fn purge_next_slice(&mut self, buffer: Buffer) -> Result<bool> {
        let Some(space) = self.chores.next_purge(buffer) else { return Ok(false) };
        if self.chores.edges_from(space).is_some() {
            if self.purge_edges(buffer, space)? && buffer == Buffer::File {
                let mark = mark_of_purge(false).into();
                self.buffers[Buffer::File].edits.active.replace(
                    Table::Meta,
                    purge_key(space),
                    mark,
                );
            }
            return Ok(true);
        }
        if purge_slice(&mut self.buffers[buffer], space, PURGE_ROWS)? {
            self.chores.remove_purge(space);
            if buffer == Buffer::File {
                self.buffers[Buffer::File].edits.active.remove(Table::Meta, purge_key(space));
            }
        }
        Ok(true)
    }

    /// The spaces to purge in one write buffer.
    pub(crate) fn purges(&self, buffer: Buffer) -> Vec<u32> {
        self.chores.purges(buffer).collect()
    }
}
