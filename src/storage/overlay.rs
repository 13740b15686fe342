//! Edits that are not yet where the rows are, laid over them.
//!
//! A layer maps keys to what will be written there. A row that is inserted and removed within one
//! layer leaves no trace: whatever is below never hears of it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use tubewell_drivers::{Row, Table, Value, keys};

/// One row to be written: its table and key, and its new value, or `None` to remove it.
pub(super) type RowEdit<'a> = (Table, &'a [u8], Option<&'a [u8]>);

/// What becomes of one row.
#[derive(Debug)]
pub(super) struct Edit {
    /// The value to be written; `None` removes the row.
    pub(super) value: Option<Value>,
    /// The row is not in anything below this layer.
    pub(super) fresh: bool,
}

/// The edits of one commit, or of several.
#[derive(Debug, Default)]
pub(crate) struct Overlay {
    tables: [BTreeMap<Vec<u8>, Edit>; Table::ALL.len()],
    bytes: usize,
}

impl Overlay {
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
    pub(super) fn edits(&self) -> impl Iterator<Item = (Table, &Vec<u8>, &Edit)> {
        Table::ALL.into_iter().flat_map(move |table| {
            self.tables[table.index()].iter().map(move |(key, edit)| (table, key, edit))
        })
    }

    /// As `edits`: each row's table, key and new value, or `None` if it is removed.
    pub(super) fn rows(&self) -> impl Iterator<Item = RowEdit<'_>> {
        self.edits().map(|(table, key, edit)| (table, key.as_slice(), edit.value.as_deref()))
    }

    /// The rows of `rows` that are removed.
    pub(super) fn removals(&self) -> impl Iterator<Item = RowEdit<'_>> {
        self.rows().filter(|(.., value)| value.is_none())
    }

    /// Takes in the edits of the layer above, which is of a later commit.
    pub(super) fn absorb(&mut self, above: &Overlay) {
        for (table, key, edit) in above.edits() {
            match &edit.value {
                Some(value) if edit.fresh => self.insert(table, key.clone(), value.clone()),
                Some(value) => self.replace(table, key.clone(), value.clone()),
                None => self.remove(table, key.clone()),
            }
        }
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

/// Rows that are read at first when edits hide what was found; doubled as long as they do.
const STEP: usize = 16;

/// Up to `limit` rows between two keys, as `layers` have them over those below; the uppermost
/// comes first. `read` answers with rows from below: between two keys, and how many at most.
pub(crate) fn scan_over<E>(
    layers: &[&Overlay],
    table: Table,
    (from, to): (&[u8], &[u8]),
    limit: usize,
    mut read: impl FnMut(&[u8], &[u8], usize) -> Result<Vec<Row>, E>,
) -> Result<Vec<Row>, E> {
    if layers.iter().all(|overlay| overlay.range(table, from, to).next().is_none()) {
        return read(from, to, limit);
    }
    let mut out = Vec::new();
    let mut from = from.to_vec();
    let mut step = limit;
    while out.len() < limit {
        let rows = read(&from, to, step)?;
        let end =
            if rows.len() < step { None } else { rows.last().map(|(key, _)| keys::after(key)) };
        merge(layers, table, (&from, end.as_deref().unwrap_or(to)), rows, limit, &mut out);
        match end {
            None => break,
            Some(end) => from = end,
        }
        // What was found is hidden by edits: look further, in larger steps.
        step = step.max(STEP).saturating_mul(2).min(1024);
    }
    Ok(out)
}

/// Lays the edits between two keys over the rows that are there below.
fn merge(
    layers: &[&Overlay],
    table: Table,
    (from, to): (&[u8], &[u8]),
    rows: Vec<Row>,
    limit: usize,
    out: &mut Vec<Row>,
) {
    let mut above: Vec<_> =
        layers.iter().map(|overlay| overlay.range(table, from, to).peekable()).collect();
    let mut below = rows.into_iter().peekable();
    while out.len() < limit {
        let first = above.iter_mut().filter_map(|edits| edits.peek().map(|(key, _)| *key)).min();
        let row = match (first, below.peek()) {
            (None, None) => return,
            (Some(first), Some((key, _))) if first > key.as_slice() => below.next(),
            (None, Some(_)) => below.next(),
            (Some(first), _) => {
                below.next_if(|(key, _)| key == first);
                let mut edit = None;
                for edits in &mut above {
                    let found = edits.next_if(|(key, _)| *key == first);
                    edit = edit.or(found);
                }
                edit.and_then(|(key, value)| Some((key.to_vec(), value?.clone())))
            }
        };
        out.extend(row);
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
        let mut overlay = Overlay::default();
        overlay.insert(Table::Tasks, vec![1], value(1));
        overlay.remove(Table::Tasks, vec![1]);
        assert!(overlay.is_empty());
        assert_eq!(overlay.bytes(), 0);
    }

    #[test]
    fn a_row_removed_inserted_and_removed_again_stays_removed() {
        let mut overlay = Overlay::default();
        overlay.remove(Table::Tasks, vec![1]);
        overlay.insert(Table::Tasks, vec![1], value(1));
        assert_eq!(overlay.get(Table::Tasks, &[1]), Some(Some(&value(1))));
        overlay.remove(Table::Tasks, vec![1]);
        assert_eq!(overlay.get(Table::Tasks, &[1]), Some(None));
        assert_eq!(overlay.edits().count(), 1);
    }

    #[test]
    fn a_layer_that_takes_in_a_later_one_is_both_after_each_other() {
        let mut below = Overlay::default();
        below.insert(Table::Tasks, vec![1], value(1));
        below.insert(Table::Tasks, vec![2], value(2));
        below.remove(Table::Tasks, vec![3]);
        let mut above = Overlay::default();
        above.remove(Table::Tasks, vec![1]);
        above.replace(Table::Tasks, vec![2], value(3));
        above.insert(Table::Tasks, vec![3], value(4));
        above.insert(Table::Tasks, vec![4], value(5));
        below.absorb(&above);
        assert_eq!(below.get(Table::Tasks, &[1]), None);
        let mut last = Overlay::default();
        last.remove(Table::Tasks, vec![2]);
        last.remove(Table::Tasks, vec![3]);
        last.remove(Table::Tasks, vec![4]);
        below.absorb(&last);
        // Only the third was in what is below both.
        assert_eq!(below.len(), 1);
        assert_eq!(below.get(Table::Tasks, &[3]), Some(None));
    }

    #[test]
    fn a_scan_sees_the_uppermost_edit_of_each_row_and_reads_on_where_rows_are_hidden() {
        let (mut top, mut middle) = (Overlay::default(), Overlay::default());
        for hidden in 0..40 {
            top.remove(Table::Tasks, vec![hidden]);
        }
        top.replace(Table::Tasks, vec![50], value(1));
        middle.replace(Table::Tasks, vec![50], value(2));
        middle.replace(Table::Tasks, vec![51], value(3));
        middle.replace(Table::Tasks, vec![3], value(4));
        let mut read = |from: &[u8], to: &[u8], most: usize| {
            let rows = (0..60).step_by(2).map(|key| (vec![key], value(0)));
            let inside = rows.filter(|(key, _)| from <= &key[..] && &key[..] < to);
            Ok::<_, ()>(inside.take(most).collect())
        };
        let layers = [&top, &middle];
        let found = scan_over(&layers, Table::Tasks, (&[0], &[60]), 8, &mut read).unwrap();
        let expected = [(40, 0), (42, 0), (44, 0), (46, 0), (48, 0), (50, 1), (51, 3), (52, 0)];
        assert_eq!(found, expected.map(|(key, byte)| (vec![key], value(byte))));
        let all = scan_over(&layers, Table::Tasks, (&[0], &[60]), 99, &mut read).unwrap();
        assert_eq!(all.len(), 11);
    }

    #[test]
    fn a_reversed_range_is_empty() {
        let mut overlay = Overlay::default();
        overlay.replace(Table::Tasks, vec![2], value(1));
        assert_eq!(overlay.range(Table::Tasks, &[3], &[1]).count(), 0);
        assert_eq!(overlay.range(Table::Tasks, &[2], &[3]).count(), 1);
    }
}
