//! Removes the rows of dropped and truncated tubes, a slice at a time.

use crate::index_rows::index_rows;
use crate::keys;
use crate::record::Record;
use crate::tables::{Rows, Table, Value};

/// The tables whose keys begin with a space.
const BY_SPACE: [Table; 5] =
    [Table::Tasks, Table::Bodies, Table::Places, Table::Heads, Table::Claims];

/// Removes up to `limit` rows of a space that no tube uses. Returns true when the space is empty.
///
/// A damaged task is removed too. Its row in `dues` stays, because its key is unknown.
///
/// # Errors
/// A row could not be read.
pub fn purge_slice<R: Rows>(rows: &mut R, space: u32, limit: usize) -> Result<bool, R::Error> {
    let prefix = keys::space_prefix(space);
    let end = keys::end_of(&prefix);
    let mut left = limit;
    for table in BY_SPACE {
        if left == 0 {
            return Ok(false);
        }
        let found = rows.scan(table, &prefix, &end, left)?;
        left -= found.len();
        for (key, value) in found {
            if table == Table::Tasks {
                purge_index(rows, space, &key, value);
            }
            rows.remove(table, key);
        }
    }
    Ok(left > 0)
}

/// Removes those index rows of a task that are in tables by other keys.
fn purge_index<R: Rows>(rows: &mut R, space: u32, key: &[u8], value: Value) {
    let decoded = keys::space_and_shelf(key).and_then(|(_, shelf)| {
        let (_, id) = keys::order_and_id(key)?;
        Ok((shelf, id, Record::decode(id, value)?))
    });
    let Ok((shelf, id, record)) = decoded else { return };
    for row in index_rows(space, id, shelf, &record.header) {
        if !BY_SPACE.contains(&row.table()) {
            rows.remove(row.table(), row.key());
        }
    }
}
