//! Verification of the histories: the entries that a header names are in their table.

use crate::history::check_entry;
use crate::keys;
use crate::record::Header;
use crate::stored_entries::StoredEntries;
use crate::tables::{Reads, Table};
use crate::verify_rows::{RowVerifier, TubeTotals};

impl<R: Reads> RowVerifier<'_, R> {
    /// The entries that a header names are in their table.
    pub(crate) fn expect_entries(
        &mut self,
        tube: &TubeTotals,
        id: u64,
        header: &Header,
    ) -> Result<(), R::Error> {
        for number in header.history().into_iter().flat_map(StoredEntries::numbers) {
            let key = keys::history_entry(tube.space, id, number);
            let row = self.rows.get(Table::Notes, &key)?;
            if let Err(error) = check_entry(id, number, row.as_ref()) {
                self.report(tube.space, error);
            }
        }
        Ok(())
    }
}
