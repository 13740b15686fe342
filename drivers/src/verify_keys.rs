//! Verification of the keys of tasks: each of their rows is the one that its task yields.

use crate::keys;
use crate::tables::{Reads, Table, Value};
use crate::verify_rows::RowVerifier;

impl<R: Reads> RowVerifier<'_, R> {
    /// The row of the key of a task.
    pub(crate) fn key_of_task(&mut self, key: &[u8], value: &Value) -> Result<(), R::Error> {
        let Ok((space, id)) = keys::split_keyed(value) else {
            self.found.push("the row of the key of a task cannot be read".into());
            return Ok(());
        };
        let Some(tube) = self.owner(Some(space), Table::Index) else { return Ok(()) };
        let position = self.position(&tube, id)?;
        self.expect_yielded(&tube, (id, position), (Table::Index, key, value))
    }
}
