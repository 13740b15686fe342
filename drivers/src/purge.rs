//! Removes the rows of dropped and truncated tubes, a slice at a time.

use crate::index_rows::index_rows;
use crate::keys;
use crate::record::Record;
use crate::tables::{Rows, Table, Value};
use crate::tags::forget_tags;
use crate::tokens::purge_token;

/// Removes up to `limit` rows of a space that no tube uses. Returns true when the space is empty.
///
/// A damaged task is removed too. Its row in `dues` and those of its tags stay, because their keys are
/// unknown, and so does the row by time of a token whose other row is damaged.
///
/// # Errors
/// A row could not be read.
pub fn purge_slice<R: Rows>(rows: &mut R, space: u32, limit: usize) -> Result<bool, R::Error> {
    let ranges = ranges_of(space);
    let mut left = limit;
    for (table, prefix) in &ranges {
        if left == 0 {
            return Ok(false);
        }
        let found = rows.scan(*table, prefix, &keys::end_of(prefix), left)?;
        left -= found.len();
        for (key, value) in found {
            if *table == Table::Tasks {
                purge_index(rows, space, &key, value, &ranges)?;
            } else if key.first() == Some(&keys::TOKEN) && *table == Table::Index {
                purge_token(rows, &key, &value)?;
            }
            rows.remove(*table, key);
        }
    }
    Ok(left > 0)
}

type Ranges = [(Table, Vec<u8>); 10];

/// The tables whose keys contain the space at the beginning, with the prefix of its keys.
fn ranges_of(space: u32) -> Ranges {
    let by_space = |table| (table, keys::space_prefix(space));
    [
        by_space(Table::Tasks),
        by_space(Table::Bodies),
        by_space(Table::Places),
        by_space(Table::Heads),
        by_space(Table::Claims),
        by_space(Table::Notes),
        by_space(Table::Days),
        (Table::Index, keys::index_prefix(keys::GROUP, space)),
        (Table::Index, keys::index_prefix(keys::GROUP_COUNT, space)),
        (Table::Index, keys::index_prefix(keys::TOKEN, space)),
    ]
}

/// Removes those index rows of a task that are in none of the ranges of its space. Another task may
/// have its key by now.
fn purge_index<R: Rows>(
    rows: &mut R,
    space: u32,
    key: &[u8],
    value: Value,
    ranges: &Ranges,
) -> Result<(), R::Error> {
    let decoded = keys::space_and_shelf(key).and_then(|(_, shelf)| {
        let (_, id) = keys::order_and_id(key)?;
        Ok((shelf, id, Record::decode(id, value)?))
    });
    let Ok((shelf, id, record)) = decoded else { return Ok(()) };
    forget_tags(rows, id, record.header.tags())?;
    for row in index_rows(space, id, shelf, &record.header) {
        let is_its_own = if row.may_pass_on() {
            rows.get(row.table(), &row.key())? == Some(row.value())
        } else {
            let key = row.key();
            !ranges.iter().any(|(table, prefix)| *table == row.table() && key.starts_with(prefix))
        };
        if is_its_own {
            rows.remove(row.table(), row.key());
        }
    }
    Ok(())
}
