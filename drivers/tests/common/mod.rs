//! Rows in memory, and ledgers and headers, for the tests of the drivers.

use std::collections::BTreeMap;

use tubewell_drivers::{
    Counts, HeadCache, Header, Ledger, NEVER, Reads, RecordError, Row, Rows, Table, Value,
};

/// The header of a task with an empty body, and neither times nor a sub-queue.
pub fn plain_header() -> Header {
    Header {
        priority: 0,
        order: 0,
        created: 1,
        expires_at: NEVER,
        ttr: NEVER,
        ready_at: 0,
        takes: 0,
        size: 0,
        body_checksum: None,
        sub: "".into(),
        more: None,
    }
}

/// The ledger of a tube, for one call.
pub fn ledger<'a, R: Rows>(
    rows: &'a mut R,
    (space, sub_queued): (u32, bool),
    counts: &'a mut Counts,
    head_cache: &'a mut HeadCache,
) -> Ledger<'a, R> {
    Ledger {
        rows,
        space,
        sub_queued,
        counts,
        head_cache,
        earliest_due: NEVER,
        earliest_moment: NEVER,
        edge_changes: Vec::new(),
    }
}

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
