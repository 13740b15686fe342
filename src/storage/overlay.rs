//! Overlays: edits above rows that do not have them yet.
//!
//! An overlay maps keys to the values that will be written. Invariant: a row that is inserted and
//! removed within one overlay leaves no edit, so the rows below are never changed for it.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::iter::Peekable;

use tubewell_drivers::{Row, Table, Value, keys};

/// An edit of one row: its table, its key, and its new value or `None` to remove it.
pub(super) type RowEdit<'a> = (Table, &'a [u8], Option<&'a [u8]>);

/// A key, and its new value or `None` to remove the row.
type RowChange<'a> = (&'a [u8], Option<&'a Value>);

/// The edit of one row.
#[derive(Clone, Debug)]
pub(super) struct Edit {
    /// The value to be written; `None` removes the row.
    pub(super) value: Option<Value>,
    /// The row exists nowhere below this overlay.
    pub(super) is_new: bool,
}

/// The edits of one commit or of several.
#[derive(Clone, Debug, Default)]
pub(crate) struct Overlay {
    tables: [BTreeMap<Vec<u8>, Edit>; Table::ALL.len()],
    bytes: usize,
}

impl Overlay {
    /// Writes a row that does not exist below.
    pub(crate) fn insert(&mut self, table: Table, key: Vec<u8>, value: Value) {
        // A row that was removed in this overlay may exist below: the edit overwrites it.
        self.put(table, key, value, true);
    }

    /// Writes a row that may exist below.
    pub(crate) fn replace(&mut self, table: Table, key: Vec<u8>, value: Value) {
        self.put(table, key, value, false);
    }

    fn put(&mut self, table: Table, key: Vec<u8>, value: Value, is_new: bool) {
        self.bytes += value.len();
        match self.tables[table.index()].entry(key) {
            Entry::Occupied(mut entry) => {
                let old = entry.get_mut().value.replace(value);
                self.bytes -= old.map_or(0, |old| old.len());
            }
            Entry::Vacant(entry) => {
                self.bytes += entry.key().len();
                entry.insert(Edit { value: Some(value), is_new });
            }
        }
    }

    /// Removes a row.
    pub(crate) fn remove(&mut self, table: Table, key: Vec<u8>) {
        match self.tables[table.index()].entry(key) {
            Entry::Occupied(entry) if entry.get().is_new => {
                let (key, edit) = entry.remove_entry();
                self.bytes -= key.len() + edit.value.map_or(0, |value| value.len());
            }
            Entry::Occupied(mut entry) => {
                self.bytes -= entry.get().value.as_ref().map_or(0, |value| value.len());
                entry.get_mut().value = None;
            }
            Entry::Vacant(entry) => {
                self.bytes += entry.key().len();
                entry.insert(Edit { value: None, is_new: false });
            }
        }
    }

    /// The edit of a key: `None` without one, `Some(None)` if the row is removed.
    pub(crate) fn get(&self, table: Table, key: &[u8]) -> Option<Option<&Value>> {
        self.tables[table.index()].get(key).map(|edit| edit.value.as_ref())
    }

    /// The edits of the keys with `from <= key < to`, in order.
    pub(crate) fn range<'a>(
        &'a self,
        table: Table,
        from: &[u8],
        to: &[u8],
    ) -> impl DoubleEndedIterator<Item = RowChange<'a>> + use<'a> {
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

    /// Every edit, sorted by table and key, in the form that the engine takes.
    pub(super) fn rows(&self) -> impl Iterator<Item = RowEdit<'_>> {
        self.edits().map(|(table, key, edit)| (table, key.as_slice(), edit.value.as_deref()))
    }

    /// Those of `rows` that remove a row.
    pub(super) fn removals(&self) -> impl Iterator<Item = RowEdit<'_>> {
        self.rows().filter(|(.., value)| value.is_none())
    }

    /// Moves the edits of a later commit into this overlay.
    pub(crate) fn absorb(&mut self, above: &mut Overlay) {
        for table in Table::ALL {
            for (key, edit) in std::mem::take(&mut above.tables[table.index()]) {
                match edit.value {
                    Some(value) if edit.is_new => self.insert(table, key, value),
                    Some(value) => self.replace(table, key, value),
                    None => self.remove(table, key),
                }
            }
        }
        above.bytes = 0;
    }

    /// Whether a commit would write nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.tables.iter().all(BTreeMap::is_empty)
    }

    /// The number of edited rows.
    pub(crate) fn len(&self) -> usize {
        self.tables.iter().map(BTreeMap::len).sum()
    }

    /// The approximate size of the edits in memory, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

/// When edits hide rows that were read, more rows are read: this many or more, doubled each time.
const STEP: usize = 16;

/// Returns up to `limit` rows between two keys: the rows below, with the edits of `overlays`
/// applied. The uppermost overlay comes first. `read` returns rows from below, given two keys and a
/// limit.
pub(crate) fn scan_over<E>(
    overlays: &[&Overlay],
    table: Table,
    (from, to): (&[u8], &[u8]),
    limit: usize,
    mut read: impl FnMut(&[u8], &[u8], usize) -> Result<Vec<Row>, E>,
) -> Result<Vec<Row>, E> {
    if overlays.iter().all(|overlay| overlay.range(table, from, to).next().is_none()) {
        return read(from, to, limit);
    }
    let mut out = Vec::new();
    let mut from = from.to_vec();
    let mut step = limit;
    while out.len() < limit {
        let rows = read(&from, to, step)?;
        let end =
            if rows.len() < step { None } else { rows.last().map(|(key, _)| keys::after(key)) };
        let to = end.as_deref().unwrap_or(to);
        let edits = overlays.iter().map(|overlay| overlay.range(table, &from, to).peekable());
        merge(edits.collect(), rows, |one, other| one < other, limit, &mut out);
        match end {
            None => break,
            Some(end) => from = end,
        }
        // Edits hide some of the rows that were read: read on, in larger steps.
        step = larger_step(step);
    }
    Ok(out)
}

/// As [`scan_over`], but returns the last rows, the last one first. So does `read`.
pub(crate) fn scan_back_over<E>(
    overlays: &[&Overlay],
    table: Table,
    (from, to): (&[u8], &[u8]),
    limit: usize,
    mut read: impl FnMut(&[u8], &[u8], usize) -> Result<Vec<Row>, E>,
) -> Result<Vec<Row>, E> {
    let mut out = Vec::new();
    let mut to = to.to_vec();
    let mut step = limit;
    while out.len() < limit {
        let rows = read(from, &to, step)?;
        let begin = if rows.len() < step { None } else { rows.last().map(|(key, _)| key.clone()) };
        let from = begin.as_deref().unwrap_or(from);
        let edits = overlays.iter().map(|overlay| overlay.range(table, from, &to).rev().peekable());
        merge(edits.collect(), rows, |one, other| one > other, limit, &mut out);
        match begin {
            None => break,
            Some(begin) => to = begin,
        }
        step = larger_step(step);
    }
    Ok(out)
}

fn larger_step(step: usize) -> usize {
    step.max(STEP).saturating_mul(2).min(1024)
}

/// Merges edits with the rows below. All are in the order that `is_before` has.
fn merge<'a>(
    mut above: Vec<Peekable<impl Iterator<Item = RowChange<'a>>>>,
    rows: Vec<Row>,
    is_before: impl Fn(&[u8], &[u8]) -> bool,
    limit: usize,
    out: &mut Vec<Row>,
) {
    let mut below = rows.into_iter().peekable();
    while out.len() < limit {
        let first = above
            .iter_mut()
            .filter_map(|edits| edits.peek().map(|(key, _)| *key))
            .reduce(|one, other| if is_before(other, one) { other } else { one });
        let row = match (first, below.peek()) {
            (None, None) => return,
            (Some(first), Some((key, _))) if is_before(key, first) => below.next(),
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
    fn row_inserted_and_removed_leaves_no_edit() {
        let mut overlay = Overlay::default();
        overlay.insert(Table::Tasks, vec![1], value(1));
        overlay.remove(Table::Tasks, vec![1]);
        assert!(overlay.is_empty());
        assert_eq!(overlay.bytes(), 0);
    }

    #[test]
    fn row_removed_inserted_and_removed_again_is_removed() {
        let mut overlay = Overlay::default();
        overlay.remove(Table::Tasks, vec![1]);
        overlay.insert(Table::Tasks, vec![1], value(1));
        assert_eq!(overlay.get(Table::Tasks, &[1]), Some(Some(&value(1))));
        overlay.remove(Table::Tasks, vec![1]);
        assert_eq!(overlay.get(Table::Tasks, &[1]), Some(None));
        assert_eq!(overlay.edits().count(), 1);
    }

    #[test]
    fn absorb_is_equal_to_both_overlays_in_order() {
        let mut below = Overlay::default();
        below.insert(Table::Tasks, vec![1], value(1));
        below.insert(Table::Tasks, vec![2], value(2));
        below.remove(Table::Tasks, vec![3]);
        let mut above = Overlay::default();
        above.remove(Table::Tasks, vec![1]);
        above.replace(Table::Tasks, vec![2], value(3));
        above.insert(Table::Tasks, vec![3], value(4));
        above.insert(Table::Tasks, vec![4], value(5));
        below.absorb(&mut above);
        assert_eq!(below.get(Table::Tasks, &[1]), None);
        let mut last = Overlay::default();
        last.remove(Table::Tasks, vec![2]);
        last.remove(Table::Tasks, vec![3]);
        last.remove(Table::Tasks, vec![4]);
        below.absorb(&mut last);
        // Only the third row existed below both.
        assert_eq!(below.len(), 1);
        assert_eq!(below.get(Table::Tasks, &[3]), Some(None));
    }

    #[test]
    fn scan_returns_the_uppermost_edit_and_reads_on_past_hidden_rows() {
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
        let overlays = [&top, &middle];
        let found = scan_over(&overlays, Table::Tasks, (&[0], &[60]), 8, &mut read).unwrap();
        let expected = [(40, 0), (42, 0), (44, 0), (46, 0), (48, 0), (50, 1), (51, 3), (52, 0)];
        assert_eq!(found, expected.map(|(key, byte)| (vec![key], value(byte))));
        let all = scan_over(&overlays, Table::Tasks, (&[0], &[60]), 99, &mut read).unwrap();
        assert_eq!(all.len(), 11);
    }

    #[test]
    fn scan_back_returns_the_rows_of_a_scan_from_the_last_one_on() {
        let (mut top, mut middle) = (Overlay::default(), Overlay::default());
        for hidden in 20..60 {
            top.remove(Table::Tasks, vec![hidden]);
        }
        top.replace(Table::Tasks, vec![10], value(1));
        middle.replace(Table::Tasks, vec![10], value(2));
        middle.replace(Table::Tasks, vec![7], value(3));
        middle.replace(Table::Tasks, vec![59], value(4));
        let rows_of = |from: &[u8], to: &[u8]| -> Vec<Row> {
            let rows = (0..60).step_by(2).map(|key| (vec![key], value(0)));
            rows.filter(|(key, _)| from <= &key[..] && &key[..] < to).collect()
        };
        for overlays in [&[&top, &middle][..], &[&middle], &[]] {
            for range in [(&[0][..], &[60][..]), (&[3], &[11]), (&[9], &[30]), (&[9], &[9])] {
                let all = scan_over(overlays, Table::Tasks, range, 99, |from, to, most| {
                    Ok::<_, ()>(rows_of(from, to).into_iter().take(most).collect())
                });
                let mut expected = all.unwrap();
                expected.reverse();
                for limit in 0..40 {
                    let found =
                        scan_back_over(overlays, Table::Tasks, range, limit, |from, to, most| {
                            Ok::<_, ()>(rows_of(from, to).into_iter().rev().take(most).collect())
                        });
                    assert_eq!(found.unwrap(), expected[..limit.min(expected.len())]);
                }
            }
        }
    }

    #[test]
    fn reversed_range_is_empty() {
        let mut overlay = Overlay::default();
        overlay.replace(Table::Tasks, vec![2], value(1));
        assert_eq!(overlay.range(Table::Tasks, &[3], &[1]).count(), 0);
        assert_eq!(overlay.range(Table::Tasks, &[2], &[3]).count(), 1);
    }
}
