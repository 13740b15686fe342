//! The rows of dropped and truncated tubes of a closed store, removed at once: nobody is held up.

use std::sync::Arc;

use tubewell_drivers::{Rows, Table, purge_slice};

use super::rows::{purge_key, stored_totals};
use crate::Result;
use crate::commit::WriteBuffer;
use crate::storage::Engine;

/// Rows of a commit: some megabytes in memory, and few commits.
const STEP: usize = 20_000;

/// Removes the rows that no tube uses any more. Cut off at any moment, it is gone on with at the
/// next open.
pub(crate) fn purge_closed(engine: &Arc<Engine>) -> Result<()> {
    let (_, purges) = stored_totals(&mut engine.snapshot()?)?;
    let mut buffer = WriteBuffer::new(Some(engine.clone()), 0);
    for space in purges {
        let mut is_clear = false;
        while !is_clear {
            is_clear = purge_slice(&mut buffer, space, STEP)?;
            if is_clear {
                buffer.remove(Table::Meta, purge_key(space));
            }
            // A snapshot would keep every page that the commit frees.
            buffer.end_call();
            let edits = std::mem::take(&mut buffer.active);
            engine.commit(&edits, true, false)?;
        }
    }
    Ok(())
}
