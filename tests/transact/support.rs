//! Stores with an own table, and what is in it.

use tubewell::redb::{ReadableTable, TableDefinition};
use tubewell::{Result, Store, Transaction};

/// A table of the application: how often each name was served.
pub const SERVED: TableDefinition<&str, u64> = TableDefinition::new("served");

/// Adds one to the count of a name.
pub fn serve(tx: &Transaction<'_>, name: &str) -> Result<()> {
    let mut served = tx.open_table(SERVED)?;
    let count = served.get(name)?.map_or(0, |row| row.value());
    served.insert(name, count + 1)?;
    Ok(())
}

/// How often a name was served.
pub fn served(store: &Store, name: &str) -> u64 {
    let read = store.view(|view| -> Result<u64> {
        let Some(served) = view.open_table(SERVED)? else { return Ok(0) };
        Ok(served.get(name)?.map_or(0, |row| row.value()))
    });
    read.unwrap()
}
