//! The rows of dropped and truncated tubes of a closed store, removed at once: nobody is held up.

use std::sync::Arc;

use tubewell_drivers::{Rows, Table, clear_slice};

use super::open::{dying_key, stored_books};
use crate::Result;
use crate::pipeline::Lane;
use crate::storage::Engine;

/// Rows of a commit: some megabytes in memory, and few commits.
const STEP: usize = 20_000;

/// Removes the rows that no tube uses any more. Cut off at any moment, it is gone on with at the
/// next open.
pub(crate) fn clear_the_dead(engine: &Arc<Engine>) -> Result<()> {
    let (_, dying) = stored_books(&mut engine.snapshot()?)?;
    let mut lane = Lane::new(Some(engine.clone()), 0);
    for space in dying {
        let mut is_clear = false;
        while !is_clear {
            is_clear = clear_slice(&mut lane, space, STEP)?;
            if is_clear {
                lane.remove(Table::Meta, dying_key(space));
            }
            // A snapshot would keep every page that the commit frees.
            lane.end_call();
            let edits = std::mem::take(&mut lane.pending);
            engine.commit(&edits, true, false)?;
        }
    }
    Ok(())
}
