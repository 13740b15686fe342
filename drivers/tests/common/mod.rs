//! Rows in memory, for the tests of the drivers.

use std::collections::BTreeMap;

use tubewell_drivers::{Reads, RecordError, Row, Rows, Table, Value};

/// All rows by table and key. Panics at an insert over a row, and at a removal of no row.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory(pub BTreeMap<(Table, Vec<u8>), Value>);

impl Reads for Memory {
    type Error = RecordError;

    fn get(&mut self, table: Table, key: &[u8]) -> Result<Option<Value>, RecordError> {
        Ok(self.0.get(&(table, key.to_vec())).cloned())
    }

    fn scan(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, RecordError> {
        let range = self.0.range((table, from.to_vec())..(table, to.to_vec()));
        Ok(range.take(limit).map(|((_, key), value)| (key.clone(), value.clone())).collect())
    }

    fn scan_back(
        &mut self,
        table: Table,
        from: &[u8],
        to: &[u8],
        limit: usize,
    ) -> Result<Vec<Row>, RecordError> {
        let mut rows = self.scan(table, from, to, usize::MAX)?;
        rows.reverse();
        rows.truncate(limit);
        Ok(rows)
    }
}

impl Rows for Memory {
    fn insert(&mut self, table: Table, key: Vec<u8>, value: Value) {
        assert!(self.0.insert((table, key), value).is_none(), "the row exists already");
    }

    fn replace(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.0.insert((table, key), value);
    }

    fn remove(&mut self, table: Table, key: Vec<u8>) {
        assert!(self.0.remove(&(table, key)).is_some(), "the row does not exist");
    }
}
