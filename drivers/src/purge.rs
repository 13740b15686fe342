//! Removes the rows of dropped and truncated tubes, a slice at a time.

use crate::keys;
use crate::limits::NEVER;
use crate::record::Record;
use crate::tables::{Rows, Table, Value};

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
    for table in [Table::Tasks, Table::Bodies, Table::Places, Table::Heads] {
        if left == 0 {
            return Ok(false);
        }
        let found = rows.scan(table, &prefix, &end, left)?;
        left -= found.len();
        for (key, value) in found {
            if table == Table::Tasks {
                purge_due(rows, space, &key, value);
            }
            rows.remove(table, key);
        }
    }
    Ok(left > 0)
}

fn purge_due<R: Rows>(rows: &mut R, space: u32, key: &[u8], value: Value) {
    let decoded = keys::space_and_shelf(key).and_then(|(_, shelf)| {
        let (_, id) = keys::order_and_id(key)?;
        Ok((shelf, id, Record::decode(id, value)?))
    });
    if let Ok((shelf, id, record)) = decoded
        && let Some(time) = record.header.due(shelf)
    {
        debug_assert_ne!(time, NEVER, "a time of NEVER has no row in dues");
        rows.remove(Table::Dues, keys::due(time, space, id));
    }
}
