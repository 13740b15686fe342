//! The purge of a closed store: removes all rows of dropped and truncated tubes.

use std::sync::Arc;

use tubewell_drivers::{Rows, Table, purge_slice};

use super::rows::{purge_key, spaces_without_edges};
use crate::Result;
use crate::commit::WriteBuffer;
use crate::storage::{Checkpoint, Engine};

/// Rows in one commit: few commits, each with some megabytes in memory.
const ROWS_PER_COMMIT: usize = 20_000;

/// Removes the rows that no tube uses any more. Tasks that may have edges are left to the next run:
/// their children are told of their end. If it is interrupted, the next open continues it.
pub(crate) fn purge_closed(engine: &Arc<Engine>) -> Result<()> {
    let purges = spaces_without_edges(&mut engine.snapshot()?)?;
    let mut buffer = WriteBuffer::new(Some(engine.clone()), 0);
    for space in purges {
        let mut is_purged = false;
        while !is_purged {
            is_purged = purge_slice(&mut buffer, space, ROWS_PER_COMMIT)?;
            if is_purged {
                buffer.remove(Table::Meta, purge_key(space));
            }
            // Drop the snapshot: it would keep every page that the commit frees.
            buffer.end_call();
            let mut edits = Checkpoint::up_to(engine.last_record());
            edits.push(std::mem::take(&mut buffer.edits.active));
            engine.checkpoint(&edits, true)?;
        }
    }
    Ok(())
}
