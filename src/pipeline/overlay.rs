//! Edits that are decided but not yet in the file, laid over it.
//!
//! A layer maps keys to what a commit will write there. A row that is inserted and removed within
//! one layer leaves no trace: the file never hears of it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tubewell_drivers::{Table, Value};

/// What a commit does to one row.
#[derive(Debug)]
struct Edit {
    /// The value to be written; `None` removes the row.
    value: Option<Value>,
    /// The row is not in anything below this layer.
    fresh: bool,
}

/// The edits of one commit.
#[derive(Debug, Default)]
pub(crate) struct Layer {
    tables: [BTreeMap<Vec<u8>, Edit>; Table::ALL.len()],
    bytes: usize,
}

impl Layer {
    /// Writes a row that is in nothing below.
    pub(crate) fn insert(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.bytes += key.len() + value.len();
        match self.tables[table.index()].entry(key) {
            // Removed in this layer, so something below may hold it: the edit overwrites.
            Entry::Occupied(mut entry) => entry.get_mut().value = Some(value),
            Entry::Vacant(entry) => {
                entry.insert(Edit { value: Some(value), fresh: true });
            }
        }
    }

    /// Writes a row that may be there already.
    pub(crate) fn replace(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.bytes += key.len() + value.len();
        match self.tables[table.index()].entry(key) {
            Entry::Occupied(mut entry) => entry.get_mut().value = Some(value),
            Entry::Vacant(entry) => {
                entry.insert(Edit { value: Some(value), fresh: false });
            }
        }
    }

    /// Removes a row.
    pub(crate) fn remove(&mut self, table: Table, key: Vec<u8>) {
        match self.tables[table.index()].entry(key) {
            Entry::Occupied(entry) if entry.get().fresh => {
                let (key, edit) = entry.remove_entry();
                self.bytes -= key.len() + edit.value.map_or(0, |value| value.len());
            }
            Entry::Occupied(mut entry) => {
                self.bytes -= entry.get().value.as_ref().map_or(0, |value| value.len());
                entry.get_mut().value = None;
            }
            Entry::Vacant(entry) => {
                self.bytes += entry.key().len();
                entry.insert(Edit { value: None, fresh: false });
            }
        }
    }

    /// What this layer says of a key: nothing, removed, or a value.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Option<&Value>> {
        self.tables[table.index()].get(key).map(|edit| edit.value.as_ref())
    }

    /// What this layer says of the keys with `from <= key < to`, in order.
    pub(crate) fn range<'a>(
        &'a self,
        table: Table,
        from: &[u8],
        to: &[u8],
    ) -> impl Iterator<Item = (&'a [u8], Option<&'a Value>)> + use<'a> {
        use std::ops::Bound::{Excluded, Included};
        // A BTreeMap panics on a reversed range.
        let bounds = (Included(from), Excluded(to.max(from)));
        self.tables[table.index()]
            .range::<[u8], _>(bounds)
            .map(|(key, edit)| (key.as_slice(), edit.value.as_ref()))
    }

    /// Every edit, sorted by table and key.
    pub(crate) fn edits(&self) -> impl Iterator<Item = (Table, &[u8], Option<&[u8]>)> {
        Table::ALL.into_iter().flat_map(move |table| {
            self.tables[table.index()]
                .iter()
                .map(move |(key, edit)| (table, key.as_slice(), edit.value.as_deref()))
        })
    }

    /// Whether a commit would write nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.iter().all(BTreeMap::is_empty)
    }

    /// How many rows a commit would touch.
    pub(crate) fn len(&self) -> usize {
        self.tables.iter().map(BTreeMap::len).sum()
    }

    /// About how much memory the edits hold.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(byte: u8) -> Value {
        vec![byte].into()
    }

    #[test]
    fn a_row_inserted_and_removed_leaves_no_trace() {
        let mut layer = Layer::default();
        layer.insert(Table::Tasks, vec![1], value(1));
        layer.remove(Table::Tasks, vec![1]);
        assert!(layer.is_empty());
        assert_eq!(layer.bytes(), 0);
    }

    #[test]
    fn a_row_removed_inserted_and_removed_again_stays_removed() {
        let mut layer = Layer::default();
        layer.remove(Table::Tasks, vec![1]);
        layer.insert(Table::Tasks, vec![1], value(1));
        assert_eq!(layer.get(Table::Tasks, &[1]), Some(Some(&value(1))));
        layer.remove(Table::Tasks, vec![1]);
        assert_eq!(layer.get(Table::Tasks, &[1]), Some(None));
        assert_eq!(layer.edits().count(), 1);
    }

    #[test]
    fn a_reversed_range_is_empty() {
        let mut layer = Layer::default();
        layer.replace(Table::Tasks, vec![2], value(1));
        assert_eq!(layer.range(Table::Tasks, &[3], &[1]).count(), 0);
        assert_eq!(layer.range(Table::Tasks, &[2], &[3]).count(), 1);
    }
}
